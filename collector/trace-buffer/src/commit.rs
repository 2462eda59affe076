//! Writing: a chunk comes in, and what it needs goes out.

use crate::buffer::{Mode, TraceBuffer};
use crate::chunk::Chunk;
use crate::fragment::{Survey, is_boundary};
use crate::header::{ChunkHeader, Extent, MANY_PACKETS, StoredFlags, WORD};
use crate::loss::LossCause;
use crate::packet::Packet;
use crate::sequence::Admission;
use crate::sequences::Slot;
use crate::take::Pace;

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// The chunk is in the buffer, with as much of it as is valid.
    Stored,
    /// It was there, and has what is new now.
    Extended,
    /// It was there and had been read; what is new lies where new chunks go, so that it is not
    /// overwritten as soon as it has come.
    Moved,
    /// It was there, or has been, and nothing is new.
    Known,
    /// Nothing of it was taken, and a loss was counted for the sequence.
    Refused(Refusal),
}

/// Why a chunk was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is larger than the buffer or than [`MAX_PAYLOAD`](crate::MAX_PAYLOAD). A violation.
    TooLarge,
    /// The buffer is full, in [`Mode::Discard`]. No room.
    Full,
    /// It is the first of a sequence, and as many are known as may be. No room.
    TooManySequences,
    /// What follows it was passed. A gap.
    Late,
    /// Its id is half of all ids away from others that are there. A violation.
    Far,
    /// It contradicts what was committed under its id: less, other fragments, or more than was
    /// reserved. A violation.
    Contradiction,
}

impl Refusal {
    const fn cause(self) -> LossCause {
        match self {
            Self::TooLarge | Self::Far | Self::Contradiction => LossCause::Violation,
            Self::Full | Self::TooManySequences => LossCause::NoRoom,
            Self::Late => LossCause::Gap,
        }
    }
}

/// Who gets the packets that are overwritten.
trait Fold {
    /// Whether anybody does.
    const IS_WANTED: bool;

    fn fold(&mut self, packet: Packet<'_>);
}

struct NoFold;

impl Fold for NoFold {
    const IS_WANTED: bool = false;

    fn fold(&mut self, _: Packet<'_>) {}
}

struct FoldWith<F>(F);

impl<F: FnMut(Packet<'_>)> Fold for FoldWith<F> {
    const IS_WANTED: bool = true;

    fn fold(&mut self, packet: Packet<'_>) {
        (self.0)(packet);
    }
}

/// A chunk that is to be stored.
struct Incoming<'a> {
    chunk: &'a Chunk<'a>,
    survey: Survey,
    slot: Slot,
    /// Bytes of the payload for which there is to be room.
    room: usize,
    /// Bytes of fragments that were passed already.
    read: u16,
}

impl TraceBuffer {
    /// Takes a chunk in. In [`Mode::Ring`] what was not read of the oldest chunks is lost for it.
    ///
    /// The chunk may say anything: see the [bounds](crate#bounds).
    pub fn commit(&mut self, chunk: &Chunk<'_>) -> Commit {
        self.commit_with(chunk, &mut NoFold)
    }

    /// The same; `fold` gets each whole packet that is overwritten unread, in the order in which it
    /// would have been read, when nothing more is waited for. What is folded counts as overwritten
    /// all the same: the reader does not get it.
    pub fn commit_folding(&mut self, chunk: &Chunk<'_>, fold: impl FnMut(Packet<'_>)) -> Commit {
        self.commit_with(chunk, &mut FoldWith(fold))
    }

    fn commit_with(&mut self, chunk: &Chunk<'_>, fold: &mut impl Fold) -> Commit {
        let Some(slot) = self.sequences.hold(chunk.sequence) else {
            let refusal = Refusal::TooManySequences;
            self.losses.add(refusal.cause(), 1);
            self.statistics.chunks_refused += 1;
            return Commit::Refused(refusal);
        };
        let commit = self.commit_to(slot, chunk, fold);
        match commit {
            Commit::Refused(refusal) => {
                self.statistics.chunks_refused += 1;
                self.lose(slot, refusal.cause(), 1);
            }
            Commit::Known => self.statistics.chunks_known += 1,
            Commit::Extended => self.statistics.chunks_extended += 1,
            Commit::Moved => self.statistics.chunks_moved += 1,
            Commit::Stored => {}
        }
        self.sequences.release(slot);
        commit
    }

