//! The two ends of a play, with every line as it was written.

use std::collections::VecDeque;

use serde_json::Value;

use crate::{
    host::Host,
    peer::{Peer, Puppets},
    process::{PATIENCE, wait_until},
    recording::Message,
    sandbox::Sandbox,
};

/// The host.
pub struct HostEnd {
    host: Host,
    read: usize,
}

impl HostEnd {
    /// Connects.
    pub fn connect(sandbox: &Sandbox) -> Self {
        Self { host: Host::direct(sandbox), read: 0 }
    }

    /// Sends a line.
    pub fn send(&mut self, line: &str) {
        self.host.send_line(line);
    }

    /// The next line.
    pub fn next(&mut self, what: &str) -> Message {
        if let Some(line) = self.try_next() {
            return line;
        }
        self.host.take(what, PATIENCE, |_| true);
        self.read += 1;
        text(&self.host.raw_lines()[self.read - 1])
    }

    /// The next line, if it is there.
    pub fn try_next(&mut self) -> Option<Message> {
        if self.host.raw_lines().len() == self.read {
            self.host.unread();
        }
        let line = self.host.raw_lines().get(self.read)?;
        self.read += 1;
        Some(text(line))
    }

    /// Everything that came and that nobody waited for.
    pub fn unread(&mut self) -> Vec<Message> {
        self.host.unread();
        self.host.raw_lines()[self.read..].iter().map(|line| text(line)).collect()
    }
}

/// One process of the agent.
pub struct PeerEnd {
    peer: Peer,
    read: usize,
    inbox: VecDeque<Message>,
}

impl PeerEnd {
    /// Says a line.
    pub fn say(&mut self, line: &str) {
        self.peer.raw(format!("{line}\n").as_bytes());
    }

    /// The next line.
    pub fn next(&mut self, what: &str) -> Message {
        while self.inbox.is_empty() {
            self.peer.take(what, |_| true);
            self.take_in(1);
        }
        self.inbox.pop_front().expect("just seen there")
    }

    /// Ends the process as a crash does.
    pub fn crash(&mut self) {
        self.peer.command("exit 1");
    }

    /// Waits for its end; nothing may have come that was not waited for.
    pub fn finish(mut self) {
        self.peer.wait_gone();
        self.poll();
        let left: Vec<&str> = self.inbox.iter().map(|m| m.0.as_str()).collect();
        assert!(left.is_empty(), "the agent got what nobody recorded: {left:#?}");
    }

    fn poll(&mut self) {
        let fresh: Vec<Value> = self.peer.unread();
        self.take_in(fresh.len());
    }

    /// The handshake is answered elsewhere, and is the daemon's own.
    fn take_in(&mut self, count: usize) {
        let lines = &self.peer.raw_lines()[self.read..self.read + count];
        let messages = lines.iter().map(|line| text(line));
        self.inbox.extend(messages.filter(|m| m.method().as_deref() != Some("initialize")));
        self.read += count;
    }
}

/// All processes of the agent.
#[derive(Default)]
pub struct PeerEnds(Vec<PeerEnd>);

impl PeerEnds {
    /// One that has appeared.
    pub fn at(&mut self, number: usize) -> &mut PeerEnd {
        &mut self.0[number]
    }

    /// Waits until there is one.
    pub fn first(&mut self, puppets: &mut Puppets) -> &mut PeerEnd {
        if self.0.is_empty() {
            let peer = puppets.next();
            self.0.push(PeerEnd { peer, read: 0, inbox: VecDeque::new() });
        }
        &mut self.0[0]
    }

    /// Waits until one of them got a line that fits; its number, and the line.
    pub fn find(
        &mut self,
        puppets: &mut Puppets,
        what: &str,
        fits: impl Fn(&Message) -> bool,
    ) -> (usize, Message) {
        let mut found = None;
        wait_until(&format!("the agent gets {what}"), PATIENCE, || {
            found = self.try_find(puppets, &fits);
            found.is_some()
        });
        found.expect("waited for")
    }

    /// The same without waiting.
    pub fn try_find(
        &mut self,
        puppets: &mut Puppets,
        fits: impl Fn(&Message) -> bool,
    ) -> Option<(usize, Message)> {
        while puppets.untaken() > 0 {
            self.0.push(PeerEnd { peer: puppets.next(), read: 0, inbox: VecDeque::new() });
        }
        self.0.iter_mut().for_each(PeerEnd::poll);
        let at = self.0.iter().position(|end| end.inbox.front().is_some_and(&fits))?;
        Some((at, self.0[at].inbox.pop_front().expect("just seen there")))
    }

    /// Waits until all of them are gone.
    pub fn finish(self) {
        self.0.into_iter().for_each(PeerEnd::finish);
    }
}

fn text(line: &[u8]) -> Message {
    Message(String::from_utf8(line.to_vec()).unwrap())
}
