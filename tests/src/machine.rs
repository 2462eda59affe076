//! A machine that never was: says what happened, gets a capture.

use std::collections::BTreeMap;
use syscollect_model::{
    Lane, LaneKind, LossCause, LossOrigin, Mapping, OperatingSystem, RecorderSummary, SessionInfo,
    StopReason, SymbolTable, Ticks,
};
use syscollect_records::{
    ClockRecord, CounterRecord, GpuFailureRecord, PROBE_HAS_STACK, ProbeRecord, RecordKind,
    SampleRecord, SchedRecord, SchedStackRecord, StackHeader, Stamp, TaskRecord, TracepointRecord,
    stack_space,
};
use syscollect_store::{
    CaptureWriter, Chunk, ChunkHeader, CounterDefinition, Definition, KnownProcess, KnownSleep,
    KnownThread, LaneLoss, LostRecord,
};

/// Ticks in a microsecond of the machine: a counter of 2 GHz.
pub const TICKS_PER_US: u64 = 2_000;
/// Ticks at microsecond 0: beyond 56 bits, so that every stamp needs its chunk.
pub const FIRST_TICKS: u64 = (3 << 56) + 1_000_000;
/// CLOCK_BOOTTIME at microsecond 0, nanoseconds.
pub const FIRST_BOOTTIME: u64 = 5_000_000_000;
/// CLOCK_MONOTONIC_RAW at microsecond 0, nanoseconds: no clock equals another.
pub const FIRST_RAW: u64 = 3_000_000_000;

/// A chunk that is being filled.
#[derive(Clone, Debug, Default)]
struct FillingChunk {
    data: Vec<u8>,
    stride: u32,
    records: u32,
    first: u64,
    last: u64,
    /// The task that was current before the first record.
    current_tid: u32,
    sequence: u64,
    records_before: u64,
}

/// The two stack ids of an event, 0 where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// The user stack.
    pub user: u32,
    /// The kernel stack.
    pub kernel: u32,
}

/// A hit of a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hit<'a> {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// The probe's number.
    pub probe: u32,
    /// Words of the arguments.
    pub arguments: &'a [u64],
    /// What was read as strings, by number of the argument, ascending.
    pub strings: &'a [(u8, &'a str)],
    /// The stack pointer.
    pub stack_pointer: u64,
    /// Bits of arguments that could not be read.
    pub unreadable: u32,
    /// The id of its stack, where it was recorded with stacks.
    pub stack: Option<u32>,
}

/// A machine whose events are told one by one and end up in a capture, in the
/// chunks that a recorder would have written.
///
/// Times are microseconds. Each lane is told in order; the lanes in any order.
///
/// ```
/// use syscollect_records::task_state;
/// use syscollect_tests::FakeMachine;
///
/// let mut machine = FakeMachine::new(1);
/// machine.process(10, 1, "worker", &[]);
/// machine.switch(0, 5, task_state::RUNNABLE, 10);
/// machine.switch(0, 9, task_state::INTERRUPTIBLE, 0);
/// let capture = machine.finish();
/// assert!(capture.len() > 100);
/// ```
pub struct FakeMachine {
    writer: CaptureWriter<Vec<u8>>,
    filling: BTreeMap<Lane, FillingChunk>,
    current: BTreeMap<u16, u32>,
    stacks: BTreeMap<Lane, u32>,
    losses: Vec<LaneLoss>,
    last_us: u64,
    booted_late: u64,
    chunk_bytes: usize,
    sched_stride: usize,
}

/// What tells a machine from another.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host<'a> {
    /// Its name, which is its boot's id, too.
    pub name: &'a str,
    /// How much later than the others it was started, nanoseconds.
    pub booted_late: u64,
    /// The processes whose events are recorded; all where it is empty.
    pub filter_pids: &'a [u32],
}

impl FakeMachine {
    /// A machine with that many CPUs, which records from microsecond 0 on.
    pub fn new(cpus: u16) -> Self {
        Self::with_host(cpus, Host::default())
    }

