//! The file itself: private, recognised, brought forward, and never overwritten (R186, R273, LOG-04).

use std::{fs, os::unix::fs::PermissionsExt};

use rusqlite::Connection;

use super::*;
use crate::store::migration;

fn why(directory: &Path) -> String {
    match open(directory) {
        Ok(_) => panic!("it opened"),
        Err(StoreError::Open { path, why }) => {
            assert_eq!(path, directory.join("sessions.db"));
            why
        }
        Err(other) => panic!("{other}"),
    }
}

/// R186: the directory and each file are the owner's alone, an older one is made so again.
#[test]
fn every_file_is_private() {
    let directory = directory();
    let state = directory.path().join("a/state");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for _ in 0..2 {
        let store = Running::start(&state);
        store.session();
        assert_eq!(mode(&state), 0o700);
        for name in ["sessions.db", "sessions.db-wal", "sessions.db-shm"] {
            assert_eq!(mode(&state.join(name)), 0o600, "{name}");
        }
        store.stop();
        fs::set_permissions(state.join("sessions.db"), fs::Permissions::from_mode(0o644)).unwrap();
    }
}

/// R273: a file of a newer daemon is refused with both versions and left as it is.
#[test]
fn a_newer_schema_is_refused() {
    let directory = directory();
    drop(open(directory.path()).unwrap());
    let file = directory.path().join("sessions.db");
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 7).unwrap();
    let before = fs::read(&file).unwrap();
    let why = why(directory.path());
    assert!(why.starts_with("its schema is version 7 and this acpvisor knows versions up to 1"), "{why}");
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn a_database_of_another_program_is_refused() {
    let directory = directory();
    let file = directory.path().join("sessions.db");
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let before = fs::read(&file).unwrap();
    assert!(why(directory.path()).starts_with("it is a database of another program"));
    Connection::open(&file).unwrap().execute_batch("DROP TABLE theirs; PRAGMA application_id = 9").unwrap();
    assert!(why(directory.path()).starts_with("it is a database of another program"));
    assert_eq!(fs::read(&file).unwrap().len(), before.len());
}

/// R273, LOG-04: what is no database, or a damaged one, is told of with what to do, and stays as it is.
#[test]
fn a_damaged_file_is_told_of_and_not_overwritten() {
    let directory = directory();
    let file = directory.path().join("sessions.db");
    fs::write(&file, "[{\"sessions\": 12}]\n".repeat(100)).unwrap();
    let before = fs::read(&file).unwrap();
    let said = why(directory.path());
    assert!(said.contains("not a database") && said.contains(".recover"), "{said}");
    assert_eq!(fs::read(&file).unwrap(), before);

    fs::remove_file(&file).unwrap();
    let store = Running::start(directory.path());
    store.session();
    store.stop();
    let mut damaged = fs::read(&file).unwrap();
    damaged[100..4_000].fill(0x5a);
    fs::write(&file, &damaged).unwrap();
    let said = why(directory.path());
    assert!(said.contains("malformed") && said.contains(".recover"), "{said}");
    assert_eq!(fs::read(&file).unwrap(), damaged);
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let directory = directory();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let todo = "; file and directory must be the daemon's own and writable";
    assert_eq!(why(&file), format!("File exists (os error 17){todo}"));
    assert_eq!(why(Path::new("/proc/self")), format!("No such file or directory (os error 2){todo}"));
    fs::create_dir_all(directory.path().join("sessions.db")).unwrap();
    assert_eq!(why(directory.path()), format!("is a directory{todo}"));
}

/// An empty file is none, and what a daemon left that died while it made one is no obstacle.
#[test]
fn an_empty_file_is_a_new_one() {
    let directory = directory();
    for (name, left) in [("", ""), ("-draft", "half"), ("-draft-wal", "half"), ("-draft-shm", "half")] {
        fs::write(directory.path().join(format!("sessions.db{name}")), left).unwrap();
    }
    let store = Running::start(directory.path());
    assert_eq!(store.reader.saved(), Ok(0));
    store.session();
}

/// A log without its file would be taken for a part of the next one.
#[test]
fn a_log_without_its_file_is_told_of_and_kept() {
    let directory = directory();
    let store = Running::start(directory.path());
    store.session();
    let (file, log) = (directory.path().join("sessions.db"), directory.path().join("sessions.db-wal"));
    let before = fs::read(&log).unwrap();
    fs::rename(&file, directory.path().join("moved")).unwrap();
    let said = why(directory.path());
    assert!(said.contains("lies there without it"), "{said}");
    assert_eq!((fs::read(&log).unwrap(), file.exists()), (before, false));
}

const SECOND: &str = "ALTER TABLE session ADD COLUMN colour TEXT; UPDATE session SET colour = agent;";
const THIRD: &str = "CREATE TABLE third (x) STRICT;";

fn tables(connection: &Connection) -> Vec<String> {
    let mut statement = connection.prepare("SELECT sql FROM sqlite_schema ORDER BY name").unwrap();
    let rows = statement.query_map([], |row| row.get::<_, Option<String>>(0)).unwrap();
    rows.map(|row| row.unwrap().unwrap_or_default()).collect()
}

/// R273: an older file is brought forward with everything in it.
#[test]
fn an_older_file_is_brought_forward() {
    let directory = directory();
    let store = Running::start(directory.path());
    let id = store.session();
    store.write(&id, [lines("a\n")]).unwrap();
    store.stop();
    let mut opened = open(directory.path()).unwrap();
    let versions = [migration::VERSIONS[0], SECOND, "CREATE TABLE third (x INTEGER) STRICT;"];
    migration::bring(&mut opened.connection, &versions, 1).unwrap();
    assert_eq!(migration::version(&opened.connection), Ok(3));
    let colour: String =
        opened.connection.query_row("SELECT colour FROM session", [], |row| row.get(0)).unwrap();
    assert_eq!(colour, "claude");
    migration::bring(&mut opened.connection, &versions, 1).unwrap();
    let keys: bool = opened.connection.pragma_query_value(None, "foreign_keys", |row| row.get(0)).unwrap();
    assert!(keys, "and rows that belong together still do");
}

/// R273: a step that fails takes back those before it.
#[test]
fn a_migration_that_fails_leaves_the_file_as_it_was() {
    let directory = directory();
    let store = Running::start(directory.path());
    let id = store.session();
    store.stop();
    let mut opened = open(directory.path()).unwrap();
    let before = tables(&opened.connection);
    // a strict table has no column without a type
    let failed = migration::bring(&mut opened.connection, &[migration::VERSIONS[0], SECOND, THIRD], 1);
    assert!(failed.is_err());
    assert_eq!(tables(&opened.connection), before);
    drop(opened);
    let store = Running::start(directory.path());
    assert!(store.reader.row(&id).unwrap().is_some());
}
