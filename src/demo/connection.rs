//! The wire of the agent: whole lines out under one lock, and who waits for which answer.
//!
//! Owns stdout. When nobody reads it any more, or it was closed on purpose, lines go nowhere; the end of
//! stdin ends the process. Its request ids count from 0, which is an id like any other.

use std::{
    collections::HashMap,
    fs::File,
    io::Write,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::Sender,
    },
};

use serde_json::{Value, json};

use super::{error::Refusal, turn::Event};

/// Both directions of requests over one stdout.
pub(super) struct Connection {
    out: Mutex<Option<File>>,
    asked: Mutex<HashMap<u64, Sender<Event>>>,
    next: AtomicU64,
}

impl Connection {
    /// A connection that owns that file.
    pub fn new(out: File) -> Self {
        Self { out: Mutex::new(Some(out)), asked: Mutex::default(), next: AtomicU64::new(0) }
    }

    /// Sends one message as one line with one write.
    pub fn send(&self, message: &Value) {
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        self.raw(&line);
    }

    /// Sends bytes as they are.
    pub fn raw(&self, bytes: &[u8]) {
        self.with_out(|out| out.write_all(bytes));
    }

    /// Lends stdout to somebody who writes much, or hands it to a child. A failed write closes it.
    pub fn with_out(&self, write: impl FnOnce(&mut File) -> std::io::Result<()>) {
        let mut out = lock(&self.out);
        if out.as_mut().is_some_and(|file| write(file).is_err()) {
            *out = None;
        }
    }

    /// Closes stdout.
    pub fn close(&self) {
        *lock(&self.out) = None;
    }

    /// Sends a request; its answer goes to `inbox` under the id returned.
    pub fn ask(&self, method: &str, params: Value, inbox: Sender<Event>) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.asked).insert(id, inbox);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Answers a request.
    pub fn reply(&self, id: Value, answer: Result<Value, Refusal>) {
        self.send(&match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(refusal) => json!({"jsonrpc": "2.0", "id": id, "error": refusal.into_value()}),
        });
    }

    /// Hands an answer to whoever asked; an answer to nothing is dropped.
    pub fn answered(&self, id: &Value, answer: Result<Value, Value>) {
        let Some(id) = id.as_u64() else { return };
        if let Some(inbox) = lock(&self.asked).remove(&id) {
            let _ = inbox.send(Event::Answer(id, answer));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
