//! The puppet's stdin: a thread that passes it on and can be told to stop reading, or to close it.
//!
//! It waits for stdin and for the next order at once, so that closing never races with a read that is under
//! way.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    process,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
};

use rustix::event::{PollFd, PollFlags, poll};

use super::{Player, order::Order};

/// Orders the intake about.
pub(super) struct Gate {
    orders: Sender<Order>,
    bell: UnixStream,
}

impl Gate {
    /// Passes an order on; the intake notes `done` once it is in force.
    pub fn set(&mut self, order: Order) -> io::Result<()> {
        let _ = self.orders.send(order);
        self.bell.write_all(b"!")
    }
}

/// The thread's own side.
pub(super) struct Intake {
    stdin: Option<File>,
    reading: bool,
    player: Player,
    orders: Receiver<Order>,
    bell: UnixStream,
    ignore_eof: bool,
}

impl Intake {
    /// Starts passing stdin on.
    pub fn start(stdin: File, player: Player, ignore_eof: bool) -> io::Result<Gate> {
        let (bell, heard) = UnixStream::pair()?;
        let (orders, received) = channel();
        let stdin = Some(stdin);
        let intake = Self { stdin, reading: true, player, orders: received, bell: heard, ignore_eof };
        thread::spawn(move || intake.run());
        Ok(Gate { orders, bell })
    }

    fn run(mut self) {
        while let Ok((ordered, readable)) = self.wait() {
            if ordered && self.take_order().is_err() {
                return;
            }
            if readable && !ordered {
                self.pass_on();
            }
        }
    }

    /// Waits until there is an order, or something at stdin while it is wanted.
    fn wait(&self) -> io::Result<(bool, bool)> {
        let mut ends = vec![PollFd::new(&self.bell, PollFlags::IN)];
        if let Some(stdin) = self.stdin.as_ref().filter(|_| self.reading) {
            ends.push(PollFd::new(stdin, PollFlags::IN));
        }
        rustix::io::retry_on_intr(|| poll(&mut ends, None))?;
        let ready = |end: Option<&PollFd<'_>>| end.is_some_and(|end| !end.revents().is_empty());
        Ok((ready(ends.first()), ready(ends.get(1))))
    }

    fn take_order(&mut self) -> io::Result<()> {
        self.bell.read_exact(&mut [0])?;
        let done = match self.orders.recv().map_err(io::Error::other)? {
            Order::StopReading => {
                self.reading = false;
                "stop-reading"
            }
            Order::ResumeReading => {
                self.reading = true;
                "resume-reading"
            }
            _ => {
                self.stdin = None;
                "close-stdin"
            }
        };
        self.player.note(&format!("done {done}"));
        Ok(())
    }

    fn pass_on(&mut self) {
        let mut buffer = [0; 64 << 10];
        let read = self.stdin.as_mut().map_or(Ok(0), |stdin| stdin.read(&mut buffer));
        match read {
            Ok(n) if n > 0 => {
                let _ = self.player.write(&buffer[..n]);
            }
            _ => self.end(),
        }
    }

    fn end(&mut self) {
        self.stdin = None;
        self.player.note("eof");
        if !self.ignore_eof {
            process::exit(0);
        }
    }
}
