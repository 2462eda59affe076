//! A sample that was lost says nothing of what ran: each exporter shows the same runs with it and
//! without it.

use crate::firefox_reader::Profile;
use crate::replay::replay;
use crate::scenario::{self, IDLE, Scenario, off};
use syscollect_exporters::report::{ReportExporter, ReportOptions};
use syscollect_exporters::{
    FirefoxExporter, FirefoxOptions, FoldedExporter, PerfettoExporter, StackKind, StackOptions,
    TextExporter,
};
use syscollect_model::{CpuId, Event, LaneKind, Loss, LossCause, LossOrigin, SleepState, Time};

/// A thread runs for 10 ms and then sleeps; in the middle, something of its CPU is lost.
fn scenario(lost: Option<LossOrigin>, cpu: Option<u32>) -> Scenario {
    let mut scenario = Scenario::new();
    let (_, thread) = scenario.process(10, 1, "a", &[]);
    scenario.switch(0, IDLE, off(SleepState::Runnable), thread);
    scenario.wait(4_999);
    let since = Time(scenario.time);
    scenario.wait(1);
    if let Some(origin) = lost {
        let (cause, between) = (LossCause::Nested, Some((since, Time(scenario.time))));
        scenario.events.push((
            Time(scenario.time),
            Event::Loss(Loss {
                origin,
                cpu: cpu.map(CpuId::new),
                cause,
                user: None,
                count: 1,
                between,
            }),
        ));
    }
    scenario.wait(4_999);
    scenario.switch(0, thread, off(SleepState::Interruptible), IDLE);
    scenario.wait(9_999);
    scenario.switch(0, IDLE, off(SleepState::Runnable), thread);
    scenario
}

/// What every exporter says of runs, as text.
fn runs(scenario: &Scenario) -> [(&'static str, String); 5] {
    let session = scenario::session();
    let mut perfetto = PerfettoExporter::new(Vec::new());
    scenario.play(&mut perfetto, &session, &[], None).unwrap();
    let switches = replay(&perfetto.finish().unwrap()).switches;

    let options = FirefoxOptions { sched_markers: true, ..FirefoxOptions::default() };
    let mut firefox = FirefoxExporter::new(Vec::new(), options);
    scenario.play(&mut firefox, &session, &[], None).unwrap();
    let profile = Profile::read(&firefox.finish().unwrap());
    let thread = profile.thread("10");
    let markers: Vec<_> =
        profile.thread_markers(thread).iter().map(|marker| (marker.start, marker.end)).collect();

    let mut report = ReportExporter::new(ReportOptions::default());
    let Ok(()) = scenario.play(&mut report, &session, &[], None);
    let report = report.finish();

    let mut folded = FoldedExporter::new(
        Vec::new(),
        StackOptions { kind: StackKind::OffCpu, ..StackOptions::default() },
    );
    scenario.play(&mut folded, &session, &[], None).unwrap();

    let mut text = TextExporter::new(Vec::new());
    scenario.play(&mut text, &session, &[], None).unwrap();
    let text = String::from_utf8(text.finish().unwrap()).unwrap();
    let text = text.lines().filter(|line| !line.contains("lost")).collect::<Vec<_>>().join("\n");

    [
        ("Perfetto", format!("{switches:?}")),
        ("Firefox", format!("{:?} {markers:?}", profile.samples(thread))),
        ("report", format!("{:?} {:?}", report.cpus, report.threads)),
        ("off-CPU stacks", String::from_utf8(folded.finish().unwrap()).unwrap()),
        ("text", text),
    ]
}

#[test]
fn a_lost_sample_changes_no_run() {
    let whole = runs(&scenario(None, None));
    for cpu in [Some(0), None] {
        assert_eq!(runs(&scenario(Some(LaneKind::Sample.into()), cpu)), whole, "of CPU {cpu:?}");
    }
}

#[test]
fn a_lost_switch_makes_the_runs_of_its_cpu_unknown_and_of_every_cpu_where_none_is_told() {
    let whole = runs(&scenario(None, None));
    for (origin, cpu) in [
        (LossOrigin::Lane(LaneKind::Sched), Some(0)),
        (LossOrigin::Lane(LaneKind::Sched), None),
        (LossOrigin::Buffers, None),
    ] {
        let lost = runs(&scenario(Some(origin.clone()), cpu));
        for ((exporter, lost), (_, whole)) in lost.iter().zip(&whole).take(3) {
            assert_ne!(lost, whole, "{exporter}, {origin:?} of CPU {cpu:?}");
        }
    }
}
