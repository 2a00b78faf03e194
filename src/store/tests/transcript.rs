//! Lines that go in and come out: in order, in pages, copied, replaced, deleted (R46, R273, R281, R285, R289).

use std::fs;

use super::*;

fn rows(store: &Running, session: &SessionId, after: i64, bytes: usize) -> Vec<(Kind, String)> {
    let rows = store.reader.rows(Some(session), after, i64::MAX, bytes).unwrap();
    rows.into_iter().map(|row| (row.kind, String::from_utf8(row.lines.to_vec()).unwrap())).collect()
}

/// R273: the lines of a batch are one row, and come back as they went in, after a restart too.
#[test]
fn lines_come_back_in_order_with_their_kinds() {
    let directory = directory();
    let store = Running::start(directory.path());
    let id = store.session();
    store.cast(&id, [lines("one\ntwo\n"), Op::Frames(Kind::Sent, vec!["three".into()])]);
    store.write(&id, [lines("four\n"), Op::Frames(Kind::Mark, Vec::new())]).unwrap();
    let wanted = [(Kind::Peer, "one\ntwo\n"), (Kind::Sent, "three\n"), (Kind::Peer, "four\n")];
    let wanted = wanted.map(|(kind, text)| (kind, text.to_owned()));
    assert_eq!(rows(&store, &id, 0, usize::MAX), wanted);
    store.stop();
    assert_eq!(rows(&Running::start(directory.path()), &id, 0, usize::MAX), wanted);
}

/// R281: a page holds what fits; a row larger than a page comes alone, and none is left out.
#[test]
fn pages_are_bounded_in_bytes_and_a_large_row_comes_alone() {
    let directory = directory();
    let store = Running::start(directory.path());
    let id = store.session();
    let large = Bytes::from("x".repeat(1_000_000));
    store.cast(&id, [lines("aaaa\n"), lines("bbbb\n"), Op::Frames(Kind::Peer, vec![large]), lines("cccc\n")]);
    store.write(&id, []).unwrap();
    let (mut after, mut pages) = (0, Vec::new());
    loop {
        let page = store.reader.rows(Some(&id), after, i64::MAX, 10).unwrap();
        let Some(last) = page.last() else { break };
        after = last.number;
        pages.push(page.iter().map(|row| row.lines.len()).collect::<Vec<_>>());
    }
    assert_eq!(pages, [vec![5, 5], vec![1_000_001], vec![5]]);
    assert_eq!(store.reader.size(&id), Ok(1_000_016));
}

#[test]
fn rows_of_all_sessions_are_in_one_order() {
    let directory = directory();
    let store = Running::start(directory.path());
    let (one, two) = (store.session(), store.session());
    for _ in 0..3 {
        store.cast(&one, [lines("a\n")]);
        store.cast(&two, [lines("b\n")]);
    }
    store.write(&one, []).unwrap();
    let all = store.reader.rows(None, 0, i64::MAX, usize::MAX).unwrap();
    let whose: Vec<_> = all.iter().map(|row| (&row.session, &row.lines[..1])).collect();
    assert_eq!(whose, [(&one, &b"a"[..]), (&two, &b"b"[..])].repeat(3));
    assert!(all.windows(2).all(|pair| pair[0].number < pair[1].number));
    let upto = all[3].number;
    assert_eq!(store.reader.rows(Some(&one), all[0].number, upto, usize::MAX).unwrap(), [all[2].clone()]);
}

#[test]
fn the_last_number_is_told_with_each_commit_and_known_after_a_restart() {
    let directory = directory();
    let store = Running::start(directory.path());
    let mut latest = store.reader.latest();
    let id = store.session();
    latest.mark_unchanged();
    store.write(&id, [lines("a\n")]).unwrap();
    assert!(latest.has_changed().unwrap());
    let number = *latest.borrow_and_update();
    assert_eq!(store.reader.rows(None, 0, i64::MAX, 1).unwrap()[0].number, number);
    store.stop();
    assert!(latest.has_changed().is_err(), "a writer that is gone is seen");
    assert_eq!(*Running::start(directory.path()).reader.latest().borrow(), number);
}

