//! Messages of threads.

use crate::engine::Engine;
use crate::zones::attributes::Attributes;
use crate::zones::log::color_of;
use syscollect_model::{Event, Fields, Message, MessageText, StackId, StringId, TrackId};
use syscollect_playback::{EventType, Stopped};

/// A message that a thread wrote.
pub(crate) struct WrittenMessage {
    /// In the program's log.
    pub(crate) string: Option<StringId>,
    pub(crate) color: u32,
    pub(crate) attributes: Attributes,
    pub(crate) stack: Option<StackId>,
}

/// What all messages have in common.
#[derive(Debug)]
pub(crate) struct Messages {
    pub(crate) category: StringId,
    /// What stands for the text of a message that has none.
    pub(crate) empty: StringId,
}

impl Messages {
    pub(crate) fn emit(
        &self,
        engine: &mut Engine<'_>,
        track: TrackId,
        message: WrittenMessage,
    ) -> Result<(), Stopped> {
        engine.occurred(EventType::Message);
        let message = Message {
            category: self.category,
            text: self.text(engine, &message),
            color: color_of(message.color),
            stack: message.stack,
            fields: Fields::new(),
        };
        engine.emit(&Event::Message(track, message))
    }

    /// The text of a message: what it says at length, else a string with a number, else the string
    /// alone. One that is empty is replaced: a marker without any words looks like a fault.
    fn text(&self, engine: &Engine<'_>, message: &WrittenMessage) -> Option<MessageText> {
        if let Some(text) = &message.attributes.text {
            let empty = engine.tables.strings.get(self.empty);
            return Some(MessageText::Written(if text.is_empty() { empty } else { text }.into()));
        }
        if let Some((string, number)) = message.attributes.name {
            return Some(MessageText::Interned { string, number });
        }
        let string = message.string?;
        let is_empty = engine.tables.strings.get(string).is_empty();
        let string = if is_empty { self.empty } else { string };
        Some(MessageText::Interned { string, number: None })
    }
}
