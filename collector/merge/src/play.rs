//! Records in, events out.

use crate::counters::{CounterTable, ProcessCounters};
use crate::gpu::play::GpuState;
use crate::lane::{ChunkStart, Record};
use crate::losses::{GapCauses, Losses, loss};
use crate::session::Knowledge;
use crate::source::{Source, SourceItem};
use crate::stacks::{Resolved, Resolver, StackCache};
use crate::tasks::{TaskHistory, add_process, add_thread, unknown_name};
use crate::zones::InstrumentedPrograms;
use crate::zones::state::{MARKS, Mark, Marks, Writer};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use syscollect_model::{
    ClockMap, Event, Lane, LaneKind, Location, LocationId, LockId, Migration, OffCpu, ProcessId,
    Sample, Scope, SleepState, StringId, Switch, Tables, ThreadId, Ticks, Time, TimeCursor, Track,
    TrackId, TrackKind, Unit, Wakeup,
};
use syscollect_playback::{EventType, Output, Played, Stopped, ThreadIds};
use syscollect_records::{
    RecordKind, SampleRecord, SchedRecord, sched_flags, stack_id, task_state,
};

/// Rows that playing adds for what nothing announced.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddedRows {
    pub(crate) threads: FxHashMap<u32, ThreadId>,
    frequencies: FxHashMap<u32, TrackId>,
    /// Tracks of marks; the number tells tracks of one name apart.
    tracks: FxHashMap<(Scope, StringId, TrackKind, u64), TrackId>,
    /// Locks by process, client and number.
    pub(crate) locks: FxHashMap<(ProcessId, u32, u32), LockId>,
    pub(crate) locations: FxHashMap<Location, LocationId>,
}

/// A lane while it is played.
pub(crate) struct LaneState {
    pub(crate) lane: Lane,
    /// The CPU of its records; 0 where they are of none.
    cpu: u32,
    pub(crate) current: Option<ThreadId>,
    stacks: StackCache,
    gaps: GapCauses,
    /// Time of its last record.
    pub(crate) last: Option<Time>,
    /// Zones: who writes now.
    pub(crate) writer: Option<Writer>,
}

/// A session on its way into an exporter.
pub(crate) struct Player<'a> {
    output: Output<'a>,
    pub(crate) tables: &'a mut Tables,
    pub(crate) resolver: &'a mut Resolver,
    pub(crate) counters: &'a CounterTable,
    pub(crate) process_counters: ProcessCounters,
    pub(crate) found: &'a mut AddedRows,
    pub(crate) marked: &'a InstrumentedPrograms,
    pub(crate) marks: Marks,
    pub(crate) gpu: GpuState,
    pub(crate) map: &'a ClockMap,
    pub(crate) clock: TimeCursor<'a>,
    pub(crate) threads: ThreadIds,
    pub(crate) lanes: Vec<LaneState>,
    /// Lanes of tasks have no state above, so they are made when they are first seen.
    pub(crate) task_lanes: Vec<(Lane, GapCauses)>,
    pub(crate) losses: Losses,
    counts: [u64; 256],
    pub(crate) records: u64,
    pub(crate) missing_stacks: u64,
    pub(crate) unmatched: u64,
    first: Option<Time>,
    last: Time,
    pub(crate) now: Time,
    /// Ticks of the present item.
    pub(crate) ticks: u64,
}

impl<'a> Player<'a> {
    pub(crate) fn new(known: &'a mut Knowledge, output: Output<'a>) -> (Self, &'a TaskHistory) {
        let (marked, map) = (&known.marked, &known.clock);
        let mut threads = ThreadIds::default();
        threads.bind(0, Tables::IDLE_THREAD);
        let initial = known.found.threads.iter().map(|(tid, thread)| (*tid, *thread));
        initial
            .chain(known.history.initial.iter().copied())
            .for_each(|(tid, thread)| threads.bind(tid, thread));
        let player = Self {
            output,
            marks: Marks::new(&mut known.tables.strings),
            gpu: GpuState::default(),
            tables: &mut known.tables,
            resolver: &mut known.resolver,
            counters: &known.counters,
            process_counters: ProcessCounters::default(),
            found: &mut known.found,
            marked,
            map,
            clock: map.cursor(),
            threads,
            lanes: Vec::new(),
            task_lanes: Vec::new(),
            losses: known.losses.clone(),
            counts: [0; 256],
            records: known.definition_records,
            missing_stacks: 0,
            unmatched: 0,
            first: None,
            last: Time(0),
            now: Time(0),
            ticks: 0,
        };
        (player, &known.history)
    }

