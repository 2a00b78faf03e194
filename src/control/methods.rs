//! Every method with the types of its params and results. `docs/control.md` describes the same; a test compares.
//!
//! Members are snake_case; times are milliseconds or RFC 3339 in UTC. Pure.

mod daemon;
mod params;
mod sessions;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::rpc::Refusal;
use params::NoParams;

pub use daemon::{AgentEntry, Agents, Node, Ordered, Places, Residency, Status, Tree};
pub use params::{
    EditParams, EntryParams, ExportParams, Format, ListParams, SendParams, SessionParams, SubscribeParams,
    UnsubscribeParams,
};
pub use sessions::{Entry, Exported, Inbox, Prompt, Sent, Session, Sessions, Shown, Subscribed};

/// Names of all methods, in the order of the reference page.
pub const METHODS: &[&str] = &[
    "status",
    "tree",
    "agents",
    "sessions.list",
    "sessions.show",
    "sessions.send",
    "sessions.cancel",
    "sessions.detach",
    "sessions.close",
    "sessions.kill",
    "sessions.delete",
    "sessions.export",
    "inbox.list",
    "inbox.show",
    "inbox.edit",
    "inbox.remove",
    "inbox.again",
    "events.subscribe",
    "events.unsubscribe",
    "shutdown",
];

/// What an operator asks.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "every request is answered"]
pub enum Request {
    /// How the daemon is. Answers [`Status`].
    Status,
    /// The supervision tree as it is. Answers [`Tree`].
    Tree,
    /// The agents that can be started. Answers [`Agents`].
    Agents,
    /// The live sessions, and those that are saved. Answers [`Sessions`].
    SessionsList(ListParams),
    /// One of them with what is known of it. Answers [`Shown`].
    SessionsShow(SessionParams),
    /// Puts a message into its inbox. Answers [`Sent`] when that is on the disk.
    SessionsSend(SendParams),
    /// Cancels what it runs, as `session/cancel` does. Answers [`Ordered`] when the order is given.
    SessionsCancel(SessionParams),
    /// Takes it from its host; what it runs goes on. Answers [`Ordered`] when that is done.
    SessionsDetach(SessionParams),
    /// Ends it with the usual grace. Answers [`Ordered`] when it is gone.
    SessionsClose(SessionParams),
    /// Ends it without any grace. Answers [`Ordered`] when it is gone.
    SessionsKill(SessionParams),
    /// Ends it and removes everything that is known of it. Answers [`Ordered`] when that is done.
    SessionsDelete(SessionParams),
    /// Hands out its transcript in pieces. Answers [`Exported`] behind the last.
    SessionsExport(ExportParams),
    /// What its inbox holds. Answers [`Inbox`].
    InboxList(SessionParams),
    /// One message of it. Answers [`Entry`].
    InboxShow(EntryParams),
    /// Lets a message that waits say something else. Answers [`Ordered`].
    InboxEdit(EditParams),
    /// Takes a message out. Answers [`Ordered`].
    InboxRemove(EntryParams),
    /// Lets a message that is over run again. Answers [`Ordered`].
    InboxAgain(EntryParams),
    /// Begins a stream of events. Answers [`Subscribed`] before the first.
    EventsSubscribe(SubscribeParams),
    /// Ends it. Answers [`Ordered`] behind the last.
    EventsUnsubscribe(UnsubscribeParams),
    /// Stops the daemon. Answers [`Ordered`] before it begins.
    Shutdown,
}

