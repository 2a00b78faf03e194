//! The same bytes in a plain file.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{Outcome, rounds::BATCH_LINES};

/// A file that only grows.
pub struct Plain {
    file: File,
    path: PathBuf,
}

impl Plain {
    /// A new one in that directory.
    pub fn new(directory: &Path) -> Outcome<Self> {
        let path = directory.join("plain");
        Ok(Self { file: File::create(&path)?, path })
    }

    /// One write for each batch of lines.
    pub fn append(&mut self, line: &[u8], batches: usize) -> Outcome<Duration> {
        let began = Instant::now();
        for _ in 0..batches {
            let mut batch = Vec::with_capacity(BATCH_LINES * (line.len() + 1));
            for _ in 0..BATCH_LINES {
                batch.extend_from_slice(line);
                batch.push(b'\n');
            }
            self.file.write_all(&batch)?;
        }
        Ok(began.elapsed())
    }

    /// One small write that waits for the disk.
    pub fn sync(&mut self, line: &[u8]) -> Outcome<Duration> {
        let began = Instant::now();
        self.file.write_all(line)?;
        self.file.sync_data()?;
        Ok(began.elapsed())
    }

    /// Reads the first lines back.
    pub fn read(&self, lines: usize) -> Outcome<Duration> {
        let began = Instant::now();
        let mut reader = BufReader::with_capacity(1 << 20, File::open(&self.path)?);
        let mut line = Vec::new();
        for _ in 0..lines {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                return Err("the file is too short".into());
            }
        }
        Ok(began.elapsed())
    }
}
