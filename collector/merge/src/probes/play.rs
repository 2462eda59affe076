//! Hits of probes in programs that know nothing of it: points, zones, functions.

use crate::play::Player;
use crate::probes::calls::Calls;
use crate::probes::hit::{ArgumentValue, Hit};
use crate::probes::table::{Probe, ProbeTable};
use crate::record_cursor::RecordItem;
use crate::zones::open::MAX_DEPTH;
use crate::zones::state::{Mark, NO_CLIENT};
use rustc_hash::FxHashMap;
use syscollect_model::{
    Event, Field, Fields, Scope, Slice, SliceUpdate, StringId, ThreadId, TrackId, TrackKind,
    TrackRole, Value,
};
use syscollect_playback::Stopped;
use syscollect_store::ProbeRole;
use syscollect_zone_protocol::FramePhase;

/// Keeps the rows of functions apart from those of pairs.
const FUNCTIONS: u64 = 1 << 62;
/// And those of points.
const POINTS: u64 = 1 << 61;
/// And all rows of probes from those of zones.
const PROBES: u64 = 1 << 60;

/// What is open of a thread.
#[derive(Debug, Default)]
pub(crate) struct ProbeMarks {
    /// Zones by pair: their track and how many are open.
    pairs: FxHashMap<(StringId, u32), (TrackId, u32)>,
    /// Functions by the name of their track.
    calls: FxHashMap<StringId, (TrackId, Calls)>,
    points: FxHashMap<StringId, TrackId>,
}

