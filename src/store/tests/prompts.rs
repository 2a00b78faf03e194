//! Prompts and what became of them, over a restart too (R280).

use super::*;

fn states(store: &Running, id: &SessionId) -> Vec<(u64, PromptState, Option<String>)> {
    let prompts = store.reader.prompts(id).unwrap().into_iter();
    prompts.map(|prompt| (prompt.number, prompt.state, prompt.outcome)).collect()
}

#[test]
fn a_prompt_is_noted_once_and_followed() {
    let directory = directory();
    let store = Running::start(directory.path());
    let id = store.session();
    assert_eq!(store.reader.prompt_count(&id), Ok(0));
    store.write(&id, [Op::Prompt(1, PromptState::Waiting, "inbox")]).unwrap();
    store.write(&id, [Op::PromptTo(1, PromptState::Running, None)]).unwrap();
    assert_eq!(store.reader.prompts(&id).unwrap()[0].ended_ms, None);
    store.write(&id, [Op::PromptTo(1, PromptState::Answered, Some("end_turn".into()))]).unwrap();
    let prompt = store.reader.prompts(&id).unwrap().remove(0);
    assert_eq!((prompt.state, prompt.source.as_str()), (PromptState::Answered, "inbox"));
    assert!(prompt.ended_ms >= Some(prompt.taken_ms));
    let wrong = |number, why| Err(StoreError::Prompt { session: id.to_string(), number, why });
    let twice = store.write(&id, [Op::Prompt(1, PromptState::Waiting, "host")]);
    assert_eq!(twice, wrong(1, "there is one of that number"));
    let unknown = store.write(&id, [Op::PromptTo(2, PromptState::Running, None)]);
    assert_eq!(unknown, wrong(2, "there is none of that number"));
    assert_eq!(store.reader.prompt_count(&id), Ok(1));
}

/// R280: after the death of the daemon each prompt is answered, unknown, or was not started.
#[test]
fn after_a_death_each_prompt_has_a_word() {
    let directory = directory();
    let store = Running::start(directory.path());
    let (id, other) = (store.session(), store.session());
    store.write(&other, [Op::Prompt(1, PromptState::Waiting, "host")]).unwrap();
    store.write(&id, [Op::Prompt(1, PromptState::Running, "host")]).unwrap();
    store.write(&id, [Op::PromptTo(1, PromptState::Answered, Some("end_turn".into()))]).unwrap();
    store.write(&id, [Op::Prompt(2, PromptState::Running, "host")]).unwrap();
    store.write(&id, [Op::Prompt(3, PromptState::Waiting, "host")]).unwrap();
    store.abandon();

    let store = Running::start(directory.path());
    let died = || Some("daemon_died".to_owned());
    let wanted = [
        (1, PromptState::Answered, Some("end_turn".to_owned())),
        (2, PromptState::Unknown, died()),
        (3, PromptState::NotStarted, died()),
    ];
    assert_eq!(states(&store, &id), wanted);
    let repaired = Repaired { unknown: vec![id], not_started: 2, ..Repaired::default() };
    assert_eq!(store.repaired, repaired);
    store.stop();
    assert!(Running::start(directory.path()).repaired.is_empty(), "it is said once");
}
