//! From a file to a [`Config`], or to everything that is wrong with it (R266).
//!
//! A file that does not exist says nothing, so the defaults hold; any other file that cannot be read is an error.

use std::{fmt, io, path::Path, path::PathBuf};

use toml::de::DeTable;

use super::{
    Config,
    check::check,
    finding::{Finding, Findings},
};

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is there and cannot be read.
    #[error("read the configuration {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file says something that is not allowed.
    #[error("use the configuration: {0}")]
    Invalid(Invalid),
}

/// What is wrong with a file: at least one finding, in the order of the file.
#[derive(Debug)]
pub struct Invalid(pub Vec<Finding>);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{finding}")?;
        }
        Ok(())
    }
}

impl ConfigError {
    /// What is wrong in the file; empty when it could not be read.
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Read { .. } => &[],
            Self::Invalid(invalid) => &invalid.0,
        }
    }
}

impl Config {
    /// What the file says, and the defaults for what it does not. A missing file says nothing.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(ConfigError::Read { file: path.to_owned(), source }),
        };
        match std::str::from_utf8(&bytes) {
            Ok(text) => Self::parse(path, text),
            Err(error) => Err(no_utf8(path, &bytes, error.valid_up_to())),
        }
    }

    /// The same from a text that was read from `file`.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        // Some editors begin a file with a byte order mark; TOML knows none.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let invalid = |findings: Findings| ConfigError::Invalid(Invalid(findings.of_file(file, text)));
        let root = DeTable::parse(text).map_err(|error| invalid(malformed(text, &error)))?;
        let findings = check(root.get_ref());
        if !findings.is_empty() {
            return Err(invalid(findings));
        }
        toml::from_str(text).map_err(|error| invalid(malformed(text, &error)))
    }
}

/// What the parser says, with the key that stands at that place.
fn malformed(text: &str, error: &toml::de::Error) -> Findings {
    let span = error.span().unwrap_or_default();
    let said = text.get(span.clone()).unwrap_or_default().lines().next().unwrap_or_default();
    let found = if said.is_empty() { String::new() } else { format!(" (at `{said}`)") };
    let mut findings = Findings::default();
    findings.add(span, "", format!("{}{found}", error.message().replace('\n', "; ")));
    findings
}

