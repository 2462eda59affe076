//! Seconds as lines: tables for people, JSON for programs.

use super::cost::OwnCost;
use super::draw::latency;
use super::functions::{functions, others as other_functions};
use super::rows::{Column, Row, Selection, Subject, cell, rows};
use super::view::Recorded;
use crate::escape;
use crate::terminal::Style;
use anyhow::Result;
use serde_json::{Value, json};
use syscollect_activity::{
    Interval, OtherActivity, SpanKind, TaskTimes, ThreadName, Waker, WakerShare,
};
use syscollect_model::grouped;

/// A table as wide as all of its columns.
pub(super) fn text(
    recorded: Recorded<'_>,
    second: &Interval,
    cost: &OwnCost,
    selection: &Selection,
    most: usize,
) -> String {
    let percent = |of: fn(&syscollect_activity::CpuActivity) -> u64| {
        let sum: u64 = second.cpus.iter().map(of).sum();
        sum as f64 * 100.0 / (second.cpus.len() as u64 * second.ticks).max(1) as f64
    };
    let mut text = format!(
        "second {}: {} CPUs, busy {:.1} %, not known {:.1} %, {} switches, {} wakeups{}\n",
        second.number,
        second.cpus.len(),
        percent(|cpu| cpu.busy),
        percent(|cpu| cpu.unknown),
        grouped(second.switches),
        grouped(second.wakeups),
        if second.is_incomplete { ", INCOMPLETE: records are missing" } else { "" },
    );
    text += &format!("{}\n{}\n", latency(second), cost.line());
    let subject = selection.subject;
    text += &line(subject, |column| column.title(subject).to_owned());
    let rows = rows(recorded, second, selection);
    for row in rows.iter().take(most) {
        text += &line(subject, |column| cell(second, row, column, subject));
    }
    if rows.len() > most {
        text += &format!("and {} more\n", rows.len() - most);
    }
    text
}

