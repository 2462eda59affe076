//! What a thread writes, read back from the process's own arena.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

mod common;

use common::{record, ring_of, scenario, scenario_of, thread_id};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use syscollect_usdt_client::testing::{self, Drain};
use syscollect_usdt_client::{
    AsyncZone, Counter, DynamicLocation, Field, FieldFormat, MarkerPhase, Schema, StaticString,
    Task, Traced, When, Zone, frame, frame_mark, location, message, plot, zone,
};
use syscollect_zone_protocol::arena::RingState;

#[test]
fn zones_nest_and_say_what_they_are_told() {
    record();
    scenario();
    static KEY: StaticString = StaticString::new("rows");
    static FRAME: StaticString = StaticString::new("Frame");
    {
        let outer = zone!("outer");
        outer.text("a text that is longer than one item can hold");
        {
            let inner = zone!("inner", color = 0x12_34_56);
            inner.value(-3);
            inner.field(&KEY, 7_u64);
            inner.color(0xff_00_00);
            inner.text_fmt(format_args!("{}", 1 + 1));
            inner.name("renamed");
            outer.text("not recorded: outer is not the innermost");
        }
        outer.tag(&FRAME, 1234);
    }
    let expected = [
        "begin outer at 0",
        "ZoneText \"a text that is longer than one item can hold\"",
        "begin inner at 1",
        "value -3",
        "value rows: 7",
        "color ff0000",
        "ZoneText \"2\"",
        "ZoneName \"renamed\"",
        "end 1",
        "tag Frame 1234",
        "end 0",
    ];
    assert_eq!(scenario(), expected);
}

#[test]
fn a_zone_without_a_name_is_called_like_its_function() {
    record();
    scenario();
    drop(zone!());
    assert_eq!(
        scenario()[0],
        "begin zones::a_zone_without_a_name_is_called_like_its_function at 0"
    );
}

#[test]
fn a_conditional_zone_that_was_not_begun_is_not_ended() {
    record();
    scenario();
    let asked = std::cell::Cell::new(0);
    for condition in [false, true] {
        let _zone = zone!("some", if {
            asked.set(asked.get() + 1);
            condition
        });
    }
    assert_eq!(scenario(), ["begin some at 0", "end 0"]);
    assert_eq!(asked.get(), 2);
}

#[test]
fn an_outer_zone_that_ends_first_ends_the_inner_one_which_does_not_end_again() {
    record();
    scenario();
    let outer = zone!("outer");
    let inner = zone!("inner");
    drop(outer);
    let next = zone!("next");
    drop(next);
    drop(inner);
    assert_eq!(
        scenario(),
        ["begin outer at 0", "begin inner at 1", "end 0", "begin next at 0", "end 0"]
    );
}

#[test]
fn messages_plots_and_frames_come_in_order_with_their_texts_sent_once() {
    record();
    scenario();
    for index in 0..2 {
        message!("constant");
        message!("number {index}");
        message!(color = 0xff, "blue");
        plot!("plot", index);
        plot!("ratio", 0.5 * f64::from(index), unit = "%");
        frame_mark!();
        frame_mark!("physics");
        let _frame = frame!("upload");
    }
    let lines = scenario();
    assert_eq!(lines, [round(0), round(1)].concat());
    let drain = Drain::open().expect("an arena");
    let count = drain.log().windows(8).filter(|window| window == b"constant").count();
    assert_eq!(count, 1, "a constant text is in the log once");
}

fn round(index: i32) -> Vec<String> {
    vec![
        "message constant color 000000".to_owned(),
        "message color 000000".to_owned(),
        format!("Message \"number {index}\""),
        "message blue color 0000ff".to_owned(),
        format!("plot plot {index}"),
        format!("plot ratio {}", 0.5 * f64::from(index)),
        "frame - phase 0".to_owned(),
        "frame physics phase 0".to_owned(),
        "frame upload phase 1".to_owned(),
        "frame upload phase 2".to_owned(),
    ]
}

