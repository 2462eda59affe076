//! `cargo xtask privileged`: what only root on a real kernel can show.
//!
//! Each test records something whose truth is known by other means (the TSC
//! itself, `/proc`, `wait4`, the load's own clock, trace_processor) and
//! compares. See each file for what it is compared with.

mod alone;
mod attacked;
mod bundle;
mod busy_process;
pub(crate) mod chains;
mod clock;
pub(crate) mod context;
mod control_group;
mod count;
mod crashes;
mod doctor;
mod event_loops;
pub(crate) mod failures;
pub(crate) mod files;
mod flight;
mod flight_bad_days;
mod flight_busy;
mod flight_clocks;
mod flight_crowded;
mod flight_executions;
mod flight_flood;
mod flight_standstill;
mod flight_stopped;
mod flight_storm;
mod flight_zones;
mod full_rate;
mod gpu;
mod gpu_formats;
mod gpu_memory;
mod gpu_rate;
mod hostile_captures;
mod hostile_census;
mod hostile_claims;
mod hostile_code;
mod hostile_commands;
mod hostile_crowd;
mod hostile_descriptors;
mod hostile_files;
mod hostile_hits;
mod hostile_names;
mod hostile_overlay;
mod hostile_paths;
mod hostile_renames;
mod hostile_stacks;
mod hostile_tasks;
mod hostile_triggers;
mod hostile_zones;
mod hung;
mod interrupts;
mod jit;
mod jvm;
pub(crate) mod live;
pub(crate) mod live_tracy;
mod live_unreachable;
mod loss;
mod low_memory;
mod named_events;
mod no_threads;
mod offered;
mod order;
mod pairs;
mod presets;
mod probe_stacks;
mod probes;
pub(crate) mod python;
mod recorded;
mod rights;
mod samples;
pub(crate) mod semaphores;
mod starts;
mod survival;
mod top;
mod tracefs;
mod trigger_storm;
mod triggers;
mod two_recorders;
mod uncharged;
mod unwinding;
mod unwinding_eviction;
mod unwinding_leaves;
mod unwinding_memory;
pub(crate) mod unwinding_oracle;
mod wakers;
mod zones;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Error, Result, bail};

use self::context::Context;
use crate::report::{Outcome, Report};

/// A test by its name.
struct Test {
    name: &'static str,
    /// Without these of `doctor`'s capabilities it cannot be asked for.
    needs: &'static [&'static str],
    when: When,
    run: fn(&Context) -> Result<Outcome>,
}

/// Who runs a test, beside those that name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// The whole check.
    Always,
    /// The same, and virtual machines: it tells something of a kernel.
    Kernels,
    /// Nobody: it takes more than a minute, needs compilers that nothing else does, or shows what
    /// is not fixed yet.
    Named,
}

/// Makes a test of a function whose success is anything a report can show.
macro_rules! test {
    ($name:literal, $($rest:tt)+) => { test!(When::Always, $name, $($rest)+) };
    ($name:literal kernels, $($rest:tt)+) => { test!(When::Kernels, $name, $($rest)+) };
    ($name:literal named, $($rest:tt)+) => { test!(When::Named, $name, $($rest)+) };
    ($when:expr, $name:literal, $module:ident :: $run:ident $(, needs $($need:literal)+)?) => {
        Test {
            name: $name,
            needs: &[$($($need),+)?],
            when: $when,
            run: |context| $module::$run(context).map(Outcome::from),
        }
    };
}

