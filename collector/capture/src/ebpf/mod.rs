//! The kernel programs: loading the variants that this kernel takes, attaching
//! them, draining their lanes.

mod known_stacks;
mod lane_shares;
mod lanes;
mod programs;
mod sampling;
mod sizes;
mod tsc;

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use aya::maps::{Map, RingBuf};
use aya::{Btf, Ebpf, EbpfLoader};
use syscollect_model::{ClockSource, CpuClock, LossCause, SampleEvent, SessionInfo, Ticks};
use syscollect_records::statistic;
use syscollect_store::{LaneLoss, LostRecord};

use crate::bpf_calls::{self, ProgramCounts};
use crate::bpf_object::SharedMaps;
use crate::committed_object::{self, CommittedObject};
use crate::error::CaptureError;
use crate::host::{Host, kernel_at_least};
use crate::interrupts::{CountConstants, PreemptCount};
use crate::kernel_types::kernel_types;
use crate::memory::{LaneBytes, MemoryPlan};
use crate::options::{RecordOptions, UnwindMethod};
use crate::source::{Drained, Source};
use crate::stage::Flush;
use crate::unwind::{self, StackMemoryRing, StacksInMemory, UnwindCounts, UnwindTables};
pub(crate) use known_stacks::forget_ids;
use lanes::Lanes;
pub(crate) use programs::short_reason;
use sampling::Sampling;
use tsc::TscEvents;

fn object() -> &'static CommittedObject {
    if kernel_at_least(5, 13) { &committed_object::SYSCOLLECT } else { &committed_object::OLDER }
}

/// The kernel programs at work. Dropping it detaches them.
pub(crate) struct EbpfSource {
    ebpf: Ebpf,
    lanes: Lanes,
    tsc: Option<TscEvents>,
    sampling: Option<Sampling>,
    /// What drives the samples, once they began.
    sample_event: SampleEvent,
    /// The programs' counts when they were detached.
    last_counts: Option<Vec<(String, ProgramCounts)>>,
    sample_rate_hz: u32,
    /// What was made of unwind tables; `None` where the programs walk in another way.
    unwind: Option<Arc<UnwindCounts>>,
    /// Where stacks come whose tables were not made yet.
    stack_memory: Option<StackMemoryRing>,
    /// Its map.
    stack_memory_map: Option<OwnedFd>,
    /// The clock of each CPU's stamps; error bounds in ticks.
    clocks: Vec<CpuClock>,
    /// Where the stamps come from.
    pub(crate) clock_source: ClockSource,
    missing: Vec<String>,
}

impl EbpfSource {
    /// Loads the programs and starts their clocks; nothing is recorded yet.
    pub(crate) fn load(
        options: &RecordOptions,
        memory: &MemoryPlan,
        host: &Host,
    ) -> Result<Self, CaptureError> {
        let wanted = wants_unwind_tables(options);
        let (mut source, refused) = Self::load_walking(options, wanted, memory, host)?;
        if let Some(refused) = refused {
            if options.unwind == UnwindMethod::Tables {
                return Err(CaptureError::NoUnwindTables(Box::new(refused)));
            }
            drop(source);
            (source, _) = Self::load_walking(options, false, memory, host)?;
            source.missing.push(by_frame_pointers(&refused.to_string()));
        }
        Ok(source)
    }

