//! What is played while it is recorded, compared with what the file says afterwards.

use std::fs::File;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use syscollect_capture::{RecordOptions, Recording, Stacks, Tee, Teed};
use syscollect_merge::{Session, play_live};
use syscollect_model::{
    Event, Exporter, ProcessId, Scope, StackId, StopReason, Tables, ThreadId, Time, TrackId,
};
use syscollect_playback::Recording as _;
use syscollect_store::CaptureReader;

use super::context::{Context, finish};

/// How late an event may be told: records are on their way for a second and a half, the clocks are
/// read each tenth of a second, and the machine may be busy.
const LATEST: Duration = Duration::from_secs(4);

/// Switches, wakeups and samples with stacks, forks, and zones of several threads.
pub(crate) fn live(context: &Context) -> Result<String> {
    let capture = context.path("live.syscap");
    let (tee, reported) = channel();
    let options = RecordOptions {
        sample_rate_hz: 199,
        stacks: Stacks { samples: true, offcpu: true, wakers: true, ..Stacks::default() },
        tee: Some(Tee::to_play(tee)),
        ..RecordOptions::default()
    };
    let over = Arc::new(AtomicBool::new(false));
    let player = std::thread::spawn({
        let over = Arc::clone(&over);
        move || play(&reported, &over)
    });
    let recording = Recording::start(options, File::create(&capture)?)?;
    for load in [&["ping-pong", "3000"][..], &["marks", "3", "2000"], &["callers", "1"]] {
        let output = finish(Command::new(&context.load).args(load))?;
        ensure!(output.status.success(), "the load {load:?} ended with {}", output.status);
    }
    recording.stop(StopReason::Command)?;
    over.store(true, Ordering::Release);
    let live = player.join().map_err(|_| anyhow!("the player broke off"))??;
    let mut file = ObservedEvents::default();
    Session::open(CaptureReader::open(&capture)?)?.play(&mut file)?;
    compare(&live, &file)?;
    ensure!(live.latest <= LATEST, "an event was told {:?} after it happened", live.latest);
    let count = file.lines.len();
    Ok(format!("{count} of {count} events, told at most {:.1} s late", live.latest.as_secs_f64()))
}

fn play(reported: &Receiver<Teed>, over: &AtomicBool) -> Result<ObservedEvents> {
    let mut observed = ObservedEvents { is_live: true, ..ObservedEvents::default() };
    play_live(&mut observed, |live| {
        loop {
            match reported.recv_timeout(Duration::from_millis(100)) {
                Ok(Teed::Chunk(chunk)) => live.feed(chunk)?,
                Ok(Teed::NothingBefore(ticks)) => live.advance(ticks)?,
                // Nothing is left out of what is played.
                Ok(Teed::LeftOut(_) | Teed::Resumes(_) | Teed::Complete) => {}
                // Threads of the recorder may keep their ends for longer than it lasts.
                Err(RecvTimeoutError::Timeout) if !over.load(Ordering::Acquire) => {}
                Err(_) => return Ok(()),
            }
        }
    })?;
    Ok(observed)
}

/// Both say the same, event by event.
fn compare(live: &ObservedEvents, file: &ObservedEvents) -> Result<()> {
    let mut lines = live.lines.iter().zip(&file.lines).enumerate();
    if let Some((number, (live, whole))) = lines.find(|(_, (live, file))| live != file) {
        let same = live.chars().zip(whole.chars()).take_while(|(live, file)| live == file).count();
        bail!(
            "event {number} of {}, {}, says while recording:\n  ...{}\nand in the file:\n  ...{}",
            file.lines.len(),
            live.chars().take(60).collect::<String>(),
            rest(live, same),
            rest(whole, same)
        );
    }
    let counts = (live.lines.len(), file.lines.len());
    ensure!(counts.0 == counts.1, "{} events while recording, {} in the file", counts.0, counts.1);
    Ok(())
}

/// Some of a line around where it stops to be the same.
fn rest(line: &str, same: usize) -> String {
    line.chars().skip(same.saturating_sub(20)).take(100).collect()
}

/// Events as lines in which tasks are numbers: names change, and a file shows the last ones.
#[derive(Default)]
struct ObservedEvents {
    lines: Vec<String>,
    /// Whether it is now when events come.
    is_live: bool,
    /// The longest time between an event and its telling.
    latest: Duration,
    /// When the exporter was told to begin: what was recorded before that could not come in time.
    begun: Option<Instant>,
}

fn tid(thread: ThreadId, tables: &Tables) -> u32 {
    tables.thread(thread).tid
}

fn pid(process: ProcessId, tables: &Tables) -> u32 {
    tables.process(process).pid
}

