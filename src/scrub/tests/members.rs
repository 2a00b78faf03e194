//! Members of JSON, whose names and places say what they are.

use super::{Row, filled, one};

/// A line and what is left of it.
const LINES: &[&str] = &[
    r#"{"rawInput":{"token":"«{a10}»"}}"#,
    r#"{"rawInput":{"apiKey" : "«abc»", "url":"x"}}"#,
    r#"{"password":"«p\"w\\d\/1»","x":1}"#,
    r#"{"password":"«päss»"}"#,
    r#"{"client_secret":"«{l12}»","id":7}"#,
    r#"{"AWS_SECRET_ACCESS_KEY":"«{b40}»"}"#,
    r#"{"text":"{\"api_key\": \"«abc»\", \"n\": 1}"}"#,
    r#"{"text":"{\"a\":\"{\\\"api_key\\\": \\\"«{a12}»\\\"}\"}"}"#,
    r#"{"text":"line\nexport FOO_TOKEN=«{a12}»\nnext"}"#,
    r#"{"text":"«-----BEGIN PRIVATE KEY-----\n{b64}\n-----END PRIVATE KEY-----»\n"}"#,
    r#"{"text":"«-----BEGIN PRIVATE KEY-----\n{b64}\n»","next":"stays"}"#,
    r#"{"text":"\u003csk\u002d ","t":"x \u0022«\u0073\u006b\u002d{a24}»\u0022"}"#,
    r#"{"url":"https:\/\/u:«{a8}»@h.example\/x"}"#,
    r#"{"headers":{"Authorization":"Bearer «{a30}»","Accept":"x"}}"#,
    r#"{"headers":{"authorization":"Basic «dXNlcjpwYXNz»"}}"#,
    r#"{"headers":{"authorization":"«{a30}»"}}"#,
    r#"{"mcpServers":[{"env":[{"name":"A","value":"«b»"},{"value":"«c d»","name":"B"}],"x":{"value":"stays"}}]}"#,
    r#"{"mcpServers":[{"headers":[{"name":"X-Any","value":"«plain»"},{"name":"E","value":""}]}]}"#,
    r#"{"params":{"command":"c","env":[{"name":"A","value":"«{l9}»","_meta":{"x":"y"}}],"cwd":"/x"}}"#,
    r#"{"env":{"A":"«b»","B":"«c»"},"C":"d"}"#,
    r#"{"args":["--port","80","--api-key","«{l9}»","--password","«x»","--token"]}"#,
    r#"[{"name":"API_TOKEN","value":"«{a12}»"},{"name":"MODE","value":"fast"}]"#,
    r#"{"a":[1,{"key":"GITHUB_TOKEN","value":"«sk-{a24}»"}],"sk-{a2}":"«ghp_{a36}»"}"#,
    r#"{"«ghp_{a36}»":1}"#,
    r#" [ "«ghp_{a36}»" , 1.5e3 , true ] "#,
    r#""«ghp_{a36}»""#,
    r#"{"broken": "«ghp_{a36}»"#,
    r#"[INFO] password=«hunter2x» "and" «ghp_{a36}»"#,
    r#"2024-11-30 {"token":"«{a10}»","inputTokens":12}"#,
];

#[test]
fn members_are_scrubbed_by_name_and_place() {
    for line in LINES {
        let row = Row::of(line);
        assert_eq!(one(&row.text), row.clean, "{line}");
    }
}

/// R242: what cannot be understood is stored too.
#[test]
fn a_line_that_is_no_text_is_scrubbed() {
    let secret = filled("ghp_{a36}");
    let line = [b"\xff\xfe ", secret.as_bytes(), b" \xff"].concat();
    let out = super::stored([bytes::Bytes::from(line)]);
    assert_eq!(&out[0][..], b"\xff\xfe [scrubbed] \xff");
}

#[test]
fn depth_is_no_burden() {
    let deep = |inside: &str| format!("{}{inside}{}", r#"{"a":["#.repeat(50_000), "]}".repeat(50_000));
    let row = Row::of("\"«ghp_{a36}»\"");
    assert_eq!(one(&deep(&row.text)), deep(&row.clean));
}
