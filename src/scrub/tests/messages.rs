//! Messages in pieces: what belongs together, what waits, and for how long.

use bytes::Bytes;
use serde_json::json;

use super::{Scrubber, chunk, chunk_of, filled, pieces, said, stored, update_line};

fn secret() -> String {
    filled("sk-ant-api03-{a40}")
}

#[test]
fn a_line_without_secrets_leaves_as_the_bytes_that_came() {
    for line in
        [chunk("nothing"), chunk("the key: it"), Bytes::from_static(b"{\"a\":\"token\"}"), Bytes::new()]
    {
        let out = stored([line.clone()]);
        assert_eq!(out[0].as_ptr(), line.as_ptr());
        assert_eq!(out, [line]);
    }
}

#[test]
fn only_what_is_undecided_waits() {
    let (mut scrubber, mut out) = (Scrubber::default(), Vec::new());
    for (text, waits) in [
        ("Hello", false),
        (" world, api", false),
        ("_key=", false),
        ("ab", true),
        ("c.", true),
        (" And s", true),
        ("o on", false),
        (" -", true),
        (" item ", false),
        (&secret(), false),
        ("moreofit", false),
        (" end", false),
    ] {
        scrubber.take(chunk(text), &mut out);
        assert_eq!(scrubber.waiting() > 0, waits, "{text}");
    }
    scrubber.flush(&mut out);
    let all: String = out.iter().map(said).collect();
    assert_eq!(all, "Hello world, api_key=abc. And so on - item [scrubbed] end");
}

#[test]
fn different_messages_do_not_join() {
    let secret = secret();
    let (one, two) = secret.split_at(9);
    let joined =
        |lines: [Bytes; 2]| stored(lines).iter().map(said).collect::<Vec<_>>().concat() == "[scrubbed]";
    let of = |kind, id, text| chunk_of(kind, id, text);
    let (agent, thought) = ("agent_message_chunk", "agent_thought_chunk");
    assert!(joined([of(agent, Some("m1"), one), of(agent, Some("m1"), two)]));
    assert!(joined([of(thought, None, one), of(thought, None, two)]));
    assert!(joined([of("user_message_chunk", None, one), of("user_message_chunk", None, two)]));
    assert!(!joined([of(agent, Some("m1"), one), of(agent, Some("m2"), two)]));
    assert!(!joined([of(agent, None, one), of(agent, Some("m2"), two)]));
    assert!(!joined([of(agent, None, one), of(thought, None, two)]));
    let other =
        json!({ "sessionUpdate": agent, "content": { "type": "text", "text": two }, "messageId": "m1" });
    assert!(!joined([of(agent, Some("m1"), one), update_line("s2", &other)]));
}

/// R94: a chunk without an id continues the current message.
#[test]
fn a_chunk_without_an_id_goes_on_with_the_message() {
    let secret = secret();
    let (one, two) = secret.split_at(9);
    let out = stored([chunk(one), chunk_of("agent_message_chunk", None, two)]);
    assert_eq!(out.iter().map(said).collect::<Vec<_>>(), ["[scrubbed]", ""]);
}

#[test]
fn another_line_keeps_its_place() {
    let usage = update_line("s1", &json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2 }));
    let secret = secret();
    let out =
        stored([chunk("a s"), usage.clone(), chunk(&secret[1..20]), usage.clone(), chunk(&secret[20..])]);
    assert_eq!((&out[1], &out[3]), (&usage, &usage));
    assert_eq!(said(&out[0]), "a s");
    // What left cannot be changed; the message goes on.
    assert_eq!((said(&out[2]), said(&out[4])), ("[scrubbed]".to_owned(), String::new()));
}

#[test]
fn a_message_without_an_id_ends_with_another_line() {
    let usage = update_line("s1", &json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2 }));
    let of = |text: &str| chunk_of("agent_message_chunk", None, text);
    let out = stored([of(&secret()), usage, of("Done")]);
    assert_eq!(said(&out[2]), "Done");
}

#[test]
fn a_flush_in_the_midst_does_not_let_the_rest_through() {
    let texts = [secret(), filled("api_key=\"{a30}\""), filled("password: hunter2x"), filled("Bearer {a30}")];
    for text in texts {
        for at in 1..text.len() {
            let (mut scrubber, mut out) = (Scrubber::default(), Vec::new());
            scrubber.take(chunk(&text[..at]), &mut out);
            scrubber.flush(&mut out);
            assert_eq!(out.len(), 1, "a flush leaves nothing behind");
            scrubber.take(chunk(&text[at..]), &mut out);
            scrubber.flush(&mut out);
            let all: String = out.iter().map(said).collect();
            let secret = text.rsplit(['=', ' ', '"']).find(|part| !part.is_empty()).unwrap_or(&text);
            let rest = &secret[secret.len().min(14)..];
            assert!(rest.is_empty() || !all.contains(rest), "{at}: {all}");
        }
    }
}

