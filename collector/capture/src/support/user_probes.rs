//! What probes in user programs, and instrumented programs, need of the kernel.

use super::machine::Machine;
use super::probe::Probe;
use super::{AS_ROOT, Capability, Try, describe, is_forbidden, tried};
use std::io;

const NEWER_KERNEL: &str = "use a kernel of 6.6 or later with CONFIG_UPROBES";

/// Attaching to many places at once, and attaching at all.
pub(super) fn user_probes(machine: &Machine, attempt: Try<'_>) -> Vec<Capability> {
    let multi = attempt(&Probe::UprobeMulti);
    let way = match &multi {
        Ok(()) => Capability::yes(
            NAME,
            "USDT probes, functions and instrumented programs are attached to by one uprobe_multi \
             link for each file",
        ),
        Err(error) => by_events(machine, attempt, error),
    };
    let row = tried(
        "uprobe_multi",
        multi,
        "many user functions with one link",
        "an event of the uprobe PMU is used for each place instead, which takes longer to attach \
         and detach",
        Some(NEWER_KERNEL),
    );
    vec![row, way]
}

const NAME: &str = "user_probes";

/// The older way: an event of the uprobe PMU for each place.
fn by_events(machine: &Machine, attempt: Try<'_>, no_link: &io::Error) -> Capability {
    let forbidden = is_forbidden(no_link);
    let number =
        machine.read("sys/bus/event_source/devices/uprobe/type").and_then(|text| text.parse().ok());
    let Some(pmu) = number else {
        let why = format!("no uprobe_multi link ({}) and no uprobe PMU", describe(no_link));
        return refused(why, forbidden);
    };
    match attempt(&Probe::UprobeEvent(pmu)) {
        Ok(()) => {
            const WAY: &str = "USDT probes, functions and instrumented programs are attached to by \
                               an event of the uprobe PMU for each place";
            let alone =
                "; each gets a small program of its own, because this kernel has no cookies (5.15)";
            let without_cookies = !release_at_least(machine, 5, 15);
            Capability::yes(NAME, format!("{WAY}{}", if without_cookies { alone } else { "" }))
        }
        Err(error) => {
            let admin =
                if is_forbidden(&error) { ", which before 6.6 needs cap_sys_admin" } else { "" };
            let why = format!(
                "no uprobe_multi link ({}), uprobe PMU: {}{admin}",
                describe(no_link),
                describe(&error)
            );
            refused(why, forbidden || is_forbidden(&error))
        }
    }
}

fn refused(why: String, forbidden: bool) -> Capability {
    const WITHOUT: &str = "neither probes in programs nor instrumented programs are recorded";
    let remedy = if forbidden { AS_ROOT } else { NEWER_KERNEL };
    Capability::no(NAME, format!("{WITHOUT}: {why}")).fix(remedy)
}

/// Whether the machine's kernel is at least this; one that does not say is.
fn release_at_least(machine: &Machine, major: u32, minor: u32) -> bool {
    let Some(release) = machine.read("proc/sys/kernel/osrelease") else { return true };
    let mut parts =
        release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (major, minor)
}
