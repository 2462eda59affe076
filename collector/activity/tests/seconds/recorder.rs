//! A recorder whose lanes are written by the test. A tick is a microsecond.

use std::collections::BTreeMap;
use syscollect_activity::{Activity, Interval, ThreadActivity};
use syscollect_model::{BuildId, CpuInfo, Lane, LaneKind, Mapping, SessionInfo, Ticks};
use syscollect_records::{
    ClockRecord, RecordKind, SampleRecord, SchedRecord, SchedStackRecord, StackHeader, Stamp,
    TaskRecord, ZoneChunk, ZoneLogChunk, sched_flags, stack_space, task_state,
};
use syscollect_store::{
    Chunk, ChunkHeader, ClientDefinition, Definition, KnownProcess, KnownSleep, KnownThread,
    LeftOutChunks, Producer,
};
use syscollect_zone_protocol::log::{EntryWords, Location};
use syscollect_zone_protocol::{Event, Item};

/// Ticks of a second, and of a millisecond.
pub(crate) const SECOND: u64 = 1_000_000;
pub(crate) const MS: u64 = 1000;

pub(crate) struct Recorder {
    pub(crate) activity: Activity,
    /// Chunks and records of each lane so far.
    lanes: BTreeMap<Lane, (u64, u64)>,
    /// Records that are not in a chunk yet, and who had the CPU before them.
    waiting: BTreeMap<u16, (u32, Vec<(u64, SchedStackRecord)>)>,
    /// Records of scheduling have stacks.
    pub(crate) has_stacks: bool,
    current: BTreeMap<u16, u32>,
}

impl Recorder {
    /// A machine with so many CPUs, whose first second begins at 0.
    pub(crate) fn new(cpus: u32) -> Self {
        let mut recorder = Self {
            activity: Activity::default(),
            lanes: BTreeMap::new(),
            waiting: BTreeMap::new(),
            has_stacks: false,
            current: BTreeMap::new(),
        };
        recorder.define(&Definition::Session(Box::new(SessionInfo {
            tick_rate_hz: SECOND as f64,
            sample_rate_hz: 100,
            cpus: (0..cpus).map(|cpu| CpuInfo { cpu, ..CpuInfo::default() }).collect(),
            ..SessionInfo::default()
        })));
        let reading = |ticks: u64| {
            let stamp = Stamp::new(ticks, RecordKind::Clock);
            let ns = ticks * 1000;
            ClockRecord {
                stamp,
                monotonic: ns,
                monotonic_raw: ns,
                boottime: ns,
                realtime: ns,
                ..ClockRecord::default()
            }
        };
        let readings = [reading(0), reading(SECOND)];
        let data = readings.iter().flat_map(|reading| reading.as_bytes().to_vec()).collect();
        let lane = Lane::new(LaneKind::Clock, 0);
        let chunk = recorder.chunk(lane, (0, SECOND), (u32::MAX, ClockRecord::SIZE), data);
        recorder.activity.feed(chunk);
        recorder.listed(&[]);
        recorder.activity.nothing_before(Ticks(0));
        recorder
    }

    pub(crate) fn define(&mut self, definition: &Definition) {
        definition.chunks().into_iter().for_each(|chunk| self.activity.feed(chunk));
    }

    /// What is there from the beginning: tid, pid, name, and the state of those that sleep.
    pub(crate) fn listed(&mut self, threads: &[(u32, u32, &str, Option<char>)]) {
        let process = |(tid, pid, name, state): &(u32, u32, &str, Option<char>)| {
            let asleep = state.map(|state| KnownSleep { state, ..KnownSleep::default() });
            KnownProcess {
                pid: *pid,
                threads: vec![KnownThread { tid: *tid, name: (*name).into(), asleep }],
                ..KnownProcess::default()
            }
        };
        self.define(&Definition::Processes(threads.iter().map(process).collect()));
    }

    fn chunk(
        &mut self,
        lane: Lane,
        (first, last): (u64, u64),
        (current_tid, stride): (u32, usize),
        data: Vec<u8>,
    ) -> Chunk {
        let (chunks, before) = self.lanes.entry(lane).or_default();
        let records = (data.len() / stride) as u32;
        let header = ChunkHeader {
            lane,
            sequence: *chunks,
            first: Ticks(first),
            last: Ticks(last),
            current_tid,
            stride: stride as u32,
            records_before: *before,
            records,
            length: data.len() as u32,
        };
        *chunks += 1;
        *before += u64::from(records);
        Chunk { header, data }
    }

