//! What `doctor` says of a machine is what a recording then finds.

use anyhow::{Context as _, Result, ensure};

use super::context::{Context, text};

/// Without one of these a recording lacks something, and says so.
const MATTER: &[&str] = &[
    "cap_sys_ptrace",
    "cap_syslog",
    "bpf_task_pt_regs",
    "unwind_tables",
    "user_probes",
    "kernel_symbols",
    "found_files",
    "mapped_files",
];

/// Where nothing that matters is absent, a recording at default settings has nothing to add; where
/// something is, it says what it lacks. It samples by what is there.
pub(crate) fn doctor(context: &Context) -> Result<String> {
    let capture = context.path("doctor.syscap");
    context.succeed(&["record", "-o", text(&capture)?, "-d", "1"])?;
    let info = context.info(&capture)?;
    let recording = &info["recording"];
    let notes = recording["notes"].as_array().context("a recording has notes")?;
    let absent: Vec<&&str> = MATTER.iter().filter(|name| !context.offered.has(name)).collect();
    ensure!(
        absent.is_empty() == notes.is_empty(),
        "doctor says that these are not there: {absent:?}; the recording says: {notes:?}"
    );
    let event = recording["sample_event"].as_str().unwrap_or_default();
    if !context.offered.has("hardware_cycles") {
        ensure!(event == "cpu-clock", "no hardware cycles, and samples are by {event}");
    }
    Ok(format!("{} not there, {} notes; samples by {event}", absent.len(), notes.len()))
}
