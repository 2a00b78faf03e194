//! Carries a [`Conversation`] over a socket until it is over.
//!
//! Owns the connection. Holds one line at a time, so that a slow reader of our stdout slows the agent (R104).

use std::{io, time::Instant};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    sync::mpsc::Receiver,
    time::sleep_until,
};

use super::{
    RunError,
    conversation::Conversation,
    outcome::{Abort, Outcome},
    screen::Screen,
    terminal::{Terminal, Typed},
};
use crate::{
    limits::{LINE_BYTES_MAX, READ_BYTES},
    wire::{
        Frame,
        line::{Line, Splitter},
    },
};

/// The daemon keeps a peer's lines under the ceiling, but its ids may be longer than the peer's.
const CEILING: usize = LINE_BYTES_MAX + READ_BYTES;

/// Speaks until the conversation is over. `interrupts` gets one item for every wish to end it.
pub(super) async fn drive<O: io::Write, E: io::Write>(
    stream: &mut UnixStream,
    mut conversation: Conversation,
    screen: &mut Screen<O, E>,
    mut interrupts: Receiver<()>,
    began: impl Fn(&str),
) -> Result<Outcome, RunError> {
    let start = Instant::now();
    let mut wire = Wire { stream, splitter: Splitter::new(CEILING), deaf: false, ended: false };
    let mut terminal = Terminal::default();
    let (mut announced, mut unwritten) = (false, None);
    loop {
        if let Some(error) = screen.take_broken() {
            conversation.abort(Abort::Unread, start.elapsed());
            // a reader that has gone away knows why
            unwritten = Some(error).filter(|error| error.kind() != io::ErrorKind::BrokenPipe);
        }
        if let Some(outcome) = conversation.outcome() {
            return unwritten.map_or_else(|| Ok(outcome.clone()), |error| Err(RunError::Stdout(error)));
        }
        if let (false, Some(session)) = (announced, conversation.session()) {
            began(session);
            announced = true;
        }
        wire.send(conversation.take_outbox()).await;
        terminal.show(conversation.question(), &conversation.agent());
        let due = conversation.deadline().and_then(|at| Some(start.checked_add(at)?.into()));
        tokio::select! {
            line = wire.next() => match line {
                Ok(Some(Line::Whole(line))) => match Frame::parse(line) {
                    Ok(frame) => conversation.frame(&frame, start.elapsed(), screen)?,
                    Err(junk) => conversation.junk(&junk, screen),
                },
                Ok(Some(Line::Overlong(line))) => return Err(RunError::Overlong { length: line.length }),
                Ok(None) | Err(_) => lost(&mut conversation)?,
            },
            Some(()) = interrupts.recv() => {
                screen.complain("cancelling; Ctrl-C again kills");
                conversation.abort(Abort::Interrupted, start.elapsed());
            }
            typed = answer(&mut terminal, &conversation) => match typed {
                Typed::Choice(choice) => conversation.choose(Some(&choice), start.elapsed()),
                Typed::Nothing => conversation.choose(None, start.elapsed()),
            },
            () = wait_until(due) => conversation.tick(start.elapsed()),
        }
    }
}

fn lost(conversation: &mut Conversation) -> Result<(), RunError> {
    if conversation.hung_up() { Ok(()) } else { Err(RunError::Lost) }
}

async fn answer(terminal: &mut Terminal, conversation: &Conversation) -> Typed {
    match conversation.question() {
        Some(question) => terminal.answer(question).await,
        None => std::future::pending().await,
    }
}

async fn wait_until(due: Option<tokio::time::Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

struct Wire<'s> {
    stream: &'s mut UnixStream,
    splitter: Splitter,
    /// It takes nothing more; what it said before may still be there to read.
    deaf: bool,
    ended: bool,
}

impl Wire<'_> {
    async fn send(&mut self, lines: Vec<String>) {
        for line in lines {
            self.deaf = self.deaf || self.stream.write_all(line.as_bytes()).await.is_err();
        }
    }

    /// The next line; none at the end of the connection. Cancel safe: what was read stays in the splitter.
    async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.splitter.next_line() {
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(self.splitter.finish());
            }
            self.ended = self.stream.read_buf(self.splitter.buffer()).await? == 0;
        }
    }
}