    pub(crate) fn event(&mut self, cpu: u16, at: u64, kind: RecordKind, record: SchedRecord) {
        let before = self.current.get(&cpu).copied().unwrap_or(u32::MAX);
        let record = SchedRecord { stamp: Stamp::new(at, kind), ..record };
        let waiting = self.waiting.entry(cpu).or_insert_with(|| (before, Vec::new()));
        waiting.1.push((at, SchedStackRecord { event: record, ..SchedStackRecord::default() }));
        if kind == RecordKind::Switch {
            self.current.insert(cpu, record.tid);
        }
    }

    /// The CPU goes to a thread, and the one before is in that state.
    pub(crate) fn switch(&mut self, cpu: u16, at: u64, tid: u32, state: u8) {
        let record = SchedRecord { tid, state, ..SchedRecord::default() };
        self.event(cpu, at, RecordKind::Switch, record);
    }

    /// The same, with the stack of the one before: ids of its program's part and the kernel's.
    pub(crate) fn blocks(&mut self, cpu: u16, at: u64, tid: u32, [user, kernel]: [u32; 2]) {
        self.switch(cpu, at, tid, task_state::INTERRUPTIBLE);
        let (_, records) = self.waiting.get_mut(&cpu).expect("there is one");
        let (_, record) = records.last_mut().expect("there is one");
        (record.user_stack, record.kernel_stack) = (user, kernel);
    }

    /// A stack is sent, innermost first, to a lane of stacks; of the kernel where `pid` is 0.
    pub(crate) fn sent(&mut self, lane: Lane, at: u64, id: u32, pid: u32, addresses: &[u64]) {
        let header = StackHeader {
            stamp: Stamp::new(at, RecordKind::Stack),
            id,
            tgid: pid,
            frames: addresses.len() as u16,
            space: if pid == 0 { stack_space::KERNEL } else { stack_space::USER },
            truncated: 0,
        };
        let mut data = header.as_bytes().to_vec();
        addresses.iter().for_each(|address| data.extend(address.to_le_bytes()));
        let size = data.len();
        let chunk = self.chunk(lane, (at, at), (u32::MAX, size), data);
        self.activity.feed(chunk);
    }

    pub(crate) fn sample(&mut self, cpu: u16, at: u64, tid: u32, [user, kernel]: [u32; 2]) {
        let stamp = Stamp::new(at, RecordKind::Sample);
        let (user_stack, kernel_stack) = (user, kernel);
        let record = SampleRecord { stamp, tid, lost_before: 0, user_stack, kernel_stack };
        let lane = Lane::new(LaneKind::Sample, cpu);
        let data = record.as_bytes().to_vec();
        let chunk = self.chunk(lane, (at, at), (u32::MAX, SampleRecord::SIZE), data);
        self.activity.feed(chunk);
    }

    /// A process had that file in its memory when the recording began.
    pub(crate) fn mapped(&mut self, pid: u32, [start, end]: [u64; 2], path: &str) {
        let (path, build_id) = (path.to_owned(), BuildId::from_bytes(&[1; 20]));
        let since = Ticks(0);
        let mapping = Mapping { pid, start, end, file_offset: 0, path, build_id, since };
        self.define(&Definition::Mappings(vec![mapping]));
    }

    /// Whoever has that CPU wakes a thread.
    pub(crate) fn wakes(&mut self, cpu: u16, at: u64, tid: u32) {
        self.event(cpu, at, RecordKind::Waking, SchedRecord { tid, ..SchedRecord::default() });
    }

    /// An interrupt on that CPU wakes a thread.
    pub(crate) fn interrupt_wakes(&mut self, cpu: u16, at: u64, tid: u32) {
        let flags = sched_flags::FROM_INTERRUPT;
        let record = SchedRecord { tid, flags, ..SchedRecord::default() };
        self.event(cpu, at, RecordKind::Waking, record);
    }

