//! Rows of the report's tables: the first of them, and what is named in them.

use super::data::{SourceLocation, Table, Waiter};
use syscollect_model::{
    LocationId, ModuleId, ModuleKind, ProcessId, RefusedTable, StringId, Tables, ThreadId,
};

/// What stands for the names for which there was no room.
pub(super) const OTHERS: &str = "(other names)";

/// What rows are made with.
#[derive(Clone, Copy)]
pub(super) struct RowMaker<'a> {
    /// Names of what rows tell of.
    pub(super) tables: &'a Tables,
    /// Files of which there was no unwind table.
    pub(super) refused_tables: &'a [RefusedTable],
    /// Rows that a table has at most; their full number is told.
    pub(super) limit: usize,
    /// When the recording began, as far as that is known; nanoseconds of the session.
    pub(super) began: u64,
    /// When the first event was.
    pub(super) first: u64,
}

/// A wait of a thread, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitSpan {
    pub(super) waited: u64,
    pub(super) since: u64,
    pub(super) thread: ThreadId,
}

/// Whom a row is about.
pub(super) struct NamedProcess {
    pub(super) pid: u32,
    pub(super) name: String,
}

impl<'a> RowMaker<'a> {
    /// The first rows in the order of `key`.
    pub(super) fn table<T, K: Ord>(self, mut rows: Vec<T>, key: impl Fn(&T) -> K) -> Table<T> {
        rows.sort_by_cached_key(key);
        let total = rows.len();
        rows.truncate(self.limit);
        Table { total, rows }
    }

    pub(super) fn string(self, id: StringId) -> String {
        self.tables.strings.get(id).to_owned()
    }

    pub(super) fn process(self, id: ProcessId) -> NamedProcess {
        NamedProcess { pid: self.tables.process(id).pid, name: self.tables.process_name(id).into() }
    }

    /// `worker (12)`, by the name that the thread began with.
    pub(super) fn thread_label(self, id: ThreadId) -> String {
        let row = self.tables.thread(id);
        format!("{} ({})", self.tables.strings.get(row.name), row.tid)
    }

    pub(super) fn location(self, location: Option<LocationId>) -> Option<SourceLocation> {
        let row = self.tables.location(location?);
        Some(SourceLocation {
            file: self.string(row.file),
            line: row.line,
            function: self.string(row.function),
        })
    }

    /// Empty for code of no file.
    pub(super) fn module_path(self, module: Option<ModuleId>) -> String {
        module.map_or_else(String::new, |module| self.string(self.tables.module(module).path))
    }

    /// Why there is no unwind table of a module's file; empty where it is not known that there is
    /// none.
    pub(super) fn without_table(self, module: &str) -> &'a str {
        let refused = self.refused_tables.iter().find(|file| file.path == module);
        refused.map_or("", |file| &file.reason)
    }

    pub(super) fn module_kind(self, module: Option<ModuleId>) -> ModuleKind {
        module.map_or(ModuleKind::File, |module| self.tables.module(module).kind)
    }

    pub(super) fn waiter(self, wait: WaitSpan) -> Waiter {
        let WaitSpan { waited, since, thread } = wait;
        let row = self.tables.thread(thread);
        let process = self.process(row.process);
        Waiter {
            waited_ns: waited,
            unknown_ns: 0,
            at_ns: since.saturating_sub(self.began),
            tid: row.tid,
            thread: self.tables.thread_name(thread).into(),
            pid: process.pid,
            process: process.name,
        }
    }
}
