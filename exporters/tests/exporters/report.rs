//! Short scenarios whose figures are known beforehand, and what they are reported as.

mod crashes;
mod filter;
mod golden;
mod losses;
mod part;
mod programs;
mod random;
mod samples;
mod sleepers;
mod states;
mod tree;
mod verdict;
mod worst;

use crate::scenario::{START, Scenario, session, summary};
use syscollect_exporters::report::{
    OffCpuReport, ProcessRow, Report, ReportExporter, ReportOptions, ThreadRow, Times, WakerKind,
};
use syscollect_model::{
    CpuId, Event, LaneKind, Loss, LossCause, OffCpu, SessionInfo, SleepState, StackId, Switch,
    ThreadId, Time, Wakeup,
};

/// Sleeps until it is woken.
const SLEEPS: SleepState = SleepState::Interruptible;

/// What happens at these microseconds of the scenario.
trait At {
    fn at(&mut self, microsecond: u64, event: Event);

    /// The CPU goes from one thread to another.
    fn switches(
        &mut self,
        at: u64,
        cpu: u32,
        previous: ThreadId,
        state: SleepState,
        next: ThreadId,
    ) {
        self.switches_off(at, cpu, previous, OffCpu { state, ..off() }, next);
    }

    fn switches_off(
        &mut self,
        at: u64,
        cpu: u32,
        previous: ThreadId,
        off_cpu: OffCpu,
        next: ThreadId,
    ) {
        let previous = Some(previous);
        let switch = Switch {
            cpu: CpuId::new(cpu),
            previous,
            previous_priority: 120,
            off_cpu,
            next,
            next_priority: 120,
        };
        self.at(at, Event::Switch(switch));
    }

    /// A thread wakes another.
    fn wakes(&mut self, at: u64, cpu: u32, waker: ThreadId, wakee: ThreadId) {
        self.at(at, Event::Wakeup(Wakeup { waker: Some(waker), ..wakeup(cpu, wakee) }));
    }

    /// An interrupt wakes a thread.
    fn interrupt_wakes(&mut self, at: u64, cpu: u32, current: ThreadId, wakee: ThreadId) {
        let event = Wakeup { waker: Some(current), from_interrupt: true, ..wakeup(cpu, wakee) };
        self.at(at, Event::Wakeup(event));
    }

    /// Scheduling records of a CPU are missing since a microsecond.
    fn loses(&mut self, at: u64, cpu: u32, since: u64) {
        self.at(at, Event::Loss(loss(cpu, since, at)));
    }
}

impl At for Scenario {
    fn at(&mut self, microsecond: u64, event: Event) {
        self.events.push((Time(START + microsecond * 1_000), event));
    }
}

fn off() -> OffCpu {
    OffCpu {
        state: SleepState::Runnable,
        preempted: false,
        io_wait: false,
        blocked_in: None,
        stack: None::<StackId>,
    }
}

fn preempted() -> OffCpu {
    OffCpu { preempted: true, ..off() }
}

fn wakeup(cpu: u32, wakee: ThreadId) -> Wakeup {
    Wakeup {
        cpu: CpuId::new(cpu),
        waker: None,
        from_interrupt: false,
        wakee,
        priority: 120,
        target_cpu: CpuId::new(cpu),
        new: false,
        stack: None,
    }
}

fn loss(cpu: u32, since: u64, until: u64) -> Loss {
    let between = Some((Time(START + since * 1_000), Time(START + until * 1_000)));
    Loss {
        origin: LaneKind::Sched.into(),
        cpu: Some(CpuId::new(cpu)),
        cause: LossCause::LaneFull,
        user: None,
        count: 7,
        between,
    }
}

/// Two programs of one thread each.
fn two_programs() -> (Scenario, ThreadId, ThreadId) {
    let mut scenario = Scenario::new();
    let (_, a) = scenario.process(10, 1, "a", &["/bin/a"]);
    let (_, b) = scenario.process(20, 1, "b", &["/bin/b"]);
    (scenario, a, b)
}

fn report_with(
    scenario: &Scenario,
    options: ReportOptions,
    session: &SessionInfo,
    losses: &[Loss],
) -> Report {
    let mut exporter = ReportExporter::new(options);
    let Ok(()) = scenario.play(&mut exporter, session, losses, Some(&summary()));
    exporter.finish()
}

fn report(scenario: &Scenario) -> Report {
    report_with(scenario, ReportOptions::default(), &session(), &[])
}

fn thread(report: &Report, tid: u32) -> &ThreadRow {
    let rows: Vec<_> = report.threads.rows.iter().filter(|row| row.tid == tid).collect();
    assert_eq!(rows.len(), 1, "threads {tid} in {:?}", report.threads);
    rows[0]
}

fn process(report: &Report, pid: u32) -> &ProcessRow {
    report.processes.rows.iter().find(|row| row.pid == pid).unwrap()
}

/// Microseconds on CPU, waiting, blocked, unknown.
fn times(on_cpu: u64, waiting: u64, blocked: u64, unknown: u64) -> Times {
    let [on_cpu_ns, waiting_ns, blocked_ns, unknown_ns] =
        [on_cpu, waiting, blocked, unknown].map(|us| us * 1_000);
    Times { on_cpu_ns, waiting_ns, blocked_ns, unknown_ns }
}
