//! What `syscollect report --json` says.

use super::{add, damage};
use crate::reference_capture::Figures;
use crate::tracy_reader::Damage;
use serde_json::Value;

/// The figures of a report.
///
/// # Errors
///
/// When it is no JSON.
pub fn report(json: &[u8]) -> Result<Figures, Damage> {
    let report: Value =
        serde_json::from_slice(json).map_err(|error| damage(format!("no JSON: {error}")))?;
    let mut figures = Figures::new();
    let f = &mut figures;
    for name in ["switches", "wakeups", "samples", "messages"] {
        add(f, name, number(&report["events"], name));
    }
    for thread in rows(&report["threads"]) {
        add(f, "runs", number(thread, "switches"));
        let whose =
            format!("{} / {}", thread["process"].as_str().unwrap_or_default(), name(thread));
        add(f, format!("runs of {whose}"), number(thread, "switches"));
        add(f, format!("samples of {whose}"), number(thread, "samples"));
    }
    for (table, prefix) in [("slices", "zone"), ("frames", "frames")] {
        rows(&report[table])
            .iter()
            .for_each(|row| add(f, format!("{prefix} {}", name(row)), number(row, "count")));
    }
    for row in rows(&report["instants"]) {
        let prefix =
            if matches!(name(row), "started" | "message" | "job") { "message" } else { "marker" };
        add(f, format!("{prefix} {}", name(row)), number(row, "count"));
    }
    for row in rows(&report["functions"]["by_self"]) {
        add(
            f,
            format!("self {}", row["function"].as_str().unwrap_or_default()),
            number(row, "self"),
        );
    }
    add(f, "self [no stack]", number(&report["functions"], "without_stack"));
    for row in rows(&report["counters"]).iter().filter(|row| name(row) == "queue") {
        add(f, "values of queue", number(row, "count"));
        let sum = row["mean"].as_f64().unwrap_or(f64::NAN) * number(row, "count") as f64;
        add(f, "sum of queue", sum.round() as u64);
    }
    for row in rows(&report["locks"]).iter().filter(|row| name(row) == "cache") {
        add(f, "times that cache was held", number(row, "holds"));
        add(f, "waits for cache", number(row, "waits"));
    }
    for row in rows(&report["memory"]) {
        add(f, "allocations", number(row, "allocations"));
        add(f, "bytes held", number(row, "live_bytes"));
    }
    for row in rows(&report["gpu"]) {
        let queue = row["queue"].as_str().unwrap_or_default();
        add(f, format!("GPU jobs of {queue}"), number(row, "jobs"));
        add(f, format!("GPU time of {queue}"), number(&row["ran"], "total_ns"));
        add(f, format!("GPU delay of {queue}"), number(&row["waited"], "total_ns"));
        add(f, format!("GPU latency of {queue}"), number(&row["took"], "total_ns"));
        add(f, "GPU jobs that failed", number(row, "failed"));
        add(f, "GPU jobs that never ended", number(row, "unfinished"));
        add(f, "GPU jobs without a beginning", number(row, "without_beginning"));
    }
    for row in rows(&report["gpu_waits"]) {
        add(f, "time of waits for a fence", number(row, "waited_ns"));
        if let Some(by) = row["signaled_by"].as_str() {
            add(f, format!("fences signaled by {by}"), 1);
        }
    }
    add(f, "crashes", number(&report["crashes"], "total"));
    Ok(figures)
}

fn rows(table: &Value) -> &[Value] {
    table["rows"].as_array().map_or(&[], Vec::as_slice)
}

fn name(row: &Value) -> &str {
    row["name"].as_str().unwrap_or_default()
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_default()
}
