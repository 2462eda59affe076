//! The same semantics, slow and simple: chunks are lists of fragments, and all of them are looked
//! through for everything. There is no padding, nothing is remembered that can be found again, and
//! nothing is done quickly because it is simple.

pub(crate) mod script;
mod writing;

use std::collections::HashSet;
use syscollect_trace_buffer::{Commit, LossCause, Losses, Refusal, SequenceId};

/// A packet that came out, or went to a fold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Out {
    pub(crate) sequence: SequenceId,
    pub(crate) bytes: Vec<u8>,
    pub(crate) lost: Losses,
}

#[derive(Clone, Debug)]
struct Fragment {
    /// Bytes of its size field.
    prefix: usize,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Piece {
    at: usize,
    /// Bytes with the header.
    len: usize,
    sequence: SequenceId,
    id: u32,
    fragments: Vec<Fragment>,
    /// Fragments that were consumed.
    read: usize,
    from_previous: bool,
    on_next: bool,
    needs_patch: bool,
    aborted: bool,
    damaged: bool,
    incomplete: bool,
}

impl Piece {
    fn payload(&self) -> usize {
        self.fragments.iter().map(|fragment| fragment.prefix + fragment.bytes.len()).sum()
    }

    fn is_last(&self, fragment: usize) -> bool {
        fragment + 1 == self.fragments.len()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Unknown,
    Ended,
    InLostPacket,
}

/// A chunk that was passed: bytes of its fragments, and whether its writer still had it.
#[derive(Clone, Copy, Debug)]
struct Last {
    payload: usize,
    unfinished: bool,
}

#[derive(Clone, Debug)]
struct Known {
    id: SequenceId,
    /// The id that comes next or was begun, once anything was passed.
    next: Option<u32>,
    before: Before,
    last: Option<Last>,
    undelivered: Losses,
    losses: Losses,
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    size: usize,
    ring: bool,
    write_at: usize,
    full: bool,
    pieces: Vec<Piece>,
    known: Vec<Known>,
    /// Sequences without a chunk, the one that has been so for longest first.
    empty: Vec<SequenceId>,
    /// The sequence that is being written to.
    held: Option<SequenceId>,
    losses: Losses,
}

/// What became of a packet that goes on in other chunks.
enum Chain {
    /// Its rest lies in the first fragments of these.
    Whole(Vec<usize>),
    Waits(Vec<usize>),
    Broken(Vec<usize>),
}

impl Model {
    pub(crate) fn new(size: usize, ring: bool) -> Self {
        Self {
            size,
            ring,
            write_at: 0,
            full: false,
            pieces: Vec::new(),
            known: Vec::new(),
            empty: Vec::new(),
            held: None,
            losses: Losses::NONE,
        }
    }

    pub(crate) fn losses(&self) -> Losses {
        self.losses
    }

    pub(crate) fn losses_of(&self, id: SequenceId) -> Option<Losses> {
        self.known.iter().find(|known| known.id == id).map(|known| known.losses)
    }

    pub(crate) fn chunks(&self) -> usize {
        self.pieces.len()
    }

    fn known(&mut self, id: SequenceId) -> &mut Known {
        self.known.iter_mut().find(|known| known.id == id).expect("a sequence that is known")
    }

    fn lose(&mut self, id: SequenceId, cause: LossCause) {
        self.losses.add(cause, 1);
        let known = self.known(id);
        known.losses.add(cause, 1);
        known.undelivered.add(cause, 1);
    }

    /// The chunks of a sequence in order, as indexes of `pieces`.
    fn list(&self, id: SequenceId) -> Vec<usize> {
        let mut list: Vec<usize> =
            (0..self.pieces.len()).filter(|&index| self.pieces[index].sequence == id).collect();
        list.sort_by(|&a, &b| {
            let (a, b) = (self.pieces[a].id, self.pieces[b].id);
            a.wrapping_sub(b).cast_signed().cmp(&0)
        });
        list
    }

    /// Packets, at most so many, and no more once there are so many bytes.
    pub(crate) fn read(&mut self, most: u64, most_bytes: u64) -> Vec<Out> {
        let mut targets: Vec<(bool, usize)> =
            self.pieces.iter().map(|piece| (piece.at < self.write_at, piece.at)).collect();
        targets.sort_unstable();
        let mut stalled = HashSet::new();
        let mut out = Vec::new();
        let mut bytes = 0;
        for (_, at) in targets {
            while let Some(target) = self.pieces.iter().find(|piece| piece.at == at) {
                let (sequence, id) = (target.sequence, target.id);
                if out.len() as u64 >= most || bytes >= most_bytes {
                    return out;
                }
                if stalled.contains(&sequence) {
                    break;
                }
                match self.take(sequence, id, false) {
                    Ok(content) => {
                        let lost = std::mem::take(&mut self.known(sequence).undelivered);
                        bytes += content.len() as u64;
                        out.push(Out { sequence, bytes: content, lost });
                    }
                    Err(is_stalled) => {
                        if is_stalled {
                            stalled.insert(sequence);
                        }
                        break;
                    }
                }
            }
        }
        out
    }

