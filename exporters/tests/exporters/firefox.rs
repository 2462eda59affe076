//! Profiles for the Firefox Profiler, read back and compared with what was told.

use crate::firefox_reader::{Frame, Profile};
use crate::scenario::{self, IDLE, Scenario, off, preempted};
use flate2::read::GzDecoder;
use proptest::prelude::*;
use std::io::Read;
use syscollect_exporters::{FirefoxExporter, FirefoxOptions};
use syscollect_model::{
    CpuId, Event, OffCpu, Sample, Scope, SessionInfo, SleepState, Switch, Tables, ThreadId,
};

fn export(scenario: &Scenario, session: &SessionInfo, options: FirefoxOptions) -> Vec<u8> {
    let mut exporter = FirefoxExporter::new(Vec::new(), options);
    scenario.play(&mut exporter, session, &scenario::losses(), Some(&scenario::summary())).unwrap();
    let expected = exporter.expected_bytes();
    let file = exporter.finish().unwrap();
    assert!(
        file.len() as u64 / 4 < expected && expected < file.len() as u64 * 4,
        "{expected} of {}",
        file.len()
    );
    file
}

fn plain(scenario: &Scenario) -> Profile {
    Profile::read(&export(scenario, &scenario::session(), FirefoxOptions::default()))
}

fn frame(function: &str, category: &str, lib: Option<&str>) -> Frame {
    Frame {
        function: function.into(),
        category: category.into(),
        lib: lib.map(Into::into),
        place: None,
        inline_depth: 0,
    }
}

#[test]
fn samples_keep_their_functions_files_lines_and_inlining() {
    let profile = plain(&scenario::scenario());
    let compiler = profile.samples(profile.thread("200"));
    let stacks: Vec<&[Frame]> =
        compiler.iter().filter(|sample| sample.on_cpu()).map(|s| &s.stack[..]).collect();
    let named = [
        Frame { place: parse_line(10), inline_depth: 1, ..frame("next_token", "User", Some("cc")) },
        Frame { place: parse_line(30), ..frame("parse<T>", "User", Some("cc")) },
        frame("main", "User", Some("cc")),
    ];
    let unnamed = [frame("0x7f00deadbeef", "User", None), frame("0x9999", "User", Some("cc"))];
    assert_eq!(stacks, [&named[..], &named, &unnamed, &[frame("[no stack]", "User", None)]]);

    let idle = profile.samples(profile.thread("0"));
    assert_eq!(idle.len(), 1);
    let read = frame("ext4_file_read_iter", "Kernel", Some("[kernel.kallsyms]"));
    assert_eq!(idle[0].stack, [read, frame("main", "User", Some("cc"))]);
}

fn parse_line(line: u64) -> Option<(String, u64)> {
    Some(("/src/parse.c".to_owned(), line))
}

#[test]
fn cpu_time_is_that_of_the_switches() {
    let mut scenario = Scenario::new();
    let (_, one) = scenario.process(7, 1, "one", &[]);
    scenario.switch(0, IDLE, off(SleepState::Runnable), one);
    scenario.wait(4_999);
    scenario.then(Event::Sample(Sample {
        cpu: CpuId::new(0),
        thread: one,
        stack: None,
        in_kernel: false,
    }));
    scenario.wait(999);
    scenario.switch(0, one, preempted(), IDLE);
    scenario.wait(9_999);
    scenario.switch(0, IDLE, off(SleepState::Runnable), one);
    scenario.wait(1_999);
    scenario.switch(0, one, off(SleepState::Dead), IDLE);
    let profile = plain(&scenario);
    let samples = profile.samples(profile.thread("7"));
    let rows: Vec<(f64, u64, u64, &str)> = samples
        .iter()
        .map(|sample| {
            let function = sample.stack.first().map_or("", |frame| &frame.function);
            ((sample.time * 1e3).round() / 1e3, sample.cpu_ns / 1_000_000, sample.weight, function)
        })
        .collect();
    // 10 ms off the CPU at 999 Hz are nine whole intervals.
    let waits = "waits for a CPU";
    let expected =
        [(5.0, 5, 1, "[no stack]"), (6.0, 1, 1, waits), (16.0, 0, 8, waits), (18.0, 2, 0, "")];
    assert_eq!(rows, expected);
}

