//! The end of what an agent says on stderr, for whoever must say why it failed (R235 to R237).
//!
//! Its own task reads all the time, so that a chatty agent never blocks, and keeps the newest bytes. Never parses,
//! never logs. The invariant: memory is bounded and flat however much comes.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::watch,
    task::AbortHandle,
};

use crate::limits::{STDERR_SHOWN_CHARS, STDERR_TAIL_BYTES};

/// Stands at the end of a tail whose beginning is gone (R236).
pub const TRUNCATION_MARK: &str = "\n[earlier output of stderr was dropped]";

/// Taken with one read. Every session holds that much while its agent is silent.
const READ_BYTES: usize = 4 << 10;

/// The newest of one stderr. Cheap to clone; the reading ends with the last clone, or with the stream.
#[derive(Debug, Clone)]
pub struct Tail(Arc<Reading>);

#[derive(Debug)]
struct Reading {
    kept: Arc<Mutex<Kept>>,
    ended: watch::Receiver<()>,
    task: AbortHandle,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Tail {
    /// Starts to read. Must be called within a runtime.
    pub fn of(stderr: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let (reads, ended) = watch::channel(());
        let task = tokio::spawn(drain(stderr, kept.clone(), reads)).abort_handle();
        Self(Arc::new(Reading { kept, ended, task }))
    }

    /// What is kept, with a mark at its end if that is not all there was.
    pub fn text(&self) -> String {
        lock(&self.0.kept).text()
    }

    /// The last 500 characters for failure texts, without white space at the end (R237).
    pub fn shown(&self) -> String {
        lock(&self.0.kept).shown()
    }

    /// Waits for the end of the stream; false when it did not come in time: a process that left the agent's tree
    /// may hold the pipe for ever (R214).
    pub async fn drained(&self, bound: Duration) -> bool {
        let mut ended = self.0.ended.clone();
        // the sender is never used: only its end is news
        tokio::time::timeout(bound, ended.changed()).await.is_ok()
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn drain(mut stderr: impl AsyncRead + Unpin, kept: Arc<Mutex<Kept>>, _until_here: watch::Sender<()>) {
    let mut chunk = vec![0; READ_BYTES];
    // an error on stderr is the end of stderr, not of the agent
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        lock(&kept).push(&chunk[..count]);
    }
}

/// The newest bytes. Grows to twice the ceiling and is then cut in one go, so that each byte moves once at most.
#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Kept {
    fn push(&mut self, chunk: &[u8]) {
        if self.bytes.len() + chunk.len() > 2 * STDERR_TAIL_BYTES {
            let surplus = self.bytes.len().saturating_sub(STDERR_TAIL_BYTES);
            self.bytes.drain(..surplus);
            self.is_cut |= surplus > 0;
        }
        self.bytes.extend_from_slice(chunk);
    }

    /// The newest bytes under the ceiling, and whether there were more.
    fn newest(&self) -> (&[u8], bool) {
        let surplus = self.bytes.len().saturating_sub(STDERR_TAIL_BYTES);
        (&self.bytes[surplus..], self.is_cut || surplus > 0)
    }

    fn text(&self) -> String {
        let (bytes, is_cut) = self.newest();
        let text = String::from_utf8_lossy(skip_partial(bytes, is_cut));
        // replacement characters are longer than what they replace
        let surplus = text.len().saturating_sub(STDERR_TAIL_BYTES);
        let start = (surplus..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        let mut text = text[start..].to_owned();
        if is_cut {
            text.push_str(TRUNCATION_MARK);
        }
        text
    }

    fn shown(&self) -> String {
        let (bytes, is_cut) = self.newest();
        let text = String::from_utf8_lossy(skip_partial(bytes, is_cut));
        let text = text.trim_end();
        let start = text.char_indices().rev().nth(STDERR_SHOWN_CHARS - 1).map_or(0, |(at, _)| at);
        text[start..].to_owned()
    }
}

/// Leaves out the rest of a character whose beginning was cut off.
fn skip_partial(bytes: &[u8], is_cut: bool) -> &[u8] {
    let partial = bytes.iter().take(3).take_while(|byte| is_cut && (**byte & 0xc0) == 0x80).count();
    &bytes[partial..]
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    async fn tail_of(bytes: &[u8]) -> Tail {
        let (mut writer, reader) = tokio::io::duplex(4096);
        let tail = Tail::of(reader);
        writer.write_all(bytes).await.expect("it is read all the time");
        drop(writer);
        assert!(tail.drained(SOON).await);
        tail
    }

    /// R236: 1 MB that ends in LAST leaves LAST and the mark, at most 64 KiB and the mark.
    #[tokio::test]
    async fn only_the_newest_is_kept_and_marked() {
        let mut bytes = vec![b'x'; 1 << 20];
        bytes.extend(b"LAST");
        let text = tail_of(&bytes).await.text();
        assert!(text.ends_with(&format!("xLAST{TRUNCATION_MARK}")));
        assert_eq!(text.len(), STDERR_TAIL_BYTES + TRUNCATION_MARK.len());
    }

    #[tokio::test]
    async fn what_fits_is_kept_whole_and_unmarked() {
        let bytes = vec![b'y'; STDERR_TAIL_BYTES];
        assert_eq!(tail_of(&bytes).await.text().as_bytes(), bytes);
        assert_eq!(tail_of(b"").await.text(), "");
        assert_eq!(tail_of(b"").await.shown(), "");
    }

    /// R237: exactly 500 characters are shown, never a part of one, no white space at the end.
    #[tokio::test]
    async fn the_last_500_characters_are_shown() {
        let noise = format!("{} \n\t\n", "é".repeat(10_000));
        assert_eq!(tail_of(noise.as_bytes()).await.shown(), "é".repeat(500));
        let cut_inside = format!("x{}", "é".repeat(STDERR_TAIL_BYTES));
        assert_eq!(tail_of(cut_inside.as_bytes()).await.shown(), "é".repeat(500));
        assert!(!tail_of(cut_inside.as_bytes()).await.text().contains('\u{fffd}'));
        assert_eq!(tail_of("short ü\n".as_bytes()).await.shown(), "short ü");
    }

    /// R236: bytes that are no text do not grow the tail over its ceiling.
    #[tokio::test]
    async fn bytes_that_are_no_text_stay_under_the_ceiling() {
        let tail = tail_of(&vec![0xff; 1 << 20]).await;
        assert!(tail.text().len() <= STDERR_TAIL_BYTES + TRUNCATION_MARK.len());
        assert_eq!(tail.shown(), "\u{fffd}".repeat(500));
    }

    #[test]
    fn memory_is_flat() {
        let mut kept = Kept::default();
        for _ in 0..10_000 {
            kept.push(&[b'z'; READ_BYTES]);
        }
        assert!(kept.bytes.capacity() <= 4 * STDERR_TAIL_BYTES, "{}", kept.bytes.capacity());
    }

    /// R214: a stream that does not end does not hold the caller.
    #[tokio::test]
    async fn waiting_for_the_end_is_bounded() {
        let (mut writer, reader) = tokio::io::duplex(64);
        let tail = Tail::of(reader);
        writer.write_all(b"still here").await.expect("read");
        assert!(!tail.drained(Duration::from_millis(20)).await);
        drop(writer);
        assert!(tail.drained(SOON).await && tail.clone().drained(SOON).await);
        assert_eq!(tail.shown(), "still here");
    }
}