    /// The same of a machine that has a name.
    pub fn with_host(cpus: u16, host: Host<'_>) -> Self {
        let writer = CaptureWriter::create(Vec::new()).expect("memory takes every byte");
        let mut machine = Self {
            writer,
            filling: BTreeMap::new(),
            current: BTreeMap::new(),
            stacks: BTreeMap::new(),
            losses: Vec::new(),
            last_us: 0,
            booted_late: host.booted_late,
            chunk_bytes: 64 << 10,
            sched_stride: SchedStackRecord::SIZE,
        };
        let info = SessionInfo {
            recorder: "fake 1.0".into(),
            os: OperatingSystem::Linux,
            kernel_release: "6.18.0".into(),
            machine: "x86_64".into(),
            hostname: host.name.into(),
            boot_id: host.name.into(),
            filter_pids: host.filter_pids.to_vec(),
            cpus: (0..cpus)
                .map(|cpu| syscollect_model::CpuInfo { cpu: cpu.into(), ..Default::default() })
                .collect(),
            tick_rate_hz: (TICKS_PER_US * 1_000_000) as f64,
            ..SessionInfo::default()
        };
        machine.define(&Definition::Session(Box::new(info)));
        machine.clock(0);
        machine
    }

    /// Ends chunks when they have that many bytes.
    pub fn chunk_bytes(&mut self, bytes: usize) {
        self.chunk_bytes = bytes;
    }

    /// Makes records of the scheduling lanes that long: shorter than a record
    /// with stacks cuts these off, longer adds what no reader knows yet.
    pub fn sched_stride(&mut self, bytes: usize) {
        self.sched_stride = bytes;
    }

    /// Writes a definition.
    pub fn define(&mut self, definition: &Definition) {
        self.writer.define(definition).expect("memory takes every byte");
    }

    /// A process that is there when the recording begins. Without threads it
    /// has one, with the process's id and name.
    pub fn process(&mut self, pid: u32, parent_pid: u32, name: &str, threads: &[(u32, &str)]) {
        let main = (pid, name);
        let threads = if threads.is_empty() { std::slice::from_ref(&main) } else { threads };
        let process = KnownProcess {
            pid,
            parent_pid,
            threads: threads
                .iter()
                .map(|(tid, name)| KnownThread {
                    tid: *tid,
                    name: (*name).to_owned(),
                    asleep: None,
                })
                .collect(),
            ..KnownProcess::default()
        };
        self.define(&Definition::Processes(vec![process]));
    }

    /// A process of one thread that was there when the recording began and was seen asleep then, in
    /// a function of the kernel.
    pub fn sleeper(&mut self, us: u64, pid: u32, name: &str, blocked_in: &str) {
        let sleeper = asleep(us, pid, name, blocked_in);
        self.define(&Definition::Processes(vec![sleeper]));
    }

    /// A process of one thread that was seen asleep when a snapshot was taken.
    pub fn sleeper_at_snapshot(&mut self, us: u64, pid: u32, name: &str, blocked_in: &str) {
        let noted = Ticks(ticks(us));
        let sleeper = KnownProcess { noted, ..asleep(us, pid, name, blocked_in) };
        self.define(&Definition::Processes(vec![sleeper]));
    }

    /// A process whose command line is read while the recording runs.
    pub fn note(&mut self, us: u64, pid: u32, command_line: &[&str]) {
        let command_line = command_line.iter().map(|&word| word.to_owned()).collect();
        let noted = Ticks(ticks(us));
        self.define(&Definition::Processes(vec![KnownProcess {
            pid,
            command_line,
            noted,
            ..KnownProcess::default()
        }]));
    }

    /// A file mapped into a process before the recording began.
    pub fn mapping(&mut self, pid: u32, start: u64, end: u64, file_offset: u64, path: &str) {
        let (path, build_id, since) = (path.to_owned(), Default::default(), Ticks(0));
        self.define(&Definition::Mappings(vec![Mapping {
            pid,
            start,
            end,
            file_offset,
            path,
            build_id,
            since,
        }]));
    }

    /// Names of a module, as a symbolizer found them.
    pub fn symbols(&mut self, table: SymbolTable) {
        self.define(&Definition::Symbols(table));
    }

