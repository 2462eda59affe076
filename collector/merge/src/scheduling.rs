//! Scheduling events: switches, wakeups, migrations, frequencies.

use crate::engine::{CaptureEngine, Engine};
use crate::lane::ChunkStart;
use rustc_hash::FxHashMap;
use syscollect_model::{
    CpuId, Event, Migration, OffCpu, Scope, SleepState, Switch, Track, TrackId, TrackKind, Unit,
    Wakeup,
};
use syscollect_playback::{EventType, Stopped};
use syscollect_records::{RecordKind, SchedRecord, SchedStackRecord, sched_flags, task_state};

/// Decodes lanes of scheduling events. Which task runs on a CPU is known by its lane.
#[derive(Debug, Default)]
pub(crate) struct Scheduling {
    /// By CPU.
    frequencies: FxHashMap<CpuId, TrackId>,
}

impl Scheduling {
    #[inline]
    pub(crate) fn on(
        &mut self,
        engine: &mut Engine<'_>,
        lane: usize,
        record: &SchedStackRecord,
    ) -> Result<(), Stopped> {
        const SWITCH: u8 = RecordKind::Switch as u8;
        const WAKING: u8 = RecordKind::Waking as u8;
        const WAKEUP_NEW: u8 = RecordKind::WakeupNew as u8;
        const MIGRATE: u8 = RecordKind::Migrate as u8;
        const FREQUENCY: u8 = RecordKind::Frequency as u8;
        const RESUME: u8 = RecordKind::Resume as u8;
        match record.event.stamp.split().1 {
            SWITCH => switch(engine, lane, record),
            WAKING => wakeup(engine, lane, record, EventType::Waking),
            WAKEUP_NEW => wakeup(engine, lane, record, EventType::WakeupNew),
            MIGRATE => migrate(engine, &record.event),
            FREQUENCY => self.frequency(engine, &record.event),
            RESUME => resume(engine, lane, &record.event),
            _ => {
                engine.unknown(lane);
                Ok(())
            }
        }
    }

    fn frequency(&mut self, engine: &mut Engine<'_>, record: &SchedRecord) -> Result<(), Stopped> {
        engine.count(EventType::Frequency);
        let cpu = engine.cpu(u16_of(record.state, record.prio));
        let track = *self.frequencies.entry(cpu).or_insert_with(|| {
            let name = engine.tables.strings.intern("cpufreq");
            let kind = TrackKind::Counter { unit: Unit::Kilohertz };
            engine.track(Track { scope: Scope::Cpu(cpu), name, kind }, 0)
        });
        engine.emit(&Event::Counter(track, f64::from(record.tid)))
    }
}

#[inline]
fn switch(engine: &mut Engine<'_>, lane: usize, record: &SchedStackRecord) -> Result<(), Stopped> {
    let SchedStackRecord { event: record, user_stack, kernel_stack } = record;
    engine.count(EventType::Switch);
    let next = engine.thread(record.tid);
    let stack = engine.stack(lane, *user_stack, *kernel_stack);
    let state = sleep_state(record.state);
    let preempted = record.flags & sched_flags::PREEMPTED != 0;
    let blocked = state != SleepState::Runnable && !preempted;
    let lane = &mut engine.source.lanes[lane];
    let previous = lane.current.replace(next);
    let event = Event::Switch(Switch {
        cpu: lane.cpu,
        previous,
        previous_priority: i32::from(record.prio),
        off_cpu: OffCpu {
            state,
            preempted,
            io_wait: record.flags & sched_flags::IO_WAIT != 0,
            blocked_in: stack.blocked_in.filter(|_| blocked),
            stack: stack.stack,
        },
        next,
        next_priority: i32::from(record.next_prio),
    });
    engine.emit(&event)
}

#[inline]
fn wakeup(
    engine: &mut Engine<'_>,
    lane: usize,
    record: &SchedStackRecord,
    kind: EventType,
) -> Result<(), Stopped> {
    let SchedStackRecord { event: record, user_stack, kernel_stack } = record;
    engine.count(kind);
    let wakee = engine.thread(record.tid);
    let stack = engine.stack(lane, *user_stack, *kernel_stack);
    let lane = &engine.source.lanes[lane];
    let event = Event::Wakeup(Wakeup {
        cpu: lane.cpu,
        waker: lane.current,
        from_interrupt: record.flags & sched_flags::FROM_INTERRUPT != 0,
        wakee,
        priority: i32::from(record.prio),
        target_cpu: engine.cpu(u16_of(record.state, record.next_prio)),
        new: kind == EventType::WakeupNew,
        stack: stack.stack,
    });
    engine.emit(&event)
}

fn migrate(engine: &mut Engine<'_>, record: &SchedRecord) -> Result<(), Stopped> {
    engine.count(EventType::Migrate);
    let thread = engine.thread(record.tid);
    let from_cpu = engine.cpu(u16_of(record.state, record.flags));
    let to_cpu = engine.cpu(u16_of(record.prio, record.next_prio));
    engine.emit(&Event::Migration(Migration { thread, from_cpu, to_cpu }))
}

