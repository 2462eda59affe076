//! Formatted texts without a heap.

use core::fmt;

/// Bytes of a formatted text; the rest is cut.
const BYTES: usize = 1024;

/// A text on the stack.
pub(crate) struct TextBuffer {
    length: usize,
    bytes: [u8; BYTES],
}

impl TextBuffer {
    /// Formats; what does not fit is cut.
    pub(crate) fn format(arguments: fmt::Arguments<'_>) -> Self {
        let mut buffer = Self { length: 0, bytes: [0; BYTES] };
        // An error means that the text was cut, or that an argument's own Display failed: what is
        // there counts.
        let _ = fmt::Write::write_fmt(&mut buffer, arguments);
        buffer
    }

    /// What was written.
    pub(crate) fn text(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl fmt::Write for TextBuffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = crate::log::cut(text, BYTES - self.length);
        self.bytes[self.length..self.length + fits.len()].copy_from_slice(fits.as_bytes());
        self.length += fits.len();
        if fits.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}
