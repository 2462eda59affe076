//! Frames: the beat of a program that repeats itself.

use crate::arena::Arena;
use crate::emit::{self, EmitRefusal, StaticString};
use crate::fallback;
use syscollect_zone_protocol::{Event, FramePhase};

/// A set of frames: a static. [`frame_mark!`](crate::frame_mark!) uses the main set.
pub struct FrameSet {
    name: StaticString,
}

/// The main set, which has no name.
static MAIN: FrameSet = FrameSet::new("");

impl FrameSet {
    /// A set with that name.
    pub const fn new(name: &'static str) -> Self {
        Self { name: StaticString::new(name) }
    }

    /// The main set.
    pub fn main() -> &'static Self {
        &MAIN
    }

    /// One frame ends here and the next begins.
    #[inline(always)]
    pub fn mark(&'static self) {
        if crate::enabled() {
            self.record(FramePhase::Mark);
        }
    }

    /// A frame that ends when the guard is dropped, with time between it and the next.
    #[inline(always)]
    pub fn frame(&'static self) -> Frame {
        let active = crate::enabled();
        if active {
            self.record(FramePhase::Begin);
        }
        Frame { set: active.then_some(self) }
    }

    #[cold]
    #[inline(never)]
    fn record(&'static self, phase: FramePhase) {
        record(phase, self.name.text(), |arena| self.name.number(arena));
    }
}

/// Records it of the set of that name, which has a number in the log.
pub(crate) fn record(phase: FramePhase, name: &str, number: impl FnOnce(&Arena) -> u32) {
    match emit::group(16) {
        Ok(mut group) => {
            let set = number(group.arena());
            group.event(Event::Frame { set, phase });
        }
        Err(EmitRefusal::Fallback(_)) if phase != FramePhase::Begin => fallback::frame(name),
        Err(_) => {}
    }
}

/// One frame ends of a set whose name is known only now; the main set's name is empty.
pub fn mark_dynamic(name: &str) {
    if crate::enabled() {
        record(FramePhase::Mark, name, |arena| emit::string(arena, name));
    }
}

/// A frame of a set with gaps; ends when dropped, on any thread.
#[must_use = "the frame ends when its guard is dropped"]
pub struct Frame {
    set: Option<&'static FrameSet>,
}

impl Drop for Frame {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(set) = self.set {
            set.record(FramePhase::End);
        }
    }
}

/// Marks the end of a frame, of the main set or of a named one.
///
/// ```
/// use syscollect_usdt_client::{frame, frame_mark};
///
/// frame_mark!();
/// frame_mark!("physics");
/// let _frame = frame!("upload"); // with gaps: from here to the end of the block
/// ```
#[macro_export]
macro_rules! frame_mark {
    () => {
        $crate::FrameSet::main().mark()
    };
    ($name:expr) => {{
        static SET: $crate::FrameSet = $crate::FrameSet::new($name);
        SET.mark();
    }};
}

/// A frame from here until the returned guard is dropped.
#[macro_export]
macro_rules! frame {
    ($name:expr) => {{
        static SET: $crate::FrameSet = $crate::FrameSet::new($name);
        SET.frame()
    }};
}
