//! How a recording begins: first what runs, then what takes its time to attach, while a thread
//! empties the lanes already.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, Thread};
use std::time::Instant;

use syscollect_model::SessionInfo;
use syscollect_store::Definition;

use super::{Collector, FileStart, Machine, Output, SleepPace};
use crate::ebpf::EbpfSource;
use crate::error::CaptureError;
use crate::gpu_clients::GpuClients;
use crate::host::Host;
use crate::jvm::{JvmAsker, JvmNames};
use crate::kernel_types::kernel_types;
use crate::mapping_pace::MappingPace;
use crate::memory::MemoryPlan;
use crate::notes::{Notes, NotesSettings};
use crate::options::RecordOptions;
use crate::perf::mappings::MappingRings;
use crate::priority::{Hurry, go_first};
use crate::probes::{Keeper, ManagerInbox, ProbeSource, Setup};
use crate::readings::Readings;
use crate::source::Source;
use crate::support::lacking_for_names;
use crate::tracepoints::{self, EventKeeper, TracepointSource};
use crate::zones::ZoneSource;

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
        let host = Host::at(Path::new("/"));
        let online = host.online_cpus();
        let _hurry = Hurry::begin();
        // Held until all objects are loaded.
        let _types = kernel_types();
        let mut programs = EbpfSource::load(options, memory, &host)?;
        let unwind = programs.start_unwinding(options.asked_by);
        let unwind_tables = unwind.is_some();
        let clock_source = programs.clock_source;
        let shared_maps = programs.shared_maps()?;
        // Mappings first: of what runs later they know the files.
        let mut sources: Vec<Box<dyn Source>> =
            vec![Box::new(MappingRings::default()), Box::new(programs)];
        let mut readings = Readings::start(clock_source, host.possible_cpus());
        options.go_on()?;
        let began = Instant::now();
        for source in &mut sources {
            source.attach(&online)?;
        }
        let attached = Instant::now();
        options.go_on()?;
        readings.read();
        let mut missing: Vec<String> =
            sources.iter().flat_map(|source| source.missing()).cloned().collect();
        missing.extend(lacking_for_names());
        missing.extend(memory.note.clone());
        let jvms = match jvm_asker.transpose() {
            Ok(asker) => {
                let recorded = shared_maps.get("recorded_processes");
                let recorded = recorded.filter(|_| !options.pids.is_empty());
                asker.map(|asker| {
                    JvmNames::new(asker, recorded.and_then(|map| map.try_clone().ok()))
                })
            }
            Err(error) => {
                missing.push(format!("--jvm: no Java virtual machine is asked for names: {error}"));
                None
            }
        };
        let session = SessionInfo {
            notes: missing.clone(),
            ..describe(options, &host, &sources, readings.tick_rate_hz())
        };
        let buffer = output.outlet.clone();
        // Clock readings come first in the file: without them nothing has a
        // time, however early the recorder is killed or the disk is full.
        readings.flush(true, &mut |chunk| output.push(chunk));
        output.define(&Definition::Session(Box::new(session.clone())));
        output.define(&Definition::Counters(readings.definitions()));
        let settings = NotesSettings {
            clock: clock_source,
            asked_by: options.asked_by,
            pids: options.pids.clone(),
            // The program that they need takes megabytes while it is loaded.
            blocked_stacks: options.stacks.offcpu && !memory.is_short(),
            jvms,
        };
        let notes = Notes::start(buffer.clone(), settings, unwind)
            .map_err(|error| CaptureError::system("cannot start a thread", error))?;
        let inbox = ManagerInbox::new();
        let possible_cpus = host.possible_cpus();
        let mut collector = Self {
            sources,
            clock_source,
            output,
            machine: Some(Machine {
                host,
                online: online.clone(),
                readings,
                notes,
                mapped_files: inbox.mapped_files(),
                mapping_pace: MappingPace::new(),
            }),
            missing,
            session,
            last_losses: Vec::new(),
            stacks_lost: 0,
            asked_anew: Instant::now(),
            readings_at: None,
            file: FileStart::of_the_first(),
            attached,
        };
        let later = collector.empty_lanes_during(|| {
            let (marked, zones) = ZoneSource::start(clock_source, options)
                .map_err(|error| CaptureError::system("cannot start a thread", error))?;
            let setup = Setup {
                options,
                clock: clock_source,
                possible_cpus,
                shared: &shared_maps,
                buffer,
                zones,
                memory_is_short: memory.is_short(),
                unwind_tables,
            };
            let mut later = start_later_sources(setup, keepers, inbox, &online)?;
            // Behind the probes: when it is told to stop, all rings were announced.
            later.sources.push(Box::new(marked));
            Ok::<_, CaptureError>(later)
        })?;
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
            pace.emptied(Instant::now(), self.drain(false));
            if self.is_time_for_readings() {
                self.take_readings();
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
    keepers: Keepers,
    /// Where Java virtual machines are to be asked for names.
    jvm_asker: Option<io::Result<JvmAsker>>,
}