    pub(crate) fn task(&mut self, cpu: u16, at: u64, kind: RecordKind, task: (u32, u32, &str)) {
        let (tid, tgid, name) = task;
        let mut comm = [0; 16];
        comm[..name.len()].copy_from_slice(name.as_bytes());
        let stamp = Stamp::new(at, kind);
        let record = TaskRecord { stamp, tid, tgid, comm, ..TaskRecord::default() };
        let lane = Lane::new(LaneKind::Task, cpu);
        let data = record.as_bytes().to_vec();
        let chunk = self.chunk(lane, (at, at), (u32::MAX, TaskRecord::SIZE), data);
        self.activity.feed(chunk);
    }

    /// Puts what happened on a CPU into a chunk.
    pub(crate) fn take_chunk(&mut self, cpu: u16) -> Option<Chunk> {
        let (before, events) = self.waiting.remove(&cpu)?;
        let stride = if self.has_stacks { SchedStackRecord::SIZE } else { SchedRecord::SIZE };
        let bytes = |record: &SchedStackRecord| record.as_bytes()[..stride].to_vec();
        let data = events.iter().flat_map(|(_, record)| bytes(record)).collect();
        let times = (events[0].0, events[events.len() - 1].0);
        let lane = Lane::new(LaneKind::Sched, cpu);
        Some(self.chunk(lane, times, (before, stride), data))
    }

    /// All that happened so far arrives, and nothing of before these ticks comes any more.
    pub(crate) fn until(&mut self, now: u64) {
        for cpu in self.waiting.keys().copied().collect::<Vec<_>>() {
            if let Some(chunk) = self.take_chunk(cpu) {
                self.activity.feed(chunk);
            }
        }
        self.activity.nothing_before(Ticks(now));
    }

    pub(crate) fn second(&self, number: usize) -> &Interval {
        &self.activity.history()[number]
    }

    pub(crate) fn thread(&self, second: usize, tid: u32) -> ThreadActivity {
        let threads = &self.second(second).threads;
        let thread = threads.iter().find(|thread| thread.tid == tid);
        *thread.unwrap_or_else(|| panic!("{tid} is not among {threads:#?}"))
    }

    /// There is an instrumented program of that number.
    pub(crate) fn program(&mut self, client: u32, pid: u32) {
        self.program_of(1000, client, pid);
    }

    /// The same, of that user.
    pub(crate) fn program_of(&mut self, user: u32, client: u32, pid: u32) {
        let user = Some(user);
        let program = ClientDefinition { client, pid, user, ..ClientDefinition::default() };
        self.define(&Definition::Clients(vec![program]));
    }

    /// The next chunk of that lane, which a program wrote or the kernel, is left out.
    pub(crate) fn left_out(&mut self, lane: Lane, producer: Option<Producer>) {
        self.activity.left_out(&LeftOutChunks { lane, producer, chunks: 1 });
    }

    /// An entry of the log of a program, at that position of it; its number.
    pub(crate) fn log(&mut self, client: u32, position: u32, entry: &EntryWords) -> u32 {
        let mut data = ZoneLogChunk { client, position, reserved: 0 }.as_bytes().to_vec();
        data.extend(entry.header().to_le_bytes());
        entry.body().iter().for_each(|word| data.extend(word.to_le_bytes()));
        let size = data.len();
        let lane = Lane::new(LaneKind::ZoneLog, 0);
        let chunk = self.chunk(lane, (0, 0), (u32::MAX, size), data);
        self.activity.feed(chunk);
        position / 8 + 1
    }

    pub(crate) fn place(&mut self, client: u32, position: u32, name: &str) -> u32 {
        let mut entry = EntryWords::new();
        let name = name.as_bytes();
        entry.location(Location { line: 1, color: 0, name, function: b"", file: b"" });
        self.log(client, position, &entry)
    }

    /// Items of a thread of a program, which has a lane of that number.
    pub(crate) fn items(&mut self, client: u32, thread: u16, events: &[(u64, Event)]) {
        let chunk = ZoneChunk { client, tid: u32::from(thread), owner: 1, reserved: 0 };
        let mut data = chunk.as_bytes().to_vec();
        for (ticks, event) in events {
            let item = Item::Stamped { ticks: *ticks, event: *event };
            item.encode().iter().for_each(|word| data.extend(word.to_le_bytes()));
        }
        let size = data.len();
        let times = (events[0].0, events[events.len() - 1].0);
        let lane = Lane::new(LaneKind::Zone, thread);
        let mut chunk = self.chunk(lane, times, (u32::MAX, size), data);
        chunk.header.stride = 0;
        self.activity.feed(chunk);
    }
}
