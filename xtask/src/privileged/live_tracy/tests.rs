//! The comparison of a viewer with a file sees each difference: without one the two agree, and with
//! a single thing changed they do not.

use std::convert::Infallible;
use std::sync::OnceLock;

use syscollect_exporters::TracyLive;
use syscollect_model::{Event, Exporter, Loss, RecorderSummary, Tables, Time};
use syscollect_playback::Recording as _;
use syscollect_tests::tracy_viewer::{ReceivedTimeline, StrictViewer};
use syscollect_tests::{golden, reference_capture};

use super::compared::{ComparedCounts, RecordedEvents, ToldTimeline, compare};
use super::span::FIRST_ROW;

/// One recording, as a viewer saw it and as a file has it.
struct Both {
    live: TracyLive,
    viewer: Option<StrictViewer>,
    file: RecordedEvents,
}

impl Both {
    fn exchange(&mut self) {
        let Self { live, viewer, .. } = self;
        let session = live.session();
        let viewer = viewer.get_or_insert_with(|| {
            session.connect(1_700_000_000);
            StrictViewer::default()
        });
        loop {
            let asked = viewer.take_bytes();
            session.receive(&asked).expect("it is a viewer");
            session.pump();
            if asked.is_empty() && session.output().is_empty() {
                return;
            }
            while !session.output().is_empty() {
                viewer.receive(session.output()).expect("nothing contradicts what came before");
                session.sent(session.output().len());
                session.pump();
            }
        }
    }
}

impl Exporter for Both {
    type Error = Infallible;

    fn begin(&mut self, tables: &Tables) -> Result<(), Infallible> {
        self.live.begin(tables)?;
        self.exchange();
        Ok(())
    }

    fn event(&mut self, at: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        self.file.event(at, event, tables)?;
        self.live.event(at, event, tables)
    }

    fn end(
        &mut self,
        losses: &[Loss],
        recorder: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Result<(), Infallible> {
        self.file.end(losses, recorder, tables)?;
        self.live.end(losses, recorder, tables)?;
        self.live.session().finish();
        self.exchange();
        Ok(())
    }
}

fn both() -> &'static (ReceivedTimeline, RecordedEvents) {
    static BOTH: OnceLock<(ReceivedTimeline, RecordedEvents)> = OnceLock::new();
    BOTH.get_or_init(|| {
        let (live, viewer, file) = Default::default();
        let mut both = Both { live, viewer, file };
        golden::open(reference_capture::capture()).play(&mut both).unwrap();
        let Both { viewer, file, .. } = both;
        let mut seen = viewer.unwrap().seen().clone();
        // Losses are of the capture itself, and an end of the comparison.
        seen.messages.retain(|message| !message.own);
        (seen, file)
    })
}

fn compared(seen: &ReceivedTimeline) -> anyhow::Result<ComparedCounts> {
    compare(&ToldTimeline { seen, joined: 0, recorder: 1 }, &both().1)
}

/// With that changed, the comparison says so, in these words.
#[track_caller]
fn differs(words: &str, change: impl FnOnce(&mut ReceivedTimeline)) {
    let mut seen = both().0.clone();
    change(&mut seen);
    match compared(&seen) {
        Ok(counts) => panic!("{words} is changed, and {counts} are as in the file"),
        Err(error) => assert!(error.to_string().contains(words), "{words}: {error:#}"),
    }
}

/// The place of one in the middle of those that are compared.
#[track_caller]
fn middle<T>(rows: &[T], is_compared: impl Fn(&T) -> bool) -> usize {
    let compared: Vec<usize> = (0..rows.len()).filter(|index| is_compared(&rows[*index])).collect();
    compared[compared.len() / 2]
}

#[test]
fn what_was_told_is_what_the_file_has() {
    let counts = compared(&both().0).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(counts.has_all_kinds(), "{counts}");
}

#[test]
fn a_switch_that_differs_is_seen() {
    let last = |seen: &ReceivedTimeline| seen.switches.len() - 1;
    differs("switch of CPU", |seen| drop(seen.switches.remove(last(seen) / 2)));
    differs("switch of CPU", |seen| seen.switches[last(seen) / 2].time += 1);
    differs("switch of CPU", |seen| seen.switches[last(seen) / 2].new += 1);
    differs("switch of CPU", |seen| {
        let switch = seen.switches[last(seen) / 2];
        seen.switches.insert(last(seen) / 2, switch);
    });
    differs("state", |seen| {
        let at = middle(&seen.switches, |switch| switch.old != 0);
        seen.switches[at].state = 99;
    });
}