    /// The same, whose user stacks are walked by unwind tables or in another way; and why the
    /// kernel takes no programs with those, if it does not.
    fn load_walking(
        options: &RecordOptions,
        unwind_tables: bool,
        memory: &MemoryPlan,
        host: &Host,
    ) -> Result<(Self, Option<CaptureError>), CaptureError> {
        // It reads the kernel's types for itself, while another thread does for all others.
        let loader = EbpfLoader::new();
        let btf = kernel_types().map_err(|error| CaptureError::NoBtf(error.to_string()))?;
        let mut missing = Vec::new();
        let pmu = if host.has_invariant_tsc() {
            tsc::msr_pmu()
        } else {
            Err("the TSC is not invariant".to_owned())
        };
        let pmu = pmu
            .map_err(|why| missing.push(format!("stamps are CLOCK_MONOTONIC, not TSC: {why}")))
            .ok();
        let possible = host.possible_cpus();
        let settings = ObjectSettings::of(options, memory, unwind_tables, possible, pmu.is_some());
        let mut ebpf = load_object(loader, options, &btf, settings)?;
        let lanes = Lanes::map(&ebpf, possible, options.stacks.any_sched())?;
        if let Err(why) = tsc::load_iterator(&mut ebpf, &btf) {
            missing.push(format!("the clocks' starts are only bracketed: {why}"));
        }
        let mut source = Self {
            ebpf,
            lanes,
            tsc: pmu.map(TscEvents::new),
            sampling: None,
            sample_event: SampleEvent::None,
            last_counts: None,
            sample_rate_hz: options.sample_rate_hz,
            unwind: None,
            stack_memory: None,
            stack_memory_map: None,
            clocks: Vec::new(),
            clock_source: if pmu.is_some() { ClockSource::Tsc } else { ClockSource::Monotonic },
            missing,
        };
        source.stack_memory = source.stack_memory_ring(memory.is_short());
        source.start_clocks(&host.online_cpus())?;
        source.filter(&options.pids)?;
        let missing = &mut source.missing;
        let refused =
            programs::load(&mut source.ebpf, &btf, options, memory, unwind_tables, missing)?;
        Ok((source, refused))
    }

    fn start_clocks(&mut self, cpus: &[u32]) -> Result<(), CaptureError> {
        if let Some(tsc) = &mut self.tsc {
            let clocks = tsc.add_cpus(cpus, &mut self.ebpf, &self.lanes)?;
            self.clocks.retain(|known| !cpus.contains(&known.cpu));
            self.clocks.extend(clocks);
            return Ok(());
        }
        let method = "bpf_ktime_get_ns (CLOCK_MONOTONIC)";
        self.clocks.extend(cpus.iter().map(|cpu| CpuClock {
            cpu: *cpu,
            error_bound_ns: 0.0,
            method: method.to_owned(),
        }));
        Ok(())
    }

    /// The maps that the object of the probes uses too, by name.
    pub(crate) fn shared_maps(&self) -> Result<SharedMaps, CaptureError> {
        let mut shared = SharedMaps::new();
        for (name, map) in self.ebpf.maps() {
            let (Map::Array(map) | Map::HashMap(map) | Map::PerfEventArray(map)) = map else {
                continue;
            };
            // The constants and cached stacks of each object are its own.
            if name.starts_with('.') {
                continue;
            }
            let held = map.fd().as_fd().try_clone_to_owned();
            let held = held.map_err(|error| {
                CaptureError::system(format!("cannot hold the map {name}"), error)
            })?;
            shared.insert(name.to_owned(), held);
        }
        let held = self.stack_memory_map.as_ref().map(OwnedFd::try_clone).transpose();
        let held =
            held.map_err(|error| CaptureError::system("cannot hold the map stack_memory", error))?;
        shared.extend(held.map(|map| ("stack_memory".to_owned(), map)));
        Ok(shared)
    }

    /// Starts to make the tables by which the programs unwind, if they do. Without them stacks are
    /// walked by frame pointers. The user who asked for the recording has no share of the time.
    pub(crate) fn start_unwinding(&mut self, asked_by: Option<u32>) -> Option<UnwindTables> {
        let programs = match programs::unwind_programs(&self.ebpf)? {
            Ok(programs) => programs,
            Err(error) => return self.without_tables(&error),
        };
        let counts = Arc::new(UnwindCounts::default());
        match UnwindTables::start(programs, counts.clone(), asked_by) {
            Ok(tables) => {
                self.unwind = Some(counts);
                self.stack_memory.iter_mut().for_each(|stacks| stacks.ask(tables.clone()));
                Some(tables)
            }
            Err(error) => self.without_tables(&error),
        }
    }

