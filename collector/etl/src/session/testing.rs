//! Engines for the tests of decoders, and what was told.

use super::address_lists::AddressLists;
use super::code::Code;
use super::engine::{AddedRows, Engine, Shared};
use super::images::{Identities, ImageRecord, Images};
use super::methods::Methods;
use crate::{Class, ExtendedItems, Record};
use syscollect_model::{
    ClockMap, ClockPair, Event, Exporter, Loss, RecorderSummary, SessionInfo, StackId, Tables,
    Ticks, Time,
};
use syscollect_playback::{Output, Stopped};

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
    clock: ClockMap,
    added: AddedRows,
}

/// Keeps all events.
struct Keeping<'a>(&'a mut Vec<(Time, Event)>);

impl Exporter for Keeping<'_> {
    type Error = Stopped;

    fn begin(&mut self, _: &SessionInfo, _: &Tables) -> Result<(), Stopped> {
        Ok(())
    }

    fn event(&mut self, time: Time, event: &Event, _: &Tables) -> Result<(), Stopped> {
        self.0.push((time, event.clone()));
        Ok(())
    }

    fn end(&mut self, _: &[Loss], _: Option<&RecorderSummary>, _: &Tables) -> Result<(), Stopped> {
        Ok(())
    }
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
        let reading = |ns: u64| ClockPair {
            ticks: Ticks(ns),
            monotonic: ns,
            monotonic_raw: ns,
            boottime: ns,
            realtime: ns,
            uncertainty: 0,
        };
        let images = Images::new(images, &[]);
        let lists = AddressLists::default();
        Self {
            tables: Tables::default(),
            code: Code::new(images, Methods::default(), &Identities::default(), lists),
            events: Vec::new(),
            clock: ClockMap::new(vec![reading(0), reading(1_000_000)]).unwrap(),
            added: AddedRows::default(),
        }
    }

    /// The addresses of a stack, innermost first, as they are looked up.
    pub(super) fn frames(&self, stack: Option<StackId>) -> Vec<u64> {
        let frames = stack.map(|stack| self.tables.stack(stack)).into_iter().flatten();
        frames.map(|frame| self.tables.frame(*frame).offset).collect()
    }

    /// Keeps what `decode` tells in an engine of its own.
    pub(super) fn by<T>(&mut self, decode: impl FnOnce(&mut Engine<'_>) -> T) -> T {
        let mut keeping = Keeping(&mut self.events);
        let shared = Shared {
            clock: &self.clock,
            tables: &mut self.tables,
            code: &mut self.code,
            added: &mut self.added,
            window: 0,
        };
        let output = Output::new(&mut keeping, Time(0)..Time(u64::MAX));
        let mut engine = Engine::new(shared, &[], output);
        let result = decode(&mut engine);
        engine.flush(true).unwrap();
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