fn line(subject: Subject, cell: impl Fn(Column) -> String) -> String {
    let cells = Column::of(subject).iter().map(|column| {
        let (cell, width) = (cell(*column), usize::from(column.widths(subject).width));
        if column.is_text() { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    });
    cells.collect::<Vec<_>>().join(" ").trim_end().to_owned() + "\n"
}

pub(super) fn print_text(
    recorded: Recorded<'_>,
    second: &Interval,
    cost: &OwnCost,
    selection: &Selection,
    most: usize,
) -> Result<()> {
    let text = text(recorded, second, cost, selection, most) + "\n";
    Ok(escape::print(&text, Style::new(false))?)
}

pub(super) fn print_json(recorded: Recorded<'_>, second: &Interval, cost: &OwnCost) -> Result<()> {
    Ok(escape::print_json(&json(recorded, second, cost).to_string())?)
}

/// Everything of a second, times in nanoseconds.
fn json(recorded: Recorded<'_>, second: &Interval, cost: &OwnCost) -> Value {
    let ns = |ticks| second.nanoseconds(ticks);
    let percentile = |percent| second.latency.percentile(percent).map(ns);
    let cpus = second.cpus.iter().map(|cpu| {
        json!({
            "cpu": cpu.cpu,
            "busy_ns": ns(cpu.busy),
            "idle_ns": ns(cpu.idle),
            "unknown_ns": ns(cpu.unknown),
            "switches": cpu.switches,
        })
    });
    let threads = second.threads.iter().map(|thread| {
        json!({
            "tid": thread.tid,
            "pid": thread.pid,
            "name": name(thread.name),
            "times": times(second, &thread.times),
            "switches": thread.switches,
            "preempted": thread.preempted,
            "wakeups": thread.wakeups,
            "longest_wait_ns": ns(thread.longest_wait),
            "waker": waker(thread.waker),
            "ended": thread.has_ended,
        })
    });
    let processes = second.processes.iter().map(|process| {
        json!({
            "pid": process.pid,
            "name": name(process.name),
            "threads": process.threads,
            "times": times(second, &process.times),
            "switches": process.switches,
            "wakeups": process.wakeups,
            "longest_wait_ns": ns(process.longest_wait),
        })
    });
    let zones = second.zones.iter().map(|zones| {
        json!({
            "kind": match zones.kind {
                SpanKind::Zone => "zone",
                SpanKind::Frame => "frame",
                SpanKind::GpuZone => "gpu",
            },
            "pid": zones.pid,
            "name": &*zones.name,
            "queue": zones.queue.as_deref(),
            "count": zones.count,
            "total_ns": ns(zones.total),
            "p50_ns": ns(zones.p50),
            "p90_ns": ns(zones.p90),
            "p99_ns": ns(zones.p99),
            "longest_ns": ns(zones.longest),
            "process": name(zones.process),
            "open": zones.open,
            "open_for_ns": ns(zones.open_for),
        })
    });
    json!({
        "schema_version": 1,
        "second": second.number,
        "incomplete": second.is_incomplete,
        "cpus": cpus.collect::<Vec<_>>(),
        "switches": second.switches,
        "wakeups": second.wakeups,
        "new_threads": second.new_threads,
        "ended_threads": second.ended_threads,
        "asleep": second.sleeping,
        "latency": {
            "waits": second.latency.count(),
            "p50_ns": percentile(50.0),
            "p90_ns": percentile(90.0),
            "p99_ns": percentile(99.0),
            "longest_ns": ns(second.latency.longest()),
        },
        "threads": threads.collect::<Vec<_>>(),
        "other_threads": others(second, &second.other_threads),
        "processes": processes.collect::<Vec<_>>(),
        "other_processes": others(second, &second.other_processes),
        "zones": zones.collect::<Vec<_>>(),
        "other_zones": second.other_zones,
        "zones_incomplete": second.zones_incomplete,
        "zones_incomplete_users": second.zones_incomplete_users,
        "functions": functions_json(recorded, second),
        "recorder": {
            "cpu_percent": cost.cpu_percent,
            "view_percent": cost.view_percent,
            "peak_bytes": cost.peak_bytes,
            "held_ns": cost.held.as_nanos() as u64,
            "held_bytes": cost.held_bytes,
            "lost": cost.lost,
            "unseen_chunks": cost.unseen_chunks,
        },
    })
}

/// `null` where nobody asked for them.
fn functions_json(recorded: Recorded<'_>, second: &Interval) -> Value {
    let Some(of) = second.functions.as_ref() else { return Value::Null };
    let ns = |ticks| second.nanoseconds(ticks);
    let figures = |row: &Row| {
        let of = row.function.clone().unwrap_or_default();
        json!({
            "name": row.name,
            "module": of.module,
            "cpu_ns": ns(of.ran),
            "cpu_with_calls_ns": ns(of.ran_all),
            "blocked_ns": ns(of.blocked),
            "blocked_with_calls_ns": ns(of.blocked_all),
        })
    };
    let rows = functions(recorded, second, None);
    let not_known = other_functions(second).as_ref().map(figures);
    json!({
        "rows": rows.iter().map(figures).collect::<Vec<_>>(),
        "not_known": not_known,
        "stacks_without_room": of.beyond + of.tree.others().1,
        "incomplete": of.is_incomplete,
    })
}

fn times(second: &Interval, times: &TaskTimes) -> Value {
    let ns = |ticks| second.nanoseconds(ticks);
    json!({
        "running_ns": ns(times.running),
        "runnable_ns": ns(times.runnable),
        "interruptible_ns": ns(times.interruptible),
        "uninterruptible_ns": ns(times.uninterruptible),
        "stopped_ns": ns(times.stopped),
        "unknown_ns": ns(times.unknown),
    })
}

fn others(second: &Interval, others: &OtherActivity) -> Value {
    json!({
        "count": others.count,
        "times": times(second, &others.times),
        "switches": others.switches,
        "wakeups": others.wakeups,
    })
}

fn name(name: Option<ThreadName>) -> Option<String> {
    name.map(|name| name.to_string())
}

fn waker(share: Option<WakerShare>) -> Value {
    let Some(WakerShare { waker, wakeups }) = share else { return Value::Null };
    match waker {
        Waker::Thread(tid, of) => json!({ "tid": tid, "name": name(of), "wakeups": wakeups }),
        Waker::Interrupt => json!({ "kind": "interrupt", "wakeups": wakeups }),
        Waker::Several => json!({ "kind": "several", "wakeups": wakeups }),
        Waker::Unknown => json!({ "kind": "unknown", "wakeups": wakeups }),
    }
}