    /// Stacks end at the first table that is not made yet where there is none.
    fn stack_memory_ring(&mut self, memory_is_short: bool) -> Option<StackMemoryRing> {
        let map = self.ebpf.take_map("stack_memory")?;
        if let Map::RingBuf(map) = &map {
            self.stack_memory_map = map.fd().as_fd().try_clone_to_owned().ok();
        }
        match RingBuf::try_from(map) {
            Ok(ring) => Some(StackMemoryRing::new(ring, memory_is_short)),
            Err(error) => {
                let why = format!("stacks of which a table is missing end there: {error}");
                self.missing.push(why);
                None
            }
        }
    }

    fn without_tables(&mut self, error: &std::io::Error) -> Option<UnwindTables> {
        self.missing.push(format!("no unwind tables, stacks end early without them: {error}"));
        None
    }

    /// Adds processes to those that are recorded.
    fn filter(&self, pids: &[u32]) -> Result<(), CaptureError> {
        let Some(Map::HashMap(map)) = self.ebpf.map("recorded_processes") else { return Ok(()) };
        for &pid in pids {
            bpf_calls::update_map(map.fd().as_fd(), pid, &1u32.to_ne_bytes()).map_err(|error| {
                CaptureError::system(format!("cannot record process {pid} alone"), error)
            })?;
        }
        Ok(())
    }

    fn sample(&mut self, cpu: u32) -> Result<(), CaptureError> {
        let Some(sampling) = &mut self.sampling else { return Ok(()) };
        sampling
            .add_cpu(cpu)
            .map_err(|error| CaptureError::system(format!("cannot sample CPU {cpu}"), error))
    }

    /// The kernel's counts of the programs, now or when they were detached.
    fn counts(&self) -> Vec<(String, ProgramCounts)> {
        self.last_counts.clone().unwrap_or_else(|| programs::counts(&self.ebpf))
    }
}

impl Source for EbpfSource {
    fn attach(&mut self, cpus: &[u32]) -> Result<(), CaptureError> {
        programs::attach(&mut self.ebpf, &mut self.missing)?;
        if self.sample_rate_hz == 0 {
            return Ok(());
        }
        let Some(program) = programs::sampling_program(&self.ebpf) else { return Ok(()) };
        let (rate_hz, limited) = sampling::allowed_rate(self.sample_rate_hz);
        self.missing.extend(limited);
        let sampling = Sampling::new(rate_hz, program, cpus.first().copied().unwrap_or(0));
        self.sample_event = sampling.event();
        self.sampling = Some(sampling);
        cpus.iter().try_for_each(|cpu| self.sample(*cpu))
    }

    fn add_cpu(&mut self, cpu: u32) -> Result<(), CaptureError> {
        self.start_clocks(&[cpu])?;
        self.sample(cpu)
    }

    fn drain(&mut self, now: Ticks, flush: Flush, out: &mut Drained<'_>) -> f64 {
        let stacks = self.stack_memory.as_mut().map_or(0.0, StackMemoryRing::drain);
        self.lanes.drain(now, flush, out.chunk).max(stacks)
    }

    fn take_stacks_in_memory(&mut self) -> StacksInMemory {
        self.stack_memory.as_mut().map(StackMemoryRing::take).unwrap_or_default()
    }

