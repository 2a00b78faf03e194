//! Sentences about modes and options, with a peer and a store that do as they are told.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::wire::RpcError;

/// A peer with modes, options of every kind, and a model of the older kind.
pub(super) const RICH: &str = r#"{"sessionId":"p","modes":{"currentModeId":"ask","availableModes":[{"id":"ask"},{"id":"code"}]},
    "models":{"currentModelId":"m1","availableModels":[{"modelId":"m1"},{"modelId":"m2"}]},
    "configOptions":[{"id":"mode","category":"mode","type":"select","currentValue":"ask",
        "options":[{"value":"ask"},{"value":"code"}]},
    {"id":"effort","x":1.0,"type":"select","currentValue":"low","options":[{"value":"low"},{"value":"high"}]},
    {"id":"fast","type":"boolean","currentValue":false}]}"#;

pub(super) fn session() -> SessionId {
    SessionId::parse("s").unwrap()
}

/// A session that was opened with this result, and told everything.
pub(super) fn opened(result: &str) -> Settings {
    let mut settings = Settings::new(store::Settings::default(), false);
    settings.set_up(&Object::of(result), true);
    assert!(matches!(settings.restore(&session()), Step::Done));
    let _ = settings.decorate(Object::of(result));
    settings
}

pub(super) fn set_mode(settings: &mut Settings, id: &str) -> Decision {
    let request = Frame::request("session/set_mode", &json!({ "sessionId": "s", "modeId": id }));
    settings.ask(1, Way::Mode, &request, false)
}

fn option_line(id: &str, value: &Value) -> Frame {
    let params = json!({ "sessionId": "s", "configId": id, "value": value });
    Frame::request("session/set_config_option", &params)
}

fn set_option(settings: &mut Settings, id: &str, value: Value) -> Decision {
    settings.ask(1, Way::Option, &option_line(id, &value), false)
}

fn set_model(settings: &mut Settings, id: &str) -> Decision {
    let request = Frame::request("session/set_model", &json!({ "sessionId": "s", "modelId": id }));
    settings.ask(1, Way::Model, &request, false)
}

/// The peer does what it is asked, and the store writes it.
pub(super) fn succeeds(settings: &mut Settings, decision: Decision) -> Change {
    let change = match decision {
        Decision::Own(change) => change,
        Decision::Forward(change) => match settings.answered(change, &Frame::result(&json!({}))) {
            Answered::Save(change) => change,
            Answered::Refused => panic!("refused"),
        },
        other => panic!("{other:?}"),
    };
    stores(settings, change)
}

fn stores(settings: &mut Settings, change: Change) -> Change {
    let mut saved = settings.save(change);
    if saved.write.is_some() {
        saved = settings.saved(true);
    }
    let (change, outcome) = saved.done.pop().unwrap();
    assert_eq!((outcome, saved.done.len(), saved.write), (Outcome::Stored, 0, None));
    change
}

pub(super) fn update(update: Value) -> Frame {
    Frame::notification("session/update", &json!({ "sessionId": "s", "update": update }))
}

pub(super) fn mode_update(id: &str) -> Frame {
    update(json!({ "sessionUpdate": "current_mode_update", "currentModeId": id }))
}

pub(super) fn options_update(options: Value) -> Frame {
    update(json!({ "sessionUpdate": "config_option_update", "configOptions": options }))
}

pub(super) fn told(frame: &Frame) -> Value {
    let params: Value = serde_json::from_str(frame.member("params").unwrap().get()).unwrap();
    params["update"].clone()
}

fn result(frame: &Frame) -> Value {
    serde_json::from_str(frame.member("result").unwrap().get()).unwrap()
}

fn code(decision: Decision) -> i32 {
    let Decision::Refuse(error) = decision else { panic!("{decision:?}") };
    error.code
}

/// The ids and values of a list of options.
pub(super) fn values(list: &Value) -> Vec<(String, Value)> {
    let of = |option: &Value| (option["id"].as_str().unwrap().to_owned(), option["currentValue"].clone());
    list.as_array().unwrap().iter().map(of).collect()
}

