//! A short recording in which everything happens once: the golden tests tell
//! it, and the example `scenario` writes it for a look with a viewer.

#[path = "instrumented.rs"]
mod instrumented;
#[path = "queues.rs"]
mod queues;

use std::collections::BTreeMap;
use syscollect_model::{
    BuildId, ClockPair, CpuClock, CpuId, CpuInfo, Event, Exporter, Field, FieldRole, Frame,
    FrameId, LaneKind, Loss, LossCause, LossOrigin, MachineId, Migration, Module, ModuleId,
    ModuleKind, OffCpu, OperatingSystem, Process, ProcessId, RecorderSummary, RefusedTable, Sample,
    SampleEvent, Scope, SessionInfo, SleepState, StackId, StackOrigin, StopReason, StringId,
    Switch, Tables, Thread, ThreadId, Ticks, Time, Track, TrackId, TrackKind, TrackRole, Unit,
    Value, Wakeup,
};

/// When it begins, nanoseconds.
pub(crate) const START: u64 = 5_000_000_000;

pub(crate) const IDLE: ThreadId = Tables::IDLE_THREAD;

/// The tables of a session and the time that passes in it.
pub(crate) struct Scenario {
    pub(crate) tables: Tables,
    pub(crate) events: Vec<(Time, Event)>,
    /// Of the next event, nanoseconds.
    pub(crate) time: u64,
}

impl Scenario {
    pub(crate) fn new() -> Self {
        Self { tables: Tables::default(), events: Vec::new(), time: START }
    }

    pub(crate) fn name(&mut self, text: &str) -> StringId {
        self.tables.strings.intern(text)
    }

    /// A process with its first thread.
    pub(crate) fn process(
        &mut self,
        pid: u32,
        parent: u32,
        name: &str,
        command: &[&str],
    ) -> (ProcessId, ThreadId) {
        let name = self.name(name);
        let id = ProcessId(self.tables.processes.len() as u32);
        self.tables.processes.push(Process {
            machine: MachineId::FIRST,
            pid,
            parent_pid: Some(parent),
            name,
            command_line: command.iter().map(|word| (*word).to_owned()).collect(),
            start: None,
            end: None,
            kernel: false,
        });
        (id, self.thread_named(pid, id, name))
    }

    pub(crate) fn thread(&mut self, tid: u32, process: ProcessId, name: &str) -> ThreadId {
        let name = self.name(name);
        self.thread_named(tid, process, name)
    }

    fn thread_named(&mut self, tid: u32, process: ProcessId, name: StringId) -> ThreadId {
        self.tables.threads.push(Thread { tid, process, name, start: None, end: None });
        ThreadId(self.tables.threads.len() as u32 - 1)
    }

    pub(crate) fn frame(
        &mut self,
        module: Option<ModuleId>,
        offset: u64,
        function: Option<&str>,
    ) -> FrameId {
        let function = function.map(|name| self.name(name));
        self.tables.frames.push(Frame {
            module,
            offset,
            function,
            function_start: offset & !0xff,
            function_size: 0x100,
            range_only: false,
            file: None,
            line: 0,
            inlined: false,
        });
        FrameId(self.tables.frames.len() as u32 - 1)
    }

    pub(crate) fn track(&mut self, scope: Scope, name: &str, unit: Option<&str>) -> TrackId {
        let name = self.name(name);
        let kind = match unit {
            Some(unit) => {
                TrackKind::Counter { unit: Unit::from_text(unit, &mut self.tables.strings) }
            }
            None => TrackKind::Slices(TrackRole::Named),
        };
        self.tables.add_track(Track { scope, name, kind })
    }

    /// The track of a thread's zones.
    pub(crate) fn zones(&mut self, thread: ThreadId) -> TrackId {
        let (scope, name) = (Scope::Thread(thread), self.name("Zones"));
        self.tables.add_track(Track { scope, name, kind: TrackKind::Slices(TrackRole::Zones) })
    }

    /// A field of this role.
    pub(crate) fn field(&mut self, role: FieldRole, name: &str, value: Value) -> Field {
        Field::new(role, self.name(name), value)
    }

    /// What a zone says without a name.
    pub(crate) fn text(&mut self, text: &str) -> Field {
        self.field(FieldRole::Text, "text", Value::Text(text.into()))
    }

    /// A thread, and its process if that is new, start now: their rows say so.
    pub(crate) fn starts(&mut self, thread: ThreadId) {
        let now = Some(Time(self.time));
        let row = &mut self.tables.threads[thread.index()];
        row.start = now;
        let process = &mut self.tables.processes[row.process.index()];
        if process.pid == row.tid {
            process.start = now;
        }
    }

    /// The next thing happens a microsecond later.
    pub(crate) fn then(&mut self, event: Event) {
        self.events.push((Time(self.time), event));
        self.time += 1_000;
    }

