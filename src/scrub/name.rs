//! Names of values: which of them name a secret, and how sure that is.

use smallvec::SmallVec;

/// What a value of that name must look like to be taken for a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Nearly anything: `password`, `api_key`, `FOO_TOKEN`.
    Secret,
    /// No word: `token` alone.
    Token,
    /// A random word: `key` alone, and keys of unknown kinds.
    Key,
}

const SECRETS: &[&str] = &["password", "passwd", "passphrase", "secret"];
/// What makes a key one that is secret.
const SECRET_KEYS: &[&str] = &[
    "access",
    "account",
    "admin",
    "anthropic",
    "api",
    "auth",
    "azure",
    "client",
    "consumer",
    "deploy",
    "encrypt",
    "encryption",
    "gemini",
    "groq",
    "hmac",
    "jwt",
    "license",
    "master",
    "mistral",
    "openai",
    "private",
    "secret",
    "service",
    "shared",
    "signing",
    "ssh",
    "subscription",
    "webhook",
];
/// Keys that everybody may know.
const OPEN_KEYS: &[&str] =
    &["cache", "foreign", "hot", "idempotency", "partition", "primary", "pub", "public", "row", "sort"];
/// Tokens that open nothing: those of protocols, models and parsers.
const OPEN_TOKENS: &[&str] = &[
    "begin",
    "bos",
    "cancel",
    "cancellation",
    "cls",
    "completion",
    "continuation",
    "current",
    "delta",
    "design",
    "end",
    "eos",
    "first",
    "image",
    "input",
    "last",
    "mask",
    "max",
    "min",
    "next",
    "output",
    "pad",
    "page",
    "per",
    "prev",
    "previous",
    "progress",
    "prompt",
    "sep",
    "special",
    "start",
    "stop",
    "sync",
    "unk",
];
const NAME_BYTES_MAX: usize = 64;

/// What this name says of its value; `None` when it names no secret.
pub fn weight(name: &[u8]) -> Option<Weight> {
    let name = &name[name.len().saturating_sub(NAME_BYTES_MAX)..];
    let lower: SmallVec<[u8; NAME_BYTES_MAX]> = name.iter().map(u8::to_ascii_lowercase).collect();
    let before = |noun: &str| lower.strip_suffix(noun.as_bytes()).map(|rest| &name[..rest.len()]);
    if SECRETS.iter().any(|noun| lower.ends_with(noun.as_bytes())) {
        Some(Weight::Secret)
    } else if let Some(kind) = before("pwd") {
        word_ends(kind, name).then_some(Weight::Secret)
    } else if let Some(kind) = before("token") {
        token(kind)
    } else {
        key(before("key")?, name)
    }
}

fn token(kind: &[u8]) -> Option<Weight> {
    let word = last_word(kind);
    match OPEN_TOKENS.iter().any(|open| word.eq_ignore_ascii_case(open.as_bytes())) {
        true => None,
        false if word.is_empty() => Some(Weight::Token),
        false => Some(Weight::Secret),
    }
}

fn key(kind: &[u8], name: &[u8]) -> Option<Weight> {
    let word = last_word(kind);
    let among = |list: &[&str]| list.iter().any(|w| word.eq_ignore_ascii_case(w.as_bytes()));
    let ends =
        |w: &str| word.len() >= w.len() && word[word.len() - w.len()..].eq_ignore_ascii_case(w.as_bytes());
    if SECRET_KEYS.iter().any(|w| ends(w)) {
        return Some(Weight::Secret);
    }
    // A monkey is no key.
    (word_ends(kind, name) && !among(OPEN_KEYS)).then_some(Weight::Key)
}

/// Whether a word ends where `kind` ends within `name`.
fn word_ends(kind: &[u8], name: &[u8]) -> bool {
    let next = name[kind.len()];
    kind.last().is_none_or(|last| {
        !last.is_ascii_alphabetic() || (last.is_ascii_lowercase() && next.is_ascii_uppercase())
    })
}

/// The last word of a name in any spelling.
fn last_word(name: &[u8]) -> &[u8] {
    let name = name.trim_ascii_end();
    let end = name.len() - name.iter().rev().take_while(|b| !b.is_ascii_alphanumeric()).count();
    let name = &name[..end];
    let start = (1..name.len()).rev().find(|at| {
        let (before, here) = (name[at - 1], name[*at]);
        !before.is_ascii_alphanumeric() || (before.is_ascii_lowercase() && here.is_ascii_uppercase())
    });
    &name[start.unwrap_or(0)..]
}

/// Whether it is a name as environments have them, which no code computes with.
pub fn is_loud(name: &[u8]) -> bool {
    name.iter().any(u8::is_ascii_uppercase) && !name.iter().any(u8::is_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_its_value_is() {
        let of = |name: &str| weight(name.as_bytes());
        for name in [
            "password",
            "DB_PASSWORD",
            "userPassword",
            "passwd",
            "db.pwd",
            "dbPwd",
            "client_secret",
            "clientSecret",
            "api_key",
            "apiKey",
            "APIKEY",
            "apikey",
            "x-api-key",
            "--api-key",
            "AWS_SECRET_ACCESS_KEY",
            "AccountKey",
            "FOO_TOKEN",
            "authToken",
            "access_token",
            "github-token",
            "openai_key",
        ] {
            assert_eq!(of(name), Some(Weight::Secret), "{name}");
        }
        assert_eq!(of("token"), Some(Weight::Token));
        assert_eq!(of("--token"), Some(Weight::Token));
        assert_eq!(of("key"), Some(Weight::Key));
        assert_eq!(of("sessionKey"), Some(Weight::Key));
        for name in [
            "progressToken",
            "nextPageToken",
            "max_token",
            "stop_token",
            "primary_key",
            "publicKey",
            "monkey",
            "keys",
            "tokens",
            "cwd",
            "hotkey",
            "keyboard",
            "",
        ] {
            assert_ne!(of(name), Some(Weight::Secret), "{name}");
            assert_ne!(of(name), Some(Weight::Token), "{name}");
        }
        assert_eq!(of("monkey"), None);
        assert_eq!(of("progressToken"), None);
    }
}
