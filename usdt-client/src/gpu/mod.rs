//! Work of GPUs: zones that the program submits and the GPU does later.
//!
//! A [`GpuContext`] stands for a queue of a device, or for a context of a programming interface. A
//! [`GpuZone`] begins and ends where the program submits work, as a zone of a thread does. When the
//! GPU did it is told later ([`GpuContext::resolve`]), from any thread, in any order. How the GPU's
//! clock goes with the host's is told now and then ([`GpuContext::calibrate`]). This module calls
//! no programming interface: the program writes time stamp queries and reads them, for which
//! [`QueryRing`] keeps the books.
//!
//! ```
//! use syscollect_usdt_client::location;
//! use syscollect_usdt_client::gpu::{GpuApi, GpuContext, GpuTicks, HostTime, QueryRing};
//!
//! let ticks = GpuTicks { nanoseconds: 52.083, bits: 36 };
//! let queue = GpuContext::new(GpuApi::Vulkan, "graphics queue", ticks);
//! let mut queries = QueryRing::<_, 256>::new();
//!
//! let zone = queue.begin(location!("shadows"));
//! let pair = queries.take(zone.id());
//! // Write the time stamp of `pair.begin()`, record the work, write that of `pair.end()`.
//! drop(zone);
//!
//! queue.calibrate(HostTime::Now, 1_000, 500); // what the GPU's clock is now, within 500 ns
//!
//! // Some frames later: what is there is read, and nothing is waited for.
//! queries.resolve(
//!     |queries, values| values.fill(Some(u64::from(queries.start) + 2_000)),
//!     |zone, times| queue.resolve(zone, times.began, times.ended),
//! );
//! ```

mod query_ring;

use crate::arch::registers::Registers;
use crate::clock;
use crate::emit::{self, Group, StaticString};
use crate::location::{Location, ZoneLocation};
use crate::log::{self, CachedNumber};
use crate::stack::{MAX_ADDRESSES, Stack};
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, Ordering};
use syscollect_zone_protocol::log::{self as protocol, EntryWords};
use syscollect_zone_protocol::{
    Attribute, GpuEvent, GpuZoneNumber, HostClock, MAX_DEVIATION, TextRole,
};

#[cfg(feature = "c")]
pub(crate) use query_ring::{QueryBooks, Slot};
pub use query_ring::{QueryPair, QueryRing, QueryTimes};
pub use syscollect_zone_protocol::GpuApi;

/// Bytes of a context's name; the rest is cut.
const NAME_BYTES: usize = 64;
/// Femtoseconds of a nanosecond.
const FEMTOSECONDS: f64 = 1e6;

/// Tells contexts of one name apart.
static NEXT_SERIAL: AtomicU32 = AtomicU32::new(1);

/// How a GPU counts time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuTicks {
    /// How long a tick takes, nanoseconds (Vulkan: `timestampPeriod`).
    pub nanoseconds: f64,
    /// Bits that count; the ticks wrap behind them (Vulkan: `timestampValidBits`).
    pub bits: u32,
}

impl GpuTicks {
    /// Nanoseconds in 64 bits, as OpenGL, OpenCL and Metal have them.
    pub const NANOSECONDS: Self = Self { nanoseconds: 1.0, bits: 64 };
}

/// A queue of a GPU, or a context of a programming interface: what has a clock and zones.
#[derive(Debug)]
pub struct GpuContext {
    api: GpuApi,
    ticks: GpuTicks,
    /// The thread it belongs to; 0 is none.
    owner: u32,
    serial: u32,
    name: [u8; NAME_BYTES],
    name_bytes: usize,
    number: CachedNumber,
}

/// A zone's number in the process, by which its times are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuZoneId(u32);

impl GpuZoneId {
    /// The id of no zone: nobody recorded when it began.
    pub const INACTIVE: Self = Self(0);

    /// Whether somebody wants to know its times.
    #[inline(always)]
    pub fn is_active(self) -> bool {
        !cfg!(feature = "off") && self.0 != 0
    }

    /// For C: the id as a number.
    pub const fn to_number(self) -> u32 {
        self.0
    }

    /// For C: the id of that number.
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// A moment on a clock of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostTime {
    /// Now.
    Now,
    /// As [`crate::ticks`] gave it.
    Ticks(u64),
    /// CLOCK_MONOTONIC, nanoseconds (Vulkan: `VK_TIME_DOMAIN_CLOCK_MONOTONIC`).
    Monotonic(u64),
}

