//! How things look to people: colour where it is wanted, and text that cannot move the cursor.

use std::{env, io::IsTerminal, time::SystemTime};

/// Colours, or none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Style {
    colour: bool,
}

impl Style {
    /// Colour on a terminal that has it, unless NO_COLOR says otherwise (R260).
    pub fn of(stream: &impl IsTerminal) -> Self {
        let unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { colour: stream.is_terminal() && !unwanted && !dumb }
    }

    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    fn paint(self, code: &'static str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// One line without control characters: what an agent says must not command the terminal.
pub(super) fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    harmless(&words.collect::<Vec<_>>().join(" "))
}

/// The text without control characters and reordering marks; line breaks and tabs stay.
pub(super) fn harmless(text: &str) -> String {
    text.chars().filter(|c| !commands_the_terminal(*c)).collect()
}

fn commands_the_terminal(c: char) -> bool {
    let reorders = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    reorders || (c.is_control() && !matches!(c, '\n' | '\t'))
}

/// A time span, in its two largest units at most.
pub(super) fn span(ms: u64) -> String {
    let s = ms / 1_000;
    let (value, unit, rest) = match s {
        0..60 => return format!("{s} s"),
        60..3_600 => (s / 60, "min", (s % 60, "s")),
        3_600..86_400 => (s / 3_600, "h", (s % 3_600 / 60, "min")),
        _ => (s / 86_400, "d", (s % 86_400 / 3_600, "h")),
    };
    if rest.0 == 0 { format!("{value} {unit}") } else { format!("{value} {unit} {} {}", rest.0, rest.1) }
}

/// Milliseconds since the Unix epoch.
pub(super) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// A moment as the daemon writes it, in milliseconds since the Unix epoch.
pub(super) fn moment(written: &str) -> Option<u64> {
    let moment: jiff::Timestamp = written.parse().ok()?;
    u64::try_from(moment.as_millisecond()).ok()
}

/// How long ago a moment was.
pub(super) fn since(then_ms: u64, now_ms: u64) -> String {
    span(now_ms.saturating_sub(then_ms))
}

/// A size in the unit that suits it.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R260: nothing an agent says can drive the terminal.
    #[test]
    fn text_of_agents_cannot_command_the_terminal() {
        assert_eq!(harmless("a\x1b[31m\tb\r\nc\u{202e}d\u{9b}"), "a[31m\tb\ncd");
        assert_eq!(one_line(" two\n lines\x07\t"), "two lines");
    }

    #[test]
    fn spans_and_sizes_read_well() {
        let spans = [(0, "0 s"), (61_000, "1 min 1 s"), (7_200_000, "2 h"), (90_000_000, "1 d 1 h")];
        for (ms, text) in spans {
            assert_eq!(span(ms), text);
        }
        assert_eq!(
            (size(1_023), size(2_048), size(3 << 20)),
            ("1023 B".into(), "2 KiB".into(), "3 MiB".into())
        );
    }

    #[test]
    fn without_a_terminal_there_is_no_colour() {
        assert_eq!(Style::default().bold("x"), "x");
    }
}
