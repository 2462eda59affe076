//! A program that gives work to GPUs.

use super::{IDLE, Story, off};
use syscollect_model::{
    Event, Fence, Field, GpuJob, GpuJobEnd, Scope, SleepState, ThreadId, Time, Track, TrackId, TrackKind, Value,
};

/// Microseconds after [`super::START`].
fn at(microseconds: u64) -> Option<Time> {
    Some(Time(super::START + microseconds * 1_000))
}

fn fence(sequence: u64) -> Fence {
    Fence { context: 12, sequence }
}

fn queue(story: &mut Story, scope: Scope, name: &str) -> TrackId {
    let name = story.name(name);
    story.tables.add_track(Track { scope, name, kind: TrackKind::GpuQueue })
}

/// One thread of a game draws and computes, another program's job waits behind it; then all that can be missing is.
pub(super) fn jobs(story: &mut Story) {
    let (process, _) = story.process(400, 1, "game", &["/bin/game"]);
    let render = story.thread(401, process, "render");
    let (_, other) = story.process(500, 1, "compositor", &["/bin/compositor"]);
    story.switch(0, IDLE, off(SleepState::Runnable), render);
    let graphics = queue(story, Scope::Machine, "gfx");
    let compute = queue(story, Scope::Process(process), "compute");

    let mut job = |name: &str, thread: Option<ThreadId>, times: [Option<Time>; 3]| {
        let [submitted, queued, started] = times;
        GpuJob { thread, submitted, queued, started, ..GpuJob::named(story.name(name)) }
    };
    let mut draw = job("Draw", Some(render), [at(10), at(12), at(20)]);
    (draw.context, draw.fence) = (Some(0xff00), Some(fence(1)));
    let mut compose = job("Compose", Some(other), [at(15), at(16), at(50)]);
    (compose.fence, compose.waited_for) = (Some(fence(2)), vec![fence(1)]);
    let mut blur = job("Blur", Some(render), [at(30), None, at(40)]);
    blur.end = GpuJobEnd::Failed;
    let mut lost = job("Draw", None, [None; 3]);
    lost.end = GpuJobEnd::WithoutBeginning;
    let mut open = job("Draw", Some(render), [at(70), at(75), None]);
    open.end = GpuJobEnd::Unfinished;
    draw.fields = vec![Field { name: story.name("ring"), value: Value::Unsigned(0) }];
    for (track, ended, job) in
        [(graphics, 45, draw), (compute, 48, blur), (graphics, 60, compose), (graphics, 65, lost), (graphics, 90, open)]
    {
        story.time = super::START + ended * 1_000;
        story.then(Event::GpuJob(track, Box::new(job)));
    }
}
