//! Lists of sessions: newest first, in pages, of one directory (R45).

use std::{collections::BTreeSet, ffi::OsString, os::unix::ffi::OsStringExt, path::PathBuf};

use super::*;

fn make(store: &Running, cwd: impl Into<PathBuf>, updated_ms: i64) -> SessionId {
    let row = Row { cwd: cwd.into(), updated_ms, ..row("/") };
    let id = row.id.clone();
    store.write(&id, [Op::Create(Box::new(row))]).unwrap();
    id
}

/// R45: no session twice and none left out, while others are added and many share a time.
#[test]
fn pages_have_no_duplicates_and_no_gaps_while_sessions_are_added() {
    let directory = directory();
    let store = Running::start(directory.path());
    let made: BTreeSet<_> = (0..120).map(|n| make(&store, "/w", 1_000 + n / 7)).collect();
    let (mut seen, mut sizes, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let page = store.reader.list(&Query { limit: 50, after, cwd: None }).unwrap();
        sizes.push(page.rows.len());
        seen.extend(page.rows);
        make(&store, "/w", 9_000);
        let Some(next) = page.next else { break };
        after = Some(Cursor::parse(&next.to_text()).unwrap());
    }
    assert_eq!(sizes, [50, 50, 20]);
    assert!(seen.windows(2).all(|pair| pair[0].updated_ms >= pair[1].updated_ms));
    assert_eq!(seen.into_iter().map(|row| row.id).collect::<BTreeSet<_>>(), made);
    assert_eq!(store.reader.saved(), Ok(123));
}

/// R45: a directory is compared as bytes, whatever they are; the last page ends even when it is full.
#[test]
fn a_directory_is_its_bytes() {
    let directory = directory();
    let store = Running::start(directory.path());
    let strange = PathBuf::from(OsString::from_vec(b"/w/\xff \xc3\xa4".to_vec()));
    let wanted = [make(&store, &strange, 2_000), make(&store, &strange, 1_000)];
    make(&store, "/w/other", 3_000);
    let query = Query { cwd: Some(strange.clone()), after: None, limit: 2 };
    let page = store.reader.list(&query).unwrap();
    assert_eq!(page.rows.iter().map(|row| row.id.clone()).collect::<Vec<_>>(), wanted);
    assert_eq!((page.rows[0].cwd.clone(), page.next), (strange, None));
    assert!(store.reader.list(&Query::default()).unwrap().rows.is_empty());
}

/// R45: whatever happens in a session moves it to the top; taking a note of the daemon's own does not.
#[test]
fn what_happens_in_a_session_moves_it_to_the_top() {
    let directory = directory();
    let store = Running::start(directory.path());
    let (one, two) = (make(&store, "/w", 1_000), make(&store, "/w", 2_000));
    let first = |store: &Running| store.reader.list(&Query { limit: 1, ..Query::default() }).unwrap();
    store.write(&one, [Op::Frames(Kind::Mark, vec!["{}".into()]), Op::PeerSession(b"7".to_vec())]).unwrap();
    assert_eq!(first(&store).rows[0].id, two);
    store.write(&one, [lines("a\n")]).unwrap();
    assert_eq!(first(&store).rows[0].id, one);
}

#[test]
fn a_row_comes_back_as_it_was_written() {
    let directory = directory();
    let store = Running::start(directory.path());
    let mut row = Row {
        title: Some("ä\0b".to_owned()),
        parent: Some(SessionId::fresh()),
        settings: Settings {
            approval: Approval::AutoEdit,
            mode: Some("code".into()),
            model: Some("m".into()),
            options: vec![("b".into(), "\"x\"".into()), ("a".into(), "true".into())],
        },
        ..row("/w")
    };
    let id = row.id.clone();
    store.write(&id, [Op::Create(Box::new(row.clone()))]).unwrap();
    assert_eq!(store.reader.row(&id), Ok(Some(row.clone())));
    row.peer_session = br#""p-2""#.to_vec();
    store.write(&id, [Op::PeerSession(row.peer_session.clone())]).unwrap();
    assert_eq!(store.reader.row(&id), Ok(Some(row.clone())));
    let again = store.write(&id, [Op::Create(Box::new(row))]);
    assert_eq!(again, Err(StoreError::Exists(id.to_string())));
}

/// R282: a page is read along an index, however many sessions there are.
#[test]
fn pages_are_read_along_an_index() {
    let directory = directory();
    let opened = open(directory.path()).unwrap();
    for (only, index) in [("", "session_updated"), ("cwd = x'2f' AND", "session_cwd")] {
        let sql = format!(
            "EXPLAIN QUERY PLAN SELECT * FROM session WHERE {only} (updated_ms, pk) < (1, 1)
             ORDER BY updated_ms DESC, pk DESC LIMIT 50"
        );
        let mut plan = opened.connection.prepare(&sql).unwrap();
        let steps = plan.query_map([], |row| row.get::<_, String>(3)).unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        assert!(matches!(&*steps, [step] if step.contains(index) && step.contains("SEARCH")), "{steps:?}");
    }
}
