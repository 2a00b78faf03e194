//! Credentials are taken out of lines on their way into the store (R243).
//!
//! Owns what is undecided of each session: a piece of a message that ends in what may become a secret waits for the next
//! one, for anything else of its session, or for [`SYNC_MS_MAX`]. Works before a write is tried, so that one that is
//! tried again is not taken for new.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};

use super::{Kind, Op, Write};
use crate::{
    id::SessionId,
    limits::SYNC_MS_MAX,
    scrub::{self, Scrubber},
    wire::credit::Credit,
};

/// All sessions that wrote something.
#[derive(Debug, Default)]
pub(super) struct Scrubbing {
    sessions: HashMap<SessionId, Scrubber>,
    due: Option<Instant>,
}

impl Scrubbing {
    /// A write without secrets, and what has to be written before it.
    pub(super) fn clean(&mut self, mut write: Write) -> SmallVec<[Write; 2]> {
        let mut cleaned = SmallVec::new();
        let mut ops = SmallVec::with_capacity(write.ops.len());
        for op in std::mem::take(&mut write.ops) {
            match op {
                Op::Frames(Kind::Peer, lines) => ops.extend(self.peer(&write.session, lines)),
                Op::Frames(kind, lines) => {
                    ops.extend(self.flush(&write.session));
                    if kind == Kind::Mark && lines.iter().any(|line| ends(line)) {
                        self.sessions.remove(&write.session);
                    }
                    ops.push(Op::Frames(kind, lines.into_iter().map(scrub::line).collect()));
                }
                Op::Title(title) => ops.push(Op::Title(title.map(|t| scrub::text(&t).into_owned()))),
                Op::Fork(source, row) => {
                    cleaned.extend(self.flush(&source).map(|op| lone(&source, op)));
                    ops.push(Op::Fork(source, row));
                }
                Op::Delete => {
                    self.sessions.remove(&write.session);
                    ops.push(Op::Delete);
                }
                other => ops.push(other),
            }
        }
        write.ops = ops;
        cleaned.push(write);
        cleaned
    }

    /// When something has waited long enough.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// What waits, decided as it stands.
    pub(super) fn flush_all(&mut self) -> Vec<Write> {
        self.due = None;
        let mut writes = Vec::new();
        for (session, scrubber) in &mut self.sessions {
            writes.extend(flushed(scrubber).map(|op| lone(session, op)));
        }
        writes
    }

    fn peer(&mut self, session: &SessionId, lines: Vec<Bytes>) -> Option<Op> {
        let scrubber = self.sessions.entry(session.clone()).or_default();
        let mut out = Vec::with_capacity(lines.len());
        lines.into_iter().for_each(|line| scrubber.take(line, &mut out));
        if scrubber.waiting() > 0 && self.due.is_none() {
            self.due = Some(Instant::now() + Duration::from_millis(SYNC_MS_MAX));
        }
        (!out.is_empty()).then_some(Op::Frames(Kind::Peer, out))
    }

    fn flush(&mut self, session: &SessionId) -> Option<Op> {
        flushed(self.sessions.get_mut(session)?)
    }
}

/// Whether a note ends every message before it.
fn ends(mark: &[u8]) -> bool {
    [&br#""mark":"turn_ended""#[..], br#""mark":"closed""#, br#""mark":"peer_gone""#]
        .iter()
        .any(|end| memchr::memmem::find(mark, end).is_some())
}

fn flushed(scrubber: &mut Scrubber) -> Option<Op> {
    let mut out = Vec::new();
    scrubber.flush(&mut out);
    (!out.is_empty()).then_some(Op::Frames(Kind::Peer, out))
}

fn lone(session: &SessionId, op: Op) -> Write {
    Write { session: session.clone(), ops: smallvec![op], sync: false, credit: Credit::none(), ack: None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chunk(text: &str) -> Bytes {
        let update =
            json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } });
        let params = json!({ "sessionId": "p", "update": update });
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string().into()
    }

    fn write(session: &SessionId, op: Op) -> Write {
        lone(session, op)
    }

    fn text(writes: &[Write]) -> String {
        let lines = writes.iter().flat_map(|write| &write.ops).flat_map(|op| match op {
            Op::Frames(_, lines) => lines.as_slice(),
            _ => &[],
        });
        lines.map(|line| String::from_utf8_lossy(line).into_owned() + "\n").collect()
    }

    /// R243: a secret that comes in two batches is in neither row, and nothing is lost or out of order.
    #[test]
    fn a_secret_over_two_writes_is_in_neither() {
        let (id, mut scrubbing) = (SessionId::fresh(), Scrubbing::default());
        let secret = format!("sk-{}", "aB3dE5gH7jK9mN1pQ3sT5vW7yZ".repeat(2));
        let (head, tail) = secret.split_at(9);
        let peer = |text: String| Op::Frames(Kind::Peer, vec![chunk(&text)]);
        let mut all: Vec<Write> = Vec::new();
        all.extend(scrubbing.clean(write(&id, peer(format!("key: {head}")))));
        all.extend(scrubbing.clean(write(&id, peer(format!("{tail} and on")))));
        let end = json!({ "mark": "turn_ended", "turn": 1, "stop_reason": "end_turn" }).to_string();
        all.extend(scrubbing.clean(write(&id, Op::Frames(Kind::Mark, vec![end.into()]))));
        let text = text(&all);
        assert!(!text.contains(head) && !text.contains(tail), "{text}");
        assert!(text.contains(scrub::MARK) && text.contains("and on"), "{text}");
        assert_eq!(text.lines().count(), 3);
        assert!(text.trim_end().lines().last().unwrap().contains("turn_ended"));
    }

    /// R243: what waits for its continuation is written in the end, and a deletion takes it along.
    #[test]
    fn what_waits_is_written_in_the_end() {
        let (id, mut scrubbing) = (SessionId::fresh(), Scrubbing::default());
        let begins = || Op::Frames(Kind::Peer, vec![chunk("it begins with sk-aB3dE5g")]);
        assert_eq!(text(&scrubbing.clean(write(&id, begins()))), "");
        assert!(scrubbing.due().is_some());
        assert!(text(&scrubbing.flush_all()).contains("it begins with"));
        assert!(scrubbing.due().is_none() && scrubbing.flush_all().is_empty());
        let _ = scrubbing.clean(write(&id, begins()));
        let _ = scrubbing.clean(write(&id, Op::Delete));
        assert!(scrubbing.flush_all().is_empty());
    }
}
