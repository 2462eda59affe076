//! What writers, readers and copies do, made of any bytes, and done to a buffer and to its model.

use super::{Model, Out};
use std::collections::HashMap;
use syscollect_trace_buffer::{
    BatchLimit, Chunk, ChunkFlags, Commit, LossCauses, Mode, Packet, Patch, SequenceId,
    TraceBuffer, push_fragment,
};

/// Bytes of one step.
pub(crate) const STEP: usize = 8;

const SEQUENCES: u8 = 6;

/// A number that follows from others and looks like any.
fn mixed(numbers: [u64; 4]) -> u64 {
    numbers.into_iter().fold(0x9e37_79b9_7f4a_7c15, |hash, number| {
        let hash = (hash ^ number).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^ (hash >> 29)
    })
}

fn sequence(number: u8) -> SequenceId {
    let number = number % SEQUENCES;
    SequenceId::new(u16::from(number / 2), u16::from(number % 2))
}

/// What a chunk has in it follows from its sequence and id, so that a commit and a recommit agree.
fn fragment(sequence: SequenceId, id: u32, index: u64, salt: u64) -> Vec<u8> {
    let number = u64::from(sequence.producer) << 16 | u64::from(sequence.writer);
    let hash = mixed([number, id.into(), index, salt]);
    let len = match hash % 16 {
        0 => 0,
        1 => 100 + hash / 16 % 60,
        _ => hash / 16 % 24,
    };
    (0..len).map(|at| (hash >> (at % 8)) as u8).collect()
}

/// Whether a chunk goes on in the next one, by its numbers alone.
fn goes_on(sequence: SequenceId, id: u32) -> bool {
    mixed([sequence.producer.into(), sequence.writer.into(), id.into(), 77]).is_multiple_of(3)
}

/// A buffer, its model, and what the writers remember.
pub(crate) struct Pair {
    buffer: TraceBuffer,
    model: Model,
    next: HashMap<SequenceId, u32>,
    met: Met,
}

/// What a script came by.
#[derive(Default)]
pub(crate) struct Met {
    pub(crate) commits: Vec<Commit>,
    pub(crate) lost: LossCauses,
    pub(crate) read: usize,
    pub(crate) folded: usize,
    pub(crate) patches: usize,
    pub(crate) copies: usize,
}

fn out(packet: Packet<'_>) -> Out {
    assert_eq!(packet.len(), packet.to_vec().len());
    assert!(packet.fragments().all(|fragment| !fragment.is_empty()));
    Out { sequence: packet.sequence, bytes: packet.to_vec(), lost: packet.lost }
}

/// Does all steps and compares after each. Panics where buffer and model differ.
pub(crate) fn run(bytes: &[u8]) -> Met {
    let Some((&[size, mode], steps)) = bytes.split_first_chunk::<2>() else {
        return Met::default();
    };
    let size = 16 + 4 * usize::from(size);
    let mode = if mode.is_multiple_of(4) { Mode::Discard } else { Mode::Ring };
    let mut pair = Pair {
        buffer: TraceBuffer::new(size, mode).expect("a size that can be had"),
        model: Model::new(size, mode == Mode::Ring),
        next: HashMap::new(),
        met: Met::default(),
    };
    let (steps, _) = steps.as_chunks::<STEP>();
    for &step in steps {
        pair.step(step);
    }
    pair.read(u64::MAX, u64::MAX);
    pair.met.lost = pair.model.losses().causes();
    pair.met
}

impl Pair {
    fn step(&mut self, step: [u8; STEP]) {
        match step[0] {
            0..=159 => self.commit(step),
            160..=189 => self.patch(step),
            190..=235 => {
                let most = if step[1].is_multiple_of(4) { u64::MAX } else { step[2].into() };
                let most_bytes = if step[1].is_multiple_of(3) { step[3].into() } else { u64::MAX };
                self.read(most, most_bytes);
            }
            _ => self.clone_and_read(),
        }
        self.compare();
    }

    fn compare(&self) {
        assert_eq!(self.buffer.inconsistency(), None);
        assert_eq!(self.buffer.losses(), self.model.losses());
        assert_eq!(self.buffer.chunks(), self.model.chunks());
        for number in 0..SEQUENCES {
            let id = sequence(number);
            assert_eq!(self.buffer.losses_of(id), self.model.losses_of(id));
        }
    }

    fn id(&mut self, sequence: SequenceId, choice: u8) -> u32 {
        let next = self.next.entry(sequence).or_insert(u32::MAX - 5);
        let id = *next;
        match choice % 20 {
            0..=9 => *next = next.wrapping_add(1),
            10..=13 => return id.wrapping_sub(1),
            14 => return id.wrapping_sub(2),
            15 => *next = next.wrapping_add(2),
            16 | 17 => return id.wrapping_add(1),
            // Rarely: a sequence that believed it is over.
            18 if choice < 40 => return id.wrapping_add((1 << 31) - 1 + u32::from(choice) % 5),
            _ => return id.wrapping_sub(u32::from(choice) % 7),
        }
        id
    }

