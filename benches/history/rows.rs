//! Histories to be read: rows of a hundred lines, as a peer would write them.

use acpvisor::{
    id::SessionId,
    store::{Kind, Stored},
};

/// Lines in a row.
const ROW_LINES: usize = 100;
/// Lines of a history.
const LINES: usize = 200_000;
const PEER: &str = "0199a3c2-7c1e-7b1f-a1de-5b3c9f0d1e2f";

/// The daemon's id.
pub fn session() -> SessionId {
    SessionId::parse("0199a3c2-0000-7000-8000-000000000000").expect("an id")
}

/// Each kind with its name.
pub fn kinds() -> [(&'static str, Vec<Stored>); 5] {
    [
        ("chunks of 300 bytes", rows(chunk)),
        ("chunks with _meta", rows(chunk_with_meta)),
        ("tool calls, 6 updates each", rows(|n| tool_call(n, 200))),
        ("tool calls, 20 kB output", rows_of(LINES / 10, ROW_LINES, |n| tool_call(n, 20_000))),
        ("messages of 30 MB", rows_of(5, 1, |n| message(n, 30_000_000))),
    ]
}

fn rows(line: impl Fn(usize) -> String) -> Vec<Stored> {
    rows_of(LINES, ROW_LINES, line)
}

fn rows_of(lines: usize, row_lines: usize, line: impl Fn(usize) -> String) -> Vec<Stored> {
    let numbers: Vec<usize> = (0..lines).collect();
    let row = |numbers: &[usize]| numbers.iter().map(|n| line(*n) + "\n").collect::<String>();
    let stored = |(at, numbers): (usize, &[usize])| Stored {
        number: at as i64,
        session: session(),
        time_ms: at as i64,
        kind: Kind::Peer,
        lines: row(numbers).into(),
    };
    numbers.chunks(row_lines).enumerate().map(stored).collect()
}

fn update(update: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{PEER}","update":{{{update}}}}}}}"#
    )
}

fn chunk(n: usize) -> String {
    // a new message now and then
    update(&format!(
        r#""sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{}\n"}},"messageId":"m-{}""#,
        "word ".repeat(24),
        n / 500
    ))
}

fn message(n: usize, bytes: usize) -> String {
    let text = "word ".repeat(bytes / 5);
    update(&format!(
        r#""sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}},"messageId":"m-{n}""#
    ))
}

fn chunk_with_meta(n: usize) -> String {
    update(&format!(
        r#""sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{}\n"}},"_meta":{{"n":{n}}}"#,
        "word ".repeat(24)
    ))
}

fn tool_call(n: usize, output: usize) -> String {
    let (id, at) = (n / 6, n % 6);
    if at == 0 {
        return update(&format!(
            r#""sessionUpdate":"tool_call","toolCallId":"call_{id}","title":"cargo test","kind":"execute","status":"pending","rawInput":{{"command":"cargo test"}}"#
        ));
    }
    let status = if at == 5 { "completed" } else { "in_progress" };
    let text = "line of output\\n".repeat(output * at / 5 / 16 + 1);
    update(&format!(
        r#""sessionUpdate":"tool_call_update","toolCallId":"call_{id}","status":"{status}","content":[{{"type":"content","content":{{"type":"text","text":"{text}"}}}}]"#
    ))
}
