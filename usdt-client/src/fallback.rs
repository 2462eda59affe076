//! Events where there is no shared memory: each hits a probe of its own.
//!
//! Slower by far, and only zones, messages, plots and frames: what is said of
//! a zone, locks, allocations and markers are not recorded.

use crate::arch::probe_site;
use crate::location::DynamicLocation;
use core::ffi::c_char;

/// Bytes of a text with its zero; the rest is cut.
const BYTES: usize = 256;

/// A text that ends with a zero.
struct Terminated([u8; BYTES]);

impl Terminated {
    fn new(text: &str) -> Self {
        let text = crate::log::cut(text, BYTES - 1);
        let mut bytes = [0; BYTES];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Self(bytes)
    }

    fn pointer(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }
}

/// A zone begins.
pub(crate) fn zone_begin(place: &DynamicLocation<'_>) {
    let (name, function, file) =
        (Terminated::new(place.name), Terminated::new(place.function), Terminated::new(place.file));
    probe_site::zone_begin(
        name.pointer(),
        function.pointer(),
        file.pointer(),
        place.line,
        place.color,
    );
}

/// A zone ends and leaves so many open.
pub(crate) fn zone_end(depth: u32) {
    probe_site::zone_end(depth);
}

/// A message.
pub(crate) fn message(text: &str, color: u32) {
    probe_site::message(Terminated::new(text).pointer(), color);
}

/// A value of a plot.
pub(crate) fn plot(name: &str, value: f64) {
    probe_site::plot(Terminated::new(name).pointer(), value.to_bits());
}

/// A frame of that set ends; the empty name is the main set.
pub(crate) fn frame(name: &str) {
    probe_site::frame(Terminated::new(name).pointer());
}
