//! The scripted peer: the test's end of every agent process that the daemon starts.
//!
//! The process is a puppet (`demo-agent --puppet`): what it reads arrives here, what is sent here it says.
//! Like the host it reads strictly and keeps everything in arrival order.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, BufRead, BufReader, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    line,
    process::{self, PATIENCE, wait_until},
};

const MARK: u8 = 1;

/// What a process says about itself before anything else.
#[derive(Debug, Clone, Deserialize)]
pub struct Hello {
    pub pid: u32,
    pub ppid: u32,
    pub pgid: u32,
    pub cwd: String,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
}

/// How processes answer the handshake by themselves.
#[derive(Clone)]
struct Manners {
    initialize: Value,
    session: Option<Value>,
}

/// All processes of one agent.
pub struct Puppets {
    connected: Receiver<Peer>,
    waiting: Vec<Peer>,
    manners: Arc<Mutex<Option<Manners>>>,
}

impl Puppets {
    /// Waits for processes at that socket.
    pub fn listen(socket: &Path) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        let manners = Arc::new(Mutex::new(None));
        let (sender, connected) = channel();
        let shared = manners.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A process that was killed before it said hello never existed for the test.
                if let Some(peer) = Peer::greet(stream, shared.clone())
                    && sender.send(peer).is_err()
                {
                    return;
                }
            }
        });
        Self { connected, waiting: Vec::new(), manners }
    }

    /// From now on every process answers `initialize`, `session/new`, `session/load`, `session/resume` and
    /// `session/close` itself, with no capabilities and with session ids of its own.
    pub fn willing(self) -> Self {
        let initialize = json!({
            "protocolVersion": 1,
            "agentCapabilities": {"loadSession": false},
            "agentInfo": {"name": "puppet", "version": "1"},
            "authMethods": [],
        });
        self.answer_with(initialize, json!({}))
    }

    /// The same with that answer to `initialize` and those members in the answers that open a session.
    pub fn answer_with(self, initialize: Value, session: Value) -> Self {
        *self.manners.lock().unwrap() = Some(Manners { initialize, session: Some(session) });
        self
    }

    /// From now on every process answers `initialize` so, and leaves everything else to the test. So do those that are
    /// there already.
    pub fn introduce(&self, initialize: Value) {
        *self.manners.lock().unwrap() = Some(Manners { initialize, session: None });
    }

    /// The next process that started.
    pub fn next(&mut self) -> Peer {
        if !self.waiting.is_empty() {
            return self.waiting.remove(0);
        }
        self.connected.recv_timeout(PATIENCE).expect("no process was started")
    }

    /// The next process that was given a session. Those that were not yet stay for later.
    pub fn serving(&mut self) -> Peer {
        let mut at = None;
        wait_until("a process is given a session", PATIENCE, || {
            self.waiting.extend(self.connected.try_iter());
            at = self.waiting.iter().position(|peer| peer.has_session());
            at.is_some()
        });
        self.waiting.remove(at.expect("waited for"))
    }

    /// The process that got such a request. The others stay for later.
    pub fn that_got(&mut self, method: &str) -> Peer {
        let mut at = None;
        wait_until(&format!("a process gets {method}"), PATIENCE, || {
            self.waiting.extend(self.connected.try_iter());
            at = self.waiting.iter_mut().position(|peer| peer.has_got(method));
            at.is_some()
        });
        self.waiting.remove(at.expect("waited for"))
    }

    /// How many processes started that the test did not take.
    pub fn untaken(&mut self) -> usize {
        self.waiting.extend(self.connected.try_iter());
        self.waiting.len()
    }
}

enum Arrival {
    Line(Vec<u8>),
    Note(String),
}

/// One agent process.
pub struct Peer {
    /// What it said about itself.
    pub hello: Hello,
    write: Arc<Mutex<UnixStream>>,
    arrivals: Receiver<Arrival>,
    messages: VecDeque<Value>,
    notes: VecDeque<String>,
    raw: Vec<Vec<u8>>,
    session: Arc<Mutex<Option<String>>>,
    next_id: u64,
}

impl Peer {
    fn greet(stream: UnixStream, manners: Arc<Mutex<Option<Manners>>>) -> Option<Self> {
        stream.set_write_timeout(Some(3 * PATIENCE)).ok()?;
        let write = Arc::new(Mutex::new(stream.try_clone().ok()?));
        let mut from = BufReader::with_capacity(64 << 10, stream);
        let hello: Hello = serde_json::from_slice(&line::read(&mut from)).ok()?;
        let (sender, arrivals) = channel();
        let session = Arc::new(Mutex::new(None));
        let desk = Desk { write: write.clone(), session: session.clone(), pid: hello.pid, manners };
        thread::spawn(move || desk.read(from, &sender));
        let (messages, notes, raw) = (VecDeque::new(), VecDeque::new(), Vec::new());
        Some(Self { hello, write, arrivals, messages, notes, raw, session, next_id: 100 })
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.hello.pid
    }