impl Request {
    /// Reads a request; refuses an unknown method and params that are not its own.
    pub fn read(method: &str, params: Value) -> Result<Self, Refusal> {
        Ok(match method {
            "status" => none(params, Self::Status)?,
            "tree" => none(params, Self::Tree)?,
            "agents" => none(params, Self::Agents)?,
            "sessions.list" => Self::SessionsList(members(params)?),
            "sessions.show" => Self::SessionsShow(members(params)?),
            "sessions.send" => Self::SessionsSend(members(params)?),
            "sessions.cancel" => Self::SessionsCancel(members(params)?),
            "sessions.detach" => Self::SessionsDetach(members(params)?),
            "sessions.close" => Self::SessionsClose(members(params)?),
            "sessions.kill" => Self::SessionsKill(members(params)?),
            "sessions.delete" => Self::SessionsDelete(members(params)?),
            "sessions.export" => Self::SessionsExport(members(params)?),
            "inbox.list" => Self::InboxList(members(params)?),
            "inbox.show" => Self::InboxShow(members(params)?),
            "inbox.edit" => Self::InboxEdit(members(params)?),
            "inbox.remove" => Self::InboxRemove(members(params)?),
            "inbox.again" => Self::InboxAgain(members(params)?),
            "events.subscribe" => Self::EventsSubscribe(members(params)?),
            "events.unsubscribe" => Self::EventsUnsubscribe(members(params)?),
            "shutdown" => none(params, Self::Shutdown)?,
            unknown => return Err(Refusal::unknown_method(unknown)),
        })
    }
}

fn none(params: Value, request: Request) -> Result<Request, Refusal> {
    members::<NoParams>(params).map(|NoParams {}| request)
}

fn members<P: DeserializeOwned>(params: Value) -> Result<P, Refusal> {
    let params = match params {
        Value::Null => Value::Object(serde_json::Map::new()),
        Value::Object(members) => Value::Object(members),
        _ => return Err(Refusal::params("params: expected an object".to_owned())),
    };
    serde_path_to_error::deserialize(params).map_err(|error| {
        // An error about a missing or unknown member names it itself and has no path.
        let path = error.path().to_string();
        let place = if path == "." { "params".to_owned() } else { format!("params.{path}") };
        Refusal::params(format!("{place}: {}", error.inner()))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_method_is_read() {
        let entry = json!({ "id": "s", "entry": "e" });
        let message = json!({ "id": "s", "entry": "e", "text": "t" });
        for method in METHODS {
            let params = match *method {
                "status" | "tree" | "agents" | "sessions.list" | "events.subscribe" | "shutdown" => {
                    Value::Null
                }
                "sessions.send" | "inbox.edit" => message.clone(),
                "inbox.show" | "inbox.remove" | "inbox.again" => entry.clone(),
                "sessions.export" => json!({ "id": "s", "format": "events" }),
                "events.unsubscribe" => json!({ "subscription": 1 }),
                _ => json!({ "id": "s" }),
            };
            assert!(Request::read(method, params).is_ok(), "{method}");
            assert!(Request::read(method, json!({ "of_tomorrow": 1 })).is_err(), "{method}");
        }
        assert_eq!(Request::read("nope", Value::Null).unwrap_err().code, -32601);
    }

    /// R257: wrong params name the member.
    #[test]
    fn wrong_params_name_the_member() {
        for (method, params, said) in [
            ("sessions.show", json!({ "id": 7 }), "params.id: invalid type: integer `7`, expected a string"),
            ("sessions.show", json!({}), "params: missing field `id`"),
            ("sessions.show", Value::Null, "params: missing field `id`"),
            ("sessions.show", json!({ "id": "a", "x": 1 }), "params.x: unknown field `x`, expected `id`"),
            ("sessions.show", json!(["a"]), "params: expected an object"),
            ("status", json!({ "x": 1 }), "params.x: unknown field `x`, there are no fields"),
            (
                "sessions.list",
                json!({ "limit": "9" }),
                "params.limit: invalid type: string \"9\", expected usize",
            ),
            (
                "sessions.export",
                json!({ "id": "a", "format": "html" }),
                "params.format: unknown variant `html`, expected one of `ndjson`, `events`, `markdown`",
            ),
        ] {
            let refusal = Request::read(method, params).unwrap_err();
            assert_eq!((refusal.code, refusal.message.as_str()), (-32602, said));
        }
    }

    /// R257: the reference page describes exactly the methods there are.
    #[test]
    fn the_reference_page_has_every_method() {
        let page = include_str!("../../docs/control.md");
        let headings = page.lines().filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`'));
        assert_eq!(headings.collect::<Vec<_>>(), METHODS);
    }
}
