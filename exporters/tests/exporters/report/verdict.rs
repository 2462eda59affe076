//! What the first lines of a report say.

use super::*;
use crate::scenario::IDLE;
use std::str::FromStr;
use syscollect_exporters::report::{Family, ProcessFilter, ReportRange};
use syscollect_model::{BuildId, Module, ModuleId, ModuleKind};

/// One CPU for 100 us: 10 us of a, 60 of b that keeps a waiting for 50, 20 of a, 10 idle.
fn scenario() -> Scenario {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.switches(10, 0, a, SLEEPS, b);
    scenario.wakes(20, 0, b, a);
    scenario.switches(70, 0, b, SLEEPS, a);
    scenario.switches(90, 0, a, SLEEPS, IDLE);
    scenario.interrupt_wakes(100, 0, IDLE, b);
    scenario
}

fn reported(options: ReportOptions, session: &SessionInfo, losses: &[Loss]) -> String {
    let text = report_with(&scenario(), options, session, losses).text(1000);
    text.lines().next().unwrap().to_owned()
}

#[test]
fn the_first_sentences_say_how_long_how_busy_who_ran_who_waited_and_what_was_lost() {
    let one_cpu = SessionInfo { cpus: session().cpus[..1].to_vec(), ..session() };
    let part = ReportOptions { part: Some(ReportRange::default()), ..ReportOptions::default() };
    assert_eq!(
        reported(part, &one_cpu, &[]),
        "In 100 us, 1 CPU was 90.0 % busy. Most CPU time, 60.0 us (60.0 % of one CPU), went to b \
         (20). The longest wait for a CPU was 50.0 us, of a (10), at 0.000020s. Nothing was lost."
    );
}

#[test]
fn a_swarm_of_short_processes_is_busier_than_the_longest_of_all() {
    let (mut scenario, a, _) = two_programs();
    let swarm: Vec<_> =
        (30..33).map(|pid| scenario.process(pid, 10, "true", &["/bin/true"]).1).collect();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    let mut before = a;
    for (at, short) in [30, 50, 70].into_iter().zip(swarm) {
        scenario.switches(at, 0, before, SLEEPS, short);
        before = short;
    }
    scenario.switches(90, 0, before, SLEEPS, a);
    let text = report_with(&scenario, ReportOptions::default(), &session(), &[]).text(1000);
    let says = "Most CPU time, 60.0 us (66.7 % of one CPU), went to true (3 processes). ";
    assert!(text.lines().next().unwrap().contains(says), "{text}");
}

#[test]
fn what_a_program_was_blocked_in_for_a_tenth_of_the_time_is_told_with_its_own_function() {
    let says =
        "Blocked longest: a (10), 60.0 us for a lock in update_table(int) (pthread_mutex_lock). ";
    let text = told_of_sleep(60, None);
    assert!(text.lines().next().unwrap().contains(says), "{text}");
    let text = told_of_sleep(60, Some(ProcessFilter::Pid(10)));
    assert!(text.starts_with("This is 100 us on 2 CPUs. "), "{text}");
    assert!(text.lines().next().unwrap().contains(says), "{text}");
    for text in [told_of_sleep(9, None), told_of_sleep(60, Some(ProcessFilter::Pid(20)))] {
        assert!(!text.contains("Blocked longest"), "{text}");
    }
}

fn told_of_sleep(asleep: u64, process: Option<ProcessFilter>) -> String {
    let (mut scenario, a, b) = two_programs();
    let [program, libc] = ["/bin/a", "/lib/libc.so.6"].map(|path| scenario.name(path));
    let kernel = Module {
        path: scenario.name("[kernel.kallsyms]"),
        build_id: BuildId::default(),
        kind: ModuleKind::Kernel,
    };
    scenario.tables.modules = vec![of_file(program), of_file(libc), kernel];
    let functions = [
        (2, "futex_do_wait"),
        (1, "__GI___lll_lock_wait"),
        (1, "___pthread_mutex_lock"),
        (0, "std::mutex::lock()"),
        (0, "update_table(int)"),
        (0, "worker(int)"),
        (1, "clone3"),
    ];
    let frames =
        functions.map(|(module, name)| scenario.frame(Some(ModuleId(module)), 0x10, Some(name)));
    let stack = Some(scenario.tables.intern_stack(&frames));
    let lock = OffCpu { state: SLEEPS, stack, ..off() };
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.switches_off(5, 0, a, lock, b);
    scenario.wakes(5 + asleep, 0, b, a);
    scenario.switches(100, 0, b, SLEEPS, a);
    let options = ReportOptions { process, ..ReportOptions::default() };
    report_with(&scenario, options, &session(), &[]).text(1000)
}

