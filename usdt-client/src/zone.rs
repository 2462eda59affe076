//! Zones: what a thread does from here to there.

use crate::arch::registers::Registers;
use crate::emit::{self, EmitRefusal, StaticString, Value};
use crate::fallback;
use crate::location::{CachedLocation, DynamicLocation, Location, ZoneLocation};
use crate::stack::{MAX_ADDRESSES, Stack};
use crate::text::TextBuffer;
use crate::thread;
use core::fmt;
use core::marker::PhantomData;
use syscollect_zone_protocol::{Attribute, TextRole, ZONE_VALUE};

/// A zone that was begun by hand: give it to [`end`] on the same thread.
///
/// One that was begun while nobody recorded, or by a condition that did not
/// hold, is not active; ending it does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct ZoneToken(pub(crate) u32);

impl ZoneToken {
    /// The token of no zone.
    pub const INACTIVE: Self = Self(u32::MAX);

    /// Whether there is a zone to end.
    #[inline(always)]
    pub fn is_active(self) -> bool {
        self.0 != u32::MAX
    }

    /// For C: the token as a number.
    pub const fn to_number(self) -> u32 {
        self.0
    }

    /// For C: the token of that number.
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// Begins a zone by hand; the guard of [`zone!`](crate::zone!) is safer.
#[inline(always)]
pub fn begin(location: &'static Location) -> ZoneToken {
    if crate::enabled() { begin_enabled(location) } else { ZoneToken::INACTIVE }
}

/// Begins a zone and records from where it was called, which takes microseconds.
#[inline(always)]
pub fn begin_with_stack(location: &'static Location) -> ZoneToken {
    if crate::enabled() { begin_stack_enabled(location) } else { ZoneToken::INACTIVE }
}

/// Begins a zone at a place that is known only now.
#[inline(always)]
pub fn begin_dynamic(location: &DynamicLocation<'_>) -> ZoneToken {
    if crate::enabled() { begin_at(location) } else { ZoneToken::INACTIVE }
}

/// Begins a zone at a place that was known only at run time, and is used again and again.
#[inline(always)]
pub fn begin_cached(location: &CachedLocation<'_>) -> ZoneToken {
    if crate::enabled() { begin_at(location) } else { ZoneToken::INACTIVE }
}

/// Ends a zone, and those within it that are still open.
#[inline(always)]
pub fn end(token: ZoneToken) {
    if token.is_active() && !cfg!(feature = "off") {
        end_active(token);
    }
}

#[cold]
#[inline(never)]
fn begin_enabled(location: &'static Location) -> ZoneToken {
    match emit::group(16) {
        Ok(mut group) => {
            let known = location.cached(group.state.generation.get());
            let number = known.unwrap_or_else(|| location.number(group.arena()));
            write_begin(&mut group, number)
        }
        Err(refused) => begin_refused(refused, location),
    }
}

/// Begins a zone; the caller has seen that somebody records.
#[cold]
#[inline(never)]
pub(crate) fn begin_at(place: &impl ZoneLocation) -> ZoneToken {
    match emit::group(16) {
        Ok(mut group) => {
            let number = place.number(group.arena());
            write_begin(&mut group, number)
        }
        Err(refused) => begin_refused(refused, place),
    }
}

#[cold]
#[inline(never)]
fn begin_stack_enabled(location: &'static Location) -> ZoneToken {
    begin_stack_at(location, &Registers::here())
}

/// Begins a zone with the callers of the function that has these registers.
#[inline(never)]
pub(crate) fn begin_stack_at(place: &impl ZoneLocation, registers: &Registers) -> ZoneToken {
    let mut addresses = [0; MAX_ADDRESSES];
    let stack = Stack::of_callers(registers, &mut addresses);
    match emit::group(16 + emit::stack_bytes(stack.addresses().len())) {
        Ok(mut group) => {
            let number = place.number(group.arena());
            let token = write_begin(&mut group, number);
            group.stack(stack.addresses(), stack.ending());
            token
        }
        Err(_) => begin_at(place),
    }
}

/// The zone is open.
#[inline(always)]
fn write_begin(group: &mut emit::Group, location: u32) -> ZoneToken {
    let state = group.state;
    let depth = state.depth.get();
    let ticks = group.zone_begin(location, depth);
    ZoneToken(state.push(location, ticks))
}

/// A zone that cannot be written counts all the same, so that its end matches.
#[cold]
fn begin_refused(refused: EmitRefusal, place: &dyn ZoneLocation) -> ZoneToken {
    match refused {
        EmitRefusal::Lost(state) => {
            let location = state.arena().map_or(0, |arena| place.number(arena));
            ZoneToken(state.push(location, state.ticks()))
        }
        EmitRefusal::Fallback(state) => {
            let token = ZoneToken(state.push(0, 0));
            fallback::zone_begin(&place.definition());
            token
        }
        EmitRefusal::Nothing => ZoneToken::INACTIVE,
    }
}

#[cold]
#[inline(never)]
fn end_active(ZoneToken(depth): ZoneToken) {
    let state = thread::state();
    if depth >= state.depth.get() {
        // An outer zone's end has ended it, or it is another thread's, or the parent's of a fork.
        return;
    }
    match emit::group(8) {
        Ok(mut group) => {
            group.zone_end(depth);
            state.depth.set(depth);
        }
        Err(refused) => {
            state.depth.set(depth);
            if let EmitRefusal::Fallback(_) = refused {
                fallback::zone_end(depth);
            }
        }
    }
}

/// A zone that ends when this is dropped. Made by [`zone!`](crate::zone!).
///
/// What is said of a zone ([`Self::text`], ...) is recorded while it is the
/// innermost that is open on its thread; through an outer zone's guard it is not.
#[must_use = "a zone ends when its guard is dropped: bind it, `let _zone = zone!(...)`"]
#[derive(Debug)]
pub struct Zone {
    token: ZoneToken,
    /// Zones belong to the thread that began them.
    _not_send: PhantomData<*const ()>,
}

impl Drop for Zone {
    #[inline(always)]
    fn drop(&mut self) {
        end(self.token);
    }
}

impl Zone {
    /// The guard of a zone that was begun by hand.
    #[inline(always)]
    pub fn from_token(token: ZoneToken) -> Self {
        Self { token, _not_send: PhantomData }
    }

