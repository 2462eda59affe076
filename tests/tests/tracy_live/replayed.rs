//! The reference capture, told to viewers that come early, late, twice, or read slowly.

use crate::connection::{connect, end, exchange};
use crate::expected::{Both, Expected, functions, zones};
use syscollect_exporters::TracyLive;
use syscollect_playback::Recording as _;
use syscollect_tests::tracy_viewer::{ReceivedTimeline, ReceivedZone, StrictViewer};
use syscollect_tests::{golden, reference_capture};
use syscollect_tracy_protocol::{Event, Limits};

/// Both lists are the same; else the first that differs is told.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, seen: &[T], expected: &[T]) {
    let differs = seen.iter().zip(expected).position(|(seen, expected)| seen != expected);
    let at = differs.unwrap_or(seen.len().min(expected.len()));
    assert!(
        seen == expected,
        "{what} {at} of {} seen and {} expected: {:?} and {:?}",
        seen.len(),
        expected.len(),
        seen.get(at),
        expected.get(at)
    );
}

/// What a viewer saw from a time on is what there was from then on.
fn compare(seen: &ReceivedTimeline, expected: &Expected, joined: i64) {
    let after = |time: i64| time > joined;
    // Going from idle to idle is no switch to the viewer.
    let mut running = std::collections::BTreeMap::new();
    let mut switches = expected.switches.clone();
    switches.retain(|(_, cpu, next)| {
        let before = running.insert(*cpu, *next).unwrap_or(0);
        (before, *next) != (0, 0)
    });
    switches.retain(|(time, ..)| after(*time));
    let seen_switches = seen.switches.iter().map(|switch| (switch.time, switch.cpu, switch.new));
    let seen_switches: Vec<_> = seen_switches.filter(|(time, ..)| after(*time)).collect();
    same("switch", &seen_switches, &switches);
    let wakeups = expected.wakeups.iter().filter(|(time, _)| after(*time));
    let seen_wakeups = seen.wakeups.iter().map(|(time, thread, _)| (*time, *thread));
    let seen_wakeups: Vec<_> = seen_wakeups.filter(|(time, _)| after(*time)).collect();
    same("wakeup", &seen_wakeups, &wakeups.copied().collect::<Vec<_>>());
    let samples = expected.samples.iter().filter(|(time, _)| after(*time));
    let seen_samples =
        seen.samples.iter().filter(|(time, .., of_switch)| after(*time) && !of_switch);
    let seen_samples = seen_samples.map(|(time, _, stack, _)| (*time, functions(seen, stack)));
    let seen_samples: Vec<_> = seen_samples.collect();
    same("sample", &seen_samples, &samples.cloned().collect::<Vec<_>>());

    let mut wanted: Vec<_> =
        expected.zones.iter().filter(|(_, end, _)| end.is_none_or(after)).cloned().collect();
    // What was open then is told as it began, as far as that is not long ago.
    wanted.sort();
    let mut told = zones(seen);
    told.retain(|(_, end, _)| end.is_none_or(after));
    told.sort();
    same("zone", &told, &wanted);
    let values = expected.values.iter().filter(|(time, _)| after(*time)).copied();
    let told = seen.plots.iter().map(|(time, _, value)| (*time, *value));
    let told = told.filter(|(time, _)| after(*time));
    same("value", &told.collect::<Vec<_>>(), &values.collect::<Vec<_>>());
    for (time, text) in expected.messages.iter().filter(|(time, _)| after(*time)) {
        let mut at_that_time = seen.messages.iter().filter(|message| message.time == *time);
        assert!(at_that_time.any(|message| message.text.starts_with(text)), "{text} at {time}");
    }
    let frames = expected.frames.iter().filter(|time| after(**time)).count();
    let told = seen.frame_times.iter().filter(|(_, time, _)| after(*time)).count();
    assert_eq!(told, frames);
    assert_eq!(seen.jobs.len(), expected.jobs.iter().filter(|time| after(**time)).count());
}

#[test]
fn a_viewer_from_the_beginning_on_sees_what_there_is() {
    let mut viewer = None;
    let mut both = Both::new(|events: u64, live: &mut TracyLive| {
        let viewer = viewer.get_or_insert_with(|| connect(live));
        if events.is_multiple_of(97) {
            exchange(live, viewer, 1_000);
        }
    });
    golden::open(reference_capture::capture()).play(&mut both).unwrap();
    let Both { mut live, expected, .. } = both;
    let mut viewer = viewer.unwrap();
    end(&mut live, &mut viewer);
    let seen = viewer.seen();
    compare(seen, &expected, viewer.welcome().unwrap().joined);
    // And it is what was planned, by hand.
    let figures = reference_capture::figures();
    let of_cpus = seen.samples.iter().filter(|(.., of_switch)| !of_switch).count() as u64;
    assert_eq!(of_cpus, figures["samples"]);
    assert_eq!(seen.wakeups.len() as u64, figures["wakeups"]);
    for name in ["handle", "query", "render", "loop", "fetch", "decode", "gc", "work", "Write"] {
        let zones = seen.zones.iter().filter(|zone| seen.zone_name(zone) == name).count();
        assert_eq!(zones as u64, figures[&format!("zone {name}")], "{name}");
    }
    let held = seen.locks.iter().filter(|event| [1, 4].contains(&event.kind)).count() as u64;
    assert!(held >= figures["times that cache was held"]);
    assert_eq!(seen.memory.len() as u64, figures["allocations"]);
    let left = seen.memory.iter().filter(|memory| memory.freed.is_none());
    assert_eq!(left.map(|memory| memory.size).sum::<u64>(), figures["bytes held"]);
    assert_eq!(u64::from(seen.crash.is_some()), figures["crashes"]);
    assert_eq!(seen.threads[&101].label, "server / worker");
    assert_eq!((&*seen.threads[&101].process, &*seen.threads[&101].name), ("server", "worker"));
    assert_eq!((seen.pids[&101], seen.groups[&101]), (100, 100));
    assert_eq!(seen.topology.len(), 2);
}

