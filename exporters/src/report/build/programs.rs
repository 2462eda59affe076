//! The report's part on what programs say of themselves.

use crate::report::ReportExporter;
use crate::report::data::*;
use crate::report::locks::{DurationTotals, LockKey, LockTotals};
use crate::report::plots::Plot;
use crate::report::slices::{NamedDurations, SliceKey};
use crate::report::stack_labels::labels;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use syscollect_model::{
    CpuId, LocationId, MachineId, ProcessId, Scope, StringId, Tables, ThreadId, TrackKind, Unit,
};

/// What stands for the names for which there was no room.
pub(in crate::report) const OTHERS: &str = "(other names)";
/// Holders of a lock that are told.
const HOLDERS: usize = 3;

impl ReportExporter {
    pub(in crate::report) fn slice_rows(&self, tables: &Tables) -> Table<SliceRow> {
        let reasons = self.reasons();
        let names = &self.slices.names;
        let mut rows: Vec<_> = names
            .iter()
            .map(|(key, named)| {
                let longest = reasons.get(key).map(|(function, blocked_ns)| BlockedIn {
                    function: function.map(|name| tables.strings.get(name).to_owned()),
                    blocked_ns: *blocked_ns,
                });
                SliceRow {
                    location: source_location(key.location, tables),
                    blocked_in: longest,
                    ..slice_row(tables.strings.get(key.name), named)
                }
            })
            .collect();
        let others = slice_row(OTHERS, names.left_out());
        if others.durations.count + others.unfinished > 0 {
            rows.push(others);
        }
        self.table(rows, |row| {
            (
                Reverse((row.durations.total_ns, row.durations.count)),
                row.name.clone(),
                row.location.clone(),
            )
        })
    }

    /// What slices of each name were blocked in the longest.
    fn reasons(&self) -> FxHashMap<SliceKey, (Option<StringId>, u64)> {
        let mut longest: FxHashMap<SliceKey, (Option<StringId>, u64)> = FxHashMap::default();
        for ((key, function), sum) in self.slices.reasons.iter() {
            let row = longest.entry(*key).or_insert((*function, *sum));
            if (*sum, Reverse(*function)) > (row.1, Reverse(row.0)) {
                *row = (*function, *sum);
            }
        }
        longest
    }

    pub(in crate::report) fn instant_rows(&self, tables: &Tables) -> Table<InstantRow> {
        let instants = &self.slices.instants;
        let mut rows: Vec<_> = instants
            .iter()
            .map(|(name, count)| instant_row(tables.strings.get(*name), *count))
            .collect();
        if *instants.left_out() > 0 {
            rows.push(instant_row(OTHERS, *instants.left_out()));
        }
        self.table(rows, |row| (Reverse(row.count), row.name.clone()))
    }

    pub(in crate::report) fn frame_rows(&self, tables: &Tables) -> Table<FrameRow> {
        let rows = self.slices.frames.iter().map(|(key, named)| {
            let (pid, process) = key.process.map(|id| process(id, tables)).unzip();
            FrameRow {
                name: tables.strings.get(key.name).to_owned(),
                pid,
                process: process.unwrap_or_default(),
                durations: named.durations.distribution(),
                unfinished: named.unfinished,
            }
        });
        self.table(rows.collect(), |row| {
            (Reverse((row.durations.count, row.durations.total_ns)), row.name.clone(), row.pid)
        })
    }

    pub(in crate::report) fn lock_rows(&self, tables: &Tables) -> Table<LockRow> {
        let mut holders: FxHashMap<LockKey, Vec<HolderRow>> = FxHashMap::default();
        for ((key, thread), spans) in self.locks.books().holders.iter() {
            holders.entry(*key).or_default().push(holder(*thread, spans, tables));
        }
        let rows = self.locks.books().rows.iter().map(|(key, totals)| {
            let (pid, process) = process(key.process, tables);
            let LockTotals { waits, holds, contended, given_up } = *totals;
            let mut holders = holders.remove(key).unwrap_or_default();
            holders.sort_by_cached_key(|row| (Reverse(row.held_ns), row.tid, row.name.clone()));
            holders.truncate(HOLDERS);
            LockRow {
                name: tables.strings.get(key.name).to_owned(),
                pid,
                process,
                location: source_location(key.location, tables),
                waits: waits.count,
                contended,
                given_up,
                wait_ns: waits.total,
                longest_wait_ns: waits.longest,
                holds: holds.count,
                held_ns: holds.total,
                longest_hold_ns: holds.longest,
                holders,
            }
        });
        self.table(rows.collect(), |row| {
            (
                Reverse((row.wait_ns, row.held_ns, row.holds)),
                row.name.clone(),
                row.pid,
                row.location.clone(),
            )
        })
    }

