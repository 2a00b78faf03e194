//! How much lies in a session, without reading it (R246, R280).

use super::*;

fn entry(id: &str) -> Op {
    let (id, text) = (id.to_owned(), "t".to_owned());
    let (source, state) = ("user".to_owned(), EntryState::Queued);
    Op::Enqueue(Entry { id, source, text, queued_ms: 0, state, attempt: 0 })
}

/// R246: messages are counted by their states.
#[test]
fn messages_are_counted_by_their_states() {
    let directory = directory();
    let store = Running::start(directory.path());
    let session = store.session();
    assert_eq!(store.reader.tally(&session), Ok(Tally::default()));
    let to = |id: &str, state| Op::Entries(vec![id.to_owned()], state);
    store.write(&session, ["a", "b", "c"].map(entry)).unwrap();
    store.write(&session, [to("a", EntryState::Running), to("b", EntryState::Running)]).unwrap();
    store.write(&session, [to("a", EntryState::Done)]).unwrap();
    let tally = Tally { queued: 1, running: 1, done: 1, ..Tally::default() };
    assert_eq!(store.reader.tally(&session), Ok(tally));
    let nobody = SessionId::fresh();
    assert_eq!(store.reader.tally(&nobody), Err(StoreError::Unknown(nobody.to_string())));
}

/// R280: the last prompts of many, oldest first.
#[test]
fn the_last_prompts_are_given_in_their_order() {
    let directory = directory();
    let store = Running::start(directory.path());
    let session = store.session();
    store.write(&session, (1..=5).map(|n| Op::Prompt(n, PromptState::Running, "host"))).unwrap();
    let numbers = |limit| -> Vec<u64> {
        store.reader.last_prompts(&session, limit).unwrap().iter().map(|prompt| prompt.number).collect()
    };
    assert_eq!((numbers(2), numbers(9)), (vec![4, 5], vec![1, 2, 3, 4, 5]));
}

/// R258: rows and bytes of a range, of one session and of all.
#[test]
fn a_range_is_measured() {
    let directory = directory();
    let store = Running::start(directory.path());
    let (one, other) = (store.session(), store.session());
    let begin = *store.reader.latest().borrow();
    for (session, text) in [(&one, "abc\n"), (&other, "d\n"), (&one, "e\nf\n")] {
        store.write(session, [lines(text)]).unwrap();
    }
    let extent = |session, upto| store.reader.extent(session, begin, upto).unwrap();
    assert_eq!(extent(None, i64::MAX), Extent { rows: 3, bytes: 10 });
    assert_eq!(extent(Some(&one), i64::MAX), Extent { rows: 2, bytes: 8 });
    assert_eq!(extent(Some(&one), begin + 1), Extent { rows: 1, bytes: 4 });
}
