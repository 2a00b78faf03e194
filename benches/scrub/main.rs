//! What scrubbing a line costs before it is stored, beside a bare copy of its bytes and a search through them.
//!
//! `cargo bench --bench scrub`. The three take turns in every round, and the best round of each counts, so that a busy
//! machine is busy for all of them.

use std::{
    env,
    hint::black_box,
    time::{Duration, Instant},
};

use acpvisor::scrub::Scrubber;
use bytes::Bytes;

const ROUNDS: usize = 40;
const ROUND_TIME: Duration = Duration::from_millis(10);
const PROSE: &str = "Let me look at the file and see what happens when the function is called with these arguments, \
                     because there may be a problem with the way it reads them. ";
const CODE: &str =
    "    let key = map.get(&name)?;\\n    // see https://docs.example/tokens for the kinds of a token\\n";

fn main() {
    // what cargo bench says and cargo test does not
    if env::args().any(|argument| argument == "--bench") {
        println!(
            "{:36} {:>6} {:>10} {:>8} {:>8} {:>8} {:>8}",
            "line", "bytes", "scrub ns", "copy ns", "search", "x copy", "x search"
        );
        cases().iter().for_each(|(name, lines)| measure(name, lines));
    }
}

/// Each case is some lines that take turns.
fn cases() -> Vec<(&'static str, Vec<Bytes>)> {
    let secret = format!("Use sk-{} for it. ", "X0y1Z2w3Q4".repeat(4));
    let small = |text: &str| chunk(text, "m1", 300);
    vec![
        ("chunk", vec![small(PROSE)]),
        ("chunk, long", vec![chunk(PROSE, "m1", 8192)]),
        ("chunk, each with another id", vec![chunk(PROSE, "m1", 300), chunk(PROSE, "m2", 300)]),
        ("chunk, code", vec![small(CODE)]),
        ("chunk, code, long", vec![chunk(CODE, "m1", 8192)]),
        ("chunk, a secret", vec![small(&secret)]),
        ("chunk, a secret, long", vec![chunk(&format!("{secret}{}", PROSE.repeat(8)), "m1", 8192)]),
        ("tool output", vec![output(PROSE, 300)]),
        ("tool output, long", vec![output(PROSE, 8192)]),
        ("tool output, code, long", vec![output(CODE, 8192)]),
    ]
}

fn chunk(text: &str, id: &str, bytes: usize) -> Bytes {
    let before = "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\
        \"3a2429cf-6b2b-4109-a2cd-c0ee646d92b6\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\
        \"content\":{\"type\":\"text\",\"text\":\"";
    line(before, text, &format!("\"}},\"messageId\":\"{id}\"}}}}}}"), bytes)
}

fn output(text: &str, bytes: usize) -> Bytes {
    let before = "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\
        \"3a2429cf-6b2b-4109-a2cd-c0ee646d92b6\",\"update\":{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\
        \"toolu_1\",\"rawOutput\":\"";
    line(before, text, "\"}}}", bytes)
}

/// A line of that length, or a little shorter, so that no escape is cut.
fn line(before: &str, text: &str, behind: &str, bytes: usize) -> Bytes {
    let room = bytes - before.len() - behind.len();
    let mut inside = text.repeat(room / text.len() + 1);
    inside.truncate(room);
    let inside = inside.trim_end_matches(|c: char| c == '\\' || !c.is_ascii_punctuation() && c != ' ');
    Bytes::from(format!("{before}{inside}{behind}"))
}

fn measure(name: &str, lines: &[Bytes]) {
    let (mut scrubber, mut out) = (Scrubber::default(), Vec::new());
    let mut copy = vec![0; lines[0].len()];
    let (mut scrubs, mut copies, mut searches) = (f64::MAX, f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        scrubs = scrubs.min(time(lines, |line| {
            scrubber.take(black_box(line.clone()), &mut out);
            out.clear();
        }));
        copies = copies
            .min(time(lines, |line| black_box(&mut copy)[..line.len()].copy_from_slice(black_box(line))));
        searches = searches.min(time(lines, |line| _ = black_box(memchr::memchr(0, black_box(line)))));
    }
    let bytes = lines[0].len();
    let (copied, searched) = (scrubs / copies, scrubs / searches);
    println!("{name:36} {bytes:6} {scrubs:10.1} {copies:8.1} {searches:8.1} {copied:8.1} {searched:8.1}");
}

/// Nanoseconds for each line.
fn time(lines: &[Bytes], mut work: impl FnMut(&Bytes)) -> f64 {
    let (start, mut done) = (Instant::now(), 0_u32);
    while start.elapsed() < ROUND_TIME {
        for _ in 0..64 {
            lines.iter().for_each(&mut work);
        }
        done += 64;
    }
    let lines = f64::from(done) * f64::from(u32::try_from(lines.len()).expect("a few"));
    start.elapsed().as_secs_f64() * 1e9 / lines
}
