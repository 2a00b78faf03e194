//! Asking the person at the terminal (R261).
//!
//! Owns stdin once it was needed: a thread reads it, since nothing can end a read from a terminal. What was typed
//! before a question was put answers nothing.

use std::{
    io::{self, BufRead, Write},
    thread,
};

use tokio::sync::mpsc::{self, Receiver};

use super::{
    super::style::one_line,
    consent::{Choice, Question},
};

/// What was typed.
#[derive(Debug)]
pub(super) enum Typed {
    /// One of the choices.
    Choice(Choice),
    /// End of input: no answer.
    Nothing,
}

/// The person, who is shown one question at a time.
#[derive(Debug, Default)]
pub(super) struct Terminal {
    lines: Option<Receiver<Option<String>>>,
    /// Id of the question that stands there.
    shown: Option<Box<str>>,
}

impl Terminal {
    /// Puts the question, unless it stands there already.
    pub fn show(&mut self, question: Option<&Question>, agent: &str) {
        let id = question.map(|question| &question.id);
        if self.shown.as_ref() == id {
            return;
        }
        self.shown = id.cloned();
        if let Some(question) = question {
            let lines = self.lines.get_or_insert_with(read_stdin);
            while lines.try_recv().is_ok() {}
            put(&format!("\n{} asks to do this: {}", one_line(agent), one_line(&question.asked())), question);
        }
    }

    /// The answer to the question that stands there. Cancel safe.
    pub async fn answer(&mut self, question: &Question) -> Typed {
        let lines = self.lines.get_or_insert_with(read_stdin);
        while let Some(Some(line)) = lines.recv().await {
            match question.choice(&line) {
                Some(choice) => return Typed::Choice(choice.clone()),
                None => put(&format!("{:?} is not an option", line.trim()), question),
            }
        }
        // the cursor still stands behind the question
        let _ = writeln!(io::stderr());
        Typed::Nothing
    }
}

fn put(headline: &str, question: &Question) {
    let mut text = format!("{headline}\n");
    for (index, choice) in question.choices.iter().enumerate() {
        let name = if choice.name.is_empty() { &choice.option_id } else { &choice.name };
        text.push_str(&format!("  {}) {}\n", index + 1, one_line(name)));
    }
    text.push_str("Number, or Ctrl-D to leave it unanswered: ");
    // a terminal that is gone answers nothing either
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// Lines of stdin, read one ahead at most; none for its end, behind which a terminal goes on.
fn read_stdin() -> Receiver<Option<String>> {
    let (sender, lines) = mpsc::channel(1);
    thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        loop {
            let mut line = String::new();
            let typed = stdin.read_line(&mut line).is_ok_and(|length| length > 0).then_some(line);
            if sender.blocking_send(typed).is_err() {
                return;
            }
        }
    });
    lines
}