#[test]
fn where_no_switch_was_recorded_each_sample_counts_one_interval() {
    let mut scenario = Scenario::new();
    let (_, one) = scenario.process(7, 1, "one", &[]);
    for _ in 0..3 {
        scenario.then(Event::Sample(Sample {
            cpu: CpuId::new(0),
            thread: one,
            stack: None,
            in_kernel: false,
        }));
        scenario.wait(90_000);
    }
    let session = SessionInfo { sample_rate_hz: 1000, ..scenario::session() };
    let profile = Profile::read(&export(&scenario, &session, FirefoxOptions::default()));
    let times: Vec<u64> =
        profile.samples(profile.thread("7")).iter().map(|sample| sample.cpu_ns).collect();
    assert_eq!(times, [1_000_000; 3]);
}

#[test]
fn a_thread_that_was_not_seen_to_leave_does_not_run_on() {
    let mut scenario = Scenario::new();
    let (_, one) = scenario.process(7, 1, "one", &[]);
    let (_, two) = scenario.process(8, 1, "two", &[]);
    scenario.switch(0, IDLE, off(SleepState::Runnable), one);
    scenario.wait(2_999);
    scenario.then(Event::Sample(Sample {
        cpu: CpuId::new(0),
        thread: one,
        stack: None,
        in_kernel: false,
    }));
    scenario.wait(5_000);
    scenario.switch(0, two, off(SleepState::Interruptible), IDLE);
    scenario.wait(9_000);
    let profile = plain(&scenario);
    for (tid, cpu_ns) in [("7", 3_000_000), ("8", 0)] {
        let samples = profile.samples(profile.thread(tid));
        assert_eq!(samples.iter().map(|sample| sample.cpu_ns).sum::<u64>(), cpu_ns, "{tid}");
    }
}

#[test]
fn why_a_thread_waits_is_the_innermost_frame_of_what_it_left() {
    let mut scenario = Scenario::new();
    let (_, reader) = scenario.process(7, 1, "reader", &[]);
    let kernel = scenario.frame(None, 0xffff_ffff_8100_0000, Some("read_page"));
    let stack = Some(scenario.tables.intern_stack(&[kernel]));
    scenario.switch(
        0,
        reader,
        OffCpu { io_wait: true, stack, ..off(SleepState::Uninterruptible) },
        IDLE,
    );
    scenario.wait(50_000);
    scenario.wakeup(0, IDLE, reader, None);
    scenario.wait(10_000);
    scenario.switch(0, IDLE, off(SleepState::Runnable), reader);
    let profile = plain(&scenario);
    let samples = profile.samples(profile.thread("7"));
    let stacks: Vec<Vec<&str>> =
        samples.iter().map(|s| s.stack.iter().map(|frame| &frame.function[..]).collect()).collect();
    let (waits, ready) = (vec!["waits for I/O", "read_page"], vec!["waits for a CPU", "read_page"]);
    // One row where the thread left, and one for all the rest where that ended.
    assert_eq!(stacks, [waits.clone(), waits, ready.clone(), ready]);
    let categories: Vec<&str> = samples[0].stack.iter().map(|frame| &frame.category[..]).collect();
    assert_eq!(categories, ["Off-CPU", "Kernel"]);
    assert_eq!(samples.iter().map(|sample| sample.weight).collect::<Vec<_>>(), [1, 48, 1, 9]);
}

#[test]
fn an_id_used_twice_is_two_threads_of_two_processes() {
    let profile = plain(&scenario::scenario());
    for (id, name) in [("200", "sh"), ("200.1", "ld")] {
        let thread = profile.thread(id);
        assert_eq!((&thread["pid"], &thread["processName"]), (&id.into(), &name.into()));
    }
    assert!(
        profile.thread("200.1")["registerTime"].as_f64()
            > profile.thread("200")["registerTime"].as_f64()
    );
}

#[test]
fn counters_add_up_to_their_values() {
    let profile = plain(&scenario::scenario());
    let values =
        |name| profile.counter(name).iter().map(|(_, value)| rounded(*value)).collect::<Vec<_>>();
    assert_eq!(values("CPU 1 frequency (kHz)"), [0.0, 2_400_000.0]);
    assert_eq!(values("CPU 1 usage"), [0.0, 0.625, 0.01]);
    assert_eq!(values("memory"), [0.0, 1e9]);
    let counters = profile.json["counters"].as_array().unwrap();
    let resident = counters.iter().find(|counter| counter["name"] == "resident").unwrap();
    assert_eq!(resident["pid"], "100", "a process's counter lies under it");
}

fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[test]
fn slices_instants_and_losses_are_markers() {
    let profile = plain(&scenario::scenario());
    for (kind, expected) in [("mark", &["mark"][..]), ("zone", &["inner", "outer"])] {
        let names: Vec<&str> = profile.markers(kind).iter().map(|(name, _)| *name).collect();
        assert_eq!(names, expected, "in the order in which they ended");
    }
    let losses = profile.markers("loss");
    assert_eq!(losses.len(), 1);
    assert_eq!((&losses[0].1["count"], &losses[0].1["reason"]), (&40.into(), &"lane-full".into()));
    let extra = profile.json["meta"]["extra"].as_array().unwrap();
    let lost = extra.iter().find(|section| section["label"] == "Lost records").unwrap();
    let sum: u64 = lost["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["value"].as_u64().unwrap())
        .sum();
    assert_eq!(sum, 40 + 2 + 5 + 7, "the panel has every loss exactly");
}

#[test]
fn a_slice_that_never_ends_has_a_start_only() {
    let mut scenario = Scenario::new();
    let (_, thread) = scenario.process(7, 1, "one", &[]);
    let track = scenario.track(Scope::Thread(thread), "zones", None);
    let name = scenario.name("endless");
    scenario.then(Event::SliceEnd(track));
    scenario.then(Event::SliceBegin(track, name.into()));
    let profile = plain(&scenario);
    assert_eq!(profile.markers("zone").len(), 1, "an end without a beginning is none");
    assert_eq!(profile.thread("7")["markers"]["phase"][0], 2);
}

#[test]
fn every_switch_and_wakeup_is_a_marker_only_when_asked_for() {
    let scenario = scenario::scenario();
    let left = scenario
        .events
        .iter()
        .filter(|(_, event)| matches!(event, Event::Switch(Switch { previous: Some(thread), .. }) if *thread != IDLE));
    let woken = scenario.events.iter().filter(|(_, event)| matches!(event, Event::Wakeup(_)));
    let (left, woken) = (left.count(), woken.count());
    assert_eq!(
        (plain(&scenario).markers("running").len(), plain(&scenario).markers("wakeup").len()),
        (0, 0)
    );

    let options = FirefoxOptions { sched_markers: true, ..FirefoxOptions::default() };
    let profile = Profile::read(&export(&scenario, &scenario::session(), options));
    assert_eq!((profile.markers("running").len(), profile.markers("wakeup").len()), (left, woken));
    let blocked: Vec<_> = profile
        .markers("running")
        .into_iter()
        .filter(|(_, data)| data["cause"].is_object())
        .collect();
    assert_eq!(blocked.len(), 1);
    assert_eq!(profile.string(&blocked[0].1["function"]), "ext4_file_read_iter");
    assert_eq!(profile.string(&blocked[0].1["next"]), "waits for I/O");
    assert_eq!(profile.stack(&blocked[0].1["cause"]["stack"])[0].function, "ext4_file_read_iter");
    let caused =
        profile.markers("wakeup").iter().filter(|(_, data)| data["cause"].is_object()).count();
    assert_eq!(caused, 1, "one wakeup had a stack");
}

#[test]
fn one_process_alone_is_written_without_the_others() {
    let options = FirefoxOptions { process: "sh".parse().ok(), ..FirefoxOptions::default() };
    let profile = Profile::read(&export(&scenario::scenario(), &scenario::session(), options));
    let tids: Vec<&str> =
        profile.threads().iter().map(|thread| thread["tid"].as_str().unwrap()).collect();
    assert_eq!(
        tids,
        ["0", "200", "201", "100"],
        "the machine itself stays, for its counters; then the busiest process"
    );
}

#[test]
fn an_empty_session_is_a_sound_profile() {
    let mut exporter = FirefoxExporter::new(Vec::new(), FirefoxOptions::default());
    Scenario::new().play(&mut exporter, &SessionInfo::default(), &[], None).unwrap();
    let profile = Profile::read(&exporter.finish().unwrap());
    assert_eq!(profile.threads().len(), 1);
    assert!(profile.samples(&profile.threads()[0]).is_empty());
}

#[test]
fn odd_names_come_back_as_they_were() {
    let names =
        ["", "tab\tnul\0line\nquote\"back\\", "äöü 線程 🧵", "</script>", &"x".repeat(64 << 10)];
    let mut scenario = Scenario::new();
    for (tid, name) in (10..).zip(names) {
        let (_, thread) = scenario.process(tid, 1, name, &[name, "\u{1b}[31m"]);
        let frame = scenario.frame(None, 5, Some(name));
        let stack = Some(scenario.tables.intern_stack(&[frame]));
        scenario.then(Event::Sample(Sample {
            cpu: CpuId::new(0),
            thread,
            stack,
            in_kernel: false,
        }));
    }
    let profile = plain(&scenario);
    for (tid, name) in (10..).zip(names) {
        let thread = profile.thread(&tid.to_string());
        assert_eq!((&thread["name"], &thread["processName"]), (&name.into(), &name.into()));
        assert_eq!(profile.samples(thread)[0].stack[0].function, name);
    }
}

#[test]
fn compressed_it_is_the_same() {
    let scenario = scenario::scenario();
    let options = FirefoxOptions { gzip: true, ..FirefoxOptions::default() };
    let mut exporter = FirefoxExporter::new(Vec::new(), options);
    scenario
        .play(&mut exporter, &scenario::session(), &scenario::losses(), Some(&scenario::summary()))
        .unwrap();
    let mut text = Vec::new();
    GzDecoder::new(&exporter.finish().unwrap()[..]).read_to_end(&mut text).unwrap();
    assert_eq!(text, export(&scenario, &scenario::session(), FirefoxOptions::default()));
}

#[test]
fn an_output_that_fails_is_an_error() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for gzip in [false, true] {
        let mut exporter =
            FirefoxExporter::new(Full, FirefoxOptions { gzip, ..FirefoxOptions::default() });
        scenario::scenario().play(&mut exporter, &scenario::session(), &[], None).unwrap();
        assert!(exporter.finish().is_err());
    }
}

