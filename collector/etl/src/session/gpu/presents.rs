//! Threads that show frames: the call as a slice, what the graphics kernel is
//! asked for as instants within.

use crate::payload::dxgkrnl::FlipKind;
use crate::payload::present::{PresentApi, PresentCall};
use crate::session::context::Context;
use rustc_hash::FxHashMap;
use syscollect_model::{
    Event, Field, Scope, Slice, SliceUpdate, Tables, ThreadId, TrackId, TrackKind, TrackRole, Value,
};
use syscollect_playback::{EventType, unfinished};

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

impl Presents {
    /// A call begins or returns.
    pub(super) fn call(&mut self, at: &mut Context<'_>, call: PresentCall) {
        let Some(thread) = at.thread.filter(|thread| *thread != Tables::IDLE_THREAD) else {
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
                let mut slice = Slice::named(at.tables.strings.intern(api.name()));
                let interval =
                    interval.map(|interval| ("interval", Value::Unsigned(interval.into())));
                let flags = (flags != 0).then_some(("flags", Value::Address(flags.into())));
                let fields = [Some(("swap chain", Value::Address(swap_chain))), interval, flags];
                say(&mut slice.fields, at.tables, fields.into_iter().flatten());
                let track = thread_track(at, Some(thread));
                at.tell(EventType::Present, at.now, Event::SliceBegin(track, slice));
            }
            PresentCall::Stop { api, result } => self.returned(at, thread, api, result),
        }
    }

    /// The innermost call of this kind returns, and those within it, whose
    /// returns are lost.
    fn returned(&mut self, at: &mut Context<'_>, thread: ThreadId, api: PresentApi, result: u32) {
        let Some(open) = self.open.get_mut(&thread) else { return };
        let Some(depth) = open.iter().rposition(|open| *open == api) else { return };
        let within = open.len() - depth - 1;
        open.truncate(depth);
        let track = thread_track(at, Some(thread));
        for _ in 0..within {
            close_unfinished(at, track);
        }
        if result != 0 {
            let mut more = SliceUpdate::default();
            say(&mut more.fields, at.tables, [("result", Value::Address(result.into()))]);
            at.tell_more(at.now, Event::SliceUpdate(track, more));
        }
        at.tell_more(at.now, Event::SliceEnd(track));
    }

    /// The recording is over: what is open ends with it.
    pub(super) fn finish(&mut self, at: &mut Context<'_>) {
        let mut open: Vec<(ThreadId, usize)> =
            self.open.drain().map(|(thread, open)| (thread, open.len())).collect();
        open.sort_unstable();
        for (thread, depth) in open {
            let track = thread_track(at, Some(thread));
            (0..depth).for_each(|_| close_unfinished(at, track));
        }
    }
}

/// The graphics kernel is done with a thread's request.
pub(super) fn present(at: &mut Context<'_>, (window, source, flags, status): (u64, u32, u32, u32)) {
    let mode = MODES.into_iter().find(|(flag, _)| flags & flag != 0);
    let status = (status != 0).then_some(("status", Value::Address(status.into())));
    // A window's own surface belongs to no source.
    let source = (source != u32::MAX).then_some(("source", Value::Unsigned(source.into())));
    let fields = [
        Some(("window", Value::Address(window))),
        source,
        Some(("flags", Value::Address(flags.into()))),
        status,
    ];
    instant(
        at,
        EventType::Present,
        mode.map_or("Present", |(_, name)| name),
        fields.into_iter().flatten(),
    );
}

pub(super) fn flip(at: &mut Context<'_>, source: u32, interval: Option<u32>, kind: FlipKind) {
    let name = match kind {
        FlipKind::Whole => "Flip",
        FlipKind::Plane => "Flip (plane)",
        FlipKind::PlaneOff => "Plane off",
        FlipKind::Independent => "Flip (independent)",
    };
    let interval = interval.map(|interval| ("interval", Value::Unsigned(interval.into())));
    instant(
        at,
        EventType::Flip,
        name,
        [Some(("source", Value::Unsigned(source.into()))), interval].into_iter().flatten(),
    );
}

pub(super) fn blit(at: &mut Context<'_>, window: u64, redirected: bool) {
    let name = if redirected { "Blit (redirected)" } else { "Blit" };
    instant(at, EventType::ProviderEvent, name, [("window", Value::Address(window))]);
}

fn instant(
    at: &mut Context<'_>,
    kind: EventType,
    name: &str,
    fields: impl IntoIterator<Item = (&'static str, Value)>,
) {
    let mut slice = Slice::named(at.tables.strings.intern(name));
    say(&mut slice.fields, at.tables, fields);
    let track = thread_track(at, at.thread.filter(|thread| *thread != Tables::IDLE_THREAD));
    at.tell(kind, at.now, Event::Instant(track, slice));
}

fn close_unfinished(at: &mut Context<'_>, track: TrackId) {
    unfinished(track).into_iter().for_each(|event| at.tell_more(at.now, event));
}

fn thread_track(at: &mut Context<'_>, thread: Option<ThreadId>) -> TrackId {
    let name = at.tables.strings.intern(NAME);
    at.track(
        thread.map_or(Scope::Machine, Scope::Thread),
        name,
        TrackKind::Slices(TrackRole::Named),
        0,
    )
}

fn say(
    to: &mut Vec<Field>,
    tables: &mut Tables,
    fields: impl IntoIterator<Item = (&'static str, Value)>,
) {
    to.extend(
        fields.into_iter().map(|(name, value)| Field::named(tables.strings.intern(name), value)),
    );
}
