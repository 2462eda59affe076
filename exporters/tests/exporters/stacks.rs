//! Folded stacks, flame graphs and pprof profiles of the scenario.

use crate::decode::Fields;
use crate::scenario::{self, Scenario};
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::Read;
use syscollect_exporters::{
    FlamegraphExporter, FoldedExporter, PprofExporter, StackKind, StackOptions,
};
use syscollect_model::{CpuId, Event, Sample, SessionInfo, SleepState, Wakeup};

fn folded(scenario: &Scenario, options: StackOptions) -> String {
    let mut exporter = FoldedExporter::new(Vec::new(), options);
    scenario.play(&mut exporter, &scenario::session(), &[], None).unwrap();
    String::from_utf8(exporter.finish().unwrap()).unwrap()
}

fn kind(kind: StackKind) -> StackOptions {
    StackOptions { kind, ..StackOptions::default() }
}

#[test]
fn samples_fold_into_a_line_for_each_stack() {
    assert_eq!(
        folded(&scenario::scenario(), kind(StackKind::OnCpu)),
        "sh;/usr/bin/cc+0x9999;0x7f00deadbeef 1\n\
         sh;[no stack] 1\n\
         sh;main;parse<T>;next_token_[i] 2\n"
    );
}

#[test]
fn idle_cpus_and_threads_without_work_are_shown_when_asked_for() {
    let samples = folded(&scenario::scenario(), all(StackKind::OnCpu));
    assert!(samples.contains("swapper;main;ext4_file_read_iter_[k] 1\n"), "{samples}");

    // A worker of the kernel idles for 30 us, and waits for a disk for 20 us, in the same stack.
    let mut worker = Scenario::new();
    let (_, thread) = worker.process(7, 1, "worker", &[]);
    for (state, after_us) in [(SleepState::Idle, 30), (SleepState::Uninterruptible, 20)] {
        worker.switch(0, scenario::IDLE, scenario::off(SleepState::Runnable), thread);
        worker.switch(0, thread, scenario::off(state), scenario::IDLE);
        worker.wait(after_us);
    }
    worker.switch(0, scenario::IDLE, scenario::off(SleepState::Runnable), thread);
    // Each event takes one more.
    assert_eq!(folded(&worker, kind(StackKind::OffCpu)), "worker;[no stack] 21\n");
    assert_eq!(folded(&worker, all(StackKind::OffCpu)), "worker;[no stack] 52\n");
}

fn all(kind: StackKind) -> StackOptions {
    StackOptions { kind, idle: true, ..StackOptions::default() }
}

#[test]
fn blocked_time_is_counted_until_the_thread_runs_again() {
    let text = folded(&scenario::scenario(), kind(StackKind::OffCpu));
    // The compiler reads for 100 us, between two switches with a wakeup between them.
    assert!(text.contains("sh;main;ext4_file_read_iter_[k] 102\n"), "{text}");
    // Whoever was preempted or has exited is not blocked.
    let mut gone = Scenario::new();
    let (_, one) = gone.process(7, 1, "one", &[]);
    gone.switch(0, one, scenario::preempted(), scenario::IDLE);
    gone.switch(0, scenario::IDLE, scenario::off(SleepState::Runnable), one);
    gone.switch(0, one, scenario::off(SleepState::Dead), scenario::IDLE);
    assert_eq!(folded(&gone, kind(StackKind::OffCpu)), "");
}

#[test]
fn stacks_of_slices_are_counted_by_how_often_they_begin() {
    let game = scenario::game();
    assert_eq!(folded(&game, kind(StackKind::Probes)), "game;main;parse<T>;next_token_[i] 1\n");
    assert_eq!(folded(&scenario::scenario(), kind(StackKind::Probes)), "", "no slice has one");
}

#[test]
fn waker_stacks_are_counted_by_wakeups() {
    assert_eq!(
        folded(&scenario::scenario(), kind(StackKind::Wakers)),
        "sh;main;parse<T>;next_token_[i] 1\n"
    );
}

