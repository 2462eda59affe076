//! Recordings that are played while they are made: what is told, and when.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test, as its body does")]

use std::cell::RefCell;
use std::rc::Rc;
use syscollect_exporters::{ExportError, TextExporter};
use syscollect_merge::{Live, Session, play_live};
use syscollect_model::{Event, Exporter, Lane, LaneKind, Tables, Ticks, Time};
use syscollect_playback::{NullExporter, Stopped};
use syscollect_records::{RecordKind, TaskRecord};
use syscollect_store::{CaptureReader, Chunk};
use syscollect_tests::{FakeMachine, ticks};

/// Microseconds between the switches of a CPU.
const STEP: u64 = 10;

/// Lines, which can be looked at while they are written.
#[derive(Clone, Default)]
struct Lines(Rc<RefCell<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// How many tell of a switch.
    fn switches(&self) -> usize {
        String::from_utf8(self.0.borrow().clone()).unwrap().matches(" switch ").count()
    }
}

/// CPU 0 switches `count` times, in chunks of few; CPU 1 says nothing until the very end.
fn capture(count: u64) -> CaptureReader {
    let mut machine = FakeMachine::new(2);
    machine.chunk_bytes(100);
    for step in 1..=count {
        machine.switch(0, step * STEP, 0, 100 + step as u32 % 2);
        machine.clock(step * STEP + 1);
    }
    machine.switch(1, count * STEP + 5, 0, 7);
    CaptureReader::from_bytes(machine.finish()).unwrap()
}

fn chunks(reader: &CaptureReader, of: impl Fn(Lane) -> bool) -> Vec<Chunk> {
    let lanes = reader.lanes().into_iter().filter(|lane| of(*lane));
    lanes.flat_map(|lane| reader.chunks(lane)).map(|entry| reader.read(entry).unwrap()).collect()
}

fn feed_all(live: &mut Live<'_>, chunks: Vec<Chunk>) -> Result<(), Stopped> {
    chunks.into_iter().try_for_each(|chunk| live.feed(chunk))
}

/// The most chunks that wait in memory while CPU 0's are fed and CPU 1 is silent, and how many were
/// fed; `watermark` says whether anybody tells that nothing comes before.
fn most_queued(watermark: bool) -> (usize, usize) {
    let fed = chunks(&capture(400), |lane| lane == Lane::new(LaneKind::Sched, 0));
    let count = fed.len();
    let mut session = Session::open(capture(400)).unwrap();
    let mut most = 0;
    session
        .play_fed(&mut NullExporter::new(), |playing| {
            for chunk in fed {
                let first = chunk.header.first;
                playing.feed(chunk);
                if watermark {
                    playing.nothing_before(first);
                }
                playing.play()?;
                most = most.max(playing.queued_chunks());
            }
            Ok(())
        })
        .unwrap();
    (most, count)
}

#[test]
fn chunks_do_not_pile_up_while_a_lane_is_silent() {
    let (most, fed) = most_queued(true);
    assert!(fed > 50 && most <= 2, "{most} of {fed} chunks waited");
    let (most, fed) = most_queued(false);
    assert_eq!(most, fed, "all wait for the silent lane, of which nobody says anything");
}

#[test]
fn events_are_told_up_to_the_watermark_although_a_lane_is_silent() {
    let reader = capture(1_000);
    let lines = Lines::default();
    let mut exporter = TextExporter::new(lines.clone());
    play_live(&mut exporter, |live| {
        feed_all(live, chunks(&reader, |lane| lane.kind.is_definition()))?;
        for (chunk, before) in chunks(&reader, |lane| lane == sched(0)).into_iter().zip(0..) {
            let (records, last) = (chunk.header.records as usize, chunk.header.last);
            live.feed(chunk)?;
            let reported = lines.switches();
            assert!(before == 0 || reported > 0, "what was fed before was told");
            live.advance(Ticks(last.0 + 1))?;
            assert_eq!(lines.switches(), reported + records, "nothing of chunk {before} waits");
        }
        feed_all(live, chunks(&reader, |lane| lane == sched(1)))
    })
    .unwrap();
    assert_eq!(lines.switches(), 1_001);
}

