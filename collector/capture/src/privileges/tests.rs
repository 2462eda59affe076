use super::*;

/// What a thread of its own sees, as no thread can take back what it gave up.
fn in_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::spawn(work).join().unwrap()
}

fn held() -> CapabilitySets {
    thread::capabilities(None).unwrap()
}

#[test]
fn each_stage_needs_less_than_the_one_before() {
    assert!(all(Stage::Recording).contains(all(Stage::Naming)));
    assert!(all(Stage::Naming).contains(all(Stage::Exporting)));
    assert!(all(Stage::Recording).contains(all(Stage::Waiting)));
    assert!(all(Stage::Recording).contains(all(Stage::Attaching)));
    assert_eq!(all(Stage::Exporting), FILES);
    assert_eq!(all(Stage::Waiting), ACCOUNTS);
}

fn all(stage: Stage) -> CapabilitySet {
    stage.standing() | stage.at_times()
}

#[test]
fn a_thread_keeps_only_what_it_has_and_its_stage_needs_and_never_gets_more() {
    for stage in
        [Stage::Recording, Stage::Attaching, Stage::Naming, Stage::Exporting, Stage::Waiting]
    {
        let before = held();
        let (after, again, inherited) = in_a_thread(move || {
            keep(stage).unwrap();
            let after = held();
            keep(Stage::Recording).unwrap();
            (after, held(), in_a_thread(|| thread::no_new_privs().unwrap()))
        });
        assert!(
            before.effective.contains(after.effective)
                && stage.standing().contains(after.effective),
            "{stage:?}"
        );
        assert_eq!(
            after.permitted,
            before.permitted & (stage.standing() | stage.at_times()),
            "{stage:?}"
        );
        assert_eq!(again.permitted, after.permitted, "{stage:?}: something came back");
        assert!(inherited, "threads started later could get more by running programs");
    }
}

#[test]
fn files_of_others_are_written_only_meanwhile() {
    let (before, meanwhile, after) = in_a_thread(|| {
        keep(Stage::Exporting).unwrap();
        let before = held();
        let meanwhile = {
            let _writing = WritingFiles::begin();
            held()
        };
        (before, meanwhile, held())
    });
    assert_eq!(before.effective, CapabilitySet::empty());
    assert_eq!(meanwhile.effective, before.permitted & FILES, "all of it where root runs this");
    assert_eq!(after, before);
}

#[test]
fn who_waits_writes_no_files() {
    let before = held();
    let meanwhile = in_a_thread(|| {
        keep(Stage::Waiting).unwrap();
        let _writing = WritingFiles::begin();
        held()
    });
    assert_eq!(meanwhile.permitted, before.permitted & ACCOUNTS);
}

#[test]
fn nobody_becomes_a_user_while_a_thread_may_not() {
    let (ready, go) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
    let waiting = std::thread::spawn(move || {
        keep(Stage::Exporting).unwrap();
        ready.0.send(()).unwrap();
        let _ = go.1.recv();
    });
    ready.1.recv().unwrap();
    // The C library would abort the process.
    assert_eq!(become_user(54_321, 54_321).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    drop(go.0);
    waiting.join().unwrap();
}
