//! Two machines that did the same: each exporter shows everything of both.

use crate::exported;
use syscollect_exporters::report::{ProcessRow, ReportExporter, ReportOptions, ReportRange};
use syscollect_merge::Recordings;
use syscollect_model::Time;
use syscollect_playback::Recording;
use syscollect_records::task_state;
use syscollect_store::CaptureReader;
use syscollect_tests::reference_capture::{self, Figures};
use syscollect_tests::shown::{self, Viewer, differences, together};
use syscollect_tests::{FIRST_BOOTTIME, FakeMachine, Host, Stacks, tracy_reader};

fn agrees(viewer: Viewer, shown: &Figures) {
    let mut plan = reference_capture::figures_of_two_machines();
    if viewer == Viewer::Tracy {
        // Its file has room for one.
        plan.insert("crashes".to_owned(), 1);
    }
    let shown = together(shown);
    assert_eq!(differences(viewer, &plan, &shown), Vec::<String>::new(), "{shown:#?}");
}

#[test]
fn each_format_shows_both_machines() {
    let capture = reference_capture::capture();
    let (file, cuts) = exported::tracy_and_cuts(exported::twice(&capture));
    assert!(cuts.is_empty(), "{cuts:?}");
    agrees(Viewer::Tracy, &shown::tracy(&file).unwrap());
    agrees(
        Viewer::Firefox,
        &shown::firefox(&exported::firefox(exported::twice(&capture))).unwrap(),
    );
    let report = serde_json::to_vec(&exported::report(exported::twice(&capture))).unwrap();
    agrees(Viewer::Report, &shown::report(&report).unwrap());
    agrees(Viewer::Folded, &shown::folded(&exported::folded(exported::twice(&capture))).unwrap());
    agrees(Viewer::Pprof, &shown::pprof(&exported::pprof(exported::twice(&capture))).unwrap());
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn what_a_machine_does_after_its_recording_is_not_made_up() {
    let report = exported::report(recordings());
    for (pid, host, expected) in [
        (100, "early", (1_000, 0)),
        (200, "sleeper", (990, 1_000)),
        (100, "late on late", (1_000, 0)),
        (200, "on late", (990, 1_000)),
    ] {
        let mut rows = report.processes.rows.iter();
        let row = rows.find(|row| row.pid == pid && row.name.ends_with(host)).unwrap();
        let times = row.activity.times;
        assert_eq!((times.on_cpu_ns / 1_000, times.blocked_ns / 1_000), expected, "{host}");
    }

    // Nor in a part of the time that begins after it.
    let from = Some(Time(FIRST_BOOTTIME + 4 * SECOND));
    let part = Some(ReportRange { from, to: None });
    let mut exporter = ReportExporter::new(ReportOptions { part, ..ReportOptions::default() });
    recordings().play_range(&mut exporter, from, None).unwrap();
    let ran: Vec<_> = exporter.finish().processes.rows.iter().map(ran).collect();
    let ran: Vec<_> = ran.into_iter().filter(|(_, time)| *time > 0).collect();
    assert_eq!(ran, [("late on late".to_owned(), 1_000), ("sleeper on late".to_owned(), 990)]);

    let profile: serde_json::Value =
        serde_json::from_slice(&exported::firefox(recordings())).unwrap();
    for process in ["early", "late on late"] {
        let threads = profile["threads"].as_array().unwrap().iter();
        let threads = threads.filter(|thread| thread["processName"] == process);
        let deltas = threads
            .flat_map(|thread| thread["samples"]["threadCPUDelta"].as_array().unwrap().iter());
        let cpu_time: f64 = deltas.map(|delta| delta.as_f64().unwrap_or(0.0)).sum();
        assert_eq!(cpu_time, 1_000_000.0, "{process}");
    }

    let file = tracy_reader::read(&exported::tracy(recordings())).unwrap();
    let ran: Vec<_> = file.cpus[0].iter().map(|time| time.end - time.start).collect();
    assert_eq!(ran, [990_000, 1_000_000]);
    let folded = exported::off_cpu(recordings());
    assert_eq!(folded, "sleeper on late;[no stack] 1000\nsleeper;[no stack] 1000\n");
}

fn recordings() -> Recordings {
    let readers = [("early", 0), ("late", 5 * SECOND)].map(|(name, booted_late)| {
        let mut machine = FakeMachine::with_host(1, Host { name, booted_late, filter_pids: &[] });
        machine.process(100, 1, name, &[]);
        machine.process(200, 1, "sleeper", &[]);
        machine.switch(0, 10, task_state::RUNNABLE, 200);
        machine.switch(0, 1_000, task_state::INTERRUPTIBLE, 100);
        // The last that is known: it runs, and the other sleeps.
        machine.clock(2_000);
        machine.sample(0, 2_000, 100, Stacks::default(), 0);
        CaptureReader::from_bytes(machine.finish()).unwrap()
    });
    Recordings::open(readers.into(), &|| false).unwrap()
}

fn ran(row: &ProcessRow) -> (String, u64) {
    (row.name.clone(), row.activity.times.on_cpu_ns / 1_000)
}
