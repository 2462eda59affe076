//! Locks.

use crate::story::Story;
use proptest::prelude::*;
use syscollect_model::LockAction::{GiveUp, Obtain, Release, Wait};
use syscollect_model::{Event, LockEvent, ThreadId};
use syscollect_tests::tracy_reader::{LockStep, SourceLocation};

#[test]
fn a_lock_is_waited_for_obtained_and_released_by_its_threads() {
    let mut story = Story::new(1);
    let process = story.process(5, "app");
    let [main, worker] =
        [(5, "main"), (6, "worker")].map(|(tid, name)| story.thread(process, tid, name));
    let (made, used) =
        (story.location("new", "queue.rs", 3), story.location("push", "queue.rs", 30));
    let lock = story.lock(process, "queue", Some(made));
    let action = |thread, action, location| {
        Event::Lock(LockEvent { lock, thread, action, shared: false, location })
    };
    story.at(10, action(main, Wait, None));
    story.at(11, action(main, Obtain, Some(used)));
    story.at(20, action(worker, Wait, None));
    story.at(30, action(main, Release, None));
    story.at(31, action(worker, Obtain, None));
    story.at(40, action(worker, Release, None));
    let trace = story.read();

    let [lock] = &trace.locks[..] else { panic!("{:?}", trace.locks) };
    let place = |function: &str, line| SourceLocation {
        function: function.into(),
        file: "queue.rs".into(),
        line,
        ..SourceLocation::default()
    };
    assert_eq!(
        (lock.name.as_deref(), &lock.location, lock.shared),
        (Some("queue"), &place("new", 3), false)
    );
    let events: Vec<_> =
        lock.events.iter().map(|event| (event.time, event.thread, event.step)).collect();
    // The first event is at the file's time 1.
    let expected = [
        (1, 5, LockStep::Wait),
        (2, 5, LockStep::Obtain),
        (11, 6, LockStep::Wait),
        (21, 5, LockStep::Release),
        (22, 6, LockStep::Obtain),
        (31, 6, LockStep::Release),
    ];
    assert_eq!(events, expected);
    let used: Vec<_> = lock.events.iter().filter_map(|event| event.location.clone()).collect();
    assert_eq!(used, [place("push", 30)]);
}

#[test]
fn readers_share_a_lock() {
    let mut story = Story::new(1);
    let process = story.process(5, "app");
    let [one, two] = [5, 6].map(|tid| story.thread(process, tid, "reader"));
    let lock = story.lock(process, "map", None);
    story.locks(1, lock, one, (Obtain, true));
    story.locks(2, lock, two, (Obtain, true));
    story.locks(3, lock, one, (Release, true));
    let trace = story.read();
    let steps: Vec<_> =
        trace.locks[0].events.iter().map(|event| (event.thread, event.step)).collect();
    use LockStep::{ObtainShared, ReleaseShared, WaitShared};
    let expected = [
        (5, WaitShared),
        (5, ObtainShared),
        (6, WaitShared),
        (6, ObtainShared),
        (5, ReleaseShared),
    ];
    assert_eq!((trace.locks[0].shared, &steps[..]), (true, &expected[..]));
}

#[test]
fn who_gives_up_says_so() {
    let mut story = Story::new(1);
    let thread = story.task(5, "app");
    let process = story.tables.thread(thread).process;
    let lock = story.lock(process, "queue", None);
    story.locks(1, lock, thread, (Wait, false));
    story.locks(2_001, lock, thread, (GiveUp, false));
    let trace = story.read();
    assert!(trace.locks.is_empty(), "a lock without events would be looked into");
    assert_eq!(trace.messages[0].text, "gives up on lock queue after 2 µs");
}

#[test]
fn threads_beyond_the_64th_of_a_lock_are_told() {
    let mut story = Story::new(1);
    let process = story.process(5, "app");
    let lock = story.lock(process, "hot", None);
    for tid in 0..66u32 {
        let thread = story.thread(process, 5 + tid, "worker");
        story.locks(1 + u64::from(tid), lock, thread, (Wait, false));
    }
    let (trace, cuts) = story.read_cut();
    assert_eq!(trace.locks[0].threads.len(), 64);
    assert!(cuts[0].starts_with("2 events of locks by threads beyond the first 64"), "{cuts:?}");
}

proptest! {
    /// The reader follows every lock as the viewer does.
    #[test]
    fn whatever_threads_do_to_a_lock_its_history_can_have_happened(
        steps in prop::collection::vec((0u32..2, 1u32..4, 0usize..4, any::<bool>()), 1..60),
    ) {
        let mut story = Story::new(1);
        let process = story.process(5, "app");
        (5..8).for_each(|tid| { story.thread(process, tid, "t"); });
        let locks = ["a", ""].map(|name| story.lock(process, name, None));
        for (at, (lock, thread, action, shared)) in (1..).zip(steps) {
            let action = [Wait, Obtain, Release, GiveUp][action];
            story.locks(at, locks[lock as usize], ThreadId(thread), (action, shared));
        }
        let obtained = story.events.iter().filter(|(_, event)| {
            matches!(event, Event::Lock(LockEvent { action: Obtain, shared: false, .. }))
        });
        let trace = story.read();
        let steps = trace.locks.iter().flat_map(|lock| &lock.events);
        prop_assert_eq!(steps.filter(|event| event.step == LockStep::Obtain).count(), obtained.count());
    }
}