/// R175: what the peer offers is unchanged, the daemon's own option is the last one.
#[test]
fn a_set_up_answer_holds_the_peers_offer_and_one_option_more() {
    let mut settings = Settings::new(store::Settings::default(), false);
    let one = r#"{"sessionId":"p","modes":{"currentModeId":"a","availableModes":[{"id":"a","n":1e400}]},"configOptions":[{"id":"o","v":1.0}],"x":1.10}"#;
    settings.set_up(&Object::of(one), true);
    let text = serde_json::to_string(&settings.decorate(Object::of(one))).unwrap();
    let own = own::option("approval", Approval::Default);
    assert_eq!(text, one.replace(r#"{"id":"o","v":1.0}"#, &format!(r#"{{"id":"o","v":1.0}},{}"#, own.get())));
    for result in ["{}", r#"{"modes":null,"configOptions":null}"#, r#"{"modes":{"availableModes":[]}}"#] {
        let answer = serde_json::to_value(opened(result).decorate(Object::of(result))).unwrap();
        assert_eq!(values(&answer["configOptions"]), [("approval".to_owned(), json!("default"))], "{result}");
        assert_eq!(answer["modes"], serde_json::to_value(own::modes(Approval::Default)).unwrap(), "{result}");
    }
}

/// R170, R171, R175: stored first, then told, then answered; mode and option stay in step.
#[test]
fn the_approval_is_set_in_two_ways_that_stay_in_step() {
    let mut s = opened("{}");
    let Decision::Own(change) = set_mode(&mut s, "auto-edit") else { panic!() };
    let saved = s.save(change);
    let written = serde_json::to_value(saved.write.unwrap()).unwrap();
    assert_eq!((&written["approval"], s.approval()), (&json!("autoEdit"), Approval::Default));
    let (change, outcome) = s.saved(true).done.pop().unwrap();
    assert_eq!(
        (outcome, s.approval(), &change.by),
        (Outcome::Stored, Approval::AutoEdit, &By::Host(1, Way::Mode))
    );
    let notices: Vec<Value> = s.notices(&session(), &change).iter().map(told).collect();
    assert_eq!(notices[0], json!({ "sessionUpdate": "current_mode_update", "currentModeId": "auto-edit" }));
    assert_eq!(values(&notices[1]["configOptions"]), [("approval".to_owned(), json!("auto-edit"))]);
    assert_eq!((notices.len(), result(&s.reply(Way::Mode, None))), (2, json!({})));

    let decision = set_option(&mut s, "approval", json!("plan"));
    let change = succeeds(&mut s, decision);
    let notices: Vec<Value> = s.notices(&session(), &change).iter().map(told).collect();
    assert_eq!(notices, [json!({ "sessionUpdate": "current_mode_update", "currentModeId": "plan" })]);
    let reply = result(&s.reply(Way::Option, None));
    assert_eq!(values(&reply["configOptions"]), [("approval".to_owned(), json!("plan"))]);
    let answer = serde_json::to_value(s.decorate(Object::default())).unwrap();
    assert_eq!(answer["modes"]["currentModeId"], "plan");
}

/// R175: beside a peer that has modes the approval is an option and no mode.
#[test]
fn a_peers_modes_are_not_the_daemons() {
    let mut s = opened(RICH);
    assert_eq!(code(set_mode(&mut s, "plan")), -32602);
    let decision = set_option(&mut s, "approval", json!("yolo"));
    let change = succeeds(&mut s, decision);
    assert!(s.notices(&session(), &change).is_empty());
    assert_eq!((s.approval(), s.stored().mode.as_deref()), (Approval::Yolo, None));
}

/// R173: what could not be stored is not in force, and no notice is due.
#[test]
fn an_approval_that_is_not_stored_is_not_in_force() {
    let mut s = opened("{}");
    let Decision::Own(change) = set_mode(&mut s, "yolo") else { panic!() };
    assert!(s.save(change).write.is_some());
    let (change, outcome) = s.saved(false).done.pop().unwrap();
    assert_eq!(
        (outcome, s.approval(), s.stored()),
        (Outcome::NotStored, Approval::Default, &store::Settings::default())
    );
    assert!(s.undo(&session(), &change).is_none());
}

/// R172, R180: unknown modes, options, values and wrong types are refused, and nothing is changed or forwarded.
#[test]
fn what_nobody_offers_is_refused() {
    let line = |params: Value| Frame::request("x", &params);
    for (offer, way, params) in [
        (RICH, Way::Mode, json!({ "modeId": "turbo" })),
        (RICH, Way::Mode, json!({ "modeId": "" })),
        (RICH, Way::Mode, json!({ "modeId": 1 })),
        (RICH, Way::Mode, json!({})),
        ("{}", Way::Mode, json!({ "modeId": "turbo" })),
        ("{}", Way::Mode, json!({ "modeId": "autoEdit" })),
        (RICH, Way::Model, json!({ "modelId": "m3" })),
        (RICH, Way::Model, json!({ "modelId": null })),
        (RICH, Way::Option, json!({ "configId": "foo", "value": "x" })),
        (RICH, Way::Option, json!({ "configId": "", "value": "x" })),
        (RICH, Way::Option, json!({ "configId": 7, "value": "x" })),
        (RICH, Way::Option, json!({ "configId": "effort" })),
        (RICH, Way::Option, json!({ "configId": "effort", "value": "nope" })),
        (RICH, Way::Option, json!({ "configId": "effort", "value": true })),
        (RICH, Way::Option, json!({ "configId": "fast", "type": "boolean", "value": "true" })),
        (RICH, Way::Option, json!({ "configId": "approval", "value": "turbo" })),
        (RICH, Way::Option, json!({ "configId": "approval", "value": 1 })),
        ("{}", Way::Option, json!({ "configId": "model", "value": "x" })),
    ] {
        let mut s = opened(offer);
        let before = serde_json::to_string(&s.decorate(Object::default())).unwrap();
        assert_eq!(code(s.ask(1, way, &line(params.clone()), false)), -32602, "{params}");
        assert_eq!(s.stored(), &store::Settings::default());
        assert_eq!(serde_json::to_string(&s.decorate(Object::default())).unwrap(), before);
    }
    let twice = r#"{"id":1,"method":"session/set_mode","params":{"modeId":"ask","modeId":"code"}}"#;
    let twice = Frame::parse(twice.into()).unwrap();
    assert_eq!(code(opened(RICH).ask(1, Way::Mode, &twice, false)), -32602);
}

/// R241: a refusal says what there is.
#[test]
fn a_refusal_names_what_is_offered() {
    let why = |decision| match decision {
        Decision::Refuse(error) => error.message,
        other => panic!("{other:?}"),
    };
    assert!(why(set_mode(&mut opened(RICH), "turbo")).ends_with("`ask`, `code`"));
    assert!(
        why(set_option(&mut opened(RICH), "foo", json!(1))).ends_with("`mode`, `effort`, `fast`, `approval`")
    );
    assert!(why(set_option(&mut opened(RICH), "effort", json!("x"))).contains("`low`, `high`"));
}

/// R177: what is so already needs no peer and no store.
#[test]
fn the_same_value_is_a_success_without_effect() {
    let mut s = opened(RICH);
    for decision in [set_mode(&mut s, "ask"), set_model(&mut s, "m1")] {
        assert!(matches!(decision, Decision::Same(frame) if result(&frame) == json!({})));
    }
    for (id, value) in [("effort", json!("low")), ("fast", json!(false)), ("approval", json!("default"))] {
        let Decision::Same(frame) = set_option(&mut s, id, value) else { panic!("{id}") };
        assert_eq!(result(&frame)["configOptions"].as_array().unwrap().len(), 4);
    }
    assert!(matches!(set_mode(&mut opened("{}"), "default"), Decision::Same(_)));
    // While another change is under way, nobody knows what will be so.
    let first = set_mode(&mut s, "code");
    assert!(matches!(set_mode(&mut s, "ask"), Decision::Forward(_)));
    s.unanswered();
    let Decision::Forward(first) = first else { panic!() };
    assert!(matches!(s.answered(first, &Frame::error(&RpcError::internal("no"))), Answered::Refused));
    assert!(matches!(set_mode(&mut s, "ask"), Decision::Same(_)));
    // A process that is gone answers nothing any more.
    assert!(matches!(set_mode(&mut s, "code"), Decision::Forward(_)));
    s.peer_gone();
    assert!(matches!(set_mode(&mut s, "ask"), Decision::Same(_)));
}

/// R178, OPT-04: while a turn runs, the peer's options stay; modes and the approval may change.
#[test]
fn options_stay_while_a_turn_runs() {
    let mut s = opened(RICH);
    let mut asks = |id: &str, value: Value| s.ask(1, Way::Option, &option_line(id, &value), true);
    for (id, value) in [("effort", json!("high")), ("fast", json!(true)), ("mode", json!("code"))] {
        assert_eq!(code(asks(id, value)), -32600);
    }
    assert_eq!(code(asks("foo", json!("x"))), -32602);
    assert!(matches!(asks("approval", json!("yolo")), Decision::Own(_)));
    let model = Frame::request("session/set_model", &json!({ "modelId": "m2" }));
    assert_eq!(code(s.ask(1, Way::Model, &model, true)), -32600);
    let mode = Frame::request("session/set_mode", &json!({ "modeId": "code" }));
    assert!(matches!(s.ask(1, Way::Mode, &mode, true), Decision::Forward(_)));

    let mut s = Settings::new(store::Settings::default(), true);
    s.set_up(&Object::of(RICH), true);
    let decision = s.ask(1, Way::Option, &option_line("effort", &json!("high")), true);
    assert!(matches!(decision, Decision::Forward(_)));
}

/// R177: an option is stored before its answer, which holds the complete list with the new value, whoever made it.
#[test]
fn an_option_is_answered_with_the_complete_list() {
    let mut s = opened(RICH);
    let decision = set_option(&mut s, "effort", json!("high"));
    let change = succeeds(&mut s, decision);
    assert_eq!(s.stored().options, [("effort".to_owned(), "\"high\"".to_owned())]);
    assert!(s.notices(&session(), &change).is_empty());
    let reply = s.reply(Way::Option, Some(Frame::result(&json!({ "_meta": { "a": 1 } }))));
    assert_eq!(result(&reply)["_meta"], json!({ "a": 1 }));
    let want = [
        ("mode", json!("ask")),
        ("effort", json!("high")),
        ("fast", json!(false)),
        ("approval", json!("default")),
    ];
    let want = want.map(|(id, value)| (id.to_owned(), value));
    assert_eq!(values(&result(&reply)["configOptions"]), want);

    // A peer that answers with its list is believed.
    let Decision::Forward(change) = set_option(&mut s, "fast", json!(true)) else { panic!() };
    let list = json!({ "configOptions": [{ "id": "fast", "type": "boolean", "currentValue": true }] });
    let Answered::Save(change) = s.answered(change, &Frame::result(&list)) else { panic!() };
    stores(&mut s, change);
    let reply = result(&s.reply(Way::Option, Some(Frame::result(&list))));
    let want =
        [("fast", json!(true)), ("approval", json!("default"))].map(|(id, value)| (id.to_owned(), value));
    assert_eq!(values(&reply["configOptions"]), want);
    assert_eq!(s.stored().options.len(), 2);
}

/// R179: a setting of the peer that could not be stored is set back there.
#[test]
fn a_setting_that_is_not_stored_is_taken_back() {
    for (decision, method, member, before) in [
        (set_mode as fn(&mut Settings, &str) -> Decision, "session/set_mode", "modeId", json!("ask")),
        (set_model, "session/set_model", "modelId", json!("m1")),
        (
            |s, value| set_option(s, "effort", json!(value)),
            "session/set_config_option",
            "value",
            json!("low"),
        ),
    ] {
        let mut s = opened(RICH);
        let value = match method {
            "session/set_mode" => "code",
            "session/set_model" => "m2",
            _ => "high",
        };
        let Decision::Forward(change) = decision(&mut s, value) else { panic!("{method}") };
        let Answered::Save(change) = s.answered(change, &Frame::result(&json!(null))) else {
            panic!("{method}")
        };
        assert!(s.save(change).write.is_some());
        let (change, outcome) = s.saved(false).done.pop().unwrap();
        assert_eq!((outcome, s.stored()), (Outcome::NotStored, &store::Settings::default()));
        let undo = s.undo(&session(), &change).unwrap();
        let params: Value = serde_json::from_str(undo.member("params").unwrap().get()).unwrap();
        assert_eq!((undo.method_name().as_str(), &params[member]), (method, &before));
        assert!(matches!(decision(&mut s, before.as_str().unwrap()), Decision::Same(_)), "{method}");
    }
}

/// R175: a peer with an option of our id keeps it; ours has another one, from then on.
#[test]
fn a_peer_may_have_an_option_called_approval() {
    let theirs = r#"{"configOptions":[{"id":"approval","type":"select","currentValue":"x","options":[{"value":"x"},{"value":"y"}]}]}"#;
    let mut s = opened(theirs);
    let answer = serde_json::to_value(s.decorate(Object::of(theirs))).unwrap();
    let ids: Vec<String> = values(&answer["configOptions"]).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["approval", "acpvisor.approval"]);
    assert!(matches!(set_option(&mut s, "approval", json!("y")), Decision::Forward(_)));
    assert_eq!(code(set_option(&mut s, "approval", json!("yolo"))), -32602);
    assert!(matches!(set_option(&mut s, "acpvisor.approval", json!("yolo")), Decision::Own(_)));
    let Heard::PassAs(frame) = s.heard(&options_update(json!([]))) else { panic!() };
    assert_eq!(values(&told(&frame)["configOptions"]), [("acpvisor.approval".to_owned(), json!("default"))]);
    assert!(matches!(set_option(&mut opened("{}"), "acpvisor.approval", json!("yolo")), Decision::Own(_)));
}

/// OPT-03: modes of a load result are known; where a peer takes a session up in silence, it decides itself.
#[test]
fn a_mode_that_the_daemon_does_not_know_of_is_for_the_peer() {
    let mut s = Settings::new(store::Settings::default(), false);
    let loaded = r#"{"modes":{"currentModeId":"ask","availableModes":[{"id":"ask"},{"id":"plan"}]}}"#;
    s.set_up(&Object::of(loaded), false);
    assert!(matches!(set_mode(&mut s, "plan"), Decision::Forward(_)));
    assert!(matches!(set_option(&mut s, "any", json!({ "x": 1 })), Decision::Forward(_)));

    let mut s = Settings::new(store::Settings::default(), false);
    s.set_up(&Object::default(), false);
    assert!(matches!(set_mode(&mut s, "ask"), Decision::Forward(_)));
    assert!(matches!(set_mode(&mut s, "plan"), Decision::Own(_)));
    // It had modes once: they are the peer's, and ours are not shown.
    let stored = store::Settings { mode: Some("plan".to_owned()), ..store::Settings::default() };
    let mut s = Settings::new(stored, false);
    s.set_up(&Object::default(), false);
    assert!(matches!(set_mode(&mut s, "plan"), Decision::Forward(_)));
    assert!(!s.decorate(Object::default()).marks("modes"));
}

/// R174: what the peer changes by itself is stored before the host hears it; what is stored already passes.
#[test]
fn a_mode_that_the_peer_switches_is_stored_first() {
    let mut s = opened(RICH);
    let Heard::Save(change, None) = s.heard(&mode_update("code")) else { panic!() };
    assert_eq!(change.by, By::Peer);
    let change = stores(&mut s, change);
    assert_eq!((s.stored().mode.as_deref(), s.notices(&session(), &change).len()), (Some("code"), 0));
    assert!(matches!(s.heard(&mode_update("code")), Heard::Pass));
    assert!(matches!(set_mode(&mut s, "code"), Decision::Same(_)));
    let older = update(json!({ "sessionUpdate": "current_mode_update", "modeId": "ask" }));
    assert!(matches!(s.heard(&older), Heard::Save(..)));
    // The option about the mode says the same.
    let Decision::Same(frame) = set_option(&mut s, "mode", json!("ask")) else { panic!() };
    assert_eq!(values(&result(&frame)["configOptions"])[0].1, "ask");
}

/// R175, R177: the daemon's option stays in every list of the peer; what was set once follows the peer.
#[test]
fn a_list_of_the_peer_is_completed() {
    let mut s = opened(RICH);
    let option = |effort: &str| json!([{ "id": "effort", "currentValue": effort }, { "id": "new" }]);
    let Heard::PassAs(frame) = s.heard(&options_update(option("high"))) else { panic!() };
    let ids: Vec<String> = values(&told(&frame)["configOptions"]).into_iter().map(|(id, _)| id).collect();
    assert_eq!(
        (ids.as_slice(), s.stored().options.len()),
        (["effort", "new", "approval"].map(String::from).as_slice(), 0)
    );
    assert!(matches!(set_option(&mut s, "fast", json!(true)), Decision::Refuse(_)));

    let decision = set_option(&mut s, "effort", json!("low"));
    succeeds(&mut s, decision);
    let Heard::Save(change, Some(frame)) = s.heard(&options_update(option("high"))) else { panic!() };
    assert_eq!(values(&told(&frame)["configOptions"])[0].1, "high");
    stores(&mut s, change);
    assert_eq!(s.stored().options, [("effort".to_owned(), "\"high\"".to_owned())]);
}

/// R175: modes that the host does not see are not told, even if they are called like ours.
#[test]
fn a_peers_unlisted_mode_is_not_taken_for_an_approval() {
    let mut s = opened("{}");
    assert!(matches!(s.heard(&mode_update("plan")), Heard::Swallow) && s.approval() == Approval::Default);
    // Before the host saw anything, it is a sign that the peer has modes.
    let mut s = Settings::new(store::Settings::default(), false);
    assert!(matches!(s.heard(&mode_update("plan")), Heard::Pass));
    s.set_up(&Object::default(), true);
    assert!(!s.decorate(Object::default()).marks("modes"));
    assert!(matches!(set_mode(&mut s, "ask"), Decision::Forward(_)));
}

/// R284, FINDINGS 25: mode and option about the mode are one: what was set last counts.
#[test]
fn the_last_way_to_set_the_mode_counts() {
    let mut s = opened(RICH);
    let decision = set_option(&mut s, "mode", json!("code"));
    succeeds(&mut s, decision);
    assert_eq!((s.stored().mode.as_deref(), s.stored().options.len()), (None, 1));
    assert!(matches!(s.heard(&mode_update("code")), Heard::Pass));
    let decision = set_mode(&mut s, "ask");
    succeeds(&mut s, decision);
    assert_eq!((s.stored().mode.as_deref(), s.stored().options.len()), (Some("ask"), 0));
    let decision = set_option(&mut s, "mode", json!("code"));
    succeeds(&mut s, decision);
    assert_eq!((s.stored().mode.as_deref(), s.stored().options.len()), (None, 1));
    let decision = set_mode(&mut s, "ask");
    succeeds(&mut s, decision);
    // A peer that says the new mode before its answer has it stored before.
    let Decision::Forward(change) = set_option(&mut s, "mode", json!("code")) else { panic!() };
    let Heard::Save(heard, None) = s.heard(&mode_update("code")) else { panic!() };
    stores(&mut s, heard);
    let Answered::Save(change) = s.answered(change, &Frame::result(&json!({}))) else { panic!() };
    assert!(s.save(change).write.is_none() && s.stored().mode.as_deref() == Some("code"));
    let decision = set_model(&mut s, "m2");
    succeeds(&mut s, decision);
    assert_eq!(s.stored().model.as_deref(), Some("m2"));
}

/// R170: changes are stored one after the other, each upon what became of the one before.
#[test]
fn one_change_is_stored_at_a_time() {
    let mut s = opened("{}");
    let Decision::Own(yolo) = set_mode(&mut s, "yolo") else { panic!() };
    assert_eq!(s.save(yolo).write.map(|w| w.approval), Some(store::Approval::Yolo));
    let Decision::Own(plan) = set_option(&mut s, "approval", json!("plan")) else { panic!() };
    assert!(s.save(plan).write.is_none());
    let Decision::Own(back) = set_mode(&mut s, "default") else { panic!("it is not so for long") };
    assert!(s.save(back).write.is_none());
    let saved = s.saved(true);
    assert_eq!((saved.done.len(), saved.write.map(|w| w.approval)), (1, Some(store::Approval::Plan)));
    let saved = s.saved(false);
    assert_eq!((saved.done[0].1, s.approval()), (Outcome::NotStored, Approval::Yolo));
    assert_eq!(saved.write.map(|w| w.approval), Some(store::Approval::Default));
    assert_eq!((s.saved(true).done.len(), s.approval(), s.saved(true).done.len()), (1, Approval::Default, 0));
}

proptest! {
    /// R170, R173: whatever is set while writes succeed and fail, each change is done once and in order, and what is in
    /// force is what was written last with success.
    #[test]
    fn what_is_in_force_is_what_is_on_the_disk(orders in prop::collection::vec((0..4usize, any::<bool>(), any::<bool>()), 0..60)) {
        let mut s = opened("{}");
        let (mut disk, mut writing) = (store::Settings::default(), None);
        let (mut sent, mut done) = (0u64, vec![]);
        for (mode, save, ok) in orders {
            let saved = if save {
                sent += 1;
                let setting = Setting::Approval(Approval::ALL[mode]);
                s.save(Change::of_host(sent, Way::Mode, setting, None))
            } else {
                let Some(written) = writing.take() else { continue };
                if ok {
                    disk = written;
                }
                s.saved(ok)
            };
            done.extend(saved.done.iter().map(|(change, _)| change.by));
            prop_assert!(saved.write.is_none() || writing.is_none(), "two writes at once");
            writing = writing.or(saved.write);
            prop_assert_eq!(s.stored(), &disk);
        }
        while let Some(written) = writing.take() {
            disk = written;
            let saved = s.saved(true);
            done.extend(saved.done.iter().map(|(change, _)| change.by));
            writing = saved.write;
        }
        prop_assert_eq!(s.stored(), &disk);
        prop_assert_eq!(done, (1..=sent).map(|n| By::Host(n, Way::Mode)).collect::<Vec<_>>());
    }
}
