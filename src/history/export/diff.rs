//! The lines that differ between two texts, as people read them. Pure.

use std::fmt::Write;

/// Lines that stay the same shown around what changed.
const AROUND: usize = 3;
/// Lines compared with one another; of more, all old ones go and all new ones come.
const COMPARED_MAX: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Old(&'a str),
    New(&'a str),
}

/// Hunks without positions, `…` between them.
pub(super) fn diff(old: &str, new: &str) -> String {
    let lines = compare(&old.lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>());
    let changes = |from: usize, to: usize| lines[from..to].iter().any(|line| !matches!(line, Line::Same(_)));
    let (mut out, mut skipped) = (String::new(), false);
    for (at, line) in lines.iter().enumerate() {
        if !changes(at.saturating_sub(AROUND), (at + AROUND + 1).min(lines.len())) {
            skipped = true;
            continue;
        }
        if std::mem::take(&mut skipped) {
            out.push_str("…\n");
        }
        let (sign, text) = match line {
            Line::Same(text) => (' ', text),
            Line::Old(text) => ('-', text),
            Line::New(text) => ('+', text),
        };
        writeln!(out, "{sign}{text}").expect("a string takes everything");
    }
    if skipped && !out.is_empty() { out + "…\n" } else { out }
}

fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let before = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[before..], &new[before..]);
    let after = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_mid, new_mid) = (&old_rest[..old_rest.len() - after], &new_rest[..new_rest.len() - after]);
    let same = |lines: &[&'a str]| lines.iter().copied().map(Line::Same).collect::<Vec<_>>();
    [same(&old[..before]), middle(old_mid, new_mid), same(&old_rest[old_rest.len() - after..])].concat()
}

/// Keeps as many lines as can stay in order.
fn middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let is_small = old.len().saturating_mul(new.len()) <= COMPARED_MAX;
    let common = if is_small { common(old, new) } else { Vec::new() };
    let stays = |i: usize, j: usize| common.get(i * (new.len() + 1) + j).copied().unwrap_or(0);
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] && is_small {
            lines.push(Line::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len() && (j == new.len() || stays(i + 1, j) >= stays(i, j + 1)) {
            lines.push(Line::Old(old[i]));
            i += 1;
        } else {
            lines.push(Line::New(new[j]));
            j += 1;
        }
    }
    lines
}

/// How many lines can stay behind each pair of places.
fn common(old: &[&str], new: &[&str]) -> Vec<u32> {
    let width = new.len() + 1;
    let mut table = vec![0; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            let (down, right) = (table[(i + 1) * width + j], table[i * width + j + 1]);
            let both = table[(i + 1) * width + j + 1] + 1;
            table[i * width + j] = if old[i] == new[j] { both } else { down.max(right) };
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn changes_are_shown_with_what_is_around_them() {
        let old: String = (0..30).map(|n| format!("{n}\n")).collect();
        let new = old.replace("\n5\n", "\nfive\n").replace("\n20\n", "\n");
        let want = "…\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n…\n 17\n 18\n 19\n-20\n 21\n 22\n 23\n…\n";
        assert_eq!(diff(&old, &new), want);
        assert_eq!(diff("", "a\nb\n"), "+a\n+b\n");
        assert_eq!(diff("a", ""), "-a\n");
        assert_eq!(diff("a\n", "a\n"), "");
    }

    #[test]
    fn texts_that_are_too_long_to_compare_are_replaced() {
        let text = |word: &str| (0..1_500).map(|n| format!("{word}{}\n", n % 7)).collect::<String>();
        let diff = diff(&text("a"), &text("b"));
        assert_eq!(diff.lines().count(), 3_000);
        assert!(diff.starts_with("-a0\n-a1\n") && diff.ends_with("+b1\n"));
    }

    proptest! {
        /// What stays and goes is the old text, what stays and comes the new one.
        #[test]
        fn both_texts_are_in_it(old in "([abc]\n){0,12}", new in "([abc]\n){0,12}") {
            let lines = compare(&old.lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>());
            let side = |of: fn(&Line<'_>) -> bool| -> String {
                let text = |line: &Line<'_>| match line { Line::Same(t) | Line::Old(t) | Line::New(t) => format!("{t}\n") };
                lines.iter().filter(|line| of(line)).map(text).collect()
            };
            prop_assert_eq!(side(|line| !matches!(line, Line::New(_))), old.as_str());
            prop_assert_eq!(side(|line| !matches!(line, Line::Old(_))), new.as_str());
        }
    }
}
