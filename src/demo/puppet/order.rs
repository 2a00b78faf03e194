//! What a player can tell its puppet. Pure.

use std::str::FromStr;

/// Begins an order or a note.
pub(super) const MARK: u8 = 1;

/// One order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    /// `exit N`.
    Exit(i32),
    /// `stderr TEXT`: one line of it.
    Stderr(String),
    /// `close-stdout`.
    CloseStdout,
    /// `close-stdin`: nobody can write there any more.
    CloseStdin,
    /// `stop-reading`: stdin stays open and full.
    StopReading,
    /// `resume-reading`.
    ResumeReading,
    /// `sigstop`: stops this process.
    Sigstop,
    /// `spawn-sleep`: a child; noted as `spawned PID`.
    SpawnSleep,
    /// `spawn-setsid`: a child and its child in a session of its own; noted as `spawned PID PID`.
    SpawnSetsid,
    /// `spawn-orphan`: forked twice, so nobody's child; noted as `spawned PID`.
    SpawnOrphan,
    /// `flood N BYTES SESSION`: that many numbered updates.
    Flood { count: u64, bytes: usize, session: String },
}

impl FromStr for Order {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
        Ok(match verb {
            "exit" => Self::Exit(number(rest)?),
            "stderr" => Self::Stderr(rest.to_owned()),
            "close-stdout" => Self::CloseStdout,
            "close-stdin" => Self::CloseStdin,
            "stop-reading" => Self::StopReading,
            "resume-reading" => Self::ResumeReading,
            "sigstop" => Self::Sigstop,
            "spawn-sleep" => Self::SpawnSleep,
            "spawn-setsid" => Self::SpawnSetsid,
            "spawn-orphan" => Self::SpawnOrphan,
            "flood" => {
                let mut words = rest.splitn(3, ' ');
                let mut word = || words.next().ok_or(());
                Self::Flood { count: number(word()?)?, bytes: number(word()?)?, session: word()?.to_owned() }
            }
            _ => return Err(()),
        })
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, ()> {
    text.parse().map_err(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read() {
        assert_eq!("exit 3".parse(), Ok(Order::Exit(3)));
        assert_eq!("stderr a b".parse(), Ok(Order::Stderr("a b".into())));
        assert_eq!("flood 2 64 s 1".parse(), Ok(Order::Flood { count: 2, bytes: 64, session: "s 1".into() }));
        for wrong in ["", "exit", "exit x", "flood 2", "dance"] {
            assert_eq!(wrong.parse::<Order>(), Err(()), "{wrong:?}");
        }
    }
}
