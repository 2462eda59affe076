//! What the kernel and its drivers tell of GPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::machine::Machine;
use super::{AS_ROOT, Capability, describe, is_forbidden};
use crate::gpu_clients::{ClientUsage, OpenGpus, devices, open_gpus};
use crate::tracepoints::{FailureLayout, GPU, NO_FENCES, NO_JOBS, Offers, offered_below};

/// Drivers, tracepoints and what they lack, and what is told of processes.
pub(super) fn gpu(machine: &Machine) -> Vec<Capability> {
    let offers = offered_below(&machine.path(""), GPU);
    let layout = FailureLayout::below(&machine.path(""));
    let drivers = devices(&machine.path(""));
    vec![
        drivers_row(machine, &drivers),
        tracefs(offers.as_ref()),
        events(offers.as_ref()),
        formats(offers.as_ref().ok()),
        failures(layout.as_ref(), offers.as_ref().ok()),
        memory(machine, !drivers.is_empty(), offers.as_ref().ok()),
    ]
}

fn drivers_row(machine: &Machine, drivers: &BTreeMap<String, Vec<String>>) -> Capability {
    const NAME: &str = Capability::GPU_DRIVERS;
    if !drivers.is_empty() {
        let words =
            drivers.iter().map(|(driver, files)| format!("{driver} ({})", files.join(", ")));
        let words = words.collect::<Vec<_>>().join(", ");
        if machine.path("dev/dri").exists() {
            return Capability::yes(NAME, format!("drivers of GPUs: {words}"));
        }
        return Capability::no(
            NAME,
            format!("drivers of GPUs: {words}; but there is no /dev/dri here"),
        )
        .fix("record on the host, or give the container the devices (docker: --device /dev/dri)");
    }
    if machine.path("proc/driver/nvidia").exists() {
        let why = "NVIDIA's own driver tells the kernel nothing of its work; calls of its \
                   libraries are shown";
        return Capability::no(NAME, why);
    }
    let without = match machine.path("sys/class/drm").exists() {
        true => "the kernel knows no GPU: no driver has found one; calls of libraries are shown",
        false => {
            "the kernel has no DRM, or it is not loaded: no driver tells of GPUs; calls of \
             libraries are shown"
        }
    };
    Capability::no(NAME, without).fix(
        "if there is a GPU: sudo modprobe its driver (amdgpu, i915, xe, nouveau, virtio_gpu, ...)",
    )
}

fn tracefs(offers: Result<&Offers, &io::Error>) -> Capability {
    const NAME: &str = "tracefs";
    const WITHOUT: &str = "without the kernel's descriptions of its tracepoints there is no \
                           --tracepoint, and --gpu shows no jobs, waits and frames of displays";
    match offers {
        Ok(_) => Capability::yes(
            NAME,
            "the kernel describes its tracepoints, for --tracepoint and --gpu",
        ),
        Err(error) if is_forbidden(error) || error.kind() == io::ErrorKind::PermissionDenied => {
            Capability::no(
                NAME,
                format!("{WITHOUT} ({}: /sys/kernel/tracing is root's)", describe(error)),
            )
            .fix(AS_ROOT)
        }
        // Where it is not mounted, root's recorder mounts it for itself, from Linux 5.2 on.
        Err(_) => Capability::no(
            NAME,
            format!("{WITHOUT}: tracefs is not mounted, and could not be for this process alone"),
        )
        .fix("sudo syscollect doctor, or: sudo mount -t tracefs tracefs /sys/kernel/tracing"),
    }
}

fn events(offers: Result<&Offers, &io::Error>) -> Capability {
    const NAME: &str = "gpu_events";
    let Ok(Offers { offers, .. }) = offers else {
        return Capability::no(
            NAME,
            "without tracefs nobody knows which GPU drivers tell of their work",
        );
    };
    let mut systems: Vec<(&str, usize)> = Vec::new();
    for offer in offers {
        match systems.iter_mut().find(|(system, _)| *system == offer.system) {
            Some((_, count)) => *count += 1,
            None => systems.push((&offer.system, 1)),
        }
    }
    if offers.is_empty() {
        let why = "this kernel has no tracepoints of GPUs that can be read: it has no DRM, or no \
                   driver is loaded";
        return Capability::no(NAME, why);
    }
    let words: Vec<String> =
        systems.iter().map(|(system, count)| format!("{system} ({count})")).collect();
    Capability::yes(NAME, format!("tracepoints for --gpu: {}", words.join(", ")))
}

