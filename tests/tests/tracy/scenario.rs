//! A session told event by event.

use syscollect_exporters::{TracyCompression, TracyExporter, TracyLayout, TracyOptions};
use syscollect_model::{
    ClockPair, CpuId, CpuInfo, Event, Exporter, Field, FieldRole, Frame, FrameId, Location,
    LocationId, Lock, LockAction, LockEvent, LockId, Loss, MachineId, MemoryEvent, Module,
    ModuleId, ModuleKind, OffCpu, OperatingSystem, Process, ProcessId, Sample, Scope, SessionInfo,
    SleepState, Slice, StackId, StringId, Switch, Tables, Thread, ThreadId, Ticks, Time, Track,
    TrackId, TrackKind, TrackRole, Unit, Value, Wakeup,
};
use syscollect_tests::tracy_reader::{self, Compression, TracyFile};

const LARGE: usize = 100_000;

/// CLOCK_BOOTTIME at the file's time 0: the first event is at 1.
pub(crate) const ZERO: u64 = 7_000_000_000;

pub(crate) struct Scenario {
    pub(crate) tables: Tables,
    pub(crate) events: Vec<(u64, Event)>,
    pub(crate) losses: Vec<Loss>,
}

impl Scenario {
    pub(crate) fn new(cpus: u32) -> Self {
        let pair = ClockPair {
            ticks: Ticks(0),
            monotonic: 0,
            monotonic_raw: 0,
            boottime: ZERO - 2_000_000_000,
            realtime: 1_700_000_000_000_000_000,
            uncertainty: 0,
        };
        let info = SessionInfo {
            recorder: "scenario 1".into(),
            os: OperatingSystem::Linux,
            kernel_release: "6.18.0".into(),
            machine: "x86_64".into(),
            hostname: "host".into(),
            cpu_model: "AMD EPYC".into(),
            cpus: (0..cpus)
                .map(|cpu| CpuInfo {
                    cpu,
                    package: cpu / 4,
                    core: cpu / 2,
                    max_frequency_khz: None,
                })
                .collect(),
            clock_pairs: vec![pair],
            sample_rate_hz: 1_000,
            ..SessionInfo::default()
        };
        let mut tables = Tables::default();
        tables.machines = vec![info];
        Self { tables, events: Vec::new(), losses: Vec::new() }
    }

    pub(crate) fn process(&mut self, pid: u32, name: &str) -> ProcessId {
        let name = self.tables.strings.intern(name);
        self.tables.processes.push(Process {
            machine: MachineId::FIRST,
            pid,
            parent_pid: None,
            name,
            command_line: Vec::new(),
            start: None,
            end: None,
            kernel: false,
        });
        ProcessId(self.tables.processes.len() as u32 - 1)
    }

    pub(crate) fn thread(&mut self, process: ProcessId, tid: u32, name: &str) -> ThreadId {
        let name = self.tables.strings.intern(name);
        self.tables.threads.push(Thread { tid, process, name, start: None, end: None });
        ThreadId(self.tables.threads.len() as u32 - 1)
    }

    /// A process with one thread.
    pub(crate) fn task(&mut self, pid: u32, name: &str) -> ThreadId {
        let process = self.process(pid, name);
        self.thread(process, pid, name)
    }

    pub(crate) fn at(&mut self, nanoseconds: u64, event: Event) {
        self.events.push((nanoseconds, event));
    }

    pub(crate) fn switch(
        &mut self,
        at: u64,
        cpu: u32,
        previous: Option<ThreadId>,
        off: OffCpu,
        next: ThreadId,
    ) {
        let (previous_priority, next_priority) = (120, 120);
        let switch = Switch {
            cpu: CpuId::new(cpu),
            previous,
            previous_priority,
            off_cpu: off,
            next,
            next_priority,
        };
        self.at(at, Event::Switch(switch));
    }

    pub(crate) fn wake(&mut self, at: u64, wakee: ThreadId) {
        self.wake_from(0, at, wakee);
    }

    pub(crate) fn wake_from(&mut self, cpu: u32, at: u64, wakee: ThreadId) {
        let wakeup = Wakeup {
            cpu: CpuId::new(cpu),
            waker: None,
            from_interrupt: false,
            wakee,
            priority: 120,
            target_cpu: CpuId::new(0),
            new: false,
            stack: None,
        };
        self.at(at, Event::Wakeup(wakeup));
    }

