//! Source files as the tests of the house see them: the text, and the code alone, where comments and literals are
//! blanks of the same length, so that places and lines agree.
//!
//! Reads Rust well enough for this house, not for every program.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

/// The directory of the project.
pub const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// One file.
pub struct Source {
    /// Its path below the project's directory.
    pub path: String,
    /// As it lies.
    pub text: String,
    /// The same with blanks for comments and for what is in literals.
    pub code: String,
}

/// A function: its name, where its signature begins and where its body ends, in bytes.
pub struct Function<'s> {
    /// What it is called.
    pub name: &'s str,
    /// From `fn` to the closing brace.
    pub span: Range<usize>,
}

impl Source {
    /// Every Rust file below these directories of the project, in order of their paths.
    pub fn all(dirs: &[&str]) -> Vec<Self> {
        let mut paths: Vec<PathBuf> = dirs.iter().flat_map(|dir| files(&Path::new(ROOT).join(dir))).collect();
        paths.retain(|path| path.extension().is_some_and(|ext| ext == "rs"));
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        Self { path: below_root(path), code: code(&text), text }
    }

    /// The names on the way to it: `src/wire/frame.rs` is `wire`, `frame`.
    pub fn names(&self) -> Vec<&str> {
        let path = self.path.trim_end_matches(".rs").trim_end_matches("/mod");
        path.split('/').skip(1).collect()
    }

    /// The number of the line that holds this byte.
    pub fn line(&self, at: usize) -> usize {
        self.text.as_bytes()[..at].iter().filter(|b| **b == b'\n').count() + 1
    }

    /// `path:line`.
    pub fn place(&self, at: usize) -> String {
        format!("{}:{}", self.path, self.line(at))
    }

    /// Where this word stands in the code, as a word of its own.
    pub fn words<'s>(&'s self, word: &'s str) -> impl Iterator<Item = usize> + 's {
        let part = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
        let code = self.code.as_bytes();
        self.code.match_indices(word).map(|(at, _)| at).filter(move |at| {
            !part(at.checked_sub(1).and_then(|before| code.get(before))) && !part(code.get(at + word.len()))
        })
    }

    /// Whether this byte belongs to unit tests.
    pub fn is_test(&self, at: usize) -> bool {
        self.path.starts_with("tests/")
            || self.path.ends_with("/tests.rs")
            || self.path.contains("/tests/")
            || self.test_modules().iter().any(|module| module.contains(&at))
    }

    fn test_modules(&self) -> Vec<Range<usize>> {
        let marks = self.code.match_indices("#[cfg(test)]");
        marks.filter_map(|(at, _)| Some(at..self.block_end(at)?)).collect()
    }

    /// Every function with a body, whatever it is in.
    pub fn functions(&self) -> Vec<Function<'_>> {
        self.words("fn").filter_map(|at| self.function(at)).collect()
    }

    fn function(&self, at: usize) -> Option<Function<'_>> {
        let rest = self.code[at + 2..].trim_start();
        let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
        // a type such as `fn()` has no name
        (length > 0).then_some(())?;
        Some(Function { name: &rest[..length], span: at..self.block_end(at)? })
    }

    /// Behind the closing brace of the first block after this byte; nothing when a `;` comes first.
    fn block_end(&self, at: usize) -> Option<usize> {
        let (mut depth, mut groups) = (0_usize, 0_usize);
        for (offset, byte) in self.code.as_bytes()[at..].iter().enumerate() {
            match byte {
                b'(' | b'[' => groups += 1,
                b')' | b']' => groups = groups.saturating_sub(1),
                b';' if depth == 0 && groups == 0 => return None,
                b'{' => depth += 1,
                b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(at + offset + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Every module of this crate that the file names, and where.
    pub fn imports(&self) -> Vec<(usize, &str)> {
        let roots = self.words("crate").chain(self.words("acpvisor"));
        let paths = roots.filter_map(|at| {
            Some(at + self.code[at..].find("::")? + 2).filter(|next| {
                // `crate` alone is a visibility
                self.code[at..*next].trim_start_matches(char::is_alphabetic) == "::"
            })
        });
        paths.flat_map(|at| self.named(at)).collect()
    }

    /// The first names of a path or of a braced list of paths.
    fn named(&self, at: usize) -> Vec<(usize, &str)> {
        if self.code.as_bytes().get(at) != Some(&b'{') {
            return vec![(at, self.name_at(at))];
        }
        let (mut names, mut depth, mut expected) = (Vec::new(), 0_usize, false);
        for (offset, byte) in self.code.as_bytes()[at..].iter().enumerate() {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                b' ' | b'\n' => continue,
                b',' => {}
                _ if expected => names.push((at + offset, self.name_at(at + offset))),
                _ => {}
            }
            expected = depth == 1 && matches!(byte, b'{' | b',');
            if depth == 0 {
                break;
            }
        }
        names
    }

    fn name_at(&self, at: usize) -> &str {
        let rest = &self.code[at..];
        &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())]
    }
}

