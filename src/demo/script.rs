//! What a prompt tells the agent to do. Pure.
//!
//! A command is the whole last paragraph of the prompt, exactly as listed at [`Script`]; anything else is an
//! ordinary prompt, so that "write a poem" is not taken for an order.

use std::path::PathBuf;

/// The commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Script {
    /// An ordinary prompt.
    Story(String),
    /// `crash [CODE]`: exits in the middle of the turn.
    Crash(i32),
    /// `hang`: never answers and ignores the cancel.
    Hang,
    /// `slow N`: that many pieces of text, one each 100 ms.
    Slow(u32),
    /// `flood N [BYTES]`: that many numbered updates as fast as they can be written.
    Flood { count: u64, bytes: usize },
    /// `big BYTES`: one update of that much text.
    Big(usize),
    /// `fork`: leaves processes behind and names them.
    Fork,
    /// `garbage`: lines that are no messages.
    Garbage,
    /// `stderr N`: that many bytes of it.
    Stderr(usize),
    /// `close-stdout`: closes it and lives on.
    CloseStdout,
    /// `stop`: stops itself with SIGSTOP.
    Stop,
    /// `ask`: asks for permission and says what came of it.
    Ask,
    /// `read PATH`: reads an absolute path through the client.
    Read(PathBuf),
    /// `write PATH TEXT`: writes it there through the client.
    Write(PathBuf, String),
    /// `term CMD`: runs a shell command in a terminal of the client.
    Term(String),
    /// `env`: says what its environment and directory are.
    Env,
    /// `echo TEXT`: says that.
    Echo(String),
    /// `exit-after`: answers, then exits.
    ExitAfter,
    /// `late N`: that many updates after the answer.
    Late(u32),
    /// `help`: says what there is.
    Help,
}

/// Every command and what it does, for people.
pub(super) const WORDS: &[(&str, &str)] = &[
    ("help", "lists these"),
    ("echo TEXT", "says the text"),
    ("ask", "asks for permission and says what came of it"),
    ("read PATH", "reads an absolute path through the client"),
    ("write PATH TEXT", "writes a file there through the client"),
    ("term CMD", "runs a shell command in a terminal of the client"),
    ("env", "says what its environment and directory are"),
    ("slow N", "says N pieces of text, one each 100 ms"),
    ("flood N [BYTES]", "sends N updates as fast as they can be written"),
    ("big BYTES", "sends one update of that much text"),
    ("stderr BYTES", "writes that much to stderr"),
    ("garbage", "writes lines that are no messages"),
    ("late N", "sends N updates after the answer"),
    ("hang", "never answers and ignores the cancel"),
    ("stop", "stops itself with SIGSTOP"),
    ("close-stdout", "closes its stdout and lives on"),
    ("crash [CODE]", "exits in the middle of the turn"),
    ("exit-after", "answers, then exits"),
    ("fork", "leaves processes behind and names them"),
];

/// [`WORDS`] as a table.
pub(super) fn words() -> String {
    let ordinary = "Any other prompt is an ordinary one: with `edit` or `write` in it the agent asks to change a \
                    file, with `run` to run a command.\n";
    let rows = WORDS.iter().map(|(word, does)| format!("  {word:<16} {does}\n"));
    std::iter::once("A prompt whose last paragraph is one of these is a command:\n".to_owned())
        .chain(rows)
        .chain([ordinary.to_owned()])
        .collect()
}

impl Script {
    /// What that prompt asks for.
    pub fn parse(prompt: &str) -> Self {
        let order = prompt.rsplit("\n\n").map(str::trim).find(|p| !p.is_empty()).unwrap_or_default();
        let (verb, rest) = order.split_once(char::is_whitespace).unwrap_or((order, ""));
        Self::command(verb, rest.trim()).unwrap_or_else(|| Self::Story(prompt.trim().to_owned()))
    }

    fn command(verb: &str, rest: &str) -> Option<Self> {
        if rest.is_empty() { Self::alone(verb) } else { Self::with(verb, rest) }
    }