    /// Begins a zone.
    #[inline(always)]
    pub fn begin(location: &'static Location) -> Self {
        Self::from_token(begin(location))
    }

    /// Begins a zone at a place that is known only now.
    #[inline(always)]
    pub fn begin_dynamic(location: &DynamicLocation<'_>) -> Self {
        Self::from_token(begin_dynamic(location))
    }

    /// Whether it is recorded: whether what is said of it is worth computing.
    #[inline(always)]
    pub fn is_active(&self) -> bool {
        !cfg!(feature = "off") && self.token.is_active()
    }

    /// The zone as a token.
    pub fn token(&self) -> ZoneToken {
        self.token
    }

    /// Adds words.
    #[inline]
    pub fn text(&self, text: &str) {
        set_text(self.token, TextRole::ZoneText, text);
    }

    /// Adds formatted words, without a heap; at most 1 KiB.
    #[inline]
    pub fn text_fmt(&self, text: fmt::Arguments<'_>) {
        if self.is_active() {
            self.text(TextBuffer::format(text).text());
        }
    }

    /// Gives it another name.
    #[inline]
    pub fn name(&self, name: &str) {
        set_text(self.token, TextRole::ZoneName, name);
    }

    /// Adds a number.
    #[inline]
    pub fn value(&self, value: impl Into<Value>) {
        set_value(self.token, value.into());
    }

    /// Adds a number that has a name.
    #[inline]
    pub fn field(&self, name: &'static StaticString, value: impl Into<Value>) {
        if self.is_active() {
            set_field(self.token, name, value.into());
        }
    }

    /// Gives it a colour, 0xRRGGBB.
    #[inline]
    pub fn color(&self, color: u32) {
        set_color(self.token, color);
    }