/// Every file below that the project keeps: nothing hidden but its checks, nothing that is built.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let kept = |name: &str| name == ".ci" || (!name.starts_with('.') && name != "target");
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        match entry.file_type() {
            Ok(_) if !kept(&name.to_string_lossy()) => {}
            Ok(kind) if kind.is_dir() => found.extend(files(&path)),
            Ok(kind) if kind.is_file() => found.push(path),
            _ => {}
        }
    }
    found
}

/// The path as seen from the project's directory.
pub fn below_root(path: &Path) -> String {
    path.strip_prefix(ROOT).unwrap().to_string_lossy().into_owned()
}

/// The text with blanks for comments and for what is in literals; line ends stay.
fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let literal = skipped(rest, code.chars().next_back());
        let length = literal.unwrap_or(first.len_utf8());
        let (piece, next) = rest.split_at(length);
        if literal.is_some() {
            code.extend(piece.bytes().map(|b| if b == b'\n' { '\n' } else { ' ' }));
        } else {
            code.push_str(piece);
        }
        rest = next;
    }
    code
}

/// How long the comment or literal is that begins here; nothing when none does.
fn skipped(rest: &str, before: Option<char>) -> Option<usize> {
    let to = |end: Option<usize>| Some(end.unwrap_or(rest.len()));
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    match rest.as_bytes() {
        [b'/', b'/', ..] => to(rest.find('\n')),
        [b'/', b'*', ..] => to(rest.find("*/").map(|end| end + 2)),
        [b'"', ..] => to(closing(rest, '"')),
        [b'r', b'"' | b'#', ..] if !in_word => raw(rest),
        [b'b', b'r', b'"' | b'#', ..] if !in_word => raw(&rest[1..]).map(|length| length + 1),
        [b'\'', b'\\', ..] => to(closing(rest, '\'')),
        [b'\'', ..] => {
            let character = rest[1..].chars().next()?;
            let end = 1 + character.len_utf8();
            rest[end..].starts_with('\'').then_some(end + 1)
        }
        _ => None,
    }
}

/// Behind the quote that closes the one in front; a backslash takes the next character with it.
fn closing(rest: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// The length of a raw string; nothing for a raw name such as `r#type`.
fn raw(rest: &str) -> Option<usize> {
    let hashes = rest[1..].bytes().take_while(|b| *b == b'#').count();
    let body = rest[1 + hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(body.find(&end).map_or(rest.len(), |at| 2 + hashes + at + end.len()))
}

#[test]
fn comments_and_literals_are_no_code() {
    let text = "a(\"{ // \\\" }\", '{', '\\'', b\"x\", r#\"\"{\"#); // }\nfn f<'a>() {} /* { */ x";
    let code = code(text);
    assert_eq!(code.len(), text.len());
    let words: Vec<&str> = code.split_whitespace().collect();
    assert_eq!(words, ["a(", ",", ",", ",", "b", ",", ");", "fn", "f<'a>()", "{}", "x"]);
}

#[test]
fn imports_are_seen_in_every_spelling() {
    let text = "use crate::{\n    wire::{Call, frame},\n    id::Token,\n};\npub(crate) fn f() { crate::limits::MIB; }";
    let source = Source { path: "src/x.rs".into(), text: text.into(), code: code(text) };
    let named: Vec<(usize, &str)> = source.imports().iter().map(|(at, n)| (source.line(*at), *n)).collect();
    assert_eq!(named, [(2, "wire"), (3, "id"), (5, "limits")]);
    assert_eq!(source.functions().iter().map(|f| f.name).collect::<Vec<_>>(), ["f"]);
}
