//! Scrubs the lines of one session as they come, the chunks of a message as the one text that they are.
//!
//! Owns the lines that wait because their text ends in what may become a secret, and as much of the text before as
//! judging needs. Invariant: lines leave in the order they came, and nothing waits behind another line or a flush.

use std::ops::Range;

use bytes::Bytes;

use super::{
    MARK, anchor,
    chunk::{Chunk, Message},
    escape::{Places, unescape},
    line,
    run::{END_BYTES_MAX, Rest},
    scan::{Scan, scan},
    seam::Seam,
    view::Edge,
};

/// Lines that wait at most.
const HELD_LINES_MAX: usize = 16;
/// Bytes of the same.
const HELD_BYTES_MAX: usize = 64 << 10;
/// Text before the lines that wait: a name with all that may stand between it and its value.
const CONTEXT_BYTES: usize = 256;

const _: () = assert!(END_BYTES_MAX <= CONTEXT_BYTES, "the end of a block may have begun before");

/// Takes secrets out of a session's lines.
#[derive(Debug, Default)]
pub struct Scrubber {
    message: Option<Message>,
    /// The end of what left of the message, then the texts of the lines that wait.
    pub(super) window: Vec<u8>,
    /// Nothing before this byte of the window is looked at.
    floor: usize,
    held: Vec<Held>,
    /// Parts of the window that go; sorted.
    cuts: Vec<Cut>,
    /// A secret that is not over: how it goes on, and from which byte of the window.
    rest: Option<(Rest, usize)>,
    /// Whether the next text may begin with a secret that is announced.
    ahead: bool,
}

/// A line that waits.
#[derive(Debug)]
struct Held {
    line: Bytes,
    /// Where its text lies in it.
    text: Range<usize>,
    /// What the text says, in the window.
    said: Range<usize>,
}

/// A secret, or more of one.
#[derive(Debug)]
struct Cut {
    span: Range<usize>,
    instead: &'static str,
}

impl Scrubber {
    /// Takes a line and gives those that can be stored.
    pub fn take(&mut self, line: Bytes, out: &mut Vec<Bytes>) {
        if let Some(text) = self.message.as_ref().and_then(|message| message.text(&line)) {
            return self.chunk(line, text, out);
        }
        match Chunk::read(&line) {
            Some(chunk) => {
                self.enter(&chunk, out);
                let text = chunk.text;
                self.unlike(line, text, out);
            }
            None => {
                self.leave(out);
                out.push(line::scrub(line));
            }
        }
    }

    /// Gives what waits, decided as it stands. What comes next of the same message still belongs to it.
    pub fn flush(&mut self, out: &mut Vec<Bytes>) {
        if !self.held.is_empty() {
            self.decide(Edge::End, out);
        }
    }

    /// How many lines wait.
    pub fn waiting(&self) -> usize {
        self.held.len()
    }

    /// A chunk comes: ends the message before, if it is of another.
    fn enter(&mut self, chunk: &Chunk<'_>, out: &mut Vec<Bytes>) {
        if !self.message.as_ref().is_some_and(|message| message.continues(chunk)) {
            self.flush(out);
            self.forget();
            self.message = Some(Message::of(chunk));
        }
    }

    /// Another line comes. Only a message with an id goes on behind it.
    fn leave(&mut self, out: &mut Vec<Bytes>) {
        self.flush(out);
        if !self.message.as_ref().is_some_and(Message::is_named) {
            self.forget();
        }
    }

    fn forget(&mut self) {
        *self = Self { window: std::mem::take(&mut self.window), ..Self::default() };
        self.window.clear();
    }

    /// A chunk whose line is not like the last one: what stands around its text may hold secrets too.
    fn unlike(&mut self, line: Bytes, text: Range<usize>, out: &mut Vec<Bytes>) {
        let around = [&line[..text.start], &line[text.end..]];
        if around.iter().any(|part| anchor::any(part)) {
            let spans = line::secrets(&line, Some(&text));
            let shift: usize = spans.iter().filter(|s| s.start < text.start).map(|s| s.len()).sum();
            let marks = spans.iter().filter(|s| s.start < text.start).count() * MARK.len();
            let clean = line::cut(&line, spans.into_iter().map(|span| (span, MARK)));
            let start = text.start + marks - shift;
            return self.chunk(clean, start..start + text.len(), out);
        }
        if let Some(message) = &mut self.message {
            message.learn(&line, &text);
        }
        self.chunk(line, text, out);
    }

    fn chunk(&mut self, line: Bytes, text: Range<usize>, out: &mut Vec<Bytes>) {
        if self.is_calm(&line[text.clone()]) {
            self.remember(&line[text]);
            out.push(line);
            return;
        }
        self.hold(line, text);
        self.decide(Edge::More, out);
        let bytes: usize = self.held.iter().map(|held| held.line.len()).sum();
        if self.held.len() > HELD_LINES_MAX || bytes > HELD_BYTES_MAX {
            self.decide(Edge::Cut, out);
        }
    }

