//! Engines for the tests of decoders, and what was told.

use super::address_lists::AddressLists;
use super::code::Code;
use super::engine::{Engine, TraceEngine, TraceState, no_added_rows};
use super::images::{Identities, ImageRecord, Images};
use super::methods::Methods;
use crate::{Class, ExtendedItems, Record};
use std::mem::{replace, take};
use std::sync::Arc;
use syscollect_model::{Event, MachineId, StackId, Tables, Time};
use syscollect_playback::testing::nanosecond_clock;
use syscollect_playback::{AddedRows, EngineParts, Output};

/// A record of CPU 0, of which nothing else is known.
pub(super) fn record(timestamp: u64) -> Record<'static> {
    Record {
        timestamp,
        class: Class::Wpp,
        cpu: 0,
        task: None,
        version: 2,
        is_64_bit: true,
        payload: &[],
        extended: ExtendedItems::default(),
    }
}

/// Addresses as they lie in a stack's record.
pub(super) fn addresses<const N: usize>(addresses: [u64; N]) -> Vec<u8> {
    addresses.map(u64::to_le_bytes).concat()
}

/// What is told of these tables.
pub(super) struct KeptEvents {
    pub(super) tables: Tables,
    pub(super) code: Code,
    pub(super) events: Vec<(Time, Event)>,
    added: AddedRows,
}

impl Default for KeptEvents {
    /// Of a machine without images.
    fn default() -> Self {
        Self::with_images(Vec::new())
    }
}

impl KeptEvents {
    /// Of a machine with these images. A unit of the raw clock is a nanosecond.
    pub(super) fn with_images(images: Vec<ImageRecord>) -> Self {
        let images = Images::new(images, &[]);
        let lists = AddressLists::default();
        Self {
            tables: Tables::default(),
            code: Code::new(images, Methods::default(), &Identities::default(), lists),
            events: Vec::new(),
            added: no_added_rows(),
        }
    }

    /// The addresses of a stack, innermost first, as they are looked up.
    pub(super) fn frames(&self, stack: Option<StackId>) -> Vec<u64> {
        let frames = stack.map(|stack| self.tables.stack(stack)).into_iter().flatten();
        frames.map(|frame| self.tables.frame(*frame).offset).collect()
    }

    /// Keeps what `decode` tells in an engine of its own.
    pub(super) fn by<T>(&mut self, decode: impl FnOnce(&mut Engine<'_>) -> T) -> T {
        let mut kept = syscollect_playback::testing::KeptEvents::default();
        let (mut tables, code) = (take(&mut self.tables), take(&mut self.code));
        let parts = EngineParts {
            machine: MachineId::FIRST,
            clock: Arc::new(nanosecond_clock()),
            source: TraceState::new(code, 0, &mut tables.strings),
            tables,
            added: replace(&mut self.added, no_added_rows()),
        };
        let mut engine = Engine::new(parts, &[], Output::of_part(&mut kept, None, None));
        let result = decode(&mut engine);
        engine.flush(true).unwrap();
        let EngineParts { tables, added, source: TraceState { code, .. }, .. } =
            engine.into_parts();
        (self.tables, self.added, self.code) = (tables, added, code);
        self.events.append(&mut kept.events);
        result
    }

    /// The same at this raw time.
    pub(super) fn at<T>(&mut self, now: u64, decode: impl FnOnce(&mut Engine<'_>) -> T) -> T {
        self.by(|engine| {
            engine.advance(now);
            decode(engine)
        })
    }
}