    fn commit_to(&mut self, slot: Slot, chunk: &Chunk<'_>, fold: &mut impl Fold) -> Commit {
        let Some(survey) = Survey::of(chunk) else { return Commit::Refused(Refusal::TooLarge) };
        // One that its writer still has may grow to what it has now.
        let room =
            if chunk.is_complete { usize::from(survey.payload) } else { chunk.payload.len() };
        if ChunkHeader::bytes_for(room) > self.size() {
            return Commit::Refused(Refusal::TooLarge);
        }
        let Self { block, sequences, .. } = self;
        let sequence = sequences.get_mut(slot);
        let read = match sequence.admission(chunk.id, survey.payload) {
            Admission::Ahead => 0,
            Admission::Extends(read) => read,
            Admission::Known => return self.finish_known(slot, chunk, survey),
            Admission::Late => return Commit::Refused(Refusal::Late),
        };
        if !sequence.is_near(chunk.id, |offset| block.header(offset).id) {
            return Commit::Refused(Refusal::Far);
        }
        if let Ok(position) = sequence.position(chunk.id, |offset| block.header(offset).id) {
            return self.recommit(Incoming { chunk, survey, slot, room, read: 0 }, position, fold);
        }
        if !is_boundary(&chunk.payload[..usize::from(survey.payload)], read.into()) {
            return Commit::Refused(Refusal::Contradiction);
        }
        match self.store(&Incoming { chunk, survey, slot, room, read }, fold) {
            Ok(()) => Commit::Stored,
            Err(refusal) => Commit::Refused(refusal),
        }
    }

    /// A chunk that was passed came again with no more fragments. If it was unfinished, what is
    /// missing at its end is known now.
    fn finish_known(&mut self, slot: Slot, chunk: &Chunk<'_>, survey: Survey) -> Commit {
        let passed = &mut self.sequences.get_mut(slot).passed;
        let last = passed.as_mut().and_then(|passed| passed.last.as_mut());
        if let Some(last) = last.filter(|last| last.is_unfinished && chunk.is_complete) {
            last.is_unfinished = false;
            self.lose_end(slot, survey.flags);
        }
        Commit::Known
    }

    /// A chunk came again whose first commit is at `position` in its sequence.
    fn recommit(
        &mut self,
        incoming: Incoming<'_>,
        position: usize,
        fold: &mut impl Fold,
    ) -> Commit {
        let Incoming { chunk, survey, slot, .. } = incoming;
        let offset = self.sequences.get(slot).chunks[position];
        let header = self.block.header(offset);
        if !header.has(StoredFlags::INCOMPLETE) {
            let is_known = survey.payload == header.payload
                || (survey.payload < header.payload && !chunk.is_complete);
            return if is_known { Commit::Known } else { Commit::Refused(Refusal::Contradiction) };
        }
        let had = usize::from(header.payload);
        let has = usize::from(survey.payload);
        let begins_otherwise = had > 0
            && survey.flags.intersects(StoredFlags::FROM_PREVIOUS)
                != header.has(StoredFlags::FROM_PREVIOUS);
        if !(had..=header.room()).contains(&has)
            || begins_otherwise
            || !is_boundary(&chunk.payload[..has], had)
        {
            return Commit::Refused(Refusal::Contradiction);
        }
        let is_read = header.read == header.payload;
        if self.mode == Mode::Ring && chunk.is_complete && has > had && is_read && position == 0 {
            self.sequences.get_mut(slot).remove_first();
            self.erase(slot, offset);
            return match self.store(&Incoming { read: header.payload, ..incoming }, fold) {
                Ok(()) => Commit::Moved,
                Err(refusal) => Commit::Refused(refusal),
            };
        }
        self.block.write(offset, had, &chunk.payload[had..has]);
        let mut flags = survey.flags;
        if has == had && had > 0 && flags.intersects(StoredFlags::ON_NEXT) {
            // Of a fragment that was whole, it says that it goes on.
            flags.insert(StoredFlags::DAMAGED);
        }
        if has == had {
            flags.remove(StoredFlags::ON_NEXT | StoredFlags::NEEDS_PATCH);
        }
        // What was there stays, and may be other fragments than those that came now in its place.
        let packets = if had == 0 { survey.packets } else { MANY_PACKETS };
        let extent = Extent { flags, packets, ..header.extent };
        self.block.set_header(offset, ChunkHeader { extent, payload: survey.payload, ..header });
        self.sequences.get_mut(slot).is_stalled = false;
        if has > had || chunk.is_complete { Commit::Extended } else { Commit::Known }
    }

