//! The comparison of a viewer with a file sees each difference: without one the two agree, and with
//! a single thing changed they do not.

use std::convert::Infallible;
use std::sync::OnceLock;

use syscollect_exporters::TracyLive;
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, Loss, RecorderSummary, Tables, Time};
use syscollect_playback::Recording as _;
use syscollect_store::CaptureReader;
use syscollect_tests::tracy_viewer::{ReceivedTimeline, StrictViewer};
use syscollect_tests::{FakeMachine, FakeProgram, golden, reference_capture, ticks};
use syscollect_zone_protocol::{GpuEvent, GpuZoneNumber, HostClock};

use super::compared::{ComparedCounts, RecordedEvents, ToldTimeline, compare};
use super::span::FIRST_ROW;

/// The viewer came before all that happens.
const LONG_BEFORE: i64 = -1_000_000_000;

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

/// What a viewer saw of a recording, and what its file has.
struct ComparedRecording {
    told: ReceivedTimeline,
    file: RecordedEvents,
}

impl ComparedRecording {
    fn of(mut session: Session) -> Self {
        let (live, viewer, file) = Default::default();
        let mut both = Both { live, viewer, file };
        session.play(&mut both).unwrap();
        let Both { viewer, file, .. } = both;
        let mut told = viewer.unwrap().seen().clone();
        // Losses are of the capture itself, and an end of the comparison.
        told.messages.retain(|message| !message.own);
        Self { told, file }
    }

    fn compare(&self, seen: &ReceivedTimeline) -> anyhow::Result<ComparedCounts> {
        compare(&ToldTimeline { seen, joined: LONG_BEFORE, recorder: 1 }, &self.file)
    }

    /// With that changed, the comparison says so, in these words.
    #[track_caller]
    fn differs(&self, words: &str, change: impl FnOnce(&mut ReceivedTimeline)) {
        let mut seen = self.told.clone();
        change(&mut seen);
        match self.compare(&seen) {
            Ok(counts) => panic!("{words} is changed, and {counts} are as in the file"),
            Err(error) => assert!(error.to_string().contains(words), "{words}: {error:#}"),
        }
    }
}

/// The reference capture.
fn reference() -> &'static ComparedRecording {
    static SEEN: OnceLock<ComparedRecording> = OnceLock::new();
    SEEN.get_or_init(|| ComparedRecording::of(golden::open(reference_capture::capture())))
}

/// A program that has a GPU do something: zones in each other, of two queues.
fn gpu_program() -> ComparedRecording {
    let mut machine = FakeMachine::new(1);
    machine.process(100, 1, "game", &[(100, "game"), (101, "render")]);
    let mut program = FakeProgram::new(&mut machine, 1, 100);
    let location = program.location("draw", "", "", 0, 0);
    let queues = ["graphics", "copy"].map(|name| program.gpu_context(name, 1_000_000, 64));
    let thread = program.thread(0, 101);
    for context in queues {
        let (clock, deviation) = (HostClock::Ticks, 0);
        let read = GpuEvent::Calibration { context, clock, deviation, host: ticks(1), gpu: 1_000 };
        thread.gpu(&mut machine, 1, read, &[]);
    }
    for number in 0..20 {
        for (context, us) in queues.into_iter().zip([0, 50]) {
            let (zone, us) =
                (GpuZoneNumber { context, number }, 100 + u64::from(number) * 100 + us);
            thread.gpu(&mut machine, us, GpuEvent::ZoneBegin { zone, location }, &[]);
            thread.gpu(&mut machine, us + 2, GpuEvent::ZoneEnd { zone }, &[]);
            let [began, ended] = [us + 5, us + 25].map(|us| us * 1_000);
            thread.gpu(&mut machine, us + 30, GpuEvent::Times { zone, began, ended }, &[]);
        }
    }
    machine.clock(10_000);
    machine.switch(0, 9_000, 0, 101);
    machine.switch(0, 10_000, 0, 100);
    program.finish(&mut machine);
    ComparedRecording::of(
        Session::open(CaptureReader::from_bytes(machine.finish()).unwrap()).unwrap(),
    )
}

