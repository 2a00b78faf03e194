//! The conversation without a socket: its deadlines and its questions.

use serde_json::{Value, json};

use super::*;

/// A conversation whose time is told, up to its prompt.
struct Timed(Conversation);

struct Deaf;

impl Sink for Deaf {
    fn event(&mut self, _: &Event<'_>) {}
}

const S: Duration = Duration::from_secs(1);

impl Timed {
    fn new(attended: bool, budget: Budget) -> Self {
        let task = Task { cwd: "/w".to_owned(), resume: None, prompt: "p".to_owned(), attended, budget };
        let mut new = Self(Conversation::new(task));
        new.hears(0, &json!({ "id": 1, "result": {} }));
        new.hears(0, &json!({ "id": 2, "result": { "sessionId": "s1" } }));
        assert_eq!(new.says().last().unwrap()["method"], "session/prompt");
        new
    }

    fn hears(&mut self, at: u32, line: &Value) {
        let frame = Frame::parse(line.to_string().into()).unwrap();
        self.0.frame(&frame, S * at, &mut Deaf).unwrap();
    }

    fn updates(&mut self, at: u32, update: &Value) {
        self.hears(
            at,
            &json!({ "method": "session/update", "params": { "sessionId": "s1", "update": update } }),
        );
    }

    fn says(&mut self) -> Vec<Value> {
        self.0.take_outbox().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn asks(&mut self, at: u32, id: u32) {
        let options = json!([{ "optionId": "yes", "kind": "allow_once" }]);
        let params = json!({ "sessionId": "s1", "toolCall": { "toolCallId": "c" }, "options": options });
        self.hears(at, &json!({ "id": id, "method": "session/request_permission", "params": params }));
    }
}

/// R225: silence ends the run, but neither a waiting question nor an open tool call is silence.
#[test]
fn silence_counts_only_while_nothing_is_open() {
    let budget = Budget { stall: Some(10 * S), ..Budget::default() };
    let mut run = Timed::new(true, budget);
    assert_eq!(run.0.deadline(), Some(10 * S));
    run.updates(5, &json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "t" }));
    assert_eq!(run.0.deadline(), None, "a tool call takes its time");
    run.updates(50, &json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed" }));
    assert_eq!(run.0.deadline(), Some(60 * S));
    run.asks(55, 7);
    assert_eq!(run.0.deadline(), None, "a person takes their time");
    run.0.choose(None, 100 * S);
    assert_eq!(run.0.deadline(), Some(110 * S));
    run.0.tick(110 * S);
    assert_eq!(run.says().last().unwrap()["method"], "session/cancel");
    run.0.tick(run.0.deadline().unwrap());
    assert_eq!(
        run.says()[0]["method"],
        "session/close",
        "an agent that ignores the cancel is not waited for"
    );
    run.0.tick(run.0.deadline().unwrap());
    let stalled = Outcome { ended: Ended::Unanswered, abort: Some(Abort::Stalled), refused: 0 };
    assert_eq!(run.0.outcome(), Some(&stalled));
}

/// R255: what the daemon says under no id before there is a session is why there will be none.
#[test]
fn a_refused_connection_says_why() {
    let task = Task {
        cwd: "/w".to_owned(),
        resume: None,
        prompt: "p".to_owned(),
        attended: false,
        budget: Budget::default(),
    };
    let line = br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"64 hosts are connected"}}"#;
    let frame = Frame::parse(line.to_vec().into()).unwrap();
    let error = Conversation::new(task).frame(&frame, S, &mut Deaf).unwrap_err();
    let told = "open a session: the connection was refused: 64 hosts are connected (-32603)";
    assert_eq!(error.to_string(), told);
}

/// R225: the wall limit counts from the start, also while the session is still being opened.
#[test]
fn the_wall_limit_ends_a_set_up_as_well() {
    let budget = Budget { wall: Some(10 * S), ..Budget::default() };
    let task = Task { cwd: "/w".to_owned(), resume: None, prompt: "p".to_owned(), attended: false, budget };
    let mut conversation = Conversation::new(task);
    conversation.tick(9 * S);
    assert!(conversation.outcome().is_none());
    conversation.tick(10 * S);
    assert_eq!(conversation.outcome().unwrap().abort, Some(Abort::Timeout));
}

/// R224: the message beyond the limit ends the run.
#[test]
fn one_message_too_many_ends_the_run() {
    let mut run = Timed::new(false, Budget { turns_max: Some(2), ..Budget::default() });
    for (id, said) in [("m1", 0), ("m1", 0), ("m2", 0), ("m3", 1)] {
        let content = json!({ "type": "text", "text": "x" });
        run.updates(
            0,
            &json!({ "sessionUpdate": "agent_message_chunk", "messageId": id, "content": content }),
        );
        assert_eq!(run.says().len(), said, "{id}");
    }
    run.hears(1, &json!({ "id": 3, "result": { "stopReason": "cancelled" } }));
    run.hears(1, &json!({ "id": 4, "result": {} }));
    let outcome = run.0.outcome().unwrap();
    assert_eq!((outcome.abort, outcome.exit_code()), (Some(Abort::Turns), 4));
}

/// R260, R288: what a person refuses is answered, and does not change how the run ended.
#[test]
fn a_persons_no_is_an_answer_like_any_other() {
    let mut run = Timed::new(true, Budget::default());
    run.asks(0, 7);
    run.0.choose(None, S);
    let content = json!({ "type": "text", "text": "then not" });
    run.updates(1, &json!({ "sessionUpdate": "agent_message_chunk", "content": content }));
    run.hears(1, &json!({ "id": 3, "result": { "stopReason": "end_turn" } }));
    run.hears(1, &json!({ "id": 4, "result": {} }));
    assert_eq!(run.0.outcome().unwrap().exit_code(), 0);
    assert_eq!(run.0.agent(), "The agent");
}

/// R261: a person's answer is passed on; an interrupt or a withdrawal answers what stands open.
#[test]
fn questions_are_answered_exactly_once() {
    let mut run = Timed::new(true, Budget::default());
    run.asks(0, 7);
    run.asks(0, 8);
    run.asks(0, 9);
    let yes = run.0.question().unwrap().choice("1").cloned();
    run.0.choose(yes.as_ref(), S);
    run.hears(1, &json!({ "method": "$/cancel_request", "params": { "requestId": 9 } }));
    run.0.abort(Abort::Interrupted, S);
    run.0.abort(Abort::Interrupted, S);
    let said = run.says();
    assert_eq!((&said[0]["id"], &said[0]["result"]["outcome"]["optionId"]), (&json!(7), &json!("yes")));
    assert_eq!((&said[1]["id"], &said[1]["error"]["code"]), (&json!(9), &json!(-32800)));
    assert_eq!(said[2]["method"], "session/cancel");
    assert_eq!((&said[3]["id"], &said[3]["result"]["outcome"]["outcome"]), (&json!(8), &json!("cancelled")));
    assert_eq!(said.len(), 4);
}