/// Every test, the quick and telling ones first.
const TESTS: &[Test] = &[
    test!("bracket" kernels, clock::bracket),
    test!("slew" kernels, clock::slew),
    test!("count" kernels, count::ping_pong),
    test!("perfetto", count::through_perfetto),
    test!("build", count::build),
    test!("loss-lanes" kernels, loss::full_lanes),
    test!("loss-buffer" kernels, loss::full_buffer),
    test!("full-rate", full_rate::full_rate),
    test!("rotate", files::rotate),
    test!("last-seconds", files::last_seconds),
    test!("flight", flight::flight),
    test!("flight-bad-days", flight_bad_days::bad_days),
    test!("flight-busy", flight_busy::busy),
    test!("flight-crowded" named, flight_crowded::crowded),
    test!("flight-flood", flight_flood::flood),
    test!("flight-hotplug" kernels, flight_clocks::hotplug),
    test!("flight-clock-set" named, flight_clocks::clock_set),
    test!("flight-suspend" named, flight_clocks::suspend),
    test!("flight-restarted", flight_zones::restarted),
    test!("flight-storm", flight_storm::storm),
    test!("flight-storm-long" named, flight_storm::long),
    test!("flight-executions" named, flight_executions::executions),
    test!("flight-executions-long" named, flight_executions::long),
    test!("flight-standstill" named, flight_standstill::standstill, needs "user_probes"),
    test!("flight-stopped" named, flight_stopped::stopped, needs "user_probes"),
    test!("flight-zones", flight_zones::open_zones),
    test!("triggers", triggers::triggers, needs "user_probes"),
    test!("trigger-storm", trigger_storm::storm, needs "user_probes"),
    test!("top", top::figures),
    test!("top-zones", top::zones, needs "user_probes"),
    test!("top-functions", top::functions),
    test!("top-terminal", top::terminal),
    test!("max-size", files::max_size),
    test!("cost-line", files::cost_line),
    test!("callers" kernels, samples::callers),
    test!("callers-frame-pointers" kernels, samples::callers_by_frame_pointers),
    test!("callers-in-memory", samples::callers_in_memory, needs "unwind_tables"),
    test!("stacks" kernels, samples::stacks),
    test!("unwinding" kernels, unwinding::unwinding, needs "unwind_tables"),
    test!("unwinding-eviction", unwinding_eviction::unwinding_eviction, needs "unwind_tables"),
    test!("unwinding-leaves" kernels, unwinding_leaves::leaves, needs "unwind_tables"),
    test!("unwinding-memory" kernels, unwinding_memory::memory, needs "unwind_tables"),
    test!("unwinding-libraries" kernels, chains::replaced_libraries, needs "unwind_tables"),
    test!("chains", chains::chains, needs "unwind_tables"),
    test!("chains-runtimes" named, chains::chains_runtimes, needs "unwind_tables"),
    test!("chains-storm" named, chains::storm, needs "unwind_tables"),
    test!("unwinding-oracle", unwinding_oracle::unwinding_oracle, needs "unwind_tables"),
    test!("python" kernels, python::python, needs "unwind_tables"),
    test!("wakers" kernels, wakers::wakers),
    test!("wakers-softirq" kernels, wakers::softirqs),
    test!("hung" kernels, hung::hung),
    test!("event-loops" kernels, event_loops::event_loops),
    test!("leader-gone" kernels, hung::leader_gone, needs "user_probes"),
    test!("start-interrupted" kernels, starts::interrupted),
    test!("doctor" kernels, doctor::doctor),
    test!("two-starts" kernels, starts::two),
    test!("two-recorders" kernels, two_recorders::both_have_all, needs "user_probes"),
    test!("two-recorders-killed" kernels, two_recorders::second_goes_on, needs "user_probes"),
    test!("rights" kernels, rights::rights),
    test!("killed" kernels, survival::killed),
    test!("hidden-files", survival::hidden_files),
    test!("bundle", bundle::bundle),
    test!("probes-python" kernels, probes::python, needs "user_probes"),
    test!("probes-exceptions", probes::exceptions, needs "user_probes"),
    test!("probes-functions" kernels, probes::functions, needs "user_probes"),
    test!("probes-stacks" kernels, probe_stacks::stacks, needs "user_probes"),
    test!("probes-samples" kernels, probe_stacks::samples, needs "user_probes"),
    test!("probes-unwinding", probes::unwinding, needs "user_probes"),
    test!("probes-pairs" kernels, pairs::pairs, needs "user_probes"),
    test!("probes-losses" kernels, probes::losses, needs "user_probes"),
    test!("probes-semaphores" kernels, probes::semaphores, needs "user_probes"),
    test!("zones-order" kernels, order::order, needs "user_probes"),
    test!("zones-late" kernels, zones::late, needs "user_probes"),
    test!("zones-early" kernels, zones::early, needs "user_probes"),
    test!("zones-first" kernels, zones::first, needs "user_probes"),
    test!("zones-losses" kernels, zones::losses, needs "user_probes"),
    test!("zones-probes" kernels, alone::alone, needs "user_probes"),
    test!("zones-killed" kernels, zones::killed, needs "user_probes"),
    test!("crashes", crashes::crashes, needs "user_probes"),
    test!("hostile-mappings", hostile_zones::mappings, needs "user_probes"),
    test!("hostile-memory", hostile_zones::memory, needs "user_probes"),
    test!("hostile-discovery", hostile_zones::discovery, needs "user_probes"),
    test!("hostile-flood", hostile_zones::flood, needs "user_probes"),
    test!("hostile-texts", hostile_zones::texts, needs "user_probes"),
    test!("hostile-announcements", hostile_zones::announcements, needs "user_probes"),
    test!("hostile-looks", hostile_zones::looks, needs "user_probes"),
    test!("hostile-claims", hostile_claims::claims, needs "user_probes"),
    test!("hostile-descriptors", hostile_descriptors::descriptors, needs "user_probes"),
    test!("gpu-fences" kernels, gpu::fences, needs "tracefs"),
    test!("gpu-virtio" kernels, gpu::virtio, needs "tracefs"),
    test!("gpu-scheduler" kernels, gpu::scheduler, needs "tracefs"),
    test!("gpu-memory" kernels, gpu_memory::memory, needs "tracefs"),
    test!("tracefs-unmounted" kernels, tracefs::unmounted, needs "tracefs"),
    test!("gpu-interrupts" kernels, interrupts::interrupts, needs "tracefs"),
    test!("gpu-formats" kernels, gpu_formats::formats, needs "tracefs"),
    test!("gpu-rate", gpu_rate::rate, needs "tracefs"),
    test!("gpu-calls" kernels, presets::presets, needs "user_probes"),
    test!("hostile-commands", hostile_commands::long_command_lines),
    test!("hostile-renames", hostile_renames::renames, needs "user_probes"),
    test!("hostile-stacks", hostile_stacks::stacks),
    test!("hostile-triggers", hostile_triggers::triggers, needs "user_probes"),
    test!("hostile-hits", hostile_hits::hits, needs "user_probes"),
    test!("live", live::live, needs "user_probes"),
    test!("live-tracy" named, live_tracy::live_tracy, needs "user_probes"),
    test!("live-tracy-long" named, live_tracy::long, needs "user_probes"),
    test!("live-unreachable" named, live_unreachable::unreachable),
    test!("low-memory", low_memory::low_memory),
    test!("no-threads", no_threads::no_threads),
    test!("hotplug" kernels, clock::hotplug),
    test!("plain-user", failures::plain_user),
    test!("unknown-process", failures::unknown_process),
    test!("no-function", failures::no_function, needs "user_probes"),
    test!("outputs", failures::outputs),
    test!("damaged-files", failures::damaged_files),
    test!("hostile-captures", hostile_captures::captures),
    test!("full-disk", failures::full_disk),
    test!("hostile-files", hostile_files::hostile_files, needs "user_probes"),
    test!("hostile-mount", hostile_files::hostile_mount, needs "user_probes"),
    test!("hostile-attach", hostile_files::hostile_attach, needs "user_probes"),
    test!("hostile-census", hostile_census::census, needs "user_probes"),
    test!("hostile-crowd", hostile_crowd::crowd, needs "unwind_tables"),
    test!("hostile-overlay", hostile_overlay::overlay, needs "user_probes"),
    test!("hostile-names", hostile_names::names),
    test!("hostile-paths", hostile_paths::mapped, needs "user_probes"),
    test!("hostile-programs", hostile_paths::programs),
    test!("hostile-threads", hostile_tasks::threads, needs "unwind_tables" "user_probes"),
    test!("hostile-tables", hostile_code::tables, needs "unwind_tables"),
    test!("hostile-interpreters", hostile_code::interpreters, needs "unwind_tables"),
    test!("hostile-mapped", hostile_code::mapped, needs "unwind_tables"),
    test!("hostile-probed", hostile_code::probed, needs "user_probes"),
    test!("hostile-rights", hostile_code::rights, needs "user_probes"),
    test!("hostile-debug", hostile_code::debug_information),
    test!("hostile-deleted", hostile_code::deleted),
    test!("jit-names" kernels, jit::names),
    test!("jit-times", jit::times),
    test!("hostile-jit", jit::hostile),
    test!("jvm-names", jvm::names),
    test!("hostile-jvm", jvm::hostile),
];

