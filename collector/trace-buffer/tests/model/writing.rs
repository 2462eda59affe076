//! The model is written to.

use super::{Before, Fragment, Known, Last, Model, Out, Piece};
use syscollect_trace_buffer::{
    ABORTED_SIZE, Chunk, ChunkFlags, Commit, LossCause, Losses, Patch, Refusal, SequenceId,
};

/// A size, its length in bytes, and whether it has an end at all.
fn size_at(bytes: &[u8]) -> Option<(u128, usize)> {
    let len = bytes.iter().take(10).position(|byte| byte < &0x80)? + 1;
    let digits = bytes[..len].iter().rev().map(|byte| u128::from(byte & 0x7f));
    Some((digits.fold(0, |size, digit| size * 128 + digit) % (1 << 64), len))
}

/// The chunk as it would lie at 0.
fn parse(chunk: &Chunk<'_>) -> Piece {
    let mut piece = Piece {
        at: 0,
        len: 0,
        sequence: chunk.sequence,
        id: chunk.id,
        fragments: Vec::new(),
        read: 0,
        from_previous: chunk.flags.contains(ChunkFlags::FROM_PREVIOUS),
        on_next: chunk.flags.contains(ChunkFlags::ON_NEXT),
        needs_patch: chunk.flags.contains(ChunkFlags::NEEDS_PATCH),
        aborted: false,
        damaged: false,
        incomplete: !chunk.is_complete,
    };
    let mut rest = chunk.payload;
    let count = usize::from(chunk.fragments);
    while piece.fragments.len() < count.saturating_sub(usize::from(piece.incomplete)) {
        match size_at(rest) {
            Some((size, prefix)) if size <= (rest.len() - prefix) as u128 => {
                let end = prefix + size as usize;
                piece.fragments.push(Fragment { prefix, bytes: rest[prefix..end].to_vec() });
                rest = &rest[end..];
            }
            Some((size, _)) if size == u128::from(ABORTED_SIZE) => {
                piece.aborted = true;
                break;
            }
            _ => {
                piece.damaged = true;
                break;
            }
        }
    }
    if piece.aborted || piece.damaged || piece.incomplete || piece.fragments.is_empty() {
        (piece.on_next, piece.needs_patch) = (false, false);
    }
    let room = if piece.incomplete { chunk.payload.len() } else { piece.payload() };
    piece.len = 16 + room.div_ceil(4) * 4;
    piece
}

/// How many fragments have so many bytes, if any number of them has.
fn fragments_of(piece: &Piece, payload: usize) -> Option<usize> {
    (0..=piece.fragments.len()).find(|&count| {
        let fragments = &piece.fragments[..count];
        payload == fragments.iter().map(|f| f.prefix + f.bytes.len()).sum::<usize>()
    })
}

impl Model {
    /// The same as the buffer's, and what the fold got.
    pub(crate) fn commit(&mut self, chunk: &Chunk<'_>) -> (Commit, Vec<Out>) {
        let sequence = chunk.sequence;
        let mut folded = Vec::new();
        self.empty.retain(|id| *id != sequence);
        if !self.known.iter().any(|known| known.id == sequence) {
            self.known.push(Known {
                id: sequence,
                next: None,
                before: Before::Unknown,
                last: None,
                undelivered: Losses::NONE,
                losses: Losses::NONE,
            });
        }
        self.held = Some(sequence);
        let commit = match self.commit_held(chunk, &mut folded) {
            Ok(commit) => commit,
            Err(refusal) => self.refuse(sequence, refusal),
        };
        self.held = None;
        self.settle(sequence);
        (commit, folded)
    }

    fn commit_held(&mut self, chunk: &Chunk<'_>, folded: &mut Vec<Out>) -> Result<Commit, Refusal> {
        if chunk.payload.len() > 65_535 {
            return Err(Refusal::TooLarge);
        }
        let mut piece = parse(chunk);
        if piece.len > self.size {
            return Err(Refusal::TooLarge);
        }
        let known = self.known(piece.sequence).clone();
        let ahead = known.next.map_or(0, |next| piece.id.wrapping_sub(next).cast_signed());
        let passed = match known.last {
            _ if ahead >= 0 => 0,
            Some(last) if ahead == -1 && piece.payload() <= last.payload => {
                if last.unfinished && chunk.is_complete {
                    self.known(piece.sequence).last = Some(Last { unfinished: false, ..last });
                    self.lose_end(piece.sequence, piece.aborted, piece.damaged);
                }
                return Ok(Commit::Known);
            }
            Some(last) if ahead == -1 && last.unfinished => last.payload,
            _ => return Err(Refusal::Late),
        };
        let list = self.list(piece.sequence);
        if let (Some(&first), Some(&last)) = (list.first(), list.last()) {
            let behind = piece.id.wrapping_sub(self.pieces[first].id);
            let before = self.pieces[last].id.wrapping_sub(piece.id);
            if behind >= 1 << 31 && before >= 1 << 31 {
                return Err(Refusal::Far);
            }
        }
        if let Some(position) = list.iter().position(|&at| self.pieces[at].id == piece.id) {
            return self.recommit(piece, list[position], position == 0, folded);
        }
        piece.read = fragments_of(&piece, passed).ok_or(Refusal::Contradiction)?;
        self.store(piece, folded).map(|()| Commit::Stored)
    }

