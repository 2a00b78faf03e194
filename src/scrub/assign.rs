//! Values behind names: `password: …`, `export FOO_TOKEN=…`, `"apiKey": "…"`, `--password …`, `Authorization: …`.

use std::ops::Range;

use super::{
    name::{self, Weight},
    run::{Rest, Set},
    token::{self, TOKEN68, decide},
    value::{self, Form},
    view::{Edge, Step, Verdict, View},
};

/// So much of a value without a blank decides; what follows belongs to it.
const VALUE_BYTES_DECIDE: usize = 128;
/// Longest type between a name and its value.
const TYPE_BYTES_MAX: usize = 40;
/// Words between `Authorization` and its value.
const SCHEMES: &[&str] = &["apikey", "basic", "bearer", "digest", "key", "negotiate", "token"];

/// A name as it stands in a text.
struct Name<'a> {
    text: &'a [u8],
    end: usize,
    /// Behind a `?`, `&` or `<`, which only a value can follow.
    mark: Option<u8>,
}

/// A value, and how it is written.
struct Place {
    at: usize,
    form: Form,
    /// Whether the name stands in quotes.
    closed: bool,
    /// Whether there may be a type first.
    typed: bool,
}

/// A quote that was opened.
#[derive(Clone, Copy)]
struct Quote {
    slashes: usize,
    mark: u8,
}

/// A value behind a name that ends there.
pub fn assigned(view: &View<'_>, end: usize) -> Verdict {
    // Most names are only spoken of, or go on.
    let next =
        |b: &u8| matches!(b, b'\\' | b'"' | b'\'' | b'`' | b']' | b'*' | b' ' | b'\t' | b':' | b'=' | b'>');
    if !view.bytes.get(end).is_none_or(next) {
        return Verdict::No;
    }
    let name = Name::of(view, end);
    let Some(weight) = name::weight(name.text) else { return Verdict::No };
    let verdict = place(view, &name).and_then(|place| value(view, &place, weight));
    verdict.unwrap_or_else(|early| early)
}

/// What `Authorization` has, with or without the name of a scheme.
pub fn authorized(view: &View<'_>, end: usize) -> Verdict {
    let verdict = place(view, &Name::of(view, end)).and_then(|place| credentials(view, &place));
    verdict.unwrap_or_else(|early| early)
}

fn credentials(view: &View<'_>, place: &Place) -> Step<Verdict> {
    let start = match view.quote(place.at)? {
        Some((slashes, _)) => place.at + slashes + 1,
        None => place.at,
    };
    let Ok(end) = view.skip(start, VALUE_BYTES_DECIDE, |b| b.is_ascii_alphanumeric()) else {
        return value(view, place, Weight::Token);
    };
    if !is_scheme(&view.bytes[start..end]) || view.bytes[end] != b' ' {
        return value(view, place, Weight::Token);
    }
    let from = view.skip_blanks(end)?;
    Ok(decide(view, from, from, TOKEN68, is_credentials))
}

/// Whether it names the way in which credentials are written.
pub fn is_scheme(word: &[u8]) -> bool {
    SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme.as_bytes()))
}

/// Whether they are no words. More of them never make it less sure.
pub fn is_credentials(value: &[u8]) -> bool {
    let spelled =
        value.iter().skip(1).any(u8::is_ascii_uppercase) && value.iter().any(u8::is_ascii_lowercase);
    value.len() >= 20 || (value.len() >= 6 && (token::is_mixed(value) || spelled || value.contains(&b'=')))
}

impl<'a> Name<'a> {
    fn of(view: &View<'a>, end: usize) -> Self {
        let start = view.name_start(end);
        let mark = start.checked_sub(1).filter(|at| *at >= view.floor).map(|at| view.bytes[at]);
        Self { text: &view.bytes[start..end], end, mark }
    }

    fn is_flag(&self) -> bool {
        self.text.starts_with(b"--")
    }