    pub(crate) fn lane_state(&self, lane: Lane) -> LaneState {
        let gaps = GapCauses::new(self.losses.declared_chunks(lane));
        LaneState {
            lane,
            cpu: lane.cpu().unwrap_or_default(),
            current: None,
            stacks: StackCache::default(),
            gaps,
            last: None,
            writer: None,
        }
    }

    #[inline]
    pub(crate) fn on(
        &mut self,
        lane: usize,
        ticks: u64,
        item: SourceItem<'a>,
        of: &Source<'a>,
    ) -> Result<(), Stopped> {
        self.advance(ticks);
        match item {
            SourceItem::Record(record) => self.record(lane, record),
            SourceItem::LifecycleEvent(event) => self.lifecycle_event(event),
            SourceItem::Zones(record) => self.zones(lane, record, of.group()),
            SourceItem::Probes(item) => self.probes(lane, item, of.bytes()),
            SourceItem::Tracepoints(item) => self.tracepoints(lane, item, of.bytes()),
            SourceItem::Marker(marker) => self.placed_marker(marker),
        }
    }

    pub(crate) fn finish(self) -> (Played, Losses) {
        let kinds = RecordKind::ALL.iter();
        let kinds = kinds.filter_map(|(kind, _)| {
            event_type(*kind).map(|event_type| (event_type, self.counts[*kind as usize]))
        });
        let marks = MARKS.into_iter().zip(self.marks.counts);
        let events_by_type: BTreeMap<_, _> =
            kinds.chain(marks).filter(|(_, count)| *count > 0).collect();
        let events = events_by_type.values().sum();
        let played = Played {
            records: self.records,
            events,
            events_by_type,
            first: self.first,
            last: self.first.map(|_| self.last),
            lost: 0,
            missing_stacks: self.missing_stacks,
            unmatched_ends: self.unmatched,
            unshown_failures: self.gpu.failures.unshown,
        };
        (played, self.losses)
    }

    /// Moves the present to `ticks`; it never goes back.
    #[inline]
    pub(crate) fn advance(&mut self, ticks: u64) {
        self.ticks = ticks;
        self.now = self.now.max(self.clock.time(Ticks(ticks)));
    }

    #[inline]
    pub(crate) fn count(&mut self, kind: RecordKind) {
        self.records += 1;
        if self.occurs() {
            self.counts[kind as usize] += 1;
        }
    }

    /// Whether what happens now is in the part that is played; notes when that began and ended.
    #[inline]
    fn occurs(&mut self) -> bool {
        let occurs = self.output.covers(self.now);
        if occurs {
            self.first.get_or_insert(self.now);
            self.last = self.now;
        }
        occurs
    }

    /// Counts what a program or a probe told; its records are counted as they come.
    #[inline]
    pub(crate) fn mark(&mut self, mark: Mark) {
        if self.occurs() {
            self.marks.counts[mark as usize] += 1;
        }
    }

    #[inline]
    pub(crate) fn emit(&mut self, event: &Event) -> Result<(), Stopped> {
        self.output.emit(self.now, event, self.tables)
    }

    /// The thread that an id means now; if nothing announced it, a new row.
    #[inline]
    fn thread(&mut self, tid: u32) -> ThreadId {
        match self.threads.get(tid) {
            Some(thread) => thread,
            None => self.unannounced(tid),
        }
    }

    #[cold]
    fn unannounced(&mut self, tid: u32) -> ThreadId {
        let process = add_process(self.tables, tid, None, &unknown_name(tid), None);
        self.add_thread(tid, process)
    }

    /// The same of a process, if that is known.
    #[inline]
    pub(crate) fn thread_of(&mut self, tid: u32, pid: Option<u32>) -> ThreadId {
        match (self.threads.get(tid), pid) {
            (Some(thread), _) => thread,
            (None, Some(pid)) => {
                let main = self.thread(pid);
                let process = self.tables.thread(main).process;
                if pid == tid { main } else { self.add_thread(tid, process) }
            }
            (None, None) => self.unannounced(tid),
        }
    }

    fn add_thread(&mut self, tid: u32, process: ProcessId) -> ThreadId {
        let name = unknown_name(tid);
        let thread = add_thread(self.tables, tid, process, &name, None);
        self.found.threads.insert(tid, thread);
        self.threads.bind(tid, thread);
        thread
    }

