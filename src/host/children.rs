//! Child sessions that a session announced to this host: what the host says of them is for their parent (R276). Pure.

use std::collections::HashMap;

use crate::id::SessionId;

/// Children remembered per connection.
const CHILDREN_MAX: usize = 1_024;

/// Children, by the peer's id of them, which passes unchanged (R229).
#[derive(Debug, Default)]
pub struct Children(HashMap<String, Child>);

#[derive(Debug)]
struct Child {
    parent: SessionId,
    can_cancel: bool,
}

impl Children {
    /// A session announced a child, or something new of it; what is not said again still holds.
    pub fn announce(&mut self, child: String, parent: &SessionId, can_cancel: bool) {
        if let Some(known) = self.0.get_mut(&child) {
            known.can_cancel |= can_cancel;
        } else if self.0.len() < CHILDREN_MAX {
            self.0.insert(child, Child { parent: parent.clone(), can_cancel });
        }
    }

    /// Whose child that is.
    pub fn parent(&self, child: &str) -> Option<&SessionId> {
        self.0.get(child).map(|c| &c.parent)
    }

    /// Whether a cancel of it reaches its parent's peer: only where that was announced.
    pub fn can_cancel(&self, child: &str) -> bool {
        self.0.get(child).is_some_and(|c| c.can_cancel)
    }

    /// The parent is gone, and its children with it.
    pub fn orphan(&mut self, parent: &SessionId) {
        self.0.retain(|_, c| c.parent != *parent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R276: a child is its parent's as long as the parent is there, and is cancelled where that was announced.
    #[test]
    fn a_child_belongs_to_its_parent() {
        let (parent, mut children) = (SessionId::fresh(), Children::default());
        children.announce("c".to_owned(), &parent, false);
        assert_eq!((children.parent("c"), children.can_cancel("c")), (Some(&parent), false));
        children.announce("c".to_owned(), &parent, true);
        children.announce("c".to_owned(), &parent, false);
        assert!(children.can_cancel("c"));
        children.orphan(&parent);
        assert_eq!((children.parent("c"), children.can_cancel("c")), (None, false));
    }
}
