//! Async zones: they belong to a task, may overlap, and may end on another thread.

use crate::location::{CachedLocation, Location, ZoneLocation};
use crate::open_async::OpenAsyncZone;
use crate::{arena, emit};
use core::sync::atomic::{AtomicU64, Ordering};
use syscollect_zone_protocol::{Attribute, Event, TextRole};

/// Numbers tasks and async zones of the process; 0 is none.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// A task: what async zones belong to.
///
/// ```
/// use syscollect_usdt_client::{AsyncZone, Task, location};
///
/// let task = Task::new("upload 7");
/// let outer = AsyncZone::begin_in(&task, location!("send"));
/// let inner = AsyncZone::begin_in(&task, location!("wait"));
/// drop(outer); // zones of a task may overlap,
/// std::thread::spawn(move || drop(inner)).join().unwrap(); // and move
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    number: u64,
    name: &'a str,
}

impl<'a> Task<'a> {
    /// A task of that name. It is said with each of its zones, so that every collector knows it.
    pub fn new(name: &'a str) -> Self {
        Self { number: next_number(), name }
    }

    /// The task of that number, which [`next_number`] gave.
    #[cfg(feature = "c")]
    pub(crate) fn numbered(number: u64, name: &'a str) -> Self {
        Self { number, name }
    }
}

/// A number that no other task or async zone of the process has.
pub(crate) fn next_number() -> u64 {
    if cfg!(feature = "off") { 0 } else { NEXT_NUMBER.fetch_add(1, Ordering::Relaxed) }
}

/// A zone that is not bound to a thread; ends when dropped.
#[must_use = "the zone ends when it is dropped"]
#[derive(Debug)]
pub struct AsyncZone {
    /// 0: not recorded.
    number: u64,
}

impl AsyncZone {
    /// Begins a zone that is a task of its own.
    #[inline(always)]
    pub fn begin(location: &'static Location) -> Self {
        Self::begin_with(location, None, "")
    }

    /// Begins a zone of a task.
    #[inline(always)]
    pub fn begin_in(task: &Task<'_>, location: &'static Location) -> Self {
        Self::begin_with(location, Some(task), "")
    }

    /// Begins a zone, of a task if one is given, with words if there are any.
    #[inline(always)]
    pub fn begin_with(location: &'static Location, task: Option<&Task<'_>>, text: &str) -> Self {
        if crate::enabled() {
            Self::begin_enabled(location, task, text)
        } else {
            Self { number: 0 }
        }
    }

    /// Begins a zone at a place that was known only at run time.
    #[inline(always)]
    pub fn begin_cached(
        location: &CachedLocation<'_>,
        task: Option<&Task<'_>>,
        text: &str,
    ) -> Self {
        if crate::enabled() {
            Self::begin_enabled(location, task, text)
        } else {
            Self { number: 0 }
        }
    }

    /// Begins a zone; the caller has seen that somebody records.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin_enabled(
        place: &impl ZoneLocation,
        task: Option<&Task<'_>>,
        text: &str,
    ) -> Self {
        let Ok(mut group) = emit::group(32 + 16 + emit::text_bytes(text)) else {
            return Self { number: 0 };
        };
        let number = next_number();
        let place = place.number(group.arena());
        let (task, name) =
            task.map_or((0, 0), |task| (task.number, emit::string(group.arena(), task.name)));
        let began = group.event(Event::AsyncBegin { location: place, zone: number, task });
        if name != 0 {
            group.attribute(Attribute::TaskName { string: name, task });
        }
        group.arena().open_async.insert(OpenAsyncZone {
            number,
            location: place,
            began,
            task,
            task_name: name,
        });
        if !text.is_empty() {
            group.text(TextRole::AsyncText, 0, text);
        }
        Self { number }
    }

    /// Gives the zone away as a number, 0 where it is not recorded.
    pub(crate) fn into_number(self) -> u64 {
        core::mem::ManuallyDrop::new(self).number
    }

    /// The zone that was given away as that number.
    pub(crate) fn from_number(number: u64) -> Self {
        Self { number }
    }

    #[inline(always)]
    fn is_active(&self) -> bool {
        !cfg!(feature = "off") && self.number != 0
    }
}

impl Drop for AsyncZone {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_active() {
            end_active(self.number);
        }
    }
}

#[cold]
#[inline(never)]
fn end_active(number: u64) {
    // First, and also when nobody records: see there.
    if let Some(arena) = arena::existing() {
        arena.open_async.remove(number);
    }
    if let Ok(mut group) = emit::group(16) {
        group.event(Event::AsyncEnd { zone: number });
    }
}
