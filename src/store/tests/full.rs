//! A disk that is full, and one that fails (R274).

use std::{
    env,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use rusqlite::ffi;

use super::*;
use crate::wire::credit::{Amount, Budget, Large};

/// Where a store on a small file system finds its directory.
const SMALL: &str = "ACPVISOR_TEST_SMALL";
/// Where a store with a fault does.
const FAULTY: &str = "ACPVISOR_TEST_FAULTY";

/// A store that may have so many pages; what it has already it keeps.
fn limited(directory: &Path) -> (Running, Arc<AtomicI64>) {
    let pages = Arc::new(AtomicI64::new(i64::from(u32::MAX - 1)));
    let limit = pages.clone();
    let store = Running::with(directory, |opened| {
        opened.strain = Box::new(move |connection| {
            let pages = limit.load(Ordering::SeqCst);
            connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
        });
    });
    (store, pages)
}

fn large(letter: &str) -> Op {
    Op::Frames(Kind::Peer, vec![letter.repeat(100_000).into()])
}

fn letters(store: &Running, id: &SessionId) -> String {
    let rows = store.reader.rows(Some(id), 0, i64::MAX, usize::MAX).unwrap();
    rows.iter().map(|row| char::from(row.lines[0])).collect()
}

/// R274: who waits hears of it, what nobody waits for keeps its credit and its place and is stored later.
#[test]
fn what_finds_no_space_is_told_or_waits_in_order() {
    let directory = directory();
    let (store, pages) = limited(directory.path());
    let (id, other) = (store.session(), store.session());
    let budget = Budget::new(Amount { items: 9, bytes: 9_000_000 }, Large::new(1));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    pages.store(1, Ordering::SeqCst);
    for letter in ["a", "b"] {
        let (credit, _) = runtime.block_on(budget.lend(&[100_000], 1, &mut None));
        store.queue.send(Write { credit, ..unacknowledged(&id, [large(letter)]) }).unwrap();
    }
    let full = |id: &SessionId| {
        Err(StoreError::Full { session: id.to_string(), path: store.reader.path().to_owned() })
    };
    assert_eq!(store.write(&id, [large("c")]), full(&id));
    assert_eq!(store.write(&other, [large("x")]), full(&other));
    assert_eq!(store.write(&id, [lines("small\n")]), full(&id), "it must not come before the others");
    store.write(&other, [Op::Title(Some("it goes on".to_owned()))]).unwrap();
    assert_eq!(budget.out(), Amount { items: 2, bytes: 200_000 });
    assert_eq!(letters(&store, &id), "");

    pages.store(i64::from(u32::MAX - 1), Ordering::SeqCst);
    store.write(&id, [large("d")]).unwrap();
    assert_eq!((letters(&store, &id).as_str(), budget.out()), ("abd", Amount::default()));
}

/// R274: without any further write it is tried again by itself.
#[test]
fn what_waits_for_space_is_stored_when_there_is_some() {
    let directory = directory();
    let (store, pages) = limited(directory.path());
    let id = store.session();
    pages.store(1, Ordering::SeqCst);
    store.cast(&id, [large("a")]);
    assert!(store.write(&id, [large("b")]).is_err());
    pages.store(i64::from(u32::MAX - 1), Ordering::SeqCst);
    eventually("it is stored", || letters(&store, &id) == "a");
}

/// R274: a session that is deleted needs no space for what it still had to store.
#[test]
fn a_session_with_a_backlog_can_be_deleted() {
    let directory = directory();
    let (store, pages) = limited(directory.path());
    let id = store.session();
    pages.store(1, Ordering::SeqCst);
    store.cast(&id, [large("a")]);
    store.write(&id, [Op::Delete]).unwrap();
    pages.store(i64::from(u32::MAX - 1), Ordering::SeqCst);
    let other = store.session();
    store.write(&other, [large("b")]).unwrap();
    assert_eq!((store.reader.saved(), letters(&store, &other).as_str()), (Ok(1), "b"));
}

/// R46, R274: what follows a fork that had to wait comes behind it too.
#[test]
fn a_fork_waits_behind_the_backlog_of_its_source() {
    let directory = directory();
    let (store, pages) = limited(directory.path());
    let id = store.session();
    pages.store(1, Ordering::SeqCst);
    store.cast(&id, [large("a")]);
    assert!(store.write(&id, [large("b")]).is_err());
    let forked = row("/w");
    store.cast(&forked.id, [Op::Fork(id, Box::new(forked.clone()))]);
    store.cast(&forked.id, [lines("child\n")]);
    pages.store(i64::from(u32::MAX - 1), Ordering::SeqCst);
    store.write(&forked.id, [lines("later\n")]).unwrap();
    assert_eq!(letters(&store, &forked.id), "acl");
}

/// R274: a program that locks the file is in the way for a while, and no reason to end.
#[test]
fn a_lock_of_another_program_is_waited_out() {
    let directory = directory();
    let store =
        Running::with(directory.path(), |opened| opened.connection.busy_timeout(Duration::ZERO).unwrap());
    let id = store.session();
    let other = rusqlite::Connection::open(store.reader.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    store.cast(&id, [lines("a\n")]);
    let told = store.write(&id, [lines("b\n")]).unwrap_err();
    assert!(told.to_string().contains("locked"), "{told}");
    other.execute_batch("COMMIT").unwrap();
    store.write(&id, [lines("c\n")]).unwrap();
    assert_eq!(letters(&store, &id), "ac");
}

/// R274: an error of the disk is told to all who wait, and then to the daemon, which ends.
#[test]
fn a_disk_that_fails_ends_the_store_with_its_reason() {
    let directory = directory();
    let broken = Arc::new(AtomicBool::new(false));
    let fails = broken.clone();
    let store = Running::with(directory.path(), |opened| {
        opened.strain = Box::new(move |_| match fails.load(Ordering::SeqCst) {
            false => Ok(()),
            true => Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR_WRITE), None)),
        });
    });
    let id = store.session();
    broken.store(true, Ordering::SeqCst);
    let answers = [store.post(&id, [lines("a\n")]), store.post(&id, [lines("b\n")])];
    let Ok(Msg::Ended(reason)) = store.told.recv_timeout(DEADLINE) else { panic!("it goes on") };
    assert!(reason.to_string().ends_with("disk I/O error"), "{reason}");
    for answer in answers {
        let told = answer.recv_timeout(DEADLINE).unwrap().unwrap_err();
        assert!(told == reason || told == StoreError::Closed, "{told}");
    }
    store.thread.join().unwrap();
    assert_eq!(store.reader.saved(), Ok(1), "what is there can be read");
}

