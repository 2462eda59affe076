//! Where chunks go: into the trace buffer of the file that is being written.
//!
//! A recording may go on in another file (`--rotate`). Each is readable alone: its lanes count from
//! 0, and what was said once and still holds is said again at its beginning. What of that can be
//! found out anew (processes, mappings, stacks) is; what cannot is kept here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use syscollect_model::{Lane, LaneKind, NextFile, Ticks};
use syscollect_store::{BufferMode, Chunk, Definition, LaneEnd, Producer, TraceBuffer};

use crate::fair_queue::payer_of;
use crate::fold::StateFold;
use crate::tee::Tee;

/// Most bytes of definitions that are kept to be said again. Beyond that the oldest go, and what
/// refers to them is undecodable in later files, which readers count.
const MOST_STANDING: usize = 64 << 20;

/// Definitions that hold as long as the recording, by their names in JSON.
const STANDING: [&str; 4] = ["counters", "probes", "tracepoints", "clients"];

/// Takes the chunks of all threads. Shared by reference; pushing never waits for the disk.
pub(crate) struct ChunkSink {
    limit: usize,
    mode: BufferMode,
    /// Whether another file may follow.
    rotates: bool,
    /// What came longer ago gives way when overwriting.
    span: Option<Duration>,
    /// Whether the buffer keeps what snapshots need.
    retains: bool,
    tee: Option<Tee>,
    state: Mutex<SinkState>,
}

struct SinkState {
    buffer: Arc<TraceBuffer>,
    /// What the lanes had produced when the present file began.
    began: BTreeMap<Lane, LaneEnd>,
    /// What they produced until now.
    ends: BTreeMap<Lane, LaneEnd>,
    standing: RepeatedChunks,
    overlap: Option<Overlap>,
}

/// What is to be said in every file.
#[derive(Default)]
struct RepeatedChunks {
    chunks: std::collections::VecDeque<Chunk>,
    bytes: usize,
}

/// Definitions that the present file and the next one get, because what comes later refers to them.
struct Overlap {
    /// What the lanes had produced when it began.
    from: BTreeMap<Lane, LaneEnd>,
    chunks: Vec<Chunk>,
}

impl ChunkSink {
    /// Begins with the first file, through a buffer of `limit` bytes.
    pub(crate) fn new(limit: usize, mode: BufferMode, rotates: bool) -> Self {
        let state = SinkState {
            buffer: Arc::new(TraceBuffer::new(limit, mode)),
            began: BTreeMap::new(),
            ends: BTreeMap::new(),
            standing: RepeatedChunks::default(),
            overlap: None,
        };
        let state = Mutex::new(state);
        let sink = Self { limit, mode, rotates, span: None, retains: false, tee: None, state };
        sink.lock().buffer = Arc::new(sink.empty_buffer());
        sink
    }

    /// The buffer of the present file.
    pub(crate) fn buffer(&self) -> Arc<TraceBuffer> {
        self.lock().buffer.clone()
    }

    /// Takes a chunk.
    pub(crate) fn push(&self, chunk: Chunk) {
        let mut state = self.lock();
        let chunk = state.for_present_file(chunk, self.rotates);
        self.copy_to_tee(&chunk, None);
        state.buffer.push(chunk);
    }

    /// Takes a definition.
    pub(crate) fn define(&self, definition: &Definition) {
        definition.chunks().into_iter().for_each(|chunk| self.push(chunk));
    }

    /// Takes a chunk that an instrumented program wrote, which is lost beyond the program's share.
    pub(crate) fn push_of(&self, producer: Producer, chunk: Chunk) {
        let mut state = self.lock();
        let chunk = state.for_present_file(chunk, self.rotates);
        self.copy_to_tee(&chunk, Some(producer));
        state.buffer.push_of(producer, chunk);
    }

    /// Takes a definition that tells of a task: when overwriting it is folded as the lanes of tasks
    /// are.
    pub(crate) fn define_of_task(&self, definition: &Definition) {
        for chunk in definition.chunks() {
            self.copy_to_tee(&chunk, None);
            self.buffer().push_of_task(chunk);
        }
    }

    /// Tells all that is recorded to somebody else, too.
    #[must_use]
    pub(crate) fn with_tee(self, tee: Option<Tee>) -> Self {
        Self { tee, ..self }
    }

    /// Who is told of what is recorded.
    pub(crate) fn tee(&self) -> Option<&Tee> {
        self.tee.as_ref()
    }

    fn copy_to_tee(&self, chunk: &Chunk, producer: Option<Producer>) {
        if let Some(tee) = &self.tee {
            tee.chunk(chunk, producer);
        }
    }

    /// No record of before these ticks comes any more.
    pub(crate) fn nothing_before(&self, ticks: Ticks) {
        if let Some(tee) = &self.tee {
            tee.nothing_before(ticks);
        }
    }