fn frames(stack: Option<StackId>, tables: &Tables) -> Vec<String> {
    let frames = stack.map_or(&[][..], |stack| tables.stack(stack));
    frames.iter().map(|frame| tables.frame_label(*frame)).collect()
}

fn track(track: TrackId, tables: &Tables) -> String {
    let track = tables.track(track);
    let of = match track.scope {
        Scope::Machine(_) => "machine".to_owned(),
        Scope::Cpu(cpu) => cpu.to_string(),
        Scope::Process(process) => format!("process {}", tables.process(process).pid),
        Scope::Thread(thread) => format!("thread {}", tid(thread, tables)),
    };
    format!("{of} {}", tables.strings.get(track.name))
}

fn line(event: &Event, tables: &Tables) -> Option<String> {
    Some(match event {
        Event::ThreadName(..) => return None,
        Event::Switch(switch) => format!(
            "switch cpu{} {:?} {:?} -> {} {:?}",
            switch.cpu,
            switch.previous.map(|thread| tid(thread, tables)),
            switch.off_cpu.state,
            tid(switch.next, tables),
            frames(switch.off_cpu.stack, tables)
        ),
        Event::Wakeup(wakeup) => format!(
            "wakeup cpu{} {:?} {} {:?}",
            wakeup.cpu,
            wakeup.waker.map(|thread| tid(thread, tables)),
            tid(wakeup.wakee, tables),
            frames(wakeup.stack, tables)
        ),
        Event::Sample(sample) => {
            format!(
                "sample cpu{} {} {:?}",
                sample.cpu,
                tid(sample.thread, tables),
                frames(sample.stack, tables)
            )
        }
        Event::ProcessStart(process) => format!("process {} starts", pid(*process, tables)),
        Event::ProcessExec(process, _) => format!("process {} execs", pid(*process, tables)),
        Event::ProcessEnd(process) => format!("process {} ends", pid(*process, tables)),
        Event::ThreadStart(thread) => format!("thread {} starts", tid(*thread, tables)),
        Event::ThreadEnd(thread) => format!("thread {} ends", tid(*thread, tables)),
        Event::Asleep(thread, _) => format!("thread {} is asleep", tid(*thread, tables)),
        Event::LoopMark(thread, mark) => format!("loop of {} {mark:?}", tid(*thread, tables)),
        Event::Counter(id, value) => format!("{} = {value}", track(*id, tables)),
        Event::SliceBegin(id, slice) => {
            format!("{} begins {}", track(*id, tables), tables.strings.get(slice.name))
        }
        Event::SliceEnd(id) => format!("{} ends", track(*id, tables)),
        Event::Instant(id, slice) => {
            format!("{} at {}", track(*id, tables), tables.strings.get(slice.name))
        }
        Event::Message(id, message) => format!("{} says {:?}", track(*id, tables), message.text),
        Event::Loss(loss) => format!("{} lost", loss.count),
        Event::SliceUpdate(id, _) => format!("{} more", track(*id, tables)),
        Event::Migration(event) => format!("migration of {}", tid(event.thread, tables)),
        Event::Lock(event) => format!("lock of {}", tid(event.thread, tables)),
        Event::Memory(event) => {
            format!("memory of {} at {}", tid(event.thread, tables), event.address)
        }
        Event::GpuJob(id, _) => format!("{} did a job", track(*id, tables)),
        Event::FrameImage(id, _) => format!("{} has an image", track(*id, tables)),
        Event::Crash(crash) => format!("crash of {}", tid(crash.thread, tables)),
        Event::SignalExit(exit) => format!("a signal ends {}", pid(exit.process, tables)),
        Event::RecordingEnd(machine) => format!("recording of {machine} ends"),
    })
}

/// Nanoseconds of CLOCK_BOOTTIME now.
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock writes into a structure of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Exporter for ObservedEvents {
    type Error = anyhow::Error;

    fn begin(&mut self, _: &Tables) -> Result<()> {
        self.begun = Some(Instant::now());
        Ok(())
    }

    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<()> {
        let begun = self.begun.context("no event comes before the beginning")?.elapsed();
        if self.is_live {
            let late = Duration::from_nanos(now().saturating_sub(time.0));
            self.latest = self.latest.max(late.min(begun));
        }
        if !is_of_recorder(event, tables) {
            self.lines.extend(line(event, tables).map(|line| format!("{} {line}", time.0)));
        }
        Ok(())
    }
}

/// Whether it is what the recorder said, which a file's last description has.
fn is_of_recorder(event: &Event, tables: &Tables) -> bool {
    let Event::Instant(track, _) = event else { return false };
    let track = tables.track(*track);
    matches!(track.scope, Scope::Machine(_)) && tables.strings.get(track.name) == "Recorder"
}
