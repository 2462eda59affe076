//! Functions: the stacks of samples and of threads that block, from chunks to names.

use crate::recorder::{MS, Recorder, SECOND};
use std::collections::BTreeMap;
use syscollect_activity::{FunctionActivity, StackWeight};
use syscollect_model::{BuildId, Lane, LaneKind, ModuleKind, Symbol, SymbolFrame, SymbolTable};
use syscollect_records::RecordKind;

const SCHED: Lane = Lane::new(LaneKind::SchedStack, 0);
const SAMPLES: Lane = Lane::new(LaneKind::SampleStack, 0);

/// Names all that is asked for: functions of 256 bytes, called `f1`, `f2` and so on; the kernel's
/// are `schedule`, then `pipe_read`.
fn name(recorder: &mut Recorder) {
    let seconds = (0..recorder.activity.history().len()).map(|number| activity(recorder, number));
    let seconds: Vec<FunctionActivity> = seconds.collect();
    let functions = recorder.activity.functions_mut();
    let asked = seconds.iter().flat_map(|second| functions.ask(second, 1000));
    let asked: Vec<_> = asked.collect();
    let tables = asked.into_iter().map(|unnamed| {
        let function = |offset: u64| match (unnamed.is_kernel, offset >> 8) {
            (true, 1) => "schedule".to_owned(),
            (true, _) => "pipe_read".to_owned(),
            (false, number) => format!("f{number}"),
        };
        let symbol = |offset: &u64| Symbol {
            offset: *offset,
            frames: vec![SymbolFrame { function: function(*offset), ..SymbolFrame::default() }],
            ..Symbol::default()
        };
        let symbols = unnamed.offsets.iter().map(symbol).collect();
        let (path, build_id) = (unnamed.path.clone(), unnamed.build_id.clone());
        SymbolTable { path, build_id, symbols, ..SymbolTable::default() }
    });
    let tables: Vec<SymbolTable> = tables.collect();
    functions.add_names(&tables);
}

fn activity(recorder: &Recorder, second: usize) -> FunctionActivity {
    let functions = recorder.second(second).functions.as_ref();
    FunctionActivity::clone(functions.expect("it is asked for"))
}

/// Own and all, by name: samples and ticks.
fn sums(recorder: &Recorder, second: usize) -> BTreeMap<String, [u64; 4]> {
    let (functions, second) = (recorder.activity.functions(), activity(recorder, second));
    let sums = functions.sums(&second, None).into_iter().map(|sum| {
        let [own, all] =
            [sum.own, sum.all].map(|StackWeight { samples, blocked }| [samples, blocked]);
        (functions.name(&second, sum.function), [own[0], own[1], all[0], all[1]])
    });
    sums.collect()
}

/// Where a thread is blocked when a second ends.
fn blocked_in(recorder: &Recorder, second: usize, tid: u32) -> Option<String> {
    let (functions, second) = (recorder.activity.functions(), activity(recorder, second));
    functions.blocked_in(&second, tid).map(|function| functions.name(&second, function))
}

/// Process 7 with two threads; f1 calls f2, which runs, and f3, which is blocked.
fn recorder() -> Recorder {
    let mut recorder = Recorder::new(1);
    recorder.has_stacks = true;
    recorder.listed(&[(7, 7, "busy", None), (8, 7, "waits", None), (9, 9, "kthread", None)]);
    recorder.mapped(7, [0x1_0000, 0x2_0000], "/bin/a");
    recorder
}

#[test]
fn what_runs_is_told_by_samples_and_what_is_blocked_to_the_tick() {
    let mut recorder = recorder();
    recorder.activity.follow_functions();
    assert!(recorder.activity.functions_mut().take_wants_anew());
    recorder.sent(SAMPLES, 1, 1, 7, &[0x1_0210, 0x1_0151]);
    recorder.sent(SCHED, 1, 1, 7, &[0x1_0310, 0x1_0151]);
    recorder.sent(SCHED, 1, 2, 0, &[0x110, 0x210]);
    recorder.switch(0, 10 * MS, 8, 0);
    recorder.blocks(0, 100 * MS, 7, [1, 2]);
    for at in [200, 400, 600] {
        recorder.sample(0, at * MS, 7, [1, 0]);
    }
    recorder.until(2 * SECOND);
    assert!(sums(&recorder, 0).contains_key("a+0x210"), "{:?}", sums(&recorder, 0));
    name(&mut recorder);
    let expected = [
        ("f1", [0, 0, 3, 900 * MS]),
        ("f2", [3, 0, 3, 0]),
        ("f3", [0, 900 * MS, 0, 900 * MS]),
        ("pipe_read", [0, 0, 0, 900 * MS]),
        ("schedule", [0, 0, 0, 900 * MS]),
    ];
    let expected: BTreeMap<String, [u64; 4]> =
        expected.into_iter().map(|(name, sums)| (name.to_owned(), sums)).collect();
    assert_eq!(sums(&recorder, 0), expected);
    assert_eq!(blocked_in(&recorder, 0, 7).as_deref(), None, "it runs");
    assert_eq!(blocked_in(&recorder, 0, 8).as_deref(), Some("f3"));
    // It is blocked all the time in the next one, and nothing was said of it in there.
    assert_eq!(sums(&recorder, 1)["f3"], [0, SECOND, 0, SECOND]);
    assert_eq!(activity(&recorder, 0).ran(StackWeight { samples: 3, blocked: 0 }), 30 * MS);
}

