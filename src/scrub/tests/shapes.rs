//! The shapes of credentials, each in every way a text can arrive.

use super::{Row, arrives, arrives_in_pieces, filled, pieces};

const SHAPES: &[&str] = &[
    // prefixes
    "Use «sk-{a48}» for it.",
    "«sk-ant-api03-{a24}_{a20}-{a10}AA»",
    "a «sk-proj-{a20}-{a30}_{a6}» b",
    "(«sk-or-v1-{h64}»)",
    "«sk-svcacct-{a40}», then",
    "«sk-{l26}»",
    "stripe «sk_live_{a24}»; «rk_live_{a24}»",
    "found \"«ghp_{a36}»\"",
    "«gho_{a36}»\n«ghu_{a36}»\n«ghs_{a36}»\n«ghr_{a40}»",
    "«github_pat_{a22}_{a59}»",
    "git clone https://«ghp_{a36}»@github.com/o/r.git",
    "git clone https://«ghp_{a36}»:x-oauth-basic@github.com/o/r.git",
    "id=«AKIA{u16}»",
    "temporary: «ASIA{u16}».",
    "«xoxb-{d12}-{d12}-{a24}»",
    "«xoxp-{d10}-{a10}» and «xoxe-1-{a30}»",
    "«xapp-1-{u10}-{d12}-{h40}»",
    "«glpat-{a20}»",
    "//registry.npmjs.org/: «npm_{a36}»",
    "«hf_{a34}»",
    "?q=1&k=«AIza{a35}»&z",
    "\u{1b}[32m«sk-ant-api03-{a24}»\u{1b}[0m",
    "x=%20«sk-{a24}»",
    // JWT
    "«eyJ{a20}.eyJ{a30}.{a40}»",
    "jwt «eyJhbGciOi{a12}.eyJzdWIi{a9}.{a20}_-{a3}».",
    "unsigned «eyJhbGciOiJub25l{a4}.eyJzdWIi{a9}» here",
    "«ghs_{a10}_eyJ{a20}.eyJ{a20}.{a30}»",
    // Bearer and Authorization
    "Bearer «{a20}»",
    "curl -H 'Authorization: Bearer «{a30}.{a4}=»' x",
    "bearer «abc123def456»",
    "Authorization: Basic «dXNlcjpwYXNz»",
    "Proxy-Authorization: basic «{b24}==»\r\nHost: x",
    "authorization: token «{a40}»",
    "\"Authorization\": \"Bearer «{a32}»\"",
    "{'Authorization': 'ApiKey «{a20}»'}",
    "AUTHORIZATION=\"Token «{h40}»\"",
    // assignments
    "api_key=«{a20}»",
    "api_key = \"«abc»\"",
    "\"apiKey\": \"«{l12}»\",",
    "{\"apiKey\":\"«{a16}»\"}",
    "{\\\"api_key\\\": \\\"«abc»\\\"}",
    "export FOO_TOKEN=«{l16}»",
    "export FOO_TOKEN='«{a12}»' BAR=1",
    "password: «hunter2»",
    "Password: «Passw0rd!»",
    "**Password:** `«hunter2»`",
    "the **secret**: «{a16}».",
    "DB_PASSWORD=«correcthorse»\nDB_HOST=x",
    "db.passwd = '«s3cr3t»'",
    "pwd=«abc123»;",
    "passphrase: \"«{l10}»\"",
    "mysql --password «x» -u root",
    "tool --api-key=«{l9}»",
    "tool --token \"«{a9}»\" --verbose",
    "[\"--password\", \"«hunter2»\"]",
    "https://h.example/p?access_token=«{a10}»&x=1",
    "?token=«{a8}»&f=1",
    "AWS_SECRET_ACCESS_KEY=«{b40}»",
    "client_secret: '«{a20}»'",
    "x-api-key: «{a32}»",
    "let api_key: &str = \"«{a24}»\";",
    "const apiKey: string = '«{a24}»';",
    "auth_token => \"«{a12}»\"",
    "PASSWORD = b\"«{a12}»\"",
    "<password>«hunter2»</password>",
    "token = \"«{a20}»\"",
    "token: «{h40}»",
    "key=\"«{a24}»\"",
    "AccountKey=«{b43}=»;EndpointSuffix=x",
    "os.environ[\"API_KEY\"] = \"«{a12}»\"",
    "secret: \"«abc\\\"def»\"",
    "\\napi_key=«{a20}»\\nnext",
    "password=«{a140}» end",
    "token: \"«{a200}»\" end",
    // URLs
    "postgres://user:«hunter2»@db.example:5432/x",
    "https://u:«p%40ss»@h.example/path and https://h.example:8080/@scope",
    "redis://:«{a12}»@localhost",
    // several, side by side
    "A=«sk-{a24}»,«sk-{a24}»\tpassword: «hunter2» «eyJ{a20}.eyJ{a30}.{a40}»",
    "api_key=«{a20}» api_key=«{a20}»",
];

#[test]
fn every_shape_is_scrubbed_however_it_arrives() {
    for row in SHAPES {
        println!("{row}");
        arrives(&Row::of(row));
    }
    assert!(SHAPES.len() >= 60);
}

fn block(kind: &str) -> String {
    let line = filled("{b24}");
    format!("«-----BEGIN {kind}-----\n{line}\n{}\n-----END {kind}-----»", &line[..9])
}

#[test]
fn private_keys_are_scrubbed_however_they_arrive() {
    for kind in ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"] {
        arrives(&Row::of(&format!("key:\n{}\nthat was it", block(kind))));
    }
    let block = block("PRIVATE KEY");
    arrives(&Row::of(&block.replace('\n', "\\n")));
    arrives(&Row::of(&format!("\"{}\"", block.replace('\n', "\\n"))));
    arrives(&Row::of(&format!("A {block}B{block}")));
}

#[test]
fn a_private_key_without_an_end_goes_to_the_end() {
    for row in [
        "x «-----BEGIN RSA PRIVATE KEY-----\n{b64}\n{b30}»",
        "x «-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{b64}\n{b30}»",
        "x «-----BEGIN PRIVATE KEY-----\\n{b64}\\n»",
    ] {
        arrives_in_pieces(&Row::of(row));
    }
}

#[test]
fn a_mark_of_a_key_that_is_only_spoken_of_stays() {
    for row in [
        "const HEAD = \"-----BEGIN PRIVATE KEY-----\";\nconst FOOT = \"-----END PRIVATE KEY-----\";",
        "It looks for `-----BEGIN RSA PRIVATE KEY-----` in each file.",
        "-----BEGIN CERTIFICATE-----\n{b64}\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\n{b64}\n-----END PUBLIC KEY-----",
    ] {
        arrives(&Row::of(row));
    }
}

#[test]
fn the_mark_stands_where_the_secret_began() {
    let secret = filled("sk-ant-api03-{a24}");
    let parts = ["It is ", &secret[..9], &secret[9..20], &secret[20..], " there"];
    assert_eq!(pieces(&parts), ["It is ", "[scrubbed]", "", "", " there"]);
    assert_eq!(pieces(&["It is s", "k-", &secret[3..], "."]), ["It is [scrubbed]", "", "", "."]);
    assert_eq!(
        pieces(&["api_", "key", "=", "abc123", "def456 ", "x"]),
        ["api_", "key", "=", "[scrubbed]", " ", "x"]
    );
}
