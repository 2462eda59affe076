//! Scenarios of sessions, told by a fake of the tracing API.

use super::*;
use crate::plan::{Options, RecordingContext, Stacks};
use std::cell::RefCell;
use syscollect_etl::Guid;

/// Notes every call; answers as if all went well, unless told otherwise.
#[derive(Default)]
struct Fake {
    calls: RefCell<Vec<String>>,
    running: Vec<&'static str>,
    recorders: Vec<u32>,
    /// What a call that begins so is refused with.
    refuse: Vec<(&'static str, Status)>,
}

impl Fake {
    fn call(&self, call: String) -> Result<(), Status> {
        let refused = self
            .refuse
            .iter()
            .find(|(start, _)| call.starts_with(start))
            .map(|(_, status)| *status);
        self.calls.borrow_mut().push(call);
        refused.map_or(Ok(()), Err)
    }

    fn calls(&self) -> Vec<String> {
        self.calls.borrow().clone()
    }
}

const COUNTS: Counts =
    Counts { events_lost: 2, buffers_written: 9, buffers_lost: 0, real_time_buffers_lost: 0 };

impl Control for Fake {
    fn sessions(&self) -> Result<Vec<String>, Status> {
        self.call("sessions".to_owned())
            .map(|()| self.running.iter().map(ToString::to_string).collect())
    }

    fn records(&self, pid: u32) -> bool {
        self.recorders.contains(&pid)
    }

    fn start(&self, name: &str, _: &mut Properties) -> Result<Handle, Status> {
        self.call(format!("start {name}")).map(|()| Handle(31))
    }

    fn set(&self, session: Option<Handle>, what: Information, bytes: &[u8]) -> Result<(), Status> {
        match what {
            Information::Stacks => {
                self.call(format!("stacks {} of {:?}", bytes.len() / 24, session.map(|s| s.0)))
            }
            Information::SampleInterval => {
                let bytes = bytes.try_into().expect("a TRACE_PROFILE_INTERVAL has 8 bytes");
                self.call(format!("interval {}", layouts::interval_of(bytes)))
            }
        }
    }

    fn interval(&self) -> Result<u32, Status> {
        self.call("ask interval".to_owned()).map(|()| 10_000)
    }

    fn enable(&self, _: Handle, provider: &Provider) -> Result<(), Status> {
        self.call(format!("enable {}", provider.name))
    }

    fn capture_state(&self, _: Handle, provider: &Provider) -> Result<(), Status> {
        self.call(format!("state of {}", provider.name))
    }

    fn counts(&self, session: Handle) -> Result<Counts, Status> {
        self.call(format!("counts {}", session.0)).map(|()| COUNTS)
    }

    fn stop(&self, session: Handle) -> Result<Counts, Status> {
        self.call(format!("stop {}", session.0)).map(|()| COUNTS)
    }

    fn stop_named(&self, name: &str) -> Result<(), Status> {
        self.call(format!("stop {name}"))
    }
}

fn plan(frequency: u32, gpu: bool) -> Plan {
    let stacks = Stacks { samples: true, switches: true, wakeups: false };
    let options = Options { file: "x.etl".into(), frequency, stacks, gpu, buffer_bytes: 64 << 20 };
    Plan::new(&options, RecordingContext { pid: 5, fresh: Guid([1; 16]), cpus: 2 })
}

#[test]
fn a_recording_sets_the_rate_starts_asks_for_stacks_and_puts_the_rate_back() {
    let fake = Fake::default();
    let session = Session::start(&fake, &plan(2000, false), 5).unwrap();
    assert_eq!(session.counts().unwrap(), COUNTS);
    assert_eq!(session.stop().unwrap(), COUNTS);
    let expected = [
        "sessions",
        "ask interval",
        "interval 5000",
        "start syscollect-5",
        "stacks 2 of Some(31)",
        "counts 31",
        "stop 31",
        "interval 10000",
    ];
    assert_eq!(fake.calls(), expected);
}

#[test]
fn a_session_that_is_dropped_is_stopped() {
    let fake = Fake::default();
    drop(Session::start(&fake, &plan(0, false), 5).unwrap());
    assert_eq!(fake.calls(), ["sessions", "start syscollect-5", "stacks 1 of Some(31)", "stop 31"]);
}

#[test]
fn a_session_that_cannot_be_started_leaves_the_rate_as_it_was() {
    let fake = Fake { refuse: vec![("start", Status(5))], ..Fake::default() };
    let error = Session::start(&fake, &plan(2000, false), 5).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("start the trace session syscollect-5"), "{error}");
    assert!(error.contains("Run as administrator"), "{error}");
    assert_eq!(fake.calls().last().map(String::as_str), Some("interval 10000"));
    assert!(!fake.calls().iter().any(|call| call.starts_with("stop")));
}

