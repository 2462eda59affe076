//! How a recording begins: first what runs, then what takes its time to attach, while a thread
//! empties the lanes already.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::{Builder, Thread};
use std::time::Instant;

use syscollect_model::{ClockSource, SessionInfo};
use syscollect_store::Definition;

use super::{Collector, FileStart, Machine, Output, SleepPace, longest_sleep};
use crate::bpf_object::SharedMaps;
use crate::chunk_sink::ChunkSink;
use crate::ebpf::EbpfSource;
use crate::error::CaptureError;
use crate::gpu_clients::GpuClients;
use crate::host::Host;
use crate::jvm::{JvmAttacher, JvmNames};
use crate::kernel_types::ReadingTypes;
use crate::mapping_pace::MappingPace;
use crate::memory::MemoryPlan;
use crate::metadata::{MetadataSettings, MetadataThread};
use crate::options::RecordOptions;
use crate::perf::mappings::MappingRings;
use crate::priority::{PriorityBoost, go_first};
use crate::probes::{ManagerInbox, ProbeSource, Setup, UprobeKeeper};
use crate::readings::Readings;
use crate::source::Source;
use crate::stage::Flush;
use crate::support::lacking_for_names;
use crate::tracepoints::{self, EventKeeper, TracepointSource};
use crate::unwind::UnwindTables;
use crate::zones::{ZoneNotice, ZoneSource};

impl Collector {
    /// Loads and attaches everything: when it returns, the machine is recorded.
    ///
    /// # Errors
    ///
    /// What the kernel refuses, and [`CaptureError::Stopped`].
    pub(crate) fn start(
        options: &RecordOptions,
        memory: &MemoryPlan,
        children: Children,
        output: Output,
    ) -> Result<Self, CaptureError> {
        let Children { keepers, jvm_asker } = children;
        let _boost = PriorityBoost::begin();
        let types = ReadingTypes::begin();
        let mut first = FirstSources::load(options, memory)?;
        // Held until all objects are loaded.
        let _types = types.read();
        options.go_on()?;
        let began = Instant::now();
        first.attach()?;
        let attached = Instant::now();
        options.go_on()?;
        first.readings.read();
        let mut missing = first.missing();
        missing.extend(memory.note.clone());
        let jvms = first.jvm_names(options, jvm_asker, &mut missing);
        let session = first.describe(options, &missing);
        output.begin_recording(&mut first.readings, &session);
        let settings = MetadataSettings {
            clock: first.clock,
            asked_by: options.asked_by,
            pids: options.pids.clone(),
            // The program that they need takes megabytes while it is loaded.
            blocked_stacks: options.stacks.offcpu && !memory.is_short(),
            jvms,
        };
        let later = LaterSetup {
            options,
            memory_is_short: memory.is_short(),
            clock: first.clock,
            online: first.online.clone(),
            possible_cpus: first.host.possible_cpus(),
            shared_maps: first.shared_maps,
            sink: output.sink.clone(),
            unwind_tables: first.unwind.is_some(),
        };
        let refused_tables = first.unwind.as_ref().map(|tables| tables.refused().clone());
        let metadata = MetadataThread::start(output.sink.clone(), settings, first.unwind)
            .map_err(CaptureError::no_thread)?;
        let inbox = ManagerInbox::new();
        let mut collector = Self {
            machine: Some(Machine {
                host: first.host,
                online: first.online,
                readings: first.readings,
                metadata,
                mapped_files: inbox.mapped_files(),
                mapping_pace: MappingPace::new(),
                own_pid: std::process::id(),
            }),
            missing,
            refused_tables: refused_tables.unwrap_or_default(),
            session,
            attached,
            ..Self::new(first.sources, first.clock, output)
        };
        let later = collector.empty_lanes_during(|| later.start(keepers, inbox))?;
        options.go_on()?;
        collector.missing.extend(later.sources.iter().flat_map(|source| source.missing()).cloned());
        collector.missing.extend(later.missing);
        collector.sources.extend(later.sources);
        // What was done until now is the start's.
        collector.file = FileStart { at: began, ..FileStart::of_the_first() };
        Ok(collector)
    }

    /// Does that while another thread empties the lanes: beside busy programs it takes its time,
    /// and what users of the machine do meanwhile would fill the lanes of tasks and mappings.
    fn empty_lanes_during<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Without the thread, they are emptied when all is attached.
            let thread = Builder::new()
                .name("collector".to_owned())
                .spawn_scoped(scope, || self.empty_lanes_until(&is_over));
            let _end = thread
                .ok()
                .map(|thread| EndOfWork { is_over: &is_over, waiting: thread.thread().clone() });
            work()
        })
    }

    fn empty_lanes_until(&mut self, is_over: &AtomicBool) {
        go_first();
        let mut pace = SleepPace::new();
        while !is_over.load(Ordering::Acquire) {
            let (began, fullest) = (Instant::now(), self.drain(Flush::USUAL));
            pace.emptied(began, fullest, longest_sleep(Flush::USUAL));
            if self.is_periodic_work_due() {
                self.do_periodic_work();
            }
            std::thread::park_timeout(pace.sleep);
        }
    }
}

