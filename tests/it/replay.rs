//! Recordings of real agents and hosts, played through the daemon: both ends get what they got without it, but for what
//! the daemon does itself. It keeps the sessions, so what a host loads is what it saw of them before.
//!
//! The recordings lie beside the project, in `shared/transcripts` (or below `ACPVISOR_SHARED`), and are no
//! part of it: without them there is nothing to play.

mod agent_side;
mod ends;
mod expected;
mod host_side;
mod life;
mod offered;
mod opening;
mod play;
mod seen;
mod session;
mod tally;

use std::{
    collections::VecDeque,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
};

use self::{life::Lives, play::Play, tally::Tally};
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
    let queue = Mutex::new(VecDeque::from(chains(paths)));
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(chain) = { queue.lock().unwrap().pop_front() } {
                    let played = play_alone(chain);
                    results.lock().unwrap().extend(played);
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

/// An agent's main recording is followed by those that take its sessions up: one daemon sees all of them.
fn chains(paths: Vec<PathBuf>) -> Vec<Vec<PathBuf>> {
    let main_of = |path: &Path| {
        let name = name(path);
        name.strip_suffix(".load").or(name.strip_suffix(".resume")).unwrap_or(&name).to_owned()
    };
    let mut chains: Vec<Vec<PathBuf>> = Vec::new();
    for path in paths {
        match chains.iter_mut().find(|chain| main_of(&chain[0]) == main_of(&path)) {
            Some(chain) => chain.push(path),
            None => chains.push(vec![path]),
        }
    }
    chains.iter_mut().for_each(|chain| chain.sort_by_key(|path| name(path)));
    chains
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// Plays a chain in a thread of its own name, so that a failure says whose it is; what comes after one is not played.
fn play_alone(chain: Vec<PathBuf>) -> Vec<(String, Result<Tally, String>)> {
    let played = Arc::new(Mutex::new(Vec::new()));
    let (done, names) = (played.clone(), chain.iter().map(|path| name(path)).collect::<Vec<_>>());
    let player = thread::Builder::new().name(names[0].clone()).spawn(move || play(&chain, &done)).unwrap();
    let failure = player.join().err().map(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
    });
    let played: Vec<Tally> = std::mem::take(&mut *played.lock().unwrap());
    names.into_iter().zip(played.into_iter().map(Ok).chain(failure.map(Err))).collect()
}

fn play(chain: &[PathBuf], done: &Mutex<Vec<Tally>>) {
    let mut sandbox = Sandbox::new();
    sandbox.set("", r#"log_level = "info""#);
    let cwd = sandbox.cwd("home");
    let mut puppets = sandbox.puppet_agent("recorded");
    sandbox.start();
    let mut lives = Lives::default();
    for path in chain {
        let recording = Recording::read(path, &cwd);
        let answers = recording.processes.iter().filter_map(|p| p.answer_to("initialize"));
        let initialize = answers.into_iter().find_map(|m| m.member("result"));
        puppets.introduce(serde_json::from_str(&initialize.expect("an answer to initialize")).unwrap());
        let mut tally = Tally::default();
        for process in &recording.processes {
            Play::begin(process, &sandbox, &mut puppets, &mut lives, &mut tally).run();
        }
        let last = recording.processes.last().expect("an agent was recorded");
        let mut again = Tally::default();
        Play::begin(last, &sandbox, &mut puppets, &mut lives, &mut again).load_again();
        tally.add_loads(&again);
        tally.assert_whole(recording.records());
        done.lock().unwrap().push(tally);
    }
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