    /// A reading of the clocks.
    pub fn clock(&mut self, us: u64) {
        let nanoseconds = us * 1_000;
        let record = ClockRecord {
            stamp: Stamp::new(ticks(us), RecordKind::Clock),
            monotonic: FIRST_RAW + nanoseconds + 7,
            monotonic_raw: FIRST_RAW + nanoseconds,
            boottime: FIRST_BOOTTIME + nanoseconds,
            realtime: 1_700_000_000_000_000_000 + self.booted_late + nanoseconds,
            uncertainty: 20,
        };
        self.push(Lane::new(LaneKind::Clock, 0), us, ClockRecord::SIZE, record.as_bytes());
    }

    /// What a CPU runs when the recording begins; without a word nobody knows.
    pub fn running(&mut self, cpu: u16, tid: u32) {
        self.current.insert(cpu, tid);
    }

    /// A context switch: the CPU's task goes to `state`, `next` comes.
    pub fn switch(&mut self, cpu: u16, us: u64, state: u8, next: u32) {
        self.switch_with(
            cpu,
            us,
            SchedRecord { tid: next, state, ..Default::default() },
            Stacks::default(),
        );
    }

    /// The same with flags, priorities and stacks.
    pub fn switch_with(&mut self, cpu: u16, us: u64, record: SchedRecord, stacks: Stacks) {
        self.sched(cpu, us, RecordKind::Switch, record, stacks);
        self.current.insert(cpu, record.tid);
    }

    /// The CPU's task wakes another, which last ran on `target`.
    pub fn wake(&mut self, cpu: u16, us: u64, tid: u32, target: u16, stacks: Stacks) {
        let [state, next_prio] = target.to_le_bytes();
        let record = SchedRecord { tid, state, next_prio, prio: 120, ..Default::default() };
        self.sched(cpu, us, RecordKind::Waking, record, stacks);
    }

    /// A scheduling record of any kind. The lane has stacks in every
    /// record, unless [`Self::sched_stride`] says otherwise.
    pub fn sched(
        &mut self,
        cpu: u16,
        us: u64,
        kind: RecordKind,
        record: SchedRecord,
        stacks: Stacks,
    ) {
        let event = SchedRecord { stamp: Stamp::new(ticks(us), kind), ..record };
        let record =
            SchedStackRecord { event, user_stack: stacks.user, kernel_stack: stacks.kernel };
        let mut bytes = record.as_bytes().to_vec();
        bytes.resize(self.sched_stride, 0xEE);
        self.push(Lane::new(LaneKind::Sched, cpu), us, self.sched_stride, &bytes);
    }

    /// A stack that scheduling events of the CPU may use; its id.
    pub fn sched_stack(&mut self, cpu: u16, us: u64, tgid: u32, addresses: &[u64]) -> u32 {
        self.stack(Lane::new(LaneKind::SchedStack, cpu), us, (tgid, false), addresses)
    }

    /// A stack that samples of the CPU may use; its id.
    pub fn sample_stack(&mut self, cpu: u16, us: u64, tgid: u32, addresses: &[u64]) -> u32 {
        self.stack(Lane::new(LaneKind::SampleStack, cpu), us, (tgid, false), addresses)
    }

    /// The same of which the walk ended at its greatest depth.
    pub fn deep_sample_stack(&mut self, cpu: u16, us: u64, tgid: u32, addresses: &[u64]) -> u32 {
        self.stack(Lane::new(LaneKind::SampleStack, cpu), us, (tgid, true), addresses)
    }

    /// A stack that hits of probes on the CPU may use; its id.
    pub fn probe_stack(&mut self, cpu: u16, us: u64, tgid: u32, addresses: &[u64]) -> u32 {
        self.stack(Lane::new(LaneKind::ProbeStack, cpu), us, (tgid, false), addresses)
    }

