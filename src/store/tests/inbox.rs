//! Inboxes: what is taken, what is refused, and what a death leaves (R182 to R189, R295).

use super::*;
use crate::limits::{INBOX_OTHER_ENTRIES_MAX, INBOX_USER_ENTRIES_MAX, MIB};

pub fn entry(id: &str, source: &str, text: &str) -> Entry {
    Entry {
        id: id.to_owned(),
        source: source.to_owned(),
        text: text.to_owned(),
        queued_ms: 7,
        state: EntryState::Queued,
        attempt: 0,
    }
}

fn enqueue(store: &Running, session: &SessionId, entry: Entry) -> Result<(), StoreError> {
    store.write(session, [Op::Enqueue(entry)])
}

fn to(id: &str, state: EntryState) -> [Op; 1] {
    [Op::Entries(vec![id.to_owned()], state)]
}

fn states(store: &Running, session: &SessionId) -> Vec<(String, EntryState, u32)> {
    let entries = store.reader.inbox(session).unwrap().into_iter();
    entries.map(|entry| (entry.id, entry.state, entry.attempt)).collect()
}

/// R185: entries come back as they were put in, in the order of the queue.
#[test]
fn entries_keep_their_order_and_content() {
    let directory = directory();
    let store = Running::start(directory.path());
    let id = store.session();
    let entries = [entry("z", "user", "one"), entry("a", "terminal/t", "two"), entry("m", "cron", "")];
    for one in entries.clone() {
        enqueue(&store, &id, one).unwrap();
    }
    assert_eq!(store.reader.inbox(&id).unwrap(), entries);
    assert_eq!(store.reader.pending(), Ok(vec![(id, 3)]));
}

/// R295: an entry begins as it was read, or not at all.
#[test]
fn an_entry_that_was_changed_does_not_begin() {
    let directory = directory();
    let store = Running::start(directory.path());
    let id = store.session();
    enqueue(&store, &id, entry("e", "user", "as sent")).unwrap();
    store.write(&id, [Op::Rewrite("e".to_owned(), "as edited".to_owned())]).unwrap();
    let begin = |text: &str| store.write(&id, [Op::Begin(vec![("e".to_owned(), text.to_owned())])]);
    let error = begin("as sent").unwrap_err().to_string();
    assert!(error.contains("it was changed"), "{error}");
    assert_eq!(states(&store, &id), [("e".to_owned(), EntryState::Queued, 0)]);
    begin("as edited").unwrap();
    assert_eq!(states(&store, &id), [("e".to_owned(), EntryState::Running, 1)]);
}

/// R188: a known id is accepted and changes nothing, whatever became of its entry.
#[test]
fn a_known_id_changes_nothing() {
    let directory = directory();
    let store = Running::start(directory.path());
    let id = store.session();
    for text in ["first", "second"] {
        enqueue(&store, &id, entry("e", "user", text)).unwrap();
    }
    store.write(&id, to("e", EntryState::Running)).unwrap();
    store.write(&id, to("e", EntryState::Done)).unwrap();
    enqueue(&store, &id, entry("e", "user", "third")).unwrap();
    assert_eq!(states(&store, &id), [("e".to_owned(), EntryState::Done, 1)]);
    assert_eq!(store.reader.inbox(&id).unwrap()[0].text, "first");
    assert_eq!(store.reader.pending(), Ok(Vec::new()));
}

/// R189: the user's entries and those of others have limits of their own, and one that is over takes no place.
#[test]
fn a_full_queue_of_the_user_does_not_block_the_others() {
    let directory = directory();
    let store = Running::start(directory.path());
    let id = store.session();
    let full = |limit: String| Err(StoreError::QueueFull { session: id.to_string(), limit });
    for n in 0..INBOX_USER_ENTRIES_MAX {
        enqueue(&store, &id, entry(&format!("u{n}"), "user", "x")).unwrap();
    }
    let refused = enqueue(&store, &id, entry("more", "user", "x"));
    assert_eq!(refused, full("20 messages of the user wait".to_owned()));
    for n in 0..INBOX_OTHER_ENTRIES_MAX {
        enqueue(&store, &id, entry(&format!("o{n}"), "terminal/t", "x")).unwrap();
    }
    let refused = enqueue(&store, &id, entry("more", "session/s", "x"));
    assert_eq!(refused, full("100 messages of others wait".to_owned()));
    store.write(&id, to("u0", EntryState::Running)).unwrap();
    assert!(enqueue(&store, &id, entry("more", "user", "x")).is_err(), "one that runs may come back");
    store.write(&id, to("u0", EntryState::Done)).unwrap();
    enqueue(&store, &id, entry("more", "user", "x")).unwrap();
}