#[test]
fn a_wakeup_that_differs_is_seen() {
    let at = |seen: &ReceivedTimeline| seen.wakeups.len() - 1;
    differs("wakeup", |seen| drop(seen.wakeups.remove(at(seen))));
    differs("wakeup", |seen| seen.wakeups[at(seen)].0 -= 1);
    differs("wakeup", |seen| seen.wakeups[at(seen)].2 += 1);
    differs("wakeup", |seen| seen.wakeups.push(seen.wakeups[at(seen)]));
}

#[test]
fn a_sample_that_differs_is_seen() {
    let at = |seen: &ReceivedTimeline| middle(&seen.samples, |sample| !sample.3);
    differs("sample", |seen| drop(seen.samples.remove(at(seen))));
    differs("sample", |seen| seen.samples[at(seen)].0 += 1);
    differs("sample", |seen| seen.samples[at(seen)].1 += 1);
    differs("sample", |seen| {
        let sample = seen.samples[at(seen)].clone();
        seen.samples.push(sample);
    });
}

#[test]
fn a_stack_of_a_sample_or_of_a_switch_that_differs_is_seen() {
    for of_switch in [false, true] {
        let at = |seen: &ReceivedTimeline| {
            middle(&seen.samples, |sample| sample.3 == of_switch && sample.2.len() > 2)
        };
        differs("stack", |seen| drop(seen.samples[at(seen)].2.pop()));
        differs("stack", |seen| drop(seen.samples[at(seen)].2.remove(0)));
        differs("stack", |seen| seen.samples[at(seen)].2.swap(0, 1));
        differs("stack", |seen| {
            let stack = &mut seen.samples[at(seen)].2;
            stack.push(stack[0]);
        });
    }
}

#[test]
fn a_function_that_differs_is_seen() {
    let place = |seen: &mut ReceivedTimeline, has: fn(&[(String, String, u32)]) -> bool| {
        let samples = seen.samples.iter().filter(|sample| !sample.3);
        let mut places = samples.flat_map(|sample| &sample.2);
        *places.find(|place| has(&seen.frames[place])).expect("there is one")
    };
    let any = |lines: &[(String, String, u32)]| !lines[0].0.starts_with('[');
    let inlined = |lines: &[(String, String, u32)]| lines.len() > 1;
    let lined = |lines: &[(String, String, u32)]| lines[0].2 > 0;
    differs("stack", |seen| {
        let place = place(seen, any);
        seen.frames.entry(place).and_modify(|lines| lines[0].0.push('x'));
    });
    differs("stack", |seen| {
        let place = place(seen, inlined);
        seen.frames.entry(place).and_modify(|lines| drop(lines.remove(0)));
    });
    differs("stack", |seen| {
        let place = place(seen, lined);
        seen.frames.entry(place).and_modify(|lines| lines[0].2 += 1);
    });
    differs("stack", |seen| {
        let place = place(seen, lined);
        seen.frames.entry(place).and_modify(|lines| lines[0].1.push('x'));
    });
    // No answer at all.
    differs("stack", |seen| {
        let place = place(seen, any);
        seen.frames.remove(&place);
    });
}

#[test]
fn a_zone_that_differs_is_seen() {
    let at = |seen: &ReceivedTimeline| {
        middle(&seen.zones, |zone| zone.thread < FIRST_ROW && zone.end.is_some())
    };
    differs("zone", |seen| drop(seen.zones.remove(at(seen))));
    differs("zone", |seen| seen.zones[at(seen)].start -= 1);
    differs("zone", |seen| {
        let at = at(seen);
        seen.zones[at].end = seen.zones[at].end.map(|end| end + 1);
    });
    differs("zone", |seen| seen.zones[at(seen)].name = Some("another".into()));
    differs("zone", |seen| seen.zones[at(seen)].thread += 1);
    differs("zone", |seen| {
        let zone = seen.zones[at(seen)].clone();
        seen.zones.push(zone);
    });
}

#[test]
fn a_message_that_differs_is_seen() {
    let at = |seen: &ReceivedTimeline| middle(&seen.messages, |message| message.thread < FIRST_ROW);
    differs("message", |seen| drop(seen.messages.remove(at(seen))));
    differs("message", |seen| seen.messages[at(seen)].time += 1);
    differs("message", |seen| seen.messages[at(seen)].thread += 1);
    differs("message", |seen| seen.messages[at(seen)].text.insert(0, 'x'));
    differs("message", |seen| {
        let message = seen.messages[at(seen)].clone();
        seen.messages.push(message);
    });
}