    /// Adds a counted tag: "Frame 1234" is the text "Frame", which is sent once, and a number.
    #[inline]
    pub fn tag(&self, text: &'static StaticString, number: u64) {
        if self.is_active() {
            set_tag(self.token, text, number);
        }
    }
}

/// Says something of the zone if it is the innermost.
#[inline(always)]
fn annotate(ZoneToken(depth): ZoneToken, bytes: u64, write: impl FnOnce(&mut emit::Group)) {
    if thread::state().depth.get() == depth.wrapping_add(1)
        && let Ok(mut group) = emit::group(bytes)
    {
        write(&mut group);
    }
}

/// Adds words or another name to the zone of that token.
#[cold]
#[inline(never)]
pub fn set_text(token: ZoneToken, role: TextRole, text: &str) {
    if token.is_active() && !cfg!(feature = "off") {
        annotate(token, emit::text_bytes(text), |group| group.text(role, 0, text));
    }
}

/// Adds a number to the zone of that token.
#[cold]
#[inline(never)]
pub fn set_value(token: ZoneToken, value: Value) {
    if token.is_active() && !cfg!(feature = "off") {
        annotate(token, 16, |group| group.value(ZONE_VALUE, value));
    }
}

/// Gives the zone of that token a colour, 0xRRGGBB.
#[cold]
#[inline(never)]
pub fn set_color(token: ZoneToken, color: u32) {
    if token.is_active() && !cfg!(feature = "off") {
        annotate(token, 8, |group| group.attribute(Attribute::Color(color)));
    }
}

#[cold]
#[inline(never)]
fn set_field(token: ZoneToken, name: &'static StaticString, value: Value) {
    annotate(token, 16, |group| {
        let name = name.number(group.arena());
        group.value(name, value);
    });
}

/// Adds a number that has a name, which is known only now, to the zone of that token.
#[cold]
#[inline(never)]
pub fn set_field_dynamic(token: ZoneToken, name: &str, value: Value) {
    if token.is_active() && !cfg!(feature = "off") {
        annotate(token, 16, |group| {
            let name = emit::string(group.arena(), name);
            group.value(name, value);
        });
    }
}

/// Adds a counted tag to the zone of that token.
#[cold]
#[inline(never)]
pub(crate) fn set_tag(token: ZoneToken, text: &StaticString, number: u64) {
    if token.is_active() && !cfg!(feature = "off") {
        annotate(token, 16, |group| group.tag(TextRole::ZoneText, text, number));
    }
}

/// Begins a zone that ends when the returned guard is dropped.
///
/// ```
/// use syscollect_usdt_client::zone;
///
/// # let (verbose, count) = (true, 3);
/// let _all = zone!();                              // named by the function
/// let load = zone!("load", color = 0xff8000);
/// load.value(count as u64);
/// let _stack = zone!("rare", stack);               // with the call stack
/// let _some = zone!("details", if verbose);        // only if the condition holds
/// ```
///
/// The name is a constant; `Zone::name` gives another one at run time. The
/// condition is not evaluated while nobody records.
#[macro_export]
macro_rules! zone {
    () => {
        $crate::zone!("")
    };
    ($name:expr) => {
        $crate::Zone::begin($crate::location!($name))
    };
    ($name:expr, color = $color:expr) => {
        $crate::Zone::begin($crate::location!($name, $color))
    };
    ($name:expr, stack) => {
        $crate::zone!($name, color = 0, stack)
    };
    ($name:expr, color = $color:expr, stack) => {
        $crate::Zone::from_token($crate::zone::begin_with_stack($crate::location!($name, $color)))
    };
    ($name:expr, if $condition:expr) => {
        $crate::zone!($name, color = 0, if $condition)
    };
    ($name:expr, color = $color:expr, if $condition:expr) => {
        $crate::Zone::from_token(if $crate::enabled() && $condition {
            $crate::zone::begin($crate::location!($name, $color))
        } else {
            $crate::ZoneToken::INACTIVE
        })
    };
}