#[test]
fn a_location_made_at_run_time_is_sent_once_however_often_it_is_used() {
    record();
    scenario();
    for _ in 0..3 {
        let (name, file) = ("on_click".to_owned(), "button.lua".to_owned());
        drop(Zone::begin_dynamic(&DynamicLocation {
            name: &name,
            function: "",
            file: &file,
            line: 12,
            color: 0,
        }));
    }
    assert_eq!(scenario().iter().filter(|line| *line == "begin on_click at 0").count(), 3);
    let drain = Drain::open().expect("an arena");
    assert_eq!(drain.log().windows(10).filter(|window| window == b"button.lua").count(), 1);
}

#[test]
fn markers_have_fields_halves_and_other_times_and_threads() {
    record();
    scenario();
    static SCHEMA: Schema = Schema::new(
        "request",
        "net",
        &[
            Field::new("url", "URL", FieldFormat::Text),
            Field::new("size", "Size", FieldFormat::Bytes),
        ],
    );
    SCHEMA.mark(&["a".into(), 2_u64.into()]);
    SCHEMA.begin(&[]);
    SCHEMA.end(&["b".into()]);
    SCHEMA.at(When { ticks: 99, thread: 7 }, MarkerPhase::Instant, &[]);
    let expected = [
        "marker request phase 0",
        "Field \"a\"",
        "value 1: 2",
        "marker request phase 1",
        "marker request phase 2",
        "Field \"b\"",
        "marker request phase 0 ticks 99 thread 7",
    ];
    assert_eq!(scenario(), expected);
}

#[test]
fn async_zones_of_a_task_overlap_and_end_on_another_thread() {
    record();
    scenario();
    let task = Task::new("upload");
    let first = AsyncZone::begin_in(&task, location!("send"));
    let second = AsyncZone::begin_with(location!("wait"), Some(&task), "for the disk");
    drop(first);
    let other = std::thread::spawn(move || {
        drop(second);
        thread_id()
    });
    let other = other.join().unwrap();
    let expected = [
        "async send of task 1",
        "task upload",
        "async wait of task 1",
        "task upload",
        "AsyncText \"for the disk\"",
        "AsyncEnd",
    ];
    assert_eq!(scenario(), expected);
    assert_eq!(scenario_of(other), ["attached 0", "AsyncEnd", "ThreadEnd"]);
}

#[test]
fn a_traced_future_is_one_async_zone_and_each_poll_a_zone_of_its_thread() {
    struct TwoPolls(u32);
    impl Future for TwoPolls {
        type Output = u32;
        fn poll(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<u32> {
            self.0 += 1;
            if self.0 == 2 { Poll::Ready(self.0) } else { Poll::Pending }
        }
    }
    record();
    scenario();
    let mut future = Box::pin(Traced::new(location!("fetch"), TwoPolls(0)));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(future.as_mut().poll(&mut context), Poll::Pending);
    let other = std::thread::spawn(move || {
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(future.as_mut().poll(&mut context), Poll::Ready(2));
        thread_id()
    });
    let other = other.join().unwrap();
    assert_eq!(scenario(), ["async fetch of task 1", "task fetch", "begin fetch at 0", "end 0"]);
    assert_eq!(
        scenario_of(other),
        ["attached 0", "begin fetch at 0", "AsyncEnd", "end 0", "ThreadEnd"]
    );
}

#[test]
fn a_counter_is_in_the_log_with_the_address_at_which_its_value_is() {
    record();
    static COUNTER: Counter = Counter::new("in flight", "requests");
    COUNTER.add(5);
    COUNTER.add(-2);
    let drain = Drain::open().expect("an arena");
    let log = drain.log();
    let at = log.windows(9).position(|window| window == b"in flight").expect("the counter") - 10;
    let address = u64::from_le_bytes(log[at..at + 8].try_into().unwrap());
    // SAFETY: the counter's own address, as a collector reads it.
    assert_eq!(unsafe { (address as *const i64).read_volatile() }, 3);
    assert_eq!(COUNTER.get(), 3);
}

#[test]
fn a_thread_that_exits_mid_zone_says_that_it_ends_and_its_ring_says_so() {
    record();
    let tid = std::thread::spawn(|| {
        std::mem::forget(zone!("unfinished"));
        thread_id()
    });
    let tid = tid.join().unwrap();
    let drain = Drain::open().expect("an arena");
    let number = ring_of(&drain, tid).expect("its ring");
    assert_eq!(drain.ring(number).state.load(Ordering::Relaxed), RingState::Ended as u32);
    assert_eq!(scenario_of(tid), ["attached 0", "begin unfinished at 0", "ThreadEnd"]);
}

#[test]
fn zones_in_destructors_of_thread_local_values_are_recorded() {
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            let _zone = zone!("in a destructor");
        }
    }
    thread_local!(static LATE: Late = const { Late });
    record();
    let tid = std::thread::spawn(|| {
        LATE.with(|_| {});
        message!("body");
        thread_id()
    });
    let lines = scenario_of(tid.join().unwrap());
    assert_eq!(lines[2..], ["begin in a destructor at 0", "end 0", "ThreadEnd"]);
}

