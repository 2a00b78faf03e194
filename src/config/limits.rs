//! The ceilings an operator may move, with their ranges. Defaults stand in [`crate::limits`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits;

/// Ceilings and deadlines of the daemon. Counts and bytes are whole numbers; times are milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Sessions that may be live at once, 1 to 4096 (R61). Default: 32.
    pub sessions_max: usize,
    /// Host connections, 1 to 4096 (R256). Default: 64.
    pub hosts_max: usize,
    /// Requests one host may have open, 1 to 65536 (R256). Default: 256.
    pub host_requests_max: usize,
    /// Time a connection has for its first message, 100 to 600000 (R256). Default: 10000.
    pub first_message_ms: u64,
    /// Longest line on any wire, 65536 to 33554432 bytes (R9). Default: 33554432.
    pub line_bytes_max: usize,
    /// A write without progress for this long fails its wire, 100 to 600000 (R10, R108). Default: 30000.
    pub write_stall_ms: u64,
    /// Time a peer has to answer a cancel, 100 to 600000 (R250). Default: 5000.
    pub cancel_grace_ms: u64,
    /// A warm process nobody uses is ended after this, 100 to 600000 (R14). Default: 30000.
    pub warm_ms: u64,
    /// A session without a host and without work ends after this, 30000 to 3600000 (R61). Default: 300000.
    pub detached_idle_ms: u64,
    /// A permission request waits so long for somebody while no host is there, 1 to 86400 s (R140). Default: 300.
    pub permission_wait_s: u64,
    /// An idle process that can take its session up again is ended after this, 1 to 604800 s (R283). Default: 1800.
    pub hibernate_after_s: u64,
    /// Agent processes at once, 1 to 4096; idle ones make room (R283). Default: 4096.
    pub peers_max: usize,
    /// Memory of all agents with everything below them, in MiB, 1 to 16777216; idle ones make room (R283).
    /// Default: 16777216.
    pub peers_memory_max: u64,
    /// Bytes of a session's transcript before old output is made shorter, 1 MiB to 1 TiB (R289). Default: 1 GiB.
    pub session_bytes_max: u64,
}

impl Limits {
    /// Longest silence in a line so large that others wait for its memory.
    pub fn large_line_time(&self) -> Duration {
        Duration::from_millis(self.write_stall_ms.min(limits::LARGE_LINE_MS_MAX))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions_max: 32,
            hosts_max: 64,
            host_requests_max: 256,
            first_message_ms: 10_000,
            line_bytes_max: limits::LINE_BYTES_MAX,
            write_stall_ms: limits::WRITE_STALL_MS_MAX,
            cancel_grace_ms: limits::CANCEL_GRACE_MS,
            warm_ms: 30_000,
            detached_idle_ms: 300_000,
            permission_wait_s: 300,
            hibernate_after_s: 1_800,
            peers_max: 4_096,
            peers_memory_max: 1 << 24,
            session_bytes_max: 1 << 30,
        }
    }
}
