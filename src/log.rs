//! The log: one JSON object a line in files of its own, and for people on stderr while in the foreground (R269).
//!
//! Owns the files and the threads that write them. **Never makes an actor wait:** a line that cannot be taken or
//! written is dropped and counted, and the log itself says so as soon as it can.

use std::{
    any::Any,
    fs::DirBuilder,
    io::{self, IsTerminal, Write},
    os::unix::fs::DirBuilderExt,
    panic::PanicHookInfo,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use tracing::{Level, Subscriber, level_filters::LevelFilter};
use tracing_appender::{
    non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard},
    rolling::{InitError, RollingFileAppender, Rotation},
};
use tracing_subscriber::{
    Layer,
    filter::Targets,
    fmt::{self, MakeWriter},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::{SubscriberInitExt, TryInitError},
};

/// Files are called this and the day they were begun.
const FILE_PREFIX: &str = "acpvisor.log";
/// Days kept.
const FILES_MAX: usize = 7;
/// Lines that may wait for a slow disk.
const WAITING_LINES_MAX: usize = 16_384;

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Its directory cannot be made.
    #[error("create the log directory {}: {source}", dir.display())]
    Create {
        /// The directory.
        dir: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Its file cannot be opened.
    #[error("open a log file in {}: {source}", dir.display())]
    Open {
        /// The directory.
        dir: PathBuf,
        /// Why not.
        source: InitError,
    },
    /// This process has one.
    #[error("start the log: {0}")]
    Started(#[from] TryInitError),
}

/// The running log. Dropping it writes what still waits, for a second at most.
#[derive(Debug)]
#[must_use = "what waits is written when this is dropped"]
pub struct Log {
    _guards: Vec<WorkerGuard>,
}

/// Starts the log of this process: into files below `dir`, and on stderr in the foreground. Files are private by
/// the umask.
pub fn start(dir: &Path, level: LevelFilter, foreground: bool) -> Result<Log, LogError> {
    let losses = Losses::default();
    let (file, guard) = queue(Tally::new(open(dir)?, losses.clone()), "log-file");
    let _ = losses.queue.set(file.error_counter());
    let mut guards = vec![guard];
    let stderr = foreground.then(|| queue(io::stderr(), "log-stderr")).map(|(stderr, guard)| {
        guards.push(guard);
        people(stderr)
    });
    let log = tracing_subscriber::registry().with(targets(level)).with(json(file)).with(stderr);
    log.try_init()?;
    let _ = LOSSES.set(losses);
    std::panic::set_hook(Box::new(panicked));
    Ok(Log { _guards: guards })
}

/// Lines lost so far: dropped because the queue was full, or refused by the disk.
pub fn dropped() -> u64 {
    LOSSES.get().map_or(0, Losses::count)
}

static LOSSES: OnceLock<Losses> = OnceLock::new();

fn open(dir: &Path) -> Result<RollingFileAppender, LogError> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            return Err(LogError::Create { dir: dir.to_owned(), source });
        }
        _ => {}
    }
    let files = RollingFileAppender::builder().rotation(Rotation::DAILY).filename_prefix(FILE_PREFIX);
    let files = files.max_log_files(FILES_MAX).build(dir);
    files.map_err(|source| LogError::Open { dir: dir.to_owned(), source })
}

fn queue(writer: impl Write + Send + 'static, thread: &str) -> (NonBlocking, WorkerGuard) {
    let queue = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(WAITING_LINES_MAX);
    queue.thread_name(thread).finish(writer)
}

/// Our own events at the level asked for; those of the libraries below us when they are warnings.
fn targets(level: LevelFilter) -> Targets {
    Targets::new().with_default(level.min(LevelFilter::WARN)).with_target("acpvisor", level)
}

fn json<S, W>(writer: W) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + 'static,
{
    fmt::layer().json().flatten_event(true).with_current_span(false).with_span_list(false).with_writer(writer)
}

fn people<S>(writer: NonBlocking) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    fmt::layer().with_ansi(io::stderr().is_terminal() && !no_color).with_target(false).with_writer(writer)
}

fn panicked(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or_default();
    tracing::error!(said = said(panic.payload()), place, thread, "panic");
}

fn said(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no text)")
}

/// Counts what is lost on the way to the file.
#[derive(Debug, Clone, Default)]
struct Losses {
    refused: Arc<AtomicU64>,
    queue: Arc<OnceLock<ErrorCounter>>,
}

impl Losses {
    fn count(&self) -> u64 {
        let dropped = self.queue.get().map_or(0, ErrorCounter::dropped_lines);
        self.refused.load(Ordering::Relaxed).saturating_add(u64::try_from(dropped).unwrap_or(u64::MAX))
    }
}

/// Writes lines whole, counts the ones it cannot write, and begins with a note of what was lost since the last.
struct Tally<W> {
    file: W,
    losses: Losses,
    told: u64,
    torn: bool,
}

