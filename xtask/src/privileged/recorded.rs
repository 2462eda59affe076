//! A second, plain reader of a capture's records: no merge, no model of the session.
//!
//! The tests compare the product's path (merge, exporters, `info`) and the
//! kernel's counts with what this gives.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::Result;
use syscollect_model::{ClockMap, ClockPair, LaneKind, Ticks};
use syscollect_records::{
    ClockRecord, RecordKind, SampleRecord, SchedRecord, SchedStackRecord, StackHeader, Stamp,
    TaskRecord, stack_id,
};
use syscollect_store::{CaptureReader, Chunk, Definition};

/// A context switch.
pub(crate) struct Switch {
    pub(crate) cpu: u16,
    pub(crate) ticks: u64,
    pub(crate) previous: u32,
}

/// What a capture holds, in the order of its chunks.
pub(crate) struct Recorded {
    /// All switches; those of one CPU are in order.
    pub(crate) switches: Vec<Switch>,
    /// The capture's clock.
    pub(crate) clock: ClockMap,
    /// Decoded records by lane kind.
    pub(crate) counts: BTreeMap<LaneKind, u64>,
    /// Bytes in the file by lane kind, second copies not counted.
    pub(crate) bytes: BTreeMap<LaneKind, u64>,
    /// Stacks that were sent, by the kind of the lane they lie in and their CPU: the first ticks of
    /// each id.
    pub(crate) stacks: HashMap<(LaneKind, u16, u32), u64>,
    /// Uses of stacks by events, in the same terms, with the event's ticks.
    pub(crate) uses: Vec<((LaneKind, u16, u32), u64)>,
    renames: HashMap<String, u64>,
    tasks: Vec<(u64, u8, TaskRecord)>,
    processes: HashMap<u32, u32>,
}

#[derive(Default)]
struct Collected {
    switches: Vec<Switch>,
    counts: BTreeMap<LaneKind, u64>,
    renames: HashMap<String, u64>,
    tasks: Vec<(u64, u8, TaskRecord)>,
    processes: HashMap<u32, u32>,
    pairs: Vec<ClockPair>,
    stacks: HashMap<(LaneKind, u16, u32), u64>,
    uses: Vec<((LaneKind, u16, u32), u64)>,
}

impl Recorded {
    /// Reads a whole capture.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let reader = CaptureReader::open(path)?;
        let (mut collected, mut bytes) = (Collected::default(), BTreeMap::new());
        for lane in reader.lanes() {
            for entry in reader.chunks(lane) {
                *bytes.entry(lane.kind).or_default() += u64::from(entry.stored);
                collected.chunk(&reader.read(entry)?);
            }
        }
        let Collected { switches, counts, renames, tasks, processes, mut pairs, stacks, uses } =
            collected;
        pairs.sort_by_key(|pair| pair.ticks);
        Ok(Self {
            switches,
            clock: ClockMap::new(pairs)?,
            counts,
            bytes,
            stacks,
            uses,
            renames,
            tasks,
            processes,
        })
    }

    /// Bytes of scheduling records in the file for each of them.
    pub(crate) fn bytes_per_switch_or_wakeup(&self) -> f64 {
        of_switches(&self.bytes) / of_switches(&self.counts)
    }

    /// The stamp of the rename to that name.
    pub(crate) fn rename(&self, name: &str) -> Option<u64> {
        self.renames.get(name).copied()
    }

    /// The children that each process forked.
    pub(crate) fn families(&self) -> HashMap<u32, Vec<u32>> {
        let mut families: HashMap<u32, Vec<u32>> = HashMap::new();
        for (_, kind, task) in &self.tasks {
            if *kind == RecordKind::Fork as u8 && task.tgid != task.parent_tgid {
                families.entry(task.parent_tgid).or_default().push(task.tgid);
            }
        }
        families
    }

    /// Nanoseconds on a CPU by process.
    pub(crate) fn on_cpu_ns(&self) -> HashMap<u32, f64> {
        let mut process_of = self.processes.clone();
        process_of.extend(self.tasks.iter().map(|(_, _, task)| (task.tid, task.tgid)));
        let mut since: HashMap<u16, u64> = HashMap::new();
        let mut ticks: HashMap<u32, u64> = HashMap::new();
        for switch in &self.switches {
            if let Some(start) = since.insert(switch.cpu, switch.ticks) {
                let process = process_of.get(&switch.previous).copied().unwrap_or(switch.previous);
                *ticks.entry(process).or_default() += switch.ticks - start;
            }
        }
        let rate = self.clock.ticks_per_second() / 1e9;
        ticks.into_iter().map(|(process, ticks)| (process, ticks as f64 / rate)).collect()
    }
}

