//! One mailbox, several correspondents: an actor's message that carries another room's type, both ways.
//!
//! ractor derives an actor's reference for such a type from these two conversions, so that a child speaks to its
//! parent in its own words and knows no message of the parent's.

/// Lets a message enum be made of other types: `carries!(Msg: Letter => Post, Event => Peer)`.
macro_rules! carries {
    ($msg:ident: $($type:ty => $variant:ident),* $(,)?) => {$(
        impl From<$type> for $msg {
            fn from(inner: $type) -> Self {
                Self::$variant(inner)
            }
        }

        impl TryFrom<$msg> for $type {
            type Error = ();

            fn try_from(msg: $msg) -> Result<Self, ()> {
                if let $msg::$variant(inner) = msg { Ok(inner) } else { Err(()) }
            }
        }
    )*};
}

pub(crate) use carries;
