//! What disks read and write, which is told at its end: disk I/O and hard faults.

use super::engine::Engine;
use super::files::Files;
use super::interval_rows::{Interval, IntervalRows};
use super::recent::ANY_THREAD;
use super::waiting::StackSubject;
use crate::Record;
use crate::payload::{DiskIo, DiskIoKind, HardFault};
use rustc_hash::FxHashMap;
use syscollect_model::{Field, Fields, MachineId, Scope, Slice, StringId, Strings, Value};
use syscollect_playback::EventType;

/// Decodes transfers of disks.
#[derive(Debug)]
pub(super) struct Transfers<'a> {
    files: &'a Files,
    rows: IntervalRows,
    /// Names of tracks by the disk's number.
    disks: FxHashMap<u32, StringId>,
    disk: DiskNames,
    fault: FaultNames,
    fields: FieldNames,
}

#[derive(Clone, Copy, Debug)]
struct DiskNames {
    category: StringId,
    read: StringId,
    write: StringId,
    flush: StringId,
}

#[derive(Clone, Copy, Debug)]
struct FaultNames {
    track: StringId,
    slice: StringId,
}

#[derive(Clone, Copy, Debug)]
struct FieldNames {
    bytes: StringId,
    offset: StringId,
    file: StringId,
    address: StringId,
}

impl<'a> Transfers<'a> {
    pub(super) fn new(files: &'a Files, strings: &mut Strings) -> Self {
        let [category, read, write, flush] =
            ["Disk I/O", "Read", "Write", "Flush"].map(|name| strings.intern(name));
        let [track, slice] = ["Hard faults", "Hard fault"].map(|name| strings.intern(name));
        let [bytes, offset, file, address] =
            ["bytes", "offset", "file", "address"].map(|name| strings.intern(name));
        Self {
            files,
            rows: IntervalRows::new(strings),
            disks: FxHashMap::default(),
            disk: DiskNames { category, read, write, flush },
            fault: FaultNames { track, slice },
            fields: FieldNames { bytes, offset, file, address },
        }
    }

    pub(super) fn on_disk_io(
        &mut self,
        engine: &mut Engine<'_>,
        record: &Record<'_>,
        io: &DiskIo,
    ) -> StackSubject {
        let file = self.file(engine, io.file);
        let strings = &mut engine.tables.strings;
        let track = *self
            .disks
            .entry(io.disk)
            .or_insert_with(|| strings.intern(&format!("Disk {}", io.disk)));
        let names = &self.fields;
        let fields = match io.kind {
            DiskIoKind::Flush => Fields::new(),
            _ => vec![
                Field::named(names.bytes, Value::Bytes(io.size.into())),
                Field::named(names.offset, Value::Address(io.offset)),
                Field::named(names.file, file),
            ],
        };
        let name = match io.kind {
            DiskIoKind::Read => self.disk.read,
            DiskIoKind::Write => self.disk.write,
            DiskIoKind::Flush => self.disk.flush,
        };
        let category = Some(self.disk.category);
        let interval = Interval {
            event_type: EventType::DiskIo,
            scope: Scope::Machine(MachineId::FIRST),
            track,
            began: engine.time(record.timestamp.saturating_sub(io.duration)),
            slice: Slice { category, fields, ..Slice::named(name) },
        };
        self.rows.emit(engine, interval);
        StackSubject::nothing(io.tid.unwrap_or(ANY_THREAD))
    }

    /// A page that had to be read. Its stack names the time alone.
    pub(super) fn on_hard_fault(
        &mut self,
        engine: &mut Engine<'_>,
        fault: &HardFault,
    ) -> StackSubject {
        let file = self.file(engine, fault.file);
        let names = &self.fields;
        let fields = vec![
            Field::named(names.address, Value::Address(fault.address)),
            Field::named(names.file, file),
            Field::named(names.offset, Value::Address(fault.offset)),
            Field::named(names.bytes, Value::Bytes(fault.size.into())),
        ];
        let interval = Interval {
            event_type: EventType::HardFault,
            scope: Scope::Thread(engine.thread(fault.tid)),
            track: self.fault.track,
            began: engine.time(fault.start),
            slice: Slice { fields, ..Slice::named(self.fault.slice) },
        };
        self.rows.emit(engine, interval);
        StackSubject::nothing(ANY_THREAD)
    }

    /// A file by its name, or by its key where nothing names it.
    fn file(&self, engine: &mut Engine<'_>, file: u64) -> Value {
        match self.files.get(file, engine.present.ticks()) {
            Some(path) => Value::String(engine.tables.strings.intern(path)),
            None => Value::Address(file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::engine::TraceEngine;
    use crate::session::testing::{KeptEvents, record};
    use syscollect_model::{Event, Time};

    #[test]
    fn transfers_that_overlap_have_rows_and_begin_before_they_are_told() {
        let (mut reported, files) = (KeptEvents::default(), Files::default());
        let mut transfers = Transfers::new(&files, &mut reported.tables.strings);
        reported.by(|engine| {
            for (at, duration) in [(100, 50), (120, 60), (130, 5)] {
                engine.advance(at);
                let subject = transfers.on_disk_io(engine, &record(at), &read(duration));
                assert_eq!(subject, StackSubject::nothing(7));
            }
        });
        let events: Vec<_> = reported
            .events
            .iter()
            .filter_map(|(time, event)| match event {
                Event::SliceBegin(track, _) => Some((*time, true, *track)),
                Event::SliceEnd(track) => Some((*time, false, *track)),
                _ => None,
            })
            .collect();
        let (first, second) = (events[0].2, events[1].2);
        assert_eq!(reported.tables.track(first), reported.tables.track(second));
        assert_ne!(first, second);
        let (begin, end) = (true, false);
        let expected = [
            (50, begin, first),
            (60, begin, second),
            (100, end, first),
            (120, end, second),
            (125, begin, second),
            (130, end, second),
        ];
        assert_eq!(events, expected.map(|(time, is_begin, track)| (Time(time), is_begin, track)));
    }

    fn read(duration: u64) -> DiskIo {
        DiskIo {
            kind: DiskIoKind::Read,
            disk: 2,
            flags: 0,
            size: 4096,
            offset: 0,
            file: 0xf,
            request: 0,
            duration,
            tid: Some(7),
        }
    }
}
