//! A program that gives work to GPUs.

use super::{IDLE, Scenario, off};
use syscollect_model::{
    Event, Fence, Field, FieldRole, GpuJob, GpuJobEnd, GpuZone, MachineId, Scope, SleepState,
    Slice, SliceRole, SliceUpdate, StringId, ThreadId, Time, Track, TrackId, TrackKind, Value,
};

/// Microseconds after [`super::START`].
fn at(microseconds: u64) -> Option<Time> {
    Some(Time(super::START + microseconds * 1_000))
}

fn fence(sequence: u64) -> Fence {
    Fence { context: 12, sequence }
}

fn queue(scenario: &mut Scenario, scope: Scope, name: &str) -> TrackId {
    let name = scenario.name(name);
    scenario.tables.add_track(Track { scope, name, kind: TrackKind::GpuQueue })
}

/// One thread of a game draws and computes, another program's job waits behind it; then all that
/// can be missing is.
pub(super) fn jobs(scenario: &mut Scenario) {
    let (process, _) = scenario.process(400, 1, "game", &["/bin/game"]);
    let render = scenario.thread(401, process, "render");
    let (_, other) = scenario.process(500, 1, "compositor", &["/bin/compositor"]);
    scenario.switch(0, IDLE, off(SleepState::Runnable), render);
    let graphics = queue(scenario, Scope::Machine(MachineId::FIRST), "gfx");
    let compute = queue(scenario, Scope::Process(process), "compute");

    let [draw, compose, blur] = ["Draw", "Compose", "Blur"].map(|name| scenario.name(name));
    let mut first = job(draw, Some(render), [at(10), at(12), at(20)]);
    (first.context, first.fence) = (Some(0xff00), Some(fence(1)));
    let mut compose = job(compose, Some(other), [at(15), at(16), at(50)]);
    (compose.fence, compose.waited_for) = (Some(fence(2)), vec![fence(1)]);
    let mut blur = job(blur, Some(render), [at(30), None, at(40)]);
    blur.end = GpuJobEnd::Failed;
    let mut lost = job(draw, None, [None; 3]);
    lost.end = GpuJobEnd::WithoutBeginning;
    let mut open = job(draw, Some(render), [at(70), at(75), None]);
    open.end = GpuJobEnd::Unfinished;
    first.fields = vec![Field::named(scenario.name("ring"), Value::Unsigned(0))];
    for (track, ended, job) in [
        (graphics, 45, first),
        (compute, 48, blur),
        (graphics, 60, compose),
        (graphics, 65, lost),
        (graphics, 90, open),
    ] {
        scenario.time = super::START + ended * 1_000;
        scenario.then(Event::GpuJob(track, Box::new(job)));
    }
}

/// A game draws four frames, each a job of the ring in which it marked what the GPU did; beside
/// them lie copies of which nobody told a job.
pub(super) fn marked(scenario: &mut Scenario) {
    let (process, _) = scenario.process(400, 1, "game", &["/bin/game"]);
    let render = scenario.thread(401, process, "render");
    let ring = queue(scenario, Scope::Machine(MachineId::FIRST), "gfx");
    let [graphics, below, copies] = ["graphics", "graphics", "copies"]
        .map(|name| queue(scenario, Scope::Process(process), name));
    let [driver, frame, shadows, copy] =
        ["amdgpu", "frame", "shadows", "copy"].map(|name| scenario.name(name));
    for begin in (0..4).map(|number| number * 1_000) {
        let times = |at: [u64; 2]| at.map(|time| self::at(begin + time));
        let zone = |name, queue, depth, [submitted, began]: [Option<Time>; 2]| {
            let zone = GpuZone {
                queue,
                depth,
                row: depth,
                number: None,
                location: None,
                color: None,
                stack: None,
                clock_error: 1_000,
                submission_ended: None,
                ended: None,
            };
            GpuJob { zone: Some(zone), ..job(name, Some(render), [submitted, None, began]) }
        };
        let driven = times([20, 30]);
        for (track, ended, job) in [
            (below, 300, zone(shadows, graphics, 1, times([12, 200]))),
            (copies, 450, zone(copy, copies, 0, times([14, 350]))),
            (graphics, 900, zone(frame, graphics, 0, times([10, 200]))),
            (ring, 910, job(driver, Some(render), [driven[0], driven[0], driven[1]])),
            (copies, 960, zone(copy, copies, 0, times([15, 930]))),
        ] {
            scenario.time = super::START + (begin + ended) * 1_000;
            scenario.then(Event::GpuJob(track, Box::new(job)));
        }
    }
}

/// When it was submitted, queued and started.
fn job(name: StringId, thread: Option<ThreadId>, times: [Option<Time>; 3]) -> GpuJob {
    let [submitted, queued, started] = times;
    GpuJob { thread, submitted, queued, started, ..GpuJob::named(name) }
}

/// Two threads wait for fences: one for a job of another process, one for what nobody ever signals.
pub(super) fn waits(scenario: &mut Scenario) {
    let (game, _) = scenario.process(400, 1, "game", &["/bin/game"]);
    let render = scenario.thread(401, game, "render");
    let (_, other) = scenario.process(500, 1, "compositor", &["/bin/compositor"]);
    let graphics = queue(scenario, Scope::Machine(MachineId::FIRST), "gfx");
    let tracks =
        [other, render].map(|thread| scenario.track(Scope::Thread(thread), "GPU waits", None));
    let mut job = GpuJob::named(scenario.name("Draw"));
    (job.thread, job.submitted, job.started, job.fence) =
        (Some(render), at(10), at(12), Some(fence(1)));

    wait_begins(scenario, tracks[0], (20, fence(1)));
    wait_begins(scenario, tracks[1], (30, fence(7)));
    scenario.time = super::START + 45_000;
    scenario.then(Event::GpuJob(graphics, Box::new(job)));
    let by = Value::Text("an interrupt".into());
    let by = scenario.field(FieldRole::FenceSignaler, "signaled by", by);
    let signaled = SliceUpdate { fields: vec![by], ..SliceUpdate::default() };
    let unfinished = SliceUpdate { unfinished: true, ..SliceUpdate::default() };
    for (ended, track, more) in [(50, tracks[0], signaled), (60, tracks[1], unfinished)] {
        scenario.time = super::START + ended * 1_000;
        scenario.events.push((Time(scenario.time), Event::SliceUpdate(track, more)));
        scenario.then(Event::SliceEnd(track));
    }
}

fn wait_begins(scenario: &mut Scenario, track: TrackId, (since, fence): (u64, Fence)) {
    let mut slice = Slice::named(scenario.name("waits for a fence"));
    (slice.role, slice.category) = (SliceRole::FenceWait, Some(scenario.name("fence wait")));
    let timeline = Value::Text("amdgpu gfx".into());
    slice.fields = vec![
        scenario.field(FieldRole::FenceTimeline, "timeline", timeline),
        scenario.field(FieldRole::FenceContext, "context", Value::Unsigned(fence.context)),
        scenario.field(FieldRole::FenceSequence, "sequence", Value::Unsigned(fence.sequence)),
    ];
    scenario.time = super::START + since * 1_000;
    scenario.then(Event::SliceBegin(track, slice));
}