/// R186, R189: text is bounded for each of the two and for both; a change of text counts too.
#[test]
fn text_that_waits_is_bounded() {
    let directory = directory();
    let store = Running::start(directory.path());
    let id = store.session();
    let large = |bytes: usize| "x".repeat(bytes);
    let full = |limit: &str| Err(StoreError::QueueFull { session: id.to_string(), limit: limit.to_owned() });
    let refused = enqueue(&store, &id, entry("a", "user", &large(7 * MIB + 1)));
    assert_eq!(refused, full("messages of the user may hold 7 MiB"));
    enqueue(&store, &id, entry("a", "user", &large(7 * MIB))).unwrap();
    let refused = enqueue(&store, &id, entry("b", "cron", &large(MIB + 1)));
    assert_eq!(refused, full("all messages may hold 8 MiB"));
    enqueue(&store, &id, entry("b", "cron", &large(MIB))).unwrap();
    let rewrite = |id: &str, bytes| [Op::Rewrite(id.to_owned(), large(bytes))];
    assert_eq!(store.write(&id, rewrite("b", MIB + 1)), full("all messages may hold 8 MiB"));
    store.write(&id, rewrite("a", 6 * MIB)).unwrap();
    store.write(&id, rewrite("b", 2 * MIB)).unwrap();
}

/// R187, R295: an entry that is not as it must be is named, and nothing is changed.
#[test]
fn what_cannot_be_done_to_an_entry_names_it() {
    let directory = directory();
    let store = Running::start(directory.path());
    let id = store.session();
    enqueue(&store, &id, entry("e", "user", "x")).unwrap();
    let wrong = |entry: &str, why: &str| {
        let (session, entry, why) = (id.to_string(), entry.to_owned(), why.to_owned());
        Err(StoreError::Entry { session, entry, why })
    };
    let both = Op::Entries(vec!["e".to_owned(), "none".to_owned()], EntryState::Running);
    assert_eq!(store.write(&id, [both]), wrong("none", "there is none of that id"));
    assert_eq!(states(&store, &id), [("e".to_owned(), EntryState::Queued, 0)]);
    store.write(&id, to("e", EntryState::Running)).unwrap();
    assert_eq!(store.write(&id, to("e", EntryState::Running)), wrong("e", "it is running"));
    assert_eq!(store.write(&id, [Op::Remove("e".to_owned())]), wrong("e", "it is running"));
    assert_eq!(store.write(&id, [Op::Rewrite("e".to_owned(), "y".to_owned())]), wrong("e", "it is running"));
    store.write(&id, to("e", EntryState::Done)).unwrap();
    assert_eq!(store.write(&id, to("e", EntryState::Queued)), wrong("e", "it is done"));
    store.write(&id, [Op::Remove("e".to_owned())]).unwrap();
    assert_eq!(store.reader.inbox(&id), Ok(Vec::new()));
}

/// R50: what waits is discarded, what runs is not.
#[test]
fn discarding_takes_what_waits() {
    let directory = directory();
    let store = Running::start(directory.path());
    let id = store.session();
    for name in ["a", "b", "c"] {
        enqueue(&store, &id, entry(name, "user", "x")).unwrap();
    }
    store.write(&id, to("a", EntryState::Running)).unwrap();
    store.write(&id, [Op::Discard]).unwrap();
    let now: Vec<EntryState> = states(&store, &id).into_iter().map(|(_, state, _)| state).collect();
    assert_eq!(now, [EntryState::Running, EntryState::Discarded, EntryState::Discarded]);
}

/// R184, INB-03: an entry whose turn was cut off waits again when nothing was seen of it, else nobody can know.
#[test]
fn after_a_death_an_entry_waits_again_only_if_nothing_was_seen_of_it() {
    let directory = directory();
    let store = Running::start(directory.path());
    let (silent, seen, other) = (store.session(), store.session(), store.session());
    for id in [&silent, &seen] {
        enqueue(&store, id, entry("e", "user", "x")).unwrap();
        store.write(id, [lines("before\n")]).unwrap();
        let running = Op::Entries(vec!["e".to_owned()], EntryState::Running);
        store.write(id, [running, Op::Frames(Kind::Sent, vec!["prompt".into()])]).unwrap();
    }
    store.write(&other, [lines("of another session\n")]).unwrap();
    store.write(&seen, [lines("update\n")]).unwrap();
    store.abandon();

    let store = Running::start(directory.path());
    assert_eq!(states(&store, &silent), [("e".to_owned(), EntryState::Queued, 1)]);
    assert_eq!(states(&store, &seen), [("e".to_owned(), EntryState::Indeterminate, 1)]);
    let repaired = Repaired { queued: 1, indeterminate: 1, ..Repaired::default() };
    assert_eq!(store.repaired, repaired);
    assert_eq!(store.reader.pending(), Ok(vec![(silent, 1)]));
    store.write(&seen, to("e", EntryState::Queued)).unwrap();
}

/// R184: the start of a turn in a write that was refused leaves no trace in what follows.
#[test]
fn rows_of_a_refused_write_do_not_hide_what_was_seen() {
    let directory = directory();
    let store = Running::start(directory.path());
    let id = store.session();
    enqueue(&store, &id, entry("e", "user", "x")).unwrap();
    let refused = [lines("a\n"), lines("b\n"), Op::Remove("none".to_owned())];
    let answers = [
        store.post(&id, refused),
        store.post(&id, to("e", EntryState::Running)),
        store.post(&id, [lines("update\n")]),
    ];
    let told = answers.map(|answer| answer.recv_timeout(DEADLINE).unwrap().is_ok());
    assert_eq!(told, [false, true, true]);
    store.abandon();
    let store = Running::start(directory.path());
    assert_eq!(states(&store, &id), [("e".to_owned(), EntryState::Indeterminate, 1)]);
}