#[test]
fn a_step_of_a_lock_that_differs_is_seen() {
    let at = |seen: &ReceivedTimeline| middle(&seen.locks, |step| ![0, 3].contains(&step.kind));
    differs("step of a lock", |seen| drop(seen.locks.remove(at(seen))));
    differs("step of a lock", |seen| seen.locks[at(seen)].time += 1);
    differs("step of a lock", |seen| seen.locks[at(seen)].thread += 1);
    differs("step of a lock", |seen| {
        let lock = seen.locks[at(seen)].lock;
        seen.lock_names.entry(lock).and_modify(|name| name.push('x'));
    });
    differs("step of a lock", |seen| {
        let at = middle(&seen.locks, |step| [0, 3].contains(&step.kind));
        drop(seen.locks.remove(at));
    });
}

#[test]
fn a_value_of_a_plot_that_differs_is_seen() {
    let at = |seen: &ReceivedTimeline| seen.plots.len() / 2;
    differs("value", |seen| drop(seen.plots.remove(at(seen))));
    differs("value", |seen| seen.plots[at(seen)].0 += 1);
    differs("value", |seen| seen.plots[at(seen)].2 += 1.0);
    differs("value", |seen| {
        let plot = seen.plots[at(seen)].1;
        seen.plot_names.insert(plot, "another".into());
    });
}

#[test]
fn a_frame_that_differs_is_seen() {
    let at = |seen: &ReceivedTimeline| seen.frame_times.len() / 2;
    differs("frame", |seen| drop(seen.frame_times.remove(at(seen))));
    differs("frame", |seen| seen.frame_times[at(seen)].1 += 1);
    differs("frame", |seen| {
        let set = seen.frame_times[at(seen)].0;
        seen.frame_names.insert(set, "another".into());
    });
    differs("frame", |seen| {
        let at = middle(&seen.frame_times, |(.., end)| end.is_some());
        seen.frame_times[at].2 = seen.frame_times[at].2.map(|end| end + 1);
    });
}

#[test]
fn a_block_of_memory_that_differs_is_seen() {
    let at = |seen: &ReceivedTimeline| middle(&seen.memory, |block| block.freed.is_some());
    differs("block of memory", |seen| drop(seen.memory.remove(at(seen))));
    differs("block of memory", |seen| seen.memory[at(seen)].size += 1);
    differs("block of memory", |seen| seen.memory[at(seen)].address += 1);
    differs("block of memory", |seen| seen.memory[at(seen)].freed = None);
    differs("block of memory", |seen| {
        let pool = seen.memory[at(seen)].pool;
        seen.texts.insert(pool, "another".into());
    });
}

#[test]
fn a_zone_of_a_gpu_that_differs_is_seen() {
    let at = |seen: &ReceivedTimeline| {
        let is_timed = |location| !seen.location_name(location).ends_with("[without times]");
        middle(&seen.jobs, |job| job.cpu[0] > 0 && is_timed(job.location))
    };
    differs("SubmittedZone", |seen| drop(seen.jobs.remove(at(seen))));
    differs("SubmittedZone", |seen| seen.jobs[at(seen)].cpu[0] += 1);
    differs("SubmittedZone", |seen| seen.jobs[at(seen)].gpu[1] += 1_000_000);
    differs("SubmittedZone", |seen| seen.jobs[at(seen)].thread += 1);
    differs("SubmittedZone", |seen| {
        let context = seen.jobs[at(seen)].context;
        seen.contexts.insert(context, "another".into());
    });
}

#[test]
fn a_name_that_differs_is_seen() {
    differs("was told as", |seen| {
        seen.threads.values_mut().for_each(|thread| thread.label.push('x'));
    });
    differs("was told as", |seen| {
        seen.threads.values_mut().for_each(|thread| thread.process.push('x'));
    });
    differs("has no name", |seen| {
        seen.threads.values_mut().for_each(|thread| thread.label.clear());
    });
}

#[test]
fn a_loss_is_seen() {
    differs("told of a loss", |seen| {
        let mut message = seen.messages[0].clone();
        (message.own, message.text) = (true, "12 events are missing before this".into());
        seen.messages.push(message);
    });
}
