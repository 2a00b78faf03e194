//! Values: whether what stands behind a name looks like a secret, or like code, words and paths.

use super::{
    name::{self, Weight},
    token::is_mixed,
};

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// In quotes, or as a member of JSON.
    Quoted,
    /// Without, where code or prose may stand.
    Bare,
    /// Without, where only a value can: in an environment, in a query.
    Plain,
    /// Behind a flag of a command.
    Flag,
}

/// Words that stand for a value, or for its type.
const WORDS: &[&str] = &[
    "any",
    "auto",
    "basic",
    "bearer",
    "bool",
    "boolean",
    "bytes",
    "default",
    "disabled",
    "empty",
    "enabled",
    "false",
    "hidden",
    "input",
    "int",
    "integer",
    "jwt",
    "key",
    "masked",
    "nil",
    "none",
    "null",
    "number",
    "oauth",
    "object",
    "optional",
    "passwd",
    "password",
    "redacted",
    "required",
    "secret",
    "str",
    "string",
    "text",
    "token",
    "true",
    "undefined",
    "unset",
    "value",
];
/// Words that follow a flag when it is spoken of.
const PROSE: &[&str] = &[
    "a",
    "also",
    "an",
    "and",
    "are",
    "argument",
    "arguments",
    "as",
    "at",
    "because",
    "but",
    "by",
    "can",
    "cannot",
    "flag",
    "flags",
    "for",
    "from",
    "has",
    "if",
    "in",
    "instead",
    "into",
    "is",
    "it",
    "must",
    "needs",
    "not",
    "on",
    "only",
    "option",
    "options",
    "or",
    "parameter",
    "parameters",
    "set",
    "should",
    "that",
    "the",
    "then",
    "to",
    "unless",
    "via",
    "was",
    "when",
    "which",
    "will",
    "with",
    "without",
];

/// Whether a value of such a name, written so, is a secret.
pub fn is_secret(value: &[u8], weight: Weight, form: Form) -> bool {
    if is_placeholder(value) || is_path(value) || among(WORDS, value) || is_reference(value) {
        return false;
    }
    match (weight, form) {
        (Weight::Key, _) => is_key(value),
        (_, Form::Flag) => !value.starts_with(b"-") && !among(PROSE, value),
        (Weight::Secret, Form::Quoted) => value.len() >= 3,
        (Weight::Secret, Form::Plain) => value.len() >= 3 && !is_number(value),
        (Weight::Secret, Form::Bare) => {
            !is_code(value) && (is_long(value) || (value.len() >= 6 && is_odd(value)))
        }
        (Weight::Token, Form::Quoted) => is_long(value) || (value.len() >= 6 && is_mixed(value)),
        (Weight::Token, Form::Plain) => value.len() >= 6 && !is_number(value),
        (Weight::Token, Form::Bare) => {
            !is_code(value) && (is_long(value) || (value.len() >= 12 && is_mixed(value)))
        }
    }
}

fn is_number(value: &[u8]) -> bool {
    let hex = value.starts_with(b"0x") && value[2..].iter().all(u8::is_ascii_hexdigit) && value.len() <= 18;
    hex || value.iter().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-' | b','))
}

/// Whether a part of it is longer than words are, and no name made of several.
fn is_long(value: &[u8]) -> bool {
    value.split(|b| !b.is_ascii_alphanumeric()).any(|part| {
        let cased = |like: fn(&u8) -> bool| part.iter().any(like);
        part.len() >= 20
            && (cased(u8::is_ascii_digit) || !cased(u8::is_ascii_uppercase) || !cased(u8::is_ascii_lowercase))
    })
}

/// Whether something stands for the value: a variable, a gap to be filled in, or our own mark.
pub fn is_placeholder(value: &[u8]) -> bool {
    match value {
        [] => true,
        [b'$', b'A'..=b'Z' | b'_' | b'{' | b'(', ..] => true,
        [b'$', name @ ..] => name.iter().all(|b| b.is_ascii_lowercase() || *b == b'_'),
        [b'<' | b'{' | b'[' | b'%', ..] => matches!(value.last(), Some(b'>' | b'}' | b']' | b'%' | b's')),
        [first, rest @ ..] => {
            let filling = !first.is_ascii_alphanumeric() || (*first | 0x20 == b'x' && rest.len() >= 2);
            filling && rest.iter().all(|b| b == first)
                || value.len() >= 4 && value[..4].eq_ignore_ascii_case(b"your")
                || value.starts_with(b"...")
                || value.starts_with("…".as_bytes())
        }
    }
}

fn among(words: &[&str], value: &[u8]) -> bool {
    words.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

/// Whether it is the name of another secret, as in `"apiKey": "OPENAI_API_KEY"`.
fn is_reference(value: &[u8]) -> bool {
    let plain = value.iter().all(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'-' | b'.'));
    let key = value.to_ascii_lowercase().ends_with(b"key") || value.to_ascii_lowercase().ends_with(b"token");
    plain && (key || (name::is_loud(value) && value.contains(&b'_'))) && name::weight(value).is_some()
}

/// Whether it is a path: names between slashes.
fn is_path(value: &[u8]) -> bool {
    let start = value.iter().position(|b| *b == b'/').map(|at| &value[..at]);
    let rooted = matches!(start, Some(b"" | b"." | b".." | b"~"));
    let parts = || value.split(|b| matches!(b, b'/' | b'.' | b'-' | b'_'));
    let web = value.starts_with(b"http://") || value.starts_with(b"https://");
    let dotted = start.is_some() && value.contains(&b'.');
    web || ((rooted || dotted) && !value.contains(&b'=') && parts().all(|part| part.len() < 24))
}

/// Whether it is an expression: names with dots between them, or `::`.
fn is_code(value: &[u8]) -> bool {
    let name = |part: &[u8]| {
        part.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_')
            && part.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
    };
    let dotted = value.contains(&b'.') && value.len() < 40 && value.split(|b| *b == b'.').all(name);
    dotted || value.windows(2).any(|pair| pair == b"::" || pair == b"->")
}

/// Whether it is no word: holds a letter, and a digit or a sign that words do not have.
fn is_odd(value: &[u8]) -> bool {
    let sign = |b: &u8| b"@#$%^+~".contains(b);
    let inner = &value[..value.len() - 1];
    !is_number(value)
        && value.iter().any(u8::is_ascii_alphabetic)
        && (value.iter().any(|b| b.is_ascii_digit() || sign(b)) || inner.contains(&b'!'))
}

/// Whether a part of it is random: as long as no id is, or spelled in all ways. Hashes and uuids are not.
fn is_key(value: &[u8]) -> bool {
    value.split(|b| !b.is_ascii_alphanumeric()).any(|part| {
        let has = |like: fn(&u8) -> bool| part.iter().any(like);
        let digits = part.iter().filter(|b| b.is_ascii_digit()).count();
        let spelled = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && digits > 0;
        let long = part.len() >= 20
            && digits >= 3
            && !part.iter().all(u8::is_ascii_hexdigit)
            && has(u8::is_ascii_alphabetic);
        (part.len() >= 16 && spelled) || long
    })
}