/// What is said of a zone where it begins; what is empty or 0 is not said.
#[derive(Clone, Copy, Debug, Default)]
pub struct GpuZoneDetails<'a> {
    /// Another name than the location's.
    pub name: &'a str,
    /// Words.
    pub text: &'a str,
    /// 0xRRGGBB; 0 leaves it to the location.
    pub color: u32,
    /// A counted tag: "Frame 1234" is the text "Frame", which is sent once, and a number.
    pub tag: Option<GpuZoneTag<'a>>,
}

/// A text that occurs often and a number.
#[derive(Clone, Copy)]
pub struct GpuZoneTag<'a> {
    /// The text.
    pub text: &'a StaticString,
    /// The number.
    pub number: u64,
}

impl fmt::Debug for GpuZoneTag<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.text.text(), self.number)
    }
}

impl GpuContext {
    /// A context; of its name the first 64 bytes count.
    pub fn new(api: GpuApi, name: &str, ticks: GpuTicks) -> Self {
        let mut bytes = [0; NAME_BYTES];
        let name = protocol::cut(name.as_bytes(), NAME_BYTES);
        bytes[..name.len()].copy_from_slice(name);
        Self {
            api,
            ticks,
            owner: 0,
            serial: NEXT_SERIAL.fetch_add(1, Ordering::Relaxed),
            name: bytes,
            name_bytes: name.len(),
            number: CachedNumber::new(),
        }
    }

    /// The same, which only the thread of that id submits to (OpenGL: where it is current).
    #[must_use]
    pub fn owned_by(mut self, thread: u32) -> Self {
        self.owner = thread;
        self
    }

    /// Begins a zone: what is submitted until its guard is dropped belongs to it.
    #[inline(always)]
    pub fn begin(&self, location: &'static Location) -> GpuZone<'_> {
        let id = if crate::enabled() { self.begin_enabled(location) } else { GpuZoneId::INACTIVE };
        GpuZone { context: self, id, _not_send: PhantomData }
    }

    /// Begins a zone of which more is said.
    #[inline(always)]
    pub fn begin_with(
        &self,
        location: &'static Location,
        details: &GpuZoneDetails<'_>,
    ) -> GpuZone<'_> {
        let id = if crate::enabled() {
            self.begin_detailed(location, details)
        } else {
            GpuZoneId::INACTIVE
        };
        GpuZone { context: self, id, _not_send: PhantomData }
    }

