//! Hits of probes and functions, calls and pairs.

use super::*;
use syscollect_store::ProbeRole;

#[test]
fn a_hit_is_looked_at_and_a_call_is_timed() {
    let mut recorder =
        Recorder::new(&["large: hit alloc if size > 4096", "slow: function alloc > 5ms"]);
    let probe = |probe, role| ProbeDefinition {
        probe,
        role,
        pair: 1,
        name: "alloc".into(),
        arguments: vec![ProbeArgument { name: "size".into(), size: 8, ..Default::default() }],
        ..ProbeDefinition::default()
    };
    let definitions = vec![probe(1, ProbeRole::FunctionEntry), probe(2, ProbeRole::FunctionExit)];
    recorder.define(&Definition::Probes(definitions));
    recorder.hit(0, 100 * MS, 1, &[4096]);
    recorder.hit(0, 101 * MS, 2, &[0]);
    recorder.hit(0, 110 * MS, 1, &[4097]);
    recorder.hit(0, 120 * MS, 2, &[0]);
    let expected = [
        fired("large", 110 * MS, 7, "alloc was hit in thread 7"),
        fired("slow", 120 * MS, 7, "function alloc took 10.0 ms in thread 7"),
    ];
    assert_eq!(recorder.fired(200 * MS), expected);
}

#[test]
fn a_probe_that_is_recorded_for_two_purposes_is_hit_once() {
    let texts = ["any: hit db:query, pause 0s", "large: hit db:query if size > 4096, pause 0s"];
    let size = || vec![ProbeArgument { name: "size".into(), size: 8, ..Default::default() }];
    let probe = |probe, role, pair, arguments| ProbeDefinition {
        probe,
        role,
        pair,
        arguments,
        name: "db:query".into(),
        path: "/usr/bin/db".into(),
        ..ProbeDefinition::default()
    };
    // As --usdt, where nobody has named its arguments, and as the beginning of a --zone.
    let plain = probe(1, ProbeRole::Point, 0, Vec::new());
    let zone = probe(2, ProbeRole::ZoneBegin, 2, size());
    let elsewhere =
        ProbeDefinition { path: "/opt/db".into(), ..probe(3, ProbeRole::Point, 0, size()) };
    for definitions in [[plain.clone(), zone.clone()], [zone, plain]] {
        let mut recorder = Recorder::new(&texts);
        recorder.define(&Definition::Probes(definitions.to_vec()));
        recorder.define(&Definition::Probes(vec![elsewhere.clone()]));
        recorder.hit(0, 100 * MS, 1, &[]);
        recorder.hit(0, 100 * MS, 2, &[4097]);
        recorder.hit(0, 110 * MS, 3, &[1]);
        let reason = "db:query was hit in thread 7";
        let expected = [
            fired("any", 100 * MS, 7, reason),
            fired("large", 100 * MS, 7, reason),
            fired("any", 110 * MS, 7, reason),
        ];
        assert_eq!(recorder.fired(200 * MS), expected);
    }
}

#[test]
fn a_call_is_of_the_function_that_was_entered_whatever_else_is_probed() {
    let mut recorder =
        Recorder::new(&["sync: function fsync > 5ms", "gc: function collect* > 5ms, pause 0s"]);
    // All functions are of one pair.
    let probe = |probe, name: &str, role| ProbeDefinition {
        probe,
        role,
        pair: 1,
        name: name.into(),
        ..ProbeDefinition::default()
    };
    recorder.define(&Definition::Probes(vec![
        probe(1, "fsync", ProbeRole::FunctionEntry),
        probe(2, "fsync", ProbeRole::FunctionExit),
        probe(3, "collect_young", ProbeRole::FunctionEntry),
        probe(4, "collect_young", ProbeRole::FunctionExit),
        probe(5, "collect_old", ProbeRole::FunctionEntry),
        probe(6, "collect_old", ProbeRole::FunctionExit),
        probe(7, "other", ProbeRole::FunctionEntry),
        probe(8, "other", ProbeRole::FunctionExit),
    ]));
    for (number, entry) in [3, 5, 7].into_iter().enumerate() {
        let at = (100 + 20 * number as u64) * MS;
        recorder.hit(0, at, entry, &[]);
        recorder.hit(0, at + 10 * MS, entry + 1, &[]);
    }
    let expected = [
        fired("gc", 110 * MS, 7, "function collect_young took 10.0 ms in thread 7"),
        fired("gc", 130 * MS, 7, "function collect_old took 10.0 ms in thread 7"),
    ];
    assert_eq!(recorder.fired(200 * MS), expected);
    let events: Vec<u64> = recorder.watcher.statuses().iter().map(|of| of.events).collect();
    assert_eq!(events, [0, 2]);
}

#[test]
fn a_frame_or_a_pair_that_may_have_ended_on_another_thread_or_cpu_is_not_made_longer() {
    for is_left_out in [false, true] {
        let mut recorder = Recorder::new(&["frame > 33ms", "pair work > 33ms"]);
        let probe = |probe, role| ProbeDefinition {
            probe,
            role,
            pair: 1,
            name: "work".into(),
            ..ProbeDefinition::default()
        };
        let definitions = vec![probe(1, ProbeRole::ZoneBegin), probe(2, ProbeRole::ZoneEnd)];
        recorder.define(&Definition::Probes(definitions));
        let mark = Event::Frame { set: 0, phase: FramePhase::Mark };
        recorder.items(&[stamped(100 * MS, mark)]);
        recorder.hit(0, 100 * MS, 1, &[]);
        if is_left_out {
            recorder.left_out(Lane::new(LaneKind::Zone, 1), Some(1));
            recorder.left_out(Lane::new(LaneKind::Probe, 1), None);
        }
        recorder.items(&[stamped(200 * MS, mark)]);
        recorder.hit(0, 200 * MS, 2, &[]);
        assert_eq!(recorder.fired(300 * MS).len(), if is_left_out { 0 } else { 2 });
    }
}

#[test]
fn a_zone_whose_end_was_never_told_is_not_ended_by_that_of_a_later_one() {
    for (nests, unfollowed) in [(None, 0), (Some(false), 0), (Some(true), 2)] {
        let mut recorder = Recorder::new(&["pair work > 33ms, pause 0s"]);
        let probe = |probe, role| ProbeDefinition {
            probe,
            role,
            pair: 1,
            nests,
            name: "work".into(),
            ..ProbeDefinition::default()
        };
        let definitions = vec![probe(1, ProbeRole::ZoneBegin), probe(2, ProbeRole::ZoneEnd)];
        recorder.define(&Definition::Probes(definitions));
        (100..165).for_each(|at| recorder.hit(0, at * MS, 1, &[]));
        for at in (300..350).step_by(10) {
            recorder.hit(0, at * MS, 1, &[]);
            recorder.hit(0, (at + 1) * MS, 2, &[]);
        }
        assert_eq!(recorder.fired(400 * MS), []);
        // Several probes may end it, and all but the first are nobody's end where none nests.
        recorder.hit(0, 400 * MS, 2, &[]);
        assert_eq!(recorder.fired(500 * MS).is_empty(), nests == Some(false));
        assert_eq!(recorder.watcher.unfollowed(), unfollowed);
    }
}