fn of_file(path: syscollect_model::StringId) -> Module {
    Module { path, build_id: BuildId::default(), kind: ModuleKind::File }
}

#[test]
fn the_longest_wait_that_is_told_is_a_programs_if_any_waited() {
    for (kernel, recorder, says) in [
        (false, 0, "The longest wait for a CPU was 50.0 us, of a (10)"),
        (true, 0, "The longest wait for a CPU was 5.00 us, of b (20)"),
        (false, 10, "The longest wait for a CPU was 5.00 us, of b (20)"),
        (true, 20, "The longest wait for a CPU was 50.0 us, of a (10)"),
    ] {
        let reported = told_of_recorder(kernel, recorder);
        assert!(reported.contains(says), "{kernel} {recorder}: {reported}");
    }
}

fn told_of_recorder(kernel: bool, recorder: u32) -> String {
    let mut scenario = scenario();
    let process = scenario.tables.processes.iter_mut().find(|process| process.pid == 10);
    process.unwrap().kernel = kernel;
    // b waits for 5 us.
    let [a, b] = [10, 20].map(|tid| {
        let threads = &scenario.tables.threads;
        ThreadId(threads.iter().position(|thread| thread.tid == tid).unwrap() as u32)
    });
    scenario.switches(105, 0, IDLE, SleepState::Runnable, b);
    scenario.switches(110, 0, b, SLEEPS, a);
    let session = SessionInfo { recorder_pid: recorder, ..session() };
    let report = report_with(&scenario, ReportOptions::default(), &session, &[]);
    assert_eq!(report.longest_wait.as_ref().unwrap().pid, 10);
    let text = report.text(1000);
    text.lines().next().unwrap().to_owned()
}

#[test]
fn of_a_whole_recording_the_length_is_what_the_recorder_says() {
    let mut report = report(&scenario());
    assert_eq!((report.duration_ns, report.recorded_ns), (100_000, Some(5_000_000_000)));
    let text = report.text(100);
    assert!(text.starts_with("In 100 us,"), "{text}");
    assert!(text.contains("Duration   100 us, of a recording of 5.00 s\n"), "{text}");
    for (recorded, length) in [(100_500, "100 us"), (101_000, "101 us"), (96_000, "96.0 us")] {
        report.recorded_ns = Some(recorded);
        let text = report.text(100);
        assert!(text.starts_with(&format!("In {length},")), "{text}");
        assert!(text.contains(&format!("Duration   {length}\n")), "{text}");
    }
}

#[test]
fn of_a_recording_of_some_processes_the_cpus_are_not_judged() {
    let some = SessionInfo { filter_pids: vec![10], ..session() };
    let family = Some(ProcessFilter::Family(Family::new(vec![10])));
    let options = ReportOptions { process: family, ..ReportOptions::default() };
    let reported = reported(options, &some, &[]);
    assert!(reported.starts_with("This is 100 us on 2 CPUs. Most CPU time, 30.0 us"), "{reported}");
}

#[test]
fn a_loss_is_told_at_once() {
    let reported = reported(ReportOptions::default(), &session(), &[loss(0, 0, 10)]);
    assert!(reported.contains("lost. ***") && !reported.contains("Nothing was lost"), "{reported}");
}

#[test]
fn whether_children_are_meant_is_said() {
    let alone = text_of(ProcessFilter::from_str("a").unwrap());
    assert!(alone.contains("only a, without its children, but for CPUs"), "{alone}");
    let family = text_of(ProcessFilter::Family(Family::new(vec![10])));
    assert!(family.contains("only 10 and its children, but for CPUs"), "{family}");
    let server = text_of(ProcessFilter::Family(Family::new((10..110).collect())));
    let few = "only 10, 11, 12, 13, 14, 15, 94 more and their children, but for CPUs";
    assert!(server.contains(few), "{server}");
}

fn text_of(filter: ProcessFilter) -> String {
    let options = ReportOptions { process: Some(filter), ..ReportOptions::default() };
    report_with(&scenario(), options, &session(), &[]).text(100)
}
