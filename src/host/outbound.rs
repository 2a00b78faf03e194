//! Lines for the host: they get this wire's ids and leave through their session's lane (R12, R107).

use super::{
    actor::{Asked, Carried, Msg, State, Warm},
    inbound::quoted,
    stage::Stage,
};
use crate::{
    egress::{self, Admission, Lane, Parcel},
    id::{Address, SessionId, Token},
    limits::CHILDREN_MAX,
    session,
    wire::{
        Call, Envelope, Frame, Letter, Method, RpcError, Word,
        credit::Credit,
        frame::Class,
        outgoing::{Outgoing, Splice},
    },
};

/// The lane of what belongs to no session.
const OWN_LANE: Lane = 0;

impl State {
    pub(super) fn post(&mut self, letter: Letter) {
        match letter {
            Letter::Lines { from: Address::Session(id), envelopes, credit } => {
                self.lines(&id, &envelopes, credit)
            }
            Letter::Word { word: Word::SessionGone(id, why), .. } => self.session_gone(&id, &why),
            Letter::Lines { .. } | Letter::Word { .. } => {}
        }
        self.publish();
    }

    fn lines(&mut self, id: &SessionId, envelopes: &[Envelope], credit: Credit) {
        let bytes = envelopes.iter().map(|e| e.frame.line().len() + 64).sum();
        let mut out = Outgoing::with_capacity(bytes);
        let session = quoted(id);
        // Only what nobody can slow may be turned away: notices of the daemon (R108).
        let notices = credit.is_none() && envelopes.iter().all(|e| e.call == Call::Notification);
        // Taken first: an answer that makes the host forget the session still leaves behind all that was said (R116).
        let lane = self.lane(id);
        let mut owed: Option<Credit> = None;
        for envelope in envelopes {
            match (self.line(id, session.as_bytes(), envelope, &mut out), &mut owed) {
                (Some(more), Some(owed)) => drop(owed.absorb(more)),
                (more, owed) => *owed = owed.take().or(more),
            }
        }
        if !self.sessions.contains(id) && self.warm.as_ref().is_none_or(|warm| warm.id != *id) {
            self.lanes.remove(id);
        }
        if out.lines() > 0 {
            let admission = if notices { Admission::Limited } else { Admission::Always };
            self.offer(lane, Parcel::new(out.lines(), out.finish(), credit).owing(owed), admission);
        }
    }

    /// Puts one line in. Returns what the host was lent for the question that it answers.
    fn line(
        &mut self,
        id: &SessionId,
        session: &[u8],
        envelope: &Envelope,
        out: &mut Outgoing,
    ) -> Option<Credit> {
        let splice = Splice { session: Some(session), ..Splice::default() };
        let frame = &envelope.frame;
        match envelope.call {
            Call::Notification => match envelope.about {
                None => {
                    self.note_child(id, frame);
                    out.push(frame, splice);
                }
                Some(ours) => {
                    let from = Address::Session(id.clone());
                    let number = self.pending.find_outbound(|c| c.token == ours && c.from == from);
                    let number = number?.to_string();
                    out.push(frame, Splice { request_id: Some(number.as_bytes()), ..splice });
                }
            },
            Call::Request(token) => {
                let from = Address::Session(id.clone());
                let number = self.pending.send(Carried { from, token }).to_string();
                let about = envelope.about.and_then(|t| self.pending.inbound_id(t));
                out.push(frame, Splice { id: Some(number.as_bytes()), request_id: about, ..splice });
            }
            Call::Response(token) => {
                let (raw, asked) = self.pending.answer(token)?;
                out.push(frame, Splice { id: Some(&raw), ..splice });
                return self.answered(id, asked, frame);
            }
        }
        None
    }

    /// A child that is announced has its parent's way back from then on (R276).
    fn note_child(&mut self, id: &SessionId, frame: &Frame) {
        let Some(child) = session::announced(frame) else { return };
        let children = self.children.entry(id.clone()).or_default();
        if children.len() < CHILDREN_MAX {
            children.insert(child);
        }
    }

    /// What an answer changes here. Returns what the host was lent for the question.
    fn answered(&mut self, id: &SessionId, asked: Asked, frame: &Frame) -> Option<Credit> {
        let ok = frame.class() == Class::Response { ok: true };
        match asked.method {
            Method::Initialize => self.initialised(ok),
            Method::Authenticate if ok => self.authenticated = asked.login,
            Method::Logout if ok => self.authenticated = None,
            method if method.opens_session() && ok => self.hold(id.clone()),
            Method::SessionNew => self.not_opened(id, asked.cwd, frame),
            Method::SessionClose | Method::SessionDelete if ok => {
                if let Some(closed) = asked.closes {
                    self.forget(&closed);
                }
            }
            _ => {}
        }
        asked.owed
    }

