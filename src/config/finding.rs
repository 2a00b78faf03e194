//! One thing that is wrong in a configuration file, with the place where it stands. Pure.

use std::{
    fmt,
    ops::Range,
    path::{Path, PathBuf},
};

/// What is wrong, where, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The key with its tables, such as `agent.claude.command`; empty when the text is no TOML.
    pub key: String,
    /// What is wrong with it and what is allowed.
    pub problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file.display(), self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.problem)
    }
}

/// Line and column of a byte of the text, both from 1; a byte beyond the end is the end.
pub fn place(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (line, before[start..].chars().count() + 1)
}

/// The nearest of the known words, when it is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|k| (strsim::damerau_levenshtein(&word.to_lowercase(), k), k))
        .filter(|(distance, k)| *distance <= k.chars().count().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, k)| k)
}

/// `; did you mean …?`, or nothing when no word is near.
pub fn did_you_mean<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |k| format!("; did you mean `{k}`?"))
}

/// Findings that are not yet bound to a file, in the order they were made.
#[derive(Debug, Default)]
pub struct Findings(Vec<(Range<usize>, String, String)>);

impl Findings {
    /// Notes one.
    pub fn add(&mut self, span: Range<usize>, key: impl Into<String>, problem: impl Into<String>) {
        self.0.push((span, key.into(), problem.into()));
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, in the order of the file.
    pub fn of_file(mut self, file: &Path, text: &str) -> Vec<Finding> {
        self.0.sort_by_key(|(span, ..)| span.start);
        let bound = |(span, key, problem): (Range<usize>, String, String)| {
            let (line, column) = place(text, span.start);
            Finding { file: file.to_owned(), line, column, key, problem }
        };
        self.0.into_iter().map(bound).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_lines_and_characters_from_one() {
        let text = "a = 1\r\nbä = 2\n";
        assert_eq!(place(text, 0), (1, 1));
        assert_eq!(place(text, 7), (2, 1));
        assert_eq!(place(text, 11), (2, 4));
        assert_eq!(place(text, text.len()), (3, 1));
        assert_eq!(place(text, 999), (3, 1));
    }

    #[test]
    fn only_a_near_word_is_suggested() {
        let known = ["command", "args", "env"];
        assert_eq!(nearest("comand", known.into_iter()), Some("command"));
        assert_eq!(nearest("Command", known.into_iter()), Some("command"));
        assert_eq!(nearest("arsg", known.into_iter()), Some("args"));
        assert_eq!(nearest("banana", known.into_iter()), None);
    }
}
