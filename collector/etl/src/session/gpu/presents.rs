//! Threads that show frames: the call as a slice, what the graphics kernel is
//! asked for as instants within.

use crate::payload::dxgkrnl::FlipKind;
use crate::payload::present::{PresentApi, PresentCall};
use crate::session::engine::{Engine, TraceEngine, slices};
use rustc_hash::FxHashMap;
use syscollect_model::{
    Event, Field, Fields, MachineId, Scope, Slice, SliceUpdate, Strings, Tables, ThreadId, TrackId,
    Value,
};
use syscollect_playback::EventType;

/// Calls of one thread within each other; more are left out.
const DEEPEST: usize = 16;
/// The track's name.
const NAME: &str = "Presents";

/// `D3DKMT_PRESENTFLAGS` that say how a frame gets to the screen, and what that is
/// called; the first that is set counts.
const MODES: [(u32, &str); 6] = [
    (1 << 21, "Present (history token)"),
    (1 << 15, "Present (redirected flip)"),
    (1 << 16, "Present (redirected blit)"),
    (1 << 2, "Present (flip)"),
    (1 << 0, "Present (blit)"),
    (1 << 1, "Present (color fill)"),
];

/// Calls that have not returned, by thread.
#[derive(Debug, Default)]
pub(super) struct Presents {
    open: FxHashMap<ThreadId, Vec<PresentApi>>,
    /// Calls that are too deep.
    pub(super) left_out: u64,
}

/// A request of a thread to show something, as it went through the graphics kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct PresentRequest {
    pub(super) window: u64,
    pub(super) source: u32,
    pub(super) flags: u32,
    pub(super) status: u32,
}

impl Presents {
    /// A call of this thread begins or returns.
    pub(super) fn call(
        &mut self,
        engine: &mut Engine<'_>,
        thread: Option<ThreadId>,
        call: PresentCall,
    ) {
        let Some(thread) = thread.filter(|thread| *thread != Tables::IDLE_THREAD) else {
            return;
        };
        match call {
            PresentCall::Start { api, swap_chain, flags, interval } => {
                let open = self.open.entry(thread).or_default();
                if open.len() >= DEEPEST {
                    self.left_out += 1;
                    return;
                }
                open.push(api);
                let strings = &mut engine.tables.strings;
                let mut slice = Slice::named(strings.intern(api.name()));
                slice.fields.push(field(strings, "swap chain", Value::Address(swap_chain)));
                if let Some(interval) = interval {
                    let interval = Value::Unsigned(interval.into());
                    slice.fields.push(field(strings, "interval", interval));
                }
                if flags != 0 {
                    slice.fields.push(field(strings, "flags", Value::Address(flags.into())));
                }
                let track = track(engine, Some(thread));
                engine.push_event(EventType::Present, Event::SliceBegin(track, slice));
            }
            PresentCall::Stop { api, result } => self.returned(engine, thread, api, result),
        }
    }

    /// The innermost call of this kind returns, and those within it, whose
    /// returns are lost.
    fn returned(
        &mut self,
        engine: &mut Engine<'_>,
        thread: ThreadId,
        api: PresentApi,
        result: u32,
    ) {
        let Some(open) = self.open.get_mut(&thread) else { return };
        let Some(depth) = open.iter().rposition(|open| *open == api) else { return };
        let within = open.len() - depth - 1;
        open.truncate(depth);
        let track = track(engine, Some(thread));
        for _ in 0..within {
            close_unfinished(engine, track);
        }
        if result != 0 {
            let result = Value::Address(result.into());
            let fields = vec![field(&mut engine.tables.strings, "result", result)];
            let update = SliceUpdate { fields, ..SliceUpdate::default() };
            engine.push_uncounted(Event::SliceUpdate(track, update));
        }
        engine.push_uncounted(Event::SliceEnd(track));
    }

    /// The recording is over: what is open ends with it.
    pub(super) fn close(&mut self, engine: &mut Engine<'_>) {
        let mut open: Vec<(ThreadId, usize)> =
            self.open.drain().map(|(thread, open)| (thread, open.len())).collect();
        open.sort_unstable();
        for (thread, depth) in open {
            let track = track(engine, Some(thread));
            (0..depth).for_each(|_| close_unfinished(engine, track));
        }
    }
}

/// The graphics kernel is done with a thread's request.
pub(super) fn present(engine: &mut Engine<'_>, thread: Option<ThreadId>, request: PresentRequest) {
    let PresentRequest { window, source, flags, status } = request;
    let mode = MODES.into_iter().find(|(flag, _)| flags & flag != 0);
    let strings = &mut engine.tables.strings;
    let name = strings.intern(mode.map_or("Present", |(_, name)| name));
    let mut fields = vec![field(strings, "window", Value::Address(window))];
    // A window's own surface belongs to no source.
    if source != u32::MAX {
        fields.push(field(strings, "source", Value::Unsigned(source.into())));
    }
    fields.push(field(strings, "flags", Value::Address(flags.into())));
    if status != 0 {
        fields.push(field(strings, "status", Value::Address(status.into())));
    }
    instant(engine, thread, EventType::Present, Slice { fields, ..Slice::named(name) });
}

pub(super) fn flip(
    engine: &mut Engine<'_>,
    thread: Option<ThreadId>,
    source: u32,
    interval: Option<u32>,
    kind: FlipKind,
) {
    let strings = &mut engine.tables.strings;
    let name = strings.intern(match kind {
        FlipKind::Whole => "Flip",
        FlipKind::Plane => "Flip (plane)",
        FlipKind::PlaneOff => "Plane off",
        FlipKind::Independent => "Flip (independent)",
    });
    let mut fields = vec![field(strings, "source", Value::Unsigned(source.into()))];
    if let Some(interval) = interval {
        fields.push(field(strings, "interval", Value::Unsigned(interval.into())));
    }
    instant(engine, thread, EventType::Flip, Slice { fields, ..Slice::named(name) });
}

pub(super) fn blit(
    engine: &mut Engine<'_>,
    thread: Option<ThreadId>,
    window: u64,
    redirected: bool,
) {
    let strings = &mut engine.tables.strings;
    let name = strings.intern(if redirected { "Blit (redirected)" } else { "Blit" });
    let fields: Fields = vec![field(strings, "window", Value::Address(window))];
    instant(engine, thread, EventType::ProviderEvent, Slice { fields, ..Slice::named(name) });
}

/// Tells what a thread did at once.
fn instant(engine: &mut Engine<'_>, thread: Option<ThreadId>, event_type: EventType, slice: Slice) {
    let track = track(engine, thread.filter(|thread| *thread != Tables::IDLE_THREAD));
    engine.push_event(event_type, Event::Instant(track, slice));
}

fn close_unfinished(engine: &mut Engine<'_>, track: TrackId) {
    engine.push_uncounted(Event::SliceUpdate(track, SliceUpdate::unfinished()));
    engine.push_uncounted(Event::SliceEnd(track));
}

/// Where a thread's presents are told; where it is not known, the machine's.
fn track(engine: &mut Engine<'_>, thread: Option<ThreadId>) -> TrackId {
    let name = engine.tables.strings.intern(NAME);
    engine.track(slices(thread.map_or(Scope::Machine(MachineId::FIRST), Scope::Thread), name), 0)
}

fn field(strings: &mut Strings, name: &str, value: Value) -> Field {
    Field::named(strings.intern(name), value)
}
