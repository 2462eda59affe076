//! What programs tell that could not share memory.

use syscollect_model::{LocationId, MessageText, StringId};

/// What a probe of the client library tells.
pub(crate) enum ClientEvent {
    ZoneBegin {
        /// `None` where it could not be read.
        name: Option<StringId>,
        location: Option<LocationId>,
        color: Option<u32>,
    },
    /// A zone ends and leaves that many open.
    ZoneEnd {
        left: u32,
    },
    Message {
        text: MessageText,
        color: Option<u32>,
    },
    Plot {
        name: StringId,
        value: f64,
    },
    /// A frame of that set, or of the main one, ends and the next begins.
    Frame {
        set: Option<StringId>,
    },
}
