//! Every line of a transcript as one JSON object (R242, R270). Pure.

use serde::{Serialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::time;
use crate::{
    history::line::lines,
    store::{Kind, Stored},
};

#[derive(Serialize)]
struct Line<'a> {
    number: i64,
    time: &'a str,
    kind: &'a str,
    frame: Frame<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Frame<'a> {
    Json(&'a RawValue),
    Text(&'a str),
}

/// Adds the lines of a row. A line that is no JSON is a string.
pub fn ndjson(row: &Stored, out: &mut Vec<u8>) {
    let (time, kind) = (time(row.time_ms), kind(row.kind));
    for line in lines(&row.lines) {
        let text = String::from_utf8_lossy(&line);
        let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        let json = is_json.then(|| serde_json::from_str(&text).ok()).flatten();
        let frame = json.map_or(Frame::Text(&text), Frame::Json);
        let line = Line { number: row.number, time: &time, kind, frame };
        serde_json::to_writer(&mut *out, &line).expect("plain data");
        out.push(b'\n');
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Peer => "peer",
        Kind::Sent => "sent",
        Kind::Stray => "stray",
        Kind::Mark => "mark",
        Kind::Compact => "compact",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::sample::Sample;

    /// R242, R270: each line is there as it was written, with its number, its time and whose it is.
    #[test]
    fn every_line_is_there_as_it_was_written() {
        let deep = format!("{}1e400{}", "[".repeat(1_000), "]".repeat(1_000));
        let lines = [r#"{"b" : 1.10}"#.to_owned(), "no json".to_owned(), deep.clone()];
        let sample = Sample::default().row(Kind::Peer, &lines).row(Kind::Stray, &[]);
        let mut out = Vec::new();
        sample.rows.iter().for_each(|row| ndjson(row, &mut out));
        let begin = r#"{"number":1,"time":"2026-01-01T00:00:01.000Z","kind":"peer","frame":"#;
        let want = [r#"{"b" : 1.10}"#, "\"no json\"", &deep].map(|frame| format!("{begin}{frame}}}\n"));
        assert_eq!(String::from_utf8(out).unwrap(), want.concat());
    }
}
