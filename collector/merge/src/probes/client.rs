//! Instrumented programs that could not share memory: the same events as from their
//! rings, told by hits.

use crate::play::Player;
use crate::probes::hit::Hit;
use crate::zones::log::color_of;
use crate::zones::open::{End, MAX_DEPTH};
use crate::zones::state::{Mark, NO_CLIENT, Zone};
use std::borrow::Cow;
use syscollect_model::{
    Event, Fields, Location, LocationId, Message, MessageText, ProcessId, Scope, Slice, ThreadId,
    TrackKind, Unit,
};
use syscollect_playback::Stopped;
use syscollect_store::ProbeRole;
use syscollect_zone_protocol::FramePhase;

fn text<'a>(hit: &Hit<'a>, index: usize) -> Option<Cow<'a, str>> {
    hit.text(index).map(String::from_utf8_lossy)
}

impl Player<'_> {
    pub(crate) fn client_hit(
        &mut self,
        lane: usize,
        thread: ThreadId,
        role: ProbeRole,
        hit: &Hit<'_>,
    ) -> Result<(), Stopped> {
        let process = self.tables.thread(thread).process;
        let slot = self.slot(thread, process, NO_CLIENT);
        let understood = match role {
            ProbeRole::ClientZoneBegin => self.client_begin(slot, hit)?,
            ProbeRole::ClientZoneEnd => self.client_end(slot, hit)?,
            ProbeRole::ClientMessage => self.client_message(slot, hit)?,
            ProbeRole::ClientPlot => self.client_plot(process, hit)?,
            ProbeRole::ClientFrame => self.client_frame(process, hit)?,
            _ => false,
        };
        if !understood {
            self.unknown(lane);
        }
        Ok(())
    }

    fn client_begin(&mut self, slot: usize, hit: &Hit<'_>) -> Result<bool, Stopped> {
        let name = match text(hit, 0) {
            Some(name) => self.new_name(&name),
            // The kernel could not read it at that moment; when the zone was is known all the same.
            None => hit.word(0).map(|_| self.marks.words.unreadable),
        };
        let Some(name) = name else { return Ok(false) };
        let location = self.client_location(hit);
        let color = hit.word(4).and_then(|color| color_of(color as u32));
        let thread = &mut self.marks.threads[slot];
        let depth = thread.depth;
        if depth >= MAX_DEPTH {
            return Ok(false);
        }
        let track = thread.track;
        thread.depth += 1;
        thread.zones.begin(depth, Zone::default());
        self.mark(Mark::Zone);
        self.emit(&Event::SliceBegin(track, Slice { location, color, ..Slice::named(name) }))?;
        Ok(true)
    }

    fn client_location(&mut self, hit: &Hit<'_>) -> Option<LocationId> {
        let (function, file) = (text(hit, 1).unwrap_or_default(), text(hit, 2).unwrap_or_default());
        let line = hit.word(3).unwrap_or_default() as u32;
        if function.is_empty() && file.is_empty() && line == 0 {
            return None;
        }
        let (function, file) = (self.new_name(&function)?, self.new_name(&file)?);
        let location = Location { function, file, line };
        if let Some(id) = self.found.locations.get(&location) {
            return Some(*id);
        }
        self.tables.locations.push(location);
        let id = LocationId(self.tables.locations.len() as u32 - 1);
        self.found.locations.insert(location, id);
        Some(id)
    }

    /// A zone ends and says how many are left. The first end tells how many
    /// were open before the recording.
    fn client_end(&mut self, slot: usize, hit: &Hit<'_>) -> Result<bool, Stopped> {
        let Some(left) =
            hit.word(0).and_then(|left| u32::try_from(left).ok()).filter(|left| *left < MAX_DEPTH)
        else {
            return Ok(false);
        };
        let thread = &mut self.marks.threads[slot];
        let innermost = thread.zones.innermost().map(|(depth, _)| *depth);
        if let Some(innermost) =
            innermost.filter(|innermost| !thread.depth_known && *innermost < left)
        {
            thread.zones.deepen(left - innermost);
        }
        (thread.depth_known, thread.depth) = (true, left);
        let End { unfinished, ended } = thread.zones.end_at(left);
        let track = thread.track;
        self.end_zones(track, End { unfinished, ended })?;
        self.unmatched += u64::from(!ended);
        Ok(true)
    }

    fn client_message(&mut self, slot: usize, hit: &Hit<'_>) -> Result<bool, Stopped> {
        let Some(text) = text(hit, 0) else { return Ok(false) };
        self.mark(Mark::Message);
        let message = Message {
            category: self.marks.words.message,
            text: Some(MessageText::Written(text.into())),
            color: hit.word(1).and_then(|color| color_of(color as u32)),
            stack: None,
            fields: Fields::new(),
        };
        self.emit(&Event::Message(self.marks.threads[slot].track, message))?;
        Ok(true)
    }

    fn client_plot(&mut self, process: ProcessId, hit: &Hit<'_>) -> Result<bool, Stopped> {
        let value = hit.word(1).map(f64::from_bits).filter(|value| value.is_finite());
        let name = text(hit, 0).and_then(|name| self.new_name(&name));
        let (Some(name), Some(value)) = (name, value) else { return Ok(false) };
        self.mark(Mark::Plot);
        let kind = TrackKind::Counter { unit: Unit::Number };
        let track = self.track(Scope::Process(process), name, kind, 0);
        self.emit(&Event::Counter(track, value))?;
        Ok(true)
    }

    fn client_frame(&mut self, process: ProcessId, hit: &Hit<'_>) -> Result<bool, Stopped> {
        let name = match text(hit, 0).unwrap_or_default() {
            name if name.is_empty() => Some(self.marks.words.frames),
            name => self.new_name(&name),
        };
        let Some(name) = name else { return Ok(false) };
        self.frame(process, NO_CLIENT, name, FramePhase::Mark)?;
        Ok(true)
    }
}