    /// Time passes, microseconds.
    pub(crate) fn wait(&mut self, microseconds: u64) {
        self.time += microseconds * 1_000;
    }

    pub(crate) fn switch(&mut self, cpu: u32, previous: ThreadId, off_cpu: OffCpu, next: ThreadId) {
        let previous = Some(previous);
        self.then(Event::Switch(Switch {
            cpu: CpuId::new(cpu),
            previous,
            previous_priority: 120,
            off_cpu,
            next,
            next_priority: 120,
        }));
    }

    pub(crate) fn wakeup(
        &mut self,
        cpu: u32,
        waker: ThreadId,
        wakee: ThreadId,
        stack: Option<StackId>,
    ) {
        let from_interrupt = waker == IDLE;
        self.then(Event::Wakeup(Wakeup {
            cpu: CpuId::new(cpu),
            waker: Some(waker),
            from_interrupt,
            wakee,
            priority: 120,
            target_cpu: CpuId::new(cpu),
            new: false,
            stack,
        }));
    }

    /// Plays it into an exporter, as a recording of that machine.
    pub(crate) fn play<E: Exporter>(
        &self,
        exporter: &mut E,
        session: &SessionInfo,
        losses: &[Loss],
        summary: Option<&RecorderSummary>,
    ) -> Result<(), E::Error> {
        let mut tables = self.tables.clone();
        tables.machines = vec![session.clone()];
        exporter.begin(&tables)?;
        for (time, event) in &self.events {
            exporter.event(*time, event, &tables)?;
        }
        exporter.end(losses, summary, &tables)
    }
}

/// Off the CPU in this state, without more to say.
pub(crate) fn off(state: SleepState) -> OffCpu {
    OffCpu { state, preempted: false, io_wait: false, blocked_in: None, stack: None }
}

/// Preempted.
pub(crate) fn preempted() -> OffCpu {
    OffCpu { preempted: true, ..off(SleepState::Runnable) }
}

/// The machine of the scenario.
pub(crate) fn session() -> SessionInfo {
    SessionInfo {
        recorder: "syscollect 0.1.0".into(),
        recorder_command: vec!["syscollect".into(), "-d".into(), "5".into()],
        os: OperatingSystem::Linux,
        kernel_release: "6.12.1".into(),
        kernel_version: "#1 SMP".into(),
        machine: "x86_64".into(),
        hostname: "scenario".into(),
        boot_id: "0f".into(),
        cpu_model: "A CPU".into(),
        cpus: (0..2)
            .map(|cpu| CpuInfo { cpu, max_frequency_khz: Some(3_000_000), ..CpuInfo::default() })
            .collect(),
        memory_bytes: 8 << 30,
        clocks: vec![CpuClock { cpu: 0, error_bound_ns: 12.5, method: "bracket".into() }],
        clock_pairs: vec![pair(START), pair(START + 1_000), pair(START + 200_000_000)],
        sample_rate_hz: 999,
        sample_event: SampleEvent::CpuClock,
        stacks: vec![StackOrigin::Samples, StackOrigin::OffCpu],
        ..SessionInfo::default()
    }
}

fn pair(at: u64) -> ClockPair {
    ClockPair {
        ticks: Ticks(at * 3),
        monotonic: at,
        monotonic_raw: at + 7,
        boottime: at,
        realtime: 1_700_000_000_000_000_000 + at,
        uncertainty: 20,
    }
}

/// What the recorder of the scenario says of itself.
pub(crate) fn summary() -> RecorderSummary {
    RecorderSummary {
        stop_reason: StopReason::Duration,
        recorder_cpu_ns: 40_000_000,
        kernel_program_ns: Some(3_000_000),
        recorder_peak_bytes: 30 << 20,
        startup_ns: 90_000_000,
        duration_ns: 5_000_000_000,
        costs: Vec::new(),
        statistics: BTreeMap::from([("stacks_sent".to_owned(), 17)]),
        missing: vec!["RAPL is not readable".into()],
        refused_tables: vec![RefusedTable {
            path: "/bin/a".into(),
            reason: "its .eh_frame has 1 bytes, which is more than is read".into(),
        }],
        refused_lists: vec!["names of code of process 10: /tmp/perf-10.map is not read".into()],
    }
}

/// All losses of the scenario.
pub(crate) fn losses() -> Vec<Loss> {
    vec![
        loss("sched", Some(CpuId::new(1)), LossCause::LaneFull, 40),
        loss("samples", Some(CpuId::new(1)), LossCause::Nested, 2),
        loss("trace-buffer", None, LossCause::BufferFull, 5),
        // As asked (`--overwrite`), which is no loss.
        loss("sched", Some(CpuId::new(0)), LossCause::Overwritten, 123_456),
        loss("trace-buffer", None, LossCause::DiskFull, 0),
        loss("file", None, LossCause::Damaged, 7),
    ]
}

