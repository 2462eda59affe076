//! Hits of the client library's own probes: the same events as from the rings of programs, of those
//! that could not share memory.

use crate::engine::{CaptureEngine, Engine};
use crate::open::MAX_DEPTH;
use crate::probes::hit::Hit;
use crate::zones::client_event::ClientEvent;
use crate::zones::log::color_of;
use std::borrow::Cow;
use syscollect_model::{Location, LocationId, MessageText};
use syscollect_store::ProbeRole;

/// What a hit tells; `None` where it cannot be understood.
pub(crate) fn decode(
    engine: &mut Engine<'_>,
    role: ProbeRole,
    hit: &Hit<'_>,
) -> Option<ClientEvent> {
    Some(match role {
        ProbeRole::ClientZoneBegin => {
            let name = match text(hit, 0) {
                Some(name) => Some(engine.new_name(&name)?),
                // The kernel could not read it at that moment; when the zone was is known all the
                // same.
                None => hit.word(0).map(|_| None)?,
            };
            let location = location(engine, hit);
            let color = hit.word(4).and_then(|color| color_of(color as u32));
            ClientEvent::ZoneBegin { name, location, color }
        }
        ProbeRole::ClientZoneEnd => {
            let left = u32::try_from(hit.word(0)?).ok().filter(|left| *left < MAX_DEPTH)?;
            ClientEvent::ZoneEnd { left }
        }
        ProbeRole::ClientMessage => {
            let text = MessageText::Written(text(hit, 0)?.into());
            let color = hit.word(1).and_then(|color| color_of(color as u32));
            ClientEvent::Message { text, color }
        }
        ProbeRole::ClientPlot => {
            let value = hit.word(1).map(f64::from_bits).filter(|value| value.is_finite());
            let name = engine.new_name(&text(hit, 0)?)?;
            ClientEvent::Plot { name, value: value? }
        }
        ProbeRole::ClientFrame => match text(hit, 0).filter(|name| !name.is_empty()) {
            Some(name) => ClientEvent::Frame { set: Some(engine.new_name(&name)?) },
            None => ClientEvent::Frame { set: None },
        },
        _ => return None,
    })
}

fn text<'a>(hit: &Hit<'a>, index: usize) -> Option<Cow<'a, str>> {
    hit.text(index).map(String::from_utf8_lossy)
}

/// Where a zone begins, if its hit says it.
fn location(engine: &mut Engine<'_>, hit: &Hit<'_>) -> Option<LocationId> {
    let (function, file) = (text(hit, 1).unwrap_or_default(), text(hit, 2).unwrap_or_default());
    let line = hit.word(3).unwrap_or_default() as u32;
    if function.is_empty() && file.is_empty() && line == 0 {
        return None;
    }
    let (function, file) = (engine.new_name(&function)?, engine.new_name(&file)?);
    let location = Location { function, file, line };
    if let Some(id) = engine.source.new_rows.locations.get(&location) {
        return Some(*id);
    }
    engine.tables.locations.push(location);
    let id = LocationId(engine.tables.locations.len() as u32 - 1);
    engine.source.new_rows.locations.insert(location, id);
    Some(id)
}