    pub(crate) fn sample(&mut self, at: u64, thread: ThreadId, stack: Option<StackId>) {
        self.at(at, Event::Sample(Sample { cpu: CpuId::new(0), thread, stack, in_kernel: false }));
    }

    pub(crate) fn module(&mut self, path: &str, kind: ModuleKind) -> ModuleId {
        let path = self.tables.strings.intern(path);
        self.tables.modules.push(Module { path, build_id: Default::default(), kind });
        ModuleId(self.tables.modules.len() as u32 - 1)
    }

    /// A frame of a function that begins 0x10 before the place.
    pub(crate) fn frame(
        &mut self,
        module: Option<ModuleId>,
        offset: u64,
        function: &str,
    ) -> FrameId {
        let function = (!function.is_empty()).then(|| self.tables.strings.intern(function));
        self.tables.frames.push(Frame {
            module,
            offset,
            function,
            function_start: if function.is_some() { offset - 0x10 } else { 0 },
            function_size: 0x40,
            range_only: false,
            file: None,
            line: 0,
            inlined: false,
        });
        FrameId(self.tables.frames.len() as u32 - 1)
    }

    pub(crate) fn stack(&mut self, functions: &[&str]) -> StackId {
        let frames: Vec<FrameId> = (1..)
            .zip(functions)
            .map(|(index, name)| self.frame(None, index * 0x1000, name))
            .collect();
        self.tables.intern_stack(&frames)
    }

    pub(crate) fn track(&mut self, scope: Scope, name: &str) -> TrackId {
        let name = self.tables.strings.intern(name);
        self.tables.add_track(Track { scope, name, kind: TrackKind::Slices(TrackRole::Named) })
    }

    /// The track of a thread's zones.
    pub(crate) fn zones(&mut self, thread: ThreadId) -> TrackId {
        let (scope, name) = (Scope::Thread(thread), self.name("Zones"));
        self.tables.add_track(Track { scope, name, kind: TrackKind::Slices(TrackRole::Zones) })
    }

    pub(crate) fn counter(&mut self, scope: Scope, name: &str, unit: &str) -> TrackId {
        let strings = &mut self.tables.strings;
        let (name, unit) = (strings.intern(name), Unit::from_text(unit, strings));
        self.tables.add_track(Track { scope, name, kind: TrackKind::Counter { unit } })
    }

    /// Frames of a set that the program named.
    pub(crate) fn frames(&mut self, process: ProcessId, name: &str, continuous: bool) -> TrackId {
        let (scope, name) = (Scope::Process(process), self.name(name));
        let kind = TrackKind::Frames { continuous, main: false };
        self.tables.add_track(Track { scope, name, kind })
    }

    /// The program's main frames.
    pub(crate) fn main_frames(&mut self, process: ProcessId) -> TrackId {
        let (scope, name) = (Scope::Process(process), self.name("Frames"));
        let kind = TrackKind::Frames { continuous: true, main: true };
        self.tables.add_track(Track { scope, name, kind })
    }

    pub(crate) fn queue(&mut self, name: &str) -> TrackId {
        let name = self.name(name);
        self.tables.add_track(Track {
            scope: Scope::Machine(MachineId::FIRST),
            name,
            kind: TrackKind::GpuQueue,
        })
    }

    pub(crate) fn name(&mut self, text: &str) -> StringId {
        self.tables.strings.intern(text)
    }

    pub(crate) fn location(&mut self, function: &str, file: &str, line: u32) -> LocationId {
        let (function, file) = (self.name(function), self.name(file));
        self.tables.locations.push(Location { function, file, line });
        LocationId(self.tables.locations.len() as u32 - 1)
    }

    pub(crate) fn field(&mut self, name: &str, value: Value) -> Field {
        Field::named(self.name(name), value)
    }

    /// What a zone says without a name.
    pub(crate) fn text(&mut self, text: &str) -> Field {
        Field::new(FieldRole::Text, self.name("text"), Value::Text(text.into()))
    }

    /// A slice of that name that says a text.
    pub(crate) fn saying(&mut self, name: &str, text: &str) -> Slice {
        let fields = vec![self.text(text)];
        Slice { fields, ..Slice::named(self.name(name)) }
    }

    pub(crate) fn lock(
        &mut self,
        process: ProcessId,
        name: &str,
        location: Option<LocationId>,
    ) -> LockId {
        let name = self.name(name);
        self.tables.locks.push(Lock { process, name, shared: false, location });
        LockId(self.tables.locks.len() as u32 - 1)
    }

