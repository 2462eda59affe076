//! What C calls: the functions that `include/syscollect.h` declares.
//!
//! The header asks the semaphore itself, so these run only while somebody
//! records, but for those that prepare something. Texts end with a zero or have a length; what is
//! not UTF-8 is cut where it begins. Null and numbers that mean nothing do nothing.

mod async_zone;
mod counter;
mod event_loop;
#[cfg(feature = "images")]
mod frame_image;
mod gpu;
mod gpu_queries;
mod lock;
mod marker;
mod memory;

pub use self::async_zone::*;
pub use self::counter::*;
pub use self::event_loop::*;
#[cfg(feature = "images")]
pub use self::frame_image::*;
pub use self::gpu::*;
pub use self::gpu_queries::*;
pub use self::lock::*;
pub use self::marker::*;
pub use self::memory::*;

use crate::arch::registers::Registers;
use crate::arena::Arena;
use crate::emit::{self, MAX_TEXT, StaticString, Value};
use crate::location::{DynamicLocation, ZoneLocation};
use crate::log::CachedNumber;
use crate::zone::{self, ZoneToken};
use crate::{clock, crash, frame, message, plot, semaphore};
use core::ffi::c_char;
use core::sync::atomic::AtomicU16;
use syscollect_zone_protocol::{FramePhase, TextRole, ValueType};

/// Where the semaphore is. Not the semaphore itself: of a library's data a
/// program may have a copy, which the kernel does not know.
#[unsafe(export_name = "syscollect_semaphore")]
pub static SEMAPHORE: &AtomicU16 = &semaphore::SEMAPHORE.count;

/// `struct syscollect_location`.
#[repr(C)]
pub struct CLocation {
    name: *const c_char,
    function: *const c_char,
    file: *const c_char,
    line: u32,
    color: u32,
    number: CachedNumber,
}

/// `struct syscollect_plot`.
#[repr(C)]
pub struct CPlot {
    name: *const c_char,
    unit: *const c_char,
    number: CachedNumber,
}

/// `struct syscollect_frames`.
#[repr(C)]
pub struct CFrames {
    name: *const c_char,
    number: CachedNumber,
}

/// A text of C: up to its zero, or to what is not UTF-8; null is empty.
///
/// # Safety
/// Null, or a text that ends with a zero and lasts as long as the result.
unsafe fn text<'a>(text: *const c_char) -> &'a str {
    // SAFETY: as the caller says.
    unsafe { sized_text(text, usize::MAX) }
}

/// A text of C with a length: up to there, or to a zero before it. No more is read than can be
/// recorded.
///
/// # Safety
/// Null, or a text that has that length or ends with a zero, and lasts as long as the result.
unsafe fn sized_text<'a>(text: *const c_char, length: usize) -> &'a str {
    if text.is_null() {
        return "";
    }
    // SAFETY: reads as far as the caller says, or to a zero.
    let length = unsafe { libc::strnlen(text, length.min(MAX_TEXT)) };
    // SAFETY: so many bytes are there, none of them zero.
    let bytes = unsafe { core::slice::from_raw_parts(text.cast::<u8>(), length) };
    bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

impl ZoneLocation for CLocation {
    fn definition(&self) -> DynamicLocation<'_> {
        // SAFETY: the header's macros give constant texts; whoever fills the struct by hand
        // promises the same.
        let (name, function, file) =
            unsafe { (text(self.name), text(self.function), text(self.file)) };
        let name = if name.is_empty() { function } else { name };
        DynamicLocation { name, function, file, line: self.line, color: self.color }
    }

    fn number(&self, arena: &Arena) -> u32 {
        self.number.or_define(arena, || self.definition().number(arena))
    }
}

/// Begins a zone; the result ends it.
///
/// # Safety
/// The location and its texts last as long as the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_zone_begin_recorded(location: *const CLocation) -> u32 {
    // SAFETY: as the caller says.
    let location = unsafe { location.as_ref() };
    location.map_or(ZoneToken::INACTIVE, zone::begin_at).to_number()
}

/// Begins a zone and records from where this was called.
///
/// # Safety
/// As for the one above.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn syscollect_zone_begin_stack_recorded(location: *const CLocation) -> u32 {
    // SAFETY: as the caller says.
    let location = unsafe { location.as_ref() };
    // Here, in the function that is called, and in no other that it calls.
    let registers = Registers::here();
    let begin = |location| zone::begin_stack_at(location, &registers);
    location.map_or(ZoneToken::INACTIVE, begin).to_number()
}

/// Begins a zone at a place whose texts are needed for this call only.
///
/// # Safety
/// Each text is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_zone_begin_dynamic_recorded(
    name: *const c_char,
    function: *const c_char,
    file: *const c_char,
    line: u32,
    color: u32,
) -> u32 {
    // SAFETY: as the caller says.
    let (name, function, file) = unsafe { (text(name), text(function), text(file)) };
    let name = if name.is_empty() { function } else { name };
    zone::begin_at(&DynamicLocation { name, function, file, line, color }).to_number()
}

/// Ends a zone.
#[unsafe(no_mangle)]
pub extern "C" fn syscollect_zone_end_recorded(zone: u32) {
    zone::end(ZoneToken::from_number(zone));
}