#[test]
fn who_sleeps_from_beginning_to_end_is_in_the_picture_of_its_process() {
    let mut scenario = Scenario::new();
    let (_, runs) = scenario.process(6, 1, "runs", &[]);
    let (_, sleeps) = scenario.process(7, 1, "sleeps", &[]);
    let frame = scenario.frame(None, 5, Some("waits"));
    let stack = Some(scenario.tables.intern_stack(&[frame]));
    scenario.switch(0, scenario::IDLE, scenario::off(SleepState::Runnable), runs);
    let off_cpu = syscollect_model::OffCpu { stack, ..scenario::off(SleepState::Interruptible) };
    scenario.then(Event::Asleep(sleeps, off_cpu));
    scenario.switch(0, runs, scenario::off(SleepState::Interruptible), scenario::IDLE);
    let of_process = StackOptions { process: "7".parse().ok(), ..kind(StackKind::OffCpu) };
    let text = folded(&scenario, of_process);
    assert!(text.starts_with("sleeps;waits "), "{text}");
    assert_eq!(folded(&scenario, kind(StackKind::OffCpu)), "", "of a machine these are most");
}

#[test]
fn wakers_without_a_stack_do_not_drown_those_with_one() {
    let mut scenario = Scenario::new();
    let (_, waker) = scenario.process(7, 1, "waker", &[]);
    let (_, wakee) = scenario.process(8, 1, "wakee", &[]);
    let frame = scenario.frame(None, 5, Some("wakes"));
    let stack = Some(scenario.tables.intern_stack(&[frame]));
    for stack in std::iter::once(stack).chain([None; 100]) {
        scenario.then(Event::Wakeup(Wakeup {
            cpu: CpuId::new(0),
            waker: Some(waker),
            from_interrupt: false,
            wakee,
            priority: 120,
            target_cpu: CpuId::new(0),
            new: false,
            stack,
        }));
    }
    assert_eq!(folded(&scenario, kind(StackKind::Wakers)), "waker;wakes 1\n");
}

#[test]
fn one_process_can_be_asked_for() {
    let options = StackOptions { process: "0".parse().ok(), ..StackOptions::default() };
    assert_eq!(folded(&scenario::scenario(), options), "swapper;main;ext4_file_read_iter_[k] 1\n");
}

#[test]
fn names_cannot_break_a_line_or_a_frame() {
    let mut scenario = Scenario::new();
    let (_, thread) = scenario.process(7, 1, "a;b\nc", &[]);
    let frame = scenario.frame(None, 5, Some("f(x; y)\0"));
    let stack = Some(scenario.tables.intern_stack(&[frame]));
    scenario.then(Event::Sample(Sample { cpu: CpuId::new(0), thread, stack, in_kernel: false }));
    assert_eq!(folded(&scenario, StackOptions::default()), "a:b c;f(x: y)  1\n");
}

fn picture(scenario: &Scenario, options: StackOptions) -> String {
    let mut exporter = FlamegraphExporter::new(Vec::new(), options);
    scenario.play(&mut exporter, &scenario::session(), &[], None).unwrap();
    String::from_utf8(exporter.finish().unwrap()).unwrap()
}

#[test]
fn the_flame_graph_shows_functions_with_their_shares() {
    let picture = picture(&scenario::scenario(), StackOptions::default());
    assert!(picture.contains("On-CPU samples of scenario"));
    assert!(picture.contains("<title>parse&lt;T&gt; (2 samples, 50.00%)</title>"), "{picture}");
    assert!(picture.trim_end().ends_with("</svg>"));
}

#[test]
fn an_empty_session_is_a_picture_that_says_so() {
    let mut exporter = FlamegraphExporter::new(Vec::new(), kind(StackKind::Wakers));
    Scenario::new().play(&mut exporter, &SessionInfo::default(), &[], None).unwrap();
    let picture = String::from_utf8(exporter.finish().unwrap()).unwrap();
    assert!(picture.contains("nothing to show") && picture.trim_end().ends_with("</svg>"));
}