#[test]
fn nobody_asks_and_nothing_is_kept() {
    let mut recorder = recorder();
    recorder.sent(SCHED, 1, 1, 7, &[0x1_0310]);
    recorder.switch(0, 10 * MS, 8, 0);
    recorder.blocks(0, 100 * MS, 7, [1, 0]);
    recorder.until(2 * SECOND);
    assert_eq!(recorder.second(0).functions, None);
    assert!(!recorder.activity.functions().is_followed());
}

#[test]
fn a_stack_that_was_sent_before_anybody_asked_is_not_known_until_it_is_sent_again() {
    let mut recorder = recorder();
    recorder.sent(SCHED, 1, 1, 7, &[0x1_0310]);
    recorder.activity.follow_functions();
    recorder.sent(SCHED, 1, 2, 7, &[0x1_0410]);
    recorder.switch(0, 10 * MS, 8, 0);
    recorder.blocks(0, 100 * MS, 7, [1, 0]);
    recorder.wakes(0, 200 * MS, 8);
    recorder.switch(0, 200 * MS, 8, 0);
    recorder.blocks(0, 300 * MS, 7, [2, 0]);
    recorder.until(SECOND);
    assert_eq!(
        sums(&recorder, 0),
        BTreeMap::from([("a+0x410".to_owned(), [0, 700 * MS, 0, 700 * MS])])
    );
}

#[test]
fn a_kernel_thread_s_stack_is_its_own_and_another_program_has_other_code() {
    let mut recorder = recorder();
    recorder.activity.follow_functions();
    recorder.sent(SCHED, 1, 1, 0, &[0x110, 0x210]);
    recorder.switch(0, 10 * MS, 9, 0);
    recorder.blocks(0, 100 * MS, 7, [0, 1]);
    recorder.task(0, 150 * MS, RecordKind::Fork, (20, 20, "child"));
    recorder.sent(SAMPLES, 160 * MS, 1, 20, &[0x1_0210]);
    recorder.sample(0, 200 * MS, 20, [1, 0]);
    recorder.until(SECOND);
    name(&mut recorder);
    let all = sums(&recorder, 0);
    assert_eq!(all["pipe_read"], [0, 900 * MS, 0, 900 * MS], "the scheduler says nothing");
    // Nothing says who made it.
    assert_eq!(all["(not in a known file)"], [1, 0, 1, 0]);
    let (functions, second) = (recorder.activity.functions(), activity(&recorder, 0));
    let of_kernel_thread = functions.sums(&second, Some(9));
    assert_eq!(of_kernel_thread.len(), 2, "{of_kernel_thread:?}");
}

#[test]
fn endless_stacks_of_a_process_are_counted_and_leave_room_for_others() {
    let mut recorder = recorder();
    recorder.mapped(8, [0x1_0000, 0x2_0000], "/bin/b");
    recorder.activity.follow_functions();
    for id in 1..150_000 {
        let address = 0x1_0000 + u64::from(id) % 0xffff + 1;
        recorder.sent(SAMPLES, 1, id, 7, &[address, address / 2 + 0x8000, 0x1_0151]);
        if id % 10 == 0 {
            recorder.sample(0, 10 * MS, 7, [id, 0]);
        }
    }
    recorder.sent(SAMPLES, 2, 200_000, 8, &[0x1_0210]);
    (0..50).for_each(|_| recorder.sample(0, 20 * MS, 8, [200_000, 0]));
    recorder.until(SECOND);
    let second = activity(&recorder, 0);
    let (others, count) = second.tree.others();
    assert!(others.samples > 100 && count > 100 && second.beyond > 10_000, "{others:?} {count}");
    let sum = second.tree.sum().samples + second.unknown.samples;
    assert_eq!(sum, 15_049, "each is counted");
    assert_eq!(sums(&recorder, 0)["b+0x210"][0], 50);
}

#[test]
fn a_table_of_another_build_names_nothing() {
    let mut recorder = recorder();
    recorder.activity.follow_functions();
    recorder.sent(SAMPLES, 1, 1, 7, &[0x1_0210]);
    recorder.sample(0, 10 * MS, 7, [1, 0]);
    recorder.until(SECOND);
    let symbols =
        vec![Symbol { offset: 0x210, frames: vec![SymbolFrame::default()], ..Symbol::default() }];
    let build_id = BuildId::from_bytes(&[2; 20]);
    let table = SymbolTable { path: "/bin/a".into(), build_id, symbols, ..SymbolTable::default() };
    recorder.activity.functions_mut().add_names(&[table]);
    assert!(sums(&recorder, 0).contains_key("a+0x210"));
    assert_eq!(ModuleKind::Kernel.path(), Some("[kernel.kallsyms]"));
}
