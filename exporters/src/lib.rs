//! Writers of the viewers' formats.
//!
//! **Duties.** Turning the model's events into a file that a viewer opens:
//! [`TextExporter`] writes readable lines. [`Format`] knows the formats by
//! their extensions.
//!
//! **Non-goals.** Nothing here knows where events come from, reads captures,
//! sorts events or names addresses.

mod error;
mod format;
mod perfetto;
mod text;

pub use error::ExportError;
pub use format::{Format, FormatError};
pub use perfetto::PerfettoExporter;
pub use text::TextExporter;
