//! Inboxes by hand, and sessions that are only saved (R45, R182, R187, R188, R285, R295).

use super::{
    house::{lines, message},
    *,
};
use crate::{
    berth,
    id::{Address, SessionId},
    store::{EntryState, Kind},
};

fn states(inbox: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let entries = inbox["result"]["entries"].as_array().unwrap_or_else(|| panic!("{inbox}"));
    entries.iter().map(|entry| (text(&entry["entry"]), text(&entry["state"]))).collect()
}

async fn inbox(client: &mut Client) -> Vec<(String, String)> {
    states(&client.call("inbox.list", json!({ "id": "saved" })).await)
}

fn entry(id: &str, state: &str) -> (String, String) {
    (id.to_owned(), state.to_owned())
}

/// R182, R188: a message lies there before anybody hears so, and under one id only once.
#[tokio::test]
async fn a_message_is_stored_once_and_its_session_told() {
    let mut house = House::build().await;
    house.save("s1", vec![]).await;
    house.save("saved", vec![]).await;
    let mut client = house.operator().await;
    let sent = client.call("sessions.send", json!({ "id": "s1", "text": "go" })).await["result"].take();
    assert_eq!((&sent["duplicate"], &sent["live"]), (&json!(false), &json!(true)));
    assert!(matches!(house.word().await, Word::Wake));
    for n in 0..5 {
        let params = json!({ "id": "saved", "text": "go", "entry": "mine", "source": "terminal/1" });
        let sent = client.call("sessions.send", params).await["result"].take();
        // The same millisecond and the same text cannot be told apart, and need not be.
        assert!(sent["duplicate"] == json!(n > 0) || n > 0, "{sent}");
        assert_eq!((&sent["entry"], &sent["live"]), (&json!("mine"), &json!(false)));
    }
    assert_eq!(inbox(&mut client).await, [entry("mine", "queued")]);
    let shown = client.call("inbox.show", json!({ "id": "saved", "entry": "mine" })).await["result"].take();
    assert_eq!((&shown["text"], &shown["source"]), (&json!("go"), &json!("terminal/1")));
}

/// R186, R189: the limit is named, and nothing is stored beyond it.
#[tokio::test]
async fn a_full_inbox_names_its_limit() {
    let house = House::build().await;
    house.save("saved", (0..20).map(|n| message(&n.to_string())).collect()).await;
    let mut client = house.operator().await;
    let error = client.call("sessions.send", json!({ "id": "saved", "text": "x" })).await["error"].take();
    assert_eq!((&error["code"], &error["data"]["resource"]), (&json!(-32603), &json!("inbox")));
    assert!(error["message"].as_str().unwrap().contains("20 messages of the user"), "{error}");
    assert_eq!(inbox(&mut client).await.len(), 20);
}

#[tokio::test]
async fn a_message_that_cannot_be_is_refused_by_its_member() {
    let house = House::build().await;
    house.save("saved", vec![]).await;
    let mut client = house.operator().await;
    for (params, said) in [
        (json!({ "id": "saved", "text": " \n" }), "params.text"),
        (json!({ "id": "saved", "text": "x", "source": "" }), "params.source"),
        (json!({ "id": "saved", "text": "x", "entry": "a\nb" }), "params.entry"),
    ] {
        let error = client.call("sessions.send", params).await["error"].take();
        assert_eq!(error["code"], -32602);
        assert!(error["message"].as_str().unwrap().starts_with(said), "{error}");
    }
    for id in ["nobody", "../saved", "s1"] {
        let error = client.call("sessions.send", json!({ "id": id, "text": "x" })).await["error"].take();
        assert_eq!((&error["code"], &error["data"]["sessionId"]), (&json!(-32002), &json!(id)));
    }
    assert!(inbox(&mut client).await.is_empty());
}

