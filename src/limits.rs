//! Every ceiling of the house, with the relations that must hold between them asserted at compile time.
//!
//! These are the defaults and the hard bounds; what an operator may change is a key of [`crate::config::Limits`].
//! Sizes are bytes, times milliseconds, unless the name says otherwise.

/// One mebibyte.
pub const MIB: usize = 1 << 20;

/// Longest line accepted on any wire (R9); the limit of the official TypeScript SDK.
pub const LINE_BYTES_MAX: usize = 32 * MIB;
/// A buffer of the ends that block: the bridge and `run`.
pub const READ_BYTES: usize = 64 << 10;
/// How much a reader takes with one system call at least; a wire that fills it gets more.
pub const READ_BYTES_MIN: usize = 16 << 10;
/// How much a reader takes with one system call at most: what an agent's pipe holds.
pub const READ_BYTES_MAX: usize = 256 << 10;
/// Head and tail kept of a line that was too long (R9).
pub const OVERLONG_KEPT_BYTES: usize = 4 << 10;

/// Items a session may have on their way to its host, daemon's own notices included (R108).
pub const QUEUE_ITEMS_MAX: usize = 256;
/// Bytes of the same (R108).
pub const QUEUE_BYTES_MAX: usize = 8 * MIB;
/// Items that may wait for one end at all, those included that are always admitted: beyond it that end is deaf.
pub const QUEUE_ITEMS_LAST: usize = 16_384;
/// Answers that one host may leave unread before nothing more is read from it (R249, R256).
pub const HOST_ANSWERS_MAX: usize = 1_024;
/// Lines a peer may have on their way to the host (R110): below the queue, so that notices always fit.
pub const WINDOW_ITEMS: usize = 192;
/// Bytes of the same (R110).
pub const WINDOW_BYTES: usize = MIB;
/// Lines posted at once; half a window, so that reading and writing overlap.
pub const BATCH_ITEMS_MAX: usize = WINDOW_ITEMS / 2;
/// Pool that lines larger than a window are admitted through, shared by the whole daemon (R110).
pub const LARGE_POOL_BYTES: usize = 64 * MIB;
/// Bytes of one host connection that may be in the house at once (R256).
pub const HOST_BYTES_MAX: usize = 64 * MIB;

/// Longest JSON-RPC id that is taken; it has to be given back as it was written.
pub const ID_BYTES_MAX: usize = 1_024;
/// Time from one byte to the next in a line so large that others wait for its memory.
pub const LARGE_LINE_MS_MAX: u64 = 10_000;
/// A write without progress for this long fails its wire (R10, R108).
pub const WRITE_STALL_MS_MAX: u64 = 30_000;
/// Time a peer has for its own answer to a cancel before it is killed (R250).
pub const CANCEL_GRACE_MS: u64 = 5_000;
/// The same while the daemon stops (R250).
pub const STOP_CANCEL_GRACE_MS: u64 = 1_000;
/// Stderr kept of a peer (R236).
pub const STDERR_TAIL_BYTES: usize = 64 << 10;
/// Characters of stderr that failure texts show (R237).
pub const STDERR_SHOWN_CHARS: usize = 500;
/// Bound on reaping and on draining stderr, each (R214).
pub const REAP_MS_MAX: u64 = 1_000;
/// Clean-up budget of a stop (R209).
pub const STOP_MS_MAX: u64 = 4_000;
/// The store has until then, counted from the order to stop, to write what it was given (R209).
pub const STOP_FLUSH_MS_MAX: u64 = 4_700;
/// The daemon ends itself after this, whatever happens (R209).
pub const STOP_HARD_MS_MAX: u64 = 5_000;