    pub(in crate::report) fn pool_rows(&self, tables: &Tables) -> Table<PoolRow> {
        let rows = self.heap.pools().map(|((owner, pool), totals)| {
            let (pid, process) = process(*owner, tables);
            PoolRow {
                pool: pool.map(|name| tables.strings.get(name).to_owned()),
                pid,
                process,
                allocations: totals.allocations,
                frees: totals.frees,
                unknown_frees: totals.unknown_frees,
                allocated_bytes: totals.allocated_bytes,
                live_bytes: totals.live_bytes,
                live_allocations: totals.live,
                peak_bytes: totals.peak_bytes,
            }
        });
        self.table(rows.collect(), |row| {
            (Reverse((row.peak_bytes, row.allocations)), row.pid, row.pool.clone())
        })
    }

    pub(in crate::report) fn crash_rows(&self, tables: &Tables) -> Table<CrashRow> {
        let start = self.first.unwrap_or_default();
        let rows = self.crashes.iter().take(self.options.rows).map(|(time, crash)| {
            let thread = tables.thread(crash.thread);
            let (pid, process) = process(thread.process, tables);
            CrashRow {
                at_ns: time.saturating_sub(start),
                tid: thread.tid,
                thread: tables.strings.get(thread.name).to_owned(),
                pid,
                process,
                signal: tables.strings.get(crash.signal).to_owned(),
                address: crash.address,
                stack: labels(crash.stack, tables),
            }
        });
        Table { total: self.crash_count, rows: rows.collect() }
    }

    pub(in crate::report) fn counter_rows(&self, tables: &Tables) -> Table<CounterRow> {
        let rows =
            self.plots.rows.iter().filter(|(_, plot)| plot.count > 0).map(|(track, plot)| {
                let row = tables.track(*track);
                let unit = match row.kind {
                    TrackKind::Counter { unit } => unit,
                    TrackKind::Slices(_) | TrackKind::Frames { .. } | TrackKind::GpuQueue => {
                        Unit::Number
                    }
                };
                let Plot { count, least: min, mean, most: max, last } = *plot;
                let row = CounterRow {
                    name: tables.strings.get(row.name).to_owned(),
                    owner: owner(row.scope, tables),
                    unit: unit.named(&tables.strings),
                    count,
                    min,
                    mean,
                    max,
                    last,
                };
                (order(tables.track(*track).scope), row)
            });
        let Table { total, rows } = self
            .table(rows.collect(), |(order, row)| (*order, row.name.clone(), row.owner.clone()));
        Table { total, rows: rows.into_iter().map(|(_, row)| row).collect() }
    }
}

fn slice_row(name: &str, named: &NamedDurations) -> SliceRow {
    SliceRow {
        name: name.to_owned(),
        location: None,
        durations: outermost(named),
        unfinished: named.unfinished,
        thread: named.times,
        blocked_in: None,
    }
}

fn instant_row(name: &str, count: u64) -> InstantRow {
    InstantRow { name: name.to_owned(), count }
}

/// What programs say stands before what the machine says.
fn order(scope: Scope) -> (u8, CpuId) {
    match scope {
        Scope::Process(_) | Scope::Thread(_) => (0, CpuId::default()),
        Scope::Machine(machine) => (1, CpuId { machine, number: 0 }),
        Scope::Cpu(cpu) => (2, cpu),
    }
}

fn owner(scope: Scope, tables: &Tables) -> String {
    match scope {
        Scope::Machine(MachineId::FIRST) => "machine".to_owned(),
        Scope::Machine(machine) => tables.machine_name(machine).into(),
        Scope::Cpu(cpu) => cpu.to_string(),
        Scope::Process(id) => numbered(tables.process_name(id), tables.process(id).pid),
        Scope::Thread(id) => numbered(tables.thread_name(id), tables.thread(id).tid),
    }
}

fn numbered(name: std::borrow::Cow<'_, str>, id: u32) -> String {
    format!("{name} ({id})")
}

fn holder(thread: ThreadId, spans: &DurationTotals, tables: &Tables) -> HolderRow {
    let row = tables.thread(thread);
    HolderRow {
        tid: row.tid,
        name: tables.thread_name(thread).into(),
        holds: spans.count,
        held_ns: spans.total,
        longest_hold_ns: spans.longest,
    }
}

pub(in crate::report) fn process(id: ProcessId, tables: &Tables) -> (u32, String) {
    (tables.process(id).pid, tables.process_name(id).into())
}

/// The durations of all; the total is of those that are in no other of the row, as a function's in
/// a call tree.
fn outermost(named: &NamedDurations) -> Distribution {
    let all = named.durations.distribution();
    Distribution { total_ns: all.total_ns.saturating_sub(named.nested_ns), ..all }
}

fn source_location(location: Option<LocationId>, tables: &Tables) -> Option<SourceLocation> {
    let row = tables.location(location?);
    let [file, function] = [row.file, row.function].map(|name| tables.strings.get(name).to_owned());
    Some(SourceLocation { file, line: row.line, function })
}