    /// Addresses innermost first; process 0 stands for the kernel.
    fn stack(
        &mut self,
        lane: Lane,
        us: u64,
        (tgid, truncated): (u32, bool),
        addresses: &[u64],
    ) -> u32 {
        let id = self.stacks.entry(lane).or_default();
        *id += 1;
        let header = StackHeader {
            stamp: Stamp::new(ticks(us), RecordKind::Stack),
            id: *id,
            tgid,
            frames: addresses.len() as u16,
            space: if tgid == 0 { stack_space::KERNEL } else { stack_space::USER },
            truncated: u32::from(truncated),
        };
        let id = *id;
        let bytes = [
            header.as_bytes(),
            &addresses.iter().flat_map(|a| a.to_le_bytes()).collect::<Vec<_>>(),
        ]
        .concat();
        self.push(lane, us, 0, &bytes);
        id
    }

    /// A CPU sample of the task; `lost` samples were lost before it.
    pub fn sample(&mut self, cpu: u16, us: u64, tid: u32, stacks: Stacks, lost: u32) {
        let record = SampleRecord {
            stamp: Stamp::new(ticks(us), RecordKind::Sample),
            tid,
            lost_before: lost,
            user_stack: stacks.user,
            kernel_stack: stacks.kernel,
        };
        self.push(Lane::new(LaneKind::Sample, cpu), us, SampleRecord::SIZE, record.as_bytes());
    }

    /// A task's record: fork, exec, exit or rename, with its name after it, of any bytes.
    pub fn task(
        &mut self,
        cpu: u16,
        us: u64,
        kind: RecordKind,
        name: impl AsRef<[u8]>,
        record: TaskRecord,
    ) {
        let (mut comm, name) = ([0; 16], name.as_ref());
        comm[..name.len()].copy_from_slice(name);
        let record = TaskRecord { stamp: Stamp::new(ticks(us), kind), comm, ..record };
        self.push(Lane::new(LaneKind::Task, cpu), us, TaskRecord::SIZE, record.as_bytes());
    }

    /// A task forks: a new process where `tid` is `tgid`, else a new thread.
    pub fn fork(&mut self, cpu: u16, us: u64, parent: u32, (tid, tgid): (u32, u32), name: &str) {
        let record =
            TaskRecord { tid, tgid, parent_tid: parent, parent_tgid: parent, ..Default::default() };
        self.task(cpu, us, RecordKind::Fork, name, record);
    }

    /// A task ends.
    pub fn exit(&mut self, cpu: u16, us: u64, (tid, tgid): (u32, u32), name: &str) {
        self.task(cpu, us, RecordKind::Exit, name, TaskRecord { tid, tgid, ..Default::default() });
    }

    /// What counter numbers mean.
    pub fn counters(&mut self, counters: &[CounterDefinition]) {
        self.define(&Definition::Counters(counters.to_vec()));
    }

    /// A value of a counter.
    pub fn count(&mut self, us: u64, counter: u64, value: f64) {
        let stamp = Stamp::new(ticks(us), RecordKind::Counter);
        let record = CounterRecord { stamp, counter, value: value.to_bits() };
        self.push(Lane::new(LaneKind::Counter, 0), us, CounterRecord::SIZE, record.as_bytes());
    }

    /// The kernel loses records of the CPU's scheduling lane, and the next
    /// record tells. `tid` is current then.
    pub fn lose(&mut self, cpu: u16, us: u64, records: u32, tid: u32) {
        let [state, prio, next_prio, _] = records.to_le_bytes();
        let record = SchedRecord { tid, state, prio, next_prio, ..Default::default() };
        self.sched(cpu, us, RecordKind::Resume, record, Stacks::default());
        self.current.insert(cpu, tid);
        self.declare("sched", Some(cpu.into()), LossCause::LaneFull, records.into());
    }

    /// What the recorder will declare as lost.
    pub fn declare(&mut self, lane: &str, cpu: Option<u32>, cause: LossCause, count: u64) {
        self.losses.push(LaneLoss {
            origin: LossOrigin::from_name(lane),
            cpu,
            record: LostRecord::Any,
            cause,
            user: None,
            count,
        });
    }

