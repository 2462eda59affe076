//! Zones in a context of OpenGL that is none.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

#[path = "../../tests/common/mod.rs"]
mod common;
mod stand_in;

use common::{record, scenario};
use stand_in::opengl::{execute, functions, pending, queries};
use syscollect_gpu_apis::opengl::{OpenGlContext, OpenGlError};
use syscollect_usdt_client::location;

fn context<'g, const PAIRS: usize>(
    gl: &'g glow::Context,
    name: &str,
) -> OpenGlContext<&'g glow::Context, PAIRS> {
    // SAFETY: the context is none.
    unsafe { OpenGlContext::new(gl, name, 64).unwrap() }
}

/// What was told of times, without the context's name.
fn times(name: &str) -> Vec<String> {
    let prefix = format!("gpu {name} ");
    let lines = scenario();
    let of_context = lines.iter().filter_map(|line| line.strip_prefix(&prefix));
    of_context.filter(|line| line.contains("times")).map(str::to_owned).collect()
}

#[test]
fn what_is_there_is_read_and_an_open_zone_has_no_old_times() {
    record();
    let gl = functions();
    let context = context::<2>(&gl, "gl");
    scenario();
    for round in 0..5 {
        let outer = context.zone(location!("outer"));
        drop(context.zone(location!("inner")));
        execute(3);
        // The outer zone's end has the value of the round before.
        context.collect();
        let told = times("gl");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with(&format!("times {} [", round * 2 + 2)), "{told:?}");
        drop(outer);
        context.collect();
        assert_eq!(times("gl"), [""; 0]);
        execute(1);
        context.collect();
        let base = round * 40 + 10;
        assert_eq!(times("gl"), [format!("times {} [{base}, {}]", round * 2 + 1, base + 30)]);
        assert_eq!((context.outstanding(), pending()), (0, 0));
    }
    assert_eq!(context.refused(), 0);
}

#[test]
fn zones_without_a_query_say_so_and_all_queries_are_deleted() {
    record();
    let gl = functions();
    let mut context = context::<1>(&gl, "full");
    scenario();
    drop(context.zone(location!("first")));
    drop(context.zone(location!("second")));
    assert_eq!(times("full"), ["no times 2"]);
    assert_eq!((context.refused(), pending()), (1, 2));
    context.abandon();
    assert_eq!(times("full"), ["no times 1"]);
    // What comes now is of nobody.
    execute(2);
    context.collect();
    drop(context.zone(location!("third")));
    assert_eq!(queries(), 2);
    drop(context);
    assert_eq!(times("full"), ["no times 3"]);
    assert_eq!(queries(), 0);
}

#[test]
fn a_zone_may_begin_in_any_way() {
    record();
    let gl = functions();
    let context = context::<1>(&gl, "stack");
    scenario();
    drop(context.enter(context.context().begin_with_stack(location!("where from"))));
    let lines = scenario();
    assert!(lines[0].starts_with("gpu stack begin where from"), "{lines:?}");
    assert!(lines[1].contains("Stack"), "{lines:?}");
    assert_eq!(pending(), 2);
}

#[test]
fn clocks_are_told_with_how_far_they_may_be_apart() {
    record();
    let gl = functions();
    let context = context::<1>(&gl, "clocks");
    scenario();
    context.collect();
    let lines = scenario();
    let told = lines.iter().find_map(|line| line.strip_prefix("gpu clocks clock ")).unwrap();
    assert!(told.contains(" is 0 within "), "{told}");
    assert!(context.read_clocks().unwrap().deviation < 1_000_000);
}

#[test]
fn a_counter_without_bits_is_none() {
    let gl = functions();
    // SAFETY: the context is none.
    let made = unsafe { OpenGlContext::<_, 1>::new(&gl, "none", 0) };
    assert_eq!(made.unwrap_err(), OpenGlError::NoTimestamps);
}
