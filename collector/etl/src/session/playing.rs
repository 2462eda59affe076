//! Playing: records in, events out.

use super::Knowledge;
use super::decoders::Decoders;
use super::engine::{Engine, TraceEngine, TraceState, no_added_rows};
use super::gpu::Gpu;
use super::interrupts::Interrupts;
use super::lifecycle::Lifecycle;
use super::providers::Providers;
use super::scheduling::Scheduling;
use super::stacks::Stacks;
use super::tally::StackFacts;
use super::transfers::Transfers;
use crate::file::Trace;
use std::mem::{replace, take};
use std::sync::Arc;
use syscollect_model::MachineId;
use syscollect_playback::{EngineParts, Output, Played, Stopped};

/// How long events wait for their stacks: nearly all come within a millisecond,
/// those of a program's part when its thread returns from the kernel.
const WINDOW_NS: u64 = 500_000_000;

/// A trace while it is played.
pub(super) struct Playing<'a> {
    engine: Engine<'a>,
    decoders: Decoders<'a>,
}

/// What came of playing.
pub(super) struct PlayOutcome {
    pub(super) played: Played,
    pub(super) stacks: StackFacts,
    /// Records that could not be decoded.
    pub(super) undecodable: u64,
}

impl<'a> Playing<'a> {
    /// Takes what is known of tables and code, which [`into_parts`](Self::into_parts) gives back.
    pub(super) fn new(known: &'a mut Knowledge, output: Output<'a>) -> Self {
        let Knowledge { content, history, tables, added, code, .. } = known;
        let (mut tables, code) = (take(tables), take(code));
        let strings = &mut tables.strings;
        let window = if content.has_delays { WINDOW_NS } else { 0 };
        let source = TraceState::new(code, window, strings);
        let has_stacks = content.has_stacks;
        let decoders = Decoders {
            lifecycle: Lifecycle::new(&history.lifecycle, strings),
            scheduling: Scheduling::new(
                &known.stacks.long_waits,
                content.longest_wait,
                has_stacks,
                strings,
            ),
            stacks: Stacks::new(&known.stacks.keys, has_stacks),
            interrupts: Interrupts::new(strings),
            transfers: Transfers::new(&known.files, strings),
            providers: Providers::new(&known.schemas),
            gpu: Gpu::new(known.topology.clone()),
            wide_graphics: content.wide_graphics,
        };
        let parts = EngineParts {
            machine: MachineId::FIRST,
            clock: Arc::clone(&known.clock),
            tables,
            added: replace(added, no_added_rows()),
            source,
        };
        let engine = Engine::new(parts, &history.initial, output);
        Self { engine, decoders }
    }

    /// Plays everything.
    pub(super) fn play(&mut self, trace: &Trace) -> Result<PlayOutcome, Stopped> {
        let Self { engine, decoders } = self;
        let mut merged = trace.merged();
        while let Some((_, record)) = merged.next() {
            engine.sink.tally.records += 1;
            decoders.lifecycle.play_until(engine, record.timestamp);
            engine.advance(record.timestamp);
            engine.flush(false)?;
            decoders.on(engine, &record);
        }
        decoders.close(engine);
        engine.flush(true)?;
        Ok(PlayOutcome {
            played: engine.played(),
            stacks: engine.source.stacks,
            undecodable: engine.source.undecodable + decoders.gpu.left_out(),
        })
    }

    /// What it took, for another play.
    pub(super) fn into_parts(self) -> EngineParts<TraceState> {
        self.engine.into_parts()
    }
}