    /// Raw bytes of a mapping lane: one `perf_event` record.
    pub fn mapping_record(&mut self, cpu: u16, us: u64, bytes: &[u8]) {
        self.push(Lane::new(LaneKind::Mapping, cpu), us, 0, bytes);
    }

    /// Records of any content: the same words in every lane of events, in
    /// task records and in stacks. Only the kind's byte is made a likely one.
    pub fn raw(&mut self, cpu: u16, us: u64, words: [u64; 3]) {
        let [head, rest] = [9 + words[0] % 5, words[2]].map(|kind| stamped(us, kind, words));
        let task = [head, rest, vec![0; 8]].concat();
        for (lane, stride, record) in [
            (LaneKind::Sched, 24, stamped(us, words[0] % 9, words)),
            (LaneKind::Sample, 24, stamped(us, 8, words)),
            (LaneKind::Counter, 24, stamped(us, 16, words)),
            (LaneKind::Task, TaskRecord::SIZE, task),
            (LaneKind::SchedStack, 0, stamped(us, 13, words)),
            (LaneKind::Mapping, 0, stamped(us, 13, words)),
        ] {
            self.push(Lane::new(lane, cpu), us, stride, &record);
        }
    }

    /// Adds a record to the lane's chunk.
    fn push(&mut self, lane: Lane, us: u64, stride: usize, record: &[u8]) {
        let current = self.current.get(&lane.index).copied().unwrap_or(u32::MAX);
        let filling = self.filling.entry(lane).or_default();
        if filling.data.is_empty() {
            (filling.first, filling.current_tid, filling.stride) =
                (ticks(us), current, stride as u32);
        }
        filling.last = ticks(us);
        filling.records += 1;
        filling.data.extend_from_slice(record);
        let full = filling.data.len() >= self.chunk_bytes;
        self.last_us = self.last_us.max(us);
        if full {
            self.end_chunk(lane);
        }
    }

    /// Adds words of a lane whose chunks begin with a prefix; a chunk with
    /// another prefix is ended first. Every word may be an item.
    pub fn push_after(&mut self, lane: Lane, us: u64, prefix: &[u8], bytes: &[u8]) {
        let filling = self.filling.entry(lane).or_default();
        if !filling.data.is_empty() && !filling.data.starts_with(prefix) {
            self.end_chunk(lane);
        }
        let filling = self.filling.entry(lane).or_default();
        let first = filling.data.is_empty();
        let record = if first { [prefix, bytes].concat() } else { bytes.to_vec() };
        self.push(lane, us, 0, &record);
    }