    /// Id of the session as this process knows it.
    pub fn session(&self) -> String {
        self.session.lock().unwrap().clone().expect("the process was given no session")
    }

    fn has_got(&mut self, method: &str) -> bool {
        let unread = self.unread();
        let got = unread.iter().any(|m| m["method"] == method);
        self.messages.extend(unread);
        got
    }

    fn has_session(&self) -> bool {
        self.session.lock().unwrap().is_some()
    }

    /// Answers the two requests of the handshake by hand; returns them.
    pub fn handshake(&mut self, capabilities: Value) -> (Value, Value) {
        let initialize = self.expect("initialize");
        let result = json!({"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": []});
        self.reply(&initialize, result);
        (initialize, self.take_session())
    }

    /// Answers `session/new` by hand; returns it.
    pub fn take_session(&mut self) -> Value {
        let new = self.expect("session/new");
        let id = format!("puppet-{}", self.pid());
        *self.session.lock().unwrap() = Some(id.clone());
        self.reply(&new, json!({"sessionId": id}));
        new
    }

    /// The oldest request or notification of that method that nobody took yet.
    pub fn expect(&mut self, method: &str) -> Value {
        self.take(method, |m| m["method"] == method)
    }

    /// Waits for the answer to this peer's own request.
    pub fn answer(&mut self, id: &Value) -> Value {
        let what = format!("the answer to {id}");
        self.take(&what, |m| m.get("method").is_none() && m.get("id") == Some(id))
    }

    /// The oldest message that fits and that nobody took yet; the others keep their places.
    pub fn take(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.messages.iter().position(&fits) {
            return self.messages.remove(at).expect("just found there");
        }
        let end = Instant::now() + PATIENCE;
        loop {
            assert!(self.arrive(end), "the peer did not get {what}; unread: {:#?}", self.messages);
            if self.messages.back().is_some_and(&fits) {
                return self.messages.pop_back().expect("just seen there");
            }
        }
    }

    /// Everything that arrived and that nobody took, oldest first.
    pub fn unread(&mut self) -> Vec<Value> {
        while self.arrive(Instant::now()) {}
        self.messages.drain(..).collect()
    }

    /// Every line that arrived so far, as bytes without the line feed.
    pub fn raw_lines(&mut self) -> &[Vec<u8>] {
        while self.arrive(Instant::now()) {}
        &self.raw
    }

    /// Asks whether a command may run; returns the id of the request.
    pub fn ask_permission(&mut self, tool_call: &str, command: &str) -> Value {
        self.next_id += 1;
        let id = json!(self.next_id);
        self.ask_permission_as(&id, tool_call, command);
        id
    }

    /// The same under that id.
    pub fn ask_permission_as(&mut self, id: &Value, tool_call: &str, command: &str) {
        let options = json!([
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]);
        let tool_call = json!({
            "toolCallId": tool_call, "title": command, "kind": "execute", "status": "pending",
            "rawInput": {"command": command},
        });
        let params = json!({"sessionId": self.session(), "toolCall": tool_call, "options": options});
        self.request_as(id, "session/request_permission", params);
    }

    /// Answers a request.
    pub fn reply(&mut self, request: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Answers a prompt with `end_turn`.
    pub fn end_turn(&mut self, prompt: &Value) {
        self.reply(prompt, json!({"stopReason": "end_turn"}));
    }

    /// Answers a request with an error.
    pub fn error(&mut self, request: &Value, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
    }

    /// Sends a request with a fresh id; returns the id.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = json!(self.next_id);
        self.request_as(&id, method, params);
        id
    }

    /// Sends a request with that id.
    pub fn request_as(&mut self, id: &Value, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a piece of an answer.
    pub fn update(&mut self, text: &str) {
        self.update_as(&self.session(), text);
    }

    /// Sends a piece of an answer under any session id.
    pub fn update_as(&mut self, session: &str, text: &str) {
        self.send(&line::chunk(session, text));
    }

    /// Sends a message.
    pub fn send(&mut self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes());
    }