    fn restate(&mut self) {
        if let Err(error) = known_stacks::forget(&self.ebpf) {
            let why = format!("a stack is sent but once, and missing where it was lost: {error}");
            if !self.missing.contains(&why) {
                self.missing.push(why);
            }
        }
        // A program that had looked up its stack before has written its event by now: it cannot be
        // preempted.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }

    /// Detaches all programs and waits until none runs any more: they are not
    /// preemptible, so a visit to each CPU sees the end of the last one.
    fn detach(&mut self, cpus: &[u32]) {
        self.sampling = None;
        self.last_counts = Some(programs::counts(&self.ebpf));
        programs::detach(&mut self.ebpf);
        for &cpu in cpus {
            drop(crate::affinity::run_on(cpu));
        }
    }

    fn losses(&self) -> Vec<LaneLoss> {
        let mut losses = lane_shares::with_users(self.lanes.losses(), &self.ebpf);
        losses.extend(self.counts().iter().filter(|(_, counts)| counts.recursion_misses > 0).map(
            |(program, counts)| LaneLoss {
                origin: programs::lane_of(program).into(),
                cpu: None,
                record: LostRecord::Other(program.clone()),
                cause: LossCause::Nested,
                user: None,
                count: counts.recursion_misses,
            },
        ));
        losses
    }

    /// Sums of the lanes' statistics by name, and of the programs' run time
    /// and runs where the kernel counts them.
    fn statistics(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for (_, _, header) in self.lanes.headers() {
            for (index, name) in STATISTICS {
                *sums.entry(name.to_owned()).or_default() += header.statistics[index];
            }
        }
        sums.insert("lanes_bytes".to_owned(), self.lanes.bytes());
        let unwind = self.unwind.iter().flat_map(|counts| counts.named());
        sums.extend(unwind.map(|(name, count)| (name.to_owned(), count)));
        let refused = self.stack_memory.as_ref().map(StackMemoryRing::refused);
        sums.extend(refused.map(|refused| ("stack_memory_refused".to_owned(), refused)));
        for (program, counts) in self.counts().iter().filter(|(_, counts)| counts.run_count > 0) {
            sums.insert(format!("{program}_run_ns"), counts.run_time_ns);
            sums.insert(format!("{program}_runs"), counts.run_count);
        }
        sums
    }

    fn describe(&self, session: &mut SessionInfo) {
        session.clock_source = self.clock_source;
        session.clocks = self.clocks.clone();
        // Found in ticks; the session has nanoseconds.
        session
            .clocks
            .iter_mut()
            .for_each(|clock| clock.error_bound_ns *= 1e9 / session.tick_rate_hz);
        session.sample_event = self.sample_event.clone();
    }

    fn missing(&self) -> &[String] {
        &self.missing
    }
}

/// Names of the lanes' statistics.
const STATISTICS: [(usize, &str); 21] = [
    (statistic::WRITTEN, "records_written"),
    (statistic::STACKS, "stacks_looked_up"),
    (statistic::STACKS_SENT, "stacks_sent"),
    (statistic::STACKS_LOST, "stacks_lost"),
    (statistic::SLOT_HITS, "kernel_stacks_verified"),
    (statistic::SLOT_MISSES, "kernel_stacks_walked"),
    (statistic::CROSS_CHECKED, "kernel_stacks_cross_checked"),
    (statistic::CROSS_DIFFERENT, "kernel_stacks_different"),
    (statistic::USER_UNREADABLE, "user_stacks_cut_short"),
    (statistic::USER_WALKS, "user_stacks_whole"),
    (statistic::USER_WALKS + 1, "user_stacks_too_deep"),
    (statistic::USER_WALKS + 2, "user_stacks_without_unwind_information"),
    (statistic::USER_WALKS + 3, "user_stacks_unreadable"),
    (statistic::USER_WALKS + 4, "user_stacks_before_tables"),
    (statistic::USER_WALKS + 5, "user_stacks_with_unusable_information"),
    (statistic::USER_WALKS + 6, "user_stacks_cut_by_frame_pointers"),
    (statistic::USER_WALKS + 7, "user_stacks_of_memory_that_was_gone"),
    (statistic::STACK_MEMORY, "stacks_sent_with_memory"),
    (statistic::USER_SLOT_HITS, "user_stacks_verified"),
    (statistic::USER_CROSS_CHECKED, "user_stacks_walked_again"),
    (statistic::USER_CROSS_DIFFERENT, "user_stacks_verified_wrongly"),
];

/// Whether programs are to walk by unwind tables, if the kernel takes such.
fn wants_unwind_tables(options: &RecordOptions) -> bool {
    let wanted = matches!(options.unwind, UnwindMethod::Auto | UnwindMethod::Tables);
    wanted && options.stacks.any()
}

/// What the capture says where it was to be done by tables, and is not.
fn by_frame_pointers(why: &str) -> String {
    format!(
        "user stacks are walked by frame pointers, not by unwind tables, and end where a program \
         keeps none: {why}"
    )
}

/// Tries whether the kernel takes the program without which none unwinds by tables.
pub(crate) fn try_unwind_tables() -> io::Result<()> {
    try_to_load().map_err(CaptureError::into_io)
}

/// Loads everything as a recording does, with the smallest buffers.
fn try_to_load() -> Result<(), CaptureError> {
    let btf = kernel_types().map_err(|error| CaptureError::NoBtf(error.to_string()))?;
    let unwind = UnwindSizes { rows: ROWS_LEAST, stack_memory_bytes: PAGE };
    let lanes = LaneBytes { sched: LANE_LEAST, sched_stack: LANE_LEAST };
    let settings = ObjectSettings { cpus: 1, tsc: false, lanes, unwind: Some(unwind) };
    let options = RecordOptions::default();
    let mut ebpf = load_object_with(EbpfLoader::new(), &options, &btf, settings)?;
    programs::load_identify(&mut ebpf)
}

/// The smallest sizes of what the attempt needs: rows, a ring, a lane.
const ROWS_LEAST: u32 = 4096;
const PAGE: u32 = 4096;
const LANE_LEAST: u32 = 64 << 10;

/// The largest lane that kernels before 6.1 make: their maps' values have at most 4 MiB.
const LANE_OF_OLD_KERNELS: u32 = 2 << 20;

/// What the object is loaded with on this machine: how large those maps are made that have no size
/// of their own, and where stamps come from.
#[derive(Clone, Copy, Debug)]
struct ObjectSettings {
    /// CPUs that may come up.
    cpus: u32,
    /// Stamps are TSC.
    tsc: bool,
    lanes: LaneBytes,
    /// Rows of unwind tables, and bytes for stacks that come before these; `None` where programs
    /// walk in another way.
    unwind: Option<UnwindSizes>,
}

impl ObjectSettings {
    fn of(
        options: &RecordOptions,
        memory: &MemoryPlan,
        unwind_tables: bool,
        cpus: u32,
        tsc: bool,
    ) -> Self {
        let unwind = unwind_tables.then(|| UnwindSizes {
            rows: unwind::rows_of(options.unwind_memory.unwrap_or(memory.unwind_bytes)),
            stack_memory_bytes: unwind::ring_bytes(memory.is_short()),
        });
        Self { cpus, tsc, lanes: memory.lane_bytes, unwind }
    }
}

#[derive(Clone, Copy, Debug)]
struct UnwindSizes {
    rows: u32,
    stack_memory_bytes: u32,
}

/// Loads the object with its constants set for this recording.
fn load_object(
    loader: EbpfLoader<'_>,
    options: &RecordOptions,
    btf: &Btf,
    settings: ObjectSettings,
) -> Result<Ebpf, CaptureError> {
    match load_object_with(loader, options, btf, settings) {
        Err(_) if settings.lanes.sched > LANE_OF_OLD_KERNELS => {
            let lanes = LaneBytes { sched: LANE_OF_OLD_KERNELS, ..settings.lanes };
            let settings = ObjectSettings { lanes, ..settings };
            load_object_with(EbpfLoader::new(), options, btf, settings)
        }
        result => result,
    }
}

fn load_object_with(
    loader: EbpfLoader<'_>,
    options: &RecordOptions,
    btf: &Btf,
    settings: ObjectSettings,
) -> Result<Ebpf, CaptureError> {
    let ObjectSettings { cpus, tsc, lanes, unwind } = settings;
    let flags = [
        ("USE_TSC", tsc),
        ("STATE_IS_ARGUMENT", kernel_at_least(5, 18)),
        ("OFFCPU_STACKS", options.stacks.offcpu),
        ("WAKER_STACKS", options.stacks.wakers),
        ("SAMPLE_STACKS", options.stacks.samples),
        ("FILTER", !options.pids.is_empty()),
        // The search for slots calls bpf_loop.
        ("VERIFIED_SLOTS", kernel_at_least(5, 17)),
        ("USER_STACKS", options.unwind != UnwindMethod::None),
        ("UNWIND_TABLES", unwind.is_some()),
    ]
    .map(|(name, on)| (name, u8::from(on)));
    let numbers = [
        ("CROSS_CHECK", options.cross_check_every),
        ("COLLECTOR_TGID", std::process::id()),
        ("SCHED_LANE_BYTES", lanes.sched),
        ("SCHED_STACK_LANE_BYTES", lanes.sched_stack),
    ];
    let interrupts = PreemptCount::of_this_kernel();
    let CountConstants { way, offset, table } = interrupts.constants();
    // The standard library's own source of numbers that nobody can guess.
    let secret = RandomState::new().hash_one(std::process::id());
    // It borrows all of these.
    let mut loader = loader;
    loader.btf(Some(btf));
    loader.override_global("COUNT_WAY", &way, true);
    loader.override_global("COUNT_OFFSET", &offset, true);
    loader.override_global("CPU_OFFSETS", &table, true);
    for (name, flag) in &flags {
        loader.override_global(name, flag, true);
    }
    for (name, number) in &numbers {
        loader.override_global(name, number, true);
    }
    loader.override_global("HASH_SECRET", &secret, true);
    for map in [
        "sched_lanes",
        "sched_stack_lanes",
        "sample_lanes",
        "sample_stack_lanes",
        "task_lanes",
        "tsc_events",
        "sched_rows",
        "sample_rows",
    ] {
        loader.map_max_entries(map, cpus);
    }
    if let Some(UnwindSizes { rows, stack_memory_bytes }) = unwind {
        loader.map_max_entries("unwind_rows", rows);
        loader.map_max_entries("stack_memory", stack_memory_bytes);
    }
    let object =
        sizes::with_lanes(&object().bytes(), lanes).ok_or_else(|| CaptureError::Program {
            program: "syscollect.bpf.o".into(),
            reason: "it does not say how large its lanes are".into(),
        })?;
    let object = interrupts.written_into(&object);
    loader.load(&object).map_err(|error| programs::load_error("syscollect.bpf.o", &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::LEAST_UNWIND;
    use crate::options::Stacks;
    use std::path::Path;

    /// Loads only: nothing is attached. Who may not load, or has a kernel without what it takes, is
    /// told nothing here.
    #[test]
    fn the_kernel_takes_the_programs_with_lanes_of_every_size() {
        let stacks = Stacks { samples: true, offcpu: true, wakers: true, probes: false };
        let options = RecordOptions { sample_rate_hz: 99, stacks, ..RecordOptions::default() };
        for (sched, sched_stack) in
            [(64 << 10, 512 << 10), (2 << 20, 512 << 10), (8 << 20, 2 << 20)]
        {
            let memory = MemoryPlan {
                buffer_bytes: 1 << 20,
                lane_bytes: LaneBytes { sched, sched_stack },
                lanes_bytes: 0,
                unwind_bytes: LEAST_UNWIND,
                note: None,
            };
            match EbpfSource::load(&options, &memory, &Host::at(Path::new("/"))) {
                Ok(source) => assert!(source.lanes.bytes() >= u64::from(sched + sched_stack)),
                Err(CaptureError::Program { program, reason }) => panic!("{program}: {reason}"),
                Err(_) => return,
            }
        }
    }
}