/// What to run, and where.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Arguments {
    /// Only these tests.
    names: Vec<String>,
    /// Test this build of syscollect: an older one, with which a new test is to fail.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "emulated")]
    program: Option<PathBuf>,
    /// Run the tests that tell something of a kernel with the programs of this
    /// folder, lightly: for virtual machines, see `cargo xtask vm`.
    #[arg(long, value_name = "FOLDER", hide = true)]
    emulated: Option<PathBuf>,
    /// How long those that are run by name only are to go on, where that is not their matter.
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Add a line of JSON for each test to this file.
    #[arg(long, value_name = "FILE", hide = true)]
    results: Option<PathBuf>,
}

/// Runs the tests of these names, or all.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { names, program, emulated, seconds, results } = arguments;
    if let Some(unknown) = names.iter().find(|name| !TESTS.iter().any(|test| test.name == *name)) {
        let known: Vec<&str> = TESTS.iter().map(|test| test.name).collect();
        bail!("there is no privileged test {unknown}; there are: {}", known.join(", "));
    }
    let mut report = match results {
        Some(file) => Report::also_to(file)?,
        None => Report::default(),
    };
    match emulated {
        Some(programs) => {
            tests(&mut report, &Context::emulated(programs)?, Tries::One, |test| {
                is_asked(test, names) && (test.when == When::Kernels || !names.is_empty())
            });
        }
        None if is_root() => {
            let context = match program {
                Some(program) => Context::with_program(program)?,
                None => Context::new()?,
            };
            let context = context.lasting(seconds.map(Duration::from_secs));
            tests(&mut report, &context, Tries::One, |test| is_asked(test, names));
        }
        None => bail!(
            "the privileged tests record the whole machine: run `sudo -E env PATH=\"$PATH\" cargo \
             xtask privileged`"
        ),
    }
    report.finish("privileged")
}