    fn commit(&mut self, [_, number, choice, count, flags, state, damage, folds]: [u8; STEP]) {
        let sequence = sequence(number);
        let id = self.id(sequence, choice);
        let salt = u64::from(damage.is_multiple_of(16));
        let mut fragments = u16::from(count % 5);
        let mut payload = Vec::new();
        for index in 0..u64::from(fragments) {
            let content = fragment(sequence, id, index, salt);
            if content.len() == 5 {
                // A size that is longer than it needs to be.
                payload.extend([0x85, 0x80, 0x00]);
                payload.extend(content);
            } else {
                push_fragment(&mut payload, &content);
            }
        }
        match damage {
            0..=7 => payload.truncate(payload.len() / 2),
            8..=15 => fragments += 1,
            16..=31 => {
                payload.extend([0xff, 0xff, 0xff, 0x7f]);
                fragments += 1;
            }
            32..=39 => {
                payload.extend([damage; 12]);
                fragments += 1;
            }
            40..=47 => payload.extend([damage; 12]),
            48..=55 => {
                payload = vec![0xff; 64 + usize::from(damage)];
                fragments = 1;
            }
            _ => {}
        }
        let is_complete = !state.is_multiple_of(4);
        if !is_complete && state > 32 {
            // What the writer has not written yet.
            payload.resize(payload.len().max(usize::from(state)), 0);
        }
        let mut chunk_flags = ChunkFlags::from_bits(flags >> 3);
        if !flags.is_multiple_of(4) {
            chunk_flags = ChunkFlags::NONE;
            if goes_on(sequence, id.wrapping_sub(1)) {
                chunk_flags |= ChunkFlags::FROM_PREVIOUS;
            }
            if goes_on(sequence, id) {
                chunk_flags |= ChunkFlags::ON_NEXT;
                if flags.is_multiple_of(5) {
                    chunk_flags |= ChunkFlags::NEEDS_PATCH;
                }
            }
        }
        let chunk =
            Chunk { sequence, id, fragments, flags: chunk_flags, is_complete, payload: &payload };
        let (expected, expected_folded) = self.model.commit(&chunk);
        self.met.commits.push(expected);
        self.met.folded += expected_folded.len();
        if folds.is_multiple_of(2) {
            let mut folded = Vec::new();
            let commit = self.buffer.commit_folding(&chunk, |packet| folded.push(out(packet)));
            assert_eq!((commit, folded), (expected, expected_folded));
        } else {
            assert_eq!(self.buffer.commit(&chunk), expected);
        }
    }

    fn patch(&mut self, [_, number, choice, at, len, more, byte, twice]: [u8; STEP]) {
        let mut sequence = sequence(number);
        let next = self.next.get(&sequence).copied().unwrap_or(0);
        let mut id = next.wrapping_sub(u32::from(choice % 4));
        if !number.is_multiple_of(4) {
            (sequence, id) = self.model.any_chunk(choice.into()).unwrap_or((sequence, id));
        }
        let bytes = vec![byte; usize::from(len % 8)];
        // Mostly where there is something to patch.
        let (begin, end) = match self.model.patchable(sequence, id) {
            Some(range) if !at.is_multiple_of(4) => range,
            _ => (0, 80),
        };
        let patch = Patch { offset: begin + u32::from(at) % (end - begin + 1), bytes: &bytes };
        let patches = [patch, Patch { offset: patch.offset + 1, ..patch }];
        let patches = &patches[..usize::from(twice % 3).min(2)];
        let more_to_come = more.is_multiple_of(3);
        let patched = self.buffer.patch(sequence, id, patches, more_to_come).is_ok();
        assert_eq!(patched, self.model.patch(sequence, id, patches, more_to_come));
        self.met.patches += usize::from(patched && !patches.is_empty());
    }

    fn read(&mut self, packets: u64, bytes: u64) {
        let mut batch = self.buffer.read(BatchLimit { packets, bytes });
        let mut read = Vec::new();
        while let Some(packet) = batch.next_packet() {
            read.push(out(packet));
        }
        assert_eq!(read, self.model.read(packets, bytes));
        self.met.read += read.len();
    }

    fn clone_and_read(&mut self) {
        let mut snapshot = self.buffer.clone_for_reading();
        let mut batch = snapshot.read(BatchLimit::NONE);
        let mut read = Vec::new();
        while let Some(packet) = batch.next_packet() {
            read.push(out(packet));
        }
        let mut model = self.model.clone();
        assert_eq!(read, model.read(u64::MAX, u64::MAX));
        self.met.copies += read.len();
        assert_eq!(snapshot.losses(), model.losses());
        assert_eq!(snapshot.inconsistency(), None);
    }
}
