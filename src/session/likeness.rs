//! What the answer of an agent to `initialize` depends on, in one number (R14).

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::{config::Agent, wire::patch::Object};

/// Stands for program, arguments, environment and client capabilities. Asks the file system, so call it in a task.
pub async fn likeness(
    agent: &Agent,
    bridge_env: Option<&BTreeMap<String, String>>,
    capabilities: &Object,
) -> u64 {
    let changed = tokio::fs::metadata(&agent.command).await.and_then(|m| m.modified()).ok();
    let capabilities = serde_json::to_string(capabilities).unwrap_or_default();
    let env = (&agent.env, &agent.env_pass, bridge_env, &agent.path);
    let mut hasher = DefaultHasher::new();
    (&agent.command, changed, &agent.args, env, capabilities).hash(&mut hasher);
    hasher.finish()
}
