//! Whose an update is: of the session itself, of a child that it announced, or of nobody here (R229, R276). Pure.
//!
//! The session has one name at a time on the wire of its peer. Until that name is known, the first one that comes
//! is taken for it: a row of a peer holds lines of its own session and of children only.

use std::collections::HashSet;

use bytes::{Bytes, BytesMut};
use serde_json::value::RawValue;

use super::visit;
use crate::{id::SessionId, limits::CHILDREN_MAX, wire::Frame};

/// The session ids of a transcript.
#[derive(Debug)]
pub(super) struct Names {
    /// The daemon's id, quoted.
    ours: Box<str>,
    /// What the peer calls it: quoted, and read.
    bound: Option<(Box<str>, Box<str>)>,
    /// What the daemon called it when it wrote history for it: it may be a fork now.
    former: Option<Box<str>>,
    children: HashSet<Box<str>>,
}

/// Whose an update is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    Ours,
    Child,
    Nobodys,
}

impl Names {
    /// Of that session.
    pub fn new(session: &SessionId) -> Self {
        Self { ours: quoted(session.as_str()), bound: None, former: None, children: HashSet::new() }
    }

    /// The daemon's id, quoted.
    pub fn ours(&self) -> &str {
        &self.ours
    }

    /// The peer said what it calls the session.
    pub fn bind(&mut self, peer_session: &str) {
        self.bound = Some((quoted(peer_session), peer_session.into()));
    }

    /// The same, unless that is known.
    pub fn bind_first(&mut self, peer_session: &str) {
        if self.bound.is_none() {
            self.bind(peer_session);
        }
    }

    /// The peer is gone: another one may have another name for it.
    pub fn unbind(&mut self) {
        self.bound = None;
    }

    /// Whose a line is that names this session.
    pub fn whose(&mut self, session: &RawValue) -> Whose {
        if self.bound.as_ref().is_some_and(|(quoted, _)| **quoted == *session.get()) {
            return Whose::Ours;
        }
        let Some(name) = visit::text(session) else { return Whose::Nobodys };
        if self.children.contains(&*name) {
            return Whose::Child;
        }
        self.bind_first(&name);
        if self.bound.as_ref().is_some_and(|(_, bound)| **bound == *name) {
            Whose::Ours
        } else {
            Whose::Nobodys
        }
    }

    /// A child was announced.
    pub fn announce(&mut self, child: Option<&RawValue>) {
        let name = child.and_then(visit::text).filter(|_| self.children.len() < CHILDREN_MAX);
        self.children.extend(name.map(|name| Box::from(&*name)));
    }

    /// A line of the peer with the daemon's id in it.
    pub fn rewritten(&self, line: &Bytes) -> Option<Frame> {
        self.replaced(line, |name| self.bound.as_ref().is_some_and(|(_, bound)| **bound == *name))
    }

    /// A line that the daemon wrote itself: for this session, or for the one that this is a fork of (R46).
    pub fn adopted(&mut self, line: &Bytes, session: &RawValue) -> Option<Frame> {
        let name = visit::text(session)?;
        if !self.children.contains(&*name) {
            self.former = Some((&*name).into());
        }
        self.replaced(line, |name| self.former.as_ref().is_some_and(|former| **former == *name))
    }

    /// A line that names the session as it should.
    pub fn written(&self, line: String) -> Frame {
        let mut frame = Frame::parse(Bytes::from(line)).expect("it is put together from JSON");
        frame.keep_sessions(self.ours.as_bytes());
        frame
    }

    fn replaced(&self, line: &Bytes, is_ours: impl Fn(&str) -> bool) -> Option<Frame> {
        let mut frame = Frame::parse(line.clone()).ok()?;
        let name = |raw: &[u8]| serde_json::from_slice::<String>(raw).is_ok_and(|name| is_ours(&name));
        let spans = frame.sessions().iter().filter(|span| name(frame.bytes(**span)));
        let mut spans: Vec<_> = spans.map(|span| span.range()).collect();
        spans.sort_unstable_by_key(|span| span.start);
        if spans.iter().any(|span| line[span.clone()] != *self.ours.as_bytes()) {
            frame = Frame::parse(self.spliced(line, &spans)).ok()?;
        }
        frame.keep_sessions(self.ours.as_bytes());
        Some(frame)
    }

    fn spliced(&self, line: &Bytes, spans: &[std::ops::Range<usize>]) -> Bytes {
        let mut out = BytesMut::with_capacity(line.len() + spans.len() * self.ours.len());
        let mut from = 0;
        for span in spans {
            out.extend_from_slice(&line[from..span.start]);
            out.extend_from_slice(self.ours.as_bytes());
            from = span.end;
        }
        out.extend_from_slice(&line[from..]);
        out.freeze()
    }
}

fn quoted(name: &str) -> Box<str> {
    serde_json::to_string(name).expect("a string is always JSON").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    /// R229, R276: the peer's name for the session, a child's and a stranger's are told apart, however they are
    /// spelled.
    #[test]
    fn names_are_told_apart() {
        let mut names = Names::new(&SessionId::parse("ours").unwrap());
        names.bind("päer");
        names.announce(Some(&raw("\"child\"")));
        for (name, whose) in [
            ("\"päer\"", Whose::Ours),
            (r#""p\u00e4er""#, Whose::Ours),
            ("\"child\"", Whose::Child),
            ("\"other\"", Whose::Nobodys),
        ] {
            assert_eq!(names.whose(&raw(name)), whose, "{name}");
        }
        names.unbind();
        assert_eq!(names.whose(&raw("\"child\"")), Whose::Child);
        assert_eq!(names.whose(&raw("\"next\"")), Whose::Ours);
        assert_eq!(names.whose(&raw("\"päer\"")), Whose::Nobodys);
    }

    /// R229: every place that names the session gets the daemon's id; a child keeps its own.
    #[test]
    fn a_line_leaves_under_our_name() {
        let mut names = Names::new(&SessionId::parse("ours").unwrap());
        names.bind("p");
        let line = r#"{"method":"session/update","params":{"update":{"sessionUpdate":"session_message","senderSessionId":"c","recipientSessionId":"p"},"sessionId":"\u0070"}}"#;
        let frame = names.rewritten(&Bytes::from(line)).unwrap();
        let want = line.replace("\"p\"", "\"ours\"").replace(r#""\u0070""#, "\"ours\"");
        assert_eq!(frame.line(), want.as_bytes());
        assert_eq!(frame.sessions().len(), 2);
    }

    #[test]
    fn children_are_bounded() {
        let mut names = Names::new(&SessionId::parse("ours").unwrap());
        (0..2 * CHILDREN_MAX).for_each(|n| names.announce(Some(&raw(&format!("\"{n}\"")))));
        assert_eq!(names.children.len(), CHILDREN_MAX);
    }
}
