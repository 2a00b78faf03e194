//! The errors this agent answers with.

use serde_json::{Value, json};

/// A JSON-RPC error answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Refusal {
    code: i64,
    message: String,
    data: Option<Value>,
}

impl Refusal {
    /// The line is no JSON.
    pub fn parse(error: &serde_json::Error) -> Self {
        Self::new(-32700, format!("the line is no JSON: {error}"))
    }

    /// The value is no request, or none for this moment.
    pub fn request(why: &str) -> Self {
        Self::new(-32600, why)
    }

    /// No such method here.
    pub fn method(name: &str) -> Self {
        Self::new(-32601, format!("{name} is no method of this agent"))
    }

    /// A parameter is missing or wrong.
    pub fn params(why: impl Into<String>) -> Self {
        Self::new(-32602, why)
    }

    /// No such session.
    pub fn session(id: &str) -> Self {
        let data = Some(json!({"sessionId": id}));
        Self { data, ..Self::new(-32002, format!("there is no session {id} here")) }
    }

    fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The `error` member of the answer.
    pub fn into_value(self) -> Value {
        match self.data {
            None => json!({"code": self.code, "message": self.message}),
            Some(data) => json!({"code": self.code, "message": self.message, "data": data}),
        }
    }
}
