//! Writing items: what every kind of event is built on.
//!
//! An event is a **group**: a stamped item and what belongs to it. [`group`]
//! enters the calling thread's ring and guarantees room for so many bytes;
//! items are then written without a check, and dropping the [`Group`] publishes
//! them at once:
//!
//! ```ignore
//! if !crate::enabled() { return; }                    // inline, at the caller
//! // from here on in a #[cold] #[inline(never)] function
//! let Ok(mut group) = emit::group(24 + emit::text_bytes(text)) else { return };
//! let plot = PLOT.number(group.arena());                     // a number of the log
//! group.event(Event::Plot { plot, value });
//! group.text(TextRole::Message, 0, text);
//! ```
//!
//! While a group is open the thread is *busy*: events of signal handlers and
//! allocation hooks that come in between are counted as lost, so nothing called
//! with an open group may emit. Whatever is refused is counted here already;
//! [`EmitRefusal::Fallback`] is the only case in which a caller does something: it
//! hits a probe, if there is one for this kind of event.
//!
//! Losses count events: a group counts one, whatever its number of items.

use crate::arena::Arena;
use crate::log::{self, CachedNumber};
use crate::open_async;
use crate::ring::Entered;
use crate::thread::{self, OPEN_ZONES, OpenZone, Prepared, RingMemory, ThreadState};
use core::sync::atomic::Ordering;
use syscollect_zone_protocol::log::EntryWords;
use syscollect_zone_protocol::{
    self as protocol, Attribute, Event, GpuEvent, Item, ItemWords, StackEnding, TextRole,
    ValueType, stack_words, text_words,
};

/// Bytes of text that one event may carry; the rest is cut.
pub const MAX_TEXT: usize = 4080;
/// Room for `Lost`, `Attached`, the name and the open zones.
const RESTATE_BYTES: u64 = 16 + 16 + 96 + OPEN_ZONES as u64 * 24;

/// While no collector has come, a thread announces its ring again after so many bytes, then after
/// twice as many, and so on: the semaphore is up a moment before the probe is, and an announcement
/// in between is heard by nobody.
const ANNOUNCE_BYTES: u64 = 64;
/// And when its ring is full, after so many losses.
const ANNOUNCE_LOSSES: u64 = 1024;

/// What is stated again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restatement {
    /// What a collector must know of the thread.
    Thread,
    /// And the async zones that are open in the process, to the collector of that number.
    Process(u32),
}

impl Restatement {
    /// What a thread has to state to that collector.
    fn of(state: &ThreadState, collector: u32) -> Self {
        let due = state.arena().is_some_and(|arena| arena.open_async.is_due(collector));
        if due { Self::Process(collector) } else { Self::Thread }
    }

    /// Room for it.
    fn bytes(self) -> u64 {
        match self {
            Self::Thread => RESTATE_BYTES,
            Self::Process(_) => RESTATE_BYTES + open_async::BYTES,
        }
    }
}

