//! How a process goes: politely first, then with all below it, and what it still said is read (R8, R214, R222, R279).

use std::time::Duration;

use ractor::ActorRef;

use super::{
    actor::{Event, Msg, State},
    death::{Cause, Death},
    stage::Stage,
};
use crate::{
    egress,
    ingress::End,
    limits,
    process::{
        Exit, Tail,
        ladder::{self, Step},
    },
};

impl State {
    /// It writes no more. A process that stays after that is ended (R222).
    pub(super) fn read_end(&mut self, end: &End, me: &ActorRef<Msg>) {
        self.read_ended = true;
        match end {
            End::Eof | End::Unwanted => self.end_by(None, self.grace(), me),
            End::Failed(error) => self.fail(Cause::ReadFailed(error.to_string())),
            End::Unfinished => self.fail(Cause::ReadFailed("a line was begun and not ended".to_owned())),
        }
        if self.exit.is_some() {
            self.settled(me);
        }
    }

    fn grace(&self) -> Duration {
        Duration::from_millis(self.args.agent.stop_grace_ms)
    }

    pub(super) fn end(&mut self, grace: Duration, me: &ActorRef<Msg>) {
        self.end_by(Some(Cause::Order), grace, me);
    }

    fn end_by(&mut self, cause: Option<Cause>, grace: Duration, me: &ActorRef<Msg>) {
        if let (Some(cause), None) = (cause, &self.exit) {
            self.cause.get_or_insert(cause);
        }
        self.enter(Stage::Ending);
        if let Some(egress) = &self.egress {
            let _ = egress.cast(egress::Msg::Close);
        }
        for (after, step) in ladder::steps(grace) {
            if after.is_zero() {
                self.climb(step);
            } else {
                me.send_after(after, move || Msg::Climb(step));
            }
        }
    }

    pub(super) fn climb(&self, step: Step) {
        match self.process.as_ref().filter(|_| self.exit.is_none()) {
            Some(process) if step == Step::Term => process.term(),
            _ => self.kill(),
        }
    }

    pub(super) fn kill(&self) {
        if let Some(process) = self.process.as_ref().filter(|_| self.exit.is_none()) {
            process.kill();
        }
    }

    /// What it wrote before it went is still read, and its stderr with it, within bounds (R8, R214).
    pub(super) fn exited(&mut self, exit: Exit, me: &ActorRef<Msg>) {
        tracing::info!(session = %self.args.session, agent = %self.args.name, status = ?exit.status,
            by_us = exit.by_us, unproved = exit.unproved, "peer ended");
        self.exit = Some(exit);
        self.settle_later(me);
    }

    fn settle_later(&self, me: &ActorRef<Msg>) {
        let (stderr, me) = (self.stderr.clone(), me.clone());
        let bound = Duration::from_millis(limits::REAP_MS_MAX);
        let read_ended = self.read_ended;
        tokio::spawn(async move {
            let drained = match stderr {
                Some(tail) => tail.drained(bound).await,
                None => true,
            };
            if drained && !read_ended {
                tokio::time::sleep(bound).await;
            }
            let _ = me.cast(Msg::Settled);
        });
    }

    pub(super) fn settled(&mut self, me: &ActorRef<Msg>) {
        if self.exit.is_none() {
            return;
        }
        // A slow host holds the reader up: what the peer said before it went is not lost for that, unless nobody
        // wants it any more.
        let wanted = !matches!(self.cause, Some(Cause::Order));
        if wanted && !self.read_ended && self.held.is() {
            return self.settle_later(me);
        }
        self.down(me);
    }

    pub(super) fn down(&mut self, me: &ActorRef<Msg>) {
        let death = Death {
            agent: self.args.name.clone(),
            cause: self.cause.take().unwrap_or(Cause::Itself),
            exit: self.exit.take(),
            unanswered: self.wire.unanswered(),
            stderr: self.stderr.as_ref().map(Tail::shown).unwrap_or_default(),
            prompt_open: false,
        };
        self.say(Event::Down(Box::new(death)));
        me.stop(Some("gone".to_owned()));
    }
}
