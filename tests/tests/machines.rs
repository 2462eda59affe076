//! Recordings of several machines on one timeline.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test, as its body does")]

use proptest::prelude::*;
use syscollect_merge::{MergeError, Recordings};
use syscollect_model::{Event, Exporter, Tables, Time};
use syscollect_playback::{Recording, Stopped};
use syscollect_store::CaptureReader;
use syscollect_tests::{FakeMachine, FakeProgram, Host, golden};

const FIRST: Host<'_> = Host { name: "first", booted_late: 0, filter_pids: &[] };
/// Started 25 microseconds after the other.
const LATE: Host<'_> = Host { name: "late", booted_late: 25_000, filter_pids: &[] };

fn recordings(machines: Vec<FakeMachine>) -> Recordings {
    Recordings::open(machines.into_iter().map(reader).collect(), &|| false).unwrap()
}

fn reader(machine: FakeMachine) -> CaptureReader {
    CaptureReader::from_bytes(machine.finish()).unwrap()
}

#[test]
fn machines_share_a_timeline_by_their_clocks_of_the_day() {
    let mut first = FakeMachine::with_host(2, FIRST);
    first.process(100, 1, "client", &[]);
    first.switch(0, 10, 0, 100);
    first.switch(0, 40, 1, 0);
    first.switch(1, 55, 0, 100);
    let mut late = FakeMachine::with_host(2, LATE);
    late.process(100, 1, "server", &[]);
    late.switch(0, 5, 0, 100);
    let mut program = FakeProgram::new(&mut late, 1, 100);
    let answer = program.location("answer", "", "server.c", 12, 0);
    let mut thread = program.thread(0, 100);
    thread.begin(&mut late, 10, answer, &[]);
    thread.end(&mut late, 20);
    late.switch(0, 25, 1, 0);
    program.finish(&mut late);
    golden::check("machines", &mut recordings(vec![first, late]));
}

#[test]
fn who_was_started_first_has_the_times_of_the_timeline() {
    let mut late = FakeMachine::with_host(1, LATE);
    late.switch(0, 10, 0, 7);
    let mut first = FakeMachine::with_host(1, FIRST);
    first.switch(0, 30, 0, 7);
    let mut switches = Switches::default();
    recordings(vec![late, first]).play(&mut switches).unwrap();
    let times: Vec<_> = switches.0.iter().map(|of| (of.machine, microseconds(of.time.0))).collect();
    assert_eq!(times, [(0, 30), (1, 35)]);
}

fn microseconds(time: u64) -> u64 {
    (time - syscollect_tests::FIRST_BOOTTIME) / 1_000
}

#[test]
fn two_recordings_of_one_boot_are_refused() {
    let error = Recordings::open(vec![first_reader(), first_reader()], &|| false).unwrap_err();
    assert!(
        matches!(error, MergeError::SameBoot { hostname, numbers: (1, 2) } if hostname == "first")
    );
}

fn first_reader() -> CaptureReader {
    let machine = FakeMachine::with_host(1, FIRST);
    CaptureReader::from_bytes(machine.finish()).unwrap()
}

/// A switch, without what tables number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SwitchOf {
    machine: u16,
    time: Time,
    cpu: u32,
    next: u32,
}

#[derive(Default)]
struct Switches(Vec<SwitchOf>);

impl Exporter for Switches {
    type Error = Stopped;

    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), Stopped> {
        if let Event::Switch(switch) = event {
            let next = tables.thread(switch.next);
            let machine = switch.cpu.machine.0;
            if next.tid != 0 {
                assert_eq!(tables.process(next.process).machine, switch.cpu.machine);
            }
            self.0.push(SwitchOf { machine, time, cpu: switch.cpu.number, next: next.tid });
        }
        Ok(())
    }
}

/// A machine of some switches: CPU, microseconds since the one before, who comes.
fn machine(host: Host<'_>, switches: &[(u16, u64, u32)], chunk_bytes: usize) -> FakeMachine {
    let mut machine = FakeMachine::with_host(3, host);
    machine.chunk_bytes(chunk_bytes);
    let mut us = 0;
    for (cpu, later, next) in switches {
        us += later;
        machine.switch(*cpu, us, 0, *next);
    }
    machine
}

fn switches() -> impl Strategy<Value = Vec<(u16, u64, u32)>> {
    prop::collection::vec((0u16..3, 0u64..20, 0u32..4), 0..60)
}

proptest! {
    #[test]
    fn each_machine_tells_what_it_tells_alone_and_time_never_decreases(
        machines in prop::collection::vec(switches(), 1..4),
        late in prop::collection::vec(0u64..100_000, 4),
        chunk_bytes in 40usize..400,
    ) {
        let names = ["a", "b", "c", "d"];
        let made = || {
            let hosts = names.iter().zip(&late);
            let hosts =
                hosts.map(|(name, late)| Host { name, booted_late: *late, filter_pids: &[] });
            hosts.zip(&machines).map(|(host, switches)| machine(host, switches, chunk_bytes))
        };
        let first_boot = late[..machines.len()].iter().min().unwrap();
        let mut together = Switches::default();
        recordings(made().collect()).play(&mut together).unwrap();
        prop_assert!(together.0.is_sorted_by_key(|of| of.time));
        // They are numbered in the order in which they begin.
        let mut order: Vec<usize> = (0..machines.len()).collect();
        order.sort_by_key(|machine| late[*machine]);
        for (index, (alone, late)) in made().zip(&late).enumerate() {
            let number = order.iter().position(|machine| *machine == index).unwrap() as u16;
            let mut expected = Switches::default();
            recordings(vec![alone]).play(&mut expected).unwrap();
            for of in &mut expected.0 {
                (of.machine, of.time) = (number, Time(of.time.0 + late - first_boot));
            }
            let reported = together.0.iter().copied().filter(|of| of.machine == number);
            prop_assert_eq!(reported.collect::<Vec<_>>(), expected.0);
        }
    }
}
