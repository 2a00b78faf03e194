//! The methods of ACP v1 that mean something to the daemon. Everything else is [`Method::Other`] and passes (R275).

/// A method the daemon routes by name; source: the ACP v1 schema, crate 1.20.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the protocol's own")]
pub enum Method {
    Initialize,
    Authenticate,
    Logout,
    SessionNew,
    SessionLoad,
    SessionResume,
    SessionFork,
    SessionList,
    SessionDelete,
    SessionClose,
    SessionPrompt,
    SessionCancel,
    SessionSetMode,
    SessionSetConfigOption,
    SessionUpdate,
    RequestPermission,
    FsRead,
    FsWrite,
    TerminalCreate,
    TerminalOutput,
    TerminalWaitForExit,
    TerminalKill,
    TerminalRelease,
    ElicitationCreate,
    ElicitationComplete,
    CancelRequest,
    /// The bridge's first line (R252).
    Hello,
    /// Begins with `_`: relayed to the host (R32).
    Extension,
    /// Not known to the daemon.
    Other,
}

const NAMES: &[(&str, Method)] = &[
    ("session/update", Method::SessionUpdate),
    ("session/prompt", Method::SessionPrompt),
    ("session/cancel", Method::SessionCancel),
    ("session/request_permission", Method::RequestPermission),
    ("fs/read_text_file", Method::FsRead),
    ("fs/write_text_file", Method::FsWrite),
    ("terminal/create", Method::TerminalCreate),
    ("terminal/output", Method::TerminalOutput),
    ("terminal/wait_for_exit", Method::TerminalWaitForExit),
    ("terminal/kill", Method::TerminalKill),
    ("terminal/release", Method::TerminalRelease),
    ("elicitation/create", Method::ElicitationCreate),
    ("elicitation/complete", Method::ElicitationComplete),
    ("$/cancel_request", Method::CancelRequest),
    ("initialize", Method::Initialize),
    ("authenticate", Method::Authenticate),
    ("logout", Method::Logout),
    ("session/new", Method::SessionNew),
    ("session/load", Method::SessionLoad),
    ("session/resume", Method::SessionResume),
    ("session/fork", Method::SessionFork),
    ("session/list", Method::SessionList),
    ("session/delete", Method::SessionDelete),
    ("session/close", Method::SessionClose),
    ("session/set_mode", Method::SessionSetMode),
    ("session/set_config_option", Method::SessionSetConfigOption),
    (HELLO, Method::Hello),
];

/// The bridge's first line on the host socket (R252).
pub const HELLO: &str = "_acpvisor/hello";

impl Method {
    /// The method of that name.
    pub fn of(name: &str) -> Self {
        let known = NAMES.iter().find(|(n, _)| *n == name).map(|(_, m)| *m);
        known.unwrap_or(if name.starts_with('_') { Self::Extension } else { Self::Other })
    }

    /// Its name; empty for what the daemon does not know by name.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, method)| *method == self).map_or("", |(name, _)| name)
    }

    /// Whether it opens a session on the process that gets it, however it is answered.
    pub fn opens_session(self) -> bool {
        matches!(self, Self::SessionNew | Self::SessionLoad | Self::SessionResume | Self::SessionFork)
    }

    /// Whether the services of a host answer it: offered to a peer only where the host declared them (R17).
    pub fn is_terminal(self) -> bool {
        use Method::{TerminalCreate, TerminalKill, TerminalOutput, TerminalRelease, TerminalWaitForExit};
        matches!(self, TerminalCreate | TerminalOutput | TerminalWaitForExit | TerminalKill | TerminalRelease)
    }
}