fn no_utf8(file: &Path, bytes: &[u8], valid: usize) -> ConfigError {
    let text = String::from_utf8_lossy(&bytes[..valid]);
    let mut findings = Findings::default();
    findings.add(valid..valid, "", format!("the byte 0x{:02x} is no UTF-8", bytes[valid]));
    ConfigError::Invalid(Invalid(findings.of_file(file, &text)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::config::{Agent, LogLevel};

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(Path::new("c.toml"), text)
    }

    fn refusal(text: &str) -> String {
        parse(text).expect_err(text).to_string()
    }

    #[test]
    fn an_empty_or_missing_file_says_nothing() {
        assert_eq!(parse("").unwrap(), Config::default());
        assert_eq!(parse("\u{feff}").unwrap(), Config::default());
        let nowhere = tempfile::tempdir().unwrap().path().join("config.toml");
        assert_eq!(Config::load(&nowhere).unwrap(), Config::default());
    }

    #[test]
    fn a_mark_and_dos_line_ends_change_nothing() {
        let config = parse("\u{feff}log_level = \"debug\"\r\n[limits]\r\nsessions_max = 7\r\n").unwrap();
        assert_eq!((config.log_level, config.limits.sessions_max), (LogLevel::Debug, 7));
        assert!(refusal("\u{feff}\r\nlog = 1\r\n").contains("c.toml:2:1: log: no such key"));
    }

    #[test]
    fn an_agent_needs_a_program_only() {
        let config =
            parse("default_agent = 'a.b'\n[agent.'a.b']\ncommand = 'x'\nenv = { K = 'v' }\n").unwrap();
        let agent = config.agent("a.b").unwrap();
        assert_eq!(agent.command, Path::new("x"));
        assert_eq!((agent.env["K"].as_str(), agent.handshake_s, agent.path), ("v", 30, None));
        assert_eq!(config.agent("demo"), Some(Agent::demo()));
    }

    /// R266: a misspelt key is an error that names its place and the key that was meant.
    #[test]
    fn a_misspelt_key_is_named_with_the_one_that_was_meant() {
        let said = refusal("\n[agent.claude]\ncommand = 'c'\n  comand = 'x'\n");
        assert!(
            said.contains("c.toml:4:3: agent.claude.comand: no such key; did you mean `command`?"),
            "{said}"
        );
        assert!(said.contains("`env_pass`"), "{said}");
        let said = refusal("perission = 1");
        assert!(said.contains("c.toml:1:1: perission: no such key (allowed: `default_agent`"), "{said}");
        let said = refusal("[limits]\ncommand = 'x'\n");
        assert!(said.contains("limits.command: no such key here; it stands in [agent.NAME]"), "{said}");
    }

    /// R61, R22: what is out of its range or no whole number names the setting and the range.
    #[test]
    fn a_number_out_of_its_range_names_the_setting() {
        for (value, found) in
            [("0", "0"), ("4097", "4097"), ("1.5", "the number 1.5"), ("'x'", "the text \"x\"")]
        {
            let said = refusal(&format!("[limits]\nsessions_max = {value}"));
            let expected = "limits.sessions_max: expected a whole number from 1 to 4096 (sessions), found ";
            assert!(said.contains(&format!("c.toml:2:16: {expected}{found}")), "{said}");
        }
        for value in ["-1", "0", "601", "99999999999999999999999"] {
            let said = refusal(&format!("[agent.a]\ncommand = 'a'\nhandshake_s = {value}"));
            assert!(
                said.contains("agent.a.handshake_s: expected a whole number from 1 to 600 (seconds)"),
                "{said}"
            );
        }
        let edges =
            "[limits]\nsessions_max = 0x1000\n[agent.a]\ncommand = 'a'\nhandshake_s = 600\nstop_grace_ms = 0";
        assert_eq!(parse(edges).unwrap().limits.sessions_max, 4_096);
    }

    #[test]
    fn every_finding_is_told_in_the_order_of_the_file() {
        let error = parse("nested = 1\nlog_level = 'inf'\n[limits]\nwarm_ms = 1\n").unwrap_err();
        let keys: Vec<_> = error.findings().iter().map(|f| (f.line, f.key.as_str())).collect();
        assert_eq!(keys, [(1, "nested"), (2, "log_level"), (4, "limits.warm_ms")]);
        assert!(error.to_string().contains("did you mean `info`?"));
    }

    #[test]
    fn a_key_that_stands_twice_is_refused() {
        let said = refusal("log_level = 'info'\nlog_level = 'warn'\n");
        assert!(said.contains("c.toml:2:1: duplicate key (at `log_level`)"), "{said}");
        assert!(refusal("[limits]\n[limits]\n").contains("c.toml:2:"));
    }

    #[test]
    fn what_is_no_toml_names_its_place() {
        assert!(refusal("a = \n").contains("c.toml:1:5: "));
        assert!(refusal("[limits\n").contains("c.toml:1:"));
    }

    #[test]
    fn an_agent_that_cannot_be_started_is_refused() {
        for (line, said) in [
            (
                "command = ''",
                "agent.a.command: expected the name of a program or an absolute path, found an empty",
            ),
            ("command = './x'", "agent.a.command: expected"),
            ("command = '~/x'", "agent.a.command: expected"),
            ("command = '$HOME/x'", "agent.a.command: expected"),
            ("command = \"a\\u0000\"", "without NUL"),
            ("args = []", "agent.a.command: is missing"),
            ("command = 'a'\nargs = 'x'", "agent.a.args: expected a list of texts, found the text \"x\""),
            ("command = 'a'\nargs = [1]", "agent.a.args[0]: expected a text, found the number 1"),
            ("command = 'a'\nenv_pass = ['A=']", "agent.a.env_pass[0]: \"A=\" cannot be the name"),
            ("command = 'a'\nenv = { '' = 'v' }", "cannot be the name"),
            ("command = 'a'\nenv = { A = 1 }", "agent.a.env.A: expected a text"),
        ] {
            let found = refusal(&format!("[agent.a]\n{line}\n"));
            assert!(found.contains(said), "{line}: {found}");
        }
        assert!(
            refusal("[agent.'a b']\ncommand = 'x'")
                .contains("agent.\"a b\": the name of an agent is made of")
        );
        assert!(refusal("[agent]\ncommand = 'x'").contains("agent.command: expected a table of its own"));
        assert!(
            refusal("agent = 1").contains("agent: expected tables named [agent.NAME], found the number 1")
        );
    }

    #[test]
    fn the_default_agent_must_exist() {
        let said = refusal("default_agent = 'claud'\n[agent.claude]\ncommand = 'x'\n");
        assert!(
            said.contains("c.toml:1:17: default_agent: there is no agent \"claud\"; did you mean `claude`?"),
            "{said}"
        );
        assert!(parse("default_agent = 'demo'").is_ok());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let said = Config::load(dir.path()).unwrap_err().to_string();
        assert!(said.starts_with("read the configuration /"), "{said}");

        let file = dir.path().join("config.toml");
        std::fs::write(&file, b"a = 1\nb = \"\xff\"\n").unwrap();
        let said = Config::load(&file).unwrap_err().to_string();
        assert!(said.contains("config.toml:2:6: the byte 0xff is no UTF-8"), "{said}");

        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o000)).unwrap();
        // Root reads what nobody may read.
        if !rustix::process::geteuid().is_root() {
            assert!(Config::load(&file).unwrap_err().to_string().contains("ermission denied"));
        }
    }
}