    /// The next packet of a sequence up to a chunk. If there is none: whether it has to wait.
    fn take(&mut self, sequence: SequenceId, target: u32, force: bool) -> Result<Vec<u8>, bool> {
        loop {
            let head = self.list(sequence)[0];
            let piece = self.pieces[head].clone();
            let Some(fragment) = piece.fragments.get(piece.read) else {
                if piece.incomplete && !force {
                    return Err(true);
                }
                self.pass(head);
                if piece.id == target {
                    return Err(false);
                }
                continue;
            };
            if piece.read == 0 && piece.from_previous {
                self.begin(sequence, piece.id);
                match self.known(sequence).before {
                    Before::Unknown => self.lose(sequence, LossCause::Reassembly),
                    Before::Ended => self.lose(sequence, LossCause::Violation),
                    Before::InLostPacket => {}
                }
                self.pieces[head].read += 1;
                continue;
            }
            let goes_on = piece.is_last(piece.read) && (piece.on_next || piece.needs_patch);
            let chain = if goes_on { self.chain(head) } else { Chain::Whole(Vec::new()) };
            if matches!(chain, Chain::Waits(_)) && !force {
                return Err(true);
            }
            self.begin(sequence, piece.id);
            self.pieces[head].read += 1;
            let (Chain::Whole(rest) | Chain::Waits(rest) | Chain::Broken(rest)) = &chain;
            let mut content = fragment.bytes.clone();
            for &index in rest {
                content.extend(&self.pieces[index].fragments[0].bytes);
                self.pieces[index].read = 1;
            }
            match chain {
                Chain::Whole(_) if content.is_empty() => {}
                Chain::Whole(_) => return Ok(content),
                Chain::Waits(_) => self.lose(sequence, LossCause::Overwritten),
                Chain::Broken(_) => self.lose(sequence, LossCause::Reassembly),
            }
        }
    }

    fn chain(&self, head: usize) -> Chain {
        let first = &self.pieces[head];
        let mut rest = Vec::new();
        if first.needs_patch {
            return Chain::Waits(rest);
        }
        let list = self.list(first.sequence);
        for (&index, distance) in list[1..].iter().zip(1..) {
            let piece = &self.pieces[index];
            if piece.id != first.id.wrapping_add(distance) {
                return Chain::Broken(rest);
            }
            match () {
                () if piece.fragments.is_empty() && piece.incomplete => return Chain::Waits(rest),
                () if piece.fragments.is_empty() && (piece.damaged || piece.aborted) => {
                    return Chain::Broken(rest);
                }
                () if piece.fragments.is_empty() => {}
                () if !piece.from_previous => return Chain::Broken(rest),
                () if piece.is_last(0) && piece.needs_patch => return Chain::Waits(rest),
                () => {
                    rest.push(index);
                    if !(piece.is_last(0) && piece.on_next) {
                        return Chain::Whole(rest);
                    }
                }
            }
        }
        Chain::Waits(rest)
    }

    /// The first chunk of a sequence is looked at for good: what came before cannot come any more.
    fn begin(&mut self, sequence: SequenceId, id: u32) {
        let known = self.known(sequence);
        let Some(next) = known.next else {
            known.next = Some(id);
            return;
        };
        let last = known.last.take();
        known.next = Some(id);
        if last.is_some() && id == next.wrapping_sub(1) {
            return;
        }
        if last.is_some_and(|last| last.unfinished) {
            known.before = Before::InLostPacket;
            self.lose(sequence, LossCause::Overwritten);
        }
        if id != next {
            self.known(sequence).before = Before::Unknown;
            self.lose(sequence, LossCause::Gap);
        }
    }

    /// The first chunk of a sequence is gone.
    fn pass(&mut self, head: usize) {
        let piece = self.pieces[head].clone();
        self.begin(piece.sequence, piece.id);
        if !piece.incomplete {
            self.lose_end(piece.sequence, piece.aborted, piece.damaged);
        }
        let known = self.known(piece.sequence);
        known.next = Some(piece.id.wrapping_add(1));
        known.last = Some(Last { payload: piece.payload(), unfinished: piece.incomplete });
        if piece.on_next || piece.aborted || piece.damaged {
            known.before = Before::InLostPacket;
        } else if !piece.fragments.is_empty() {
            known.before = Before::Ended;
        }
        self.remove(head);
    }

    fn lose_end(&mut self, sequence: SequenceId, aborted: bool, damaged: bool) {
        if aborted {
            self.lose(sequence, LossCause::NoRoom);
        }
        if damaged {
            self.lose(sequence, LossCause::Violation);
        }
    }

    fn remove(&mut self, index: usize) {
        let sequence = self.pieces.remove(index).sequence;
        self.settle(sequence);
    }

    /// A sequence that has no chunk now is forgotten after 1,024 others.
    fn settle(&mut self, id: SequenceId) {
        let has_chunk = self.pieces.iter().any(|piece| piece.sequence == id);
        if has_chunk || self.held == Some(id) || self.empty.contains(&id) {
            return;
        }
        self.empty.push(id);
        if self.empty.len() > 1024 {
            let forgotten = self.empty.remove(0);
            self.known.retain(|known| known.id != forgotten);
        }
    }

    fn refuse(&mut self, sequence: SequenceId, refusal: Refusal) -> Commit {
        self.lose(
            sequence,
            match refusal {
                Refusal::TooLarge | Refusal::Far | Refusal::Contradiction => LossCause::Violation,
                Refusal::Full | Refusal::TooManySequences => LossCause::NoRoom,
                Refusal::Late => LossCause::Gap,
            },
        );
        Commit::Refused(refusal)
    }
}
