//! What the former daemon was busy with: said of each prompt and inbox entry once, before anybody asks (R184, R280).

use rusqlite::{Connection, TransactionBehavior};

use super::Kind;
use crate::id::SessionId;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Sessions with a prompt that the agent had: nobody knows what became of it.
    pub unknown: Vec<SessionId>,
    /// Prompts that waited: the agent never had them.
    pub not_started: usize,
    /// Inbox entries of which nothing was seen: they wait again.
    pub queued: usize,
    /// Inbox entries of which something was seen: they are the operator's.
    pub indeterminate: usize,
}

impl Repaired {
    /// Whether there was nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

const CUT_OFF: &str = "SELECT DISTINCT session.id FROM prompt JOIN session ON session.pk = prompt.session
    WHERE prompt.state = 'running' ORDER BY session.pk";
const UNKNOWN: &str = "UPDATE prompt SET state = 'unknown', outcome = 'daemon_died' WHERE state = 'running'";
const NOT_STARTED: &str =
    "UPDATE prompt SET state = 'not_started', outcome = 'daemon_died' WHERE state = 'waiting'";
const INDETERMINATE: &str = "UPDATE inbox SET state = 'indeterminate' WHERE state = 'running' AND EXISTS (
    SELECT 1 FROM frame WHERE frame.session = inbox.session AND frame.kind = ?1 AND frame.id > inbox.began)";
const QUEUED: &str = "UPDATE inbox SET state = 'queued' WHERE state = 'running'";

/// Says it. Writes nothing when the former daemon left nothing.
pub(super) fn repair(connection: &mut Connection) -> rusqlite::Result<Repaired> {
    let work = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let unknown = cut_off(&work)?;
    work.execute(UNKNOWN, [])?;
    let not_started = work.execute(NOT_STARTED, [])?;
    let indeterminate = work.execute(INDETERMINATE, [Kind::Peer.number()])?;
    let queued = work.execute(QUEUED, [])?;
    work.commit()?;
    Ok(Repaired { unknown, not_started, queued, indeterminate })
}

/// A session whose id was changed by hand is told of to whoever asks for it.
fn cut_off(connection: &Connection) -> rusqlite::Result<Vec<SessionId>> {
    let mut statement = connection.prepare(CUT_OFF)?;
    let ids = statement.query_map([], |row| row.get::<_, String>(0))?;
    let ids: Vec<String> = ids.collect::<Result<_, _>>()?;
    Ok(ids.iter().filter_map(|id| SessionId::parse(id)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{open, reader::PENDING};

    /// R282: what every start asks takes no longer with more sessions.
    #[test]
    fn what_every_start_asks_is_found_along_an_index() {
        let directory = tempfile::tempdir().unwrap();
        let opened = open(directory.path()).unwrap();
        for sql in [CUT_OFF, UNKNOWN, NOT_STARTED, INDETERMINATE, QUEUED, PENDING] {
            let mut plan = opened.connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let params = vec![0; plan.parameter_count()];
            let steps =
                plan.query_map(rusqlite::params_from_iter(params), |row| row.get::<_, String>(3)).unwrap();
            let steps: Vec<String> = steps.map(Result::unwrap).collect();
            assert!(!steps.iter().any(|step| step.starts_with("SCAN")), "{sql}: {steps:?}");
        }
    }
}
