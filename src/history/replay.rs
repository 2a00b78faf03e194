//! What a host sees when it loads a session: its visible history, in order, as updates of the session (R37). Pure.
//!
//! Reads rows once, in order, and lets updates out as soon as nothing can change them any more. Owns only what that
//! takes, all of it bounded: the chunk that is being joined, the calls that are open, the output of terminals, and
//! what counts as it stands in the end. That comes last: plan, mode, options, title, usage.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    Mark, author,
    calls::Calls,
    line::{Kind, Line, Speaker, Update, lines},
    literal,
    names::{Names, Whose},
    outlet::Outlet,
    standing::Standing,
    terminals::Terminals,
    turn::Turn,
    visit,
    words::{self, Message, Words},
};
use crate::{
    id::SessionId,
    store::{self, Stored},
    wire::Frame,
};

/// A history that is being read. Every frame is a `session/update` under the daemon's id of the session; those of
/// children keep the children's ids.
#[derive(Debug)]
pub struct Replay {
    names: Names,
    words: Words,
    calls: Calls,
    terminals: Terminals,
    standing: Standing,
    turn: Option<Turn>,
}

impl Replay {
    /// Of that session.
    pub fn new(session: SessionId) -> Self {
        Self {
            names: Names::new(&session),
            words: Words::default(),
            calls: Calls::default(),
            terminals: Terminals::default(),
            standing: Standing::default(),
            turn: None,
        }
    }

    /// The next row.
    pub fn take(&mut self, row: &Stored, out: &mut Vec<Frame>) {
        lines(&row.lines).for_each(|line| self.line(row.kind, &line, out));
    }

    /// One line of a row.
    pub(super) fn line(&mut self, kind: store::Kind, line: &Bytes, out: &mut Vec<Frame>) {
        match kind {
            store::Kind::Peer => self.peer(line, out),
            store::Kind::Sent => self.sent(line, out),
            store::Kind::Mark => self.mark(line, out),
            store::Kind::Compact => self.compact(line, out),
            store::Kind::Stray => {}
        }
    }

    /// There are no more rows.
    pub fn finish(&mut self, out: &mut Vec<Frame>) {
        self.end_of_all(out);
        let mut outlet = Outlet { names: &self.names, terminals: &self.terminals, out };
        self.standing.finish(&mut outlet);
    }

    /// Whether the peer has the prompt of the turn that is being read.
    pub(super) fn has_prompt(&self) -> bool {
        self.turn.as_ref().is_some_and(Turn::is_sent)
    }

