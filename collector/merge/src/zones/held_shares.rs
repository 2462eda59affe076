//! How much one program may have of what is held because its time comes later than it was written.

use crate::losses::Losses;
use crate::zones::programs::Programs;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use syscollect_model::{Lane, LaneKind, LossCause, MachineId, Process, Tables, grouped};
use syscollect_store::{Producer, ProducerShares};

/// Programs that are named of which not all could be held; of others it is said how many.
const MOST_NAMED: usize = 8;

/// Shares of a bounded amount of memory: the program with most of it gives way to others, of the
/// user with most. So who comes first may have all of it, and who comes later loses nothing as long
/// as others have more.
#[derive(Debug)]
pub(crate) struct HeldShares {
    shares: ProducerShares,
    most_bytes: usize,
    /// How often somebody has given way.
    cuts: u64,
    /// What `cuts` was when a program was found to have most: until that changes it gets no more.
    full_at: FxHashMap<u32, u64>,
}

impl HeldShares {
    /// Of so many bytes.
    pub(crate) fn new(most_bytes: usize) -> Self {
        let (shares, full_at) = (ProducerShares::default(), FxHashMap::default());
        Self { shares, most_bytes, cuts: 0, full_at }
    }

    /// Takes so much for this program, if it may have it. Another that has more is cut for that:
    /// `cut` says how many bytes it gave up, 0 where it has nothing to give.
    pub(crate) fn take(
        &mut self,
        producer: Producer,
        bytes: usize,
        mut cut: impl FnMut(Producer) -> usize,
    ) -> bool {
        while self.shares.of_all() + bytes > self.most_bytes {
            if self.full_at.get(&producer.program) == Some(&self.cuts) {
                return false;
            }
            let most = self.shares.largest().filter(|most| *most != producer);
            let given_up = most.map_or(0, &mut cut);
            if let Some(most) = most.filter(|_| given_up > 0) {
                self.shares.remove(most, given_up);
                self.cuts += 1;
            } else {
                self.full_at.insert(producer.program, self.cuts);
                return false;
            }
        }
        self.shares.add(producer, bytes);
        true
    }

    /// The program holds so much less.
    pub(crate) fn give_back(&mut self, producer: Producer, bytes: usize) {
        self.shares.remove(producer, bytes);
        // Who found no room may find some again.
        self.cuts += 1;
    }

    #[cfg(test)]
    pub(crate) fn of_all(&self) -> usize {
        self.shares.of_all()
    }
}

/// What a list of words takes on the heap.
pub(crate) fn words_size(words: &[u64]) -> usize {
    /// What the allocator takes beside them.
    const BESIDE: usize = 16;
    match words {
        [] => 0,
        words => size_of_val(words) + BESIDE,
    }
}

/// The last eighth of a list goes; how many these are.
pub(crate) fn give_up_last<T>(list: &mut Vec<T>) -> usize {
    let before = list.len();
    list.truncate(first_to_give_up(before));
    list.shrink_to_fit();
    before - list.len()
}

/// Where the last eighth of a list begins that has so many; at least one goes, if there is one.
pub(crate) fn first_to_give_up(count: usize) -> usize {
    count - count.div_ceil(8)
}

/// Items that programs wrote and that come to nothing, by the programs' numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnLosses {
    /// They mean nothing.
    pub(crate) undecodable: FxHashMap<u32, u64>,
    /// Others had less.
    pub(crate) beyond_share: FxHashMap<u32, u64>,
}

impl OwnLosses {
    /// So many items of the program mean nothing.
    pub(crate) fn refuse(&mut self, client: u32, items: usize) {
        if items > 0 {
            *self.undecodable.entry(client).or_default() += items as u64;
        }
    }

    /// So many items of the program are not held.
    pub(crate) fn not_held(&mut self, client: u32, items: usize) {
        if items > 0 {
            *self.beyond_share.entry(client).or_default() += items as u64;
        }
    }

    /// Counts them.
    pub(crate) fn count(&self, programs: &Programs, losses: &mut Losses) {
        // Which of the lanes of zones it was is not told.
        let lane = Lane::new(LaneKind::Zone, 0);
        let of_causes = [
            (LossCause::Undecodable, &self.undecodable),
            (LossCause::BeyondShare, &self.beyond_share),
        ];
        for (cause, of_programs) in of_causes {
            for (client, count) in of_programs {
                losses.of_program(lane, programs.user(*client), cause, *count);
            }
        }
    }

    /// Whose items could not be held, in words; `what` says what they are.
    pub(crate) fn notes(
        &self,
        what: &str,
        programs: &Programs,
        tables: &Tables,
        machine: MachineId,
    ) -> Vec<String> {
        let mut beyond: Vec<_> =
            self.beyond_share.iter().map(|(client, count)| (*count, *client)).collect();
        beyond.sort_unstable_by_key(|(count, client)| (Reverse(*count), *client));
        let named = beyond.iter().take(MOST_NAMED).map(|(count, client)| {
            let pid = programs.pid(*client);
            let is_of = |process: &&Process| process.machine == machine && Some(process.pid) == pid;
            let process = tables.processes.iter().rev().find(is_of);
            let name = process.map_or("a program", |process| tables.strings.get(process.name));
            let pid = pid.map_or_else(String::new, |pid| format!(" (PID {pid})"));
            let user = programs.user(*client);
            let user = user.map_or_else(String::new, |user| format!(" of user {user}"));
            format!(
                "{name}{pid}{user} wrote more {what} than one program may have: {} items are left \
                 out",
                grouped(*count)
            )
        });
        let mut notes: Vec<_> = named.collect();
        let more = beyond.get(MOST_NAMED..).unwrap_or_default();
        if !more.is_empty() {
            let items = more.iter().fold(0u64, |sum, (count, _)| sum.saturating_add(*count));
            notes.push(format!(
                "{} more programs wrote more {what} than one may have: {} items are left out",
                more.len(),
                grouped(items)
            ));
        }
        notes
    }
}