    fn recommit(
        &mut self,
        piece: Piece,
        index: usize,
        is_first: bool,
        folded: &mut Vec<Out>,
    ) -> Result<Commit, Refusal> {
        let old = self.pieces[index].clone();
        let (had, has) = (old.payload(), piece.payload());
        if !old.incomplete {
            let is_known = has == had || (has < had && piece.incomplete);
            return if is_known { Ok(Commit::Known) } else { Err(Refusal::Contradiction) };
        }
        let begins_otherwise = had > 0 && old.from_previous != piece.from_previous;
        if has < had || has > old.len - 16 || begins_otherwise {
            return Err(Refusal::Contradiction);
        }
        let count = fragments_of(&piece, had).ok_or(Refusal::Contradiction)?;
        let complete = !piece.incomplete;
        if self.ring && complete && has > had && old.read == old.fragments.len() && is_first {
            self.remove(index);
            let moved = Piece { read: count, ..piece };
            return self.store(moved, folded).map(|()| Commit::Moved);
        }
        // What was there stays, what is new comes behind it.
        let mut fragments = old.fragments.clone();
        fragments.extend(piece.fragments[count..].iter().cloned());
        let grows = has > had;
        self.pieces[index] = Piece {
            fragments,
            damaged: piece.damaged || (!grows && had > 0 && piece.on_next),
            on_next: piece.on_next && grows,
            needs_patch: piece.needs_patch && grows,
            at: old.at,
            len: old.len,
            read: old.read,
            ..piece
        };
        Ok(if grows || complete { Commit::Extended } else { Commit::Known })
    }

    fn store(&mut self, mut piece: Piece, folded: &mut Vec<Out>) -> Result<(), Refusal> {
        let read = piece.fragments[..piece.read].iter();
        let passed: usize = read.map(|fragment| fragment.prefix + fragment.bytes.len()).sum();
        if self.full || self.write_at + piece.len > self.size {
            if !self.ring {
                self.full = true;
                return Err(Refusal::Full);
            }
            self.overwrite(self.write_at, self.size, folded);
            self.write_at = 0;
        }
        let end = self.write_at + piece.len;
        self.overwrite(self.write_at, end, folded);
        let known = self.known(piece.sequence);
        let ahead = known.next.map_or(0, |next| piece.id.wrapping_sub(next).cast_signed());
        let comes_again = known.last.is_some_and(|last| last.unfinished && last.payload == passed);
        if ahead < 0 && !(ahead == -1 && comes_again) {
            return Err(Refusal::Late);
        }
        piece.at = self.write_at;
        self.write_at = end;
        self.pieces.push(piece);
        Ok(())
    }

    /// What lies there in part goes as a whole.
    fn overwrite(&mut self, begin: usize, end: usize, folded: &mut Vec<Out>) {
        loop {
            let met = self
                .pieces
                .iter()
                .filter(|piece| piece.at < end && piece.at + piece.len > begin && begin < end);
            let Some(oldest) = met.min_by_key(|piece| piece.at) else { return };
            let (sequence, id) = (oldest.sequence, oldest.id);
            while let Ok(bytes) = self.take(sequence, id, true) {
                let lost = self.known(sequence).undelivered;
                folded.push(Out { sequence, bytes, lost });
                self.lose(sequence, LossCause::Overwritten);
            }
        }
    }

    /// One of the chunks that are there.
    pub(crate) fn any_chunk(&self, choice: usize) -> Option<(SequenceId, u32)> {
        let piece = self.pieces.get(choice % self.pieces.len().max(1))?;
        Some((piece.sequence, piece.id))
    }

    /// Where the content of a chunk's last fragment begins and ends.
    pub(crate) fn patchable(&self, sequence: SequenceId, id: u32) -> Option<(u32, u32)> {
        let is_it = |piece: &&Piece| piece.sequence == sequence && piece.id == id;
        let piece = self.pieces.iter().find(is_it)?;
        let end = piece.payload();
        Some(((end - piece.fragments.last()?.bytes.len()) as u32, end as u32))
    }

    /// Whether the patches were made.
    pub(crate) fn patch(
        &mut self,
        sequence: SequenceId,
        id: u32,
        patches: &[Patch<'_>],
        more_to_come: bool,
    ) -> bool {
        let is_it = |piece: &&mut Piece| piece.sequence == sequence && piece.id == id;
        let Some(piece) = self.pieces.iter_mut().find(is_it) else { return false };
        let payload = piece.payload();
        let unread = piece.fragments.len() > piece.read;
        let begin = match piece.fragments.last() {
            Some(last) if unread => payload - last.bytes.len(),
            _ if patches.is_empty() => 0,
            _ => return false,
        };
        for patch in patches {
            let at = patch.offset as usize;
            if at < begin || at + patch.bytes.len() > payload {
                return false;
            }
        }
        for patch in patches {
            if let Some(last) = piece.fragments.last_mut() {
                let at = patch.offset as usize - begin;
                last.bytes[at..at + patch.bytes.len()].copy_from_slice(patch.bytes);
            }
        }
        piece.needs_patch &= more_to_come;
        true
    }
}