#[track_caller]
fn differs(words: &str, change: impl FnOnce(&mut ReceivedTimeline)) {
    reference().differs(words, change);
}

/// The place of one in the middle of those that are compared.
#[track_caller]
fn middle<T>(rows: &[T], is_compared: impl Fn(&T) -> bool) -> usize {
    let compared: Vec<usize> = (0..rows.len()).filter(|index| is_compared(&rows[*index])).collect();
    compared[compared.len() / 2]
}

#[test]
fn what_was_told_is_what_the_file_has() {
    let counts = reference().compare(&reference().told);
    let counts = counts.unwrap_or_else(|error| panic!("{error:#}"));
    assert!(counts.has_all_but_gpu_zones(), "{counts}");
}

#[test]
fn a_switch_that_differs_is_seen() {
    let last = |seen: &ReceivedTimeline| seen.switches.len() - 1;
    differs("switch of CPU", |seen| {
        let at = last(seen) / 2;
        seen.switches.remove(at);
    });
    differs("switch of CPU", |seen| {
        let at = last(seen) / 2;
        seen.switches[at].time += 1;
    });
    differs("switch of CPU", |seen| {
        let (at, new) = (last(seen) / 2, seen.switches[last(seen) / 2].new);
        let other = seen.switches.iter().find(|one| one.new != new && one.new != 0);
        seen.switches[at].new = other.expect("several threads run").new;
    });
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
    let at = |seen: &ReceivedTimeline| {
        let last = seen.switches.last().expect("there are some").time;
        middle(&seen.wakeups, |(time, thread, _)| {
            let ran = seen.switches.iter().any(|one| one.new == *thread && one.time < *time - 1);
            ran && *time < last
        })
    };
    differs("wakeup", |seen| {
        let at = at(seen);
        seen.wakeups.remove(at);
    });
    differs("wakeup", |seen| {
        let at = at(seen);
        seen.wakeups[at].0 -= 1;
    });
    differs("wakeup", |seen| {
        let at = at(seen);
        seen.wakeups[at].2 += 1;
    });
    differs("wakeup", |seen| {
        let at = at(seen);
        seen.wakeups.push(seen.wakeups[at]);
    });
}

