//! A machine that never was: a busy load of sleeping and waking threads, the
//! same on every run, for benches and for trying files in a viewer.

use syscollect_model::{
    CpuId, Event, Exporter, Frame, FrameId, MachineId, Module, ModuleId, ModuleKind, OffCpu,
    OperatingSystem, Process, ProcessId, Sample, SampleEvent, SessionInfo, SleepState, StackId,
    Switch, Tables, Thread, ThreadId, Time, Wakeup,
};

/// What the load looks like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// CPUs.
    pub(crate) cpus: u32,
    /// Threads besides idle.
    pub(crate) threads: u32,
    /// Different stacks.
    pub(crate) stacks: u32,
    /// Whether switches and wakeups carry stacks.
    pub(crate) event_stacks: bool,
}

/// The load's tables and what is known of its machine.
pub(crate) fn tables(shape: Shape) -> Tables {
    let mut tables = Tables::default();
    let path = tables.strings.intern("/usr/bin/load");
    let kernel_path = tables.strings.intern("[kernel.kallsyms]");
    tables.modules.push(Module {
        path,
        build_id: syscollect_model::BuildId::from_bytes(&[7; 20]),
        kind: ModuleKind::File,
    });
    tables.modules.push(Module {
        path: kernel_path,
        build_id: syscollect_model::BuildId::default(),
        kind: ModuleKind::Kernel,
    });
    for index in 0..400u32 {
        let kernel = index % 2 == 0;
        let function = tables.strings.intern(&format!("function_{index}"));
        tables.frames.push(Frame {
            module: Some(ModuleId(u32::from(kernel))),
            offset: 0x1000 + u64::from(index) * 64,
            function: Some(function),
            function_start: 0x1000 + u64::from(index) * 64,
            function_size: 64,
            range_only: false,
            file: None,
            line: 0,
            inlined: false,
        });
    }
    let mut random = Random(1);
    for _ in 0..shape.stacks {
        let frames: Vec<FrameId> = (0..24).map(|_| FrameId(random.below(400))).collect();
        tables.intern_stack(&frames);
    }
    for index in 0..shape.threads {
        let name = tables.strings.intern(&format!("worker-{}", index % 64));
        let process = ProcessId(1 + index / 8);
        if index % 8 == 0 {
            let pid = 1000 + index;
            let command_line = vec!["/usr/bin/load".to_owned(), format!("--number={index}")];
            tables.processes.push(Process {
                machine: MachineId::FIRST,
                pid,
                parent_pid: Some(1),
                name,
                command_line,
                start: None,
                end: None,
                kernel: false,
            });
        }
        tables.threads.push(Thread { tid: 1000 + index, process, name, start: None, end: None });
    }
    for function in ["futex_wait_queue", "pipe_read", "do_epoll_wait", "jbd2_log_wait_commit"] {
        tables.strings.intern(function);
    }
    tables.machines[0] = SessionInfo {
        recorder: "synthetic 1".into(),
        os: OperatingSystem::Linux,
        kernel_release: "6.18.0".into(),
        machine: "x86_64".into(),
        sample_rate_hz: 999,
        sample_event: SampleEvent::CpuClock,
        ..SessionInfo::default()
    };
    tables
}

/// Plays `events` events into an exporter: for each switch to idle or another
/// thread one wakeup, and a sample now and then.
pub(crate) fn play<E: Exporter>(
    exporter: &mut E,
    tables: &mut Tables,
    shape: Shape,
    events: u64,
) -> Result<(), E::Error> {
    exporter.begin(tables)?;
    let mut random = Random(42);
    let mut current = vec![Tables::IDLE_THREAD; shape.cpus as usize];
    let mut time = 1_000_000_000_000;
    let blocked_in = tables.strings.intern("pipe_read");
    for index in 0..events {
        time += 200 + u64::from(random.below(4_000));
        let cpu = random.below(shape.cpus);
        let running = &mut current[cpu as usize];
        // A few stacks make up nearly everything, as in real loads.
        let skewed = random
            .below(shape.stacks)
            .min(random.below(shape.stacks))
            .min(random.below(shape.stacks));
        let stack = shape.event_stacks.then_some(StackId(skewed));
        let other = ThreadId(1 + random.below(shape.threads));
        let event = if index % 100 == 99 {
            let stack = (*running != Tables::IDLE_THREAD).then_some(StackId(skewed));
            Event::Sample(Sample {
                cpu: CpuId::new(cpu),
                thread: *running,
                stack,
                in_kernel: skewed.is_multiple_of(2),
            })
        } else if index % 2 == 0 {
            let next = if random.below(3) == 0 { Tables::IDLE_THREAD } else { other };
            let idle = *running == Tables::IDLE_THREAD;
            let preempted = !idle && random.below(4) == 0;
            let state =
                if idle || preempted { SleepState::Runnable } else { SleepState::Interruptible };
            let off_cpu = OffCpu {
                state,
                preempted,
                io_wait: random.below(50) == 0,
                blocked_in: (!idle && !preempted).then_some(blocked_in),
                stack: stack.filter(|_| !idle && !preempted),
            };
            let previous = Some(std::mem::replace(running, next));
            Event::Switch(Switch {
                cpu: CpuId::new(cpu),
                previous,
                previous_priority: 120,
                off_cpu,
                next,
                next_priority: 120,
            })
        } else {
            Event::Wakeup(Wakeup {
                cpu: CpuId::new(cpu),
                waker: Some(*running),
                from_interrupt: *running == Tables::IDLE_THREAD,
                wakee: other,
                priority: 120,
                target_cpu: CpuId::new(random.below(shape.cpus)),
                new: false,
                stack: stack.filter(|_| *running != Tables::IDLE_THREAD),
            })
        };
        exporter.event(Time(time), &event, tables)?;
    }
    exporter.end(&[], None, tables)
}

/// A xorshift generator: the same numbers on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(limit)) >> 32) as u32
    }
}