/// Why nothing can be written.
pub(crate) enum EmitRefusal {
    /// No room; counted. The thread's depth goes on.
    Lost(&'static ThreadState),
    /// There is no shared memory: events go through probes.
    Fallback(&'static ThreadState),
    /// Nobody records, the thread has ended, or the event came within another; counted where it is
    /// a loss.
    Nothing,
}

/// The right to write items, with room for them. Publishes on drop.
pub(crate) struct Group {
    /// A thread that has a ring.
    pub(crate) state: &'static ThreadState,
    entered: Entered,
}

/// Whether the calling thread's ring has room for `bytes` and for what may have to be stated again;
/// so it is where a ring or who may write is the question.
#[cold]
pub(crate) fn has_room(bytes: u64) -> bool {
    let state = thread::state();
    if !state.has_ring() || state.producer.is_busy() {
        return true;
    }
    let entered = state.producer.enter();
    let mut refreshed = entered;
    // SAFETY: it has a ring.
    let memory = unsafe { state.ring() };
    refreshed.refresh(&memory);
    state.producer.leave_unchanged(entered);
    refreshed.room() >= bytes + RESTATE_BYTES + open_async::BYTES
}

/// Counts an event that could not be made: as if the ring had had no room for it.
#[cfg(feature = "images")]
#[cold]
pub(crate) fn count_lost() {
    // What is refused is counted already. Room for nothing has a thread without a ring, too.
    if let Ok(group) = group(8) {
        group.give_up();
    }
}

/// Enters the calling thread's ring with room for `bytes`.
#[inline(always)]
pub(crate) fn group(bytes: u64) -> Result<Group, EmitRefusal> {
    let state = thread::state();
    if let Some(entered) = state.producer.try_enter(bytes) {
        // SAFETY: where there is room, there is a ring.
        let attached = unsafe { state.header() }.attached.load(Ordering::Relaxed);
        if attached == state.attached.get() {
            return Ok(Group { state, entered });
        }
        state.producer.leave_unchanged(entered);
    }
    group_slow(bytes)
}

/// The first event, a full ring, a new collector, an event within another.
#[cold]
#[inline(never)]
fn group_slow(bytes: u64) -> Result<Group, EmitRefusal> {
    let state = match thread::prepare() {
        Prepared::Ring(state) => state,
        Prepared::NoRing(state) if state.arena().is_some_and(Arena::is_fallback) => {
            return Err(EmitRefusal::Fallback(state));
        }
        Prepared::NoRing(state) => {
            thread::count_without_ring();
            return Err(EmitRefusal::Lost(state));
        }
        Prepared::Nothing => {
            if crate::enabled() {
                thread::count_without_ring();
            }
            return Err(EmitRefusal::Nothing);
        }
    };
    if state.producer.is_busy() {
        state.count_nested();
        return Err(EmitRefusal::Nothing);
    }
    let mut group = Group::enter(state);
    let memory = group.memory();
    group.entered.refresh(&memory);
    // SAFETY: it has a ring.
    let attached = unsafe { state.header() }.attached.load(Ordering::Acquire);
    let restate = state.lossy.get() || attached != state.attached.get();
    let restatement = Restatement::of(state, attached);
    if group.entered.room() < bytes + if restate { restatement.bytes() } else { 0 } {
        group.give_up();
        return Err(EmitRefusal::Lost(state));
    }
    if restate {
        state.attached.set(attached);
        group.restate(restatement);
    }
    if attached == 0 {
        state.announce();
        group.wait_for_collector(bytes);
    }
    Ok(group)
}

/// States a thread to a collector that sees its ring for the first time.
pub(crate) fn state_all(state: &'static ThreadState) {
    let mut group = Group::enter(state);
    let restatement = Restatement::of(state, state.attached.get());
    if group.entered.room() < restatement.bytes() {
        state.lossy.set(true);
        return;
    }
    group.restate(restatement);
    if state.attached.get() == 0 {
        group.wait_for_collector(0);
    }
}

/// States the thread again because something of it changed.
#[cold]
pub(crate) fn restate_now() {
    if let Ok(mut group) = group(RESTATE_BYTES) {
        group.restate(Restatement::Thread);
    }
}

/// The calling thread ends.
pub(crate) fn thread_end() {
    if let Ok(mut group) = group(8) {
        group.event(Event::ThreadEnd);
    }
}

/// Bytes of the items for a text (an upper bound).
pub(crate) fn text_bytes(text: &str) -> u64 {
    text_words(text.len().min(MAX_TEXT)) as u64 * 8
}

/// Bytes of the items for a stack of so many addresses (an upper bound).
pub(crate) fn stack_bytes(addresses: usize) -> u64 {
    stack_words(addresses) as u64 * 8
}

impl Group {
    #[inline(always)]
    fn enter(state: &'static ThreadState) -> Self {
        Self { state, entered: state.producer.enter() }
    }

    /// The ring's memory: asked for where it is used, so that a group is few words, which stay in
    /// registers.
    #[inline(always)]
    fn memory(&self) -> RingMemory {
        // SAFETY: a group is only made of a thread with a ring: where there is room, and after
        // `prepare` has said so, there is one.
        unsafe { self.state.ring() }
    }

    /// The arena whose numbers items name.
    pub(crate) fn arena(&self) -> &'static Arena {
        self.state.arena().unwrap_or_else(|| unreachable!("a thread with a ring has an arena"))
    }

    /// Writes an event with the time that it is now, and returns that time.
    #[inline(always)]
    pub(crate) fn event(&mut self, event: Event) -> u64 {
        let ticks = self.state.ticks();
        self.event_at(ticks, event);
        ticks
    }

    /// Writes an event.
    #[inline(always)]
    pub(crate) fn event_at(&mut self, ticks: u64, event: Event) {
        self.item(Item::Stamped { ticks, event });
    }

    /// Writes a zone's beginning with the time that it is now, and returns that time.
    #[inline(always)]
    pub(crate) fn zone_begin(&mut self, location: u32, depth: u32) -> u64 {
        let ticks = self.state.ticks();
        self.words(ItemWords::zone_begin(ticks, location, depth));
        ticks
    }

    /// Writes a zone's end with the time that it is now.
    #[inline(always)]
    pub(crate) fn zone_end(&mut self, depth: u32) {
        self.words(ItemWords::zone_end(self.state.ticks(), depth as u8));
    }

    /// Writes an event of a GPU with the time that it is now.
    #[inline(always)]
    pub(crate) fn gpu_event(&mut self, event: GpuEvent) {
        self.words(event.encode(self.state.ticks()));
    }

    /// Writes more of the event before.
    #[inline(always)]
    pub(crate) fn attribute(&mut self, attribute: Attribute) {
        self.item(Item::Attribute(attribute));
    }

    /// Writes a text, in as many items as it needs; at most [`MAX_TEXT`] bytes.
    pub(crate) fn text(&mut self, role: TextRole, field: u32, text: &str) {
        let bytes = protocol::log::cut(text.as_bytes(), MAX_TEXT);
        for piece in Attribute::text_pieces(role, field, bytes) {
            self.attribute(piece);
        }
    }

    /// Writes a value of a zone (`field` is a string's number, or [`ZONE_VALUE`]) or of a marker
    /// (the field's place).
    ///
    /// [`ZONE_VALUE`]: syscollect_zone_protocol::ZONE_VALUE
    #[inline(always)]
    pub(crate) fn value(&mut self, field: u32, value: Value) {
        self.attribute(Attribute::Value { field, value: value.into() });
    }

    /// Writes a counted tag.
    #[inline(always)]
    pub(crate) fn tag(&mut self, role: TextRole, text: &StaticString, number: u64) {
        let string = text.number(self.arena());
        self.attribute(Attribute::Tag { role, string, number });
    }

    /// Writes return addresses, innermost first, and how the walk that found them ended.
    pub(crate) fn stack(&mut self, addresses: &[u64], ending: StackEnding) {
        for piece in Attribute::stacks(addresses, ending) {
            self.attribute(piece);
        }
    }

    #[inline(always)]
    fn item(&mut self, item: Item) {
        self.words(item.encode());
    }

    #[inline(always)]
    fn words(&mut self, words: ItemWords) {
        debug_assert!(self.entered.room() >= words.len() as u64 * 8);
        // SAFETY: a group is only made of a thread with a ring, and whoever made this one asked for
        // as much room as its items take.
        unsafe { self.entered.write(&self.state.ring(), words[0], &words[1..]) };
    }

    /// `Lost` if there was a loss, then all that a collector must know.
    fn restate(&mut self, what: Restatement) {
        let state = self.state;
        let lost = state.lost.swap(0, Ordering::Relaxed);
        if lost != 0 {
            self.event(Event::Lost { events: lost });
        }
        state.lossy.set(false);
        let depth = state.depth.get();
        self.event(Event::Attached { depth });
        let name = thread::name();
        if !name.text().is_empty() {
            self.text(TextRole::ThreadName, 0, name.text());
        }
        for (depth, open) in (0..depth).zip(&state.open) {
            let OpenZone { location, ticks } = open.get();
            self.event(Event::OpenZone { location, depth, began: ticks });
        }
        if let Restatement::Process(collector) = what {
            self.restate_async_zones(collector);
        }
    }

    /// The async zones that are open, unless another thread has stated them.
    fn restate_async_zones(&mut self, collector: u32) {
        let zones = &self.arena().open_async;
        if !zones.take_turn(collector) {
            return;
        }
        let now = self.state.ticks();
        for zone in zones.before(now) {
            let (location, number, began) = (zone.location, zone.number, zone.began);
            self.event_at(now, Event::AsyncOpen { location, zone: number, began });
            if zone.task_name != 0 {
                self.attribute(Attribute::TaskName { string: zone.task_name, task: zone.task });
            }
        }
    }

    /// Comes back to [`group_slow`] soon, to announce the ring again, but leaves room for this
    /// group.
    fn wait_for_collector(&mut self, bytes: u64) {
        let announced = self.state.announced.get();
        self.state.announced.set(announced.saturating_add(1));
        self.entered.restrict((ANNOUNCE_BYTES << announced.min(20)).max(bytes));
    }

    /// Nothing fits: counts the event and goes the slow way until there is room.
    fn give_up(self) {
        self.state.lossy.set(true);
        if self.state.count_lost().is_multiple_of(ANNOUNCE_LOSSES) && self.state.attached.get() == 0
        {
            self.state.announce();
        }
        self.state.producer.leave_full(self.entered);
        core::mem::forget(self);
    }
}

impl Drop for Group {
    #[inline(always)]
    fn drop(&mut self) {
        self.state.producer.leave(&self.memory(), self.entered);
    }
}

/// A number that an event carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Unsigned.
    Unsigned(u64),
    /// Signed.
    Signed(i64),
    /// A double.
    Float(f64),
}