#[test]
fn a_sample_that_differs_is_seen() {
    let at =
        |seen: &ReceivedTimeline| middle(&seen.samples, |sample| !sample.3 && sample.1 < FIRST_ROW);
    differs("sample", |seen| {
        let at = at(seen);
        seen.samples.remove(at);
    });
    differs("sample", |seen| {
        let at = at(seen);
        seen.samples[at].0 += 1;
    });
    differs("sample", |seen| {
        let at = at(seen);
        seen.samples[at].1 += 1;
    });
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
        differs("stack", |seen| {
            let at = at(seen);
            seen.samples[at].2.pop();
        });
        differs("stack", |seen| {
            let at = at(seen);
            seen.samples[at].2.remove(0);
        });
        differs("stack", |seen| {
            let at = at(seen);
            seen.samples[at].2.swap(0, 1);
        });
        differs("stack", |seen| {
            let at = at(seen);
            let stack = &mut seen.samples[at].2;
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
        seen.frames.entry(place).and_modify(|lines| _ = lines.remove(0));
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
    differs("zone", |seen| {
        let at = at(seen);
        seen.zones.remove(at);
    });
    differs("zone", |seen| {
        let at = at(seen);
        seen.zones[at].start -= 1;
    });
    differs("zone", |seen| {
        let at = at(seen);
        seen.zones[at].end = seen.zones[at].end.map(|end| end + 1);
    });
    differs("zone", |seen| {
        let at = at(seen);
        seen.zones[at].name = Some("another".into());
    });
    differs("zone", |seen| {
        let at = at(seen);
        seen.zones[at].thread += 1;
    });
    differs("zone", |seen| {
        let zone = seen.zones[at(seen)].clone();
        seen.zones.push(zone);
    });
}

#[test]
fn a_message_that_differs_is_seen() {
    let at = |seen: &ReceivedTimeline| middle(&seen.messages, |message| message.thread < FIRST_ROW);
    differs("message", |seen| {
        let at = at(seen);
        seen.messages.remove(at);
    });
    differs("message", |seen| {
        let at = at(seen);
        seen.messages[at].time += 1;
    });
    differs("message", |seen| {
        let at = at(seen);
        seen.messages[at].thread += 1;
    });
    differs("message", |seen| {
        let at = at(seen);
        seen.messages[at].text.insert(0, 'x');
    });
    differs("message", |seen| {
        let message = seen.messages[at(seen)].clone();
        seen.messages.push(message);
    });
}

#[test]
fn a_step_of_a_lock_that_differs_is_seen() {
    let at = |seen: &ReceivedTimeline| middle(&seen.locks, |step| ![0, 3].contains(&step.kind));
    differs("step of a lock", |seen| {
        let at = at(seen);
        seen.locks.remove(at);
    });
    differs("step of a lock", |seen| {
        let at = at(seen);
        seen.locks[at].time += 1;
    });
    differs("step of a lock", |seen| {
        let at = at(seen);
        seen.locks[at].thread += 1;
    });
    differs("step of a lock", |seen| {
        let lock = seen.locks[at(seen)].lock;
        seen.lock_names.entry(lock).and_modify(|name| name.push('x'));
    });
    differs("step of a lock", |seen| {
        let at = middle(&seen.locks, |step| [0, 3].contains(&step.kind));
        seen.locks.remove(at);
    });
}

#[test]
fn a_value_of_a_plot_that_differs_is_seen() {
    let at = |seen: &ReceivedTimeline| seen.plots.len() / 2;
    differs("value", |seen| {
        let at = at(seen);
        seen.plots.remove(at);
    });
    differs("value", |seen| {
        let at = at(seen);
        seen.plots[at].0 += 1;
    });
    differs("value", |seen| {
        let at = at(seen);
        seen.plots[at].2 += 1.0;
    });
    differs("value", |seen| {
        let plot = seen.plots[at(seen)].1;
        seen.plot_names.insert(plot, "another".into());
    });
}

#[test]
fn a_frame_that_differs_is_seen() {
    let at = |seen: &ReceivedTimeline| seen.frame_times.len() / 2;
    differs("frame", |seen| {
        let at = at(seen);
        seen.frame_times.remove(at);
    });
    differs("frame", |seen| {
        let at = at(seen);
        seen.frame_times[at].1 += 1;
    });
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
    differs("block of memory", |seen| {
        let at = at(seen);
        seen.memory.remove(at);
    });
    differs("block of memory", |seen| {
        let at = at(seen);
        seen.memory[at].size += 1;
    });
    differs("block of memory", |seen| {
        let at = at(seen);
        seen.memory[at].address += 1;
    });
    differs("block of memory", |seen| {
        let at = at(seen);
        seen.memory[at].freed = None;
    });
    differs("block of memory", |seen| {
        let pool = seen.memory[at(seen)].pool;
        seen.texts.insert(pool, "another".into());
    });
}

#[test]
fn a_zone_of_a_gpu_that_differs_is_seen() {
    let seen = gpu_program();
    let counts = seen.compare(&seen.told).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(counts.gpu_zones(), 40, "{counts}");
    let at = seen.told.jobs.len() / 2;
    let differs = |change: &dyn Fn(&mut ReceivedTimeline)| seen.differs("SubmittedZone", change);
    differs(&|seen| {
        seen.jobs.remove(at);
    });
    differs(&|seen| seen.jobs[at].cpu[0] += 1);
    differs(&|seen| seen.jobs[at].cpu[1] += 1);
    differs(&|seen| seen.jobs[at].gpu[1] += 1_000_000);
    differs(&|seen| seen.jobs[at].thread += 1);
    differs(&|seen| {
        seen.contexts.insert(seen.jobs[at].context, "another".into());
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
