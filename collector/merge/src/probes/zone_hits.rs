//! Instrumented programs that could not share memory: the same events as from their
//! rings, told by hits.

use crate::engine::{CaptureEngine, Engine};
use crate::open::{End, MAX_DEPTH};
use crate::probes::hit::Hit;
use crate::zones::log::color_of;
use crate::zones::state::{NO_CLIENT, Zone, Zones};
use std::borrow::Cow;
use syscollect_model::{
    Event, Fields, Location, LocationId, Message, MessageText, ProcessId, Scope, Slice, ThreadId,
    Track, TrackKind, Unit,
};
use syscollect_playback::{EventType, Stopped};
use syscollect_store::ProbeRole;
use syscollect_zone_protocol::FramePhase;

fn text<'a>(hit: &Hit<'a>, index: usize) -> Option<Cow<'a, str>> {
    hit.text(index).map(String::from_utf8_lossy)
}

impl Zones {
    /// A hit of a probe of the client library.
    pub(crate) fn on_hit(
        &mut self,
        engine: &mut Engine<'_>,
        lane: usize,
        thread: ThreadId,
        role: ProbeRole,
        hit: &Hit<'_>,
    ) -> Result<(), Stopped> {
        let process = engine.tables.thread(thread).process;
        let slot = self.slot(engine, thread, process, NO_CLIENT);
        let understood = match role {
            ProbeRole::ClientZoneBegin => self.client_begin(engine, slot, hit)?,
            ProbeRole::ClientZoneEnd => self.client_end(engine, slot, hit)?,
            ProbeRole::ClientMessage => self.client_message(engine, slot, hit)?,
            ProbeRole::ClientPlot => self.client_plot(engine, process, hit)?,
            ProbeRole::ClientFrame => self.client_frame(engine, process, hit)?,
            _ => false,
        };
        if !understood {
            engine.unknown(lane);
        }
        Ok(())
    }

    fn client_begin(
        &mut self,
        engine: &mut Engine<'_>,
        slot: usize,
        hit: &Hit<'_>,
    ) -> Result<bool, Stopped> {
        let name = match text(hit, 0) {
            Some(name) => engine.new_name(&name),
            // The kernel could not read it at that moment; when the zone was is known all the same.
            None => hit.word(0).map(|_| self.words.unreadable),
        };
        let Some(name) = name else { return Ok(false) };
        let location = self.client_location(engine, hit);
        let color = hit.word(4).and_then(|color| color_of(color as u32));
        let thread = &mut self.threads[slot];
        let depth = thread.depth;
        if depth >= MAX_DEPTH {
            return Ok(false);
        }
        let track = thread.track;
        thread.depth += 1;
        thread.zones.begin(depth, Zone::default());
        engine.occurred(EventType::Zone);
        engine.emit(&Event::SliceBegin(track, Slice { location, color, ..Slice::named(name) }))?;
        Ok(true)
    }

    fn client_location(&mut self, engine: &mut Engine<'_>, hit: &Hit<'_>) -> Option<LocationId> {
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

    /// A zone ends and says how many are left. The first end tells how many
    /// were open before the recording.
    fn client_end(
        &mut self,
        engine: &mut Engine<'_>,
        slot: usize,
        hit: &Hit<'_>,
    ) -> Result<bool, Stopped> {
        let Some(left) =
            hit.word(0).and_then(|left| u32::try_from(left).ok()).filter(|left| *left < MAX_DEPTH)
        else {
            return Ok(false);
        };
        let thread = &mut self.threads[slot];
        let innermost = thread.zones.innermost().map(|(depth, _)| *depth);
        if let Some(innermost) =
            innermost.filter(|innermost| !thread.depth_known && *innermost < left)
        {
            thread.zones.deepen(left - innermost);
        }
        (thread.depth_known, thread.depth) = (true, left);
        let End { unfinished, ended } = thread.zones.end_at(left);
        let track = thread.track;
        engine.end_zones(track, End { unfinished, ended })?;
        engine.sink.tally.unmatched_ends += u64::from(!ended);
        Ok(true)
    }

    fn client_message(
        &mut self,
        engine: &mut Engine<'_>,
        slot: usize,
        hit: &Hit<'_>,
    ) -> Result<bool, Stopped> {
        let Some(text) = text(hit, 0) else { return Ok(false) };
        engine.occurred(EventType::Message);
        let message = Message {
            category: self.words.message,
            text: Some(MessageText::Written(text.into())),
            color: hit.word(1).and_then(|color| color_of(color as u32)),
            stack: None,
            fields: Fields::new(),
        };
        engine.emit(&Event::Message(self.threads[slot].track, message))?;
        Ok(true)
    }

    fn client_plot(
        &mut self,
        engine: &mut Engine<'_>,
        process: ProcessId,
        hit: &Hit<'_>,
    ) -> Result<bool, Stopped> {
        let value = hit.word(1).map(f64::from_bits).filter(|value| value.is_finite());
        let name = text(hit, 0).and_then(|name| engine.new_name(&name));
        let (Some(name), Some(value)) = (name, value) else { return Ok(false) };
        engine.occurred(EventType::Plot);
        let kind = TrackKind::Counter { unit: Unit::Number };
        let track = engine.track(Track { scope: Scope::Process(process), name, kind }, 0);
        engine.emit(&Event::Counter(track, value))?;
        Ok(true)
    }

    fn client_frame(
        &mut self,
        engine: &mut Engine<'_>,
        process: ProcessId,
        hit: &Hit<'_>,
    ) -> Result<bool, Stopped> {
        let set = match text(hit, 0).unwrap_or_default() {
            name if name.is_empty() => None,
            name => match engine.new_name(&name) {
                Some(name) => Some(name),
                None => return Ok(false),
            },
        };
        self.frame(engine, process, NO_CLIENT, set, FramePhase::Mark)?;
        Ok(true)
    }
}