impl Player<'_> {
    /// An item of a lane of hits; `bytes` are those of a hit.
    pub(crate) fn probes(
        &mut self,
        lane: usize,
        item: RecordItem,
        bytes: &[u8],
    ) -> Result<(), Stopped> {
        match item {
            RecordItem::Missing(missing) => {
                self.missing(lane, missing.at_least())?;
            }
            RecordItem::Record => self.hit(lane, bytes)?,
        }
        self.lanes[lane].last = Some(self.now);
        Ok(())
    }

    fn hit(&mut self, lane: usize, bytes: &[u8]) -> Result<(), Stopped> {
        let marked = self.marked;
        let hit = Hit::new(bytes);
        let probe = hit.and_then(|hit| marked.probes.get(hit.record.probe));
        let (Some(hit), Some(probe)) = (hit, probe) else {
            self.unknown(lane);
            return Ok(());
        };
        self.records += 1;
        let thread = self.thread_of(hit.record.tid, Some(hit.record.tgid));
        match probe.role {
            ProbeRole::Point => self.point(thread, probe, &hit),
            ProbeRole::ZoneBegin => self.pair_begin(thread, probe, &hit),
            ProbeRole::ZoneEnd => self.pair_end(thread, probe, &hit),
            ProbeRole::FunctionEntry => self.entry(thread, probe, &hit),
            // The return address has been taken off the stack.
            ProbeRole::FunctionReturn => {
                self.exit(thread, probe, &hit, hit.record.stack_pointer.wrapping_sub(8))
            }
            ProbeRole::FunctionExit => self.exit(thread, probe, &hit, hit.record.stack_pointer),
            _ => self.client_hit(lane, thread, probe.role, &hit),
        }
    }

    /// What is open of a thread's probes; its process's end will close it.
    fn probe_marks(&mut self, thread: ThreadId) -> &mut ProbeMarks {
        if !self.marks.probes.contains_key(&thread) {
            let process = self.tables.thread(thread).process;
            self.marks.note_thread(thread, process);
        }
        self.marks.probes.entry(thread).or_default()
    }

    fn track_name(&self, probe: &Probe) -> StringId {
        probe.track.unwrap_or(self.marks.words.probes)
    }

    fn point(&mut self, thread: ThreadId, probe: &Probe, hit: &Hit<'_>) -> Result<(), Stopped> {
        let name = self.track_name(probe);
        let track = match self.probe_marks(thread).points.get(&name) {
            Some(track) => *track,
            None => {
                let track = self.track(
                    Scope::Thread(thread),
                    name,
                    TrackKind::Slices(TrackRole::Named),
                    PROBES | POINTS,
                );
                self.probe_marks(thread).points.insert(name, track);
                track
            }
        };
        self.mark(Mark::Probe);
        let slice = self.probe_slice(probe, hit);
        self.emit(&Event::Instant(track, slice))
    }

    fn pair_begin(
        &mut self,
        thread: ThreadId,
        probe: &Probe,
        hit: &Hit<'_>,
    ) -> Result<(), Stopped> {
        let key = (self.track_name(probe), probe.pair);
        let known = self.probe_marks(thread).pairs.get(&key).copied();
        let (track, mut open) = known.unwrap_or_else(|| {
            let row = PROBES | u64::from(probe.pair);
            (self.track(Scope::Thread(thread), key.0, TrackKind::Slices(TrackRole::Named), row), 0)
        });
        if open > 0 && !self.marked.probes.nests(probe.pair) {
            // The one before is over, however it ended.
            self.unfinished(track, open as usize)?;
            open = 0;
        }
        if open >= MAX_DEPTH {
            self.unmatched += 1;
            return Ok(());
        }
        self.probe_marks(thread).pairs.insert(key, (track, open + 1));
        self.mark(Mark::Zone);
        let slice = self.probe_slice(probe, hit);
        self.emit(&Event::SliceBegin(track, slice))
    }

    fn pair_end(&mut self, thread: ThreadId, probe: &Probe, hit: &Hit<'_>) -> Result<(), Stopped> {
        let key = (self.track_name(probe), probe.pair);
        let open = self.probe_marks(thread).pairs.get_mut(&key).filter(|(_, open)| *open > 0);
        let Some((track, open)) = open else {
            self.unmatched += 1;
            return Ok(());
        };
        *open -= 1;
        let track = *track;
        self.end_with(track, probe, hit)
    }

    fn entry(&mut self, thread: ThreadId, probe: &Probe, hit: &Hit<'_>) -> Result<(), Stopped> {
        let (name, marked) = (self.track_name(probe), self.marked);
        if !self.probe_marks(thread).calls.contains_key(&name) {
            let track = self.track(
                Scope::Thread(thread),
                name,
                TrackKind::Slices(TrackRole::Named),
                PROBES | FUNCTIONS,
            );
            self.probe_marks(thread).calls.insert(name, (track, Calls::default()));
        }
        let Some((track, calls)) =
            self.probe_marks(thread).calls.get_mut(&name).filter(|(_, calls)| calls.has_room())
        else {
            self.unmatched += 1;
            return Ok(());
        };
        let (track, left) = (*track, calls.enter(hit.record.stack_pointer, probe.pair));
        let frames = probe.frames.filter(|set| is_outermost(calls, *set, &marked.probes));
        self.unfinished(track, left)?;
        if let Some(set) = frames {
            let process = self.tables.thread(thread).process;
            self.frame(process, NO_CLIENT, set, FramePhase::Mark)?;
        }
        self.mark(Mark::Zone);
        let slice = self.probe_slice(probe, hit);
        self.emit(&Event::SliceBegin(track, slice))
    }

    /// A function ends that was entered with this stack pointer.
    fn exit(
        &mut self,
        thread: ThreadId,
        probe: &Probe,
        hit: &Hit<'_>,
        entered: u64,
    ) -> Result<(), Stopped> {
        let name = self.track_name(probe);
        let Some((track, calls)) = self.probe_marks(thread).calls.get_mut(&name) else {
            self.unmatched += 1;
            return Ok(());
        };
        let (track, end) = (*track, calls.exit(entered, probe.pair));
        self.unfinished(track, end.unfinished)?;
        if !end.ended {
            self.unmatched += 1;
            return Ok(());
        }
        self.end_with(track, probe, hit)
    }

    /// Ends the innermost slice, with what only the end knows.
    fn end_with(&mut self, track: TrackId, probe: &Probe, hit: &Hit<'_>) -> Result<(), Stopped> {
        let mut fields = Fields::new();
        if probe.is_one_of_ends {
            fields.push(Field::named(self.marks.words.ended_by, Value::String(probe.name)));
        }
        fields.extend(self.fields(probe, hit, None));
        if !fields.is_empty() {
            self.emit(&Event::SliceUpdate(
                track,
                SliceUpdate { fields, ..SliceUpdate::default() },
            ))?;
        }
        self.emit(&Event::SliceEnd(track))
    }

    fn probe_slice(&mut self, probe: &Probe, hit: &Hit<'_>) -> Slice {
        let by = probe.named_by.and_then(|by| hit.argument(by, probe.arguments.get(by)?));
        let (name, number) = match by {
            Some(ArgumentValue::Text(text)) => (self.new_name(&text), None),
            Some(ArgumentValue::Unsigned(number)) => (Some(probe.name), Some(number)),
            Some(ArgumentValue::Signed(number)) => (Some(probe.name), u64::try_from(number).ok()),
            _ => (None, None),
        };
        let named = name.is_some() && by_is_said(number, probe, hit);
        let fields = self.fields(probe, hit, probe.named_by.filter(|_| named));
        Slice { number, fields, ..Slice::named(name.unwrap_or(probe.name)) }
    }

    /// The arguments but for the one that is the name.
    fn fields(&self, probe: &Probe, hit: &Hit<'_>, but: Option<usize>) -> Fields {
        let mut fields = Fields::new();
        for (index, argument) in
            probe.arguments.iter().enumerate().filter(|(index, _)| Some(*index) != but)
        {
            let value = match hit.argument(index, argument).filter(|_| !argument.repeated) {
                Some(ArgumentValue::Text(text)) => Value::Text(text.into()),
                Some(ArgumentValue::Unsigned(value)) => Value::Unsigned(value),
                Some(ArgumentValue::Signed(value)) => Value::Signed(value),
                Some(ArgumentValue::Float(value)) => Value::Float(value),
                Some(ArgumentValue::Address(value)) => Value::Address(value),
                Some(ArgumentValue::Unreadable) => Value::String(self.marks.words.unreadable),
                None => continue,
            };
            fields.push(Field::named(argument.name, value));
        }
        fields
    }

    /// Closes all that is open of a thread's probes.
    pub(crate) fn close_probes(&mut self, thread: ThreadId) -> Result<(), Stopped> {
        let Some(marks) = self.marks.probes.get_mut(&thread) else { return Ok(()) };
        let pairs =
            marks.pairs.values_mut().map(|(track, open)| (*track, std::mem::take(open) as usize));
        let mut open: Vec<(TrackId, usize)> = pairs.collect();
        open.extend(marks.calls.values_mut().map(|(track, calls)| (*track, calls.clear())));
        open.sort_unstable();
        open.into_iter().try_for_each(|(track, count)| self.unfinished(track, count))
    }
}

/// Whether of all open functions only the innermost makes frames of the set: one library may have
/// another do it.
fn is_outermost(calls: &Calls, set: StringId, probes: &ProbeTable) -> bool {
    calls.functions().filter(|pair| probes.is_frame_of(*pair, set)).count() == 1
}

/// Whether the argument that names a slice is told by the name: a text is, a
/// number where it fits.
fn by_is_said(number: Option<u64>, probe: &Probe, hit: &Hit<'_>) -> bool {
    let value = probe.named_by.and_then(|by| hit.argument(by, probe.arguments.get(by)?));
    number.is_some() || matches!(value, Some(ArgumentValue::Text(_)))
}
