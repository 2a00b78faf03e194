//! The words that the daemon and a shim exchange, one packet each. Pure.
//!
//! The daemon orders, the shim reports. A packet that is no word is `None`: the reader decides what that means.

use super::exit::Status;

/// No packet is longer.
pub(super) const PACKET_BYTES_MAX: usize = 512;
/// Processes named in one report; the rest is only known to exist.
const NAMED_MAX: usize = 16;

/// What the daemon tells a shim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Here are the agent's ends of its three pipes: fork, and wait.
    Begin,
    /// The record is on disk: run the program.
    Go,
    /// SIGTERM to the agent's group.
    Term,
    /// End everything at once.
    Kill,
}

impl Order {
    /// The packet.
    pub(super) fn packet(self) -> &'static [u8] {
        match self {
            Self::Begin => b"B",
            Self::Go => b"G",
            Self::Term => b"T",
            Self::Kill => b"K",
        }
    }

    /// Reads a packet.
    pub(super) fn parse(packet: &[u8]) -> Option<Self> {
        [Self::Begin, Self::Go, Self::Term, Self::Kill].into_iter().find(|order| order.packet() == packet)
    }
}

/// Where a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Going to the working directory.
    Cwd,
    /// Running the program.
    Run,
}

/// What a shim tells the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Report {
    /// The child is there and waits for `Go` before it becomes the program.
    Waiting(i32),
    /// The program runs.
    Running,
    /// It does not, and never will.
    Failed(Step, i32),
    /// The leader ended; `asked` when an order to end came first.
    Exited { status: Status, asked: bool },
    /// Nothing is left of the whole subtree.
    Gone,
    /// These would not die.
    Left(Vec<i32>),
}

impl Report {
    /// The packet.
    pub(super) fn packet(&self) -> String {
        match self {
            Self::Waiting(pid) => format!("W {pid}"),
            Self::Running => "P".to_owned(),
            Self::Failed(Step::Cwd, errno) => format!("E cwd {errno}"),
            Self::Failed(Step::Run, errno) => format!("E run {errno}"),
            Self::Exited { status, asked } => format!("X {} {}", status_words(*status), u8::from(*asked)),
            Self::Gone => "Z".to_owned(),
            Self::Left(pids) => {
                pids.iter().take(NAMED_MAX).fold("U".to_owned(), |text, pid| format!("{text} {pid}"))
            }
        }
    }

    /// Reads a packet.
    pub(super) fn parse(packet: &[u8]) -> Option<Self> {
        let words: Vec<&str> = str::from_utf8(packet).ok()?.split(' ').collect();
        Some(match words[..] {
            ["W", pid] => Self::Waiting(pid.parse().ok()?),
            ["P"] => Self::Running,
            ["E", "cwd", errno] => Self::Failed(Step::Cwd, errno.parse().ok()?),
            ["E", "run", errno] => Self::Failed(Step::Run, errno.parse().ok()?),
            ["X", how, number, asked] => Self::Exited { status: status(how, number)?, asked: asked == "1" },
            ["Z"] => Self::Gone,
            ["U", ref pids @ ..] => {
                Self::Left(pids.iter().map(|pid| pid.parse().ok()).collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }
}

fn status_words(status: Status) -> String {
    match status {
        Status::Code(code) => format!("code {code}"),
        Status::Signal(signal) => format!("signal {signal}"),
        Status::Unknown => "unknown 0".to_owned(),
    }
}

fn status(how: &str, number: &str) -> Option<Status> {
    let number = number.parse().ok()?;
    match how {
        "code" => Some(Status::Code(number)),
        "signal" => Some(Status::Signal(number)),
        "unknown" => Some(Status::Unknown),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_back_as_it_was_written() {
        for order in [Order::Begin, Order::Go, Order::Term, Order::Kill] {
            assert_eq!(Order::parse(order.packet()), Some(order));
        }
        let exited = |status, asked| Report::Exited { status, asked };
        for report in [
            Report::Waiting(7),
            Report::Running,
            Report::Failed(Step::Cwd, 2),
            Report::Failed(Step::Run, 13),
            exited(Status::Code(255), false),
            exited(Status::Signal(9), true),
            exited(Status::Unknown, true),
            Report::Gone,
            Report::Left(vec![]),
            Report::Left(vec![4_194_304; NAMED_MAX]),
        ] {
            assert!(report.packet().len() <= PACKET_BYTES_MAX);
            assert_eq!(Report::parse(report.packet().as_bytes()), Some(report));
        }
    }

    #[test]
    fn what_is_no_word_is_none() {
        for bad in ["", "W", "W x", "P 1", "X code 1", "X how 1 0", "U x", "\u{fffd}"] {
            assert_eq!(Report::parse(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(Order::parse(b"KK"), None);
    }
}
