//! Where things lie (R255, R273).
//!
//! Follows the XDG base directories; two variables of our own win over them. Reads the environment, creates nothing.

use std::{ffi::OsString, io, path::PathBuf};

/// Where the sockets lie, whatever XDG says.
pub const RUNTIME_VARIABLE: &str = "ACPVISOR_RUNTIME_DIR";
/// Where records, logs and the store lie, whatever XDG says.
pub const STATE_VARIABLE: &str = "ACPVISOR_STATE_DIR";

const APP: &str = "acpvisor";

/// Files and directories of one daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The configuration file; need not exist.
    pub config: PathBuf,
    /// Sockets, 0700.
    pub runtime_dir: PathBuf,
    /// Records, logs and the store, 0700.
    pub state_dir: PathBuf,
}

/// Why it is not known where things lie.
#[derive(Debug, thiserror::Error)]
pub enum PathsError {
    /// Neither the variable nor a home is set.
    #[error("find a place for the {what}: set HOME to an absolute path, or {variable}")]
    NoHome {
        /// What has no place.
        what: &'static str,
        /// The variable that would give it one.
        variable: &'static str,
    },
    /// A variable of our own is no absolute path.
    #[error("use {variable}={value:?}: it must be an absolute path")]
    Relative {
        /// The variable.
        variable: &'static str,
        /// What it says.
        value: PathBuf,
    },
    /// The file named on the command line cannot be used.
    #[error("find the configuration {} that --config names: {source}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl Paths {
    /// The paths of this process; `config` is what `--config` names, which must be there.
    pub fn from_env(config: Option<PathBuf>) -> Result<Self, PathsError> {
        let paths = Self::locate(config.clone(), |name| std::env::var_os(name))?;
        let Some(named) = config else { return Ok(paths) };
        // A file that was asked for by name and is not there is a slip, not a wish for the defaults.
        let found = named.metadata().and_then(|_| std::path::absolute(&named));
        let config = found.map_err(|source| PathsError::Config { path: named, source })?;
        Ok(Self { config, ..paths })
    }