#[test]
fn a_full_ring_counts_what_it_loses_and_goes_on_with_a_restatement() {
    record();
    std::thread::spawn(check_outer).join().unwrap();
}

fn check_outer() {
    let _outer = zone!("outer");
    scenario();
    let drain = Drain::open().expect("an arena");
    let ring = drain.ring(ring_of(&drain, thread_id()).expect("a ring"));
    let lost_before = ring.lost.load(Ordering::Relaxed);
    let mut produced = 0;
    while ring.lost.load(Ordering::Relaxed) < lost_before + 1001 {
        drop(zone!("many"));
        produced += 2;
    }
    let inner = zone!("open across the loss");
    produced += 1;
    let recorded = scenario().len() as u64;
    let lost = ring.lost.load(Ordering::Relaxed) - lost_before;
    assert_eq!(recorded + lost, produced);
    drop(inner);
    let expected = [
        &format!("lost {lost}"),
        "attached 2",
        "open outer at 0",
        "open open across the loss at 1",
        "end 1",
    ];
    assert_eq!(scenario(), expected);
}

#[test]
fn zones_deeper_than_what_is_remembered_end_at_their_depth() {
    record();
    let lines = std::thread::spawn(|| {
        scenario_ready();
        let guards: Vec<_> = (0..100).map(|_| zone!("deep")).collect();
        for guard in guards.into_iter().rev() {
            drop(guard);
        }
        scenario()
    });
    let lines = lines.join().unwrap();
    assert_eq!(lines[99], "begin deep at 99");
    assert_eq!(lines[100], format!("end {}", 99 % 64));
    assert_eq!(lines[199], "end 0");
}

fn scenario_ready() {
    message!("ready");
    scenario();
}

#[test]
fn a_call_stack_follows_a_zone_that_asks_for_it() {
    record();
    scenario();
    drop(zone!("rare", stack));
    let lines = scenario();
    assert_eq!(lines.first().map(String::as_str), Some("begin rare at 0"));
    assert_eq!(lines.last().map(String::as_str), Some("end 0"));
    assert!(lines[1..lines.len() - 1].iter().all(|line| line == "Stack"), "{lines:?}");
}

#[test]
fn the_arena_is_sealed_and_its_descriptor_closes_on_exec() {
    record();
    let descriptor = testing::arena_descriptor().expect("an arena");
    // SAFETY: asks about a descriptor.
    let (seals, flags) = unsafe {
        (libc::fcntl(descriptor, libc::F_GET_SEALS), libc::fcntl(descriptor, libc::F_GETFD))
    };
    let expected = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    assert_eq!(seals & expected, expected);
    assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    let link = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).unwrap();
    assert_eq!(link.to_str(), Some("/memfd:syscollect-zones-hidden (deleted)"));
}
