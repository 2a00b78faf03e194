//! acpvisor: a daemon that supervises coding agents. This page is the map of the house: what stands where, and why.
//!
//! # Plan
//!
//! ```text
//!                     +------------------ the daemon ------------------+
//!  editor - bridge -> | HOST  ->  SESSION  ->  PEER  | -> stdin, stdout of an agent
//!                     | egress    berth, turn  egress, shim            |
//!                     +------------------------------------------------+
//!
//!  host line -> ingress -> Host -> Session -> Peer -> egress  -> peer line
//!  host line <- egress  <- Host <- Session <- Peer <- ingress <- peer line
//! ```
//!
//! A palindrome: the two ends are twins, the session stands in the middle, and it is the parent of its peer. To a host
//! the daemon is an agent, to a peer it is a client. One type travels ([`wire::Envelope`]: a frame and what it asks for or
//! answers; a [`wire::Letter`] carries some of them with the credit they were lent and the address answers go to), one
//! table finds the way ([`directory::Directory`]), one verb moves it (`post`).
//!
//! # Rooms
//!
//! | room | what it is |
//! |---|---|
//! | [`wire`] | lines, frames (shared bytes with offsets), ids spliced into old bytes, the ledger of one wire, credit |
//! | [`ingress`] | the way in: reads what is there, parses, borrows credit, hands over one batch |
//! | [`egress`] | the way out of one descriptor: an actor with a queue of lanes, a pump that waits for the descriptor |
//! | [`host`] | one connection of an editor: its ids, its sessions, its lanes; the listener of `host.sock` |
//! | [`session`] | one conversation: turn, open requests of both sides, set-up, end |
//! | [`peer`] | one process behind a session: start, handshake, lines, death |
//! | [`berth`] | one place per session id where open, take-over and end follow one another; what agents said of themselves |
//! | [`residency`] | the bounded number of live sessions: reserve, commit, or drop |
//! | [`store`] | what outlives its actors, in one SQLite file: one writer thread with group commit, readers beside it |
//! | [`history`] | what a transcript means: updates for a host that loads it, context for a blank agent, exports |
//! | [`policy`], [`scrub`] | who decides what an agent wants to do; what of its words is not stored |
//! | [`process`] | the shim that stands over each agent, its environment, the kill ladder, records for the next start |
//! | [`control`] | the operator's side over `control.sock`: reads the cards that actors publish and the store behind its writer, tells what happens, passes orders on as words |
//! | [`directory`] | from an address to a mailbox, and the cards; the only file that touches the shared map |
//! | [`root`], [`daemon`] | the tree: start order, restart verdicts, stop order; the process around it: signals, runtime, exit code |
//! | [`config`], [`limits`] | every knob with default, unit and range; every ceiling, with their relations asserted when compiled |
//! | [`socket`], [`log`] | the claim on directories, locks and sockets; the log that makes no actor wait |
//! | [`supervisor`], [`tomb`], [`id`], [`fault`] | OTP's words as plain facts; "really gone"; names of things; panics on demand in debug builds |
//! | [`event`] | frames of a peer as the events of a run |
//! | [`cli`], [`bridge`], [`start`], [`hello`] | what people type, one file a verb; what an editor starts; how a daemon comes up; the first line of a connection |
//! | [`demo`] | the scripted agent in the binary, and the puppet that tests speak through |
//!
//! An actor's room has the same furniture everywhere: `mod.rs` (nameplate), `actor.rs` (mailbox), and pure files that hold
//! the thinking.
//!
//! # Floors
//!
//! | floor | rooms | imports |
//! |---|---|---|
//! | 0 | id, limits, mailbox | nothing of the house |
//! | 1 | wire, config, supervisor, log, event, scrub, tomb, fault -> hello, policy | floor 0 |
//! | 2 | ingress, process, directory, socket -> store -> history | 0, 1, and what is left of it |
//! | 3 | egress, residency -> peer -> session -> berth -> host, control | 0 to 2, and what is left of it |
//! | 4 | root -> daemon | 0 to 3 |
//! | door | start -> bridge, demo -> cli -> main | 0, 1 and what is left of it; the verb `daemon` opens the house |
//!
//! Messages go both ways, imports one way: a child speaks upwards through an address or through a reference derived from
//! its parent's mailbox that takes the child's own event type. Host and peer never see each other. `tests/it/tidy.rs`
//! reads the imports and holds this table against them; it also checks lengths, docs, names, and that pure files know
//! neither the runtime nor a clock.
//!
//! # The tree of actors
//!
//! ```text
//! root
//!   store, residency        their loss is the daemon's end: exit 111, and the service manager starts everything anew
//!   berths                  the same; find or make the berth of an id, remember what agents answered and how they failed
//!     berth/<id>            until nothing is left to do there
//!       session/<id>        one owner at a time
//!         peer/<id>.<n>     the n-th process behind it; gone only when everything below it is proved gone
//!           egress          towards its stdin
//!   listener/host           started again, three times in a minute
//!     host/<n>              a connection cannot be restarted
//!       egress              towards its socket
//!   listener/control        as the other
//!     operator/<n>
//! ```
//!
//! An egress is the child of the end that owns the descriptor. Start: store, residency, berths, then the listeners. Stop:
//! the listeners let nobody in, sessions end, connections write what is left and close, root stops; 4 s in all, and a
//! thread ends the process after 5 s. What ractor makes us respect:
//!
//! - Mailboxes are unbounded, so what they hold is bounded by what is *lent*: credit is taken before a line is posted and
//!   travels with it. Lines are cast in batches, one per read.
//! - `stop` waits for the running handler and throws the queue away: so no handler waits for a descriptor, a process or
//!   another actor's answer. Pumps and tasks wait, and cast what came of it.
//! - A parent that ends kills its children without their `post_stop`; the default supervision handler ends a parent with
//!   any child. Every supervisor writes its own, and what must happen at an end hangs on a `Drop`: the slot, the listing
//!   in the directory, the process itself.
//! - `wait` may return before a state is dropped. "Really gone" is a [`tomb`], the last field of the state.
//! - Messages of a dead actor vanish, and a death overtakes what was sent before it: a peer says that it is down with a
//!   message of its own and ends after it; a session's end is told to the host by its berth.
//!
//! # How a line travels
//!
//! 1. [`ingress`] waits until its budget has room, takes what the descriptor has (one system call, many lines), splits it
//!    at LF under the ceiling and finds in each line the few spans that routing needs. It borrows credit for as many lines
//!    as fit and casts them to its end as one batch. Order within a batch is the order of the wire.
//! 2. The end (host or peer) exchanges JSON-RPC ids for tokens in the ledger of its wire ([`wire::pending`]): ids begin and
//!    end here. What it can answer itself it answers; the rest becomes envelopes, posted to the session.
//! 3. The session asks its route who serves a request, lets turn, tools and ledger note what passes, answers what must not
//!    pass, and sends the rest to the other end: to its peer as a message of its child, to the host by `post`. A response
//!    carries no session id; the ledger knows its way.
//! 4. The other end splices its wire's ids and session ids into the old bytes ([`wire::outgoing`]) and offers them to its
//!    egress with their credit. What the descriptor takes at once is written at once, with one vectored call; for the rest
//!    the pump waits. What is written drops its credit, which lets step 1 read on.
//!
//! Nothing is parsed and printed again. Lines of one session leave in the order they came, answers behind the updates
//! before them; lanes of different sessions take turns.
//!
//! The two directions differ, because relays that block on both sides deadlock. Towards the host a peer's lines are lent
//! by a window smaller than the host's queue: a slow host stops that peer's reading and nobody else's, and while it does
//! the clocks of the other direction stand still ([`ingress::Held`]). Towards the peer nobody waits: the queue is bounded,
//! a request beyond it is refused, answers and cancels always fit. A line larger than its window is admitted alone,
//! through a pool that the whole daemon shares.
//!
//! # How a session comes about and ends
//!
//! A host's `initialize` is answered from memory when the same program, arguments, environment and client capabilities
//! were seen before; else a session is made for it, whose process is *warm*: it shook hands and holds no session yet.
//! `session/new` in the same directory uses it; unused it ends. `session/new` and `session/resume` go to the berth of
//! their id, which reserves a slot, makes the session actor and hands it the request. A new owner of an id begins when the
//! old one's tomb is closed. A session outlives its process: the next prompt starts another one and takes the session up
//! again in the best way that agent offers: resume, load, or the transcript before its first prompt. When its host is
//! lost it ends, or goes on detached (`on_host_loss`); in the store it stays until it is deleted.
//!
//! What is on record comes first: a prompt before the agent hears of it, its end before the host does, a setting before
//! it is told. Whoever waits for that waits in the session's `outbox` or under a ticket of its `record`; no actor waits.
//! A host that loads a session is shown what the transcript means ([`history`]) up to a row, its answer, then the open
//! questions and everything after that row.
//!
//! Every end takes the same steps, in `session/ending.rs`: nothing more is let in, what runs is cancelled, its answers
//! leave, the process and everything below it end, the slot is free. A second order only shortens the times.
//!
//! # Laws
//!
//! 1. One actor owns a state; others post, or read a card that it published.
//! 2. No actor awaits a descriptor, a process or another actor. Pumps and tasks do.
//! 3. `handle` is one `match`, one line a message, to a named method. Decisions are pure functions that return an enum
//!    that must be used; the actor performs it.
//! 4. Pure files know no clock: time comes in as an argument.
//! 5. Every request is answered exactly once: after a peer's death, a host's loss, a cancel and a deadline too. Order
//!    within a session is kept.
//! 6. Every byte in the house is lent by a budget and returned. The longest line fits its budget.
//! 7. A JSON-RPC id never leaves its wire. A session id is the daemon's own everywhere inside.
//! 8. Every wait has a deadline, every queue a limit, every loop an end or a reason.
//! 9. What is unknown passes on; what would be misread is refused.
//! 10. What a peer says is data: forwarded, counted, bounded; never trusted, never logged above trace.
//! 11. Refusal, exit and crash take three paths: an answer; `stop` with a reason; `Err` or a panic to the supervisor.
//! 12. Nothing survives the daemon that nobody owns.
//!
//! # Glossary
//!
//! | word | meaning |
//! |---|---|
//! | host | the ACP client at the other end of a connection: an editor, `acpvisor run`, any program |
//! | peer | one running agent process; an *agent* is a program as configured |
//! | session, turn | one conversation under the daemon's own id; one prompt and its answer |
//! | frame | one line, parsed once: its bytes and where its ids lie |
//! | envelope, letter, word | a frame with its meaning to the receiver; a batch of them with credit and sender; what actors say beside the protocol |
//! | token | names one open request to the actor that minted it |
//! | ledger | the open requests of a wire or of a session |
//! | credit, budget, window | memory that was lent; who lends it; the budget of one peer towards its host |
//! | lane, parcel | the queue of one session in an egress; lines that leave together |
//! | berth, slot, residency | where what happens to one id happens in order; the right to live; who gives it |
//! | warm, learnt | a process that holds no session yet; what agents answered to `initialize` |
//! | shim | this binary started again between the daemon and one agent, so that a whole subtree ends |
//! | card | what an actor publishes about itself for `status`, `tree` and `ls` |
//! | tomb, grave | the last thing that a state drops; where others wait for it |

pub mod berth;
pub mod bridge;
pub mod cli;
pub mod config;
pub mod control;
pub mod daemon;
pub mod demo;
pub mod directory;
pub mod egress;
pub mod event;
pub mod fault;
pub mod hello;
pub mod history;
pub mod host;
pub mod id;
pub mod ingress;
pub mod limits;
pub mod log;
mod mailbox;
pub mod peer;
pub mod policy;
pub mod process;
pub mod residency;
pub mod root;
pub mod scrub;
pub mod session;
pub mod socket;
pub mod start;
pub mod store;
pub mod supervisor;
pub mod tomb;
pub mod wire;