    /// The same from any environment.
    pub fn locate(
        config: Option<PathBuf>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, PathsError> {
        let set = |name: &str| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        // The XDG specification: "if an implementation encounters a relative path, it should ignore it".
        let absolute = |name: &str| set(name).filter(|p| p.is_absolute());
        let home = |what, variable, below: &str| match absolute("HOME") {
            Some(home) => Ok(home.join(below)),
            None => Err(PathsError::NoHome { what, variable }),
        };
        let config = match config
            .or_else(|| absolute("XDG_CONFIG_HOME").map(|dir| dir.join(APP).join("config.toml")))
        {
            Some(file) => file,
            None => home("configuration", "XDG_CONFIG_HOME", ".config/acpvisor/config.toml")?,
        };
        let state = own(STATE_VARIABLE, set(STATE_VARIABLE))?;
        let state_dir = match state.or_else(|| absolute("XDG_STATE_HOME").map(|dir| dir.join(APP))) {
            Some(dir) => dir,
            None => home("state", STATE_VARIABLE, ".local/state/acpvisor")?,
        };
        let runtime_dir = own(RUNTIME_VARIABLE, set(RUNTIME_VARIABLE))?
            .or_else(|| absolute("XDG_RUNTIME_DIR").map(|dir| dir.join(APP)))
            .unwrap_or_else(|| state_dir.join("run"));
        Ok(Self { config, runtime_dir, state_dir })
    }

    /// The socket that speaks ACP.
    pub fn host_socket(&self) -> PathBuf {
        self.runtime_dir.join("host.sock")
    }

    /// The operator's socket.
    pub fn control_socket(&self) -> PathBuf {
        self.runtime_dir.join("control.sock")
    }

    /// The lock whose owner may bind the sockets.
    pub fn runtime_lock(&self) -> PathBuf {
        self.runtime_dir.join("runtime.lock")
    }

    /// The lock whose owner may write state.
    pub fn state_lock(&self) -> PathBuf {
        self.state_dir.join("state.lock")
    }

    /// The log's own directory.
    pub fn logs_dir(&self) -> PathBuf {
        self.state_dir.join("logs")
    }

    /// Records of running peers, for the next start.
    pub fn peers_dir(&self) -> PathBuf {
        self.state_dir.join("peers")
    }

    /// Homes of sessions whose agent wants a scratch one (R234).
    pub fn homes_dir(&self) -> PathBuf {
        self.state_dir.join("homes")
    }
}

/// What a variable of our own names: it was set for us, so that a relative path is an error.
fn own(variable: &'static str, value: Option<PathBuf>) -> Result<Option<PathBuf>, PathsError> {
    match value {
        Some(value) if value.is_relative() => Err(PathsError::Relative { variable, value }),
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn locate(variables: &[(&str, &str)]) -> Result<Paths, PathsError> {
        Paths::locate(None, |name| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into()))
    }

    #[test]
    fn a_home_alone_is_enough() {
        let paths = locate(&[("HOME", "/h")]).unwrap();
        assert_eq!(paths.config, Path::new("/h/.config/acpvisor/config.toml"));
        assert_eq!(paths.state_dir, Path::new("/h/.local/state/acpvisor"));
        assert_eq!(paths.host_socket(), Path::new("/h/.local/state/acpvisor/run/host.sock"));
    }

    /// R255, R266: the base directories are followed.
    #[test]
    fn the_base_directories_win_over_the_home() {
        let xdg = [("XDG_CONFIG_HOME", "/c"), ("XDG_STATE_HOME", "/s"), ("XDG_RUNTIME_DIR", "/r")];
        let paths = locate(&xdg).unwrap();
        assert_eq!(paths.config, Path::new("/c/acpvisor/config.toml"));
        assert_eq!(paths.logs_dir(), Path::new("/s/acpvisor/logs"));
        assert_eq!(paths.peers_dir(), Path::new("/s/acpvisor/peers"));
        assert_eq!(paths.state_lock(), Path::new("/s/acpvisor/state.lock"));
        assert_eq!(paths.runtime_lock(), Path::new("/r/acpvisor/runtime.lock"));
        assert_eq!(paths.control_socket(), Path::new("/r/acpvisor/control.sock"));
    }

    #[test]
    fn variables_of_our_own_win_over_everything() {
        let paths = locate(&[
            ("HOME", "/h"),
            ("XDG_STATE_HOME", "/s"),
            ("XDG_RUNTIME_DIR", "/r"),
            (STATE_VARIABLE, "/mine/state"),
            (RUNTIME_VARIABLE, "/mine/run"),
        ]);
        let paths = paths.unwrap();
        assert_eq!((paths.state_dir, paths.runtime_dir), ("/mine/state".into(), "/mine/run".into()));
    }

    #[test]
    fn relative_and_empty_base_directories_are_ignored() {
        let relative =
            [("HOME", "/h"), ("XDG_CONFIG_HOME", "c"), ("XDG_STATE_HOME", "./s"), ("XDG_RUNTIME_DIR", "")];
        assert_eq!(locate(&relative).unwrap(), locate(&[("HOME", "/h")]).unwrap());
    }

    #[test]
    fn no_home_at_all_says_what_to_set() {
        for home in [&[][..], &[("HOME", "")], &[("HOME", "relative")]] {
            let said = locate(home).unwrap_err().to_string();
            assert_eq!(
                said,
                "find a place for the configuration: set HOME to an absolute path, or XDG_CONFIG_HOME"
            );
        }
        let said = locate(&[("XDG_CONFIG_HOME", "/c")]).unwrap_err().to_string();
        assert!(said.ends_with("or ACPVISOR_STATE_DIR"), "{said}");
        let said = locate(&[("HOME", "/h"), (RUNTIME_VARIABLE, "run")]).unwrap_err().to_string();
        assert_eq!(said, "use ACPVISOR_RUNTIME_DIR=\"run\": it must be an absolute path");
    }

    #[test]
    fn a_configuration_named_and_not_there_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mine.toml");
        let missing = Paths::from_env(Some(file.clone()));
        assert!(missing.unwrap_err().to_string().contains("that --config names: No such file"));
        std::fs::write(&file, "").unwrap();
        assert_eq!(Paths::from_env(Some(file.clone())).unwrap().config, file);
    }
}
