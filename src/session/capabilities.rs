//! What a host is offered: the agent's own answer, changed only where the daemon adds or withholds (R14). Pure.

use serde_json::{json, value::RawValue};

use crate::wire::patch::Object;

/// Session methods that the daemon serves itself, whatever its agent can (R14).
const SERVED: [&str; 4] = ["list", "resume", "close", "delete"];

/// The answer to a host's `initialize`, from the answer of its agent; `fork` says whether forking is on (R49).
pub fn offer(answer: &Object, host: &Object, agent: &str, fork: bool) -> Object {
    let mut offer = answer.clone();
    offer.set("protocolVersion", &1);
    offer.set("agentCapabilities", &capabilities(answer, fork));
    if answer.marks("authMethods") {
        offer.set("authMethods", &auth_methods(answer, host));
    }
    let about = json!({ "name": "acpvisor", "version": env!("CARGO_PKG_VERSION") });
    if !answer.marks("agentInfo") {
        offer.set("agentInfo", &about);
    }
    let mut meta = answer.object("_meta");
    meta.set("acpvisor", &json!({ "version": env!("CARGO_PKG_VERSION"), "agent": agent }));
    offer.set("_meta", &meta);
    offer
}

fn capabilities(answer: &Object, fork: bool) -> Object {
    let mut all = answer.object("agentCapabilities");
    all.set("loadSession", &true);
    let mut session = all.object("sessionCapabilities");
    ["archive", "fork"].iter().for_each(|name| session.remove(name));
    SERVED.iter().for_each(|name| session.set(name, &json!({})));
    if fork {
        session.set("fork", &json!({}));
    }
    all.set("sessionCapabilities", &session);
    let mut mcp = all.object("mcpCapabilities");
    if mcp.marks("acp") {
        mcp.remove("acp");
        all.set("mcpCapabilities", &mcp);
    }
    all
}

/// A `terminal` method is offered only to a host that declared it (R18).
fn auth_methods(answer: &Object, host: &Object) -> Vec<Box<RawValue>> {
    let all = answer.get("authMethods").map_or("[]", RawValue::get);
    let mut methods: Vec<Box<RawValue>> = serde_json::from_str(all).unwrap_or_default();
    if !host.object("auth").is_true("terminal") {
        let terminal =
            |m: &RawValue| Object::of(m.get()).get("type").map(RawValue::get) == Some("\"terminal\"");
        methods.retain(|m| !terminal(m));
    }
    methods
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(answer: &str, host: &str) -> serde_json::Value {
        let offer = offer(&Object::of(answer), &Object::of(host), "a", true);
        serde_json::to_value(&offer).expect("plain")
    }

    /// R14: what the agent says stays, what the daemon does not serve is withheld, what it serves is added.
    #[test]
    fn the_offer_is_the_agents_own_answer() {
        let o = offered(
            r#"{"protocolVersion":1,"agentInfo":{"name":"x"},"future":[1.10],"agentCapabilities":
               {"loadSession":true,"promptCapabilities":{"image":true},"mcpCapabilities":{"http":true,"acp":{}},
                "sessionCapabilities":{"list":{},"fork":{},"title":{}}}}"#,
            "{}",
        );
        let c = &o["agentCapabilities"];
        assert_eq!((&c["loadSession"], &c["promptCapabilities"]["image"]), (&json!(true), &json!(true)));
        let served = json!({"list": {}, "title": {}, "resume": {}, "close": {}, "delete": {}, "fork": {}});
        assert_eq!(c["sessionCapabilities"], served);
        assert_eq!(c["mcpCapabilities"], json!({"http": true}));
        assert_eq!((&o["agentInfo"]["name"], &o["_meta"]["acpvisor"]["agent"]), (&json!("x"), &json!("a")));
        assert!(o["future"].is_array());
        let bare = offered(r#"{"protocolVersion":1}"#, "{}");
        assert_eq!(bare["agentInfo"]["name"], "acpvisor");
        let served = json!({"list": {}, "resume": {}, "close": {}, "delete": {}, "fork": {}});
        assert_eq!(bare["agentCapabilities"]["sessionCapabilities"], served);
        let without =
            serde_json::to_value(offer(&Object::default(), &Object::default(), "a", false)).expect("plain");
        assert!(without["agentCapabilities"]["sessionCapabilities"].get("fork").is_none());
    }

    /// R18: terminal logins are for hosts that declared them.
    #[test]
    fn terminal_logins_need_a_host_that_can() {
        let answer = r#"{"authMethods":[{"id":"a","name":"A"},{"id":"t","name":"T","type":"terminal"}]}"#;
        let count = |host| offered(answer, host)["authMethods"].as_array().map(Vec::len);
        assert_eq!((count("{}"), count(r#"{"auth":{"terminal":true}}"#)), (Some(1), Some(2)));
    }
}
