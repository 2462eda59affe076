//! `cargo xtask privileged`: what only root on a real kernel can show.
//!
//! Each test records something whose truth is known by other means (the TSC
//! itself, `/proc`, `wait4`, the load's own clock, trace_processor) and
//! compares. See each file for what it is compared with.

mod bad_days;
mod clock;
pub(crate) mod context;
mod count;
mod loss;
mod order;
mod probes;
mod recorded;
mod samples;
mod survival;
mod zones;

use anyhow::{Result, bail};

use self::context::Context;
use crate::report::{Outcome, Report};

type Test = fn(&Context) -> Result<Outcome>;

/// Makes a test of a function whose success is anything a report can show.
macro_rules! test {
    ($module:ident :: $name:ident) => {
        (|context| $module::$name(context).map(Outcome::from)) as Test
    };
}

/// Every test by name, the quick and telling ones first.
const TESTS: &[(&str, Test)] = &[
    ("bracket", test!(clock::bracket)),
    ("count", test!(count::ping_pong)),
    ("perfetto", test!(count::through_perfetto)),
    ("build", test!(count::build)),
    ("loss-lanes", test!(loss::full_lanes)),
    ("loss-buffer", test!(loss::full_buffer)),
    ("callers", test!(samples::callers)),
    ("stacks", test!(samples::stacks)),
    ("killed", test!(survival::killed)),
    ("hidden-files", test!(survival::hidden_files)),
    ("probes-python", test!(probes::python)),
    ("probes-exceptions", test!(probes::exceptions)),
    ("probes-functions", test!(probes::functions)),
    ("probes-unwinding", test!(probes::unwinding)),
    ("probes-losses", test!(probes::losses)),
    ("probes-semaphores", test!(probes::semaphores)),
    ("zones-order", test!(order::order)),
    ("zones-late", test!(zones::late)),
    ("zones-early", test!(zones::early)),
    ("zones-losses", test!(zones::losses)),
    ("zones-killed", test!(zones::killed)),
    ("hotplug", test!(clock::hotplug)),
    ("plain-user", test!(bad_days::plain_user)),
    ("unknown-process", test!(bad_days::unknown_process)),
    ("outputs", test!(bad_days::outputs)),
    ("damaged-files", test!(bad_days::damaged_files)),
    ("full-disk", test!(bad_days::full_disk)),
];

/// Runs the tests of these names, or all.
pub(crate) fn run(names: &[String]) -> Result<()> {
    if !is_root() {
        bail!("the privileged tests record the whole machine: run `sudo -E env PATH=\"$PATH\" cargo xtask privileged`");
    }
    if let Some(unknown) = names.iter().find(|name| !TESTS.iter().any(|(known, _)| known == name)) {
        let known: Vec<&str> = TESTS.iter().map(|(name, _)| *name).collect();
        bail!("there is no privileged test {unknown}; there are: {}", known.join(", "));
    }
    let mut report = Report::default();
    tests(&mut report, &Context::new()?, |name| names.is_empty() || names.iter().any(|wanted| wanted == name));
    report.finish("privileged")
}

/// All tests as steps of a longer report.
pub(crate) fn steps(report: &mut Report) {
    if !is_root() {
        report.step("privileged tests", || Ok(Outcome::Skipped("not root".to_owned())));
        return;
    }
    match Context::new() {
        Ok(context) => tests(report, &context, |_| true),
        Err(error) => report.step("privileged tests", || Err::<(), _>(error)),
    }
}

fn tests(report: &mut Report, context: &Context, wanted: impl Fn(&str) -> bool) {
    if let Err(reason) = &context.engine {
        println!("what trace_processor would judge is skipped: {reason}");
    }
    for (name, test) in TESTS.iter().filter(|(name, _)| wanted(name)) {
        report.step(name, || test(context));
    }
}

/// Whether this may record the whole machine.
pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
