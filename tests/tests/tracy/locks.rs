//! Locks.

use crate::scenario::Scenario;
use proptest::prelude::*;
use syscollect_model::LockAction::{GiveUp, Obtain, Release, Wait};
use syscollect_model::{Event, LockEvent, ThreadId};
use syscollect_tests::tracy_reader::{LockChange, SourceLocation};

#[test]
fn a_lock_is_waited_for_obtained_and_released_by_its_threads() {
    let mut scenario = Scenario::new(1);
    let process = scenario.process(5, "app");
    let [main, worker] =
        [(5, "main"), (6, "worker")].map(|(tid, name)| scenario.thread(process, tid, name));
    let (made, used) =
        (scenario.location("new", "queue.rs", 3), scenario.location("push", "queue.rs", 30));
    let lock = scenario.lock(process, "queue", Some(made));
    for (at, thread, action, location) in [
        (10, main, Wait, None),
        (11, main, Obtain, Some(used)),
        (20, worker, Wait, None),
        (30, main, Release, None),
        (31, worker, Obtain, None),
        (40, worker, Release, None),
    ] {
        let event = LockEvent { lock, thread, action, shared: false, location };
        scenario.at(at, Event::Lock(event));
    }
    let trace = scenario.read();

    let [lock] = &trace.locks[..] else { panic!("{:?}", trace.locks) };
    assert_eq!(
        (lock.name.as_deref(), &lock.location, lock.shared),
        (Some("queue"), &place("new", 3), false)
    );
    let events: Vec<_> =
        lock.events.iter().map(|event| (event.time, event.thread, event.change)).collect();
    // The first event is at the file's time 1.
    let expected = [
        (1, 5, LockChange::Wait),
        (2, 5, LockChange::Obtain),
        (11, 6, LockChange::Wait),
        (21, 5, LockChange::Release),
        (22, 6, LockChange::Obtain),
        (31, 6, LockChange::Release),
    ];
    assert_eq!(events, expected);
    let used: Vec<_> = lock.events.iter().filter_map(|event| event.location.clone()).collect();
    assert_eq!(used, [place("push", 30)]);
}

fn place(function: &str, line: u32) -> SourceLocation {
    SourceLocation {
        function: function.into(),
        file: "queue.rs".into(),
        line,
        ..SourceLocation::default()
    }
}

#[test]
fn readers_share_a_lock() {
    let mut scenario = Scenario::new(1);
    let process = scenario.process(5, "app");
    let [one, two] = [5, 6].map(|tid| scenario.thread(process, tid, "reader"));
    let lock = scenario.lock(process, "map", None);
    scenario.locks(1, lock, one, (Obtain, true));
    scenario.locks(2, lock, two, (Obtain, true));
    scenario.locks(3, lock, one, (Release, true));
    let trace = scenario.read();
    let changes: Vec<_> =
        trace.locks[0].events.iter().map(|event| (event.thread, event.change)).collect();
    use LockChange::{ObtainShared, ReleaseShared, WaitShared};
    let expected = [
        (5, WaitShared),
        (5, ObtainShared),
        (6, WaitShared),
        (6, ObtainShared),
        (5, ReleaseShared),
    ];
    assert_eq!((trace.locks[0].shared, &changes[..]), (true, &expected[..]));
}

#[test]
fn who_gives_up_says_so() {
    let mut scenario = Scenario::new(1);
    let thread = scenario.task(5, "app");
    let process = scenario.tables.thread(thread).process;
    let lock = scenario.lock(process, "queue", None);
    scenario.locks(1, lock, thread, (Wait, false));
    scenario.locks(2_001, lock, thread, (GiveUp, false));
    let trace = scenario.read();
    assert!(trace.locks.is_empty(), "a lock without events would be looked into");
    assert_eq!(trace.messages[0].text, "gives up on lock queue after 2 us");
}

#[test]
fn threads_beyond_the_64th_of_a_lock_are_told() {
    let mut scenario = Scenario::new(1);
    let process = scenario.process(5, "app");
    let lock = scenario.lock(process, "hot", None);
    for tid in 0..66u32 {
        let thread = scenario.thread(process, 5 + tid, "worker");
        scenario.locks(1 + u64::from(tid), lock, thread, (Wait, false));
    }
    let (trace, cuts) = scenario.read_cut();
    assert_eq!(trace.locks[0].threads.len(), 64);
    assert!(cuts[0].starts_with("2 events of locks by threads beyond the first 64"), "{cuts:?}");
}

proptest! {
    /// The reader follows every lock as the viewer does.
    #[test]
    fn whatever_threads_do_to_a_lock_its_history_can_have_happened(
        changes in prop::collection::vec((0u32..2, 1u32..4, 0usize..4, any::<bool>()), 1..60),
    ) {
        let mut scenario = Scenario::new(1);
        let process = scenario.process(5, "app");
        (5..8).for_each(|tid| {
            scenario.thread(process, tid, "t");
        });
        let locks = ["a", ""].map(|name| scenario.lock(process, name, None));
        for (at, (lock, thread, action, shared)) in (1..).zip(changes) {
            let action = [Wait, Obtain, Release, GiveUp][action];
            scenario.locks(at, locks[lock as usize], ThreadId(thread), (action, shared));
        }
        let obtained = scenario.events.iter().filter(|(_, event)| {
            matches!(event, Event::Lock(LockEvent { action: Obtain, shared: false, .. }))
        });
        let trace = scenario.read();
        let changes = trace.locks.iter().flat_map(|lock| &lock.events);
        prop_assert_eq!(
            changes.filter(|event| event.change == LockChange::Obtain).count(),
            obtained.count()
        );
    }
}