    fn initialised(&mut self, ok: bool) {
        if self.stage == Stage::Initialising {
            self.stage = if ok { Stage::Ready } else { Stage::First };
            if self.ended {
                // behind the answer, which is about to be written
                let _ = self.me.cast(Msg::EofDue);
            }
        }
    }

    fn hold(&mut self, id: SessionId) {
        self.sessions.insert(id.clone());
        self.latest = Some(id);
    }

    /// A process that only wants a login stays for it (R24).
    fn not_opened(&mut self, id: &SessionId, cwd: Option<std::path::PathBuf>, frame: &Frame) {
        self.sessions.remove(id);
        let wants_login = frame.member("error").is_some_and(|e| RpcError::of(e).code == -32000);
        if let Some(cwd) = cwd.filter(|_| wants_login) {
            self.keep_warm(Warm { id: id.clone(), cwd });
        }
    }

    /// A session is gone, by its own end or taken over: what this host still had open there is answered (R239), and
    /// what it was asked means nothing any more. A request that takes the session up again is not answered: it waits
    /// at the berth, and may yet get it.
    fn session_gone(&mut self, id: &SessionId, why: &str) {
        let from = Address::Session(id.clone());
        self.pending.forget_outbound(|carried| carried.from == from);
        let open: Vec<Token> = self
            .pending
            .inbound()
            .filter(|(_, asked)| asked.to.as_ref() == Some(id) && !asked.wishes_for(id))
            .map(|(token, _)| token)
            .collect();
        for token in open {
            self.refuse(token, &RpcError::internal(format!("session {id}: {why}")));
        }
        self.lapse(id);
        if self.stage == Stage::Closing {
            self.close_when_empty();
        }
    }

    /// Forgets a session, but stays its host while a wish to have it again stands: whoever gets it must be there.
    fn lapse(&mut self, id: &SessionId) {
        self.forget(id);
        if self.pending.inbound().any(|(_, asked)| asked.wishes_for(id)) {
            self.sessions.insert(id.clone());
        }
    }

    pub(super) fn forget(&mut self, id: &SessionId) {
        self.sessions.remove(id);
        self.closing.remove(id);
        self.warm.take_if(|w| w.id == *id);
        self.latest.take_if(|latest| latest == id);
        self.lanes.remove(id);
        self.children.remove(id);
    }

    fn lane(&mut self, id: &SessionId) -> Lane {
        if let Some(lane) = self.lanes.get(id) {
            return *lane;
        }
        self.next_lane += 1;
        self.lanes.insert(id.clone(), self.next_lane);
        self.next_lane
    }

    /// Answers a request of the host that no session answers.
    pub(super) fn answer(&mut self, token: Token, frame: &Frame) {
        if let Some((id, asked)) = self.pending.answer(token) {
            let ok = frame.class() == Class::Response { ok: true };
            if asked.method == Method::Initialize {
                self.initialised(ok);
            }
            self.owed = asked.owed;
            self.say(frame, &id);
        }
    }

    /// Answers it with an error.
    pub(super) fn refuse(&mut self, token: Token, error: &RpcError) {
        self.answer(token, &Frame::error(error));
    }

    /// Says an answer under an id as written.
    pub(super) fn say(&mut self, frame: &Frame, id: &[u8]) {
        let mut out = Outgoing::default();
        out.push(frame, Splice { id: Some(id), ..Splice::default() });
        let parcel = Parcel::new(out.lines(), out.finish(), Credit::none()).owing(self.owed.take());
        self.offer(OWN_LANE, parcel, Admission::Always);
    }

    /// Says an error that answers nothing that could be told apart (R13).
    pub(super) fn say_null(&mut self, error: &RpcError) {
        self.say(&Frame::null_error(error), b"null");
    }

    fn offer(&self, lane: Lane, parcel: Parcel, admission: Admission) {
        let _ = self.egress.cast(egress::Msg::Offer(lane, parcel, admission));
    }

    /// Publishes what has changed; most lines change nothing.
    pub(super) fn publish(&mut self) {
        let now = (self.sessions.len(), self.pending.inbound_len());
        if self.published.replace(now) != Some(now) {
            self.card.set("sessions", now.0);
            self.card.set("open_requests", now.1);
        }
    }
}
