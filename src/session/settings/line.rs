//! The lines that settings are made of: requests to a peer, updates to a host. Pure.

use agent_client_protocol_schema::v1::{
    CurrentModeUpdate, SessionNotification, SessionUpdate, SetSessionModeRequest,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::change::{Setting, raw};
use crate::{id::SessionId, wire::Frame};

/// The request that sets it on a peer; `None` of what no peer knows.
pub fn request(session: &SessionId, setting: &Setting) -> Option<Frame> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Model<'a> {
        session_id: &'a str,
        model_id: &'a str,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Option<'a> {
        session_id: &'a str,
        config_id: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        r#type: &'a str,
        value: &'a RawValue,
    }
    let session_id = session.as_str();
    Some(match setting {
        Setting::Approval(_) => return None,
        Setting::Mode(id) => {
            let params = SetSessionModeRequest::new(session_id.to_owned(), id.clone());
            Frame::request("session/set_mode", &params)
        }
        Setting::Model(id) => Frame::request("session/set_model", &Model { session_id, model_id: id }),
        Setting::Option { id, value } => {
            let value = raw(value);
            // The protocol wants the type of what is no id of a value.
            let r#type = if matches!(value.get(), "true" | "false") { "boolean" } else { "" };
            let params = Option { session_id, config_id: id, r#type, value: &value };
            Frame::request("session/set_config_option", &params)
        }
    })
}

/// Tells a host the current mode.
pub fn current_mode(session: &SessionId, id: &str) -> Frame {
    let update = SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new(id.to_owned()));
    Frame::notification("session/update", &SessionNotification::new(session.to_string(), update))
}

/// Tells a host the complete list of options.
pub fn options(session: &SessionId, list: &[Box<RawValue>]) -> Frame {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Update<'a> {
        session_update: &'a str,
        config_options: &'a [Box<RawValue>],
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        session_id: &'a str,
        update: Update<'a>,
    }
    let update = Update { session_update: "config_option_update", config_options: list };
    Frame::notification("session/update", &Params { session_id: session.as_str(), update })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(frame: &Frame) -> &str {
        frame.member("params").unwrap().get()
    }

    /// R12, R284: stable, plain, and values as they were written.
    #[test]
    fn what_is_asked_of_a_peer_is_what_the_protocol_says() {
        let s = SessionId::parse("s").unwrap();
        let option = |value: &str| {
            let setting = Setting::Option { id: "o".to_owned(), value: value.to_owned() };
            params(&request(&s, &setting).unwrap()).to_owned()
        };
        assert_eq!(option(r#""\u0061""#), r#"{"sessionId":"s","configId":"o","value":"\u0061"}"#);
        assert_eq!(option("true"), r#"{"sessionId":"s","configId":"o","type":"boolean","value":true}"#);
        let mode = request(&s, &Setting::Mode("m".to_owned())).unwrap();
        assert_eq!(
            (mode.method_name().as_str(), params(&mode)),
            ("session/set_mode", r#"{"sessionId":"s","modeId":"m"}"#)
        );
        let model = request(&s, &Setting::Model("m".to_owned())).unwrap();
        assert_eq!(params(&model), r#"{"sessionId":"s","modelId":"m"}"#);
        assert!(request(&s, &Setting::Approval(crate::policy::Approval::Yolo)).is_none());
        let mode = current_mode(&s, "m");
        assert_eq!(
            params(&mode),
            r#"{"sessionId":"s","update":{"sessionUpdate":"current_mode_update","currentModeId":"m"}}"#
        );
        let list = options(&s, &[raw(r#"{"id":1.0}"#)]);
        assert_eq!(
            params(&list),
            r#"{"sessionId":"s","update":{"sessionUpdate":"config_option_update","configOptions":[{"id":1.0}]}}"#
        );
    }
}
