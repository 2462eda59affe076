//! A viewer of Tracy's live protocol that believes nothing.
//!
//! **Duties.** [`StrictViewer`] connects to what tells events live, asks all that Tracy's own
//! viewer would ask, and breaks off with a [`Violation`] at the first byte that this one would
//! stumble over: a message that is none, a time before another, a switch from a thread that did not
//! run, an end without a beginning, an answer that nobody asked for. What it was told is
//! [`ReceivedTimeline`].
//!
//! **Non-goals.** It shares nothing with who writes the protocol: lengths and numbers stand here
//! once more, as the protocol's page has them.

mod gpu;
mod history;
mod messages;
mod stream;

pub use gpu::ReceivedGpuJob;
pub use history::{
    ReceivedLock, ReceivedMemory, ReceivedMessage, ReceivedSwitch, ReceivedThread,
    ReceivedTimeline, ReceivedZone,
};
pub use stream::Welcome;

use history::History;
use messages::{Asks, Query};
use std::fmt;
use stream::{Frames, Piece};

/// What the protocol does not permit.
#[derive(Debug)]
pub struct Violation(pub(crate) String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

type Result<T> = std::result::Result<T, Violation>;

/// Fails with this text unless it holds.
macro_rules! require {
    ($holds:expr, $($text:tt)*) => {
        if !$holds {
            return Err($crate::tracy_viewer::Violation(format!($($text)*)));
        }
    };
}
pub(crate) use require;

/// What a viewer begins with.
pub const HELLO: [u8; 12] = *b"TracyPrf\x52\0\0\0";

/// A viewer with one connection.
///
/// ```
/// use syscollect_tests::tracy_viewer::StrictViewer;
///
/// let mut viewer = StrictViewer::default();
/// assert_eq!(viewer.take_bytes().len(), 12, "who it is");
/// assert!(viewer.receive(&[9]).is_err(), "there is no such answer");
/// ```
#[derive(Default)]
pub struct StrictViewer {
    has_greeted: bool,
    frames: Frames,
    history: History,
    asks: Asks,
    is_terminated: bool,
}

impl StrictViewer {
    /// Takes in what came.
    ///
    /// # Errors
    ///
    /// What the protocol does not permit.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<()> {
        for piece in self.frames.receive(bytes)? {
            match piece {
                Piece::Welcome(welcome) => self.history.begin(&welcome),
                Piece::Messages(raw) => {
                    messages::read_all(&raw, &mut self.history, &mut self.asks)?;
                }
            }
        }
        Ok(())
    }

    /// Bytes to send: who it is, what it asks, and at last that it has all.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        if !std::mem::replace(&mut self.has_greeted, true) {
            return HELLO.to_vec();
        }
        let mut bytes = self.asks.take();
        if self.history.is_terminated && self.asks.is_answered() && bytes.is_empty() {
            self.terminate(&mut bytes);
        }
        bytes
    }

    /// Asks for the end at once.
    pub fn terminate(&mut self, bytes: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.is_terminated, true) {
            bytes.extend(Query::Terminate.bytes(0));
        }
    }

    /// Asks to be told no more, and what is missing.
    pub fn disconnect(&mut self) -> Vec<u8> {
        Query::Disconnect.bytes(0).to_vec()
    }

    /// Whether it said that it has all.
    pub fn is_terminated(&self) -> bool {
        self.is_terminated
    }

    /// Whether all that it asked was answered, so far.
    pub fn is_answered(&self) -> bool {
        self.asks.is_answered()
    }

    /// Whether it was told that nothing more comes.
    pub fn is_at_end(&self) -> bool {
        self.history.is_terminated
    }

    /// What the other side said of itself.
    pub fn welcome(&self) -> Option<&Welcome> {
        self.frames.welcome()
    }

    /// What it was told so far.
    pub fn seen(&self) -> &ReceivedTimeline {
        &self.history.seen
    }
}
