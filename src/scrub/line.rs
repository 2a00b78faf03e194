//! One line for itself: which parts of its bytes are secrets.
//!
//! JSON is read member by member, so that a name speaks for its value; anything else is one text.

use std::{borrow::Cow, ops::Range};

use bytes::Bytes;

use super::{
    MARK, anchor, assign,
    escape::{Places, unescape},
    json::{self, Mark, Marks},
    name,
    scan::scan,
    value::{self, Form},
    view::Edge,
};

/// Ids that lines are told apart by: nobody's secret.
const IDS: [&[u8]; 4] = [b"sessionId", b"toolCallId", b"messageId", b"terminalId"];
/// Deeper objects are read without their names.
const DEPTH_MAX: usize = 128;

/// The line without its secrets; the same bytes when there are none.
pub fn scrub(line: Bytes) -> Bytes {
    if !anchor::any(&line) {
        return line;
    }
    let spans = secrets(&line, None);
    if spans.is_empty() { line } else { cut(&line, spans.iter().map(|span| (span.clone(), MARK))) }
}

/// The line with other words in place of these parts.
pub fn cut(line: &[u8], parts: impl Iterator<Item = (Range<usize>, &'static str)>) -> Bytes {
    let (mut clean, mut at) = (Vec::with_capacity(line.len() + MARK.len()), 0);
    for (part, instead) in parts {
        clean.extend_from_slice(&line[at..part.start]);
        clean.extend_from_slice(instead.as_bytes());
        at = part.end;
    }
    clean.extend_from_slice(&line[at..]);
    Bytes::from(clean)
}

/// Where its secrets lie, in order; nothing inside of `except` is looked at.
pub fn secrets(line: &[u8], except: Option<&Range<usize>>) -> Vec<Range<usize>> {
    let members = json::is_structured(line).then(|| Members::new(line, except).read()).flatten();
    members.unwrap_or_else(|| scan(line, 0, Edge::End).spans.to_vec())
}

/// A string of the line as far as its place tells what it is.
#[derive(Default)]
struct Frame {
    list: bool,
    /// It stands in a list of variables or headers: its value is secret whatever its name (R233).
    variable: bool,
    /// All its members are variables.
    variables: bool,
    /// The name whose value comes next.
    name: Option<Range<usize>>,
    /// What the members `name` and `value` say.
    called: Option<Range<usize>>,
    value: Option<Range<usize>>,
}

struct Members<'a> {
    line: &'a [u8],
    except: Option<&'a Range<usize>>,
    frames: Vec<Frame>,
    /// Depth that has no frames.
    deeper: usize,
    found: Vec<Range<usize>>,
}

impl<'a> Members<'a> {
    fn new(line: &'a [u8], except: Option<&'a Range<usize>>) -> Self {
        Self { line, except, frames: Vec::new(), deeper: 0, found: Vec::new() }
    }

    /// Reads all of them; `None` when the line is not one value of JSON.
    fn read(mut self) -> Option<Vec<Range<usize>>> {
        let (mut depth, mut begun) = (0_usize, false);
        for mark in Marks::new(self.line) {
            match mark {
                Mark::Name(_) if depth == 0 => return None,
                Mark::Text(_) | Mark::Open { .. } if depth == 0 && begun => return None,
                Mark::Open { .. } => depth += 1,
                Mark::Close => depth = depth.checked_sub(1)?,
                _ => {}
            }
            begun = true;
            match mark {
                Mark::Open { list } => self.open(list),
                Mark::Close => self.close(),
                Mark::Name(name) => self.name(name),
                Mark::Text(text) => self.text(text),
                Mark::Other => self.forget_name(),
                Mark::Broken => return None,
            }
        }
        (depth == 0).then_some(self.found)
    }

    fn frame(&mut self) -> Option<&mut Frame> {
        if self.deeper > 0 { None } else { self.frames.last_mut() }
    }

    fn open(&mut self, list: bool) {
        if self.frames.len() == DEPTH_MAX {
            self.deeper += 1;
            return;
        }
        let line = self.line;
        let outer = self.frames.last_mut();
        let within = outer.as_ref().is_some_and(|f| f.list && f.variables);
        let name = outer.and_then(|f| f.name.take()).map(|name| &line[name]);
        let variables = name == Some(b"env") || (list && name == Some(b"headers"));
        self.frames.push(Frame { list, variable: within, variables, ..Frame::default() });
    }