/// Tells a thread that it is done when this is dropped, also where the work panics: the thread is
/// waited for.
struct EndOfWork<'a> {
    is_over: &'a AtomicBool,
    waiting: Thread,
}

impl Drop for EndOfWork<'_> {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.waiting.unpark();
    }
}

/// The processes that a recorder starts for what it had better not do itself: copies of it, so that
/// they are started while it is small and has few threads.
pub(crate) struct Children {
    keepers: KeeperProcesses,
    /// Where Java virtual machines are to be asked for names.
    jvm_asker: Option<io::Result<JvmAttacher>>,
}

impl Children {
    pub(crate) fn start(options: &RecordOptions) -> Self {
        Self {
            keepers: KeeperProcesses::start(options),
            jvm_asker: options.jvm.then(JvmAttacher::start),
        }
    }
}

/// The processes that hold what is attached.
struct KeeperProcesses {
    probes: io::Result<UprobeKeeper>,
    /// Where any tracepoints are asked for.
    tracepoints: Option<io::Result<EventKeeper>>,
}

impl KeeperProcesses {
    fn start(options: &RecordOptions) -> Self {
        let asks_for_tracepoints = options.gpu || !options.tracepoints.is_empty();
        Self {
            probes: UprobeKeeper::start(),
            tracepoints: asks_for_tracepoints.then(EventKeeper::start),
        }
    }
}

/// What is loaded together and attached first: scheduling, tasks, samples and mappings.
struct FirstSources {
    host: Host,
    online: Vec<u32>,
    clock: ClockSource,
    sources: Vec<Box<dyn Source>>,
    readings: Readings,
    /// Maps that objects which are loaded later use, too.
    shared_maps: SharedMaps,
    unwind: Option<UnwindTables>,
}

impl FirstSources {
    fn load(options: &RecordOptions, memory: &MemoryPlan) -> Result<Self, CaptureError> {
        let host = Host::at(Path::new("/"));
        let online = host.online_cpus();
        let mut programs = EbpfSource::load(options, memory, &host)?;
        let unwind = programs.start_unwinding(options.asked_by);
        let clock = programs.clock_source;
        Ok(Self {
            online,
            clock,
            shared_maps: programs.shared_maps()?,
            // Mappings first: of what runs later they know the files.
            sources: vec![Box::new(MappingRings::default()), Box::new(programs)],
            readings: Readings::start(clock, host.possible_cpus()),
            unwind,
            host,
        })
    }

    fn attach(&mut self) -> Result<(), CaptureError> {
        self.sources.iter_mut().try_for_each(|source| source.attach(&self.online))
    }

    /// What this machine lacks for them, and for names.
    fn missing(&self) -> Vec<String> {
        let missing = self.sources.iter().flat_map(|source| source.missing()).cloned();
        missing.chain(lacking_for_names()).collect()
    }

    /// Java virtual machines, where these are to be asked for names; why they are not is `missing`.
    fn jvm_names(
        &self,
        options: &RecordOptions,
        asker: Option<io::Result<JvmAttacher>>,
        missing: &mut Vec<String>,
    ) -> Option<JvmNames> {
        match asker? {
            Ok(asker) => {
                let recorded = self.shared_maps.get("recorded_processes");
                let recorded = recorded.filter(|_| !options.pids.is_empty());
                Some(JvmNames::new(asker, recorded.and_then(|map| map.try_clone().ok())))
            }
            Err(error) => {
                missing.push(format!("--jvm: no Java virtual machine is asked for names: {error}"));
                None
            }
        }
    }

    /// Everything that is known at the start.
    fn describe(&self, options: &RecordOptions, missing: &[String]) -> SessionInfo {
        let mut session = SessionInfo {
            recorder_command: options.command_line.clone(),
            tick_rate_hz: self.readings.tick_rate_hz(),
            sample_rate_hz: options.sample_rate_hz,
            stacks: options.stacks.origins(),
            filter_pids: options.pids.clone(),
            notes: missing.to_vec(),
            ..self.host.session()
        };
        self.sources.iter().for_each(|source| source.describe(&mut session));
        session
    }
}

impl Output {
    /// Clock readings come first in the file: without them nothing has a time, however early the
    /// recorder is killed or the disk is full.
    fn begin_recording(&self, readings: &mut Readings, session: &SessionInfo) {
        readings.flush(Flush::All, &mut |chunk| self.push(chunk));
        self.define(&Definition::Session(Box::new(session.clone())));
        self.define(&Definition::Counters(readings.definitions()));
    }
}

/// What sources are started with that are attached when the first ones record already.
struct LaterSetup<'a> {
    options: &'a RecordOptions,
    memory_is_short: bool,
    clock: ClockSource,
    online: Vec<u32>,
    possible_cpus: u32,
    shared_maps: SharedMaps,
    sink: Arc<ChunkSink>,
    unwind_tables: bool,
}

