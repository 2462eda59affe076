//! Crashes of programs, as their handlers tell, and processes that signals ended, as the kernel
//! tells.
//!
//! What a program claims is true where the kernel confirms it: such crashes come first, and claims
//! without end take no room from them.

use super::data::{CrashRow, EventBeforeCrash, SignalExitRow, Table};
use super::recent::{RecentEvent, ThreadEvent};
use super::row_maker::RowMaker;
use super::stack_labels::labels;
use crate::labels::signal_exit;
use std::cmp::Reverse;
use syscollect_model::{Crash, SignalExit, StringId, Tables};

/// Crashes that are told, and processes.
const MAX_ROWS: usize = 1 << 10;
/// Crashes of one process: its last one is the one that ended it.
const MOST_OF_PROCESS: usize = 4;

/// Crashes of a process that come so soon after each other are one: a handler that was there before
/// says what it found and aborts. Nanoseconds.
const ONE_CRASH: u64 = 1_000_000_000;

/// What was open and what happened on the thread before it crashed.
#[derive(Debug, Default)]
pub(super) struct BeforeCrash {
    /// Names of the slices that were open, the outermost first.
    pub(super) open: Vec<StringId>,
    /// The last events, the last one first.
    pub(super) events: Vec<RecentEvent>,
}

#[derive(Debug)]
struct ToldCrash {
    at: u64,
    crash: Crash,
    before: BeforeCrash,
    /// How the process ended after it.
    exit: Option<SignalExit>,
}

#[derive(Debug)]
struct SilentExit {
    at: u64,
    exit: SignalExit,
}

/// Crashes, and processes that signals ended without one that was told; and how many there were.
#[derive(Debug, Default)]
pub(super) struct Crashes {
    told: Vec<ToldCrash>,
    told_count: usize,
    silent: Vec<SilentExit>,
    silent_count: usize,
}

impl Crashes {
    /// A program tells of a crash.
    pub(super) fn tell(&mut self, at: u64, crash: &Crash, before: BeforeCrash, tables: &Tables) {
        self.told_count += 1;
        let told = ToldCrash { at, crash: *crash, before, exit: None };
        let process = |told: &ToldCrash| tables.thread(told.crash.thread).process;
        let own = process(&told);
        let of_process = self.told.iter().filter(|other| process(other) == own).count();
        if of_process >= MOST_OF_PROCESS {
            if let Some(last) = self.told.iter_mut().rfind(|other| process(other) == own) {
                *last = told;
            }
            return;
        }
        if self.told.len() >= MAX_ROWS {
            let Some(claim) = self.told.iter().position(|other| other.exit.is_none()) else {
                return;
            };
            self.told.remove(claim);
        }
        self.told.push(told);
    }

    /// A signal ends a process.
    pub(super) fn exit(&mut self, at: u64, exit: &SignalExit, tables: &Tables) {
        let own = |told: &&mut ToldCrash| {
            exit.is_crash && tables.thread(told.crash.thread).process == exit.process
        };
        if let Some(last) = self.told.iter_mut().rfind(own).map(|told| told.at) {
            let together = self.told.iter_mut().filter(own);
            let together = together.filter(|told| last.saturating_sub(told.at) <= ONE_CRASH);
            together.for_each(|told| told.exit = Some(*exit));
            return;
        }
        self.silent_count += 1;
        if self.silent.len() < MAX_ROWS {
            self.silent.push(SilentExit { at, exit: *exit });
        }
    }

    /// Those that ended their processes first, in the order in which they happened.
    pub(super) fn rows(&self, maker: RowMaker<'_>) -> Table<CrashRow> {
        let mut told: Vec<&ToldCrash> = self.told.iter().collect();
        told.sort_by_key(|told| (told.exit.is_none(), told.at));
        let rows = told.iter().take(maker.limit).map(|told| told.row(maker));
        Table { total: self.told_count, rows: rows.collect() }
    }

    /// Those by which programs crash first, in the order in which they happened.
    pub(super) fn exit_rows(&self, maker: RowMaker<'_>) -> Table<SignalExitRow> {
        let mut silent: Vec<&SilentExit> = self.silent.iter().collect();
        silent.sort_by_key(|silent| (Reverse(silent.exit.is_crash), silent.at));
        let rows = silent.iter().take(maker.limit).map(|SilentExit { at, exit }| {
            let process = maker.process(exit.process);
            let thread = exit.thread.map(|thread| maker.tables.thread(thread));
            SignalExitRow {
                tid: thread.map(|thread| thread.tid),
                thread: thread.map_or_else(String::new, |thread| maker.string(thread.name)),
                at_ns: at.saturating_sub(maker.first),
                pid: process.pid,
                process: process.name,
                signal: maker.string(exit.signal),
                is_crash: exit.is_crash,
                core_dumped: exit.has_core_dump,
            }
        });
        Table { total: self.silent_count, rows: rows.collect() }
    }
}

impl ToldCrash {
    fn row(&self, maker: RowMaker<'_>) -> CrashRow {
        let Self { at, crash, before, exit } = self;
        let thread = maker.tables.thread(crash.thread);
        let process = maker.process(thread.process);
        let events = before.events.iter().map(|event| EventBeforeCrash {
            before_ns: at.saturating_sub(event.at),
            kind: event.what.kind().to_owned(),
            name: match &event.what {
                ThreadEvent::Slice(name) | ThreadEvent::Instant(name) => maker.string(*name),
                ThreadEvent::Message(text) => text.to_string(),
            },
        });
        CrashRow {
            at_ns: at.saturating_sub(maker.first),
            tid: thread.tid,
            thread: maker.string(thread.name),
            pid: process.pid,
            process: process.name,
            signal: maker.string(crash.signal),
            code: maker.string(crash.code),
            address: crash.address,
            end: exit.map(|exit| signal_exit(&exit, maker.tables)),
            open: before.open.iter().map(|name| maker.string(*name)).collect(),
            before: events.collect(),
            stack: labels(crash.stack, maker.tables),
        }
    }
}
