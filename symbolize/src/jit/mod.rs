//! Names of code that programs make while they run.

mod files;
mod perf_map;

pub(crate) use files::{FoundMap, PerfMaps, look, look_afterwards};
pub use files::{PerfMapOutcome, PerfMapOwner};

use crate::ModuleRequest;
use crate::naming::Shared;
use crate::turn::Turn;
use syscollect_model::{MemoryAt, ProgramMemory, Symbol, SymbolTable};

/// Names what `request` asks for in a program's own memory.
pub(crate) fn name(
    shared: &Shared,
    request: &ModuleRequest,
    memory: &ProgramMemory,
    turn: &Turn,
) -> SymbolTable {
    let mut table = SymbolTable {
        path: SymbolTable::GENERATED.to_owned(),
        memory: Some(MemoryAt { pid: memory.pid, at: memory.since }),
        ..SymbolTable::default()
    };
    let map = match shared.held.perf_maps().of(memory) {
        Ok(map) => map,
        Err(reason) => return SymbolTable { note: reason, ..table },
    };
    table.memory = Some(MemoryAt { pid: memory.pid, at: map.taken });
    turn.belongs_to(map.file.data().uid);
    let reader = map.file.reader_of_now();
    match reader.and_then(|reader| perf_map::names_in(reader, &request.offsets, turn)) {
        Ok(names) => {
            let mut notes = Vec::new();
            if let Some(cut) = names.cut {
                notes.push(format!("the perf map was not read to its end: {cut}"));
                table.unfinished = (request.offsets.len() - names.symbols.len()) as u64;
            }
            if names.reused > 0 {
                notes.push(format!(
                    "other code lay at {} of these places before, which have the name of the last",
                    names.reused
                ));
            }
            table.symbols = names.symbols;
            table.note = notes.join("; ");
        }
        Err(error) => table.note = format!("the perf map cannot be read: {error}"),
    }
    table
}

/// What a perf map says of `addresses`.
pub fn read_perf_map(map: &[u8], addresses: &[u64]) -> Vec<Symbol> {
    let names = perf_map::names_in(map, addresses, &Turn::default());
    names.map_or_else(|_| Vec::new(), |names| names.symbols)
}