impl Children {
    pub(crate) fn start(options: &RecordOptions) -> Self {
        Self { keepers: Keepers::start(options), jvm_asker: options.jvm.then(JvmAsker::start) }
    }
}

/// The processes that hold what is attached.
struct Keepers {
    probes: io::Result<Keeper>,
    /// Where any tracepoints are asked for.
    tracepoints: Option<io::Result<EventKeeper>>,
}

impl Keepers {
    fn start(options: &RecordOptions) -> Self {
        let asks_for_tracepoints = options.gpu || !options.tracepoints.is_empty();
        Self { probes: Keeper::start(), tracepoints: asks_for_tracepoints.then(EventKeeper::start) }
    }
}

/// Sources that are attached when the others record already.
#[derive(Default)]
struct LaterSources {
    sources: Vec<Box<dyn Source>>,
    /// Those that could not be started, and why.
    missing: Vec<String>,
}

/// Starts GPUs, tracepoints and probes.
///
/// # Errors
///
/// What was asked for is not there, or a stop was asked for.
fn start_later_sources(
    setup: Setup<'_>,
    keepers: Keepers,
    inbox: ManagerInbox,
    online: &[u32],
) -> Result<LaterSources, CaptureError> {
    let mut later = LaterSources::default();
    let gpu = start_gpu(&setup, keepers.tracepoints, online)?;
    setup.options.go_on()?;
    for (what, source) in gpu {
        match source {
            Ok(source) => later.sources.push(source),
            Err(error) => later.missing.push(format!("{what} not recorded: {error}")),
        }
    }
    match start_probes(setup, keepers.probes, inbox, online) {
        Ok(probes) => later.sources.push(Box::new(probes)),
        // What the user asked for and what will not be found is no recording.
        Err(error @ (CaptureError::NothingToProbe(_) | CaptureError::Stopped)) => {
            return Err(error);
        }
        Err(error) => later
            .missing
            .push(format!("neither instrumented programs nor probes are recorded: {error}")),
    }
    Ok(later)
}

fn start_probes(
    setup: Setup<'_>,
    keeper: io::Result<Keeper>,
    inbox: ManagerInbox,
    online: &[u32],
) -> Result<ProbeSource, CaptureError> {
    let keeper = keeper.map_err(|error| {
        CaptureError::system("cannot start the process that holds probes", error)
    })?;
    let mut probes = ProbeSource::start(setup, keeper, inbox, online)?;
    probes.attach(online)?;
    Ok(probes)
}

/// A source that may be refused.
type Started = Result<Box<dyn Source>, CaptureError>;

/// The sources of `--gpu`: what drivers do, and what processes have of them. Tracepoints that were
/// asked for come with the drivers' own.
///
/// # Errors
///
/// What was asked for is not there.
fn start_gpu(
    setup: &Setup<'_>,
    keeper: Option<io::Result<EventKeeper>>,
    online: &[u32],
) -> Result<Vec<(&'static str, Started)>, CaptureError> {
    let (gpu, asked) = (setup.options.gpu, &setup.options.tracepoints);
    let mut started: Vec<(&'static str, Started)> = Vec::new();
    if let Some(keeper) = keeper {
        let tracepoints = tracepoints::Setup {
            clock: setup.clock,
            possible_cpus: setup.possible_cpus,
            shared: setup.shared,
            buffer: Arc::clone(&setup.buffer),
            gpu,
            asked,
        };
        let drivers = keeper
            .map_err(|error| {
                CaptureError::system("cannot start the process that holds tracepoints", error)
            })
            .and_then(|keeper| TracepointSource::start(&tracepoints, keeper, online))
            .map(|source| Box::new(source) as Box<dyn Source>);
        started.push(("GPU drivers are", if asked.is_empty() { drivers } else { Ok(drivers?) }));
    }
    if gpu {
        let clients = GpuClients::start(Path::new("/"), setup.clock)
            .map(|source| Box::new(source) as Box<dyn Source>);
        started.push(("GPU memory of processes is", clients));
    }
    Ok(started)
}

/// Everything that is known at the start.
fn describe(
    options: &RecordOptions,
    host: &Host,
    sources: &[Box<dyn Source>],
    tick_rate_hz: f64,
) -> SessionInfo {
    let mut session = SessionInfo {
        recorder_command: options.command_line.clone(),
        tick_rate_hz,
        sample_rate_hz: options.sample_rate_hz,
        stacks: options.stacks.origins(),
        filter_pids: options.pids.clone(),
        ..host.session()
    };
    sources.iter().for_each(|source| source.describe(&mut session));
    session
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use syscollect_store::BufferMode;

    use super::*;
    use crate::collector::Shared;
    use crate::files::Begin;
    use crate::outlet::Outlet;

    /// A collector that has this to empty.
    fn collector(definitions: &[Definition]) -> (Collector, Arc<Shared>) {
        let outlet = Arc::new(Outlet::new(1 << 20, BufferMode::Discard, false));
        let shared = Arc::new(Shared::default());
        let (begin, _) = Begin::new();
        let output = Output { outlet, shared: Arc::clone(&shared), begin, pace: None };
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
