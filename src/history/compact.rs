//! The same history in fewer bytes (R289): what replay would show, the marks, and what the agent was given unseen. Pure.
//!
//! Chunks are joined, each tool call is its announcement and its end, long output is its head and tail with a note, and
//! what a peer told again and again is there once. Meant for whole turns that are old: a call that is open at the end
//! of what is given ends as failed. What comes out can be compacted again.

use bytes::{Bytes, BytesMut};

use super::{
    Mark,
    line::{Line, lines},
    literal,
    reader::{Reader, Shown},
    told::told,
    visit,
};
use crate::{
    id::SessionId,
    limits::{CONTEXT_BYTES_MAX, READ_BYTES_MAX},
    store::{Kind, Stored},
};

/// Lines of one kind become one row up to here.
const ROW_BYTES_MAX: usize = READ_BYTES_MAX;

/// Rows in their place, of [`Kind::Compact`] and [`Kind::Mark`]. Each has the time and the number of the row where it
/// begins, so numbers ascend but may repeat.
pub fn compact<'r>(session: SessionId, rows: impl IntoIterator<Item = &'r Stored>) -> Vec<Stored> {
    let (mut compactor, mut out) = (Compactor::new(session), Vec::new());
    rows.into_iter().for_each(|row| compactor.take(row, &mut out));
    compactor.finish(&mut out);
    out
}

/// The same, row by row.
#[derive(Debug)]
pub struct Compactor {
    session: SessionId,
    reader: Reader,
    row: Option<Stored>,
    lines: BytesMut,
    /// Number and time of the last row.
    last: (i64, i64),
    /// Lines and bytes that there were of the agent's and to it.
    was: (u64, u64),
    is_inboxs: bool,
}

impl Compactor {
    /// Of that session.
    pub fn new(session: SessionId) -> Self {
        Self {
            reader: Reader::new(session.clone()),
            session,
            row: None,
            lines: BytesMut::new(),
            last: (0, 0),
            was: (0, 0),
            is_inboxs: false,
        }
    }

    /// The next row.
    pub fn take(&mut self, row: &Stored, out: &mut Vec<Stored>) {
        self.last = (row.number, row.time_ms);
        for line in lines(&row.lines) {
            if matches!(row.kind, Kind::Peer | Kind::Sent | Kind::Stray) {
                self.was.0 = self.was.0.saturating_add(1);
                self.was.1 = self.was.1.saturating_add(line.len() as u64 + 1);
            }
            let brought = self.reader.line(row.kind, &line);
            self.shown(row, &brought.shown, out);
            match row.kind {
                Kind::Mark => self.mark(row, &line, out),
                Kind::Sent if brought.is_prompt => self.prompt(row, &line, out),
                _ => {}
            }
        }
    }

    /// There are no more rows.
    pub fn finish(mut self, out: &mut Vec<Stored>) {
        let (shown, session) = (self.reader.finish(), self.session.clone());
        let (number, time_ms) = self.last;
        let last = Stored { number, session, time_ms, kind: Kind::Compact, lines: Bytes::new() };
        self.shown(&last, &shown, out);
        let (lines, bytes) = self.was;
        if lines > 0 {
            self.note(&last, &Mark::Compacted { lines, bytes }, out);
        }
        self.end_row(out);
    }

    fn shown(&mut self, row: &Stored, shown: &[Shown], out: &mut Vec<Stored>) {
        let calls = shown.iter().filter(|shown| shown.is_unfinished).count();
        if calls > 0 {
            self.note(row, &Mark::Unfinished { calls }, out);
        }
        shown.iter().for_each(|shown| self.push(row, Kind::Compact, shown.frame.line(), out));
    }

    fn mark(&mut self, row: &Stored, line: &Bytes, out: &mut Vec<Stored>) {
        match serde_json::from_slice(line).unwrap_or(Mark::Other) {
            // The chunk that shows it stands for it, and what is unfinished is counted anew.
            Mark::Input { .. } | Mark::Unfinished { .. } => {}
            Mark::Compacted { lines, bytes } => {
                self.was = (self.was.0.saturating_add(lines), self.was.1.saturating_add(bytes))
            }
            mark => {
                if let Mark::TurnStarted { source, .. } = mark {
                    self.is_inboxs = source != "host";
                }
                self.push(row, Kind::Mark, line, out);
            }
        }
    }

    /// What the agent was given in a turn of the inbox, and the host was not shown.
    fn prompt(&mut self, row: &Stored, line: &Bytes, out: &mut Vec<Stored>) {
        let Some(Line::Call { params: Some(params), .. }) = Line::read(line) else { return };
        let Some(blocks) = visit::member(params.get(), "prompt").filter(|_| self.is_inboxs) else { return };
        visit::list(blocks.get(), |block| {
            let body = told(block);
            let body = literal::clipped(&body, CONTEXT_BYTES_MAX).unwrap_or(body);
            self.note(row, &Mark::Given { text: literal::read(&body).into() }, out);
        });
    }

    fn note(&mut self, row: &Stored, mark: &Mark<'_>, out: &mut Vec<Stored>) {
        let line = serde_json::to_vec(mark).expect("a mark is plain data");
        self.push(row, Kind::Mark, &line, out);
    }

    fn push(&mut self, row: &Stored, kind: Kind, line: &[u8], out: &mut Vec<Stored>) {
        let goes_on = self.row.as_ref().is_some_and(|open| open.kind == kind);
        if !goes_on || self.lines.len() + line.len() >= ROW_BYTES_MAX {
            self.end_row(out);
            self.row = Some(Stored { kind, lines: Bytes::new(), ..row.clone() });
        }
        self.lines.extend_from_slice(line);
        self.lines.extend_from_slice(b"\n");
    }

