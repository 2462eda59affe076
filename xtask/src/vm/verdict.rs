//! Whether what the guest recorded is what this kernel allows.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::RECORDINGS;
use super::kernel::Kernel;

/// All helpers of the quick programs are there from here on.
const QUICK_PROGRAMS: (u32, u32) = (5, 17);

/// Checks all recordings; says the figures of the one with most stacks.
pub(crate) fn judge(kernel: &Kernel, results: &Path) -> Result<String> {
    let mut detail = String::new();
    for name in RECORDINGS {
        let said = fs::read(results.join(format!("{name}.txt"))).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let text = fs::read_to_string(results.join(format!("{name}.json"))).unwrap_or_default();
        let info: Value = serde_json::from_str(&text).with_context(|| format!("{name} was not recorded:\n{said}"))?;
        ensure!(results.join(format!("{name}.exported")).exists(), "{name} was not exported:\n{said}");
        judge_one(kernel, name, &info).with_context(|| format!("the recording `{name}`"))?;
        if name == "stacks" {
            detail = figures(&info);
        }
    }
    Ok(detail)
}

fn judge_one(kernel: &Kernel, name: &str, info: &Value) -> Result<()> {
    ensure!(info["complete"] == true, "it is not complete");
    ensure!(info["lost"] == 0, "it lost events: {}", info["losses"]);
    ensure!(info["missing_stacks"] == 0, "{} stacks are missing", info["missing_stacks"]);
    ensure!(info["clock"]["source"] == "tsc", "its clock is {}", info["clock"]["source"]);
    for kind in ["switch", "waking", "fork", "exec", "exit"] {
        ensure!(count(info, "events_by_type", kind) > 0, "it has no {kind}: {}", info["events_by_type"]);
    }
    let statistics = &info["recorder"]["statistics"];
    let figure = |name: &str| statistics[name].as_u64().unwrap_or(0);
    ensure!(figure("kernel_stacks_different") == 0, "kernel stacks differ from walked ones: {statistics}");
    let notes = info["recording"]["notes"].to_string();
    let quick = !notes.contains("raw tracepoints");
    ensure!(quick == (kernel.number() >= QUICK_PROGRAMS), "quick programs: {quick}; {notes}");
    if name != "bare" {
        ensure!(figure("stacks_sent") > 0, "it has no stacks: {statistics}");
        ensure!(!quick || figure("kernel_stacks_verified") > 0, "no kernel stack came from slots: {statistics}");
    }
    if name == "stacks" && quick {
        ensure!(figure("kernel_stacks_cross_checked") > 0, "no kernel stack was checked: {statistics}");
    }
    Ok(())
}

fn count(info: &Value, table: &str, row: &str) -> u64 {
    info[table][row].as_u64().unwrap_or(0)
}

fn figures(info: &Value) -> String {
    let statistics = &info["recorder"]["statistics"];
    format!(
        "{} events, {} stacks from slots, {} of them checked",
        info["events"], statistics["kernel_stacks_verified"], statistics["kernel_stacks_cross_checked"]
    )
}