fn loss(origin: &str, cpu: Option<CpuId>, cause: LossCause, count: u64) -> Loss {
    Loss { origin: LossOrigin::from_name(origin), cpu, cause, user: None, count, between: None }
}

/// A shell starts a compiler, which reads a file, works with a second thread, and ends.
pub(crate) fn scenario() -> Scenario {
    let mut scenario = Scenario::new();
    let (_, init) = scenario.process(1, 0, "init", &["/sbin/init"]);
    let (shell_process, shell) = scenario.process(100, 1, "sh", &["/bin/sh", "-c", "cc x.c"]);
    let stacks = stacks(&mut scenario);
    scenario.switch(0, IDLE, off(SleepState::Runnable), shell);
    scenario.switch(1, init, off(SleepState::Interruptible), IDLE);
    let (compiler_process, compiler) = compiler_starts(&mut scenario, shell);
    compiler_reads(&mut scenario, (shell, compiler), &stacks);
    let worker = compiler_works(&mut scenario, (compiler_process, compiler), &stacks);
    tracks(&mut scenario, (shell_process, shell));
    switches_are_lost(&mut scenario, worker);
    compiler_ends(&mut scenario, (compiler_process, compiler));
    id_is_used_again(&mut scenario, shell);
    scenario
}

/// A game tells of its frames, zones, locks and memory while it runs, and crashes.
pub(crate) fn game() -> Scenario {
    let mut scenario = Scenario::new();
    let stacks = stacks(&mut scenario);
    instrumented::game(&mut scenario, stacks.user);
    scenario
}

/// Jobs of GPUs, whole ones and such of which something is missing.
pub(crate) fn gpu() -> Scenario {
    let mut scenario = Scenario::new();
    queues::jobs(&mut scenario);
    scenario
}

/// Jobs of a GPU's driver, and zones that a program marked.
pub(crate) fn marked_jobs() -> Scenario {
    let mut scenario = Scenario::new();
    queues::marked(&mut scenario);
    scenario
}

/// Waits for fences of GPUs.
pub(crate) fn fence_waits() -> Scenario {
    let mut scenario = Scenario::new();
    queues::waits(&mut scenario);
    scenario
}

struct Stacks {
    kernel: StackId,
    user: StackId,
    unnamed: StackId,
}

fn stacks(scenario: &mut Scenario) -> Stacks {
    let (program, kernel) = (scenario.name("/usr/bin/cc"), scenario.name("[kernel.kallsyms]"));
    scenario.tables.modules = vec![
        Module {
            path: program,
            build_id: BuildId::from_bytes(&[0xab; 20]),
            kind: ModuleKind::File,
        },
        Module { path: kernel, build_id: BuildId::default(), kind: ModuleKind::Kernel },
    ];
    let (program, kernel) = (Some(ModuleId(0)), Some(ModuleId(1)));
    let main = scenario.frame(program, 0x1234, Some("main"));
    let parse = scenario.frame(program, 0x2345, Some("parse<T>"));
    let inlined = scenario.frame(program, 0x2345, Some("next_token"));
    let file = scenario.name("/src/parse.c");
    for (frame, line) in [(parse, 30), (inlined, 10)] {
        let row = &mut scenario.tables.frames[frame.index()];
        (row.file, row.line, row.inlined) = (Some(file), line, frame == inlined);
    }
    let read = scenario.frame(kernel, 0xffff_ffff_8100_1230, Some("ext4_file_read_iter"));
    let unnamed = scenario.frame(program, 0x9999, None);
    let without_module = scenario.frame(None, 0x7f00_dead_beef, None);
    Stacks {
        kernel: scenario.tables.intern_stack(&[read, main]),
        user: scenario.tables.intern_stack(&[inlined, parse, main]),
        unnamed: scenario.tables.intern_stack(&[without_module, unnamed]),
    }
}

fn compiler_starts(scenario: &mut Scenario, shell: ThreadId) -> (ProcessId, ThreadId) {
    let (process, thread) = scenario.process(200, 100, "sh", &[]);
    scenario.starts(thread);
    scenario.then(Event::ProcessStart(process));
    scenario.then(Event::ThreadStart(thread));
    let new = Wakeup {
        cpu: CpuId::new(0),
        waker: Some(shell),
        from_interrupt: false,
        wakee: thread,
        priority: 120,
        target_cpu: CpuId::new(0),
        new: true,
        stack: None,
    };
    scenario.then(Event::Wakeup(new));
    scenario.switch(0, shell, off(SleepState::Interruptible), thread);
    let name = scenario.name("cc");
    scenario.then(Event::ThreadName(thread, name));
    let path = scenario.name("cc");
    scenario.then(Event::ProcessExec(process, path));
    (process, thread)
}