    /// Bytes that are kept.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.words.bytes() + self.calls.bytes() + self.terminals.bytes()
    }

    fn peer(&mut self, line: &Bytes, out: &mut Vec<Frame>) {
        match Line::read(line) {
            Some(Line::Update(update)) => self.update(line, &update, out),
            Some(Line::Call { id, method, params }) => self.request(id, &method, params, out),
            Some(Line::Answer { id, outcome }) => self.answer(id, outcome, out),
            Some(Line::Other) | None => {}
        }
    }

    fn update(&mut self, line: &Bytes, update: &Update<'_>, out: &mut Vec<Frame>) {
        let whose = self.names.whose(update.session);
        match (update.kind, whose) {
            (_, Whose::Nobodys) | (Kind::Passing, _) => {}
            (Kind::Chunk(speaker), _) => self.chunk(line, update, (speaker, whose), out),
            (Kind::ToolCall | Kind::ToolCallUpdate, _) => self.call(line, update, whose, out),
            (Kind::Standing(kind), Whose::Ours) => {
                let mut outlet = Outlet { names: &self.names, terminals: &self.terminals, out };
                self.standing.note(kind, line, update, &mut outlet);
            }
            (Kind::Subagent, _) => {
                self.names.announce(update.child);
                self.pass(line, out);
            }
            (Kind::Standing(_) | Kind::Other, _) => self.pass(line, out),
        }
    }

    fn chunk(
        &mut self,
        line: &Bytes,
        update: &Update<'_>,
        (speaker, whose): (Speaker, Whose),
        out: &mut Vec<Frame>,
    ) {
        let users = speaker == Speaker::User && whose == Whose::Ours;
        if users && self.turn.as_mut().is_some_and(|turn| turn.repeats(update.content)) {
            return;
        }
        let Some(body) = update.plain_text() else { return self.pass(line, out) };
        let names = &self.names;
        let session = if whose == Whose::Ours { names.ours() } else { update.session.get() };
        let message = Message { session, speaker, id: update.message_id.map(RawValue::get) };
        self.words.say(message, body, |line| out.push(names.written(line)));
    }

    fn call(&mut self, line: &Bytes, update: &Update<'_>, whose: Whose, out: &mut Vec<Frame>) {
        self.flush(out);
        self.terminals.told(update.raw);
        let mut outlet = Outlet { names: &self.names, terminals: &self.terminals, out };
        // What is taken out of a line must name the session as it leaves.
        if memchr::memmem::find(update.raw.get().as_bytes(), b"essionId\"").is_none() {
            return self.calls.take(line, update, whose, &mut outlet);
        }
        let Some(frame) = outlet.names.rewritten(line) else { return };
        if let Some(Line::Update(update)) = Line::read(frame.line()) {
            self.calls.take(frame.line(), &update, whose, &mut outlet);
        }
    }

    fn request(
        &mut self,
        id: Option<&RawValue>,
        method: &str,
        params: Option<&RawValue>,
        out: &mut Vec<Frame>,
    ) {
        match (method, id) {
            ("terminal/output", Some(id)) => self.terminals.asked(id, params),
            ("session/request_permission", Some(_)) => {
                let member = |name| params.and_then(|params| visit::member(params.get(), name));
                if let (Some(session), Some(call)) = (member("sessionId"), member("toolCall")) {
                    self.permission(session, call, out);
                }
            }
            _ => {}
        }
    }

    fn permission(&mut self, session: &RawValue, call: &RawValue, out: &mut Vec<Frame>) {
        let whose = self.names.whose(session);
        if whose != Whose::Nobodys {
            self.flush(out);
            let mut outlet = Outlet { names: &self.names, terminals: &self.terminals, out };
            self.calls.asked(session, call, whose, &mut outlet);
        }
    }

    fn answer(&mut self, id: &RawValue, outcome: Result<&RawValue, &RawValue>, out: &mut Vec<Frame>) {
        let opened = outcome.ok().and_then(|result| visit::text_member(result.get(), "sessionId"));
        if let Some(session) = opened {
            self.names.bind_first(&session);
        }
        let outlet = Outlet { names: &self.names, terminals: &self.terminals, out };
        self.standing.answered(id, outcome, &outlet);
    }

    fn sent(&mut self, line: &Bytes, out: &mut Vec<Frame>) {
        match Line::read(line) {
            // Only the session itself is prompted, by whatever name the host or a fork's parent has for it.
            Some(Line::Call { id: Some(_), method, params: Some(params) }) if method == "session/prompt" => {
                self.prompt(params, out);
            }
            Some(Line::Call { id: Some(id), method, params: Some(params) }) => {
                let session = visit::member(params.get(), "sessionId");
                let Some(session) = session else { return };
                if session.get() != self.names.ours() && self.names.whose(session) != Whose::Ours {
                    return;
                }
                self.standing.asked(id, &method, params);
            }
            Some(Line::Answer { id, outcome }) => self.terminals.answered(id, outcome),
            _ => {}
        }
    }

    fn prompt(&mut self, params: &RawValue, out: &mut Vec<Frame>) {
        self.flush(out);
        let names = &self.names;
        if let Some(turn) = &mut self.turn {
            turn.prompt(params, |block| {
                words::block(names.ours(), block, |line| out.push(names.written(line)))
            });
        }
    }

    fn mark(&mut self, line: &Bytes, out: &mut Vec<Frame>) {
        match serde_json::from_slice(line).unwrap_or(Mark::Other) {
            Mark::Opened { peer_session, .. } => {
                self.end_of_peer(out);
                self.names.bind(&peer_session);
            }
            Mark::PeerGone { .. } => self.end_of_peer(out),
            Mark::TurnStarted { source, context_blocks, .. } => {
                self.end_of_turn(out);
                self.turn = Some(Turn::new(&source, context_blocks));
            }
            Mark::TurnEnded { .. } => self.end_of_turn(out),
            Mark::Input { id, text } => self.input(&id, &text, out),
            Mark::Decision { tool_call, decision, reason, .. } if decision == "deny" => {
                self.refused(&tool_call, &reason, out);
            }
            _ => {}
        }
    }

    /// What the host saw of a refusal (R248).
    fn refused(&mut self, tool_call: &str, why: &str, out: &mut Vec<Frame>) {
        self.flush(out);
        let line = Bytes::from(author::refusal(self.names.ours(), tool_call, why));
        let mut outlet = Outlet { names: &self.names, terminals: &self.terminals, out };
        if let Some(Line::Update(update)) = Line::read(&line) {
            self.calls.take(&line, &update, Whose::Ours, &mut outlet);
        }
    }

    fn input(&mut self, id: &str, text: &str, out: &mut Vec<Frame>) {
        self.flush(out);
        let (names, id) = (&self.names, format!("\"{}\"", literal::of(id)));
        let message = Message { session: names.ours(), speaker: Speaker::User, id: Some(&id) };
        words::whole(message, &literal::of(text), |line| out.push(names.written(line)));
    }

    /// What compaction wrote stands as it is, but for what counts only in the end.
    fn compact(&mut self, line: &Bytes, out: &mut Vec<Frame>) {
        self.flush(out);
        let Some(Line::Update(update)) = Line::read(line) else { return };
        if update.kind == Kind::Subagent {
            self.names.announce(update.child);
        }
        let Some(frame) = self.names.adopted(line, update.session) else { return };
        match (update.kind, Line::read(frame.line())) {
            (Kind::Standing(kind), Some(Line::Update(update)))
                if update.session.get() == self.names.ours() =>
            {
                let mut outlet = Outlet { names: &self.names, terminals: &self.terminals, out };
                self.standing.note(kind, frame.line(), &update, &mut outlet);
            }
            _ => out.push(frame),
        }
    }

    fn pass(&mut self, line: &Bytes, out: &mut Vec<Frame>) {
        self.flush(out);
        out.extend(self.names.rewritten(line));
    }

    fn flush(&mut self, out: &mut Vec<Frame>) {
        let names = &self.names;
        self.words.flush(|line| out.push(names.written(line)));
    }

    fn end_of_turn(&mut self, out: &mut Vec<Frame>) {
        self.flush(out);
        self.turn = None;
        self.calls.end_of_turn(&mut Outlet { names: &self.names, terminals: &self.terminals, out });
    }

    fn end_of_all(&mut self, out: &mut Vec<Frame>) {
        self.flush(out);
        self.calls.end_of_all(&mut Outlet { names: &self.names, terminals: &self.terminals, out });
    }

    /// Another process may count its requests as the last one did, and may have another name for the session.
    fn end_of_peer(&mut self, out: &mut Vec<Frame>) {
        self.end_of_all(out);
        self.names.unbind();
        self.standing.forget();
        self.terminals.forget();
        // A prompt that waited for the process is still to be sent.
        self.turn.take_if(|turn| turn.is_sent());
    }
}