impl<W: Write> Tally<W> {
    fn new(file: W, losses: Losses) -> Self {
        Self { file, losses, told: 0, torn: false }
    }

    fn whole(&mut self, line: &[u8]) -> io::Result<()> {
        if self.torn {
            self.file.write_all(b"\n")?;
            self.torn = false;
        }
        self.file.write_all(line).inspect_err(|_| self.torn = true)
    }

    fn confess(&mut self) -> io::Result<()> {
        let lost = self.losses.count();
        if lost > self.told {
            self.whole(note(lost - self.told).as_bytes())?;
            self.told = lost;
        }
        Ok(())
    }
}

fn note(lost: u64) -> String {
    let note = serde_json::json!({
        "timestamp": jiff::Timestamp::now().to_string(),
        "level": Level::WARN.as_str(),
        "message": "log lines were lost",
        "lost": lost,
        "target": module_path!(),
    });
    format!("{note}\n")
}

impl<W: Write> Write for Tally<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.confess().and_then(|()| self.whole(line)).is_err() {
            self.losses.refused.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // What a file does not take it has refused above.
        let _ = self.file.flush();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::Value;
    use tracing::subscriber::with_default;

    use super::*;

    /// A disk that takes so many bytes and is full then.
    #[derive(Clone)]
    struct Disk(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Disk {
        fn of(room: usize) -> Self {
            Self(Arc::new(Mutex::new((Vec::new(), room))))
        }

        fn grow(&self, room: usize) {
            self.0.lock().unwrap().1 += room;
        }

        fn lines(&self) -> Vec<String> {
            String::from_utf8(self.0.lock().unwrap().0.clone()).unwrap().lines().map(str::to_owned).collect()
        }
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.lock().unwrap();
            let taken = bytes.len().min(disk.1);
            disk.1 -= taken;
            disk.0.extend_from_slice(&bytes[..taken]);
            if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(level: LevelFilter, events: impl FnOnce()) -> Vec<Value> {
        let disk = Disk::of(usize::MAX);
        let writer = disk.clone();
        let log = tracing_subscriber::registry().with(targets(level)).with(json(move || writer.clone()));
        with_default(log, events);
        disk.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// R269: one object a line, its fields beside its message.
    #[test]
    fn an_event_is_one_object_with_its_fields() {
        let lines = logged(LevelFilter::INFO, || {
            tracing::info!(session = "s1", to = "ready", "session");
            tracing::debug!("too much");
        });
        let [line] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!(line["message"], "session");
        assert_eq!((&line["session"], &line["level"]), (&"s1".into(), &"INFO".into()));
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn libraries_are_heard_when_they_warn() {
        let lines = logged(LevelFilter::TRACE, || {
            tracing::info!(target: "ractor", "chatter");
            tracing::warn!(target: "ractor", "trouble");
            tracing::trace!("ours");
        });
        let said: Vec<_> = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
        assert_eq!(said, ["trouble", "ours"]);
    }

    /// R269: a full disk costs lines, which are counted and told of when there is room again.
    #[test]
    fn a_full_disk_costs_lines_and_the_log_says_how_many() {
        let disk = Disk::of(7);
        let mut log = Tally::new(disk.clone(), Losses::default());
        for line in ["one\n", "two two\n", "three\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(log.losses.count(), 2);
        disk.grow(1_000);
        log.write_all(b"four\n").unwrap();
        let lines = disk.lines();
        assert_eq!(lines[..2], ["one", "two"], "the torn line stands alone");
        let note: Value = serde_json::from_str(&lines[2]).unwrap();
        assert_eq!((&note["lost"], &note["level"]), (&2.into(), &"WARN".into()));
        assert_eq!(lines[3..], ["four"]);
    }

    #[test]
    fn files_lie_in_a_private_directory_of_their_own() {
        use std::os::unix::fs::MetadataExt;
        let state = tempfile::tempdir().unwrap();
        let dir = state.path().join("logs");
        drop(open(&dir).unwrap());
        assert_eq!(std::fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        let names: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert!(names[0].to_str().unwrap().starts_with("acpvisor.log."), "{names:?}");
        let said = open(&state.path().join("a/b")).unwrap_err().to_string();
        assert!(said.starts_with("create the log directory"), "{said}");
    }

    #[test]
    fn a_panic_is_told_in_its_own_words() {
        let words = |f: fn()| said(&*std::panic::catch_unwind(f).unwrap_err()).to_owned();
        assert_eq!(words(|| std::panic::resume_unwind(Box::new("plain"))), "plain");
        assert_eq!(words(|| std::panic::resume_unwind(Box::new(format!("made {}", 1)))), "made 1");
        assert_eq!(words(|| std::panic::resume_unwind(Box::new(1))), "(no text)");
    }
}