    /// Whether nothing but a value stands behind its `=`.
    fn is_plain(&self) -> bool {
        name::is_loud(self.text) || matches!(self.mark, Some(b'?' | b'&'))
    }
}

/// Where the value is that belongs to the name.
fn place(view: &View<'_>, name: &Name<'_>) -> Step<Place> {
    let quote = view.quote(name.end)?;
    let closed = quote.is_some();
    let after = quote.map_or(name.end, |(slashes, _)| name.end + slashes + 1);
    let after = view.skip(after, 2, |b| b == b']' || b == b'*')?;
    let gap = view.skip_blanks(after)?;
    let end = view.skip(gap, 3, |b| matches!(b, b':' | b'=' | b'>'))?;
    let at = view.skip(end, 8, |b| matches!(b, b' ' | b'\t' | b'*'))?;
    let place = |form, typed| Ok(Place { at, form, closed, typed });
    match &view.bytes[gap..end] {
        b"" if name.is_flag() && !closed && gap > after => place(Form::Flag, false),
        b"" if name.is_flag() && closed && view.bytes[gap] == b',' => {
            Ok(Place { at: view.skip_blanks(gap + 1)?, form: Form::Flag, closed, typed: false })
        }
        b">" if name.mark == Some(b'<') => place(Form::Plain, false),
        b"" | b"::" | [b'>', ..] => Err(Verdict::No),
        b"=" if name.is_flag() => place(Form::Flag, false),
        b"=" if gap == name.end && at == end && name.is_plain() => place(Form::Plain, false),
        sign => place(Form::Bare, sign == b":" && !closed),
    }
}

fn value(view: &View<'_>, place: &Place, weight: Weight) -> Step<Verdict> {
    if let Some((from, quote)) = opened(view, place.at)? {
        let form = if place.form == Form::Flag { Form::Flag } else { Form::Quoted };
        return quoted(view, from, quote, |value| value::is_secret(value, weight, form));
    }
    // A name in quotes is one of JSON, and its value without is none that could be secret.
    if place.closed {
        return Ok(Verdict::No);
    }
    match bare(view, place.at, place.form, |value| value::is_secret(value, weight, place.form)) {
        Verdict::No if place.typed => typed(view, place.at, weight),
        Verdict::Secret(span, None) if place.typed && is_type(view, &span)? => typed(view, place.at, weight),
        verdict => Ok(verdict),
    }
}

/// Whether it is none of a value but of a type: `name: type = …`, `name: type | …`.
fn is_type(view: &View<'_>, value: &Range<usize>) -> Step<bool> {
    match view.skip_blanks(value.end) {
        _ if value.len() > TYPE_BYTES_MAX => Ok(false),
        Err(Verdict::Ahead) => Err(Verdict::Wait(value.start)),
        Err(_) => Ok(false),
        Ok(at) => Ok(at > value.end && matches!(view.bytes[at], b'=' | b'|')),
    }
}

/// A quote that opens a value there, perhaps behind the letter that some languages put before it.
fn opened(view: &View<'_>, at: usize) -> Step<Option<(usize, Quote)>> {
    let letter = usize::from(b"brfuBRFU@".contains(&view.peek(at)?));
    let quote = match view.quote(at + letter) {
        Err(Verdict::Ahead) if letter > 0 => return Err(Verdict::Wait(at)),
        Err(Verdict::Ahead) => return Err(Verdict::Ahead),
        quote => quote.ok().flatten(),
    };
    Ok(quote.map(|(slashes, mark)| (at + letter + slashes + 1, Quote { slashes, mark })))
}

/// `name: type = "value"`.
fn typed(view: &View<'_>, at: usize, weight: Weight) -> Step<Verdict> {
    let part = |b: u8| b.is_ascii_alphanumeric() || b"_&'<>:.| ?[]".contains(&b);
    let sign = view.skip(at, TYPE_BYTES_MAX, part)?;
    if view.bytes[sign] != b'=' {
        return Ok(Verdict::No);
    }
    let at = view.skip_blanks(sign + 1)?;
    match opened(view, at)? {
        Some((from, quote)) => {
            quoted(view, from, quote, |value| value::is_secret(value, weight, Form::Quoted))
        }
        None => Ok(Verdict::No),
    }
}