/// R46, R47: a fork has the history, the answered prompts and the settings, and goes its own way.
#[test]
fn a_fork_copies_what_is_durable_and_leaves_the_source_as_it_was() {
    let directory = directory();
    let store = Running::start(directory.path());
    let source = store.session();
    let settings = Settings { approval: Approval::Plan, mode: Some("m".into()), ..Settings::default() };
    store.cast(&source, [Op::Title(Some("t".into())), Op::Settings(settings.clone())]);
    store.cast(
        &source,
        [Op::Prompt(1, PromptState::Running, "host"), Op::Prompt(2, PromptState::Waiting, "host")],
    );
    store.cast(&source, [Op::PromptTo(1, PromptState::Answered, Some("end_turn".into()))]);
    store.cast(&source, [Op::Enqueue(inbox::entry("e", "user", "hello"))]);
    store.cast(&source, [lines("a\nb\n"), lines("c\n")]);
    let forked = Row { params: String::new(), ..row("/w") };
    let id = forked.id.clone();
    store.write(&id, [Op::Fork(source.clone(), Box::new(forked)), lines("child\n")]).unwrap();
    store.write(&source, [lines("parent\n")]).unwrap();

    let row = store.reader.row(&id).unwrap().unwrap();
    assert_eq!((row.parent, row.title, row.settings), (Some(source.clone()), Some("t".into()), settings));
    assert_eq!(row.params, r#"{"mcpServers":[]}"#);
    assert_eq!(store.text(&id), "a\nb\nc\nchild\n");
    assert_eq!(store.text(&source), "a\nb\nc\nparent\n");
    assert_eq!(store.reader.size(&id), Ok(12));
    assert_eq!(store.reader.inbox(&id), Ok(Vec::new()));
    let prompts = store.reader.prompts(&id).unwrap();
    assert_eq!(prompts.iter().map(|prompt| prompt.number).collect::<Vec<_>>(), [1]);
}

/// R47: a fork of nothing, or onto a session that is there, changes nothing.
#[test]
fn a_fork_that_cannot_be_leaves_nothing() {
    let directory = directory();
    let store = Running::start(directory.path());
    let (source, stranger) = (store.session(), SessionId::fresh());
    let new = row("/w");
    let refused = store.write(&new.id, [Op::Fork(stranger.clone(), Box::new(new.clone()))]);
    assert_eq!(refused, Err(StoreError::Unknown(stranger.to_string())));
    let there = Row { id: source.clone(), ..row("/w") };
    let refused = store.write(&source, [lines("a\n"), Op::Fork(source.clone(), Box::new(there))]);
    assert_eq!(refused, Err(StoreError::Exists(source.to_string())));
    assert_eq!((store.reader.saved(), store.text(&source)), (Ok(1), String::new()));
}

/// R46: a long history is copied in parts, and whole.
#[test]
fn a_long_history_is_forked_whole() {
    let directory = directory();
    let store = Running::start(directory.path());
    let source = store.session();
    let line = Bytes::from("x".repeat(64 << 10));
    for _ in 0..150 {
        store.cast(&source, [Op::Frames(Kind::Peer, vec![line.clone()])]);
    }
    let new = row("/w");
    store.write(&new.id, [Op::Fork(source.clone(), Box::new(new.clone()))]).unwrap();
    assert_eq!(store.text(&new.id), store.text(&source));
    assert_eq!(store.reader.size(&new.id), Ok(150 * ((64 << 10) + 1)));
}

fn file_holds(directory: &std::path::Path, text: &str) -> bool {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().any(|file| memchr::memmem::find(&fs::read(file).unwrap(), text.as_bytes()).is_some())
}

/// R285: what is deleted is gone from the list, the store and the file; what is not there is no error.
#[test]
fn a_deleted_session_is_gone_from_the_file_too() {
    let directory = directory();
    let store = Running::start(directory.path());
    let (id, other) = (store.session(), store.session());
    let long = Bytes::from("swordfish ".repeat(20_000));
    store.cast(&id, [Op::Enqueue(inbox::entry("e", "user", "swordfish")), lines("swordfish\n")]);
    store.cast(&other, [lines("sardine\n")]);
    store
        .write(&id, [Op::Frames(Kind::Peer, vec![long]), Op::Prompt(1, PromptState::Running, "host")])
        .unwrap();
    store.write(&other, [lines("sardine\n")]).unwrap();
    assert!(file_holds(directory.path(), "swordfish"));
    store.write(&id, [Op::Delete]).unwrap();
    store.write(&id, [Op::Delete]).unwrap();

    assert_eq!((store.reader.row(&id).unwrap(), store.reader.saved()), (None, Ok(1)));
    assert_eq!(store.reader.inbox(&id), Err(StoreError::Unknown(id.to_string())));
    assert_eq!(store.write(&id, [lines("late\n")]), Err(StoreError::Unknown(id.to_string())));
    eventually("the text is gone from the file", || !file_holds(directory.path(), "swordfish"));
    assert_eq!(store.text(&other), "sardine\nsardine\n");
    assert!(file_holds(directory.path(), "sardine"));
}

/// R285: what a killed daemon did not take out of the file, the next one does.
#[test]
fn a_deletion_that_was_cut_short_is_finished_by_the_next_daemon() {
    let directory = directory();
    let store = Running::start(directory.path());
    let (id, _other) = (store.session(), store.session());
    store.write(&id, [Op::Frames(Kind::Peer, vec!["swordfish ".repeat(20_000).into()])]).unwrap();
    store.stop();
    // as the writer does it, without what follows
    let opened = open(directory.path()).unwrap();
    opened.connection.execute("DELETE FROM session WHERE id = ?1", [id.as_str()]).unwrap();
    drop(opened);
    assert!(file_holds(directory.path(), "swordfish"));
    let _store = Running::start(directory.path());
    eventually("the text is gone from the file", || !file_holds(directory.path(), "swordfish"));
}

/// R289: rows are replaced at the place of the first of them, and those around them stay.
#[test]
fn replaced_rows_stand_where_the_first_of_them_stood() {
    let directory = directory();
    let store = Running::start(directory.path());
    let (id, other) = (store.session(), store.session());
    for text in ["a\n", "b\n", "c\n", "d\n"] {
        store.cast(&id, [lines(text)]);
        store.write(&other, [lines("other\n")]).unwrap();
    }
    let before = store.reader.rows(Some(&id), 0, i64::MAX, usize::MAX).unwrap();
    let (after, upto) = (before[0].number, before[2].number);
    let replace = Op::Replace { after, upto, rows: compact(&["x\ny\n", "z\nz2\n"]) };
    store.write(&id, [replace]).unwrap();
    let rows = store.reader.rows(Some(&id), 0, i64::MAX, usize::MAX).unwrap();
    let numbers: Vec<i64> = rows.iter().map(|row| row.number).collect();
    assert_eq!(numbers, before.iter().map(|row| row.number).collect::<Vec<_>>());
    let kinds: Vec<Kind> = rows.iter().map(|row| row.kind).collect();
    assert_eq!(kinds, [Kind::Peer, Kind::Compact, Kind::Compact, Kind::Peer]);
    assert_eq!((store.text(&id).as_str(), store.reader.size(&id)), ("a\nx\ny\nz\nz2\nd\n", Ok(13)));
    assert_eq!(store.text(&other), "other\n".repeat(4));
    let shorter = Op::Replace { after: 0, upto, rows: compact(&["s\n"]) };
    store.write(&id, [shorter]).unwrap();
    assert_eq!((store.text(&id).as_str(), store.reader.size(&id)), ("s\nd\n", Ok(4)));
    let gone = Op::Replace { after, upto, rows: compact(&["s\n"]) };
    let refused = Err(StoreError::Range { session: id.to_string(), after, upto });
    assert_eq!(store.write(&id, [gone]), refused);
}

fn compact(rows: &[&'static str]) -> Vec<(Kind, Bytes)> {
    rows.iter().map(|lines| (Kind::Compact, Bytes::from_static(lines.as_bytes()))).collect()
}

/// R289: a session that became too large is told of, and again when it has grown by a quarter of its bound.
#[test]
fn a_session_that_became_too_large_is_told_of() {
    let directory = directory();
    let store = Running::with(directory.path(), |opened| opened.session_bytes_max = 10);
    let id = store.session();
    let oversize = |store: &Running| match store.told.try_recv() {
        Ok(Msg::Oversize(session, bytes)) => Some((session, bytes)),
        _ => None,
    };
    store.write(&id, [lines("12345\n")]).unwrap();
    store.write(&id, [lines("12345\n")]).unwrap();
    store.write(&id, [lines("1\n")]).unwrap();
    assert_eq!((oversize(&store), oversize(&store)), (Some((id.clone(), 12)), None));
    store.write(&id, [lines("1\n")]).unwrap();
    assert_eq!((oversize(&store), oversize(&store)), (Some((id.clone(), 16)), None));
    store.write(&id, [Op::Replace { after: 0, upto: i64::MAX, rows: compact(&["1\n"]) }]).unwrap();
    store.write(&id, [lines("12345\n12345\n")]).unwrap();
    assert_eq!((oversize(&store), oversize(&store)), (Some((id, 14)), None));
}
