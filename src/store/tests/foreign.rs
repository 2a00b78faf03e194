//! Rows that were changed by hand: an error that names session and row, never something else in their place (R185).

use rusqlite::Connection;

use super::*;

struct Spoilt {
    store: Running,
    id: SessionId,
    _directory: TempDir,
}

/// A session with one of everything, after that statement.
fn spoilt(sql: &str) -> Spoilt {
    let directory = directory();
    let store = Running::start(directory.path());
    let id = store.session();
    let entry = inbox::entry("e", "user", "x");
    store
        .write(&id, [lines("a\n"), Op::Prompt(1, PromptState::Running, "host"), Op::Enqueue(entry)])
        .unwrap();
    Connection::open(store.reader.path()).unwrap().execute_batch(sql).unwrap();
    Spoilt { store, id, _directory: directory }
}

fn foreign(session: &str, why: &str) -> StoreError {
    StoreError::Foreign { session: session.to_owned(), why: why.to_owned() }
}

#[test]
fn an_unknown_kind_is_an_error() {
    let Spoilt { store, id, _directory } = spoilt("UPDATE frame SET kind = 9");
    let error = store.reader.rows(Some(&id), 0, i64::MAX, 100).unwrap_err();
    assert_eq!(error, foreign(id.as_str(), "unknown kind 9 of row 1 of the transcript"));
    assert_eq!(store.reader.rows(None, 0, i64::MAX, 100).unwrap_err(), error);
}

/// LOG-03: half a line is not taken for a line.
#[test]
fn half_a_line_is_an_error() {
    let Spoilt { store, id, _directory } = spoilt("UPDATE frame SET lines = x'7b'");
    let error = store.reader.rows(Some(&id), 0, i64::MAX, 100).unwrap_err();
    assert_eq!(error, foreign(id.as_str(), "row 1 of the transcript does not end with a line"));
}

#[test]
fn settings_that_are_none_are_an_error() {
    for (settings, said) in [("nonsense", "expected ident"), (r#"{"approval":7}"#, "invalid type")] {
        let Spoilt { store, id, _directory } = spoilt(&format!("UPDATE session SET settings = '{settings}'"));
        let error = store.reader.row(&id).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("read session {id} in the store: unreadable settings")),
            "{error}"
        );
        assert!(error.contains(said) && error.ends_with("in row 1 of sessions"), "{error}");
        let listed = store.reader.list(&Query { limit: 9, ..Query::default() }).unwrap();
        assert!(listed.rows.is_empty(), "it hides no other");
    }
}

#[test]
fn an_unknown_state_is_an_error() {
    let Spoilt { store, id, _directory } =
        spoilt("UPDATE inbox SET state = 'eaten'; UPDATE prompt SET state = 'lost'");
    let entry = foreign(id.as_str(), r#"unknown state "eaten" of entry e"#);
    assert_eq!(store.reader.inbox(&id).unwrap_err(), entry);
    assert_eq!(store.write(&id, [Op::Remove("e".to_owned())]), Err(entry));
    let prompt = foreign(id.as_str(), r#"unknown state "lost" of prompt 1"#);
    assert_eq!(store.reader.prompts(&id).unwrap_err(), prompt);
}

/// R273: a number that no column holds, because one before it was changed by hand, is refused and ends nothing.
#[test]
fn a_number_out_of_range_hurts_its_write_alone() {
    let Spoilt { store, id, _directory } = spoilt("UPDATE prompt SET number = 9223372036854775807");
    let next = Op::Prompt(9_223_372_036_854_775_808, PromptState::Running, "host");
    assert!(store.write(&id, [next]).is_err());
    store.write(&id, [Op::Title(Some("alive".to_owned()))]).unwrap();
    assert_eq!(store.reader.row(&id).unwrap().unwrap().title.as_deref(), Some("alive"));
}

/// R56: an id that could leave a directory does not come out of the store either.
#[test]
fn an_impossible_id_is_an_error() {
    let Spoilt { store, _directory, .. } = spoilt("UPDATE session SET id = '../x'");
    let error = foreign("../x", "an impossible id in row 1 of sessions");
    assert!(store.reader.list(&Query { limit: 9, ..Query::default() }).unwrap().rows.is_empty());
    assert_eq!(store.reader.pending().unwrap_err(), error);
    assert_eq!(store.reader.rows(None, 0, i64::MAX, 100).unwrap_err(), error);
}

#[test]
fn a_number_out_of_range_is_an_error() {
    let Spoilt { store, id, _directory } = spoilt("UPDATE inbox SET attempt = -1");
    let error = store.reader.inbox(&id).unwrap_err();
    assert!(matches!(&error, StoreError::Foreign { session, .. } if *session == id.to_string()), "{error}");
}
