//! What must stay as it is.

use super::{Row, arrives, one};

const KEPT: &[&str] = &[
    "The key: it must be there.",
    "key: value",
    "{\"key\":\"ArrowLeft\"}",
    "{\"key\": \"ctrl+shift+p\"}",
    "{\"progressToken\":\"{h8}-{h4}-4{h3}-8{h3}-{h12}\"}",
    "{\"inputTokens\":1234567890,\"outputTokens\":12}",
    "{\"nextPageToken\":\"{a30}\"}",
    "{\"password\":null,\"token\":123456789,\"secret\":true}",
    "{\"password\":{\"type\":\"string\"}}",
    "{\"apiKey\":\"\"}",
    "{\"apiKey\":\"OPENAI_API_KEY\"}",
    "{\"key\":\"{h8}-{h4}-4{h3}-8{h3}-{h12}\"}",
    "commit {h40} by x",
    "toolu_{a24} call_{a24} msg_{h20}",
    "session 3a2429cf-6b2b-4109-a2cd-c0ee646d92b6",
    "/home/user/.ssh/id_rsa and ./src/key.rs:12",
    "PWD=/home/user/project",
    "OLDPWD=/tmp/x1/y2",
    "ssh_key: ~/.ssh/id_ed25519",
    "https://docs.example/path?x=1&y=2#token",
    "http://localhost:3000/key",
    "ssh://git@github.com/o/r.git",
    "https://h.example:8080/@scope/pkg@1.2.3",
    "postgres://user:${PASSWORD}@db.example/x",
    "password: string;",
    "password: String,",
    "pub IPPROTO_KEY_SECRET: _bindgen_ty_3 = 1;",
    "ROOT_PASSWORD: Represents whether one is set.",
    "private_key: CertificateIssuerPrivateKeyTypes,",
    "auth_token: OAuth2Token1 | None = None",
    "token = Whitespace",
    "authorization: MCPAuthorizationSnapshot,",
    "{\"token\":\"constant.language.source.rust\"}",
    "ERR_SECRET = 0x000C",
    "secret = opts?.workSecret || other",
    "the --username and --password options",
    "password = getpass()",
    "api_key = os.environ[\"API_KEY\"]",
    "api_key=os.environ.get(\"API_KEY\")",
    "token = self.next_token2()",
    "const token = await getToken2(url);",
    "let secret: Option<String2> = None;",
    "export FOO_TOKEN=$BAR_TOKEN",
    "export FOO_TOKEN=\"${BAR_TOKEN}\"",
    "api_key: <your key>",
    "api_key=YOUR_API_KEY_1",
    "password: ********",
    "--password is required",
    "use --token to pass it, or --api-key=KEY",
    "the --token flag; --password <PASSWORD>",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    "Basic authentication2 is off",
    "bearer of good news",
    "Bearer authentication",
    "task-force-of-something-long-1",
    "class=\"sk-fading-circle sk-circle12\"",
    "risk-assessment2024 disk-usage1234567",
    "a monkey: abc123def456ghi7",
    "keyboard: us, keys: 1, tokens: 12345678",
    "Key::new(key1), Token::Ident2",
    "npm_config_registry npm_package_version1",
    "hf_hub hf_transfer",
    "ASIA and EYJAFJALLA, ASIAPACIFIC",
    "{\"nextCursor\":\"eyJvZmZzZXQiOjEwMH0\"}",
    "xoxo-with-love xox",
    "primary_key=True, sort_key=created1",
    "public_key: {a40}",
    "cache-key: v1-deps-{h40}",
    "secretName: db-credentials-1x2",
    "password must hold 8 characters",
    "\"password\": \"Forgot your password1?\"",
    "--- a/key.rs\n+++ b/key.rs\n-----\n",
    "- one\n- two\n--\n---",
    "pass, s, sk, gh, e, ey, A, AK, x",
];

#[test]
fn what_is_no_secret_stays_however_it_arrives() {
    for row in KEPT {
        println!("{row}");
        arrives(&Row::of(row));
    }
    assert!(KEPT.len() >= 40);
}

/// The members of the protocol, as agents write them.
#[test]
fn lines_of_the_protocol_stay() {
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"ses_dd2d8065affeI6NHvXk7G1TbgS"}}"#,
        r#"{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"usage_update","used":1,"size":2,"inputTokens":77}}}"#,
        r#"{"params":{"_meta":{"progressToken":"b7e2c1d0-1111-4222-8333-444455556666"}}}"#,
        r#"{"params":{"_meta":{"progressToken":17,"token":18,"key":null,"secret":false}}}"#,
        r#"{"params":{"sessionId":"sk-X0y1Z2w3Q4X0y1Z2w3Q4X0y1","toolCallId":"sk-X0y1Z2w3Q4X0y1Z2w3Q4X0y1"}}"#,
        r#"{"params":{"mcpServers":[{"name":"x","command":"y","args":["--token"],"env":[],"headers":[]}]}}"#,
        r#"{"update":{"configOptions":[{"id":"key","name":"API key","currentValue":"x","options":[{"value":"api_key","name":"API key"}]}]}}"#,
        r#"{"authMethods":[{"id":"openai-api-key","name":"OPENAI_API_KEY"}]}"#,
        r#"{"a":"\u001b[31mred\u001b[0m \u0041\ud83d\ude00 \ud83d"}"#,
        r#"{"headers":{"Content-Type":"application/json"}}"#,
        "[INFO] nothing to see",
        "{\"cut off\": \"in the mid",
        "",
        "null",
    ] {
        assert_eq!(one(line), line);
    }
}
