//! What the kernel tells of GPUs.

use std::io;

use super::machine::Machine;
use super::{AS_ROOT, Capability, describe, is_forbidden};
use crate::tracepoints::{FailureLayout, GPU, NO_FENCES, NO_JOBS, Offers, offered_below};

/// Whether tracepoints can be read about, and which of GPU drivers there are.
pub(super) fn gpu(machine: &Machine) -> Vec<Capability> {
    let offers = offered_below(&machine.path(""), GPU);
    let layout = FailureLayout::below(&machine.path(""));
    vec![tracefs(offers.as_ref()), events(offers.as_ref()), failures(layout.as_ref(), offers.as_ref().ok())]
}

fn tracefs(offers: Result<&Offers, &io::Error>) -> Capability {
    const NAME: &str = "tracefs";
    const WITHOUT: &str = "there is no --gpu without the kernel's descriptions of its tracepoints";
    match offers {
        Ok(_) => Capability::yes(NAME, "the kernel describes its tracepoints, for --gpu"),
        Err(error) if is_forbidden(error) || error.kind() == io::ErrorKind::PermissionDenied => {
            Capability::no(NAME, format!("{WITHOUT} ({}; they are root's)", describe(error))).mend(AS_ROOT)
        }
        Err(_) => Capability::no(NAME, format!("{WITHOUT}: tracefs is not mounted"))
            .mend("sudo mount -t tracefs tracefs /sys/kernel/tracing"),
    }
}

fn events(offers: Result<&Offers, &io::Error>) -> Capability {
    const NAME: &str = "gpu_events";
    let Ok(Offers { offers, unreadable }) = offers else {
        return Capability::no(NAME, "without tracefs nobody knows which GPU drivers tell of their work");
    };
    let mut systems: Vec<(&str, usize)> = Vec::new();
    for offer in offers {
        match systems.iter_mut().find(|(system, _)| *system == offer.system) {
            Some((_, count)) => *count += 1,
            None => systems.push((&offer.system, 1)),
        }
    }
    let mut words: Vec<String> = systems.iter().map(|(system, count)| format!("{system} ({count})")).collect();
    if !unreadable.is_empty() {
        words.push(format!("of an unknown shape: {}", unreadable.join(", ")));
    }
    if offers.is_empty() {
        let shapes = words.first().map(|words| format!(" ({words})")).unwrap_or_default();
        let why = format!("this kernel has no tracepoints of GPUs{shapes}: it has no DRM, or no driver is loaded");
        return Capability::no(NAME, why);
    }
    Capability::yes(NAME, format!("tracepoints for --gpu: {}", words.join(", ")))
}

fn failures(layout: Result<&FailureLayout, &io::Error>, offers: Option<&Offers>) -> Capability {
    const NAME: &str = "gpu_failures";
    let has_scheduler =
        || offers.is_some_and(|offers| offers.offers.iter().any(|offer| offer.system == "gpu_scheduler"));
    match layout {
        Ok(layout) if layout.knows_jobs() => {
            Capability::yes(NAME, "fences and jobs of the DRM scheduler tell their errors")
        }
        // Without the module there are no such jobs.
        Ok(_) if has_scheduler() => Capability::no(NAME, NO_JOBS),
        Ok(_) => Capability::yes(NAME, "fences tell their errors"),
        Err(_) => Capability::no(NAME, NO_FENCES),
    }
}
