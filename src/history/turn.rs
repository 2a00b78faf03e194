//! The turn that is being read: whose prompt it has, and which of the peer's words only repeat it (R37, R38). Pure.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::value::RawValue;

use super::{line, visit};

/// Blocks of a prompt that are recognised when the peer says them again.
const BLOCKS_MAX: usize = 256;

/// A turn that has begun and not ended.
#[derive(Debug)]
pub(super) struct Turn {
    is_hosts: bool,
    context_blocks: usize,
    is_sent: bool,
    blocks: Vec<u64>,
}

impl Turn {
    /// As the mark says it.
    pub fn new(source: &str, context_blocks: usize) -> Self {
        Self { is_hosts: source == "host", context_blocks, is_sent: false, blocks: Vec::new() }
    }

    /// Its prompt goes to the peer: shows the blocks that the host wrote. Only the first one is it.
    pub fn prompt<'a>(&mut self, params: &'a RawValue, mut show: impl FnMut(&'a RawValue)) {
        let Some(blocks) = visit::member(params.get(), "prompt").filter(|_| !self.is_sent) else { return };
        self.is_sent = true;
        let mut number = 0;
        visit::list(blocks.get(), |block| {
            if self.blocks.len() < BLOCKS_MAX {
                self.blocks.push(likeness(block));
            }
            if self.is_hosts && number >= self.context_blocks {
                show(block);
            }
            number += 1;
        });
    }

    /// Whether the peer has its prompt.
    pub fn is_sent(&self) -> bool {
        self.is_sent
    }

    /// Whether the peer only repeats what it was given. In a turn that holds something hidden everything that it says
    /// in the user's name counts as that.
    pub fn repeats(&mut self, content: Option<&RawValue>) -> bool {
        if !self.is_hosts || self.context_blocks > 0 {
            return true;
        }
        let like = content.map(likeness);
        let at = self.blocks.iter().position(|block| Some(*block) == like);
        at.map(|at| self.blocks.swap_remove(at)).is_some()
    }
}

/// The same for blocks that say the same, however they are written.
fn likeness(block: &RawValue) -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Some(body) = line::block_text(block) {
        super::literal::read(body).hash(&mut hasher);
        return hasher.finish();
    }
    let mut members = Vec::new();
    visit::object(block.get(), |name, value| {
        if !visit::is_null(value) {
            members.push((name.to_owned(), visit::text(value).unwrap_or(value.get().into())));
        }
    });
    members.sort_unstable();
    members.hash(&mut hasher);
    hasher.finish()
}