/// What may happen to three threads on two CPUs, in any order, sensible or not.
fn anything() -> impl Strategy<Value = Vec<(u64, u8, u32, u32)>> {
    prop::collection::vec((0u64..5_000, 0u8..8, 0u32..2, 0u32..4), 0..200)
}

proptest! {
    #[test]
    fn whatever_happens_the_tables_are_sound_and_nothing_is_lost(happenings in anything()) {
        let mut scenario = Scenario::new();
        let (process, _) = scenario.process(10, 1, "one", &[]);
        scenario.thread(11, process, "two");
        scenario.process(12, 1, "three", &["/bin/three"]);
        let track = scenario.track(Scope::Process(process), "zones", None);
        let (frame, name) = (scenario.frame(None, 5, Some("work")), scenario.name("zone"));
        let stack = Some(scenario.tables.intern_stack(&[frame]));
        let mut samples = 0;
        // Without one, each sample stands for an interval, however close they are.
        let has_switches = happenings.iter().any(|(_, what, ..)| *what <= 2);
        for (wait, what, cpu, thread) in happenings {
            let thread = ThreadId(thread);
            scenario.wait(wait);
            match what {
                0 | 1 => scenario.switch(
                    cpu,
                    thread,
                    off(SleepState::Interruptible),
                    ThreadId((thread.0 + 1) % 4),
                ),
                2 => scenario.switch(cpu, thread, preempted(), IDLE),
                3 => scenario.wakeup(cpu, IDLE, thread, stack),
                4 => scenario.then(Event::SliceBegin(track, name.into())),
                5 => scenario.then(Event::SliceEnd(track)),
                _ => {
                    samples += 1;
                    scenario.then(Event::Sample(Sample {
                        cpu: CpuId::new(cpu),
                        thread,
                        stack: stack.filter(|_| what == 6),
                        in_kernel: false,
                    }));
                }
            }
        }
        let mut exporter = FirefoxExporter::new(
            Vec::new(),
            FirefoxOptions { sched_markers: true, ..Default::default() },
        );
        scenario.play(&mut exporter, &scenario::session(), &[], None).unwrap();
        let profile = Profile::read(&exporter.finish().unwrap());
        let all: Vec<_> =
            profile.threads().iter().flat_map(|thread| profile.samples(thread)).collect();
        prop_assert_eq!(all.iter().filter(|sample| sample.on_cpu()).count(), samples);
        let length = profile.json["meta"]["profilingEndTime"].as_f64().unwrap();
        for thread in profile.threads() {
            let samples = profile.samples(thread);
            let cpu: u64 = samples.iter().map(|sample| sample.cpu_ns).sum();
            let fits = cpu as f64 / 1e6 <= length + 1e-6 || !has_switches;
            prop_assert!(fits, "{} ms of CPU time in {} ms", cpu as f64 / 1e6, length);
            let weights: u64 =
                samples.iter().filter(|sample| !sample.on_cpu()).map(|sample| sample.weight).sum();
            prop_assert!(
                weights as f64 <= length * 0.999 + 1.0,
                "{} intervals off the CPU in {} \
                                                                  ms",
                weights,
                length
            );
        }
    }
}

#[test]
fn the_idle_thread_stands_for_the_machine() {
    let profile = plain(&scenario::scenario());
    let machine = &profile.threads()[0];
    assert_eq!((&machine["pid"], &machine["processName"]), (&"0".into(), &"scenario".into()));
    assert_eq!(Tables::IDLE_THREAD, IDLE);
}