/// Whether a test is to run: without names, all that need none.
fn is_asked(test: &Test, names: &[String]) -> bool {
    match names.is_empty() {
        true => test.when != When::Named,
        false => names.iter().any(|wanted| wanted == test.name),
    }
}

/// The names of the tests that virtual machines run.
pub(crate) fn tests_of_kernels() -> impl Iterator<Item = &'static str> {
    TESTS.iter().filter(|test| test.when == When::Kernels).map(|test| test.name)
}

/// All tests as steps of a longer report.
pub(crate) fn steps(report: &mut Report) {
    if !is_root() {
        report.step("privileged tests", || Ok(Outcome::Skipped("not root".to_owned())));
        return;
    }
    match Context::new() {
        Ok(context) => tests(report, &context, Tries::Two, |test| test.when != When::Named),
        Err(error) => report.step("privileged tests", || Err::<(), _>(error)),
    }
}

/// How often a test is run that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tries {
    One,
    /// In the whole check. Many tests compare times and shares of a machine whose host has other
    /// work, which no bound foresees that is to find a defect. What fails once is run again, and
    /// its line says so.
    Two,
}

fn tests(report: &mut Report, context: &Context, tries: Tries, wanted: impl Fn(&Test) -> bool) {
    if let Err(reason) = &context.engine {
        println!("what trace_processor would judge is skipped: {reason}");
    }
    for test in TESTS.iter().filter(|test| wanted(test)) {
        report.step(test.name, || match context.offered.lacks(test.needs) {
            Some(reason) => Ok(Outcome::NotOffered(reason)),
            None => match attempt(test, context) {
                Err(first) if tries == Tries::Two => again(test, context, &first),
                outcome => outcome,
            },
        });
    }
}

/// Runs a test; where it fails, what it has left running ends, which would disturb all that come
/// later.
fn attempt(test: &Test, context: &Context) -> Result<Outcome> {
    let outcome = (test.run)(context);
    if outcome.is_err() {
        context.end_recorders();
    }
    outcome
}

/// Runs a test once more that has failed.
fn again(test: &Test, context: &Context, first: &Error) -> Result<Outcome> {
    let outcome =
        attempt(test, context).with_context(|| format!("twice; first: {first:#}; then"))?;
    Ok(match outcome {
        Outcome::Passed(detail) => {
            Outcome::Passed(format!("{detail}; AT THE SECOND TRY, the first: {first:#}"))
        }
        other => other,
    })
}

/// Whether this may record the whole machine.
pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
