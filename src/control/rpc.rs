//! JSON-RPC 2.0 as the control socket speaks it: one request a line, no batches (R238). Pure.

use serde_json::{Map, Value, json};

use crate::store::StoreError;

/// One line as it was understood.
#[derive(Debug, PartialEq)]
pub struct Message {
    /// What the answer carries; `None` wants no answer. What has no readable id is answered under null.
    pub id: Option<Value>,
    /// What it asks, or why it cannot.
    pub call: Result<Call, Refusal>,
}

/// What a request asks.
#[derive(Debug, PartialEq)]
pub struct Call {
    /// The method.
    pub method: String,
    /// Its params; null when absent.
    pub params: Value,
}

/// An error answer.
#[derive(Debug, PartialEq)]
pub struct Refusal {
    /// JSON-RPC's code.
    pub code: i32,
    /// For people.
    pub message: String,
    /// For programs.
    pub data: Option<Value>,
}

impl Refusal {
    fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The line is no JSON.
    pub fn parse(why: impl Into<String>) -> Self {
        Self::new(-32700, why)
    }

    /// The line is no request.
    pub fn request(why: impl Into<String>) -> Self {
        Self::new(-32600, why)
    }

    /// There is no such method.
    pub fn unknown_method(method: &str) -> Self {
        let shown: String = method.chars().take(64).collect();
        Self::new(-32601, format!("unknown method {shown:?}"))
    }

    /// The method does not take these params.
    pub fn params(why: String) -> Self {
        Self::new(-32602, why)
    }

    /// Something here went wrong.
    pub fn internal(why: impl Into<String>) -> Self {
        Self::new(-32603, why)
    }

    /// The store did not do it.
    pub fn of(error: &StoreError) -> Self {
        let full = || Some(json!({ "resource": "inbox", "retryable": true }));
        match error {
            StoreError::Unknown(id) => Self::unknown_session(id),
            StoreError::QueueFull { .. } => Self { data: full(), ..Self::internal(error.to_string()) },
            _ => Self::internal(error.to_string()),
        }
    }

    /// The same, of something that came after a message was stored.
    pub fn although_stored(self, entry: &str) -> Self {
        let message = format!("the message is stored, but its session is not live: {}", self.message);
        Self { message, data: Some(json!({ "entry": entry })), ..self }
    }

    /// No session is called that.
    pub fn unknown_session(id: &str) -> Self {
        let data = Some(json!({ "sessionId": id }));
        Self { data, ..Self::new(-32002, "unknown session") }
    }
}

/// Reads a line.
pub fn read(line: &[u8]) -> Message {
    let refused = |refusal| Message { id: Some(Value::Null), call: Err(refusal) };
    let mut members = match serde_json::from_slice(line) {
        Ok(Value::Object(members)) => members,
        Ok(Value::Array(_)) => {
            return refused(Refusal::request("batches are not served; send one request a line"));
        }
        Ok(_) => return refused(Refusal::request("a request is an object")),
        Err(error) => return refused(Refusal::parse(format!("no JSON: {error}"))),
    };
    match members.remove("id") {
        Some(Value::Object(_) | Value::Array(_) | Value::Bool(_)) => {
            refused(Refusal::request("id: expected a string, a number or null"))
        }
        None if !members.contains_key("method") => refused(Refusal::request("method: expected a string")),
        id => Message { id, call: call(members) },
    }
}

fn call(mut members: Map<String, Value>) -> Result<Call, Refusal> {
    if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(Refusal::request("jsonrpc: expected \"2.0\""));
    }
    match members.remove("method") {
        Some(Value::String(method)) => {
            Ok(Call { method, params: members.remove("params").unwrap_or(Value::Null) })
        }
        _ => Err(Refusal::request("method: expected a string")),
    }
}

/// A line that tells something unasked.
pub fn notification(method: &str, params: impl serde::Serialize) -> Vec<u8> {
    #[derive(serde::Serialize)]
    struct Line<'a, P> {
        jsonrpc: &'a str,
        method: &'a str,
        params: P,
    }
    let line = Line { jsonrpc: "2.0", method, params };
    let mut line = serde_json::to_vec(&line).expect("what is told is plain data");
    line.push(b'\n');
    line
}

/// The line that answers.
pub fn answer(id: &Value, outcome: Result<Value, Refusal>) -> Vec<u8> {
    let message = match outcome {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(Refusal { code, message, data: None }) => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
        }
        Err(Refusal { code, message, data: Some(data) }) => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message, "data": data } })
        }
    };
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> (Value, i32) {
        let message = read(line.as_bytes());
        (message.id.expect(line), message.call.expect_err(line).code)
    }

    #[test]
    fn ids_of_every_lawful_kind_are_kept() {
        for id in [json!(0), json!("a"), json!(null), json!(1.5)] {
            let line = json!({ "jsonrpc": "2.0", "id": id, "method": "m", "params": { "a": 1 } }).to_string();
            let call = Call { method: "m".into(), params: json!({ "a": 1 }) };
            assert_eq!(read(line.as_bytes()), Message { id: Some(id), call: Ok(call) });
        }
        let notification = read(br#"{"jsonrpc":"2.0","method":"m"}"#);
        assert_eq!(
            notification,
            Message { id: None, call: Ok(Call { method: "m".into(), params: Value::Null }) }
        );
    }

    /// R238, R257: what is no request is refused by its code, under its id where it has one.
    #[test]
    fn what_is_no_request_is_refused_by_its_code() {
        assert_eq!(refused("{"), (Value::Null, -32700));
        assert_eq!(refused("\u{feff}{}"), (Value::Null, -32700));
        assert_eq!(refused(&"[".repeat(1_000)), (Value::Null, -32700));
        assert_eq!(refused("[]"), (Value::Null, -32600));
        assert_eq!(refused(r#"[{"jsonrpc":"2.0","id":1,"method":"status"}]"#), (Value::Null, -32600));
        assert_eq!(refused("1"), (Value::Null, -32600));
        assert_eq!(refused("{}"), (Value::Null, -32600));
        assert_eq!(refused(r#"{"id":3,"method":"status"}"#), (json!(3), -32600));
        assert_eq!(refused(r#"{"jsonrpc":"2.0","id":3,"method":7}"#), (json!(3), -32600));
        assert_eq!(refused(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#), (json!(3), -32600));
        assert_eq!(refused(r#"{"jsonrpc":"2.0","id":{},"method":"status"}"#), (Value::Null, -32600));
    }

    #[test]
    fn an_answer_is_one_line() {
        let line = answer(&json!(1), Ok(json!({ "text": "a\nb" })));
        assert_eq!(line, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"text\":\"a\\nb\"}}\n");
        let line = answer(&Value::Null, Err(Refusal::unknown_session("s")));
        let text = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32002,"message":"unknown session","data":{"sessionId":"s"}}}"#;
        assert_eq!(String::from_utf8(line).unwrap().trim_end(), text);
    }
}