    /// Makes room for a chunk and puts it there.
    fn store(&mut self, incoming: &Incoming<'_>, fold: &mut impl Fold) -> Result<(), Refusal> {
        let Incoming { chunk, survey, slot, room, read } = *incoming;
        let bytes = ChunkHeader::bytes_for(room);
        if self.is_full || self.write_at + bytes > self.size() {
            if self.mode == Mode::Discard {
                self.is_full = true;
                return Err(Refusal::Full);
            }
            self.wrap(fold);
        }
        self.clear(bytes, fold);
        // To make room, what follows the chunk may have been passed.
        let sequence = self.sequences.get(slot);
        let is_late = match sequence.admission(chunk.id, survey.payload) {
            Admission::Ahead => false,
            Admission::Extends(passed) => passed != read,
            Admission::Known | Admission::Late => true,
        };
        let offset = self.write_at as u32;
        if is_late {
            self.block.set_extent(offset, Extent::padding(bytes));
            return Err(Refusal::Late);
        }
        let extent =
            Extent { words: (bytes / WORD) as u16, flags: survey.flags, packets: survey.packets };
        let header = ChunkHeader {
            extent,
            sequence: chunk.sequence,
            id: chunk.id,
            payload: survey.payload,
            read,
        };
        self.block.set_header(offset, header);
        self.block.write(offset, 0, &chunk.payload[..usize::from(survey.payload)]);
        self.write_at += bytes;
        self.live += 1;
        self.statistics.chunks_written += 1;
        self.statistics.bytes_written += bytes as u64;
        let Self { block, sequences, .. } = self;
        let sequence = sequences.get_mut(slot);
        let position = sequence.position(chunk.id, |offset| block.header(offset).id);
        let (Ok(position) | Err(position)) = position;
        self.statistics.chunks_out_of_order += u64::from(position < sequence.chunks.len());
        sequence.insert(position, chunk.id, offset);
        Ok(())
    }

    /// Goes on at the beginning of the block. What is left at its end becomes padding.
    fn wrap(&mut self, fold: &mut impl Fold) {
        let rest = self.size() - self.write_at;
        if rest > 0 {
            self.clear(rest, fold);
            self.block.set_extent(self.write_at as u32, Extent::padding(rest));
        }
        self.used = self.size();
        self.write_at = 0;
        self.statistics.wraps += 1;
    }

    /// Overwrites what begins in the next `bytes`. What the last of it has behind them becomes padding.
    fn clear(&mut self, bytes: usize, fold: &mut impl Fold) {
        let end = self.write_at + bytes;
        let mut at = self.write_at;
        while at < end.min(self.used) {
            let extent = self.block.extent(at as u32);
            if !extent.is_padding() {
                self.overwrite(at as u32, fold);
            }
            at += extent.bytes();
        }
        if at > end {
            self.block.set_extent(end as u32, Extent::padding(at - end));
        }
        self.used = self.used.max(end);
    }

    /// Takes all packets of a sequence up to the chunk at `offset`, waiting for nothing.
    fn overwrite<F: Fold>(&mut self, offset: u32, fold: &mut F) {
        let header = self.block.header(offset);
        let Some(slot) = self.sequences.find(header.sequence) else {
            debug_assert!(false, "a chunk of no sequence");
            return;
        };
        self.statistics.chunks_overwritten += u64::from(header.read < header.payload);
        self.sequences.get_mut(slot).is_stalled = false;
        // What is written here next needs these lines, too.
        self.block.approach(offset, header, 0);
        let is_first = self.sequences.get(slot).chunks.front() == Some(&offset);
        if !F::IS_WANTED && is_first && header.is_plain() {
            // What follows finds the same, at the price of waiting for each fragment's memory.
            self.begin(slot, header.id);
            self.lose_packets(slot, header.extent.packets.into());
            self.pass(slot, offset, header);
            return;
        }
        let sequence = header.sequence;
        while let Some(taken) = self.take(slot, offset, Pace::Force) {
            if F::IS_WANTED {
                let lost = self.sequences.get(slot).undelivered;
                fold.fold(Packet::new(self, slot, sequence, lost, taken));
            }
            self.lose_packets(slot, 1);
        }
    }

    fn lose_packets(&mut self, slot: Slot, count: u64) {
        if count > 0 {
            self.lose(slot, LossCause::Overwritten, count);
        }
    }
}
