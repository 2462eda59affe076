//! Fields of providers' events.
//!
//! A [`schema::Schema`] says how a payload is laid out, and decodes it. Schemas
//! come with each event (TraceLogging), or once for all events of a kind, where
//! merging tools put what the manifest says into the file ([`EventInfo`]).

mod event_info;
mod scalar;
mod schema;
mod trace_logging;
mod value;

pub use event_info::{EVENT_METADATA, EventInfo, EventKey, EventSchema};
pub use trace_logging::TraceLogging;
pub use value::{Field, Value};