/// R182: a saved session is woken on demand, by its own agent in its own directory.
#[tokio::test]
async fn a_saved_session_is_woken_on_demand() {
    let mut house = House::build().await;
    house.save("saved", vec![]).await;
    let mut client = house.operator().await;
    let wake = json!({ "id": "saved", "text": "go", "wake": true });
    client
        .write(&format!(
            "{}\n",
            json!({ "jsonrpc": "2.0", "id": 1, "method": "sessions.send", "params": wake })
        ))
        .await;
    let Some(berth::Msg::Revive(order, done)) = soon(house.asked.recv()).await else { panic!("no revival") };
    assert_eq!((order.id.as_str(), order.name.as_str(), &order.host), ("saved", "demo", &Address::Nobody));
    assert_eq!((order.cwd.to_str(), order.first.len()), (Some("/w"), 0));
    done.send(Err("no luck".to_owned())).unwrap();
    let error = client.read().await.unwrap()["error"].take();
    assert!(error["message"].as_str().unwrap().ends_with("no luck"), "{error}");
    assert_eq!(inbox(&mut client).await, [entry(error["data"]["entry"].as_str().unwrap(), "queued")]);
}

/// R182: nothing is stored for a session that cannot be woken as it was wanted.
#[tokio::test]
async fn an_agent_that_is_not_configured_any_more_is_named() {
    let house = House::build().await;
    house.save("saved", vec![]).await;
    let session = SessionId::parse("other").unwrap();
    let row = house.reader.row(&SessionId::parse("saved").unwrap()).unwrap().unwrap();
    let row = crate::store::Row { id: session.clone(), agent: "gone".to_owned(), ..row };
    house.write(&session, vec![Op::Create(Box::new(row))]).await;
    let mut client = house.operator().await;
    let params = json!({ "id": "other", "text": "go", "wake": true });
    let error = client.call("sessions.send", params).await["error"].take();
    assert!(error["message"].as_str().unwrap().contains("agent `gone`"), "{error}");
    let listed = client.call("inbox.list", json!({ "id": "other" })).await;
    assert!(states(&listed).is_empty());
}

/// R187, R295: what waits is edited and removed, what is over runs again behind the others, what runs is left alone.
#[tokio::test]
async fn messages_are_changed_by_hand() {
    let mut house = House::build().await;
    let to = |id: &str, state| Op::Entries(vec![id.to_owned()], state);
    let ops = vec![message("a"), message("b"), message("c"), message("d"), to("a", EntryState::Running)];
    house.save("saved", ops).await;
    let session = SessionId::parse("saved").unwrap();
    house.write(&session, vec![to("a", EntryState::Indeterminate), to("c", EntryState::Running)]).await;
    let mut client = house.operator().await;
    let of = |entry: &str| json!({ "id": "saved", "entry": entry });
    assert_eq!(client.call("inbox.again", of("a")).await["result"], json!({}));
    assert_eq!(client.call("inbox.remove", of("b")).await["result"], json!({}));
    let edit = json!({ "id": "saved", "entry": "d", "text": "something else" });
    assert_eq!(client.call("inbox.edit", edit).await["result"], json!({}));
    assert_eq!(client.call("inbox.show", of("d")).await["result"]["text"], "something else");
    assert_eq!(inbox(&mut client).await, [entry("c", "running"), entry("d", "queued"), entry("a", "queued")]);
    assert_eq!(client.call("inbox.show", of("a")).await["result"]["attempt"], 1);
    for (method, id, why) in [
        ("inbox.again", "d", "queued"),
        ("inbox.again", "c", "running"),
        ("inbox.remove", "c", "running"),
        ("inbox.show", "b", "none of that id"),
        ("inbox.remove", "b", "none of that id"),
    ] {
        let error = client.call(method, of(id)).await["error"].take();
        assert_eq!(error["code"], -32603);
        assert!(error["message"].as_str().unwrap().contains(why), "{method} {id}: {error}");
    }
    assert!(house.words.try_recv().is_err(), "nobody lives there");
}

/// R187: what is done or discarded runs again too.
#[tokio::test]
async fn whatever_is_over_may_run_again() {
    let house = House::build().await;
    house.save("saved", vec![message("a"), message("b"), Op::Discard]).await;
    let session = SessionId::parse("saved").unwrap();
    house.write(&session, vec![message("c"), Op::Entries(vec!["c".to_owned()], EntryState::Running)]).await;
    house.write(&session, vec![Op::Entries(vec!["c".to_owned()], EntryState::Done)]).await;
    let mut client = house.operator().await;
    for id in ["b", "c"] {
        let again = client.call("inbox.again", json!({ "id": "saved", "entry": id })).await;
        assert_eq!(again["result"], json!({}), "{again}");
    }
    assert_eq!(
        inbox(&mut client).await,
        [entry("a", "discarded"), entry("b", "queued"), entry("c", "queued")]
    );
}

