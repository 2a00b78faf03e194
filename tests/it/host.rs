//! The scripted host: an editor that reads strictly, keeps everything in arrival order and waits with a
//! deadline.
//!
//! A line that is no message, a second answer to one request and an answer to nothing fail the test wherever
//! they come up.

use std::{
    collections::{HashMap, VecDeque},
    fs::File,
    io::{BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    line,
    process::{PATIENCE, wait_until},
    sandbox::Sandbox,
};

/// Lines read ahead of the test; far more than any test leaves unread.
const AHEAD: usize = 1 << 20;

enum End {
    Socket(UnixStream),
    Pipe(ChildStdin),
}

/// Lets a test keep its host from reading.
#[derive(Default)]
struct Gate {
    shut: Mutex<bool>,
    opened: Condvar,
}

/// One connection to an agent, or to what looks like one.
pub struct Host {
    end: Option<End>,
    arrivals: Receiver<Vec<u8>>,
    backlog: VecDeque<Value>,
    raw: Vec<Vec<u8>>,
    open: HashMap<String, usize>,
    next_id: u64,
    child: Option<Child>,
    stderr: Option<PathBuf>,
    gate: Arc<Gate>,
}

impl Host {
    /// Connects to the daemon's socket and speaks ACP from the first byte (R254).
    pub fn direct(sandbox: &Sandbox) -> Self {
        let stream = UnixStream::connect(sandbox.host_socket()).unwrap();
        stream.set_write_timeout(Some(3 * PATIENCE)).unwrap();
        let from = stream.try_clone().unwrap();
        Self::over(End::Socket(stream), from)
    }

    /// The same, reading no faster than the test takes what it read.
    pub fn paced(sandbox: &Sandbox) -> Self {
        let stream = UnixStream::connect(sandbox.host_socket()).unwrap();
        let from = stream.try_clone().unwrap();
        Self::reading(End::Socket(stream), from, 1)
    }

    /// Starts a bridge, as an editor does (R252).
    pub fn bridge(sandbox: &Sandbox, agent: &str) -> Self {
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let stderr = sandbox.path(&format!("bridge-{}.err", STARTED.fetch_add(1, Ordering::Relaxed)));
        let mut command = sandbox.command(&["acp", "--agent", agent]);
        command.stderr(File::create(&stderr).unwrap());
        let mut host = Self::spawn(&mut command);
        host.stderr = Some(stderr);
        sandbox.claim(host.pid());
        host
    }

    /// Starts any program that speaks ACP on its stdio.
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut host = Self::over(End::Pipe(stdin), stdout);
        host.child = Some(child);
        host
    }

    fn over(end: End, from: impl Read + Send + 'static) -> Self {
        Self::reading(end, from, AHEAD)
    }

    fn reading(end: End, from: impl Read + Send + 'static, ahead: usize) -> Self {
        let (sender, arrivals) = sync_channel(ahead);
        let gate = Arc::new(Gate::default());
        let reader = gate.clone();
        thread::spawn(move || read(from, &sender, &reader));
        Self {
            end: Some(end),
            arrivals,
            backlog: VecDeque::new(),
            raw: Vec::new(),
            open: HashMap::new(),
            next_id: 0,
            child: None,
            stderr: None,
            gate,
        }
    }

    /// Process id of the bridge or agent.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("this host has no process").id()
    }

    /// What the bridge wrote to stderr so far.
    pub fn stderr(&self) -> String {
        self.stderr.as_ref().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.try_send_raw(bytes).unwrap();
    }

    /// Sends bytes as they are; the other end may be gone.
    pub fn try_send_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self.end.as_mut().expect("the host closed its end") {
            End::Socket(stream) => stream.write_all(bytes),
            End::Pipe(stdin) => stdin.write_all(bytes),
        }
    }

    /// Sends a line as it stands, whatever it is.
    pub fn send_line(&mut self, line: &str) {
        let message = serde_json::from_str(line).or_else(|_| line::parse(format!("{line}\n").as_bytes()));
        if let Ok(message @ Value::Object(_)) = &message
            && message["method"].is_string()
            && let Some(id) = message.get("id")
        {
            self.await_answer(id);
        }
        self.send_raw(format!("{line}\n").as_bytes());
    }

    /// An answer to that id may come, although no request with it was sent as a line.
    pub fn await_answer(&mut self, id: &Value) {
        *self.open.entry(id.to_string()).or_default() += 1;
    }

    /// Sends a message.
    pub fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string());
    }

    /// Sends a request with a fresh id, from 0 on; returns the id.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = json!(self.next_id);
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Answers a request of the agent.
    pub fn reply(&mut self, request: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Answers a request of the agent with an error.
    pub fn refuse(&mut self, request: &Value, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
    }

    /// Chooses an option of a permission request.
    pub fn choose(&mut self, request: &Value, option: &str) {
        self.reply(request, json!({"outcome": {"outcome": "selected", "optionId": option}}));
    }

    /// Waits for the answer to that request; everything else stays for later, in arrival order.
    pub fn answer(&mut self, id: &Value) -> Value {
        self.answer_within(id, PATIENCE)
    }

    /// The same with another deadline.
    pub fn answer_within(&mut self, id: &Value, deadline: Duration) -> Value {
        let what = format!("the answer to {id}");
        self.take(&what, deadline, |m| m.get("method").is_none() && m.get("id") == Some(id))
    }

    /// Waits for the result of that request.
    pub fn result(&mut self, id: &Value) -> Value {
        let answer = self.answer(id);
        answer.get("result").unwrap_or_else(|| panic!("{id} was refused: {answer}")).clone()
    }

    /// Waits for the error of that request.
    pub fn error(&mut self, id: &Value) -> Value {
        let answer = self.answer(id);
        answer.get("error").unwrap_or_else(|| panic!("{id} succeeded: {answer}")).clone()
    }

    /// Waits for an error answer to nobody in particular: to a line that had no usable id.
    pub fn expect_refusal(&mut self, code: i64) -> Value {
        let fits = |m: &Value| m.get("id") == Some(&Value::Null) && m["error"]["code"] == code;
        self.take(&format!("the error {code} without an id"), PATIENCE, fits)
    }

    /// The oldest message that nobody took yet.
    pub fn next(&mut self) -> Value {
        self.take("any message", PATIENCE, |_| true)
    }

    /// The oldest update that nobody took yet.
    pub fn expect_update(&mut self) -> Value {
        self.expect("session/update")
    }

    /// The text of the oldest piece of an answer that nobody took yet.
    pub fn expect_text(&mut self) -> String {
        let chunk = self.take("a piece of text", PATIENCE, |m| line::text(m).is_some());
        line::text(&chunk).unwrap_or_default().to_owned()
    }

    /// The oldest request or notification of that method that nobody took yet.
    pub fn expect(&mut self, method: &str) -> Value {
        self.take(method, PATIENCE, |m| m["method"] == method)
    }

    /// The oldest message that fits and that nobody took yet; the others keep their places.
    pub fn take(&mut self, what: &str, deadline: Duration, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.backlog.iter().position(&fits) {
            return self.backlog.remove(at).expect("just found there");
        }
        let end = Instant::now() + deadline;
        loop {
            match self.arrive(end.saturating_duration_since(Instant::now())) {
                Ok(message) if fits(&message) => return message,
                Ok(message) => self.backlog.push_back(message),
                Err(why) => panic!("{why} before {what} came; unread: {:#?}", self.backlog),
            }
        }
    }

    /// Everything that arrived and that nobody took, oldest first.
    pub fn unread(&mut self) -> Vec<Value> {
        while let Ok(message) = self.arrive(Duration::ZERO) {
            self.backlog.push_back(message);
        }
        self.backlog.drain(..).collect()
    }

    /// All texts among what nobody took, joined.
    pub fn unread_text(&mut self) -> String {
        self.unread().iter().filter_map(line::text).collect()
    }

    /// Every line that arrived so far, as bytes without the line feed.
    pub fn raw_lines(&self) -> &[Vec<u8>] {
        &self.raw
    }

    /// All texts of that session among what nobody took, joined; the rest stays.
    pub fn unread_of(&mut self, session: &str) -> String {
        let ours = self.sift(|m| m["params"]["sessionId"] == session);
        ours.iter().filter_map(line::text).collect()
    }

    /// What fits among what arrived and nobody took; the rest stays.
    pub fn sift(&mut self, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let (found, others): (Vec<Value>, Vec<Value>) = self.unread().into_iter().partition(fits);
        self.backlog.extend(others);
        found
    }

    /// The next line that arrives, unread and unjudged: for an agent that is known to say other things than
    /// messages.
    pub fn next_line(&mut self) -> String {
        let line = self.arrivals.recv_timeout(PATIENCE).expect("no line came");
        String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned()
    }

    /// Waits until the other end closes; what it still says before that stays unread.
    pub fn expect_end(&mut self, deadline: Duration) {
        let end = Instant::now() + deadline;
        loop {
            match self.arrive(end.saturating_duration_since(Instant::now())) {
                Ok(message) => self.backlog.push_back(message),
                Err("the end") => return,
                Err(why) => panic!("{why} before the other end closed"),
            }
        }
    }

    /// Waits for the process of this host to exit.
    pub fn wait_exit(&mut self, deadline: Duration) -> ExitStatus {
        let child = self.child.as_mut().expect("this host has no process");
        let mut status = None;
        wait_until("the process exits", deadline, || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        status.expect("waited for")
    }

    /// Reads no more after what is being read now, until [`Self::resume_reading`].
    pub fn stop_reading(&self) {
        *self.gate.shut.lock().unwrap() = true;
    }

    /// Reads again.
    pub fn resume_reading(&self) {
        *self.gate.shut.lock().unwrap() = false;
        self.gate.opened.notify_all();
    }

    /// Says that nothing more will come.
    pub fn close_write(&mut self) {
        if let Some(End::Socket(stream)) = self.end.take() {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
    }

    /// Initialises with those capabilities; returns the agent's answer.
    pub fn initialize(&mut self, capabilities: Value) -> Value {
        let id = self.request_initialize(capabilities);
        self.result(&id)
    }

    /// Asks for initialisation and does not wait.
    pub fn request_initialize(&mut self, capabilities: Value) -> Value {
        let info = json!({"name": "scripted-host", "version": "1"});
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": info});
        self.request("initialize", params)
    }

    /// Opens a session; returns its id.
    pub fn new_session(&mut self, cwd: &str) -> String {
        let id = self.request_session(cwd);
        let answer = self.result(&id);
        answer["sessionId"].as_str().unwrap_or_else(|| panic!("no session id in {answer}")).to_owned()
    }

    /// Asks for a session and does not wait.
    pub fn request_session(&mut self, cwd: &str) -> Value {
        self.request("session/new", json!({"cwd": cwd, "mcpServers": []}))
    }

    /// Prompts and does not wait; returns the id of the request.
    pub fn prompt(&mut self, session: &str, text: &str) -> Value {
        self.request(
            "session/prompt",
            json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]}),
        )
    }

    /// Cancels the turn of that session.
    pub fn cancel(&mut self, session: &str) {
        self.notify("session/cancel", json!({"sessionId": session}));
    }

    /// Waits for the end of a turn; returns its stop reason.
    pub fn stop_reason(&mut self, prompt: &Value) -> String {
        let result = self.result(prompt);
        result["stopReason"].as_str().unwrap_or_else(|| panic!("no stop reason in {result}")).to_owned()
    }

    fn arrive(&mut self, deadline: Duration) -> Result<Value, &'static str> {
        let line = self.arrivals.recv_timeout(deadline).map_err(|why| match why {
            RecvTimeoutError::Timeout => "the deadline",
            RecvTimeoutError::Disconnected => "the end",
        })?;
        let message =
            line::parse(&line).unwrap_or_else(|e| panic!("no message: {e}: {}", line::shown(&line)));
        self.settle(&message);
        self.raw.push(line[..line.len() - 1].to_vec());
        Ok(message)
    }

    /// Every request is answered at most once, and nothing else is answered. Null answers lines without a
    /// usable id.
    fn settle(&mut self, message: &Value) {
        let id = match message.get("id") {
            Some(id) if message.get("method").is_none() && !id.is_null() => id.to_string(),
            _ => return,
        };
        match self.open.get_mut(&id) {
            Some(count) if *count > 0 => *count -= 1,
            _ => panic!("an answer that nothing waits for: {message}"),
        }
    }
}

fn read(from: impl Read, to: &SyncSender<Vec<u8>>, gate: &Gate) {
    let mut from = BufReader::with_capacity(64 << 10, from);
    loop {
        let shut = gate.shut.lock().unwrap();
        drop(gate.opened.wait_while(shut, |shut| *shut).unwrap());
        let line = line::read(&mut from);
        if line.is_empty() || to.send(line).is_err() {
            return;
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.close_write();
        self.end = None;
        self.resume_reading();
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