/// Adds words to a zone.
///
/// # Safety
/// Null, or a text that has that length or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_zone_text_recorded(
    zone: u32,
    words: *const c_char,
    length: usize,
) {
    // SAFETY: as the caller says.
    let words = unsafe { sized_text(words, length) };
    zone::set_text(ZoneToken::from_number(zone), TextRole::ZoneText, words);
}

/// Gives a zone another name.
///
/// # Safety
/// Null, or a text that has that length or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_zone_name_recorded(
    zone: u32,
    name: *const c_char,
    length: usize,
) {
    // SAFETY: as the caller says.
    let name = unsafe { sized_text(name, length) };
    zone::set_text(ZoneToken::from_number(zone), TextRole::ZoneName, name);
}

/// Gives a zone a colour.
#[unsafe(no_mangle)]
pub extern "C" fn syscollect_zone_color_recorded(zone: u32, color: u32) {
    zone::set_color(ZoneToken::from_number(zone), color);
}

/// Adds a number that has a name to a zone.
///
/// # Safety
/// Null, or a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_zone_field_recorded(
    zone: u32,
    name: *const c_char,
    kind: u8,
    bits: u64,
) {
    // SAFETY: as the caller says.
    let name = unsafe { text(name) };
    zone::set_field_dynamic(ZoneToken::from_number(zone), name, value(kind, bits));
}

/// Adds a counted tag to a zone.
///
/// # Safety
/// Null, or a text that ends with a zero and lasts as long as the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_zone_tag_recorded(
    zone: u32,
    words: *const c_char,
    number: u64,
) {
    // SAFETY: as the caller says.
    let tag = StaticString::new(unsafe { text(words) });
    zone::set_tag(ZoneToken::from_number(zone), &tag, number);
}

/// Adds a number to a zone.
#[unsafe(no_mangle)]
pub extern "C" fn syscollect_zone_value_recorded(zone: u32, kind: u8, bits: u64) {
    zone::set_value(ZoneToken::from_number(zone), value(kind, bits));
}

/// Records a message.
///
/// # Safety
/// Null, or a text that has that length or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_message_recorded(
    words: *const c_char,
    length: usize,
    color: u32,
) {
    // SAFETY: as the caller says.
    message::message(unsafe { sized_text(words, length) }, color);
}

/// Records a counted tag as a message.
///
/// # Safety
/// Null, or a text that ends with a zero and lasts as long as the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_message_tag_recorded(words: *const c_char, number: u64) {
    // SAFETY: as the caller says.
    message::tag_enabled(&StaticString::new(unsafe { text(words) }), number);
}

/// Records a plot's value.
///
/// # Safety
/// The plot and its texts last as long as the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_plot_recorded(plot: *const CPlot, kind: u8, bits: u64) {
    // SAFETY: as the caller says.
    if let Some(plot) = unsafe { plot.as_ref() } {
        // SAFETY: as the caller says.
        let (name, unit) = unsafe { (text(plot.name), text(plot.unit)) };
        plot::record(&plot.number, name, unit, value(kind, bits));
    }
}

/// Records a value of a plot whose texts are needed for this call only.
///
/// # Safety
/// Each text is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_plot_dynamic_recorded(
    name: *const c_char,
    unit: *const c_char,
    kind: u8,
    bits: u64,
) {
    // SAFETY: as the caller says.
    let (name, unit) = unsafe { (text(name), text(unit)) };
    plot::set_dynamic(name, unit, value(kind, bits));
}

/// Records a frame's end (0), or the begin (1) or end (2) of one with gaps.
///
/// # Safety
/// The set and its name last as long as the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_frame_recorded(frames: *const CFrames, phase: u8) {
    // SAFETY: as the caller says.
    let (Some(frames), Some(phase)) = (unsafe { frames.as_ref() }, FramePhase::from_number(phase))
    else {
        return;
    };
    // SAFETY: as the caller says.
    let name = unsafe { text(frames.name) };
    frame::record(phase, name, |arena| {
        frames.number.or_define(arena, || emit::string(arena, name))
    });
}

/// Records the same of a set whose name is needed for this call only.
///
/// # Safety
/// Null, or a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_frame_dynamic_recorded(name: *const c_char, phase: u8) {
    if let Some(phase) = FramePhase::from_number(phase) {
        // SAFETY: as the caller says.
        let name = unsafe { text(name) };
        frame::record(phase, name, |arena| emit::string(arena, name));
    }
}

/// Names the calling thread, also for collectors that come later.
///
/// # Safety
/// Null, or a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_thread_name(name: *const c_char) {
    // SAFETY: as the caller says.
    message::set_thread_name(unsafe { text(name) });
}

/// Now, on the clock that stamps events.
#[unsafe(no_mangle)]
pub extern "C" fn syscollect_ticks() -> u64 {
    clock::ticks()
}

/// Has crashes recorded from now on.
#[unsafe(no_mangle)]
pub extern "C" fn syscollect_crash_handler_install() {
    crash::install();
}

fn value(kind: u8, bits: u64) -> Value {
    match ValueType::from_number(kind) {
        Some(ValueType::Signed) => Value::Signed(bits as i64),
        Some(ValueType::Float) => Value::Float(f64::from_bits(bits)),
        _ => Value::Unsigned(bits),
    }
}
