//! How a statement fails, and what that means for those who wait: one write, one commit, or the daemon (R274).

use std::path::Path;

use rusqlite::{Error, ErrorCode};

use super::StoreError;

/// Why a statement did not do what it should.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// What it was about is not as it should be; nothing else is hurt.
    #[error(transparent)]
    Refused(#[from] StoreError),
    /// SQLite could not go on.
    #[error(transparent)]
    Sqlite(#[from] Error),
}

impl Failure {
    /// For somebody who reads.
    pub(super) fn told(self, path: &Path) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Sqlite(error) => StoreError::Io { path: path.to_owned(), why: error.to_string() },
        }
    }

    /// Whether only the write is wrong in which it came, and what its sender hears then.
    pub(super) fn refusal(self, path: &Path) -> Result<StoreError, Error> {
        match self {
            Self::Refused(error) => Ok(error),
            Self::Sqlite(error) => match error.sqlite_error_code() {
                Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig) => {
                    Ok(Self::Sqlite(error).told(path))
                }
                // A value that was changed by hand is not what its column holds: only who needs it is hurt.
                None if is_of_a_value(&error) => Ok(Self::Sqlite(error).told(path)),
                _ => Err(error),
            },
        }
    }
}

fn is_of_a_value(error: &Error) -> bool {
    matches!(
        error,
        Error::IntegralValueOutOfRange(..)
            | Error::FromSqlConversionFailure(..)
            | Error::InvalidColumnType(..)
            | Error::ToSqlConversionFailure(..)
            | Error::Utf8Error(..)
    )
}

/// Why a commit did not come about. Nothing of it is kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Setback {
    /// No space is left.
    Full,
    /// Another program holds the file.
    Busy(String),
    /// Reading or writing failed: the store cannot be trusted from here on.
    Broken(String),
}

impl Setback {
    /// What that error means for the file at `path`.
    pub(super) fn of(error: &Error, path: &Path) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            // a file system that is full fails in other ways too, such as at the index of the WAL
            Some(ErrorCode::SystemIoFailure) if is_full(path) => Self::Full,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy(error.to_string()),
            _ => Self::Broken(error.to_string()),
        }
    }

    /// For the sender of a write of that session.
    pub(super) fn told(&self, session: &str, path: &Path) -> StoreError {
        let path = path.to_owned();
        match self {
            Self::Full => StoreError::Full { session: session.to_owned(), path },
            Self::Busy(why) | Self::Broken(why) => StoreError::Io { path, why: why.clone() },
        }
    }
}

/// Whether the file system of that file has less than a few pages left for us.
fn is_full(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|system| system.f_bavail * system.f_frsize < SPACE_BYTES_MIN)
}

const SPACE_BYTES_MIN: u64 = 64 << 10;
