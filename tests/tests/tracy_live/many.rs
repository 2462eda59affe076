//! Programs that make names without end, and machines on which threads come and go for weeks.

use crate::connection::{connect, end, exchange};
use syscollect_exporters::TracyLive;
use syscollect_model::{
    CpuId, Event, Exporter as _, Lock, LockAction, LockEvent, LockId, MachineId, OffCpu, Process,
    ProcessId, Scope, SleepState, Slice, Switch, Tables, Thread, ThreadId, Time, Track, TrackId,
    TrackKind, TrackRole, Unit,
};

/// A program that makes more than there is room for, and one that does not.
struct Machine {
    live: TracyLive,
    tables: Tables,
    time: u64,
}

impl Machine {
    fn new() -> Self {
        let (mut live, tables) = (TracyLive::default(), Tables::default());
        live.begin(&tables).unwrap();
        Self { live, tables, time: 5_000_000_000 }
    }

    fn tell(&mut self, event: Event) {
        self.time += 1_000;
        self.live.event(Time(self.time), &event, &self.tables).unwrap();
    }

    fn thread(&mut self, tid: u32, name: &str) -> ThreadId {
        let name = self.tables.strings.intern(name);
        let process = Process::named(MachineId::FIRST, tid, name);
        let process = self.tables.add_process(process);
        self.tables.add_thread(Thread::named(tid, process, name))
    }

    fn process(&self, thread: ThreadId) -> ProcessId {
        self.tables.thread(thread).process
    }

    fn track(&mut self, scope: Scope, name: &str, kind: TrackKind) -> TrackId {
        let name = self.tables.strings.intern(name);
        self.tables.tracks.push(Track { scope, name, kind });
        TrackId(self.tables.tracks.len() as u32 - 1)
    }

    fn plot(&mut self, thread: ThreadId, name: &str, value: f64) {
        let scope = Scope::Process(self.process(thread));
        let track = self.track(scope, name, TrackKind::Counter { unit: Unit::Number });
        self.tell(Event::Counter(track, value));
    }

    /// A lock that the thread holds.
    fn lock(&mut self, thread: ThreadId, name: &str) {
        let name = self.tables.strings.intern(name);
        let process = self.process(thread);
        self.tables.locks.push(Lock { process, name, shared: false, location: None });
        let lock = LockId(self.tables.locks.len() as u32 - 1);
        let (action, shared, location) = (LockAction::Obtain, false, None);
        self.tell(Event::Lock(LockEvent { lock, thread, action, shared, location }));
    }

    /// A zone that stays open, on the thread's own row.
    fn zone(&mut self, thread: ThreadId, name: &str) {
        let kind = TrackKind::Slices(TrackRole::Zones);
        let track = self.track(Scope::Thread(thread), "zones", kind);
        let name = self.tables.strings.intern(name);
        self.tell(Event::SliceBegin(track, Slice::named(name)));
    }
}

#[test]
fn who_makes_names_without_end_takes_none_of_anybody_else() {
    let mut machine = Machine::new();
    let (honest, hostile) = (machine.thread(10, "honest"), machine.thread(20, "hostile"));
    machine.plot(honest, "level", 42.0);
    machine.lock(honest, "registry");
    machine.zone(honest, "work");
    let mut first = connect(&mut machine.live);
    for number in 0..50_000 {
        machine.plot(hostile, &format!("plot {number}"), 1.0);
        machine.lock(hostile, &format!("lock {number}"));
        if number % 1_000 == 0 {
            exchange(&mut machine.live, &mut first, 1 << 20);
        }
    }
    exchange(&mut machine.live, &mut first, 1 << 20);
    let messages = &first.seen().messages;
    assert!(messages.iter().any(|one| one.own && one.text.contains("plots gave way to others")));
    machine.live.session().disconnect();
    let mut second = connect(&mut machine.live);
    exchange(&mut machine.live, &mut second, 1 << 20);
    let seen = second.seen();
    assert!(seen.plots.len() <= 8_192 && seen.lock_names.len() <= 32_768);
    let names: Vec<&String> = seen.plot_names.values().collect();
    assert!(seen.plots.iter().any(|(_, _, value)| *value == 42.0), "{:?}", names.first());
    assert!(seen.lock_names.values().any(|name| name == "registry"));
    assert!(seen.zones.iter().any(|zone| seen.zone_name(zone) == "work"));
    end(&mut machine.live, &mut second);
}

#[test]
fn threads_that_ended_long_ago_are_forgotten_and_those_that_live_keep_their_names() {
    let mut machine = Machine::new();
    let lives = machine.thread(7, "lives");
    let mut viewer = connect(&mut machine.live);
    let run = |machine: &mut Machine, thread: ThreadId| {
        machine.tell(Event::Switch(Switch {
            cpu: CpuId::new(0),
            previous: None,
            previous_priority: 120,
            off_cpu: OffCpu {
                state: SleepState::Interruptible,
                preempted: false,
                io_wait: false,
                blocked_in: None,
                stack: None,
            },
            next: thread,
            next_priority: 120,
        }));
    };
    run(&mut machine, lives);
    for number in 0..70_000 {
        let thread = machine.thread(1_000 + number, "short");
        machine.tell(Event::ThreadStart(thread));
        run(&mut machine, thread);
        machine.tell(Event::ThreadEnd(thread));
        if number % 1_000 == 0 {
            exchange(&mut machine.live, &mut viewer, 1 << 20);
        }
    }
    exchange(&mut machine.live, &mut viewer, 1 << 20);
    let catalogue = &machine.live.session().catalogue;
    assert!(catalogue.knows_thread(7) && catalogue.knows_thread(70_999));
    assert!(!catalogue.knows_thread(1_000) && !catalogue.knows_thread(5_000));
    assert_eq!(viewer.seen().threads[&70_999].label, "short / short");
}