    /// What came longer ago than `span` gives way when overwriting, which is done in one file only.
    #[must_use]
    pub(crate) fn spanning(mut self, span: Option<Duration>) -> Self {
        self.span = span;
        self.lock().buffer = Arc::new(self.empty_buffer());
        self
    }

    /// Snapshots will be taken, of a recording into one file.
    #[must_use]
    pub(crate) fn retaining(mut self, retains: bool) -> Self {
        self.retains = retains;
        self.lock().buffer = Arc::new(self.empty_buffer());
        self
    }

    fn empty_buffer(&self) -> TraceBuffer {
        let buffer = TraceBuffer::new(self.limit, self.mode).spanning(self.span);
        buffer.retaining(self.retains).folding(Box::new(StateFold::new(payer_of))).asking(payer_of)
    }

    /// Whether newer events take the place of older ones.
    pub(crate) fn is_overwriting(&self) -> bool {
        self.mode == BufferMode::Overwrite
    }

    /// Whether so much waits for the disk that the next file's chunks had better not come on top.
    pub(crate) fn is_behind(&self) -> bool {
        self.buffer().buffered() > self.limit / 2
    }

    /// From now on until [`Self::next_file`], what events refer to goes into both files.
    pub(crate) fn begin_overlap(&self) {
        let mut state = self.lock();
        let from = state.ends.clone();
        state.overlap = Some(Overlap { from, chunks: Vec::new() });
    }

    /// Goes on in another file: closes the buffer of the present one and gives the next one's, in
    /// which lies what still holds.
    pub(crate) fn next_file(&self) -> Arc<TraceBuffer> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let overlap = state
            .overlap
            .take()
            .unwrap_or_else(|| Overlap { from: state.ends.clone(), chunks: Vec::new() });
        let events = state
            .ends
            .iter()
            .filter(|(lane, _)| lane.kind.traits().next_file == NextFile::Continues);
        let definitions = overlap.from.iter();
        let definitions =
            definitions.filter(|(lane, _)| lane.kind.traits().next_file == NextFile::Restated);
        state.began = events.chain(definitions).map(|(lane, end)| (*lane, *end)).collect();
        let next = Arc::new(self.empty_buffer());
        for chunk in state.standing.chunks.iter().chain(&overlap.chunks) {
            next.push(state.counted(chunk.clone()));
        }
        std::mem::replace(&mut state.buffer, next.clone()).close();
        next
    }

    fn lock(&self) -> MutexGuard<'_, SinkState> {
        // The state is whole between any two statements that can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SinkState {
    /// The chunk as the present file is to have it, noted for what later ones need.
    fn for_present_file(&mut self, chunk: Chunk, rotates: bool) -> Chunk {
        if !rotates {
            return chunk;
        }
        self.note(&chunk);
        self.counted(chunk)
    }

    fn note(&mut self, chunk: &Chunk) {
        let lane = chunk.header.lane;
        if lane.kind == LaneKind::Definition {
            if STANDING.iter().any(|name| Definition::is_named(&chunk.data, name)) {
                self.standing.add(chunk.clone());
            }
            return;
        }
        let end = LaneEnd::after(&chunk.header);
        self.ends.entry(lane).and_modify(|known| known.extend(&end)).or_insert(end);
        match lane.kind.traits().next_file {
            NextFile::CarriedOver => self.standing.add(chunk.clone()),
            NextFile::Restated => {
                if let Some(overlap) = &mut self.overlap {
                    overlap.chunks.push(chunk.clone());
                }
            }
            NextFile::Continues => {}
        }
    }
}

impl SinkState {
    /// The chunk as the present file counts its lane.
    fn counted(&self, mut chunk: Chunk) -> Chunk {
        if let Some(began) = self.began.get(&chunk.header.lane) {
            chunk.header.sequence = chunk.header.sequence.saturating_sub(began.chunks);
            chunk.header.records_before = chunk.header.records_before.saturating_sub(began.records);
        }
        chunk
    }
}