    #[inline]
    fn record(&mut self, lane: usize, record: Record) -> Result<(), Stopped> {
        match record {
            Record::Sched { event, user_stack, kernel_stack } => {
                self.sched(lane, &event, user_stack, kernel_stack)?;
            }
            Record::Sample(sample) => self.sample(lane, &sample)?,
            Record::Counter(counter) => self.counter(lane, &counter)?,
            Record::Chunk(start) => self.chunk(lane, start)?,
            Record::Task(_) | Record::Unknown => self.unknown(lane),
        }
        self.lanes[lane].last = Some(self.now);
        Ok(())
    }

    /// A track of marks; `row` tells apart those of one name.
    pub(crate) fn track(
        &mut self,
        scope: Scope,
        name: StringId,
        kind: TrackKind,
        row: u64,
    ) -> TrackId {
        let tables = &mut self.tables;
        *self
            .found
            .tracks
            .entry((scope, name, kind, row))
            .or_insert_with(|| tables.add_track(Track { scope, name, kind }))
    }

    pub(crate) fn unknown(&mut self, lane: usize) {
        self.losses.undecodable(self.lanes[lane].lane, 1);
    }

    /// What a chunk restates holds whatever was lost before it.
    fn chunk(&mut self, lane: usize, start: ChunkStart) -> Result<(), Stopped> {
        self.missing(lane, start.missing.records)?;
        if self.lanes[lane].lane.kind != LaneKind::Sched {
            return Ok(());
        }
        let current = self.lanes[lane].current;
        let unchanged =
            current.is_some_and(|thread| self.tables.thread(thread).tid == start.current_tid);
        if start.current_tid == u32::MAX {
            self.lanes[lane].current = None;
        } else if !unchanged {
            self.lanes[lane].current = Some(self.thread(start.current_tid));
        }
        Ok(())
    }

    /// Records of the lane are missing from the capture here.
    pub(crate) fn missing(&mut self, lane: usize, count: u64) -> Result<(), Stopped> {
        let state = &mut self.lanes[lane];
        let parts = state.gaps.divide(count);
        let (lane, between) = (state.lane, state.last.map(|last| (last, self.now)));
        parts
            .into_iter()
            .try_for_each(|(cause, count)| self.emit(&loss(lane, cause, count, between)))
    }

    #[inline]
    fn sched(
        &mut self,
        lane: usize,
        record: &SchedRecord,
        user: u32,
        kernel: u32,
    ) -> Result<(), Stopped> {
        const SWITCH: u8 = RecordKind::Switch as u8;
        const WAKING: u8 = RecordKind::Waking as u8;
        const WAKEUP_NEW: u8 = RecordKind::WakeupNew as u8;
        const MIGRATE: u8 = RecordKind::Migrate as u8;
        const FREQUENCY: u8 = RecordKind::Frequency as u8;
        const RESUME: u8 = RecordKind::Resume as u8;
        match record.stamp.split().1 {
            SWITCH => self.switch(lane, record, user, kernel),
            WAKING => self.wakeup(lane, record, user, kernel, RecordKind::Waking),
            WAKEUP_NEW => self.wakeup(lane, record, user, kernel, RecordKind::WakeupNew),
            MIGRATE => self.migrate(record),
            FREQUENCY => self.frequency(record),
            RESUME => self.resume(lane, record),
            _ => {
                self.unknown(lane);
                Ok(())
            }
        }
    }

    #[inline]
    fn stack(&mut self, lane: usize, user: u32, kernel: u32) -> Resolved {
        let state = &mut self.lanes[lane];
        let resolved =
            self.resolver.resolve(&mut state.stacks, state.lane, user, kernel, self.tables);
        self.missing_stacks += u64::from(resolved.missing);
        resolved
    }

    #[inline]
    fn switch(
        &mut self,
        lane: usize,
        record: &SchedRecord,
        user: u32,
        kernel: u32,
    ) -> Result<(), Stopped> {
        self.count(RecordKind::Switch);
        let next = self.thread(record.tid);
        let stack = self.stack(lane, user, kernel);
        let state = sleep_state(record.state);
        let preempted = record.flags & sched_flags::PREEMPTED != 0;
        let blocked = state != SleepState::Runnable && !preempted;
        let lane = &mut self.lanes[lane];
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
        self.emit(&event)
    }