    fn alone(verb: &str) -> Option<Self> {
        Some(match verb {
            "crash" => Self::Crash(1),
            "hang" => Self::Hang,
            "fork" => Self::Fork,
            "garbage" => Self::Garbage,
            "close-stdout" => Self::CloseStdout,
            "stop" => Self::Stop,
            "ask" => Self::Ask,
            "env" => Self::Env,
            "exit-after" => Self::ExitAfter,
            "help" => Self::Help,
            _ => return None,
        })
    }

    fn with(verb: &str, rest: &str) -> Option<Self> {
        Some(match verb {
            "crash" => Self::Crash(rest.parse().ok()?),
            "slow" => Self::Slow(rest.parse().ok()?),
            "flood" => {
                let (count, bytes) = rest.split_once(' ').unwrap_or((rest, "64"));
                Self::Flood { count: count.parse().ok()?, bytes: bytes.trim().parse().ok()? }
            }
            "big" => Self::Big(rest.parse().ok()?),
            "stderr" => Self::Stderr(rest.parse().ok()?),
            "late" => Self::Late(rest.parse().ok()?),
            "read" => Self::Read(absolute(rest)?),
            "write" => {
                let (path, text) = rest.split_once(' ')?;
                Self::Write(absolute(path)?, text.to_owned())
            }
            "term" => Self::Term(rest.to_owned()),
            "echo" => Self::Echo(rest.to_owned()),
            _ => return None,
        })
    }
}

fn absolute(path: &str) -> Option<PathBuf> {
    path.starts_with('/').then(|| path.into())
}

/// Whether an ordinary prompt wants something done that one asks permission for; whether it is a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// Nothing but reading.
    Look,
    /// A change of a file.
    Edit,
    /// A command.
    Run,
}

impl Deed {
    /// What the words of the prompt suggest.
    pub fn of(prompt: &str) -> Self {
        let says = |word| prompt.split(|c: char| !c.is_alphanumeric()).any(|w| w.eq_ignore_ascii_case(word));
        match () {
            () if says("run") => Self::Run,
            () if says("edit") || says("write") => Self::Edit,
            () => Self::Look,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_with_their_arguments() {
        assert_eq!(Script::parse("crash"), Script::Crash(1));
        assert_eq!(Script::parse(" crash 3\n"), Script::Crash(3));
        assert_eq!(Script::parse("flood 10"), Script::Flood { count: 10, bytes: 64 });
        assert_eq!(Script::parse("flood 10 300"), Script::Flood { count: 10, bytes: 300 });
        assert_eq!(Script::parse("write /tmp/a b c"), Script::Write("/tmp/a".into(), "b c".into()));
        assert_eq!(Script::parse("echo  a  b"), Script::Echo("a  b".into()));
        assert_eq!(Script::parse("exit-after"), Script::ExitAfter);
    }

    /// R265: what is listed is there, with its arguments.
    #[test]
    fn every_word_that_is_listed_is_a_command() {
        for (word, _) in WORDS {
            let prompt = word
                .replace("PATH", "/p")
                .replace("[BYTES]", "2")
                .replace("BYTES", "2")
                .replace("[CODE]", "2")
                .replace(" N", " 2");
            assert!(!matches!(Script::parse(&prompt), Script::Story(_)), "{prompt}");
            assert!(words().contains(word));
        }
    }

    #[test]
    fn sentences_are_no_commands() {
        let sentences =
            ["write a poem", "read the manual", "stop it", "crash the car", "flood of tears", "big", ""];
        for sentence in sentences {
            assert_eq!(Script::parse(sentence), Script::Story(sentence.into()));
        }
    }

    /// R228: a role is put before the task with a blank line between; the task still decides.
    #[test]
    fn the_last_paragraph_decides() {
        assert_eq!(Script::parse("You are careful.\n\nslow 3"), Script::Slow(3));
    }

    #[test]
    fn only_words_that_change_something_need_permission() {
        assert_eq!(Deed::of("hello"), Deed::Look);
        assert_eq!(Deed::of("a running gag about credits"), Deed::Look);
        assert_eq!(Deed::of("please edit the file"), Deed::Edit);
        assert_eq!(Deed::of("Run it!"), Deed::Run);
    }
}