fn resume(engine: &mut Engine<'_>, lane: usize, record: &SchedRecord) -> Result<(), Stopped> {
    engine.sink.tally.records += 1;
    let count =
        u64::from(record.state) | u64::from(record.prio) << 8 | u64::from(record.next_prio) << 16;
    engine.source.lanes[lane].current = Some(engine.thread(record.tid));
    engine.loss_before(lane, count)
}

/// What a chunk restates holds whatever was lost before it.
pub(crate) fn chunk(
    engine: &mut Engine<'_>,
    lane: usize,
    start: ChunkStart,
) -> Result<(), Stopped> {
    engine.missing(lane, start.missing.records)?;
    let current = engine.source.lanes[lane].current;
    let unchanged =
        current.is_some_and(|thread| engine.tables.thread(thread).tid == start.current_tid);
    if start.current_tid == u32::MAX {
        engine.source.lanes[lane].current = None;
    } else if !unchanged {
        engine.source.lanes[lane].current = Some(engine.thread(start.current_tid));
    }
    Ok(())
}

fn u16_of(low: u8, high: u8) -> u32 {
    u32::from(u16::from_le_bytes([low, high]))
}

/// The lowest bit counts, as in the kernel.
#[inline]
fn sleep_state(state: u8) -> SleepState {
    match state & state.wrapping_neg() {
        task_state::INTERRUPTIBLE => SleepState::Interruptible,
        task_state::UNINTERRUPTIBLE => SleepState::Uninterruptible,
        task_state::STOPPED => SleepState::Stopped,
        task_state::TRACED => SleepState::Traced,
        task_state::DEAD => SleepState::Dead,
        task_state::ZOMBIE => SleepState::Zombie,
        task_state::PARKED => SleepState::Parked,
        task_state::IDLE => SleepState::Idle,
        _ => SleepState::Runnable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk_queue::LaneGap;
    use crate::testing::{SCHED, events_of};
    use syscollect_model::{LossCause, Tables};
    use syscollect_records::Stamp;

    fn record(kind: RecordKind, tid: u32) -> SchedStackRecord {
        let event = SchedRecord { stamp: Stamp(kind as u64), tid, ..Default::default() };
        SchedStackRecord { event, user_stack: 0, kernel_stack: 0 }
    }

    /// Thread ids that switches lead from and to.
    fn switches(events: &[Event], tables: &Tables) -> Vec<(Option<u32>, u32)> {
        let switches = events.iter().filter_map(|event| match event {
            Event::Switch(switch) => Some((
                switch.previous.map(|thread| tables.thread(thread).tid),
                tables.thread(switch.next).tid,
            )),
            _ => None,
        });
        switches.collect()
    }

    #[test]
    fn who_ran_is_known_from_the_switch_before_and_from_what_a_chunk_restates() {
        let mut tables = Tables::default();
        let events = events_of(&mut tables, |engine| {
            let mut scheduling = Scheduling::default();
            scheduling.on(engine, SCHED, &record(RecordKind::Switch, 7)).unwrap();
            scheduling.on(engine, SCHED, &record(RecordKind::Switch, 8)).unwrap();
            let missing = LaneGap { records: 3, chunks: 1 };
            chunk(engine, SCHED, ChunkStart { current_tid: 9, missing }).unwrap();
            scheduling.on(engine, SCHED, &record(RecordKind::Switch, 7)).unwrap();
        });
        assert_eq!(switches(&events, &tables), [(None, 7), (Some(7), 8), (Some(9), 7)]);
        assert_eq!(events.iter().find_map(lost), Some((LossCause::Damaged, 3)));
    }

    fn lost(event: &Event) -> Option<(LossCause, u64)> {
        match event {
            Event::Loss(loss) => Some((loss.cause, loss.count)),
            _ => None,
        }
    }

    #[test]
    fn a_frequency_has_one_track_for_each_cpu() {
        let mut tables = Tables::default();
        let events = events_of(&mut tables, |engine| {
            let mut scheduling = Scheduling::default();
            for khz in [800_000, 3_000_000] {
                scheduling.on(engine, SCHED, &record(RecordKind::Frequency, khz)).unwrap();
            }
        });
        let [Event::Counter(first, 800_000.0), Event::Counter(second, 3_000_000.0)] = events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!((first, tables.track(first).scope), (second, Scope::Cpu(CpuId::new(0))));
    }

    #[test]
    fn a_record_of_no_kind_is_counted_and_told_of_nobody() {
        let mut tables = Tables::default();
        let events = events_of(&mut tables, |engine| {
            Scheduling::default().on(engine, SCHED, &record(RecordKind::Sample, 7)).unwrap();
            assert_eq!(engine.source.losses.totals()[0].cause, LossCause::Undecodable);
        });
        assert_eq!(events, []);
    }
}