#[test]
fn who_comes_later_and_comes_back_sees_what_is_open_and_what_follows() {
    for first in [1, 500, 1_234, 2_000] {
        let mut viewer: Option<StrictViewer> = None;
        let mut both = Both::new(|events: u64, live: &mut TracyLive| {
            // One comes, is gone without a word, and another one comes.
            if events == first || events == first + 300 {
                viewer = Some(connect(live));
            } else if events == first + 200 {
                viewer = None;
                live.session().disconnect();
            }
            if let Some(viewer) = &mut viewer
                && events.is_multiple_of(50)
            {
                exchange(live, viewer, 100_000);
            }
        });
        golden::open(reference_capture::capture()).play(&mut both).unwrap();
        let Both { mut live, expected, .. } = both;
        let mut viewer = viewer.unwrap();
        end(&mut live, &mut viewer);
        let joined = viewer.welcome().unwrap().joined;
        compare(viewer.seen(), &expected, joined);
        let first_value = viewer.seen().plots.first();
        assert!(first_value.is_some_and(|(time, ..)| *time == joined), "plots as they are");
    }
}

#[test]
fn a_slow_viewer_misses_the_oldest_and_is_told_so_and_nothing_contradicts() {
    let limits = Limits { waiting: 60_000, output: 3_000, ..Limits::default() };
    let mut viewer = None;
    let mut both = Both::new(|events: u64, live: &mut TracyLive| {
        let viewer = viewer.get_or_insert_with(|| connect(live));
        // It reads a little of what there is, now and then.
        if events.is_multiple_of(40) {
            let session = live.session();
            session.pump();
            let piece = session.output().len().min(60);
            viewer.receive(&session.output()[..piece]).unwrap();
            session.sent(piece);
        }
        assert!(live.session().output().len() < 300_000, "what is not sent has a bound");
    });
    both.live = TracyLive::new(limits);
    golden::open(reference_capture::capture()).play(&mut both).unwrap();
    let Both { mut live, expected, .. } = both;
    let mut viewer = viewer.unwrap();
    let left_out = live.session().counts().left_out;
    assert!(left_out > 100, "{left_out} events were left out");
    end(&mut live, &mut viewer);
    let seen = viewer.seen();
    let said: u64 = seen
        .messages
        .iter()
        .filter_map(|message| {
            message.text.strip_suffix(" events are missing before this: the viewer was too slow")
        })
        .map(|count| count.parse::<u64>().unwrap())
        .sum();
    assert_eq!(said, left_out);
    // A zone whose end is among them says that it has another one.
    let right_ends: Vec<i64> = expected.zones.iter().filter_map(|(_, end, _)| *end).collect();
    let zones = seen.zones.iter().filter(|zone| zone.end.is_some());
    let (right, other): (Vec<_>, Vec<_>) =
        zones.partition(|zone| zone.end.is_some_and(|end| right_ends.contains(&end)));
    let last = seen.zones.iter().filter_map(|zone| zone.end).max();
    let says = |zone: &ReceivedZone| {
        zone.text.as_deref() == Some("it ended before this: events are missing")
    };
    assert!(right.iter().any(|zone| !says(zone)), "{right:?}");
    let lost: Vec<_> = other.iter().filter(|zone| zone.end != last).collect();
    assert!(!lost.is_empty() && lost.iter().all(|zone| says(zone)), "{lost:?}");
    // The newest are there.
    let last = expected.switches.iter().rev().find(|(.., next)| *next != 0).unwrap();
    assert!(seen.switches.iter().any(|switch| (switch.time, switch.new) == (last.0, last.2)));
}

#[test]
fn other_captures_contradict_nothing_either() {
    for case in reference_capture::cases() {
        let mut viewer = None;
        let mut both = Both::new(|_: u64, live: &mut TracyLive| {
            let viewer = viewer.get_or_insert_with(|| connect(live));
            exchange(live, viewer, 1 << 20);
        });
        golden::open(case.capture.clone()).play(&mut both).unwrap();
        let Both { mut live, .. } = both;
        if let Some(mut viewer) = viewer {
            end(&mut live, &mut viewer);
        }
    }
}

#[test]
fn who_was_woken_while_nobody_looked_is_told_as_woken_once_that_is_seen() {
    let mut live = TracyLive::default();
    let woken = || Event::Wakeup { cpu: 1, thread: 7 };
    live.session().tell(5_000_000_000, woken());
    let mut viewer = connect(&mut live);
    exchange(&mut live, &mut viewer, 1_000);
    assert!(viewer.seen().wakeups.is_empty(), "it may have run unseen");
    live.session().tell(6_000_000_000, woken());
    exchange(&mut live, &mut viewer, 1_000);
    assert_eq!(viewer.seen().wakeups, [(6_000_000_000, 7, 1)]);
}
