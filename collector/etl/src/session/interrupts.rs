//! DPCs and interrupts, which are told at their end.

use super::engine::{Engine, TraceEngine};
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
        let (scope, began) = (Scope::Cpu(CpuId::new(record.cpu.into())), engine.time(start));
        self.rows.emit(engine, Interval { event_type, scope, track, began, slice });
        StackSubject::nothing(engine.writer(record))
    }

    fn routine(&mut self, engine: &mut Engine<'_>, address: u64) -> RoutineNames {
        let at = engine.present.ticks();
        let epoch = engine.source.code.images.epoch(KERNEL_SPACE, at);
        if let Some(names) = self.routines.get(&(address, epoch)) {
            return *names;
        }
        let (name, in_image) = engine.source.code.labels(0, at, address, &mut engine.tables);
        let strings = &mut engine.tables.strings;
        let names =
            RoutineNames { name: strings.intern(&name), address: strings.intern(&in_image) };
        self.routines.insert((address, epoch), names);
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::DpcKind;
    use crate::session::images::{ImageAction, ImageRecord, KERNEL_HALF};
    use crate::session::testing::{KeptEvents, record};
    use syscollect_model::{Event, TrackId};

    /// Of a machine with one driver.
    fn kept() -> KeptEvents {
        KeptEvents::with_images(vec![ImageRecord {
            at: 0,
            action: ImageAction::Rundown,
            pid: 0,
            base: KERNEL_HALF,
            size: 0x1000,
            timestamp: 0,
            path: "driver.sys".into(),
        }])
    }

    fn dpc(start: u64) -> Dpc {
        Dpc { kind: DpcKind::Normal, start, routine: KERNEL_HALF + 0x10 }
    }

    /// When slices begin and end, and on which track, in the order in which they were told.
    fn times(reported: &KeptEvents) -> Vec<(u64, TrackId)> {
        reported
            .events
            .iter()
            .map(|(time, event)| match event {
                Event::SliceBegin(track, _) | Event::SliceEnd(track) => (time.0, *track),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_dpc_is_told_at_its_end_and_lies_where_it_began() {
        let mut reported = kept();
        let mut interrupts = Interrupts::new(&mut reported.tables.strings);
        let subject = reported.at(50, |engine| interrupts.on_dpc(engine, &record(50), &dpc(40)));
        assert_eq!(subject, StackSubject::nothing(crate::session::recent::ANY_THREAD));
        let [(begin, track), (end, _)] = times(&reported)[..] else {
            panic!("{:?}", reported.events)
        };
        assert_eq!((begin, end), (40, 50));
        let row = reported.tables.track(track);
        assert_eq!(
            (row.scope, reported.tables.strings.get(row.name)),
            (Scope::Cpu(CpuId::new(0)), "DPC")
        );
        let Event::SliceBegin(_, slice) = &reported.events[0].1 else { unreachable!("it begins") };
        assert_eq!(reported.tables.strings.get(slice.name), "driver.sys+0x10");
        assert!(slice.fields.is_empty(), "the name says the address");
    }

    #[test]
    fn what_overlaps_on_one_cpu_lies_on_rows_of_its_own() {
        let mut reported = kept();
        let mut interrupts = Interrupts::new(&mut reported.tables.strings);
        reported.by(|engine| {
            for (start, end) in [(40, 50), (45, 55), (60, 70)] {
                crate::session::engine::TraceEngine::advance(engine, end);
                interrupts.on_dpc(engine, &record(end), &dpc(start));
            }
        });
        let mut begins = std::collections::BTreeMap::new();
        for ((time, event), (_, track)) in reported.events.iter().zip(times(&reported)) {
            if let Event::SliceBegin(..) = event {
                begins.insert(time.0, track);
            }
        }
        assert_ne!(begins[&40], begins[&45]);
        assert!([begins[&40], begins[&45]].contains(&begins[&60]), "a row is free again");
    }

    #[test]
    fn an_interrupt_says_its_vector_and_whether_it_was_claimed() {
        let mut reported = kept();
        let mut interrupts = Interrupts::new(&mut reported.tables.strings);
        let isr = Isr { start: 40, routine: 0x77, was_claimed: true, vector: 9 };
        reported.at(50, |engine| interrupts.on_isr(engine, &record(50), &isr));
        let (_, Event::SliceBegin(track, slice)) = &reported.events[0] else {
            panic!("{:?}", reported.events);
        };
        let strings = &reported.tables.strings;
        assert_eq!(strings.get(reported.tables.track(*track).name), "ISR");
        assert_eq!(strings.get(slice.name), "0x77", "no image has it");
        let fields = slice.fields.iter();
        let fields: Vec<_> =
            fields.map(|field| (strings.get(field.name), field.value.clone())).collect();
        let expected = [("vector", Value::Unsigned(9)), ("claimed", Value::Unsigned(1))];
        assert_eq!(fields, expected);
    }
}
