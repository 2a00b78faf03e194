//! Paragraphs of Markdown: who says something, what stands alone, what is code. Pure.

use crate::history::line::Speaker;

/// Who says something, in which message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Voice {
    /// The child session that it is said in.
    pub child: Option<String>,
    pub speaker: Speaker,
    /// The message's id.
    pub message: Option<String>,
}

/// The text so far, who spoke last, and whether a quoted line of it is begun.
#[derive(Debug, Default)]
pub(super) struct Prose {
    text: String,
    speaking: Option<Voice>,
    in_line: bool,
}

impl Prose {
    /// What stands before everything.
    pub fn head(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// A piece of what somebody says.
    pub fn say(&mut self, voice: Voice, text: &str) {
        if self.speaking.as_ref() != Some(&voice) {
            self.begin(&voice);
        } else if voice.speaker == Speaker::User {
            // blocks stand on lines of their own
            self.text.push('\n');
        }
        if voice.speaker == Speaker::Thought {
            self.quote(text);
        } else {
            self.text.push_str(text);
        }
        self.speaking = Some(voice);
    }

    /// Something that stands alone.
    pub fn block(&mut self, text: &str) {
        self.end();
        self.text.extend(["\n", text, "\n"]);
    }

    /// Nobody says anything more.
    pub fn end(&mut self) {
        if self.speaking.take().is_some() {
            self.text.push('\n');
        }
        self.in_line = false;
    }

    /// What there is so far.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text).into_bytes()
    }

    /// A voice has a heading, another message of the same a paragraph; a thought is seen by its quotation marks.
    fn begin(&mut self, voice: &Voice) {
        let is_same =
            self.speaking.as_ref().is_some_and(|s| (&s.child, s.speaker) == (&voice.child, voice.speaker));
        self.end();
        let name = match voice.speaker {
            Speaker::User => "User",
            Speaker::Agent => "Agent",
            Speaker::Thought => return self.text.push('\n'),
        };
        if !is_same {
            let child =
                voice.child.as_ref().map_or_else(String::new, |child| format!(" of {}", one_line(child)));
            self.block(&format!("### {name}{child}"));
        }
        self.text.push('\n');
    }

    fn quote(&mut self, text: &str) {
        for piece in text.split_inclusive('\n') {
            if !std::mem::replace(&mut self.in_line, true) {
                self.text.push_str("> ");
            }
            self.text.push_str(piece);
            self.in_line = !piece.ends_with('\n');
        }
    }
}

/// The text in one line.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text as code in a line.
pub(super) fn code(text: &str) -> String {
    let fence = "`".repeat(longest_run(text) + 1);
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{}{space}{fence}", one_line(text))
}

/// The text as a block of code.
pub(super) fn fenced(language: &str, text: &str) -> String {
    let fence = "`".repeat(longest_run(text).max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}")
}

/// Backticks that follow one another at most.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_fenced_by_more_marks_than_it_has() {
        assert_eq!(
            (code("a"), code("`a"), code("a``b")),
            ("`a`".into(), "`` `a ``".into(), "```a``b```".into())
        );
        assert_eq!(fenced("x", "a"), "```x\na\n```");
        assert_eq!(fenced("x", "```\n"), "````x\n```\n````");
    }

    #[test]
    fn pieces_of_a_message_are_one_paragraph() {
        let voice =
            |speaker, message: &str| Voice { child: None, speaker, message: Some(message.to_owned()) };
        let mut prose = Prose::default();
        let kid = Voice { child: Some("kid".to_owned()), ..voice(Speaker::Agent, "2") };
        for (voice, text) in [
            (voice(Speaker::Agent, "1"), "a"),
            (voice(Speaker::Agent, "1"), "b"),
            (voice(Speaker::Agent, "2"), "c"),
            (voice(Speaker::Thought, "2"), "d\n"),
            (voice(Speaker::Thought, "2"), "e"),
            (kid, "f"),
        ] {
            prose.say(voice, text);
        }
        prose.end();
        let want = "\n### Agent\n\nab\n\nc\n\n> d\n> e\n\n### Agent of kid\n\nf\n";
        assert_eq!(String::from_utf8(prose.take()).unwrap(), want);
    }
}
