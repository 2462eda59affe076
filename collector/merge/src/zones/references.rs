//! What items refer to: programs and their logs, the names of fields, stacks.

use crate::engine::{Engine, Writer};
use crate::open::MAX_DEPTH;
use crate::zones::InstrumentedPrograms;
use crate::zones::attributes::{EventAttributes, FieldNames};
use crate::zones::log::SourceLocation;
use crate::zones::stacks::WrittenStack;
use crate::zones::threads::ZoneStart;
use rustc_hash::FxHashMap;
use syscollect_model::{Slice, StackId, Ticks};
use syscollect_playback::Validity;

/// What items refer to, for all that makes events of them.
#[derive(Debug)]
pub(crate) struct ZoneReferences {
    pub(crate) known: InstrumentedPrograms,
    pub(crate) names: FieldNames,
    /// Stacks that were made of those that are known, by number.
    stacks: FxHashMap<u32, (Option<StackId>, Validity)>,
}

impl ZoneReferences {
    pub(crate) fn new(known: InstrumentedPrograms, names: FieldNames) -> Self {
        Self { known, names, stacks: FxHashMap::default() }
    }

    /// Where a zone begins; one of which that is not known, or that lies too deep, is counted.
    #[inline]
    pub(crate) fn location(
        &self,
        engine: &mut Engine<'_>,
        writer: Writer,
        zone: ZoneStart,
    ) -> Option<SourceLocation> {
        let place = self.known.logs.get(writer.program.client).location(zone.location);
        let place = place.filter(|_| zone.depth < MAX_DEPTH);
        if place.is_none() {
            writer.refuse(engine, 1);
        }
        place
    }

    /// How many nanoseconds ago it was by the program's ticks; `None` where these have no meaning.
    pub(crate) fn nanoseconds_since(
        &self,
        engine: &mut Engine<'_>,
        client: u32,
        ticks: u64,
    ) -> Option<u64> {
        let clock = self.known.programs.clock(client, engine.present.map());
        let time = engine.time(clock.anywhere(ticks)?);
        Some(engine.now().0.saturating_sub(time.0))
    }

    /// A stack that the program wrote then; one of a program that has had its share is missing.
    pub(crate) fn stack(
        &mut self,
        engine: &mut Engine<'_>,
        client: u32,
        at: u64,
        stack: &WrittenStack,
    ) -> Option<StackId> {
        if stack.addresses.is_empty() {
            return None;
        }
        let (pid, at) = (self.known.programs.pid(client)?, Ticks(at));
        let resolver = &mut engine.source.resolver;
        let stacks = &mut self.known.prescan.stacks;
        let Some(known) = stacks.known_or_new(&mut resolver.stacks, pid, at, stack) else {
            engine.sink.tally.missing_stacks += 1;
            return None;
        };
        if let Some((stack, holds)) = self.stacks.get(&known.number)
            && holds.at(at)
        {
            return *stack;
        }
        let (stack, holds) = resolver.stack_at(known.defined, at, &mut engine.tables);
        self.stacks.insert(known.number, (stack, holds));
        stack
    }

    /// All stacks are gone: those that programs write are found anew.
    pub(crate) fn forget_code(&mut self) {
        self.stacks = FxHashMap::default();
        self.known.prescan.stacks.forget();
    }

    /// Gives a slice that begins what its program says of it now, and its stack.
    pub(crate) fn describe(
        &mut self,
        engine: &mut Engine<'_>,
        client: u32,
        slice: &mut Slice,
        attributes: EventAttributes,
    ) {
        slice.stack = self.stack(engine, client, engine.present.ticks(), &attributes.stack);
        attributes.own.apply_to(engine, self.names, slice);
    }
}
