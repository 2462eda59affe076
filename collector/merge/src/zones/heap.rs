//! Memory of programs' heaps.

use crate::engine::{Engine, Writer};
use crate::zones::references::ZoneReferences;
use crate::zones::stacks::WrittenStack;
use syscollect_model::{Event, MemoryEvent};
use syscollect_playback::{EventType, Stopped};

/// Memory of a program's heap that is taken or given back.
#[derive(Clone, Copy)]
pub(crate) struct HeapChange {
    pub(crate) address: u64,
    /// Bytes that are taken; `None` where it is given back.
    pub(crate) allocated: Option<u64>,
    /// The number of its pool's name; 0 for the heap itself.
    pub(crate) pool: u32,
}

impl HeapChange {
    /// Emits it with that stack.
    pub(crate) fn emit(
        self,
        engine: &mut Engine<'_>,
        writer: Writer,
        references: &mut ZoneReferences,
        stack: &WrittenStack,
    ) -> Result<(), Stopped> {
        let Self { address, allocated, pool } = self;
        let client = writer.program.client;
        let name = references.known.logs.get(client).string(pool);
        if pool != 0 && name.is_none() {
            writer.refuse(engine, 1);
            return Ok(());
        }
        engine.occurred(if allocated.is_some() { EventType::Allocation } else { EventType::Free });
        let stack = references.stack(engine, client, engine.present.ticks(), stack);
        engine.emit(&Event::Memory(MemoryEvent {
            thread: writer.thread,
            pool: name,
            address,
            allocated,
            stack,
        }))
    }
}