impl Value {
    /// How its bits are read.
    pub fn kind(self) -> ValueType {
        protocol::Value::from(self).value_type()
    }

    /// Its bits.
    pub fn bits(self) -> u64 {
        protocol::Value::from(self).bits()
    }

    /// The nearest double.
    pub fn as_float(self) -> f64 {
        match self {
            Self::Unsigned(value) => value as f64,
            Self::Signed(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

impl From<Value> for protocol::Value {
    #[inline(always)]
    fn from(value: Value) -> Self {
        match value {
            Value::Unsigned(value) => Self::Unsigned(value),
            Value::Signed(value) => Self::Signed(value),
            Value::Float(value) => Self::Float(value),
        }
    }
}

macro_rules! value_from {
    ($($variant:ident($wide:ty): $($narrow:ty),*;)*) => {$($(
        impl From<$narrow> for Value {
            fn from(value: $narrow) -> Self {
                Self::$variant(value as $wide)
            }
        }
    )*)*};
}
value_from! {
    Unsigned(u64): u8, u16, u32, u64, usize, bool;
    Signed(i64): i8, i16, i32, i64, isize;
    Float(f64): f32, f64;
}

/// A text that is entered in the log once, at its first use.
pub struct StaticString {
    text: &'static str,
    number: CachedNumber,
}

impl StaticString {
    /// A text with no number yet.
    pub const fn new(text: &'static str) -> Self {
        Self { text, number: CachedNumber::new() }
    }

    /// The text.
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// Its number in that arena's log, 0 if the log is full.
    pub(crate) fn number(&self, arena: &Arena) -> u32 {
        self.number.or_define(arena, || string(arena, self.text))
    }
}

/// The number of a text that is known only now; the same text gets the same number.
pub(crate) fn string(arena: &Arena, text: &str) -> u32 {
    if text.is_empty() { 0 } else { log::define(EntryWords::new().string(text), arena) }
}