    fn end_row(&mut self, out: &mut Vec<Stored>) {
        let lines = self.lines.split().freeze();
        out.extend(self.row.take().filter(|_| !lines.is_empty()).map(|row| Stored { lines, ..row }));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::history::{
        Context,
        sample::{Sample, call, call_update, chunk, params, session, text},
    };

    fn compacted(sample: &Sample) -> Sample {
        Sample::of(compact(session(), &sample.rows))
    }

    fn bytes(sample: &Sample) -> usize {
        sample.rows.iter().map(|row| row.lines.len()).sum()
    }

    fn context(sample: &Sample) -> String {
        let mut context = Context::new(session(), 64 << 10);
        sample.rows.iter().for_each(|row| context.take(row));
        context.finish().unwrap()
    }

    /// A peer that repeats all earlier output with each update.
    fn repeating(mut sample: Sample) -> Sample {
        sample = sample.prompt("build").says("I ").says("will").update(&call("c", "make"));
        let mut output = String::new();
        for n in 0..200 {
            output.push_str(&format!("line {n} of the output of a long build\n"));
            let update = json!({ "status": "in_progress", "content": [text(&output)] });
            sample = sample.update(&call_update("c", &update));
        }
        sample.update(&call_update("c", &json!({ "status": "completed" }))).ends("end_turn")
    }

    fn talk() -> Sample {
        let inbox = json!([{ "type": "text", "text": "[terminal/3] hidden" }, { "type": "text", "text": "[me] shown" }]);
        let sample = repeating(Sample::new())
            .prompt_blocks("inbox", 0, &inbox)
            .mark(&Mark::Input { id: "e".into(), text: "shown".into() })
            .update(&json!({ "sessionUpdate": "plan", "entries": [] }))
            .update(&json!({ "sessionUpdate": "subagent_update", "sessionId": "kid" }))
            .update_of("kid", &chunk("agent_message_chunk", "kid's"))
            .update(&json!({ "sessionUpdate": "session_info_update", "title": null, "updatedAt": "1" }))
            .says("done")
            .ends("max_tokens");
        sample.prompt("go on").update(&call("d", "deploy")).opened("resume", "p")
    }

    /// R289: what was compacted replays as before, also when it is compacted twice, and takes less.
    #[test]
    fn compacted_history_replays_as_before() {
        let (sample, once) = (talk(), compacted(&talk()));
        let twice = compacted(&once);
        for shorter in [&once, &twice] {
            assert_eq!(shorter.replayed(), sample.replayed());
            assert!(bytes(shorter) * 50 < bytes(&sample), "{} of {}", bytes(shorter), bytes(&sample));
        }
        let marks = |sample: &Sample| {
            let marks = sample.rows.iter().filter(|row| row.kind == Kind::Mark);
            marks.flat_map(|row| lines(&row.lines).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        assert_eq!(marks(&once), marks(&twice));
    }

    /// R38, R58, R289: what an agent is told of it is the same as before, hidden inputs and interruptions too.
    #[test]
    fn compacted_history_keeps_the_context() {
        assert_eq!(context(&compacted(&talk())), context(&talk()));
        assert!(context(&talk()).contains("hidden"));
    }

    /// R289: what comes after it goes on as if nothing had been compacted.
    #[test]
    fn newer_rows_stay_whole() {
        let (old, mut rows) = (repeating(Sample::new()), Vec::new());
        let new = repeating(old.clone());
        rows.extend(compact(session(), &old.rows));
        rows.extend(new.rows[old.rows.len()..].to_vec());
        assert_eq!(Sample::of(rows).replayed(), new.replayed());
    }

    /// R289: it says in the transcript that it was made shorter, and by how much.
    #[test]
    fn a_mark_says_what_was_there() {
        let rows = compact(session(), &talk().rows);
        let last = lines(&rows.last().unwrap().lines).last().unwrap();
        let mark: Value = serde_json::from_slice(&last).unwrap();
        let talk = talk();
        let there = talk.rows.iter().filter(|row| row.kind != Kind::Mark);
        let bytes: usize = there.clone().map(|row| row.lines.len()).sum();
        assert_eq!(mark, json!({ "mark": "compacted", "lines": there.count(), "bytes": bytes }));
        assert!(compact(session(), &[]).is_empty());
    }

    /// R281, R289: long output is there by its head and tail, and no row is larger than it has to be.
    #[test]
    fn long_output_is_cut_and_rows_are_bounded() {
        let mut sample = Sample::new();
        for n in 0..40 {
            let done = json!({ "status": "completed", "rawOutput": format!("a{}z", "x".repeat(300_000)) });
            let id = n.to_string();
            sample = sample.prompt("go").update(&call(&id, "t")).update(&call_update(&id, &done));
        }
        let shorter = compacted(&sample);
        assert!(bytes(&shorter) < 40 * 70_000);
        assert!(shorter.rows.iter().all(|row| row.lines.len() <= ROW_BYTES_MAX));
        let frames = shorter.frames();
        let done = frames.iter().map(params).find(|p| p["update"]["rawOutput"].is_string()).unwrap();
        let output = done["update"]["rawOutput"].as_str().unwrap();
        assert!(
            output.starts_with("ax") && output.ends_with("xz") && output.contains("bytes are left out here")
        );
    }
}
