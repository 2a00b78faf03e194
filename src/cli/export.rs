//! `acpvisor export`: the transcript of a session (R270).

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::ValueEnum;
use serde::Deserialize;
use serde_json::json;

use super::{
    Failure, Globals,
    operator::{Operator, Told},
};

/// Arguments of `export`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session; the first four characters of its id or more are enough while they are unique
    #[arg(value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: String,
    /// In which form
    #[arg(long, value_enum, default_value_t = Format::Markdown)]
    format: Format,
    /// Short for --format ndjson
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write it to this file, not to stdout
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// In which form a transcript is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Every line that passed, and every note of the daemon, one JSON object a line
    Ndjson,
    /// What happened, one JSON object a line
    Events,
    /// What was said and done, for people
    Markdown,
}

/// Where it goes.
enum Out {
    Stdout(io::Stdout),
    File(File, PathBuf),
}

#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow)]
    text: std::borrow::Cow<'a, str>,
}

impl Args {
    pub fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        let mut operator = Operator::connect(&globals.paths()?)?;
        let id = operator.resolve(&self.id)?;
        let format = if self.json { Format::Ndjson } else { self.format };
        let mut out = Out::open(self.output.as_deref())?;
        let params = json!({ "id": id, "format": format.word() });
        operator.call_told("sessions.export", &params, |told| out.take(told))?;
        out.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Format {
    fn word(self) -> &'static str {
        match self {
            Self::Ndjson => "ndjson",
            Self::Events => "events",
            Self::Markdown => "markdown",
        }
    }
}

impl Out {
    /// A transcript is nobody else's.
    fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else { return Ok(Self::Stdout(io::stdout())) };
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        file.map(|file| Self::File(file, path.to_owned())).map_err(|error| unwritten(path, error))
    }

    fn take(&mut self, told: &Told<'_>) -> Result<(), Failure> {
        match serde_json::from_str::<Piece<'_>>(told.params.get()) {
            Ok(piece) if told.method == "export.piece" => self.write(piece.text.as_bytes()),
            _ => Ok(()),
        }
    }

    fn write(&mut self, text: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Stdout(stdout) => stdout.write_all(text).map_err(Failure::Stdout),
            Self::File(file, path) => file.write_all(text).map_err(|error| unwritten(path, error)),
        }
    }

    /// What a disk has no room for may show only now.
    fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Stdout(mut stdout) => stdout.flush().map_err(Failure::Stdout),
            Self::File(file, path) => file.sync_all().map_err(|error| unwritten(&path, error)),
        }
    }
}

fn unwritten(path: &Path, source: io::Error) -> Failure {
    Failure::File { path: path.to_owned(), source }
}
