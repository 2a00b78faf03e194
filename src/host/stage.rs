//! How far a connection has come, and what it may ask. Pure.

use crate::wire::{Method, RpcError};

/// The life of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Nothing came yet, or only the hello.
    First,
    /// `initialize` is being answered.
    Initialising,
    /// Anything may be asked.
    Ready,
    /// Nothing more is read.
    Closing,
}

/// Who answers a request of a host.
#[derive(Debug, PartialEq)]
#[must_use]
pub enum Desk {
    /// It initialises the connection.
    Initialize,
    /// It makes a session.
    New,
    /// It takes a session up, with or without its history.
    Take,
    /// It makes a session that begins with the history of another.
    Fork,
    /// It lists what is saved.
    List,
    /// It removes a session for good.
    Delete,
    /// It ends a session.
    Close,
    /// The session that it names.
    Session,
    /// The agent process of the connection (R13, R18).
    Process,
    /// Nobody: this is the answer.
    Refuse(RpcError),
}

impl Stage {
    /// Who answers this request; `named` says whether it names a session.
    pub fn desk(self, method: Method, name: &str, named: bool) -> Desk {
        match method {
            Method::Initialize if self == Self::Initialising => {
                Desk::Refuse(RpcError::invalid_request("initialize is being answered already"))
            }
            Method::Initialize => Desk::Initialize,
            _ if self != Self::Ready => {
                Desk::Refuse(RpcError::invalid_request(format!("{name} before initialize was answered")))
            }
            Method::SessionNew => Desk::New,
            Method::SessionLoad | Method::SessionResume => Desk::Take,
            Method::SessionFork => Desk::Fork,
            Method::SessionList => Desk::List,
            Method::SessionDelete => Desk::Delete,
            Method::SessionClose => Desk::Close,
            Method::SessionPrompt | Method::SessionSetMode | Method::SessionSetConfigOption if !named => {
                Desk::Refuse(RpcError::invalid_params("sessionId is missing or no string"))
            }
            _ if named => Desk::Session,
            _ => Desk::Process,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R13, R19: nothing but initialize goes before it; then each request has one desk.
    #[test]
    fn every_request_has_one_desk() {
        let desk = |stage: Stage, name: &str, named| stage.desk(Method::of(name), name, named);
        assert!(matches!(desk(Stage::First, "session/new", false), Desk::Refuse(e) if e.code == -32600));
        assert_eq!(desk(Stage::First, "initialize", false), Desk::Initialize);
        assert_eq!(desk(Stage::Ready, "session/from_the_future", true), Desk::Session);
        assert_eq!(desk(Stage::Ready, "session/from_the_future", false), Desk::Process);
        assert_eq!(desk(Stage::Ready, "authenticate", false), Desk::Process);
        assert_eq!(desk(Stage::Ready, "session/list", false), Desk::List);
        assert_eq!(desk(Stage::Ready, "session/load", true), Desk::Take);
        assert!(matches!(desk(Stage::First, "session/load", true), Desk::Refuse(e) if e.code == -32600));
        assert!(matches!(desk(Stage::Ready, "session/prompt", false), Desk::Refuse(e) if e.code == -32602));
    }
}
