//! What agents said they are, so that a second host is answered at once (R14). Pure.

use std::collections::{HashMap, VecDeque};

use crate::wire::patch::Object;

/// Answers remembered at most.
const ANSWERS_MAX: usize = 64;

/// Answers to `initialize`, by what they depend on.
#[derive(Debug, Default)]
pub struct Learnt {
    answers: HashMap<u64, Object>,
    order: VecDeque<u64>,
}

impl Learnt {
    /// Remembers an answer; the oldest is forgotten when there are too many.
    pub fn learn(&mut self, key: u64, answer: Object) {
        if self.answers.insert(key, answer).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > ANSWERS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.answers.remove(&oldest);
        }
    }

    /// What was answered.
    pub fn recall(&self, key: u64) -> Option<&Object> {
        self.answers.get(&key)
    }
}