#[test]
fn a_session_without_the_stacks_that_were_asked_for_is_stopped_at_once() {
    let fake = Fake { refuse: vec![("stacks", Status(87))], ..Fake::default() };
    let error = Session::start(&fake, &plan(0, false), 5).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("--stacks none"), "{error}");
    assert_eq!(fake.calls().last().map(String::as_str), Some("stop 31"));
}

#[test]
fn a_rate_that_cannot_be_set_is_told_and_not_put_back() {
    let fake = Fake { refuse: vec![("interval", Status(1314))], ..Fake::default() };
    let session = Session::start(&fake, &plan(2000, false), 5).unwrap();
    assert!(session.notes()[0].contains("Profile system performance"), "{:?}", session.notes());
    drop(session);
    assert_eq!(fake.calls().last().map(String::as_str), Some("stop 31"));
}

#[test]
fn the_graphics_scheduler_is_heard_in_the_same_session_and_states_its_contexts() {
    let fake = Fake::default();
    drop(Session::start(&fake, &plan(0, true), 5).unwrap());
    let heard = [
        "enable Microsoft-Windows-DxgKrnl",
        "state of Microsoft-Windows-DxgKrnl",
        "enable Microsoft-Windows-DXGI",
        "enable Microsoft-Windows-D3D9",
        "stop 31",
    ];
    assert_eq!(fake.calls()[3..], heard);
}

#[test]
fn a_provider_that_is_missing_is_told_and_the_others_are_heard() {
    let fake =
        Fake { refuse: vec![("enable Microsoft-Windows-DXGI", Status(87))], ..Fake::default() };
    let session = Session::start(&fake, &plan(0, true), 5).unwrap();
    assert_eq!(session.notes().len(), 1);
    assert!(
        session.notes()[0].starts_with("Microsoft-Windows-DXGI may be missing"),
        "{:?}",
        session.notes()
    );
    assert!(fake.calls().contains(&"enable Microsoft-Windows-D3D9".to_owned()));
}

#[test]
fn what_a_crashed_recorder_left_is_stopped_first_and_told() {
    let running = vec!["NT Kernel Logger", "syscollect-3", "syscollect-4"];
    let fake = Fake { running, recorders: vec![4], ..Fake::default() };
    let session = Session::start(&fake, &plan(0, false), 5).unwrap();
    assert_eq!(
        session.notes(),
        ["stopped syscollect-3, which a recorder that is gone had left running"]
    );
    assert_eq!(fake.calls()[..3], ["sessions", "stop syscollect-3", "start syscollect-5"]);
}

#[test]
fn a_leftover_that_cannot_be_stopped_does_not_keep_us_from_recording() {
    let fake = Fake {
        running: vec!["syscollect-3"],
        refuse: vec![("stop s", Status(5))],
        ..Fake::default()
    };
    let session = Session::start(&fake, &plan(0, false), 5).unwrap();
    assert!(session.notes()[0].contains("cannot be stopped"), "{:?}", session.notes());
}

#[test]
fn a_file_name_that_is_too_long_starts_nothing() {
    let fake = Fake::default();
    let long = Plan { file: "x".repeat(2000).into(), ..plan(0, false) };
    let error = Session::start(&fake, &long, 5).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("2000 characters") && error.contains("-o"), "{error}");
    assert!(fake.calls().is_empty());
}

#[test]
fn a_session_that_somebody_else_stopped_is_told_when_it_ends() {
    let fake = Fake { refuse: vec![("stop 31", Status(4201))], ..Fake::default() };
    let session = Session::start(&fake, &plan(0, false), 5).unwrap();
    let error = session.stop().unwrap_err().to_string();
    assert!(error.contains("somebody else has stopped it"), "{error}");
}
