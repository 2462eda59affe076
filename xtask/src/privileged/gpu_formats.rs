//! Drivers whose hardware is not here: their tracepoints are described once
//! their modules are loaded, and the fields are there that are read by name.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::context::{Context, finish};
use crate::report::Outcome;

const EVENTS: &str = "/sys/kernel/tracing/events";
const DRIVERS: [&str; 4] = ["i915", "amdgpu", "xe", "nouveau"];

/// Events by subsystem and beginning of their name, and the fields that
/// `syscollect-merge` asks for, of which one in each group must be there.
const FIELDS: &[(&str, &str, &[&[&str]])] = &[
    ("dma_fence", "dma_fence_", &[&["driver"], &["timeline"], &["context"], &["seqno"]]),
    ("gpu_scheduler", "drm_sched_job", &[&["fence", "fence_context"]]),
    ("gpu_scheduler", "drm_run_job", &[&["fence", "fence_context"]]),
    ("gpu_scheduler", "drm_sched_process_job", &[&["fence", "fence_context"]]),
    ("drm", "drm_vblank_event", &[&["crtc"], &["seq"]]),
    ("virtio_gpu", "virtio_gpu_cmd_", &[&["dev"], &["vq"], &["name"], &["type"]]),
    ("i915", "i915_request_queue", &[&["ctx"], &["seqno"], &["class"], &["instance"]]),
    ("i915", "i915_request_add", &[&["ctx"], &["seqno"], &["class"], &["instance"]]),
    ("i915", "i915_request_retire", &[&["ctx"], &["seqno"], &["class"], &["instance"]]),
    ("i915", "i915_request_wait_", &[&["ctx"], &["seqno"]]),
    ("amdgpu", "amdgpu_cs_ioctl", &[&["context"], &["seqno"], &["ring"], &["num_ibs"]]),
    ("amdgpu", "amdgpu_sched_run_job", &[&["context"], &["seqno"], &["ring"], &["num_ibs"]]),
    ("xe", "xe_hw_fence_create", &[&["ctx"], &["seqno"], &["fence"]]),
    ("xe", "xe_sched_job_", &[&["fence"], &["guc_id"], &["batch_addr"]]),
];

/// Loads each driver's module; `doctor` understands what they describe.
pub(crate) fn formats(context: &Context) -> Result<Outcome> {
    let programs = context.syscollect.parent().context("a program without a folder")?;
    let Ok(folder) = fs::read_to_string(programs.join("modules")) else {
        return Ok(Outcome::NotOffered(
            "drivers without their hardware are only loaded by `cargo xtask vm`".to_owned(),
        ));
    };
    let loaded = DRIVERS.into_iter().filter(|driver| {
        let modprobe = finish(Command::new("modprobe").args(["-d", folder.trim(), driver]));
        modprobe.is_ok_and(|output| output.status.success())
    });
    let loaded: Vec<&str> = loaded.collect();
    ensure!(!loaded.is_empty(), "no module of {DRIVERS:?} could be loaded");
    let report = context.run(&["doctor", "--json"])?.stdout;
    let report: Value = serde_json::from_str(&report).context("doctor printed no JSON")?;
    let rows = report["capabilities"].as_array().context("doctor printed no capabilities")?;
    let reason = available(rows, "gpu_events")?;
    // All are of a known shape and have the fields that are needed.
    available(rows, "gpu_formats")?;
    let checked = fields()?;
    Ok(Outcome::Passed(format!(
        "{} loaded; {reason}; {checked} of them have the fields that are read",
        loaded.join(", ")
    )))
}

/// Why `doctor` has that capability.
fn available<'a>(capabilities: &'a [Value], name: &str) -> Result<&'a str> {
    let row = capabilities
        .iter()
        .find(|row| row["name"] == name)
        .with_context(|| format!("doctor has no row {name}"))?;
    let reason = row["reason"].as_str().unwrap_or_default();
    ensure!(row["available"] == true, "doctor says: {reason}");
    Ok(reason)
}

/// How many events have all fields that are asked for.
fn fields() -> Result<usize> {
    let mut checked = 0;
    for (system, beginning, groups) in FIELDS {
        for (event, names) in events(system)? {
            if !event.starts_with(beginning) {
                continue;
            }
            for group in *groups {
                let found = group.iter().any(|field| names.iter().any(|name| name == field));
                ensure!(found, "{system}/{event} has none of the fields {group:?}, but {names:?}");
            }
            checked += 1;
        }
    }
    Ok(checked)
}

/// Names of the fields of a subsystem's events.
fn events(system: &str) -> Result<BTreeMap<String, Vec<String>>> {
    let mut events = BTreeMap::new();
    for entry in fs::read_dir(Path::new(EVENTS).join(system)).into_iter().flatten().flatten() {
        let Ok(text) = fs::read_to_string(entry.path().join("format")) else { continue };
        let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("field:"));
        events.insert(
            entry.file_name().to_string_lossy().into_owned(),
            lines.filter_map(field_name).collect(),
        );
    }
    Ok(events)
}

/// What a declaration of a field names.
fn field_name(declaration: &str) -> Option<String> {
    let declared = declaration.split(';').next()?.rsplit([' ', '*']).next()?;
    Some(declared.split('[').next()?.to_owned())
}
