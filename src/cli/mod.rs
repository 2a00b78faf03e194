//! What people type: the verbs and how they end (R260).
//!
//! Owns the command line, stdout and the exit code. One file per verb, same name. Never reaches into a room of the
//! daemon: it speaks to the sockets like anybody else.

mod acp;
mod attach;
mod cancel;
mod close;
mod daemon;
mod demo_agent;
mod events;
mod export;
mod failure;
mod inbox;
mod ls;
mod operator;
mod rm;
mod run;
mod send;
mod show;
mod status;
mod stop;
mod style;
mod table;
mod text;
mod told;
mod tree;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Parser, Subcommand};
use serde_json::Value;

use crate::{
    config::{Config, ConfigError, Paths},
    start::{self, Socket},
};
use failure::Failure;

/// Supervises coding agents: a process for each session, between any ACP editor and any ACP agent.
#[derive(Debug, Parser)]
#[command(name = "acpvisor", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    verb: Verb,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 no daemon, 4 the turn ended \
    other than end_turn or without text, 5 something was refused unattended, 100 another daemon owns the place, \
    111 the daemon lost a part of itself, 130 interrupted.\n\
    Places: ACPVISOR_RUNTIME_DIR or XDG_RUNTIME_DIR for sockets, ACPVISOR_STATE_DIR or XDG_STATE_HOME for state.";

/// What every verb takes.
#[derive(Debug, Args)]
struct Globals {
    /// Configuration file; without it config.toml in the acpvisor directory of XDG_CONFIG_HOME
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Globals {
    fn paths(&self) -> Result<Paths, Failure> {
        Ok(Paths::from_env(self.config.clone())?)
    }

    fn load(&self) -> Result<(Config, Paths), Failure> {
        let paths = self.paths()?;
        Ok((Config::load(&paths.config)?, paths))
    }

    /// What a client of the daemon needs, which is little: a daemon that runs already has read its own configuration,
    /// and a file that is just being edited does not keep anybody from it. Gives the error that does not matter then.
    fn load_for_client(&self) -> Result<(Config, Paths, Option<ConfigError>), Failure> {
        let paths = self.paths()?;
        match Config::load(&paths.config) {
            Ok(config) => Ok((config, paths, None)),
            Err(error) if start::connect(&paths, Socket::Control, false).is_ok() => {
                Ok((Config::default(), paths, Some(error)))
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the daemon
    Daemon(daemon::Args),
    /// Be an ACP agent on stdin and stdout; this is what an editor starts
    Acp(acp::Args),
    /// Give an agent one prompt and print what it does
    Run(run::Args),
    /// Show how the daemon is
    Status(status::Args),
    /// Show every actor and process of the daemon
    Tree(tree::Args),
    /// List the sessions, live and saved
    Ls(ls::Args),
    /// Show one session with everything that is known of it
    Show(show::Args),
    /// Follow a session from its beginning until it ends
    Attach(attach::Args),
    /// Put a message into the inbox of a session
    Send(send::Args),
    /// Look after the messages that wait for a session
    Inbox(inbox::Args),
    /// Cancel the running turn of a session
    Cancel(cancel::Args),
    /// Close a session and end its process
    Close(close::Args),
    /// Remove a session with everything that is known of it
    Rm(rm::Args),
    /// Print the transcript of a session
    Export(export::Args),
    /// Print what happens, as it happens
    Events(events::Args),
    /// Stop the daemon
    Stop(stop::Args),
    /// Be the scripted agent that needs no network
    DemoAgent(demo_agent::Args),
}

impl Verb {
    fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        match self {
            Self::Daemon(args) => args.run(globals),
            Self::Acp(args) => args.run(globals),
            Self::Run(args) => args.run(globals),
            Self::Status(args) => args.run(globals),
            Self::Tree(args) => args.run(globals),
            Self::Ls(args) => args.run(globals),
            Self::Show(args) => args.run(globals),
            Self::Attach(args) => args.run(globals),
            Self::Send(args) => args.run(globals),
            Self::Inbox(args) => args.run(globals),
            Self::Cancel(args) => args.run(globals),
            Self::Close(args) => args.run(globals),
            Self::Rm(args) => args.run(globals),
            Self::Export(args) => args.run(globals),
            Self::Events(args) => args.run(globals),
            Self::Stop(args) => args.run(globals),
            Self::DemoAgent(args) => args.run(),
        }
    }
}

/// Does what the command line says.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // nothing better can be done about a closed stdout
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match cli.verb.run(&cli.globals) {
        Ok(code) => code,
        Err(failure) => {
            failure.tell();
            ExitCode::from(failure.code())
        }
    }
}

/// Says on stderr when the daemon reads another file than was named: what stands in ours then means nothing.
fn warn_of_other_config(ours: &Path, status: &Value) {
    match status["paths"]["config"].as_str() {
        Some(theirs) if Path::new(theirs) != ours => failure::warn(format_args!(
            "the daemon that runs has read {theirs}, not {}; end it with: acpvisor stop",
            ours.display()
        )),
        _ => {}
    }
}

/// Prints to stdout; a reader that has gone away is a failure of its own kind, which stays quiet.
fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::Stdout)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// R260: every verb is known, and a wrong argument is wrong usage.
    #[test]
    fn wrong_arguments_are_wrong_usage() {
        let verbs = [
            "daemon", "acp", "run", "status", "tree", "ls", "show", "attach", "send", "inbox", "cancel",
            "close", "rm", "export", "events", "stop",
        ];
        for verb in verbs {
            let error = Cli::try_parse_from(["acpvisor", verb, "--no-such-option"]).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{verb}");
        }
        for line in [
            &[][..],
            &["cancel"],
            &["fly"],
            &["run"],
            &["send", "x"],
            &["inbox"],
            &["inbox", "x", "fly"],
            &["inbox", "x", "edit", "e"],
            &["export", "x", "--format", "html"],
            &["export", "x", "--json", "--format", "events"],
            &["run", "--detach", "--resume", "x", "hello"],
            &["run", "--resume", "x", "--agent", "a", "hello"],
        ] {
            let line = [&["acpvisor"], line].concat();
            assert_eq!(Cli::try_parse_from(&line).unwrap_err().exit_code(), 2, "{line:?}");
        }
        for line in [&["inbox", "x"][..], &["inbox", "x", "ls", "--json"], &["inbox", "x", "edit", "e", "-"]]
        {
            assert!(Cli::try_parse_from([&["acpvisor"], line].concat()).is_ok(), "{line:?}");
        }
        assert_eq!(Cli::try_parse_from(["acpvisor", "--help"]).unwrap_err().exit_code(), 0);
    }

    /// R265: the demo agent gets its arguments untouched, even those that look like ours.
    #[test]
    fn the_demo_agent_reads_its_own_arguments() {
        let cli = Cli::try_parse_from(["acpvisor", "demo-agent", "--help", "--ignore-term", "x"]).unwrap();
        let Verb::DemoAgent(args) = cli.verb else { panic!("another verb") };
        assert_eq!(args.args, ["--help", "--ignore-term", "x"]);
    }
}
