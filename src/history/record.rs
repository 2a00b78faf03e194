//! A text that keeps its first entry and its newest ones within a budget, and says what is left out. Pure.

use std::collections::VecDeque;

use super::literal;

/// Entries in order.
#[derive(Debug, Default)]
pub(super) struct Record {
    first: Option<String>,
    newest: VecDeque<String>,
    newest_bytes: usize,
    /// Entries and bytes that are left out.
    left_out: (usize, usize),
}

impl Record {
    /// Adds the entry that stays whatever follows, with what came before it if that is short; once.
    pub fn push_first(&mut self, entry: String, budget: usize) {
        if self.first.is_some() {
            return self.push(entry, budget);
        }
        if self.newest_bytes + entry.len() > budget / 2 {
            while !self.newest.is_empty() {
                self.leave_out();
            }
        }
        let before: String = self.newest.drain(..).collect();
        self.newest_bytes = 0;
        self.first = Some(before + &entry);
    }

    /// Adds an entry. What the newest entries alone would push out of the budget is left out at once.
    pub fn push(&mut self, entry: String, budget: usize) {
        self.newest_bytes += entry.len();
        self.newest.push_back(entry);
        while self.newest.front().is_some_and(|oldest| self.newest_bytes - oldest.len() > budget) {
            self.leave_out();
        }
    }

    /// Whether there is an entry that stays.
    pub fn has_first(&self) -> bool {
        self.first.is_some()
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.first.is_none() && self.newest.is_empty()
    }

    /// Everything that fits.
    pub fn into_text(mut self, budget: usize) -> String {
        let first = self.first.take().unwrap_or_default();
        let room = budget.saturating_sub(first.len() + note((usize::MAX, usize::MAX)).len());
        while self.newest_bytes > room {
            let excess = self.newest_bytes - room;
            match self.newest.front_mut() {
                Some(oldest) if oldest.len() > excess => {
                    let at = literal::char_ceil(oldest, excess);
                    oldest.drain(..at);
                    self.left_out.1 += at;
                    self.newest_bytes -= at;
                }
                _ => self.leave_out(),
            }
        }
        let note = if self.left_out.1 > 0 { note(self.left_out) } else { String::new() };
        let newest: String = self.newest.into_iter().collect();
        [first, note, newest].concat()
    }

    fn leave_out(&mut self) {
        if let Some(oldest) = self.newest.pop_front() {
            self.newest_bytes -= oldest.len();
            self.left_out.0 += 1;
            self.left_out.1 += oldest.len();
        }
    }
}

fn note((entries, bytes): (usize, usize)) -> String {
    format!("[… {bytes} bytes are left out here, {entries} whole entries among them …]\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R31: the first entry and the newest stay within the budget, with a note on what is left out.
    #[test]
    fn the_first_and_the_newest_stay() {
        for budget in [150, 200, 500, 5_000] {
            let mut record = Record::default();
            record.push_first("first\n".to_owned(), budget);
            (0..100).for_each(|n| record.push(format!("ä{n:02}\n"), budget));
            let text = record.into_text(budget);
            assert!(text.len() <= budget && text.starts_with("first\n") && text.ends_with("ä99\n"), "{text}");
            assert_eq!(text.contains(" bytes are left out here"), budget < 506, "{budget}");
        }
    }

    /// R31: a word of the agent's before the first of the user's stays in its place, a long speech does not.
    #[test]
    fn what_comes_before_the_first_stays_when_it_is_short() {
        for (before, stays) in [("banner\n".to_owned(), true), ("x".repeat(400), false)] {
            let mut record = Record::default();
            record.push(before.clone(), 500);
            record.push_first("first\n".to_owned(), 500);
            record.push_first("second\n".to_owned(), 500);
            let text = record.into_text(500);
            let ends = text.strip_prefix(&before).unwrap_or(&text).starts_with("first\n")
                && text.ends_with("second\n");
            assert!(ends && text.starts_with(&before) == stays, "{text}");
        }
    }

    #[test]
    fn the_oldest_entry_that_stays_is_cut_to_fit() {
        let mut record = Record::default();
        record.push("ä".repeat(1_000), 500);
        record.push("end".to_owned(), 500);
        let text = record.into_text(500);
        assert!(text.len() <= 500 && text.len() > 440 && text.ends_with("ääend"), "{}", text.len());
    }
}