fn of_switches(of_lanes: &BTreeMap<LaneKind, u64>) -> f64 {
    of_lanes.get(&LaneKind::Sched).copied().unwrap_or(0) as f64
}

impl Collected {
    fn chunk(&mut self, chunk: &Chunk) {
        let (kind, first) = (chunk.header.lane.kind, chunk.header.first.0);
        let records = chunk.data.chunks_exact((chunk.header.stride as usize).max(1));
        match kind {
            LaneKind::Sched => self.sched(chunk),
            LaneKind::Task => records
                .filter_map(TaskRecord::from_bytes)
                .for_each(|record| self.task(first, record)),
            LaneKind::Clock => {
                records
                    .filter_map(ClockRecord::from_bytes)
                    .for_each(|record| self.clock(first, &record));
            }
            LaneKind::Definition => self.definition(&chunk.data),
            LaneKind::Sample => records.filter_map(SampleRecord::from_bytes).for_each(|record| {
                let at = record.stamp.ticks_near(first);
                self.uses(
                    LaneKind::SampleStack,
                    chunk.header.lane.index,
                    at,
                    [record.user_stack, record.kernel_stack],
                );
            }),
            LaneKind::SchedStack | LaneKind::SampleStack | LaneKind::ProbeStack => {
                self.stacks(chunk);
            }
            LaneKind::Mapping
            | LaneKind::Counter
            | LaneKind::FilePart
            | LaneKind::Zone
            | LaneKind::ZoneLog
            | LaneKind::Probe
            | LaneKind::Tracepoint => {}
        }
        let records = chunk.header.length.checked_div(chunk.header.stride).unwrap_or(0);
        *self.counts.entry(kind).or_default() += u64::from(records);
    }

    fn sched(&mut self, chunk: &Chunk) {
        let mut current = chunk.header.current_tid;
        for bytes in chunk.data.chunks_exact((chunk.header.stride as usize).max(1)) {
            let Some(record) = SchedRecord::from_bytes(bytes) else { continue };
            let kind = RecordKind::from_number(record.stamp.split().1);
            if let Some(SchedStackRecord { event, user_stack, kernel_stack }) =
                SchedStackRecord::from_bytes(bytes)
            {
                let at = event.stamp.ticks_near(chunk.header.first.0);
                self.uses(
                    LaneKind::SchedStack,
                    chunk.header.lane.index,
                    at,
                    [user_stack, kernel_stack],
                );
            }
            if kind == Some(RecordKind::Switch) {
                let ticks = record.stamp.ticks_near(chunk.header.first.0);
                self.switches.push(Switch {
                    cpu: chunk.header.lane.index,
                    ticks,
                    previous: current,
                });
            }
            if matches!(kind, Some(RecordKind::Switch | RecordKind::Resume)) {
                current = record.tid;
            }
        }
    }

    fn uses(&mut self, kind: LaneKind, cpu: u16, ticks: u64, ids: [u32; 2]) {
        let real = ids.into_iter().filter(|id| ![stack_id::NONE, stack_id::LOST].contains(id));
        self.uses.extend(real.map(|id| ((kind, cpu, id), ticks)));
    }

    fn stacks(&mut self, chunk: &Chunk) {
        let mut rest = chunk.data.as_slice();
        while let Some(header) = StackHeader::from_bytes(rest) {
            let ticks = header.stamp.ticks_near(chunk.header.first.0);
            self.stacks
                .entry((chunk.header.lane.kind, chunk.header.lane.index, header.id))
                .or_insert(ticks);
            rest =
                rest.get(StackHeader::SIZE + 8 * usize::from(header.frames)..).unwrap_or_default();
        }
    }

    fn task(&mut self, first: u64, record: TaskRecord) {
        let (ticks, kind) = (record.stamp.ticks_near(first), record.stamp.split().1);
        if kind == RecordKind::Rename as u8 {
            let name = record.comm.split(|byte| *byte == 0).next().unwrap_or_default();
            self.renames.insert(String::from_utf8_lossy(name).into_owned(), ticks);
        }
        self.tasks.push((ticks, kind, record));
    }

    fn clock(&mut self, first: u64, record: &ClockRecord) {
        self.pairs.push(ClockPair {
            ticks: Ticks(Stamp::ticks_near(record.stamp, first)),
            monotonic: record.monotonic,
            monotonic_raw: record.monotonic_raw,
            boottime: record.boottime,
            realtime: record.realtime,
            uncertainty: record.uncertainty,
        });
    }

    fn definition(&mut self, json: &[u8]) {
        if let Ok(Definition::Processes(processes)) = serde_json::from_slice(json) {
            for process in processes {
                self.processes
                    .extend(process.threads.iter().map(|thread| (thread.tid, process.pid)));
            }
        }
    }
}