/// Sources that are attached when the first ones record already.
#[derive(Default)]
struct LaterSources {
    sources: Vec<Box<dyn Source>>,
    /// Those that could not be started, and why.
    missing: Vec<String>,
}

impl LaterSources {
    /// Takes a source, or says of what it was that it is not recorded.
    fn add(&mut self, not_recorded: &str, started: Result<impl Source + 'static, CaptureError>) {
        match started {
            Ok(source) => self.sources.push(Box::new(source)),
            Err(error) => self.missing.push(format!("{not_recorded}: {error}")),
        }
    }
}

impl LaterSetup<'_> {
    /// Starts GPUs, tracepoints, probes and zones.
    ///
    /// # Errors
    ///
    /// What was asked for is not there, or a stop was asked for.
    fn start(
        &self,
        keepers: KeeperProcesses,
        inbox: ManagerInbox,
    ) -> Result<LaterSources, CaptureError> {
        let (zones, notices) =
            ZoneSource::start(self.clock, self.options).map_err(CaptureError::no_thread)?;
        let mut later = LaterSources::default();
        if let Some(keeper) = keepers.tracepoints {
            let drivers = self.start_tracepoints(keeper);
            let drivers = if self.options.tracepoints.is_empty() { drivers } else { Ok(drivers?) };
            later.add("GPU drivers are not recorded", drivers);
        }
        if self.options.gpu {
            let clients = GpuClients::start(Path::new("/"), self.clock);
            later.add("GPU memory of processes is not recorded", clients);
        }
        self.options.go_on()?;
        let probes = match self.start_probes(keepers.probes, inbox, notices) {
            // What the user asked for and what will not be found is no recording.
            Err(error @ (CaptureError::NothingToProbe(_) | CaptureError::Stopped)) => {
                return Err(error);
            }
            probes => probes,
        };
        later.add("neither instrumented programs nor probes are recorded", probes);
        // Behind the probes: when it is told to stop, all rings were announced.
        later.sources.push(Box::new(zones));
        Ok(later)
    }

    /// What GPU drivers do, and tracepoints that were asked for.
    fn start_tracepoints(
        &self,
        keeper: io::Result<EventKeeper>,
    ) -> Result<TracepointSource, CaptureError> {
        let keeper = keeper.map_err(|error| {
            CaptureError::system("cannot start the process that holds tracepoints", error)
        })?;
        let setup = tracepoints::Setup {
            clock: self.clock,
            possible_cpus: self.possible_cpus,
            shared: &self.shared_maps,
            sink: Arc::clone(&self.sink),
            gpu: self.options.gpu,
            asked: &self.options.tracepoints,
        };
        TracepointSource::start(&setup, keeper, &self.online)
    }

    fn start_probes(
        &self,
        keeper: io::Result<UprobeKeeper>,
        inbox: ManagerInbox,
        zones: Sender<ZoneNotice>,
    ) -> Result<ProbeSource, CaptureError> {
        let keeper = keeper.map_err(|error| {
            CaptureError::system("cannot start the process that holds probes", error)
        })?;
        let setup = Setup {
            options: self.options,
            clock: self.clock,
            possible_cpus: self.possible_cpus,
            shared: &self.shared_maps,
            sink: Arc::clone(&self.sink),
            zones,
            memory_is_short: self.memory_is_short,
            unwind_tables: self.unwind_tables,
        };
        let mut probes = ProbeSource::start(setup, keeper, inbox, &self.online)?;
        probes.attach(&self.online)?;
        Ok(probes)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use syscollect_store::BufferMode;

    use super::*;
    use crate::collector::Shared;
    use crate::files::Begin;

    /// A collector that has this to empty.
    fn collector(definitions: &[Definition]) -> (Collector, Arc<Shared>) {
        let sink = Arc::new(ChunkSink::new(1 << 20, BufferMode::Discard, false));
        let shared = Arc::new(Shared::default());
        let (begin, _) = Begin::new();
        let output = Output { sink, shared: Arc::clone(&shared), begin, pace: None };
        let chunks = definitions.iter().flat_map(Definition::chunks).collect();
        (Collector::replay(chunks, output), shared)
    }

    #[test]
    fn lanes_are_emptied_while_the_rest_takes_its_time_to_attach() {
        let (mut collector, shared) = collector(&[Definition::Losses(Vec::new())]);
        let end = Instant::now() + Duration::from_secs(20);
        let is_emptied = collector.empty_lanes_during(|| {
            while shared.bytes.load(Ordering::Relaxed) == 0 && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            Instant::now() < end
        });
        assert!(is_emptied);
    }

    #[test]
    fn a_start_that_panics_ends() {
        let (mut collector, _) = collector(&[]);
        let start = std::panic::AssertUnwindSafe(|| {
            collector.empty_lanes_during(|| std::panic::resume_unwind(Box::new("broke off")));
        });
        assert!(std::panic::catch_unwind(start).is_err());
    }
}
