//! What holds for every line and every way to split a text.

use bytes::Bytes;
use proptest::{collection::vec, prelude::*, sample::select};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::super::json::{Mark, Marks};
use super::{MARK, chunk, filled, said, stored};

/// Pieces of secrets, of names, and of what stands around them.
const PARTS: &[&str] = &[
    "sk-",
    "sk-ant-",
    "ghp_",
    "github_pat_",
    "AKIA",
    "xoxb-",
    "eyJ",
    ".eyJ",
    "{a10}",
    "{a24}",
    "{u16}",
    "{h40}",
    "{l20}",
    "{d12}",
    "Bearer ",
    "Authorization: ",
    "Basic ",
    "password",
    "api_key",
    "TOKEN",
    "token",
    "key",
    "secret",
    "--password ",
    "=",
    ": ",
    " = ",
    "\"",
    "'",
    "\\",
    "\\\"",
    " ",
    "\n",
    ",",
    ".",
    "-",
    "--",
    "/",
    "@",
    ":",
    "://",
    "https://u:",
    "@h ",
    "-----BEGIN RSA PRIVATE KEY-----",
    "\n{b64}\n",
    "-----END RSA PRIVATE KEY-----",
    "word",
    "s",
    "k",
    "e",
    "A",
    "é",
    "😀",
    "\u{1b}[0m",
    "(",
    "<",
    ">",
    "$X",
    "[scrubbed]",
    "hunter2",
    "&",
    "?",
    "*",
    "{a140}",
    "string",
    "{",
    "}",
    "m",
];

fn fragment() -> impl Strategy<Value = String> {
    prop_oneof![8 => select(PARTS).prop_map(filled), 1 => "[ -~]{1,3}", 1 => "\\PC{1,2}"]
}

fn text() -> impl Strategy<Value = String> {
    vec(fragment(), 0..14).prop_map(|parts| parts.concat())
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        5 => text().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    let name = prop_oneof![
        text(),
        select(
            &[
                "env",
                "headers",
                "name",
                "value",
                "token",
                "apiKey",
                "Authorization",
                "text",
                "content",
                "params"
            ][..]
        )
        .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            vec((name.clone(), inner), 0..6).prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}

/// Where things open and close, and which strings are names.
fn structure(line: &[u8]) -> Vec<Mark> {
    let blank = |mark| match mark {
        Mark::Name(_) => Mark::Name(0..0),
        Mark::Text(_) => Mark::Text(0..0),
        mark => mark,
    };
    Marks::new(line).map(blank).collect()
}

/// Whether `clean` is `line` with marks in place of parts of it.
fn only_cut(line: &[u8], clean: &[u8]) -> bool {
    let clean = String::from_utf8_lossy(clean).into_owned();
    let line = String::from_utf8_lossy(line).into_owned();
    let mut parts = clean.split(MARK);
    let mut rest = line.strip_prefix(parts.next().unwrap_or_default());
    for part in parts {
        rest = rest.and_then(|rest| rest.find(part).map(|at| &rest[at + part.len()..]));
    }
    rest.is_some()
}

/// As some encoders write it: slashes and other ASCII escaped, blanks between.
fn spelled(line: &str, style: u8) -> String {
    match style {
        0 => line.replace('/', "\\/"),
        1 => line.replace('=', "\\u003d").replace('&', "\\u0026"),
        2 => line.replace('é', "\\u00e9").replace('😀', "\\ud83d\\ude00"),
        _ => line.to_owned(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn json_stays_json_of_the_same_structure(value in json(), style in 0_u8..4) {
        let line = spelled(&value.to_string(), style);
        let out = stored([Bytes::from(line.clone())]);
        prop_assert_eq!(out.len(), 1);
        prop_assert!(serde_json::from_slice::<IgnoredAny>(&out[0]).is_ok(), "{:?}", out);
        prop_assert_eq!(structure(line.as_bytes()), structure(&out[0]));
        prop_assert!(only_cut(line.as_bytes(), &out[0]));
    }

    #[test]
    fn any_bytes_are_taken(bytes in vec(any::<u8>(), 0..200), text in text()) {
        let line = [&bytes[..], text.as_bytes()].concat();
        let out = stored([Bytes::from(line.clone())]);
        prop_assert!(out.len() == 1 && only_cut(&line, &out[0]));
    }

    /// The order and number of lines is kept, and it does not matter where a text was split.
    #[test]
    fn a_text_is_scrubbed_the_same_however_it_is_split(text in text(), cuts in vec(any::<prop::sample::Index>(), 0..12)) {
        let places = super::places(&text);
        let mut cuts: Vec<usize> = cuts.iter().map(|at| places[at.index(places.len())]).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let parts: Vec<&str> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        let out = stored(parts.iter().map(|part| chunk(part)));
        prop_assert_eq!(out.len(), parts.len());
        let all: String = out.iter().map(said).collect();
        prop_assert_eq!(all, super::super::text(&text), "{:?}", parts);
    }
}