    /// Whether the text can hold no secret, nor a part of one. May say no without need, never yes.
    fn is_calm(&self, raw: &[u8]) -> bool {
        self.held.is_empty()
            && self.rest.is_none()
            && !self.ahead
            && !anchor::any(raw)
            && Seam::of(&self.window[self.floor.min(self.window.len())..], raw).is_calm()
    }

    /// Keeps the end of a text that left.
    fn remember(&mut self, raw: &[u8]) {
        let end = &raw[raw.len().saturating_sub(CONTEXT_BYTES)..];
        self.window.extend_from_slice(&unescape(end));
        if self.window.len() > 4 * CONTEXT_BYTES {
            self.trim();
        }
    }

    fn hold(&mut self, line: Bytes, text: Range<usize>) {
        let start = self.window.len();
        self.window.extend_from_slice(&unescape(&line[text.clone()]));
        self.held.push(Held { line, text, said: start..self.window.len() });
    }

    /// Gives the lines about which nothing is undecided.
    fn decide(&mut self, edge: Edge, out: &mut Vec<Bytes>) {
        let wait = self.look(edge).unwrap_or(usize::MAX);
        let decided = self.held.iter().take_while(|held| held.said.end <= wait).count();
        let cuts = &self.cuts;
        out.extend(self.held.drain(..decided).map(|held| held.without(cuts)));
        self.trim();
    }

    /// Looks at what waits; tells from where on nothing is decided.
    fn look(&mut self, edge: Edge) -> Option<usize> {
        if let Some((rest, from)) = self.rest.take() {
            let run = rest.follow(&self.window, from);
            self.cut(from..run.end, "");
            self.goes_on(run.rest, from..run.end);
            if run.rest.is_some() {
                return (edge == Edge::More && run.end < self.window.len()).then_some(run.end);
            }
        }
        let Scan { spans, rest, wait, ahead } = scan(&self.window, self.floor, edge);
        for span in spans {
            self.cut(span.clone(), MARK);
            self.goes_on(rest, span);
        }
        // What was decided too early may turn out to be a secret.
        self.ahead = ahead || edge != Edge::More;
        wait
    }

    /// Where a secret ended, or how it goes on. The mark that ends a block may have begun.
    fn goes_on(&mut self, rest: Option<Rest>, span: Range<usize>) {
        self.floor = span.end;
        self.rest = rest.map(|rest| match rest {
            Rest::Block => (rest, span.end.saturating_sub(END_BYTES_MAX).max(span.start)),
            Rest::Run(..) => (rest, span.end),
        });
    }

    /// What left cannot be changed any more.
    fn cut(&mut self, span: Range<usize>, instead: &'static str) {
        let fresh = self.held.first().map_or(self.window.len(), |held| held.said.start);
        let span = span.start.max(fresh)..span.end;
        if !span.is_empty() {
            self.cuts.push(Cut { span, instead });
        }
    }

    /// Lets go of the text that nothing is judged by any more.
    fn trim(&mut self) {
        let fresh = self.held.first().map_or(self.window.len(), |held| held.said.start);
        let near = fresh.saturating_sub(CONTEXT_BYTES).max(self.floor.min(fresh));
        let gone = self.rest.map_or(near, |(_, from)| near.min(from));
        self.window.drain(..gone);
        self.window.shrink_to(HELD_BYTES_MAX);
        self.floor = self.floor.saturating_sub(gone);
        self.rest = self.rest.map(|(rest, from)| (rest, from - gone));
        self.cuts.retain(|cut| cut.span.end > fresh);
        for cut in &mut self.cuts {
            cut.leave(fresh);
            cut.span = cut.span.start - gone..cut.span.end - gone;
        }
        for held in &mut self.held {
            held.said = held.said.start - gone..held.said.end - gone;
        }
    }
}

impl Cut {
    /// What lies before this byte left, and the mark with it.
    fn leave(&mut self, fresh: usize) {
        if self.span.start < fresh {
            *self = Self { span: fresh..self.span.end, instead: "" };
        }
    }
}

impl Held {
    /// The line without its part of these.
    fn without(self, cuts: &[Cut]) -> Bytes {
        let Self { line, text, said } = self;
        let mine = |cut: &&Cut| cut.span.start < said.end && said.start < cut.span.end;
        if !cuts.iter().any(|cut| mine(&cut)) {
            return line;
        }
        let mut places = Places::new(&line[text.clone()]);
        let parts = cuts.iter().filter(mine).map(|cut| {
            let first = cut.span.start.max(said.start) - said.start;
            let place = places.of(&(first..cut.span.end.min(said.end) - said.start));
            let instead = if cut.span.start < said.start { "" } else { cut.instead };
            (text.start + place.start..text.start + place.end, instead)
        });
        line::cut(&line, parts)
    }
}
