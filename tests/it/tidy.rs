//! The laws of the house that a reader of its files can check. The map and the laws stand in `src/lib.rs`.
//!
//! Each violation is told with file, line and rule.

use std::{env, path::Path, process::Command};

use crate::source::{ROOT, Source, below_root, files};

/// The floors, lowest first; on a floor the columns from left to right, in a column rooms that stand side by side.
/// A room imports what is below it and what is left of it.
const FLOORS: &[&[&[&str]]] = &[
    &[&["id", "limits", "mailbox"]],
    &[&["wire", "config", "supervisor", "log", "event", "scrub", "tomb", "fault"], &["hello", "policy"]],
    &[&["ingress", "process", "directory", "socket"], &["store"], &["history"]],
    &[&["egress", "residency"], &["peer"], &["session"], &["berth"], &["host", "control"]],
    &[&["root"], &["daemon"]],
];

/// The door, column by column: it imports the two lowest floors and what is left of it, and no room.
const DOOR: &[&[&str]] = &[&["start"], &["bridge", "demo"], &["cli"], &["main"]];
/// The highest floor that the door sees.
const DOOR_SEES: usize = 1;
/// What the door opens: the verb that is the daemon, and the shim that this binary is before anything else.
const OPENED: &[(&str, &str)] = &[("src/cli/daemon.rs", "daemon"), ("src/main.rs", "process")];

/// Rooms that never see each other, whatever their floors: the two ends are twins with a session between them.
const STRANGERS: &[(&str, &str)] = &[("host", "peer")];

/// Files that hold thinking only, beside those whose module docs say that they are pure.
const PURE: &[&str] = &[
    "berth/learnt",
    "egress/queue",
    "event",
    "event/calls",
    "event/mapper",
    "event/message",
    "event/reading",
    "event/spending",
    "host/stage",
    "peer/handshake",
    "peer/stage",
    "peer/wire",
    "process/environment",
    "process/ladder",
    "process/words",
    "residency/slots",
    "session/capabilities",
    "session/ledger",
    "session/route",
    "session/tools",
    "session/turn",
    "supervisor",
    "wire/error",
    "wire/frame",
    "wire/line",
    "wire/method",
    "wire/outgoing",
    "wire/parse",
    "wire/patch",
    "wire/pending",
    "wire/shallow",
];
/// What a pure file does not know: the runtime, actors, clocks. A time of day may come in as an argument.
const IMPURE: &[&str] = &["tokio", "ractor", "Instant", "SystemTime::now", "Timestamp::now", "elapsed()"];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] =
    &["manager", "util", "utils", "helper", "helpers", "common", "misc", "data", "info"];

const FILE_LINES_MAX: usize = 500;
/// A subject's tests are a list of sentences, and may be as long as there is to say.
const SUBJECT_LINES_MAX: usize = 1_000;
const FUNCTION_LINES_MAX: usize = 70;

/// What is known to break a law, as rule and place without line. It only shrinks.
const OWED: &[(&str, &str)] = &[];

/// Fails with everything that was found, and with what is owed no longer.
fn assert_tidy(rule: &str, found: Vec<String>) {
    let owed: Vec<&str> = OWED.iter().filter(|(of, _)| *of == rule).map(|(_, place)| *place).collect();
    let is = |found: &str, owed: &str| found.split(':').next() == Some(owed);
    let paid: Vec<_> = owed.iter().filter(|owed| !found.iter().any(|found| is(found, owed))).collect();
    let new: Vec<_> = found.iter().filter(|found| !owed.iter().any(|owed| is(found, owed))).collect();
    assert!(new.is_empty(), "{rule}:\n{new:#?}");
    assert!(paid.is_empty(), "{rule}: mended, so take it out of OWED: {paid:?}");
}

#[derive(Clone, Copy)]
enum Place {
    Floor(usize, usize),
    Door(usize),
}

fn place(room: &str) -> Option<Place> {
    let column = |columns: &[&[&str]]| columns.iter().position(|rooms| rooms.contains(&room));
    let floor = FLOORS.iter().enumerate().find_map(|(n, columns)| Some(Place::Floor(n, column(columns)?)));
    floor.or_else(|| column(DOOR).map(Place::Door))
}

fn may_import(from: Place, to: Place) -> bool {
    match (from, to) {
        (Place::Floor(from, column), Place::Floor(to, other)) => to < from || (to == from && other < column),
        (Place::Floor(..), Place::Door(_)) => false,
        (Place::Door(_), Place::Floor(to, _)) => to <= DOOR_SEES,
        (Place::Door(from), Place::Door(to)) => to < from,
    }
}

#[test]
fn rooms_import_downwards_and_to_the_left() {
    let mut found = Vec::new();
    for source in Source::all(&["src"]).iter().filter(|source| source.path != "src/lib.rs") {
        let room = source.names()[0];
        let Some(from) = place(room) else {
            found.push(format!("{}: room `{room}` stands on no floor: add it to FLOORS", source.path));
            continue;
        };
        for (at, name) in source.imports() {
            let opened = OPENED.contains(&(source.path.as_str(), name));
            let strangers = STRANGERS.iter().any(|pair| *pair == (room, name) || *pair == (name, room));
            let allowed = place(name).is_some_and(|to| may_import(from, to)) && !strangers;
            if name != room && !opened && !allowed {
                found.push(format!("{}: `{room}` must not import `{name}`", source.place(at)));
            }
        }
    }
    assert_tidy("floors", found);
}