/// Prompts that may wait behind a running turn (R72).
pub const WAITING_PROMPTS_MAX: usize = 20;
/// Tool calls remembered per session (R106).
pub const TOOL_CALLS_MAX: usize = 1_024;
/// Longest tool call id remembered (R106).
pub const TOOL_CALL_ID_BYTES_MAX: usize = 256;
/// Updates held for a session whose set-up answer is still out (R105).
pub const EARLY_ITEMS_MAX: usize = 1_024;
/// Bytes of the same (R105).
pub const EARLY_BYTES_MAX: usize = 8 * MIB;
/// Child sessions remembered per session (R276).
pub const CHILDREN_MAX: usize = 1_024;
/// Permission requests open per session (R140).
pub const OPEN_PERMISSIONS_MAX: usize = 16;
/// Requests of one peer open towards its host.
pub const OPEN_PEER_REQUESTS_MAX: usize = 256;
/// Bytes of a transcript that are read from the store at once.
pub const REPLAY_PAGE_BYTES: usize = MIB;
/// Bytes of a transcript that a blank process is given as its context (R31).
pub const CONTEXT_BYTES_MAX: usize = 256 << 10;
/// Sessions on one page of a list (R45).
pub const LIST_PAGE: usize = 50;
/// Sessions on one page of an operator's list at most.
pub const LIST_PAGE_MAX: usize = 1_000;
/// Rows that a subscriber of events may be behind (R258).
pub const EVENTS_BEHIND_ROWS_MAX: u64 = 4_096;
/// Bytes of the same.
pub const EVENTS_BEHIND_BYTES_MAX: u64 = 8 << 20;
/// Streams of events on one connection.
pub const SUBSCRIPTIONS_MAX: usize = 8;
/// Longest piece of an export.
pub const EXPORT_PIECE_BYTES: usize = 256 << 10;
/// Messages of the user that may wait in an inbox (R189).
pub const INBOX_USER_ENTRIES_MAX: usize = 20;
/// Messages of everybody else that may wait in an inbox (R189).
pub const INBOX_OTHER_ENTRIES_MAX: usize = 100;
/// Text of either of them (R189).
pub const INBOX_SHARE_BYTES_MAX: usize = 7 * MIB;
/// Text that may wait in an inbox in all (R186).
pub const INBOX_BYTES_MAX: usize = 8 * MIB;
/// What a session may hold before it is made shorter (R289).
pub const SESSION_BYTES_MAX: u64 = 1 << 30;
/// Writes that the store commits together (R273).
pub const COMMIT_WRITES_MAX: usize = 4_096;
/// Bytes of lines with which no further write joins a commit.
pub const COMMIT_BYTES_MAX: usize = 16 * MIB;
/// What is committed is on the disk after this, whoever waits for it (R273).
pub const SYNC_MS_MAX: u64 = 1_000;
/// Pause before what found no space is tried again (R274).
pub const SPACE_RETRY_MS: u64 = 1_000;
/// Connections that read the store at once.
pub const STORE_READERS_MAX: usize = 4;
/// How long the store waits for a lock that another program holds.
pub const STORE_LOCK_MS_MAX: u64 = 5_000;

/// Longest path of a Unix socket on Linux (R255).
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Bytes of old turns that are made shorter at once (R289).
pub const SHRINK_PIECE_BYTES: usize = 4 * MIB;
/// A joined chunk of a replayed message (R37, R281).
pub const REPLAY_JOINED_BYTES_MAX: usize = 64 << 10;
/// A message in one piece, when it came in one: longer ones are replayed in several (R281).
pub const REPLAY_PIECE_BYTES_MAX: usize = MIB - (8 << 10);
/// Text of a tool call that is replayed whole; a longer one by its head and tail (R281).
pub const REPLAY_TEXT_BYTES_MAX: usize = 64 << 10;
/// Diffs, images and input of a tool call that are replayed; beyond it a note stands for them (R281).
pub const REPLAY_WHOLE_BYTES_MAX: usize = MIB;
/// What is known of all open tool calls of a history that is read; beyond it the largest is shown early (R281).
pub const REPLAY_CALLS_BYTES_MAX: usize = 8 * MIB;
/// Terminals whose output is remembered while a history is read (R37).
pub const REPLAY_TERMINALS_MAX: usize = 64;
/// Head and tail kept of the output of each.
pub const REPLAY_TERMINAL_BYTES_MAX: usize = 64 << 10;

/// Restarts of one program in one directory before it is held back (R227).
pub const RESTARTS_MAX: usize = 3;
/// The window of the same.
pub const RESTARTS_WINDOW_MS: u64 = 60_000;

const _: () =
    assert!(WINDOW_ITEMS < QUEUE_ITEMS_MAX, "the daemon's own notices must fit behind a full window");
const _: () =
    assert!(WINDOW_BYTES < QUEUE_BYTES_MAX, "the daemon's own notices must fit behind a full window");
const _: () = assert!(QUEUE_ITEMS_MAX + WINDOW_ITEMS + OPEN_PEER_REQUESTS_MAX < QUEUE_ITEMS_LAST);
const _: () = assert!(LINE_BYTES_MAX <= LARGE_POOL_BYTES, "the longest line must fit its budget");
const _: () = assert!(LINE_BYTES_MAX < HOST_BYTES_MAX, "one line must not take a host's whole budget");
const _: () = assert!(REPLAY_JOINED_BYTES_MAX <= REPLAY_PIECE_BYTES_MAX && REPLAY_PIECE_BYTES_MAX < MIB);
const _: () = assert!(REPLAY_TEXT_BYTES_MAX + REPLAY_WHOLE_BYTES_MAX < REPLAY_CALLS_BYTES_MAX);
const _: () = assert!(CONTEXT_BYTES_MAX < LINE_BYTES_MAX, "the context must fit the prompt that carries it");
const _: () = assert!(STOP_CANCEL_GRACE_MS < STOP_MS_MAX && STOP_MS_MAX < STOP_FLUSH_MS_MAX);
const _: () = assert!(STOP_FLUSH_MS_MAX < STOP_HARD_MS_MAX);
const _: () = assert!(BATCH_ITEMS_MAX * 2 <= WINDOW_ITEMS);
const _: () = assert!(INBOX_SHARE_BYTES_MAX < INBOX_BYTES_MAX, "no share must fill the whole inbox");
const _: () = assert!(READ_BYTES_MAX <= WINDOW_BYTES, "what one read brings must fit a window");
