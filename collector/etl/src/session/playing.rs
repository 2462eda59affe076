//! Playing: records in, events out.

use super::Knowledge;
use super::decoders::Decoders;
use super::engine::{Engine, Shared};
use super::gpu::Gpu;
use super::interrupts::Interrupts;
use super::lifecycle::Lifecycle;
use super::providers::Providers;
use super::scheduling::Scheduling;
use super::stacks::Stacks;
use super::tally::StackFacts;
use super::transfers::Transfers;
use crate::file::Trace;
use syscollect_playback::{Output, Played, Stopped};

/// How long events wait for their stacks: nearly all come within a millisecond,
/// those of a program's part when its thread returns from the kernel.
const WINDOW_NS: u64 = 500_000_000;

/// A trace while it is played.
pub(super) struct Playing<'a> {
    engine: Engine<'a>,
    decoders: Decoders<'a>,
}

/// What came of playing.
pub(super) struct Outcome {
    pub(super) played: Played,
    pub(super) stacks: StackFacts,
    /// Records that could not be decoded.
    pub(super) undecodable: u64,
}

impl<'a> Playing<'a> {
    pub(super) fn new(known: &'a mut Knowledge, output: Output<'a>) -> Self {
        let Knowledge { content, history, .. } = known;
        let shared = Shared {
            clock: &known.clock,
            tables: &mut known.tables,
            code: &mut known.code,
            added: &mut known.added,
            window: if content.has_delays { WINDOW_NS } else { 0 },
        };
        let engine = Engine::new(shared, &history.initial, output);
        let strings = &mut engine.tables.strings;
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
        Self { engine, decoders }
    }

    /// Plays everything.
    pub(super) fn play(mut self, trace: &Trace) -> Result<Outcome, Stopped> {
        let Self { engine, decoders } = &mut self;
        let mut merged = trace.merged();
        while let Some((_, record)) = merged.next() {
            engine.tally.records += 1;
            decoders.lifecycle.play_until(engine, record.timestamp);
            engine.advance(record.timestamp);
            engine.flush(false)?;
            decoders.on(engine, &record);
        }
        decoders.close(engine);
        engine.flush(true)?;
        let tally = engine.tally;
        Ok(Outcome {
            played: engine.played(),
            stacks: tally.stacks,
            undecodable: tally.undecodable + decoders.gpu.left_out(),
        })
    }
}
