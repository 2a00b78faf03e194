//! Who answers a request of the peer. Pure.

use serde_json::value::RawValue;

use crate::wire::{Frame, Method, RpcError, patch::Object};

use super::ledger::Kind;

/// Where a request of the peer goes.
#[derive(Debug, PartialEq)]
#[must_use]
pub enum Route {
    /// To the host, to be remembered as this.
    Host(Kind),
    /// Nowhere: this is the answer.
    Refuse(RpcError),
}

/// What a host declared that it serves (R16, R17).
#[derive(Debug, Default)]
pub struct Services {
    read: bool,
    write: bool,
    terminal: bool,
    form: bool,
    url: bool,
}

impl Services {
    /// Of its capabilities; what is absent or null is not served.
    pub fn of(capabilities: &Object) -> Self {
        let fs = capabilities.object("fs");
        let elicitation = capabilities.object("elicitation");
        Self {
            read: fs.is_true("readTextFile"),
            write: fs.is_true("writeTextFile"),
            terminal: capabilities.is_true("terminal"),
            form: elicitation.marks("form"),
            url: elicitation.marks("url"),
        }
    }

    /// Where a request of the peer goes: never to a host that did not declare the service (R17, R32).
    pub fn route(&self, method: Method, frame: &Frame) -> Route {
        let kind = match method {
            Method::RequestPermission => Some(Kind::Permission),
            Method::Extension => Some(Kind::Other),
            Method::FsRead => self.read.then_some(Kind::Other),
            Method::FsWrite => self.write.then_some(Kind::Other),
            Method::TerminalCreate => self.terminal.then_some(Kind::TerminalCreate),
            Method::TerminalRelease => self.terminal.then_some(Kind::TerminalRelease),
            m if m.is_terminal() => self.terminal.then_some(Kind::Other),
            Method::ElicitationCreate => self.elicits(frame).then_some(Kind::Elicitation),
            _ => None,
        };
        match kind {
            Some(kind) => Route::Host(kind),
            None if method == Method::ElicitationCreate && (self.form || self.url) => {
                Route::Refuse(RpcError::invalid_params("the host did not declare this elicitation mode"))
            }
            None => Route::Refuse(RpcError::method_not_found(&frame.method_name())),
        }
    }

    fn elicits(&self, frame: &Frame) -> bool {
        let params = Object::of(frame.member("params").map_or("{}", RawValue::get));
        match params.get("mode").map(RawValue::get) {
            Some("\"url\"") => self.url,
            Some("\"form\"") | None => self.form,
            Some(_) => self.form || self.url,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(capabilities: &str, method: &str, params: serde_json::Value) -> Route {
        let frame = Frame::request(method, &params);
        Services::of(&Object::of(capabilities)).route(Method::of(method), &frame)
    }

    /// R16, R17, R32: a service that was not declared is refused by its name, extensions are carried.
    #[test]
    fn only_declared_services_are_called() {
        let none = serde_json::json!({});
        let full =
            r#"{"fs":{"readTextFile":true,"writeTextFile":false},"terminal":true,"elicitation":{"url":{}}}"#;
        let host = |r: Route| matches!(r, Route::Host(_));
        assert!(host(route(full, "fs/read_text_file", none.clone())));
        assert!(!host(route(full, "fs/write_text_file", none.clone())));
        assert!(host(route(full, "terminal/output", none.clone())));
        assert!(!host(route(r#"{"terminal":null,"fs":{}}"#, "terminal/create", none.clone())));
        assert!(host(route("{}", "_vendor/ask", none.clone())));
        assert!(host(route("{}", "session/request_permission", none.clone())));
        assert!(host(route(full, "elicitation/create", serde_json::json!({"mode": "url"}))));
        let form = route(full, "elicitation/create", serde_json::json!({"mode": "form"}));
        assert!(matches!(form, Route::Refuse(e) if e.code == -32602));
        let Route::Refuse(error) = route("{}", "foo/bar", none) else { panic!("carried") };
        assert_eq!((error.code, error.message.contains("foo/bar")), (-32601, true));
    }
}