    /// Says bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.last_words(bytes).unwrap();
    }

    /// Says bytes that may come too late: the daemon may have ended the process meanwhile.
    pub fn last_words(&mut self, bytes: &[u8]) -> io::Result<()> {
        assert!(!bytes.contains(&MARK), "0x01 begins an order");
        self.write.lock().unwrap().write_all(bytes)
    }

    /// Says that many updates of that many bytes, and does not wait.
    pub fn flood(&mut self, count: u64, bytes: usize) {
        self.command(&format!("flood {count} {bytes} {}", self.session()));
    }

    /// Gives an order and does not wait.
    pub fn command(&mut self, order: &str) {
        let order = [&[MARK], order.as_bytes(), b"\n"].concat();
        self.write.lock().unwrap().write_all(&order).unwrap();
    }

    /// Gives an order and waits until it is done.
    pub fn obey(&mut self, order: &str) {
        self.command(order);
        self.wait_note(&format!("done {order}"));
    }

    /// Starts processes (`spawn-sleep`, `spawn-setsid`, `spawn-orphan`); returns their pids.
    pub fn spawn(&mut self, order: &str) -> Vec<u32> {
        self.command(order);
        let note = self.wait_note("spawned ");
        note.split(' ').filter_map(|word| word.parse().ok()).collect()
    }

    /// Waits for a note that begins so; returns it.
    pub fn wait_note(&mut self, begins: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.notes.iter().position(|note| note.starts_with(begins)) {
                return self.notes.remove(at).expect("just found there");
            }
            assert!(self.arrive(end), "no note {begins:?}; there are {:?}", self.notes);
        }
    }

    /// Whether a note that begins so has arrived.
    pub fn heard(&mut self, begins: &str) -> bool {
        while self.arrive(Instant::now()) {}
        self.notes.iter().any(|note| note.starts_with(begins))
    }

    /// Waits until the process saw the end of its stdin.
    pub fn wait_eof(&mut self) {
        self.wait_note("eof");
    }

    /// Waits until the process is gone.
    pub fn wait_gone(&mut self) {
        self.wait_gone_within(PATIENCE);
    }

    /// The same with another deadline.
    pub fn wait_gone_within(&mut self, deadline: Duration) {
        let pid = self.pid();
        wait_until(&format!("process {pid} is gone"), deadline, || !process::alive(pid));
    }

    /// Takes in one arrival; false when none came in time.
    fn arrive(&mut self, until: Instant) -> bool {
        match self.arrivals.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Arrival::Note(note)) => self.notes.push_back(note),
            Ok(Arrival::Line(bytes)) => {
                let message = line::parse(&bytes);
                let message = message
                    .unwrap_or_else(|e| panic!("the peer got no message: {e}: {}", line::shown(&bytes)));
                self.messages.push_back(message);
                self.raw.push(bytes[..bytes.len() - 1].to_vec());
            }
            Err(_) => return false,
        }
        true
    }
}

/// The reading thread of one process: sorts notes from lines, and answers the handshake when told to.
struct Desk {
    write: Arc<Mutex<UnixStream>>,
    session: Arc<Mutex<Option<String>>>,
    pid: u32,
    manners: Arc<Mutex<Option<Manners>>>,
}

impl Desk {
    fn read(&self, mut from: impl BufRead, to: &Sender<Arrival>) {
        let mut line = Vec::new();
        while let Ok(ready) = from.fill_buf()
            && let Some(first) = ready.first().copied()
        {
            if first == MARK {
                let note = line::read(&mut from);
                let note = String::from_utf8_lossy(&note[1..]).trim_end().to_owned();
                let _ = to.send(Arrival::Note(note));
                continue;
            }
            let end = memchr::memchr2(b'\n', MARK, ready)
                .map_or(ready.len(), |at| at + usize::from(ready[at] == b'\n'));
            line.extend_from_slice(&ready[..end]);
            from.consume(end);
            if line.ends_with(b"\n") {
                self.answer(&line);
                let _ = to.send(Arrival::Line(std::mem::take(&mut line)));
            }
        }
    }

    fn answer(&self, line: &[u8]) {
        let Some(manners) = self.manners.lock().unwrap().clone() else { return };
        let Ok(request) = line::parse(line) else { return };
        let result = match (request["method"].as_str(), manners.session) {
            (Some("initialize"), _) => manners.initialize,
            (Some("session/new"), Some(session)) => {
                let id = format!("puppet-{}", self.pid);
                self.open(&id, session, true)
            }
            (Some("session/load" | "session/resume"), Some(session)) => {
                let id = request["params"]["sessionId"].as_str().unwrap_or_default();
                self.open(id, session, false)
            }
            (Some("session/close"), Some(_)) => json!({}),
            _ => return,
        };
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        // A process that died meanwhile is the test's affair.
        let _ = self.write.lock().unwrap().write_all(format!("{answer}\n").as_bytes());
    }

    fn open(&self, id: &str, mut answer: Value, named: bool) -> Value {
        *self.session.lock().unwrap() = Some(id.to_owned());
        if named {
            answer["sessionId"] = id.into();
        }
        answer
    }
}