#[test]
fn files_and_functions_are_short() {
    let (mut files, mut functions) = (Vec::new(), Vec::new());
    for source in Source::all(&["src", "tests", "benches"]) {
        let lines = source.text.lines().count();
        let max = if source.path.starts_with("src/") { FILE_LINES_MAX } else { SUBJECT_LINES_MAX };
        if lines > max {
            files.push(format!("{}:{lines}: more than {max} lines", source.path));
        }
        for function in source.functions() {
            let lines = source.line(function.span.end) - source.line(function.span.start) + 1;
            if lines > FUNCTION_LINES_MAX {
                let place = source.place(function.span.start);
                functions.push(format!("{place}: `{}` has {lines} lines", function.name));
            }
        }
    }
    assert_tidy("length of files", files);
    assert_tidy("length of functions", functions);
}

#[test]
fn every_file_says_what_it_is_and_is_called_so() {
    let (mut undocumented, mut empty) = (Vec::new(), Vec::new());
    for source in Source::all(&["src", "tests", "benches"]) {
        if !source.text.starts_with("//!") {
            undocumented.push(format!("{}:1: begins without `//!` docs", source.path));
        }
        for name in source.names() {
            if EMPTY_NAMES.contains(&name) {
                empty.push(format!("{}:1: `{name}` says nothing about what is inside", source.path));
            }
        }
    }
    assert_tidy("module docs", undocumented);
    assert_tidy("names", empty);
}

#[test]
fn pure_files_know_no_runtime_and_no_clock() {
    let sources = Source::all(&["src"]);
    let mut found = Vec::new();
    for name in PURE {
        let file = |source: &Source| source.names().join("/") == *name;
        assert!(sources.iter().any(file), "src/{name}.rs is in PURE and is not there");
    }
    for source in &sources {
        let claims = source.text.lines().take_while(|l| l.starts_with("//!")).any(|l| l.contains("Pure"));
        if !claims && !PURE.contains(&source.names().join("/").as_str()) {
            continue;
        }
        for word in IMPURE {
            for at in source.words(word).filter(|at| !source.is_test(*at)) {
                found.push(format!("{}: `{word}` in a pure file", source.place(at)));
            }
        }
    }
    assert_tidy("pure files", found);
}

#[test]
fn only_the_directory_touches_the_shared_map() {
    let sources = Source::all(&["src"]);
    let others = sources.iter().filter(|source| source.path != "src/directory.rs");
    let found = others.flat_map(|s| ["DashMap", "dashmap"].map(|word| (s, word)));
    let found = found.flat_map(|(s, word)| s.words(word).map(move |at| format!("{}: `{word}`", s.place(at))));
    assert_tidy("DashMap", found.collect());
}

#[test]
fn nothing_is_unwrapped_outside_tests() {
    let mut found = Vec::new();
    for source in Source::all(&["src"]) {
        let calls = source.code.match_indices(".unwrap()").map(|(at, _)| at);
        let calls = calls.filter(|at| !source.is_test(*at));
        found.extend(calls.map(|at| format!("{}: say why it cannot fail", source.place(at))));
    }
    assert_tidy("unwrap", found);
}

#[test]
fn no_test_is_switched_off() {
    let mut found = Vec::new();
    for source in Source::all(&["src", "tests"]) {
        for (at, mark) in source.code.match_indices("#[ignore") {
            // a part that a test starts in a process of its own is none itself, and says so
            if !source.text[at + mark.len()..].starts_with(" = \"no test: ") {
                found.push(format!("{}: this test never runs", source.place(at)));
            }
        }
    }
    assert_tidy("ignored tests", found);
}

/// With the feature on, spans of actors that talk to each other nest until the stack overflows. Any dependency can
/// switch it on for all.
#[test]
fn messages_between_actors_carry_no_spans() {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = Command::new(cargo)
        .args(["tree", "--locked", "--offline", "--edges", "features", "--invert", "ractor"])
        .current_dir(ROOT)
        .output()
        .unwrap();
    let features = String::from_utf8_lossy(&tree.stdout);
    assert!(features.contains("ractor feature"), "{features}{}", String::from_utf8_lossy(&tree.stderr));
    assert!(!features.contains("message_span_propogation"), "switched on by:\n{features}");
}

#[test]
fn no_file_names_a_directory_of_one_machine() {
    // put together here, or this file would name them
    let machines = ["work", "root"].map(|name| format!("/{name}/"));
    let mut found = Vec::new();
    for path in files(Path::new(ROOT)) {
        let text = std::fs::read(&path).unwrap();
        for (number, line) in String::from_utf8_lossy(&text).lines().enumerate() {
            if machines.iter().any(|directory| line.contains(directory.as_str())) {
                found.push(format!("{}:{}: {line}", below_root(&path), number + 1));
            }
        }
    }
    assert_tidy("machine paths", found);
}

#[test]
fn the_manual_tells_the_true_defaults() {
    let read = |name: &str| std::fs::read_to_string(Path::new(ROOT).join(name)).unwrap();
    let (manual, defaults) = (read("README.md"), read("config/default.toml"));
    let limits = manual.split("\n## ").find(|part| part.starts_with("Limits\n")).expect("a part on limits");
    let rows: Vec<Vec<&str>> = limits.lines().map(|l| l.split('|').map(str::trim).collect()).collect();
    let told: Vec<(&str, &str)> = rows
        .iter()
        .filter_map(|cells| Some((cells.get(1)?.strip_prefix('`')?.trim_end_matches('`'), cells[2])))
        .collect();
    assert!(!told.is_empty(), "no table of limits");
    for (key, default) in told {
        let line = format!("\n#{key} = {default}\n");
        assert!(defaults.contains(&line), "README.md says {key} = {default}, config/default.toml does not");
    }
}