/// R45: live ones first, saved ones page by page, and each of them once.
#[tokio::test]
async fn live_and_saved_sessions_are_listed_together() {
    let house = House::build().await;
    for id in ["s1", "old1", "old2", "old3", "new1"] {
        house.save(id, vec![lines(Kind::Peer, &[json!({})])]).await;
    }
    let mut client = house.operator().await;
    let mut ids = async |params: Value| {
        let page = client.call("sessions.list", params).await["result"].take();
        let sessions = page["sessions"].as_array().unwrap().clone();
        let ids: Vec<String> = sessions.iter().map(|s| s["id"].as_str().unwrap().to_owned()).collect();
        (ids, page["cursor"].clone())
    };
    assert_eq!(ids(Value::Null).await, (vec!["s1".to_owned()], Value::Null));
    let (first, cursor) = ids(json!({ "saved": true, "limit": 3 })).await;
    let (rest, end) = ids(json!({ "saved": true, "limit": 3, "cursor": cursor })).await;
    assert_eq!((first[0].as_str(), first.len(), rest.len(), end), ("s1", 4, 1, Value::Null));
    let (old, _) = ids(json!({ "saved": true, "prefix": "old" })).await;
    assert_eq!(old.iter().collect::<BTreeSet<_>>().len(), 3);
    assert!(ids(json!({ "saved": true, "cwd": "/elsewhere" })).await.0.is_empty());
    for (params, member) in [
        (json!({ "cwd": "w" }), "params.cwd"),
        (json!({ "limit": 0 }), "params.limit"),
        (json!({ "cursor": "x" }), "params.cursor"),
    ] {
        let error = client.call("sessions.list", params).await["error"].take();
        assert!(error["message"].as_str().unwrap().starts_with(member), "{error}");
    }
}

/// R280: a saved session is shown with what became of its prompts.
#[tokio::test]
async fn a_saved_session_is_shown_with_its_prompts() {
    let house = House::build().await;
    let prompts = (1..=25).map(|n| Op::Prompt(n, PromptState::Running, "host"));
    let cut_off = Op::PromptTo(25, PromptState::Unknown, None);
    house.save("saved", prompts.chain([cut_off, message("e")]).collect()).await;
    let mut client = house.operator().await;
    let shown = client.call("sessions.show", json!({ "id": "saved" })).await["result"].take();
    assert_eq!((&shown["session"]["state"], &shown["tree"]), (&json!("saved"), &Value::Null));
    assert_eq!(shown["session"]["inbox"]["queued"], 1);
    let prompts = shown["prompts"].as_array().unwrap();
    assert_eq!(
        (prompts.len(), &prompts[0]["number"], &prompts[19]["state"]),
        (20, &json!(6), &json!("unknown"))
    );
    assert_eq!(shown["session"]["last_prompt"], prompts[19]);
    assert_eq!(shown["settings"]["approval"], "default");
}

/// R285: an order to delete goes to the berths, whether the session lives or not; what cannot be an id is gone already.
#[tokio::test]
async fn a_session_is_deleted_whether_it_lives_or_not() {
    let mut house = House::build().await;
    let mut client = house.operator().await;
    let request =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "sessions.delete", "params": { "id": "saved" } });
    client.write(&format!("{request}\n")).await;
    let Word::Delete(session, done) = house.word().await else { panic!("no delete") };
    assert_eq!(session.as_str(), "saved");
    done.send(Ok(())).unwrap();
    assert_eq!(client.read().await.unwrap()["result"], json!({}));
    assert_eq!(client.call("sessions.delete", json!({ "id": "../x" })).await["result"], json!({}));
}

/// R52: a session is taken from its host by its berth.
#[tokio::test]
async fn a_detach_is_an_order_for_the_berths() {
    let mut house = House::build().await;
    let mut client = house.operator().await;
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "sessions.detach", "params": { "id": "s1" } });
    client.write(&format!("{request}\n")).await;
    let Word::Release(session, done) = house.word().await else { panic!("no detach") };
    assert_eq!(session.as_str(), "s1");
    done.send(Ok(())).unwrap();
    assert_eq!(client.read().await.unwrap()["result"], json!({}));
}