/// A value in quotes: known when they close. What holds blanks is prose.
fn quoted(view: &View<'_>, from: usize, quote: Quote, is_secret: impl Fn(&[u8]) -> bool) -> Step<Verdict> {
    let rest = Rest::Run(Set::Quoted(quote.mark, quote.slashes > 0), 0);
    let verdict = |end: usize, rest| match is_secret(&view.bytes[from..end]) {
        true => Verdict::Secret(from..end, rest),
        false => Verdict::No,
    };
    Ok(match quote.end(view.bytes, from) {
        End::Closed(end) => verdict(end, None),
        End::Blank => Verdict::No,
        End::Far(end) if !is_secret(&view.bytes[from..end]) => Verdict::No,
        End::Far(end) => {
            let run = rest.follow(view.bytes, end);
            Verdict::Secret(from..run.end, run.rest)
        }
        End::Edge(end) if view.edge != Edge::More => verdict(end, Some(rest)),
        End::Edge(_) if from == view.bytes.len() => Verdict::Ahead,
        End::Edge(_) => Verdict::Wait(from),
    })
}

/// Where a value in quotes ends.
enum End {
    Closed(usize),
    Blank,
    Far(usize),
    Edge(usize),
}

impl Quote {
    fn end(self, bytes: &[u8], from: usize) -> End {
        let (mut slashes, far) = (0, from + VALUE_BYTES_DECIDE);
        for (at, b) in (from..far).zip(&bytes[from..]) {
            match b {
                b'\\' => slashes += 1,
                b if *b == self.mark && self.closes(slashes) => {
                    return End::Closed(at - self.slashes.min(slashes));
                }
                b if b.is_ascii_whitespace() => return End::Blank,
                _ => slashes = 0,
            }
        }
        match bytes.len() {
            len if len >= far => End::Far(far),
            len => End::Edge(len - slashes.min(len - from)),
        }
    }

    /// Whether a quote behind so many backslashes ends what a quote behind so many began: each level of JSON in JSON
    /// doubles them and adds one.
    fn closes(self, slashes: usize) -> bool {
        slashes <= self.slashes || (slashes - self.slashes).is_multiple_of(2 * (self.slashes + 1))
    }
}

/// A value without quotes, up to what cannot be in one. What goes on as code does is code.
fn bare(view: &View<'_>, from: usize, form: Form, is_secret: impl Fn(&[u8]) -> bool) -> Verdict {
    let bytes = view.bytes;
    let length = bytes[from..].iter().take(VALUE_BYTES_DECIDE).take_while(|b| Set::Bare.has(**b)).count();
    let end = from + length;
    if length == VALUE_BYTES_DECIDE {
        let run = Rest::Run(Set::Bare, 0).follow(bytes, end);
        return if is_secret(&bytes[from..end]) {
            Verdict::Secret(from..run.end, run.rest)
        } else {
            Verdict::No
        };
    }
    if end == bytes.len() && view.edge == Edge::More {
        return if length == 0 { Verdict::Ahead } else { Verdict::Wait(from) };
    }
    let value = trimmed(bytes, from..end);
    let code = match bytes.get(end) {
        Some(b'(') => form != Form::Flag,
        Some(b'[' | b'{' | b'<') => form == Form::Bare,
        _ => false,
    };
    if code || !is_secret(&bytes[value.clone()]) {
        return Verdict::No;
    }
    let rest = (value.end == bytes.len()).then_some(Rest::Run(Set::Bare, 0));
    Verdict::Secret(value, rest)
}

/// Without the signs that end a sentence or a word in bold.
fn trimmed(bytes: &[u8], value: Range<usize>) -> Range<usize> {
    let signs = bytes[value.clone()].iter().rev().take_while(|b| b".*:".contains(b)).count();
    value.start..value.end - signs
}