    /// Begins a zone and records from where it was called, which takes microseconds.
    #[inline(always)]
    pub fn begin_with_stack(&self, location: &'static Location) -> GpuZone<'_> {
        let id =
            if crate::enabled() { self.begin_stack_enabled(location) } else { GpuZoneId::INACTIVE };
        GpuZone { context: self, id, _not_send: PhantomData }
    }

    /// Tells when the GPU did the work of a zone, in its ticks. Once for each zone; from any
    /// thread.
    #[inline(always)]
    pub fn resolve(&self, zone: GpuZoneId, began: u64, ended: u64) {
        if zone.is_active() && crate::enabled() {
            self.resolve_enabled(zone, began, ended);
        }
    }

    /// Tells that nobody will know when the GPU did it: the device is lost, the query was not
    /// written.
    #[inline(always)]
    pub fn resolve_without_times(&self, zone: GpuZoneId) {
        if zone.is_active() && crate::enabled() {
            self.write(|zone| GpuEvent::NoTimes { zone }, zone);
        }
    }

    /// Tells what the GPU's clock was, in its ticks, when the host's was that, and how many
    /// nanoseconds the two readings may lie apart. At the beginning, and now and then (once a
    /// second will do), because the clocks drift apart.
    #[inline(always)]
    pub fn calibrate(&self, host: HostTime, gpu: u64, deviation: u64) {
        if crate::enabled() {
            self.calibrate_enabled(host, gpu, deviation);
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_enabled(&self, location: &'static Location) -> GpuZoneId {
        let Ok(mut group) = emit::group(24) else { return GpuZoneId::INACTIVE };
        let known = location.cached(group.state.generation.get());
        let location = known.unwrap_or_else(|| location.number(group.arena()));
        self.write_begin(&mut group, location)
    }

    /// Begins a zone; the caller has seen that somebody records.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin_detailed(
        &self,
        location: &impl ZoneLocation,
        details: &GpuZoneDetails<'_>,
    ) -> GpuZoneId {
        let GpuZoneDetails { name, text, color, tag } = *details;
        let bytes = 24 + 8 + 16 + emit::text_bytes(name) + emit::text_bytes(text);
        let Ok(mut group) = emit::group(bytes) else { return GpuZoneId::INACTIVE };
        let location = location.number(group.arena());
        let id = self.write_begin(&mut group, location);
        if !name.is_empty() {
            group.text(TextRole::ZoneName, 0, name);
        }
        if !text.is_empty() {
            group.text(TextRole::ZoneText, 0, text);
        }
        if color != 0 {
            group.attribute(Attribute::Color(color));
        }
        if let Some(GpuZoneTag { text, number }) = tag {
            group.tag(TextRole::ZoneText, text, number);
        }
        id
    }

    #[cold]
    #[inline(never)]
    fn begin_stack_enabled(&self, location: &'static Location) -> GpuZoneId {
        self.begin_stack_at(location, &Registers::here())
    }

    /// Begins a zone with the callers of the function that has these registers.
    #[inline(never)]
    pub(crate) fn begin_stack_at(
        &self,
        location: &impl ZoneLocation,
        registers: &Registers,
    ) -> GpuZoneId {
        let mut addresses = [0; MAX_ADDRESSES];
        let stack = Stack::of_callers(registers, &mut addresses);
        let bytes = 24 + emit::stack_bytes(stack.addresses().len());
        let Ok(mut group) = emit::group(bytes) else { return GpuZoneId::INACTIVE };
        let location = location.number(group.arena());
        let id = self.write_begin(&mut group, location);
        group.stack(stack.addresses(), stack.ending());
        id
    }

    #[inline(always)]
    fn write_begin(&self, group: &mut Group, location: u32) -> GpuZoneId {
        let context = self.number(group);
        let number = group.state.gpu_numbers.take();
        let zone = GpuZoneNumber { context, number };
        group.gpu_event(GpuEvent::ZoneBegin { zone, location });
        GpuZoneId(number)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn end_active(&self, zone: GpuZoneId) {
        self.write(|zone| GpuEvent::ZoneEnd { zone }, zone);
    }

    #[cold]
    #[inline(never)]
    fn resolve_enabled(&self, zone: GpuZoneId, began: u64, ended: u64) {
        self.write(|zone| GpuEvent::Times { zone, began, ended }, zone);
    }

    #[cold]
    #[inline(never)]
    fn calibrate_enabled(&self, host: HostTime, gpu: u64, deviation: u64) {
        // Before all else: a thread's first event takes its time.
        let now = clock::ticks();
        let Ok(mut group) = emit::group(32) else { return };
        let context = self.number(&group);
        let (clock, host) = match host {
            HostTime::Now => (HostClock::Ticks, now),
            HostTime::Ticks(ticks) => (HostClock::Ticks, ticks),
            HostTime::Monotonic(nanoseconds) => (HostClock::Monotonic, nanoseconds),
        };
        let deviation = u32::try_from(deviation).unwrap_or(MAX_DEVIATION).min(MAX_DEVIATION);
        group.gpu_event(GpuEvent::Calibration { context, clock, deviation, host, gpu });
    }

    /// Writes what is said of a zone.
    #[inline(always)]
    fn write(&self, event: impl FnOnce(GpuZoneNumber) -> GpuEvent, GpuZoneId(number): GpuZoneId) {
        if let Ok(mut group) = emit::group(32) {
            let context = self.number(&group);
            group.gpu_event(event(GpuZoneNumber { context, number }));
        }
    }

    /// Its number in the log.
    #[inline(always)]
    fn number(&self, group: &Group) -> u32 {
        let known = self.number.get(group.state.generation.get());
        known.unwrap_or_else(|| self.define(group))
    }

    #[cold]
    #[inline(never)]
    fn define(&self, group: &Group) -> u32 {
        let arena = group.arena();
        self.number.or_define(arena, || {
            let femtoseconds = self.ticks.nanoseconds * FEMTOSECONDS;
            let context = protocol::GpuContext {
                api: self.api,
                tick_bits: self.ticks.bits.clamp(1, 64),
                tick_femtoseconds: (femtoseconds.round() as u64).max(1),
                owner: self.owner,
                serial: self.serial,
                name: &self.name[..self.name_bytes],
            };
            log::define(EntryWords::new().gpu_context(context), arena)
        })
    }
}

/// A zone that is submitted; its end is where this is dropped.
#[must_use = "what is submitted until its guard is dropped belongs to the zone"]
#[derive(Debug)]
pub struct GpuZone<'c> {
    context: &'c GpuContext,
    id: GpuZoneId,
    /// The thread that begins to submit it ends that.
    _not_send: PhantomData<*const ()>,
}

impl GpuZone<'_> {
    /// By what its times are told later. Where it is inactive, no query has to be written.
    #[inline(always)]
    pub fn id(&self) -> GpuZoneId {
        self.id
    }
}

impl Drop for GpuZone<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.id.is_active() {
            self.context.end_active(self.id);
        }
    }
}