/// Functions with lines, innermost first.
type Lines = Vec<(String, u64)>;

/// A pprof profile, decoded by the field numbers of `profile.proto`.
struct Pprof {
    fields: Fields,
    strings: Vec<String>,
}

impl Pprof {
    fn of(scenario: &Scenario) -> Self {
        let mut exporter = PprofExporter::new(Vec::new(), None);
        scenario.play(&mut exporter, &scenario::session(), &[], None).unwrap();
        let mut bytes = Vec::new();
        GzDecoder::new(&exporter.finish().unwrap()[..]).read_to_end(&mut bytes).unwrap();
        let fields = Fields::parse(&bytes);
        let strings = fields.all(6).map(|text| String::from_utf8(text.to_vec()).unwrap()).collect();
        Self { fields, strings }
    }

    fn string(&self, fields: &Fields, number: u32) -> String {
        self.strings[fields.number(number).unwrap_or(0) as usize].clone()
    }

    /// Messages by their id.
    fn by_id(&self, number: u32) -> BTreeMap<u64, Fields> {
        self.fields
            .messages(number)
            .into_iter()
            .map(|fields| (fields.number(1).unwrap(), fields))
            .collect()
    }

    /// Stacks and values.
    fn samples(&self) -> Vec<(Lines, Vec<u64>)> {
        let (locations, functions) = (self.by_id(4), self.by_id(5));
        let samples = self.fields.messages(2).into_iter().map(|sample| {
            let ids = sample.packed(1);
            let lines = ids.iter().flat_map(|id| locations[id].messages(4)).map(|line| {
                let function = &functions[&line.number(1).unwrap()];
                (self.string(function, 2), line.number(2).unwrap_or(0))
            });
            (lines.collect(), sample.packed(2))
        });
        samples.collect()
    }
}

#[test]
fn pprof_gets_samples_with_inlined_lines_and_blocked_time() {
    let pprof = Pprof::of(&scenario::scenario());
    assert_eq!(pprof.strings[0], "", "as the format demands");
    let types: Vec<_> = pprof
        .fields
        .messages(1)
        .iter()
        .map(|kind| (pprof.string(kind, 1), pprof.string(kind, 2)))
        .collect();
    assert_eq!(
        types,
        [("samples".into(), "count".into()), nanoseconds("cpu"), nanoseconds("off-cpu")]
    );

    let samples = pprof.samples();
    let period = 1_000_000_000 / 999;
    let parse = [("next_token", 10), ("parse<T>", 30), ("main", 0)]
        .map(|(name, line)| (name.to_owned(), line));
    let found = samples.iter().find(|(stack, _)| stack[..] == parse).unwrap();
    assert_eq!(found.1, [2, 2 * period, 0]);
    assert_eq!(
        samples.iter().map(|(_, values)| values[0]).sum::<u64>(),
        4,
        "as many as were taken of threads that ran"
    );
    assert!(samples.iter().any(|(stack, _)| stack[..] == [("[no stack]".to_owned(), 0)]));
    let read = samples
        .iter()
        .find(|(stack, values)| values[2] > 0 && stack[0].0 == "ext4_file_read_iter")
        .unwrap();
    assert_eq!(read.1, [0, 0, 102_000]);
}

fn nanoseconds(name: &str) -> (String, String) {
    (name.to_owned(), "nanoseconds".to_owned())
}

#[test]
fn pprof_mappings_have_build_ids_and_hold_their_addresses() {
    let pprof = Pprof::of(&scenario::scenario());
    let mappings = pprof.by_id(3);
    let program =
        mappings.values().find(|mapping| pprof.string(mapping, 5) == "/usr/bin/cc").unwrap();
    assert_eq!(pprof.string(program, 6), "ab".repeat(20));
    for location in pprof.fields.messages(4) {
        let Some(mapping) = mappings.get(&location.number(2).unwrap()) else { continue };
        let address = location.number(3).unwrap();
        assert!((mapping.number(2).unwrap()..mapping.number(3).unwrap()).contains(&address));
    }
}
