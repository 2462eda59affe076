//! DPCs and interrupts, which are told at their end.

use super::engine::Engine;
use super::images::KERNEL_SPACE;
use super::interval_rows::{Interval, IntervalRows};
use super::waiting::StackSubject;
use crate::Record;
use crate::payload::{Dpc, Isr};
use rustc_hash::FxHashMap;
use syscollect_model::{CpuId, Field, Fields, Scope, Slice, StringId, Strings, Value};
use syscollect_playback::EventType;

/// Decodes DPCs and interrupts.
#[derive(Debug)]
pub(super) struct Interrupts {
    rows: IntervalRows,
    /// By address and epoch of the kernel's images.
    routines: FxHashMap<(u64, u32), RoutineNames>,
    names: InterruptNames,
}

/// What a routine is called.
#[derive(Clone, Copy, Debug)]
struct RoutineNames {
    name: StringId,
    /// Its address in its image.
    address: StringId,
}

#[derive(Clone, Copy, Debug)]
struct InterruptNames {
    dpc: StringId,
    isr: StringId,
    routine: StringId,
    vector: StringId,
    claimed: StringId,
}

/// A routine that ran over whatever was running on its CPU.
struct Interrupt {
    event_type: EventType,
    track: StringId,
    /// Raw time.
    start: u64,
    /// Its address.
    routine: u64,
    fields: Fields,
}

impl Interrupts {
    pub(super) fn new(strings: &mut Strings) -> Self {
        let [dpc, isr, routine, vector, claimed] =
            ["DPC", "ISR", "routine", "vector", "claimed"].map(|name| strings.intern(name));
        Self {
            rows: IntervalRows::new(strings),
            routines: FxHashMap::default(),
            names: InterruptNames { dpc, isr, routine, vector, claimed },
        }
    }

    pub(super) fn on_dpc(
        &mut self,
        engine: &mut Engine<'_>,
        record: &Record<'_>,
        dpc: &Dpc,
    ) -> StackSubject {
        let interrupt = Interrupt {
            event_type: EventType::Dpc,
            track: self.names.dpc,
            start: dpc.start,
            routine: dpc.routine,
            fields: Fields::new(),
        };
        self.ended(engine, record, interrupt)
    }

    pub(super) fn on_isr(
        &mut self,
        engine: &mut Engine<'_>,
        record: &Record<'_>,
        isr: &Isr,
    ) -> StackSubject {
        let names = self.names;
        let fields = vec![
            Field::named(names.vector, Value::Unsigned(isr.vector.into())),
            Field::named(names.claimed, Value::Unsigned(u64::from(isr.was_claimed))),
        ];
        let interrupt = Interrupt {
            event_type: EventType::Isr,
            track: names.isr,
            start: isr.start,
            routine: isr.routine,
            fields,
        };
        self.ended(engine, record, interrupt)
    }

    fn ended(
        &mut self,
        engine: &mut Engine<'_>,
        record: &Record<'_>,
        interrupt: Interrupt,
    ) -> StackSubject {
        let Interrupt { event_type, track, start, routine, fields } = interrupt;
        let RoutineNames { name, address } = self.routine(engine, routine);
        let mut slice = Slice { fields, ..Slice::named(name) };
        if name != address {
            slice.fields.push(Field::named(self.names.routine, Value::String(address)));
        }
        let (scope, began) =
            (Scope::Cpu(CpuId::new(record.cpu.into())), engine.present.time(start));
        self.rows.tell(engine, Interval { event_type, scope, track, began, slice });
        StackSubject::nothing(engine.writer(record))
    }

    fn routine(&mut self, engine: &mut Engine<'_>, address: u64) -> RoutineNames {
        let at = engine.present.at;
        let epoch = engine.code.images.epoch(KERNEL_SPACE, at);
        if let Some(names) = self.routines.get(&(address, epoch)) {
            return *names;
        }
        let (name, in_image) = engine.code.labels(0, at, address, engine.tables);
        let strings = &mut engine.tables.strings;
        let names =
            RoutineNames { name: strings.intern(&name), address: strings.intern(&in_image) };
        self.routines.insert((address, epoch), names);
        names
    }
}