fn sched(cpu: u16) -> Lane {
    Lane::new(LaneKind::Sched, cpu)
}

#[test]
fn nothing_is_told_of_times_that_the_clocks_do_not_reach() {
    let reader = capture(1_000);
    let lines = Lines::default();
    let mut exporter = TextExporter::new(lines.clone());
    play_live(&mut exporter, |live| {
        let clocks = chunks(&reader, |lane| lane.kind == LaneKind::Clock);
        feed_all(live, chunks(&reader, |lane| lane.kind != LaneKind::Clock))?;
        live.advance(ticks_at(500))?;
        assert_eq!(lines.switches(), 0, "no time is known yet");
        for clock in clocks {
            let last = clock.header.last;
            live.feed(clock)?;
            live.advance(ticks_at(1_000_000))?;
            let switches = (1..=1_000).map(|step| step * STEP).chain([1_000 * STEP + 5]);
            let before = switches.filter(|us| ticks_at(*us) < last).count();
            assert!(lines.switches() <= before, "{} of {before}", lines.switches());
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(lines.switches(), 1_001);
}

#[test]
fn a_recording_too_short_for_two_clock_readings_is_told_at_its_end() {
    let reader = capture(3);
    let mut first = chunks(&reader, is_clock).remove(0);
    first.data.truncate(first.header.stride as usize);
    let lines = Lines::default();
    let mut exporter = TextExporter::new(lines.clone());
    play_live(&mut exporter, |live| {
        live.feed(first)?;
        feed_all(live, chunks(&reader, |lane| !is_clock(lane)))?;
        live.advance(ticks_at(1_000))?;
        assert_eq!(lines.switches(), 0, "the clocks may be read a second time");
        Ok(())
    })
    .unwrap();
    assert_eq!(lines.switches(), 4);
}

fn is_clock(lane: Lane) -> bool {
    lane.kind == LaneKind::Clock
}

fn ticks_at(us: u64) -> Ticks {
    Ticks(ticks(us))
}

/// Names as rows have them when events come.
#[derive(Default)]
struct Names(Vec<String>);

impl Exporter for Names {
    type Error = ExportError;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<(), ExportError> {
        match event {
            Event::Switch(switch) => {
                self.0.push(tables.strings.get(tables.thread(switch.next).name).to_owned());
            }
            Event::ThreadName(_, name) => {
                self.0.push(format!("renamed to {}", tables.strings.get(*name)));
            }
            _ => {}
        }
        Ok(())
    }
}

#[test]
fn a_thread_has_the_name_of_now_and_is_called_by_its_id_until_it_is_announced() {
    let mut machine = FakeMachine::new(1);
    machine.chunk_bytes(1);
    machine.switch(0, 10, 0, 100);
    machine.process(100, 1, "server", &[]);
    machine.switch(0, 20, 0, 0);
    machine.switch(0, 30, 0, 100);
    let renamed = TaskRecord { tid: 100, tgid: 100, ..TaskRecord::default() };
    machine.task(0, 40, RecordKind::Rename, "idler", renamed);
    machine.switch(0, 50, 0, 0);
    machine.switch(0, 60, 0, 100);
    machine.clock(70);
    let reader = CaptureReader::from_bytes(machine.finish()).unwrap();
    let mut names = Names::default();
    play_live(&mut names, |live| {
        let all = chunks(&reader, |_| true);
        feed_all(live, all.iter().filter(|chunk| !is_process_list(chunk)).cloned().collect())?;
        live.advance(ticks_at(15))?;
        feed_all(live, all.iter().filter(|chunk| is_process_list(chunk)).cloned().collect())?;
        live.advance(ticks_at(70))
    })
    .unwrap();
    let expected = ["<100>", "swapper", "server", "renamed to idler", "swapper", "idler"];
    assert_eq!(names.0, expected);
}

fn is_process_list(chunk: &Chunk) -> bool {
    chunk.data.starts_with(b"{\"processes\"")
}