    pub(crate) fn locks(
        &mut self,
        at: u64,
        lock: LockId,
        thread: ThreadId,
        (action, shared): (LockAction, bool),
    ) {
        self.at(at, Event::Lock(LockEvent { lock, thread, action, shared, location: None }));
    }

    /// Memory of the heap is allocated, or freed where no size is given.
    pub(crate) fn memory(
        &mut self,
        at: u64,
        thread: ThreadId,
        address: u64,
        allocated: Option<u64>,
    ) {
        self.at(
            at,
            Event::Memory(MemoryEvent { thread, pool: None, address, allocated, stack: None }),
        );
    }

    /// The file of one process as the reader sees it.
    pub(crate) fn read_only(&self, process: &str) -> TracyFile {
        let process = process.parse().unwrap();
        tracy_reader::read(&self.export(TracyExporter::new(Vec::new()).only(Some(process))).0)
            .unwrap()
    }

    /// The file's bytes, and what was cut.
    pub(crate) fn bytes(&self) -> (Vec<u8>, Vec<String>) {
        self.export(TracyExporter::new(Vec::new()))
    }

    /// The file's bytes with those options.
    pub(crate) fn bytes_with(&self, options: TracyOptions) -> Vec<u8> {
        self.export(TracyExporter::new(Vec::new()).with(options)).0
    }

    fn export(&self, mut exporter: TracyExporter<Vec<u8>>) -> (Vec<u8>, Vec<String>) {
        exporter.begin(&self.tables).unwrap();
        for (at, event) in &self.events {
            exporter.event(Time(ZERO + at), event, &self.tables).unwrap();
        }
        exporter.end(&self.losses, None, &self.tables).unwrap();
        let cuts = exporter.cuts();
        (exporter.finish().unwrap(), cuts)
    }

    /// The file as the reader sees it, and what was cut. In every layout and
    /// compression it is the same, but for what only the newer layouts have.
    pub(crate) fn read_cut(&self) -> (TracyFile, Vec<String>) {
        let (bytes, cuts) = self.bytes();
        let trace = tracy_reader::read(&bytes).unwrap();
        // Of large files once is enough.
        let layouts = if bytes.len() < LARGE { &TracyLayout::ALL[..] } else { &[] };
        for layout in layouts.iter().copied() {
            let packed = self.read_in(TracyOptions { layout, compression: TracyCompression::Zstd });
            assert_eq!(packed.compression, Compression::Zstd);
            let plain = self.read_in(TracyOptions { layout, compression: TracyCompression::Lz4 });
            assert_eq!(TracyFile { compression: Compression::Lz4, ..packed }, plain);
            let same = as_old(plain) == trace;
            assert!(same, "what layout {layout} shares with the oldest differs");
        }
        (trace, cuts)
    }

    /// The file with those options as the reader sees it.
    pub(crate) fn read_in(&self, options: TracyOptions) -> TracyFile {
        tracy_reader::read(&self.bytes_with(options)).unwrap()
    }

    /// The file in that layout as the reader sees it.
    pub(crate) fn read_layout(&self, layout: TracyLayout) -> TracyFile {
        self.read_in(TracyOptions { layout, ..TracyOptions::default() })
    }

    /// The file as the reader sees it; nothing was cut.
    pub(crate) fn read(&self) -> TracyFile {
        let (trace, cuts) = self.read_cut();
        assert_eq!(cuts, [""; 0]);
        trace
    }
}

/// A file without what the oldest layout has no room for.
fn as_old(mut trace: TracyFile) -> TracyFile {
    trace.header.version = [0, 11, 0];
    trace.messages.iter_mut().for_each(|message| message.importance = None);
    trace.threads.iter_mut().for_each(|thread| thread.group_hint = 0);
    trace.switches.values_mut().flatten().for_each(|switch| switch.wakeup_cpu = switch.cpu);
    for context in &mut trace.gpus {
        context.kind = 2;
        context.threads.values_mut().flatten().for_each(|zone| zone.notes.clear());
    }
    trace
}

/// Leaves its CPU for that state.
pub(crate) fn off(state: SleepState) -> OffCpu {
    OffCpu { state, preempted: false, io_wait: false, blocked_in: None, stack: None }
}

pub(crate) fn sleeps() -> OffCpu {
    off(SleepState::Interruptible)
}