    fn close(&mut self) {
        if self.deeper > 0 {
            self.deeper -= 1;
            return;
        }
        let Some(Frame { variable, called, value: Some(value), .. }) = self.frames.pop() else { return };
        let called = called.map(|name| unescape(&self.line[name]));
        let secret = match called {
            _ if variable => Some(value.clone()).filter(|v| !v.is_empty()),
            Some(name) => self.named(&name, &value),
            None => None,
        };
        if let Some(secret) = secret {
            self.instead(&value, secret);
        }
    }

    /// A whole value, in place of what was found in it.
    fn instead(&mut self, value: &Range<usize>, secret: Range<usize>) {
        let from = self.found.partition_point(|span| span.start < value.start);
        let to = self.found.partition_point(|span| span.start < value.end);
        self.found.splice(from..to, [secret]);
    }

    fn name(&mut self, name: Range<usize>) {
        self.scan(&name);
        if let Some(frame) = self.frame() {
            frame.name = Some(name);
        }
    }

    fn forget_name(&mut self) {
        if let Some(frame) = self.frame() {
            frame.name = None;
        }
    }

    fn text(&mut self, text: Range<usize>) {
        let line = self.line;
        let (name, listed, variables) = match self.frame() {
            Some(frame) => (frame.name.take(), frame.list, frame.variables),
            None => (None, false, false),
        };
        let name = name.map(|name| &line[name]);
        if name.is_some_and(|name| IDS.contains(&name)) {
            return;
        }
        let whole = match name {
            Some(_) if variables => Some(text.clone()).filter(|t| !t.is_empty()),
            Some(name) => self.named(name, &text),
            None if listed => self.flagged(&text),
            None => None,
        };
        match whole {
            Some(secret) => self.found.push(secret),
            None => self.scan(&text),
        }
        self.remember(name, text);
    }

    /// The words that an object calls a value by, and an argument that a value may follow.
    fn remember(&mut self, name: Option<&[u8]>, text: Range<usize>) {
        let Some(frame) = self.frame() else { return };
        match name {
            Some(b"name" | b"key") => frame.called = Some(text),
            Some(b"value") => frame.value = Some(text),
            None if frame.list => frame.called = Some(text),
            _ => {}
        }
    }

    /// The secret in the value of that name.
    fn named(&self, name: &[u8], value: &Range<usize>) -> Option<Range<usize>> {
        let said = unescape(&self.line[value.clone()]);
        let blank = said.iter().any(u8::is_ascii_whitespace);
        if name.to_ascii_lowercase().ends_with(b"authorization") {
            return self.credentials(&said, value);
        }
        let secret = !blank && value::is_secret(&said, name::weight(name)?, Form::Quoted);
        secret.then(|| value.clone())
    }

    /// Behind the name of a scheme, where there is one.
    fn credentials(&self, said: &[u8], value: &Range<usize>) -> Option<Range<usize>> {
        let scheme = said.iter().position(|b| *b == b' ').filter(|at| assign::is_scheme(&said[..*at]));
        let start = scheme.map_or(0, |at| at + 1);
        let raw = start + value.start;
        let secret = !said[start..].contains(&b' ')
            && !value::is_placeholder(&said[start..])
            && assign::is_credentials(&said[start..]);
        secret.then_some(raw..value.end)
    }

    /// An argument behind one such as `--password`.
    fn flagged(&mut self, text: &Range<usize>) -> Option<Range<usize>> {
        let line = self.line;
        let flag =
            self.frame()?.called.take().map(|flag| &line[flag]).filter(|flag| flag.starts_with(b"--"))?;
        let secret = value::is_secret(&unescape(&line[text.clone()]), name::weight(flag)?, Form::Flag);
        secret.then(|| text.clone())
    }

    fn scan(&mut self, part: &Range<usize>) {
        let raw = &self.line[part.clone()];
        if self.except == Some(part) || !anchor::any(raw) {
            return;
        }
        let said = unescape(raw);
        let mut places = Places::new(raw);
        let spans = scan(&said, 0, Edge::End).spans;
        let raw = |span: &Range<usize>| match said {
            Cow::Borrowed(_) => span.clone(),
            Cow::Owned(_) => places.of(span),
        };
        let found = spans.iter().map(raw).map(|span| part.start + span.start..part.start + span.end);
        self.found.extend(found);
    }
}