    /// A hit of a probe, with its arguments, those strings that were read of
    /// them (by number), and the stack pointer.
    pub fn hit(&mut self, cpu: u16, us: u64, hit: &Hit<'_>) {
        let texts = hit.strings.iter().fold(0, |bits, (index, _)| bits | 1 << index);
        let mut bytes: Vec<u8> = hit.arguments.iter().flat_map(|word| word.to_le_bytes()).collect();
        for (_, text) in hit.strings {
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        bytes.extend(hit.stack.iter().flat_map(|id| u64::from(*id).to_le_bytes()));
        let has_stack = if hit.stack.is_some() { PROBE_HAS_STACK } else { 0 };
        let record = ProbeRecord {
            stamp: Stamp::new(ticks(us), RecordKind::Probe),
            tid: hit.tid,
            tgid: hit.pid,
            probe: hit.probe,
            size: (ProbeRecord::SIZE + bytes.len()) as u16,
            arguments: hit.arguments.len() as u8,
            texts,
            stack_pointer: hit.stack_pointer,
            unreadable: hit.unreadable | has_stack,
            cpu: cpu.into(),
        };
        self.push(Lane::new(LaneKind::Probe, cpu), us, 0, &[record.as_bytes(), &bytes].concat());
    }

    /// A tracepoint's record: the bytes as the kernel lays them out, from the common fields on.
    pub fn tracepoint(&mut self, cpu: u16, us: u64, record: TracepointRecord, bytes: &[u8]) {
        let stamp = Stamp::new(ticks(us), RecordKind::Tracepoint);
        let head = TracepointRecord { stamp, bytes: bytes.len() as u16, cpu: cpu.into(), ..record };
        let mut bytes = [head.as_bytes(), bytes].concat();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        self.push(Lane::new(LaneKind::Tracepoint, cpu), us, 0, &bytes);
    }

    /// A program tells that the work of a GPU failed.
    pub fn gpu_failure(&mut self, cpu: u16, us: u64, record: GpuFailureRecord) {
        let stamp = Stamp::new(ticks(us), RecordKind::GpuFailure);
        let bytes = (GpuFailureRecord::SIZE - TracepointRecord::SIZE) as u16;
        let record = GpuFailureRecord { stamp, bytes, cpu: cpu.into(), ..record };
        self.push(Lane::new(LaneKind::Tracepoint, cpu), us, 0, record.as_bytes());
    }

    /// Ends the lane's chunk and writes it.
    pub fn end_chunk(&mut self, lane: Lane) {
        if let Some(chunk) = self.take_chunk(lane) {
            self.writer.write(&chunk).expect("memory takes every byte");
        }
    }

    /// Ends the lane's chunk, which never reaches the file; how many records it had.
    pub fn drop_chunk(&mut self, lane: Lane) -> u64 {
        self.take_chunk(lane).map_or(0, |chunk| chunk.header.records.into())
    }

    fn take_chunk(&mut self, lane: Lane) -> Option<Chunk> {
        let filling = self.filling.get_mut(&lane).filter(|filling| !filling.data.is_empty())?;
        let data = std::mem::take(&mut filling.data);
        let header = ChunkHeader {
            lane,
            sequence: filling.sequence,
            first: Ticks(filling.first),
            last: Ticks(filling.last),
            current_tid: filling.current_tid,
            stride: filling.stride,
            records_before: filling.records_before,
            records: filling.records,
            length: data.len() as u32,
        };
        filling.sequence += 1;
        filling.records_before += u64::from(std::mem::take(&mut filling.records));
        Some(Chunk { header, data })
    }

    /// Bytes of the capture so far: where the next chunk begins.
    pub fn bytes(&self) -> usize {
        self.writer.bytes() as usize
    }

    fn flush(&mut self) {
        let lanes: Vec<Lane> = self.filling.keys().copied().collect();
        lanes.into_iter().for_each(|lane| self.end_chunk(lane));
    }

    /// The recording comes to its end: the capture.
    pub fn finish(mut self) -> Vec<u8> {
        self.clock(self.last_us + 1);
        self.flush();
        let losses = std::mem::take(&mut self.losses);
        self.define(&Definition::Losses(losses));
        let summary = RecorderSummary {
            stop_reason: StopReason::Command,
            duration_ns: self.last_us * 1_000,
            ..RecorderSummary::default()
        };
        self.define(&Definition::Summary(Box::new(summary)));
        self.writer.finish().expect("memory takes every byte")
    }

    /// The recorder is killed: nothing is declared, nothing summed up.
    pub fn kill(mut self) -> Vec<u8> {
        self.clock(self.last_us + 1);
        self.flush();
        self.writer.finish().expect("memory takes every byte")
    }
}

/// The tick count at a microsecond.
pub const fn ticks(us: u64) -> u64 {
    FIRST_TICKS + us * TICKS_PER_US
}

/// A record that begins with a stamp of that kind, and the second and third word.
fn stamped(us: u64, kind: u64, words: [u64; 3]) -> Vec<u8> {
    let stamp = Stamp(ticks(us) << 8 | kind & 0xff);
    [stamp.0, words[1], words[2]].map(u64::to_le_bytes).concat()
}

fn asleep(us: u64, pid: u32, name: &str, blocked_in: &str) -> KnownProcess {
    let blocked_in = blocked_in.to_owned();
    let asleep = Some(KnownSleep { state: 'S', blocked_in, ..KnownSleep::default() });
    KnownProcess {
        pid,
        threads: vec![KnownThread { tid: pid, name: name.to_owned(), asleep }],
        states_read: Ticks(ticks(us)),
        ..KnownProcess::default()
    }
}