    #[inline]
    fn wakeup(
        &mut self,
        lane: usize,
        record: &SchedRecord,
        user: u32,
        kernel: u32,
        kind: RecordKind,
    ) -> Result<(), Stopped> {
        self.count(kind);
        let wakee = self.thread(record.tid);
        let stack = self.stack(lane, user, kernel);
        let lane = &self.lanes[lane];
        let event = Event::Wakeup(Wakeup {
            cpu: lane.cpu,
            waker: lane.current,
            from_interrupt: record.flags & sched_flags::FROM_INTERRUPT != 0,
            wakee,
            priority: i32::from(record.prio),
            target_cpu: u16_of(record.state, record.next_prio),
            new: kind == RecordKind::WakeupNew,
            stack: stack.stack,
        });
        self.emit(&event)
    }

    fn migrate(&mut self, record: &SchedRecord) -> Result<(), Stopped> {
        self.count(RecordKind::Migrate);
        let thread = self.thread(record.tid);
        let (from_cpu, to_cpu) =
            (u16_of(record.state, record.flags), u16_of(record.prio, record.next_prio));
        self.emit(&Event::Migration(Migration { thread, from_cpu, to_cpu }))
    }

    fn frequency(&mut self, record: &SchedRecord) -> Result<(), Stopped> {
        self.count(RecordKind::Frequency);
        let cpu = u16_of(record.state, record.prio);
        let track = match self.found.frequencies.get(&cpu) {
            Some(track) => *track,
            None => {
                let name = self.tables.strings.intern("cpufreq");
                let kind = TrackKind::Counter { unit: Unit::Kilohertz };
                let track = self.tables.add_track(Track { scope: Scope::Cpu(cpu), name, kind });
                self.found.frequencies.insert(cpu, track);
                track
            }
        };
        self.emit(&Event::Counter(track, f64::from(record.tid)))
    }

    fn resume(&mut self, lane: usize, record: &SchedRecord) -> Result<(), Stopped> {
        self.records += 1;
        let count = u64::from(record.state)
            | u64::from(record.prio) << 8
            | u64::from(record.next_prio) << 16;
        self.lanes[lane].current = Some(self.thread(record.tid));
        self.told(lane, count)
    }

    /// The lane says that records were lost right before the present one.
    pub(crate) fn told(&mut self, lane: usize, count: u64) -> Result<(), Stopped> {
        if count == 0 {
            return Ok(());
        }
        let LaneState { lane, last, .. } = self.lanes[lane];
        self.losses.told(lane, count);
        let cause = self.losses.cause_before_collector(lane);
        self.emit(&loss(lane, cause, count, last.map(|last| (last, self.now))))
    }

    fn sample(&mut self, lane: usize, record: &SampleRecord) -> Result<(), Stopped> {
        self.told(lane, u64::from(record.lost_before))?;
        self.count(RecordKind::Sample);
        let thread = self.thread(record.tid);
        let stack = self.stack(lane, record.user_stack, record.kernel_stack);
        let cpu = self.lanes[lane].cpu;
        let in_kernel = record.kernel_stack != stack_id::NONE;
        self.emit(&Event::Sample(Sample { cpu, thread, stack: stack.stack, in_kernel }))
    }
}

fn u16_of(low: u8, high: u8) -> u32 {
    u32::from(u16::from_le_bytes([low, high]))
}

/// What a record of that kind is counted as; `None` for what is no occurrence.
fn event_type(kind: RecordKind) -> Option<EventType> {
    Some(match kind {
        RecordKind::Switch => EventType::Switch,
        RecordKind::Waking => EventType::Waking,
        RecordKind::WakeupNew => EventType::WakeupNew,
        RecordKind::Migrate => EventType::Migrate,
        RecordKind::Frequency => EventType::Frequency,
        RecordKind::Sample => EventType::Sample,
        RecordKind::Fork => EventType::Fork,
        RecordKind::Exec => EventType::Exec,
        RecordKind::Exit => EventType::Exit,
        RecordKind::Rename => EventType::Rename,
        RecordKind::Counter => EventType::Counter,
        RecordKind::Tracepoint => EventType::Tracepoint,
        RecordKind::GpuFailure => EventType::GpuFailure,
        RecordKind::Resume
        | RecordKind::Stack
        | RecordKind::Clock
        | RecordKind::Probe
        | RecordKind::Ring => return None,
    })
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
