//! Counters: those of the machine and its CPUs have a track from the start, those of processes get
//! theirs from the process that has the id when the first value is told.

use crate::engine::{CaptureEngine, Engine};
use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::{
    CpuId, Event, Forgotten, MachineId, ProcessId, Scope, StringId, Tables, Track, TrackId,
    TrackKind, Unit,
};
use syscollect_playback::{EventType, Stopped};
use syscollect_records::CounterRecord;
use syscollect_store::CounterDefinition;

/// Keeps rows of counters apart from those of other tracks of the same name.
const COUNTERS: u64 = 1 << 58;

/// The counters of a capture by number.
#[derive(Debug, Default)]
pub(crate) struct CounterTable {
    tracks: FxHashMap<u64, TrackId>,
    of_processes: FxHashMap<u64, ProcessCounter>,
}

#[derive(Clone, Copy, Debug)]
struct ProcessCounter {
    pid: u32,
    name: StringId,
    unit: Unit,
}

impl CounterTable {
    /// Adds counters of a machine; of one that is there already the first definition counts.
    pub(crate) fn add(
        &mut self,
        definitions: &[CounterDefinition],
        machine: MachineId,
        tables: &mut Tables,
    ) {
        for CounterDefinition { counter, name, unit, cpu, pid } in definitions {
            let (name, unit) = (tables.strings.intern(name), unit.intern(&mut tables.strings));
            // The definitions may be there twice; the number is what counts.
            match pid {
                Some(pid) => {
                    self.of_processes.entry(*counter).or_insert(ProcessCounter {
                        pid: *pid,
                        name,
                        unit,
                    });
                }
                None => {
                    let scope = match *cpu {
                        Some(number) => Scope::Cpu(CpuId { machine, number }),
                        None => Scope::Machine(machine),
                    };
                    let kind = TrackKind::Counter { unit };
                    self.tracks
                        .entry(*counter)
                        .or_insert_with(|| tables.add_track(Track { scope, name, kind }));
                }
            }
        }
    }
}

/// Decodes lanes of counters.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) table: CounterTable,
    /// Tracks of those of processes, by number; `None` where the process has ended.
    tracks: FxHashMap<u64, Option<TrackId>>,
    by_process: FxHashMap<ProcessId, Vec<(u64, TrackId)>>,
    /// Those whose process had ended when it was last forgotten.
    ended: FxHashSet<u64>,
}

impl Counters {
    pub(crate) fn new(table: CounterTable) -> Self {
        let (tracks, by_process, ended) = Default::default();
        Self { table, tracks, by_process, ended }
    }

    /// A value of a counter.
    pub(crate) fn on(
        &mut self,
        engine: &mut Engine<'_>,
        lane: usize,
        record: &CounterRecord,
    ) -> Result<(), Stopped> {
        let value = f64::from_bits(record.value);
        let track = match self.table.tracks.get(&record.counter) {
            Some(track) => Some(Some(*track)),
            None => self.process_counter(engine, record.counter),
        };
        let Some(track) = track.filter(|_| value.is_finite()) else {
            engine.unknown(lane);
            return Ok(());
        };
        engine.count(EventType::Counter);
        // What is told of a process that has ended was told when it ended.
        track.map_or(Ok(()), |track| engine.emit(&Event::Counter(track, value)))
    }

    fn process_counter(&mut self, engine: &mut Engine<'_>, number: u64) -> Option<Option<TrackId>> {
        if let Some(track) = self.tracks.get(&number) {
            return Some(*track);
        }
        let ProcessCounter { pid, name, unit } = *self.table.of_processes.get(&number)?;
        let process = engine.process_of(pid);
        let track = engine.track(
            Track { scope: Scope::Process(process), name, kind: TrackKind::Counter { unit } },
            COUNTERS,
        );
        self.tracks.insert(number, Some(track));
        self.by_process.entry(process).or_default().push((number, track));
        Some(Some(track))
    }

    /// Forgets counters of processes that are gone.
    pub(crate) fn forget(&mut self, forgotten: &Forgotten) {
        let gone: Vec<u64> =
            self.tracks.iter().filter(|(_, track)| track.is_none()).map(|(of, _)| *of).collect();
        // Whoever tells of one that has ended tells soon after.
        for number in gone {
            if !self.ended.insert(number) {
                self.ended.remove(&number);
                self.tracks.remove(&number);
                self.table.of_processes.remove(&number);
            }
        }
        self.by_process.retain(|process, _| !forgotten.processes.contains(process));
    }

    /// The process ends, and what it had with it: whoever asks for it asks later.
    pub(crate) fn end_process(
        &mut self,
        engine: &mut Engine<'_>,
        process: ProcessId,
    ) -> Result<(), Stopped> {
        for (number, track) in self.by_process.remove(&process).unwrap_or_default() {
            self.tracks.insert(number, None);
            engine.emit(&Event::Counter(track, 0.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{COUNTER, events_of};

    fn value(counter: u64, value: f64) -> CounterRecord {
        CounterRecord { counter, value: value.to_bits(), ..Default::default() }
    }

    #[test]
    fn what_a_process_has_ends_with_it_and_is_not_told_later() {
        let mut tables = Tables::default();
        let definition = CounterDefinition {
            counter: 5,
            name: "GPU memory".into(),
            unit: Default::default(),
            cpu: None,
            pid: Some(100),
        };
        let mut table = CounterTable::default();
        table.add(&[definition], MachineId::FIRST, &mut tables);
        let events = events_of(&mut tables, |engine| {
            let mut counters = Counters::new(table);
            counters.on(engine, COUNTER, &value(5, 64.0)).unwrap();
            let process = engine.process_of(100);
            counters.end_process(engine, process).unwrap();
            counters.on(engine, COUNTER, &value(5, 32.0)).unwrap();
            counters.on(engine, COUNTER, &value(6, 1.0)).unwrap();
            assert_eq!(engine.source.losses.totals()[0].count, 1, "nobody defined number 6");
        });
        let [Event::Counter(track, 64.0), Event::Counter(ended, 0.0)] = events[..] else {
            panic!("{events:?}");
        };
        assert_eq!(track, ended);
    }
}