/// A key that is streamed line by line is never held and never seen.
#[test]
fn a_long_private_key_is_scrubbed_as_it_comes() {
    let (mut scrubber, mut out) = (Scrubber::default(), Vec::new());
    let line = filled("{b64}\n");
    let mut take = |text: &str, out: &mut Vec<Bytes>| {
        scrubber.take(chunk(text), out);
        assert!(scrubber.waiting() < 3 && scrubber.window.len() < 1024);
    };
    take("Here: -----BEGIN RSA ", &mut out);
    take("PRIVATE KEY-----\n", &mut out);
    (0..1_000).for_each(|_| take(&line, &mut out));
    take("-----END RSA PRIV", &mut out);
    take("ATE KEY-----\nThat ", &mut out);
    take("was it", &mut out);
    scrubber.flush(&mut out);
    let texts: Vec<String> = out.iter().map(said).collect();
    assert_eq!(texts.len(), 1_005);
    assert_eq!(texts[0], "Here: [scrubbed]");
    assert!(texts[1..1_003].iter().all(String::is_empty));
    assert_eq!(texts[1_003..], ["\nThat ", "was it"]);
}

/// A token in pieces of one letter is longer than the lines that may wait.
#[test]
fn what_waits_is_bounded_and_then_scrubbed() {
    for text in [
        filled("sk-{l200}"),
        filled("eyJ{a120}.eyJ{a200}.{a80}"),
        filled("AKIA{u16}"),
        filled("xoxb-{d12}-{d12}"),
    ] {
        let (mut scrubber, mut out) = (Scrubber::default(), Vec::new());
        let mut letters = 0;
        for letter in text.chars() {
            scrubber.take(chunk(&letter.to_string()), &mut out);
            letters += 1;
            assert!(scrubber.waiting() <= 16);
            assert_eq!(scrubber.waiting() + out.len(), letters);
        }
        scrubber.flush(&mut out);
        let all: String = out.iter().map(said).collect();
        assert!(all.ends_with("[scrubbed]") && all.len() < 30, "{text}: {all}");
    }
}

#[test]
fn a_large_line_does_not_wait() {
    let (mut scrubber, mut out) = (Scrubber::default(), Vec::new());
    scrubber.take(chunk(&format!("{} s", "word ".repeat(20_000))), &mut out);
    assert_eq!(out.len(), 1);
    let large = format!("{} key {}", "word ".repeat(200_000), "word ".repeat(200_000));
    scrubber.take(chunk(&large), &mut out);
    assert!(scrubber.window.capacity() <= 64 << 10);
}

#[test]
fn secrets_around_the_text_are_scrubbed_too() {
    let secret = secret();
    let of = |meta: &str, text: &str| {
        let content = json!({ "type": "text", "text": text });
        update_line(
            "s1",
            &json!({ "_meta": { "token": meta }, "sessionUpdate": "agent_message_chunk", "content": content, "zToken": meta }),
        )
    };
    let out = stored([of(&secret, &secret[..9]), of(&secret, &secret[9..]), of("x", " y")]);
    let want = [of("[scrubbed]", "[scrubbed]"), of("[scrubbed]", ""), of("x", " y")];
    assert_eq!(out, want);
}

#[test]
fn chunks_are_told_by_their_place_not_by_their_words() {
    let secret = secret();
    // No text where a chunk has one; a list; a member that stands twice; a request of another shape.
    for line in [
        r#"{"params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"x"}}}}"#,
        r#"{"params":{"update":{"sessionUpdate":"agent_message_chunk","content":[{"text":"a s"}]}}}"#,
        r#"{"params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"text":"a s","text":"b s"}}}}"#,
        r#"{"params":{"x":{"update":{"sessionUpdate":"agent_message_chunk","content":{"text":"a s"}}}}}"#,
        r#"[{"params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"text":"a s"}}}}]"#,
        r#"{"text":"\"sessionUpdate\":\"agent_message_chunk\""}"#,
    ] {
        let (mut scrubber, mut out) = (Scrubber::default(), Vec::new());
        scrubber.take(Bytes::from(line), &mut out);
        assert_eq!(out, [line], "nothing waits");
        scrubber.take(chunk(&secret), &mut out);
        assert_eq!(said(&out[1]), "[scrubbed]");
    }
}

#[test]
fn other_kinds_of_chunks_join_too() {
    let secret = secret();
    let of = |text: &str| {
        let content = json!({ "type": "text", "text": text });
        update_line(
            "s1",
            &json!({ "sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": content }),
        )
    };
    let texts: Vec<String> = stored([of(&secret[..9]), of(&secret[9..])]).iter().map(said).collect();
    assert_eq!(texts, ["[scrubbed]", ""]);
}

#[test]
fn escapes_in_pieces_are_kept() {
    let secret = secret();
    let parts = ["\u{e9}\n\"s", &secret[1..30], &format!("{}\t\u{1f600}\\", &secret[30..])];
    assert_eq!(pieces(&parts), ["\u{e9}\n\"[scrubbed]", "", "\t\u{1f600}\\"]);
}