/// Whether the tracepoints are as they are known.
fn formats(offers: Option<&Offers>) -> Capability {
    const NAME: &str = "gpu_formats";
    let Some(offers) = offers else {
        return Capability::no(
            NAME,
            "without tracefs nobody knows what the tracepoints of GPUs hold",
        );
    };
    let mut words = Vec::new();
    if !offers.unreadable.is_empty() {
        words.push(format!(
            "of an unknown shape, and not recorded: {}",
            offers.unreadable.join(", ")
        ));
    }
    let not_understood = offers.not_understood();
    if !not_understood.is_empty() {
        words.push(format!(
            "shown as they are, not as jobs or values: {}",
            not_understood.join(", ")
        ));
    }
    if words.is_empty() {
        return Capability::yes(NAME, "tracepoints of GPUs have the fields that are needed");
    }
    Capability::no(NAME, format!("{}; the others are recorded", words.join("; ")))
        .fix("report it with these files: /sys/kernel/tracing/events/.../format")
}

fn failures(layout: Result<&FailureLayout, &io::Error>, offers: Option<&Offers>) -> Capability {
    const NAME: &str = "gpu_failures";
    let has_scheduler = offers
        .is_some_and(|offers| offers.offers.iter().any(|offer| offer.system == "gpu_scheduler"));
    match layout {
        Ok(layout) if layout.knows_jobs() => {
            Capability::yes(NAME, "fences and jobs of the DRM scheduler tell their errors")
        }
        // Without the module there are no such jobs.
        Ok(_) if has_scheduler => Capability::no(NAME, NO_JOBS),
        Ok(_) => Capability::yes(NAME, "fences tell their errors"),
        Err(_) => Capability::no(NAME, NO_FENCES),
    }
}

/// What is told of the processes that have a GPU open now.
fn memory(machine: &Machine, has_devices: bool, offers: Option<&Offers>) -> Capability {
    const NAME: &str = "gpu_memory";
    const WITHOUT: &str = "neither GPU memory nor use of processes is shown";
    let tells_all =
        offers.is_some_and(|offers| offers.offers.iter().any(|offer| offer.system == "gpu_mem"));
    let by_event = if tells_all { "; gpu_mem_total tells of memory when it changes" } else { "" };
    if !has_devices && !tells_all {
        return Capability::no(
            NAME,
            format!("{WITHOUT}: no driver of a GPU is there that could tell"),
        );
    }
    let OpenGpus { usages, silent, refused } = open_gpus(&machine.path(""));
    let reported = by_driver(&usages);
    let silent = silent.into_iter().collect::<Vec<_>>().join(", ");
    if !reported.is_empty() {
        let others = if silent.is_empty() {
            String::new()
        } else {
            format!("; nothing is told by {silent}")
        };
        return Capability::yes(
            NAME,
            format!("of processes drivers tell: {}{others}{by_event}", reported.join(", ")),
        );
    }
    if tells_all {
        return Capability::yes(
            NAME,
            "the tracepoint gpu_mem_total tells of GPU memory when it changes",
        );
    }
    if !silent.is_empty() {
        let row = Capability::no(NAME, format!("{WITHOUT}: nothing is told by {silent}"));
        let could = ["amdgpu", "i915"].iter().any(|driver| silent.contains(driver));
        return if could {
            row.fix("use a newer kernel: from 6.1 on, at the latest, amdgpu and i915 tell")
        } else {
            row
        };
    }
    match refused {
        0 => Capability::no(
            NAME,
            "no process has a GPU open now; what its driver tells is known when one has",
        )
        .fix("start a program that draws, then: sudo syscollect doctor"),
        refused => {
            let why = format!(
                "{refused} processes may not be looked into: what they have of GPUs is not shown"
            );
            Capability::no(NAME, why).fix(AS_ROOT)
        }
    }
}

/// In words, what each driver tells.
fn by_driver(usages: &[ClientUsage]) -> Vec<String> {
    let mut reported = BTreeMap::<&str, (BTreeSet<&str>, BTreeSet<&str>)>::new();
    for ClientUsage { client, memory, engines, .. } in usages {
        let (regions, names) = reported.entry(&client.device.driver).or_default();
        regions.extend(memory.keys().map(String::as_str));
        names.extend(engines.keys().map(String::as_str));
    }
    reported
        .iter()
        .map(|(driver, (regions, engines))| {
            let parts = [list("memory", regions), list("engines", engines)];
            format!("{driver} {}", parts.into_iter().flatten().collect::<Vec<_>>().join(" and "))
        })
        .collect()
}

fn list(what: &str, names: &BTreeSet<&str>) -> Option<String> {
    let names = names.iter().copied().collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then(|| format!("{what} ({names})"))
}
