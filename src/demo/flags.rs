//! The flags of `demo-agent`, read by hand: this end of the binary starts once per session and parses little.

use std::{ffi::OsString, path::PathBuf, str::FromStr, time::Duration};

use thiserror::Error;

use super::brood::Kin;

/// What a flag is missing.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum FlagError {
    #[error("{0:?} is none of --ignore-term, --ignore-eof, --init-delay, --no-init, --name, --puppet")]
    Unknown(OsString),
    #[error("{0} needs a value behind it")]
    Missing(&'static str),
    #[error("{flag} does not take {value:?}")]
    Value { flag: &'static str, value: OsString },
}

/// What the flags do, for people.
pub(super) const HELP: &str = "\
Usage: acpvisor demo-agent [FLAGS]

A scripted ACP agent on stdin and stdout, without network.

  --name NAME      name in agentInfo
  --init-delay MS  answers initialize this late
  --no-init        never answers initialize
  --ignore-term    does not end on SIGTERM
  --ignore-eof     does not end with its stdin
  --help           prints this

";

/// How the agent was started.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Flags {
    /// It is only asked what it can do.
    pub help: bool,
    /// SIGTERM does nothing.
    pub ignore_term: bool,
    /// The end of stdin does nothing.
    pub ignore_eof: bool,
    /// `initialize` is answered this late.
    pub init_delay: Duration,
    /// `initialize` is never answered.
    pub no_init: bool,
    /// Name in `agentInfo`.
    pub name: String,
    /// Socket of the test that speaks through this process.
    pub puppet: Option<PathBuf>,
    /// This process is one of the children of `fork`.
    pub sleeper: Option<Kin>,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            help: false,
            ignore_term: false,
            ignore_eof: false,
            init_delay: Duration::ZERO,
            no_init: false,
            name: "acpvisor-demo".to_owned(),
            puppet: None,
            sleeper: None,
        }
    }
}

impl Flags {
    /// Reads the arguments behind the verb.
    pub fn parse(mut args: impl Iterator<Item = OsString>) -> Result<Self, FlagError> {
        let mut flags = Self::default();
        while let Some(flag) = args.next() {
            match flag.to_str() {
                Some("--help" | "-h") => flags.help = true,
                Some("--ignore-term") => flags.ignore_term = true,
                Some("--ignore-eof") => flags.ignore_eof = true,
                Some("--no-init") => flags.no_init = true,
                Some("--init-delay") => {
                    flags.init_delay = Duration::from_millis(parsed("--init-delay", &mut args)?);
                }
                Some("--name") => flags.name = parsed("--name", &mut args)?,
                Some("--puppet") => flags.puppet = Some(value("--puppet", &mut args)?.into()),
                Some("--sleeper") => flags.sleeper = Some(parsed("--sleeper", &mut args)?),
                _ => return Err(FlagError::Unknown(flag)),
            }
        }
        Ok(flags)
    }
}

fn value(flag: &'static str, args: &mut impl Iterator<Item = OsString>) -> Result<OsString, FlagError> {
    args.next().ok_or(FlagError::Missing(flag))
}

fn parsed<T: FromStr>(flag: &'static str, args: &mut impl Iterator<Item = OsString>) -> Result<T, FlagError> {
    let value = value(flag, args)?;
    let parsed = value.to_str().and_then(|text| text.parse().ok());
    parsed.ok_or(FlagError::Value { flag, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Flags, FlagError> {
        Flags::parse(args.iter().map(OsString::from))
    }

    #[test]
    fn every_flag_is_read() {
        let args = ["--ignore-term", "--ignore-eof", "--no-init", "--init-delay", "20", "--name", "x"];
        let flags = parse(&args).unwrap();
        assert!(flags.ignore_term && flags.ignore_eof && flags.no_init);
        assert_eq!((flags.init_delay, flags.name.as_str()), (Duration::from_millis(20), "x"));
        assert_eq!(parse(&[]), Ok(Flags::default()));
    }

    #[test]
    fn a_wrong_flag_is_named() {
        assert_eq!(parse(&["--nmae"]), Err(FlagError::Unknown("--nmae".into())));
        assert_eq!(parse(&["--name"]), Err(FlagError::Missing("--name")));
        let value = "soon".into();
        assert_eq!(parse(&["--init-delay", "soon"]), Err(FlagError::Value { flag: "--init-delay", value }));
    }
}
