//! Writes that are committed together: each for itself, in order, on the disk when that was asked (R273).

use super::*;
use crate::wire::credit::{Amount, Budget, Large};

/// Where commits wait: each says that it came, and goes on at a word.
struct Gate {
    came: mpsc::Receiver<()>,
    go: mpsc::Sender<()>,
}

impl Gate {
    /// Waits until a commit is there.
    fn meet(&self) {
        self.came.recv_timeout(DEADLINE).unwrap();
    }

    /// Lets a commit pass.
    fn open(&self) {
        self.go.send(()).unwrap();
    }

    /// No further commit came.
    fn is_quiet(&self) -> bool {
        self.came.try_recv().is_err()
    }
}

fn gated(directory: &Path) -> (Running, Gate) {
    let ((come, came), (go, word)) = (mpsc::channel(), mpsc::channel());
    let store = Running::with(directory, |opened| {
        opened.strain = Box::new(move |_| {
            let _ = come.send(());
            let _ = word.recv_timeout(DEADLINE);
            Ok(())
        });
    });
    (store, Gate { came, go })
}

/// A store, held in the commit that makes this session.
fn held(directory: &Path) -> (Running, Gate, SessionId) {
    let (store, gate) = gated(directory);
    let new = row("/w");
    let id = new.id.clone();
    store.cast(&id, [Op::Create(Box::new(new))]);
    gate.meet();
    (store, gate, id)
}

/// R273: what came while a commit ran is one commit, in which each write succeeds or fails alone.
#[test]
fn a_write_that_is_refused_fails_alone_in_its_group() {
    let directory = directory();
    let (store, gate, id) = held(directory.path());
    let twice = Row { id: id.clone(), ..row("/w") };
    let answers = [
        store.post(&id, [lines("a\n")]),
        store.post(&SessionId::fresh(), [lines("nobody's\n")]),
        store.post(&id, [lines("taken back\n"), Op::Create(Box::new(twice))]),
        store.post(&id, [lines("b\n"), lines("c\n")]),
    ];
    gate.open();
    gate.meet();
    gate.open();
    let told = answers.map(|answer| answer.recv_timeout(DEADLINE).unwrap().is_ok());
    assert_eq!((told, gate.is_quiet()), ([true, false, false, true], true));
    assert_eq!((store.text(&id).as_str(), store.reader.size(&id)), ("a\nb\nc\n", Ok(6)));
}

/// R273: a session that ends in the middle of a group takes along what stands before it and nothing behind it.
#[test]
fn a_session_may_end_and_begin_again_within_a_group() {
    let directory = directory();
    let (store, gate, _) = held(directory.path());
    let new = row("/w");
    let answers = [
        store.post(&new.id, [Op::Create(Box::new(new.clone())), lines("lost\n")]),
        store.post(&new.id, [Op::Delete]),
        store.post(&new.id, [Op::Create(Box::new(new.clone())), lines("kept\n")]),
    ];
    gate.open();
    gate.open();
    answers.into_iter().for_each(|answer| {
        answer.recv_timeout(DEADLINE).unwrap().unwrap();
    });
    assert_eq!((store.text(&new.id).as_str(), store.reader.size(&new.id)), ("kept\n", Ok(5)));
}

/// R274: a slow disk holds what was lent for the lines, and neither their senders nor those who read.
#[test]
fn slow_commits_hold_credit_and_nothing_else() {
    let directory = directory();
    let (store, gate, id) = held(directory.path());
    gate.open();
    eventually("the session is there", || store.reader.saved() == Ok(1));
    let budget = Budget::new(Amount { items: 3, bytes: 100 }, Large::new(1));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for _ in 0..3 {
        let (credit, lent) = runtime.block_on(budget.lend(&[10], 1, &mut None));
        assert_eq!(lent, 1);
        store.queue.send(Write { credit, ..unacknowledged(&id, [lines("a line\n")]) }).unwrap();
    }
    assert!(!budget.has_room(), "a peer that sends more waits");
    assert_eq!(store.text(&id), "", "and a reader does not");
    gate.meet();
    gate.open();
    gate.open();
    eventually("the credit returned", || budget.out() == Amount::default());
    assert_eq!(store.text(&id), "a line\n".repeat(3));
}

/// What waits when the writer is told to end is stored first.
#[test]
fn the_writer_ends_behind_what_it_was_given() {
    let directory = directory();
    let store = Running::start(directory.path());
    let id = store.session();
    for _ in 0..1_000 {
        store.cast(&id, [lines("a\n")]);
    }
    let reader = store.reader.clone();
    store.stop();
    let rows = reader.rows(Some(&id), 0, i64::MAX, usize::MAX).unwrap();
    assert_eq!(rows.len(), 1_000);
    let log = std::fs::metadata(directory.path().join("sessions.db-wal"));
    assert!(log.is_ok_and(|log| log.len() == 0), "nothing is left in the log");
}
