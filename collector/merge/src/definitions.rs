//! What a capture says once: read completely when a session is opened.

use syscollect_model::{
    ClockError, ClockMap, ClockPair, Lane, LaneKind, Mapping, RecorderSummary, SessionInfo,
    SymbolTable, Ticks,
};
use syscollect_records::ClockRecord;
use syscollect_store::{
    CaptureReader, ClientDefinition, CounterDefinition, Definition, KnownProcess, LaneLoss,
    ProbeDefinition, ReadBuffer, StoreError, TracepointDefinition, UnwoundStack,
};

/// All definitions of a capture, the last one of each where only one counts.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    pub(crate) info: SessionInfo,
    pub(crate) processes: Vec<KnownProcess>,
    pub(crate) mappings: Vec<Mapping>,
    pub(crate) counters: Vec<CounterDefinition>,
    pub(crate) losses: Vec<LaneLoss>,
    pub(crate) symbols: Vec<SymbolTable>,
    pub(crate) summary: Option<RecorderSummary>,
    pub(crate) clients: Vec<ClientDefinition>,
    pub(crate) probes: Vec<ProbeDefinition>,
    pub(crate) tracepoints: Vec<TracepointDefinition>,
    pub(crate) unwound: Vec<UnwoundStack>,
    /// Definitions that were read.
    pub(crate) count: u64,
    /// Definitions of which no copy verifies.
    pub(crate) unreadable: u64,
    /// Definitions that verify but are not of a shape known here.
    pub(crate) undecodable: u64,
}

impl Definitions {
    pub(crate) fn read(reader: &CaptureReader) -> Self {
        let mut all = Self::default();
        for definition in reader.definitions() {
            match definition {
                Ok(definition) => {
                    all.count += 1;
                    all.add(definition);
                }
                Err(StoreError::Definition { .. }) => all.undecodable += 1,
                Err(_) => all.unreadable += 1,
            }
        }
        all
    }

    fn add(&mut self, definition: Definition) {
        match definition {
            Definition::Session(info) => self.info = *info,
            Definition::Processes(list) => self.processes.extend(list),
            Definition::Mappings(list) => self.mappings.extend(list),
            Definition::Counters(list) => self.counters.extend(list),
            Definition::Losses(list) => self.losses = list,
            Definition::Symbols(table) => self.symbols.push(table),
            Definition::Summary(summary) => self.summary = Some(*summary),
            Definition::Clients(list) => self.clients.extend(list),
            Definition::Probes(list) => self.probes.extend(list),
            Definition::Tracepoints(list) => self.tracepoints.extend(list),
            Definition::Unwound(list) => self.unwound.extend(list),
            // The reader has found the gaps that these tell of; files are for who names.
            Definition::Lanes(_) | Definition::Files(_) => {}
        }
    }
}

/// What came of reading lanes whose chunks are read one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaneCount {
    pub(crate) records: u64,
    pub(crate) unreadable: u64,
    pub(crate) undecodable: u64,
}

/// Calls `each` with first ticks, stride and bytes of every chunk of the lane
/// that verifies, and says how many records could not be read. `each` returns
/// how many records it read and how many it could not decode.
pub(crate) fn each_chunk(
    reader: &CaptureReader,
    lane: Lane,
    mut each: impl FnMut(Ticks, usize, &[u8]) -> (u64, u64),
) -> LaneCount {
    let (mut data, mut buffer, mut count) =
        (Vec::new(), ReadBuffer::default(), LaneCount::default());
    for entry in reader.chunks(lane) {
        match reader.read_into(entry, &mut data, &mut buffer) {
            Ok(header) => {
                let (records, undecodable) = each(header.first, header.stride as usize, &data);
                count.records += records;
                count.undecodable += undecodable;
            }
            // Where records were not counted there was one at least.
            Err(_) => count.unreadable += u64::from(entry.records.max(1)),
        }
    }
    count
}

/// The clock readings of a capture and what their lanes lost.
pub(crate) fn read_clock(
    reader: &CaptureReader,
    lane: Lane,
    into: &mut Vec<ClockPair>,
) -> LaneCount {
    each_chunk(reader, lane, |first, stride, data| match readings(first, stride, data) {
        Some(readings) => {
            let before = into.len();
            into.extend(readings);
            ((into.len() - before) as u64, 0)
        }
        None => (0, 1),
    })
}

/// The clock readings of a chunk; `None` if it holds something else.
pub(crate) fn readings(
    first: Ticks,
    stride: usize,
    data: &[u8],
) -> Option<impl Iterator<Item = ClockPair>> {
    let records = (stride >= ClockRecord::SIZE).then(|| data.chunks_exact(stride))?;
    Some(records.filter_map(ClockRecord::from_bytes).map(move |record| ClockPair {
        ticks: Ticks(record.stamp.ticks_near(first.0)),
        monotonic: record.monotonic,
        monotonic_raw: record.monotonic_raw,
        boottime: record.boottime,
        realtime: record.realtime,
        uncertainty: record.uncertainty,
    }))
}

/// The first clock reading that can be read.
pub(crate) fn first_reading(reader: &CaptureReader) -> Result<ClockPair, ClockError> {
    let mut readings = Vec::new();
    for lane in lanes_of(reader, LaneKind::Clock) {
        read_clock(reader, lane, &mut readings);
    }
    readings.first().copied().ok_or(ClockError::TooFew(0))
}

/// The clock map; with one reading only, the tick rate that was measured when
/// the recording began stands in for the second.
pub(crate) fn clock_map(
    mut readings: Vec<ClockPair>,
    info: &SessionInfo,
) -> Result<ClockMap, ClockError> {
    if let [only] = readings[..]
        && (1e3..1e12).contains(&info.tick_rate_hz)
    {
        readings.push(ClockPair {
            ticks: Ticks(only.ticks.0.saturating_add(info.tick_rate_hz as u64)),
            monotonic: a_second_after(only.monotonic),
            monotonic_raw: a_second_after(only.monotonic_raw),
            boottime: a_second_after(only.boottime),
            realtime: a_second_after(only.realtime),
            uncertainty: only.uncertainty,
        });
    }
    ClockMap::new(readings)
}

fn a_second_after(clock: u64) -> u64 {
    clock.saturating_add(1_000_000_000)
}

/// The lanes of one kind.
pub(crate) fn lanes_of(reader: &CaptureReader, kind: LaneKind) -> impl Iterator<Item = Lane> {
    reader.lanes().into_iter().filter(move |lane| lane.kind == kind)
}
