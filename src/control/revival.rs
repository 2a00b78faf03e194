//! Bringing a saved session to life without a host, for what lies in its inbox (R182).

use std::time::Duration;

use tokio::sync::oneshot;

use super::{rpc::Refusal, service::Service};
use crate::{
    berth,
    id::{Address, SessionId},
    session::{Order, likeness},
    wire::patch::Object,
};

/// How long it is waited for; it comes to life all the same when that takes longer.
const REVIVE_MAX: Duration = Duration::from_secs(60);

impl Service {
    /// The order that revives a session, by what is known of it and what is configured now.
    pub(super) async fn revival(&self, session: &SessionId) -> Result<Box<Order>, Refusal> {
        let id = session.clone();
        let row = self.read(move |reader| reader.row(&id)).await?;
        let row = row.ok_or_else(|| Refusal::unknown_session(session.as_str()))?;
        let Some(agent) = self.config.agent(&row.agent) else {
            let why = format!("session {session} belongs to agent `{}`, which is not configured", row.agent);
            return Err(Refusal::internal(why));
        };
        let capabilities = Object::default();
        Ok(Box::new(Order {
            id: session.clone(),
            host: Address::Nobody,
            learnt_key: likeness(&agent, None, &capabilities).await,
            name: row.agent,
            agent,
            cwd: row.cwd,
            bridge_env: None,
            capabilities,
            authenticated: None,
            warm: None,
            held_back: None,
            resume: None,
            first: Vec::new(),
            opened: None,
        }))
    }

    /// Resolves when it lives.
    pub(super) async fn revive(&self, session: &SessionId) -> Result<(), Refusal> {
        let order = self.revival(session).await?;
        let (done, outcome) = oneshot::channel();
        tracing::info!(session = %session, agent = %order.name, "revived for its inbox");
        let _ = self.berths.cast(berth::Msg::Revive(order, done));
        match tokio::time::timeout(REVIVE_MAX, outcome).await {
            Ok(Ok(outcome)) => outcome.map_err(Refusal::internal),
            Ok(Err(_)) => Err(Refusal::internal("the order was lost with whoever had it; look again")),
            Err(_) => {
                let s = REVIVE_MAX.as_secs();
                Err(Refusal::internal(format!("not live after {s} s, and still starting")))
            }
        }
    }
}
