//! Spans and events of `tracing` as zones and messages.
#![allow(clippy::unwrap_used)] // the helpers of tests, too

mod common;

use common::{record, scenario};
use std::sync::{Mutex, MutexGuard, PoisonError};
use syscollect_usdt_client::testing::{self, Drain};
use syscollect_usdt_client::tracing_layer::{AsyncSpans, ZoneLayer};
use tracing::{Level, debug_span, event, info_span};
use tracing_subscriber::prelude::*;

/// Tests here turn recording off and on: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn recorded() -> MutexGuard<'static, ()> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    record();
    scenario();
    alone
}

fn with(layer: ZoneLayer, run: impl FnOnce()) {
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), run);
}

#[test]
fn a_span_is_a_zone_and_its_fields_are_the_zones() {
    let _alone = recorded();
    with(ZoneLayer::new(), || {
        let request = info_span!(
            "request",
            bytes = 512_u64,
            ratio = 0.5,
            path = "/index",
            late = tracing::field::Empty
        );
        request.in_scope(|| {
            let _inner = debug_span!("parse", first = true).entered();
        });
        request.record("late", -3);
    });
    assert_eq!(
        scenario(),
        [
            "begin request at 0",
            "value bytes: 512",
            "value ratio: 0.5",
            "ZoneText \"path=/index\"",
            "begin parse at 1",
            "ZoneText \"first=true\"",
            "end 1",
            "end 0",
        ]
    );
}

#[test]
fn what_is_recorded_later_is_told_at_once_and_at_each_entry() {
    let _alone = recorded();
    with(ZoneLayer::new().async_spans(AsyncSpans::Never), || {
        let request = info_span!("request", size = 1, found = tracing::field::Empty);
        request.in_scope(|| request.record("found", 7));
        request.in_scope(|| request.record("size", 2));
        request.in_scope(|| ());
    });
    let reported = scenario();
    let first = ["begin request at 0", "value size: 1", "value found: 7", "end 0"];
    let second =
        ["begin request at 0", "value size: 1", "value found: 7", "value size: 2", "end 0"];
    let third = ["begin request at 0", "value size: 2", "value found: 7", "end 0"];
    assert_eq!(reported, [&first[..], &second[..], &third[..]].concat());
}

#[test]
fn a_zone_of_a_span_names_its_target_and_file() {
    let _alone = recorded();
    with(ZoneLayer::new(), || info_span!(target: "net::http", "with a target").in_scope(|| ()));
    let drain = Drain::open().unwrap();
    let log = String::from_utf8_lossy(drain.log()).into_owned();
    assert!(
        log.contains("with a target")
            && log.contains("net::http")
            && log.contains("tests/tracing.rs")
    );
}

#[test]
fn an_event_is_a_message_of_its_levels_colour() {
    let _alone = recorded();
    with(ZoneLayer::new(), || {
        event!(Level::ERROR, code = 5, "no {}", "luck");
        event!(Level::INFO, "fine");
        event!(Level::INFO, only = "fields", count = 2);
    });
    assert_eq!(
        scenario(),
        [
            "message color e03131",
            "Message \"no luck code=5\"",
            "message color 1c7ed6",
            "Message \"fine\"",
            "message color 1c7ed6",
            "Message \"only=fields count=2\"",
        ]
    );
}

#[test]
fn a_span_that_is_entered_again_is_an_async_zone_until_it_is_closed() {
    let _alone = recorded();
    with(ZoneLayer::new(), || {
        let upload = info_span!("upload");
        upload.in_scope(|| ());
        upload.in_scope(|| ());
        let elsewhere = std::thread::spawn({
            let (upload, dispatch) =
                (upload.clone(), tracing::dispatcher::get_default(Clone::clone));
            move || {
                tracing::dispatcher::with_default(&dispatch, || upload.in_scope(|| ()));
                scenario()
            }
        });
        assert_eq!(elsewhere.join().unwrap()[1..], ["begin upload at 0", "end 0"]);
    });
    let poll = ["begin upload at 0", "end 0"];
    assert_eq!(
        scenario(),
        [&poll[..], &["async upload of task 1", "task upload"], &poll[..], &["AsyncEnd"]].concat()
    );
}

#[test]
fn async_zones_below_one_span_are_of_one_task() {
    let _alone = recorded();
    with(ZoneLayer::new().async_spans(AsyncSpans::Always), || {
        let root = info_span!("session").entered();
        info_span!("query").in_scope(|| ());
        drop(root);
    });
    let reported = scenario();
    let tasks: Vec<_> = reported.iter().filter(|line| line.starts_with("task")).collect();
    assert_eq!(tasks, ["task session", "task session"]);
    assert_eq!(reported.iter().filter(|line| *line == "AsyncEnd").count(), 2);
}

#[test]
fn spans_that_are_left_in_another_order_close_all_their_zones() {
    let _alone = recorded();
    with(ZoneLayer::new(), || {
        let outer = info_span!("outer").entered();
        let inner = info_span!("inner").entered();
        drop(outer);
        drop(inner);
        info_span!("next").in_scope(|| ());
    });
    assert_eq!(
        scenario(),
        ["begin outer at 0", "begin inner at 1", "end 0", "begin next at 0", "end 0"],
        "the outer zone's end is the inner one's"
    );
}

#[test]
fn a_span_deeper_than_can_be_kept_is_no_zone_and_harms_none() {
    fn nest(depth: u32) {
        if depth > 0 {
            info_span!("nested").in_scope(|| nest(depth - 1));
        }
    }
    let _alone = recorded();
    with(ZoneLayer::new(), || nest(100));
    let reported = scenario();
    assert_eq!(reported.iter().filter(|line| line.starts_with("begin")).count(), 64);
    assert_eq!(reported.last().map(String::as_str), Some("end 0"));
}

#[test]
fn a_span_that_was_open_before_the_recording_is_seen_when_it_is_entered_next() {
    let _alone = recorded();
    testing::lower();
    with(ZoneLayer::new(), || {
        let early = info_span!("early", lost = 1);
        let entered = early.clone().entered();
        testing::raise();
        drop(entered);
        early.in_scope(|| ());
    });
    assert_eq!(scenario(), ["begin early at 0", "end 0"]);
}

#[test]
fn a_layer_that_is_alone_has_no_spans_made_while_nobody_records() {
    let _alone = recorded();
    with(ZoneLayer::new().alone(), || {
        testing::lower();
        let off = info_span!("off").is_disabled();
        testing::raise();
        assert!(off);
        info_span!("on").in_scope(|| event!(Level::INFO, "here"));
    });
    assert_eq!(scenario(), ["begin on at 0", "message color 1c7ed6", "Message \"here\"", "end 0"]);
}