/// A writer that panics is no silent end either.
#[test]
fn a_panic_of_the_writer_ends_the_store_with_its_reason() {
    let directory = directory();
    let store = Running::with(directory.path(), |opened| opened.strain = Box::new(|_| panic!("on purpose")));
    let answer = store.post(&SessionId::fresh(), [lines("a\n")]);
    assert_eq!(answer.recv_timeout(DEADLINE).unwrap(), Err(StoreError::Closed));
    let ended = store.told.recv_timeout(DEADLINE).unwrap();
    assert!(matches!(&ended, Msg::Ended(error) if error.to_string().contains("panicked")), "{ended:?}");
}

/// R274: the faults that a debug build has on demand.
#[test]
fn faults_on_demand_slow_or_fail_a_commit() {
    let slow = faulty("slow-commit=80");
    assert!(slow.contains("first: true, slow: true, second: true"), "{slow}");
    let failing = faulty("fail-commit=2");
    assert!(failing.contains("first: true") && failing.contains("second: false"), "{failing}");
}

fn faulty(fault: &str) -> String {
    let directory = directory();
    let output = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "store::tests::full::with_a_fault", "--nocapture"])
        .env("ACPVISOR_FAULT", fault)
        .env(FAULTY, directory.path())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "no test: the process that another starts with a fault"]
fn with_a_fault() {
    let Some(directory) = env::var_os(FAULTY).map(PathBuf::from) else { return };
    let store = Running::start(&directory);
    let new = row("/w");
    let began = Instant::now();
    let first = store.write(&new.id, [Op::Create(Box::new(new.clone()))]).is_ok();
    let slow = began.elapsed() >= Duration::from_millis(80);
    let second = store.write(&new.id, [lines("a\n")]).is_ok();
    println!("first: {first}, slow: {slow}, second: {second}");
}

/// R274: a file system of 4 MiB that fills up, in a name space of its own where that is allowed.
#[test]
fn a_small_file_system_fills_up_and_the_store_goes_on() {
    let directory = directory();
    let own = env::current_exe().unwrap();
    let script = format!(
        "mount -t tmpfs -o size=4m none {0} && {SMALL}={0} exec {1} --ignored --exact \
         store::tests::full::on_a_small_file_system --nocapture",
        directory.path().display(),
        own.display()
    );
    let unshare =
        |script: &str| Command::new("unshare").args(["-m", "sh", "-c", script]).stdin(Stdio::null()).output();
    let allowed = format!("mount -t tmpfs -o size=4m none {}", directory.path().display());
    if !unshare(&allowed).is_ok_and(|output| output.status.success()) {
        eprintln!("no file system can be mounted here: not tried");
        return;
    }
    let output = unshare(&script).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "no test: the process that another starts on a small file system"]
fn on_a_small_file_system() {
    let Some(directory) = env::var_os(SMALL).map(PathBuf::from) else { return };
    let ballast = directory.join("ballast");
    std::fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    let store = Running::start(&directory);
    let (id, other) = (store.session(), store.session());
    let mut stored = 0;
    let error = loop {
        match store.write(&id, [large("a")]) {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, StoreError::Full { session, .. } if *session == id.to_string()), "{error}");
    store.cast(&other, [large("b")]);
    assert!(store.write(&other, [large("c")]).is_err());
    assert_eq!(letters(&store, &id), "a".repeat(stored));

    std::fs::remove_file(&ballast).unwrap();
    store.write(&other, [large("d")]).unwrap();
    assert_eq!(letters(&store, &other), "bd");
    store.stop();
    let opened = open(&directory).unwrap();
    let checked: String =
        opened.connection.pragma_query_value(None, "integrity_check", |row| row.get(0)).unwrap();
    assert_eq!(checked, "ok");
}
