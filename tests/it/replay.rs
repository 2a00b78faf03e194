//! Recordings of real agents and hosts, played through the daemon: both ends get what they got without it.
//!
//! The recordings lie beside the project, in `shared/transcripts` (or below `ACPVISOR_SHARED`), and are no
//! part of it: without them there is nothing to play.

mod agent_side;
mod ends;
mod expected;
mod host_side;
mod play;
mod session;
mod tally;

use std::{
    collections::{HashMap, VecDeque},
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
};

use self::{play::Play, tally::Tally};
use crate::{line, recording::Recording, sandbox::Sandbox};

/// Recordings played at once.
const WORKERS: usize = 3;

/// R12, R13: what a real agent and its host said to each other they say through the daemon, byte for byte
/// but for ids.
#[test]
fn recorded_wires_pass_unchanged() {
    let dir = std::env::var_os("ACPVISOR_SHARED").map_or_else(beside, PathBuf::from).join("transcripts");
    let paths = recordings(&dir);
    if paths.is_empty() {
        return eprintln!("skipped: there are no recordings in {}", dir.display());
    }
    let queue = Mutex::new(VecDeque::from(paths));
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(path) = { queue.lock().unwrap().pop_front() } {
                    let result = play_alone(path.clone());
                    results.lock().unwrap().push((name(&path), result));
                }
            });
        }
    });
    judge(results.into_inner().unwrap());
}

fn beside() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared")
}

/// Every recording, the largest first.
fn recordings(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = entries.filter(|p| p.extension().is_some_and(|e| e == "ndjson")).collect();
    paths.sort_by_key(|path| std::cmp::Reverse(path.metadata().map_or(0, |m| m.len())));
    paths
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// Plays one recording in a thread of its own name, so that a failure says whose it is.
fn play_alone(path: PathBuf) -> Result<Tally, String> {
    let player = thread::Builder::new().name(name(&path)).spawn(move || play(&path)).unwrap();
    player.join().map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
    })
}

fn play(path: &Path) -> Tally {
    let mut sandbox = Sandbox::new();
    sandbox.set("", r#"log_level = "info""#);
    let recording = Recording::read(path, &sandbox.cwd("home"));
    let answers = recording.processes.iter().filter_map(|p| p.answer_to("initialize"));
    let initialize = answers.into_iter().find_map(|m| m.member("result"));
    let initialize = serde_json::from_str(&initialize.expect("an answer to initialize")).unwrap();
    let mut puppets = sandbox.puppet_agent("recorded").introduced(initialize);
    sandbox.start();
    let mut tally = Tally::default();
    let mut known = HashMap::new();
    for process in &recording.processes {
        Play::begin(process, &sandbox, &mut puppets, &mut known, &mut tally).run();
    }
    tally.assert_whole(recording.records());
    tally
}

fn judge(mut results: Vec<(String, Result<Tally, String>)>) {
    results.sort_by(|a, b| a.0.cmp(&b.0));
    let mut all = Tally::default();
    let mut faults = Vec::new();
    println!("{}", Tally::head());
    for (name, result) in &results {
        match result {
            Ok(tally) => {
                println!("{}", tally.row(name));
                all.add(tally);
                // The main recording of an agent is named like it.
                if !name.contains('.') && tally.updates_share() < 0.9 {
                    faults.push(format!("{name}: too little was compared"));
                }
            }
            Err(why) => {
                println!("{name:<36} FAILED");
                faults.push(format!("{name}: {}", line::shown(why.as_bytes())));
            }
        }
    }
    println!("{}", all.row("all"));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(all.updates_share() > 0.9 && all.host_got > results.len(), "too little was compared");
}
