//! What machines do seldom: every format shows it as it was.

use crate::exported;
use syscollect_tests::reference_capture::{self, Figures};
use syscollect_tests::shown::{self, Viewer, differences};

fn shown(viewer: Viewer, capture: &[u8]) -> Figures {
    match viewer {
        Viewer::Tracy => shown::tracy(&exported::tracy(exported::open(capture))).unwrap(),
        Viewer::Firefox => shown::firefox(&exported::firefox(exported::open(capture))).unwrap(),
        _ => {
            shown::report(&serde_json::to_vec(&exported::report(exported::open(capture))).unwrap())
                .unwrap()
        }
    }
}

#[test]
fn what_is_awkward_comes_out_right_in_each() {
    for case in reference_capture::cases() {
        for viewer in [Viewer::Tracy, Viewer::Firefox, Viewer::Report] {
            let shown = shown(viewer, &case.capture);
            let mut plan = case.figures(viewer);
            // The report counts messages by name, and these are their texts.
            plan.retain(|name, _| viewer != Viewer::Report || !name.starts_with("message "));
            let wrong: Vec<String> =
                differences(viewer, &plan, &shown).into_iter().map(brief).collect();
            let all: Vec<String> =
                shown.iter().map(|(name, count)| brief(format!("{name}: {count}"))).collect();
            assert!(
                wrong.is_empty(),
                "{} in {}: {wrong:#?}\nof {all:#?}",
                case.name,
                viewer.name()
            );
        }
    }
}

fn brief(what: String) -> String {
    what.chars().take(300).collect::<String>()
}

#[test]
fn a_process_that_started_before_and_ended_after_has_no_start_no_end_and_no_invented_time() {
    let case = reference_capture::cases()
        .into_iter()
        .find(|case| case.name.contains("started before"))
        .unwrap();
    // It ran until 10 µs, slept, and runs from 30 µs on; the first event is a sample at 5 µs, the
    // last one at 50 µs.
    let trace = exported::read_tracy(&case.capture);
    let runs = &trace.switches[&220];
    assert_eq!(
        runs.iter().map(|run| (run.end < 0, run.state)).collect::<Vec<_>>(),
        [(false, 104), (true, -1)]
    );
    assert_eq!((runs[0].end - runs[0].start, runs[1].start - runs[0].end), (5_000, 20_000));
    assert_eq!(
        (runs[1].start - runs[1].wakeup, trace.header.last_time - runs[1].start),
        (5_000, 20_000)
    );

    let profile = exported::read_firefox(&case.capture);
    let thread = profile.named("always").next().unwrap();
    assert_eq!(
        (&thread["registerTime"], &thread["unregisterTime"]),
        (&0.0.into(), &serde_json::Value::Null)
    );
    assert_eq!(
        (&thread["processStartupTime"], &thread["processShutdownTime"]),
        (&0.0.into(), &serde_json::Value::Null)
    );
    let cpu = thread["samples"]["threadCPUDelta"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(serde_json::Value::as_u64)
        .sum::<u64>();
    assert_eq!(cpu, 25_000);

    let report = exported::report(exported::open(&case.capture));
    let times = report.threads.rows.iter().find(|row| row.name == "always").unwrap().activity.times;
    assert_eq!(
        (times.on_cpu_ns, times.blocked_ns, times.waiting_ns, times.unknown_ns),
        (25_000, 15_000, 5_000, 0)
    );
}
