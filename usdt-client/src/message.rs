//! Messages: something that was said at a moment.

use crate::emit::{self, EmitRefusal, StaticString};
use crate::log::CachedNumber;
use crate::text::TextBuffer;
use crate::{fallback, thread};
use core::fmt;
use syscollect_zone_protocol::{Event, TextRole};

/// Records a text; `color` is 0xRRGGBB, 0 leaves it to the viewer. At most
/// [`MAX_TEXT`](crate::MAX_TEXT) bytes.
#[inline(always)]
pub fn message(text: &str, color: u32) {
    if crate::enabled() {
        message_enabled(text, color);
    }
}

/// Records a text that is sent once and named from then on.
#[inline(always)]
pub fn message_static(text: &'static StaticString, color: u32) {
    if crate::enabled() {
        static_enabled(text, color);
    }
}

/// Records a counted tag as a message: "Frame 1234" costs no new text.
#[inline(always)]
pub fn message_tag(text: &'static StaticString, number: u64) {
    if crate::enabled() {
        tag_enabled(text, number);
    }
}

#[cold]
#[inline(never)]
fn message_enabled(text: &str, color: u32) {
    match emit::group(16 + emit::text_bytes(text)) {
        Ok(mut group) => {
            group.event(Event::Message { string: 0, color });
            group.text(TextRole::Message, 0, text);
        }
        Err(EmitRefusal::Fallback(_)) => fallback::message(text, color),
        Err(_) => {}
    }
}

#[cold]
#[inline(never)]
fn static_enabled(text: &'static StaticString, color: u32) {
    match emit::group(16) {
        Ok(mut group) => {
            let number = text.number(group.arena());
            group.event(Event::Message { string: number, color });
        }
        Err(EmitRefusal::Fallback(_)) => fallback::message(text.text(), color),
        Err(_) => {}
    }
}

#[cold]
#[inline(never)]
pub(crate) fn tag_enabled(text: &StaticString, number: u64) {
    match emit::group(32) {
        Ok(mut group) => {
            let string = text.number(group.arena());
            group.event(Event::Message { string, color: 0 });
            group.tag(TextRole::Message, text, number);
        }
        Err(EmitRefusal::Fallback(_)) => {
            fallback::message(
                TextBuffer::format(format_args!("{} {number}", text.text())).text(),
                0,
            );
        }
        Err(_) => {}
    }
}

/// What [`message!`](crate::message!) caches of a text without arguments.
#[doc(hidden)]
pub struct CachedText(CachedNumber);

impl CachedText {
    /// Nothing is known yet.
    #[doc(hidden)]
    pub const fn new() -> Self {
        Self(CachedNumber::new())
    }
}

impl Default for CachedText {
    fn default() -> Self {
        Self::new()
    }
}

/// The macro's way: a text without arguments is sent once.
#[doc(hidden)]
#[cold]
#[inline(never)]
pub fn message_format(cached: &'static CachedText, text: fmt::Arguments<'_>, color: u32) {
    let Some(constant) = text.as_str() else {
        return message_enabled(TextBuffer::format(text).text(), color);
    };
    match emit::group(16) {
        Ok(mut group) => {
            let arena = group.arena();
            let number = cached.0.or_define(arena, || emit::string(arena, constant));
            group.event(Event::Message { string: number, color });
        }
        Err(EmitRefusal::Fallback(_)) => fallback::message(constant, color),
        Err(_) => {}
    }
}

/// Names the calling thread, for this collector and later ones: at most 63 bytes.
pub fn set_thread_name(name: &str) {
    if cfg!(feature = "off") {
        return;
    }
    thread::remember_name(name);
    if crate::enabled() {
        emit::restate_now();
    }
}

/// Records a message, formatted as by `format!` but without a heap; what
/// comes after 1 KiB is cut. Arguments are not evaluated while nobody records.
///
/// ```
/// use syscollect_usdt_client::message;
///
/// message!("cache is warm");
/// message!("request {} took {} ms", 7, 12.5);
/// message!(color = 0xff0000, "out of budget");
/// ```
#[macro_export]
macro_rules! message {
    (color = $color:expr, $($text:tt)+) => {
        if $crate::enabled() {
            static TEXT: $crate::__private::CachedText = $crate::__private::CachedText::new();
            $crate::__private::message_format(&TEXT, format_args!($($text)+), $color);
        }
    };
    ($($text:tt)+) => {
        $crate::message!(color = 0, $($text)+)
    };
}