impl RepeatedChunks {
    fn add(&mut self, chunk: Chunk) {
        self.bytes += chunk.data.len();
        self.chunks.push_back(chunk);
        while self.bytes > MOST_STANDING
            && let Some(oldest) = self.chunks.pop_front()
        {
            self.bytes -= oldest.data.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use syscollect_model::Ticks;
    use syscollect_store::{
        CaptureReader, CaptureWriter, ChunkHeader, CounterDefinition, Definition, KnownProcess,
        drain_to,
    };

    /// The `number`th chunk of a lane, of ten records.
    fn chunk(kind: LaneKind, number: u64) -> Chunk {
        let header = ChunkHeader {
            lane: Lane::new(kind, 0),
            sequence: number,
            first: Ticks(number),
            last: Ticks(number),
            current_tid: 0,
            stride: 0,
            records_before: 10 * number,
            records: 10,
            length: 8,
        };
        Chunk { header, data: number.to_le_bytes().to_vec() }
    }

    fn file(buffer: &TraceBuffer) -> CaptureReader {
        let mut writer = CaptureWriter::create(Vec::new()).unwrap();
        drain_to(buffer, &mut writer, &mut || Duration::from_millis(1)).unwrap();
        CaptureReader::from_bytes(writer.finish().unwrap()).unwrap()
    }

    fn numbers(reader: &CaptureReader, kind: LaneKind) -> Vec<u64> {
        let chunks = reader.chunks(Lane::new(kind, 0));
        chunks.iter().map(|entry| data(reader.read(entry).unwrap())).collect()
    }

    fn data(chunk: Chunk) -> u64 {
        u64::from_le_bytes(chunk.data.try_into().unwrap())
    }

    fn definitions(reader: &CaptureReader) -> Vec<Definition> {
        let definitions = reader.definitions().map(Result::unwrap);
        definitions.filter(|definition| !matches!(definition, Definition::Lanes(_))).collect()
    }

    #[test]
    fn events_are_in_one_file_and_what_they_refer_to_in_both() {
        let sink = ChunkSink::new(1 << 20, BufferMode::Discard, true);
        let first = sink.buffer();
        (0..3).for_each(|number| sink.push(chunk(LaneKind::Sched, number)));
        (0..2).for_each(|number| sink.push(chunk(LaneKind::SchedStack, number)));
        sink.push(chunk(LaneKind::ZoneLog, 0));
        sink.begin_overlap();
        sink.push(chunk(LaneKind::Sched, 3));
        sink.push(chunk(LaneKind::SchedStack, 2));
        sink.push(chunk(LaneKind::SampleStack, 0));
        let second = sink.next_file();
        (4..6).for_each(|number| sink.push(chunk(LaneKind::Sched, number)));
        sink.push(chunk(LaneKind::SchedStack, 3));
        sink.push(chunk(LaneKind::ZoneLog, 1));
        sink.buffer().close();

        let (first, second) = (file(&first), file(&second));
        assert_eq!(
            (numbers(&first, LaneKind::Sched), numbers(&second, LaneKind::Sched)),
            (vec![0, 1, 2, 3], vec![4, 5])
        );
        assert_eq!(numbers(&first, LaneKind::SchedStack), [0, 1, 2]);
        assert_eq!(numbers(&second, LaneKind::SchedStack), [2, 3]);
        assert_eq!(numbers(&second, LaneKind::SampleStack), [0]);
        assert_eq!(
            numbers(&second, LaneKind::ZoneLog),
            [0, 1],
            "zones are named once in a program's life"
        );
        assert_eq!(
            (first.damage(), second.damage()),
            (&[][..], &[][..]),
            "each file's lanes count from 0"
        );
    }

    #[test]
    fn a_chunk_that_was_dropped_is_missing_in_the_file_where_it_should_be() {
        let sink = ChunkSink::new(1 << 20, BufferMode::Discard, true);
        let first = sink.buffer();
        sink.push(chunk(LaneKind::Sched, 0));
        let second = sink.next_file();
        sink.push(chunk(LaneKind::Sched, 2));
        sink.buffer().close();
        assert!(file(&first).damage().is_empty());
        let damage = file(&second).damage().to_vec();
        assert!(
            matches!(
                damage[..],
                [syscollect_store::Damage::Gap { chunks: 1, records: Some(10), .. }]
            ),
            "{damage:?}"
        );
    }

    #[test]
    fn what_holds_is_said_again_and_what_is_found_out_anew_is_not() {
        let sink = ChunkSink::new(1 << 20, BufferMode::Discard, true);
        let counters = Definition::Counters(vec![CounterDefinition::default()]);
        let processes = Definition::Processes(vec![KnownProcess::default()]);
        [&counters, &processes].into_iter().for_each(|definition| sink.define(definition));
        sink.begin_overlap();
        let second = sink.next_file();
        sink.buffer().close();
        assert_eq!(definitions(&file(&second)), [counters]);
    }

    #[test]
    fn what_is_kept_to_be_said_again_has_a_bound() {
        let mut standing = RepeatedChunks::default();
        for number in 0..9 {
            let large = Chunk {
                data: vec![number; MOST_STANDING / 4],
                ..chunk(LaneKind::ZoneLog, number.into())
            };
            standing.add(large);
        }
        assert!(standing.bytes <= MOST_STANDING);
        assert_eq!(standing.chunks.back().unwrap().data[0], 8, "the newest stay");
    }

    #[test]
    fn a_recording_into_one_file_keeps_nothing() {
        let sink = ChunkSink::new(1 << 20, BufferMode::Discard, false);
        sink.push(chunk(LaneKind::ZoneLog, 0));
        sink.push(chunk(LaneKind::Sched, 7));
        let state = sink.lock();
        assert!(state.ends.is_empty() && state.standing.chunks.is_empty());
        assert!(matches!(state.buffer.pop(Duration::ZERO), syscollect_store::Popped::Chunk(_)));
    }
}