fn compiler_reads(
    scenario: &mut Scenario,
    (shell, compiler): (ThreadId, ThreadId),
    stacks: &Stacks,
) {
    let function = scenario.name("ext4_file_read_iter");
    let reads = OffCpu {
        io_wait: true,
        blocked_in: Some(function),
        stack: Some(stacks.kernel),
        ..off(SleepState::Uninterruptible)
    };
    scenario.switch(0, compiler, reads, IDLE);
    scenario.wait(100);
    scenario.wakeup(0, IDLE, compiler, None);
    scenario.switch(0, IDLE, off(SleepState::Runnable), compiler);
    scenario.wakeup(0, compiler, shell, Some(stacks.user));
    scenario.then(Event::Migration(Migration {
        thread: shell,
        from_cpu: CpuId::new(0),
        to_cpu: CpuId::new(1),
    }));
    scenario.switch(1, IDLE, off(SleepState::Runnable), shell);
}

fn compiler_works(
    scenario: &mut Scenario,
    (process, compiler): (ProcessId, ThreadId),
    stacks: &Stacks,
) -> ThreadId {
    let worker = scenario.thread(201, process, "cc-worker");
    scenario.starts(worker);
    scenario.then(Event::ThreadStart(worker));
    for stack in [Some(stacks.user), Some(stacks.user), Some(stacks.unnamed), None] {
        scenario.then(Event::Sample(Sample {
            cpu: CpuId::new(0),
            thread: compiler,
            stack,
            in_kernel: false,
        }));
    }
    let stack = Some(stacks.kernel);
    scenario.then(Event::Sample(Sample {
        cpu: CpuId::new(1),
        thread: IDLE,
        stack,
        in_kernel: true,
    }));
    scenario.switch(0, compiler, preempted(), worker);
    scenario.switch(0, worker, off(SleepState::Interruptible), compiler);
    worker
}

fn tracks(scenario: &mut Scenario, (process, thread): (ProcessId, ThreadId)) {
    let frequency = scenario.track(Scope::Cpu(CpuId::new(1)), "frequency", Some("kHz"));
    let usage = scenario.track(Scope::Cpu(CpuId::new(1)), "CPU usage", Some("%"));
    let memory = scenario.track(Scope::Machine(MachineId::FIRST), "memory", Some("bytes"));
    let resident = scenario.track(Scope::Process(process), "resident", Some("bytes"));
    let zones = scenario.track(Scope::Thread(thread), "zones", None);
    for (track, value) in
        [(frequency, 2_400_000.0), (usage, 62.5), (memory, 1e9), (resident, 4096.0), (usage, 1.0)]
    {
        scenario.then(Event::Counter(track, value));
    }
    let (outer, inner, mark) =
        (scenario.name("outer"), scenario.name("inner"), scenario.name("mark"));
    scenario.then(Event::SliceBegin(zones, outer.into()));
    scenario.then(Event::SliceBegin(zones, inner.into()));
    scenario.then(Event::Instant(zones, mark.into()));
    scenario.then(Event::SliceEnd(zones));
    scenario.then(Event::SliceEnd(zones));
}

/// On CPU 1 switches are lost: the shell was seen last, the worker comes off.
fn switches_are_lost(scenario: &mut Scenario, worker: ThreadId) {
    scenario.wait(50);
    let since = Time(scenario.time);
    scenario.wait(50);
    scenario.then(Event::Loss(Loss {
        origin: LaneKind::Sched.into(),
        cpu: Some(CpuId::new(1)),
        cause: LossCause::LaneFull,
        user: None,
        count: 40,
        between: Some((since, Time(scenario.time))),
    }));
    let dead = off(SleepState::Dead);
    scenario.then(Event::ThreadEnd(worker));
    scenario.switch(1, worker, dead, IDLE);
}

fn compiler_ends(scenario: &mut Scenario, (process, compiler): (ProcessId, ThreadId)) {
    scenario.then(Event::ThreadEnd(compiler));
    scenario.then(Event::ProcessEnd(process));
    scenario.switch(0, compiler, off(SleepState::Zombie), IDLE);
}

/// The compiler's process id goes to another program.
fn id_is_used_again(scenario: &mut Scenario, shell: ThreadId) {
    scenario.wait(10);
    let (process, linker) = scenario.process(200, 100, "ld", &[]);
    scenario.starts(linker);
    scenario.then(Event::ProcessStart(process));
    let waker = Some(shell);
    scenario.then(Event::Wakeup(Wakeup {
        cpu: CpuId::new(1),
        waker,
        from_interrupt: false,
        wakee: linker,
        priority: 120,
        target_cpu: CpuId::new(1),
        new: true,
        stack: None,
    }));
    scenario.switch(1, IDLE, off(SleepState::Runnable), linker);
}
