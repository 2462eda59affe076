//! Names of code that programs make while they run.

mod jit_dump;
mod names;
mod perf_map;

use self::names::NamesFound;
use crate::ModuleRequest;
use crate::code_lists::{CodeList, NOT_READ};
use crate::shared::NamingContext;
use crate::turn::NamingTurn;
use std::io::{self, Cursor};
use syscollect_model::{ClockMap, MemoryAt, ProgramMemory, Symbol, SymbolTable};

/// A kind of list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListKind {
    PerfMap,
    JitDump,
}

impl ListKind {
    fn word(self) -> &'static str {
        match self {
            Self::PerfMap => "perf map",
            Self::JitDump => "jitdump",
        }
    }

    fn names_in(
        self,
        list: &CodeList,
        addresses: &[u64],
        clock: Option<&ClockMap>,
        turn: &NamingTurn,
    ) -> io::Result<NamesFound> {
        let reader = list.file.reader_of_now()?;
        match self {
            Self::PerfMap => perf_map::names_in(reader, addresses, turn),
            Self::JitDump => jit_dump::names_in(reader, addresses, clock, turn),
        }
    }
}

/// The lists of what a process ran then; first what says when it lay where.
fn lists<'h>(
    shared: &'h NamingContext,
    memory: &ProgramMemory,
) -> impl Iterator<Item = (ListKind, &'h CodeList)> {
    let pinned = &shared.pinned;
    let perf_map = pinned.perf_maps().of(memory).map(|list| (ListKind::PerfMap, list));
    let dump = pinned.jit_dumps().of(memory).map(|list| (ListKind::JitDump, list));
    dump.into_iter().chain(perf_map)
}

/// Who owns the first of these.
pub(crate) fn owner_of(shared: &NamingContext, memory: &ProgramMemory) -> Option<u32> {
    lists(shared, memory).next().map(|(_, list)| list.file.data().uid)
}

/// Names what `request` asks for in a program's own memory.
pub(crate) fn name(
    shared: &NamingContext,
    request: &ModuleRequest,
    memory: &ProgramMemory,
    turn: &NamingTurn,
) -> SymbolTable {
    let mut table = SymbolTable {
        path: SymbolTable::GENERATED.to_owned(),
        memory: Some(MemoryAt { pid: memory.pid, at: memory.since }),
        ..SymbolTable::default()
    };
    let (mut notes, mut left) = (Vec::new(), request.offsets.clone());
    for (kind, list) in lists(shared, memory) {
        table.memory = Some(MemoryAt { pid: memory.pid, at: list.taken });
        turn.belongs_to(list.file.data().uid);
        match kind.names_in(list, &left, shared.options.clock.as_deref(), turn) {
            Ok(names) => {
                notes.extend(notes_of(kind, &names));
                left.retain(|address| {
                    names.symbols.binary_search_by_key(address, |symbol| symbol.offset).is_err()
                });
                table.unfinished = names.cut.map_or(0, |_| left.len() as u64);
                table.symbols.extend(names.symbols);
            }
            Err(error) => notes.push(format!("its {} is {NOT_READ}: {error}", kind.word())),
        }
    }
    // In order of time at each.
    table.symbols.sort_by_key(|symbol| symbol.offset);
    if notes.is_empty() && table.symbols.is_empty() {
        notes.extend(without_list(shared, memory));
    }
    table.note = notes.join("; ");
    table
}

/// What to say of the names that a list has.
fn notes_of(kind: ListKind, names: &NamesFound) -> impl Iterator<Item = String> {
    let cut = names.cut.map(|cut| format!("its {} was {NOT_READ} to its end: {cut}", kind.word()));
    let reused = (names.reused > 0).then(|| {
        format!(
            "other code lay at {} of these places before, which have the name of the last",
            names.reused
        )
    });
    cut.into_iter().chain(reused)
}

/// Lists of processes that are named by at most.
const REFUSED_MAX: usize = 16;

/// Which lists of code were not read, or not to their ends, and why: a line for each process.
pub fn refused_lists(tables: &[SymbolTable]) -> Vec<String> {
    let mut refused: Vec<(u32, &str)> = tables
        .iter()
        .filter(|table| table.note.contains(NOT_READ))
        .filter_map(|table| Some((table.memory?.pid, table.note.as_str())))
        .collect();
    refused.sort_unstable();
    refused.dedup();
    let others = refused.len().saturating_sub(REFUSED_MAX);
    let lines = refused.iter().take(REFUSED_MAX);
    let lines = lines.map(|(pid, note)| format!("names of code of process {pid}: {note}"));
    let others = (others > 0).then(|| format!("names of code of {others} other processes"));
    lines.chain(others).collect()
}

/// Why a process has no list.
fn without_list(shared: &NamingContext, memory: &ProgramMemory) -> Vec<String> {
    let lists = [shared.pinned.perf_maps(), shared.pinned.jit_dumps()];
    let reasons = lists.into_iter().filter_map(|lists| lists.refusal(memory.pid));
    let reasons: Vec<String> = reasons.map(str::to_owned).collect();
    match self::lists(shared, memory).next() {
        None if reasons.is_empty() => {
            vec!["its process had no perf map and no jitdump".to_owned()]
        }
        _ => reasons,
    }
}

/// What a perf map says of `addresses`.
pub fn read_perf_map(map: &[u8], addresses: &[u64]) -> Vec<Symbol> {
    let names = perf_map::names_in(map, addresses, &NamingTurn::default());
    names.map_or_else(|_| Vec::new(), |names| names.symbols)
}

/// What a jitdump says of `addresses`.
pub fn read_jit_dump(dump: &[u8], addresses: &[u64], clock: Option<&ClockMap>) -> Vec<Symbol> {
    let names = jit_dump::names_in(Cursor::new(dump), addresses, clock, &NamingTurn::default());
    names.map_or_else(|_| Vec::new(), |names| names.symbols)
}
