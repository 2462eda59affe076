//! Groups of items that are kept, and who gives way where there are too many.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use syscollect_model::Lane;
use syscollect_store::fair_level;

/// Where a group was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupPlace {
    /// In which lane.
    pub(super) lane: Lane,
    /// By which of those who wrote to it.
    pub(super) writer: u32,
    /// Counts the groups as they were read.
    pub(super) number: u64,
    /// When it was written, by the program's clock.
    pub(super) ticks: u64,
}

/// A group that is kept.
#[derive(Clone, Debug)]
pub(super) struct KeptGroup {
    pub(super) place: GroupPlace,
    pub(super) words: Vec<u64>,
}

impl KeptGroup {
    fn bytes(&self) -> usize {
        self.words.len() * 8
    }
}

/// Limits what programs have to `room` bytes in all: users have equal shares, and so have the
/// programs of each; of what is beyond them the oldest goes. Whose they are is asked only then.
pub(super) fn limit(
    kept: &mut FxHashMap<u32, Vec<KeptGroup>>,
    room: usize,
    users_of: impl FnOnce() -> FxHashMap<u32, u32>,
) {
    let sizes: BTreeMap<u32, usize> = kept
        .iter()
        .map(|(client, groups)| (*client, groups.iter().map(KeptGroup::bytes).sum()))
        .collect();
    if sizes.values().sum::<usize>() <= room {
        return;
    }
    let (known, mut users) = (users_of(), BTreeMap::<Option<u32>, Vec<u32>>::new());
    for client in sizes.keys() {
        users.entry(known.get(client).copied()).or_default().push(*client);
    }
    let sizes_of = |clients: &[u32]| clients.iter().map(|client| sizes[client]).collect::<Vec<_>>();
    let of_users = users.values().map(|clients| sizes_of(clients).iter().sum()).collect();
    let of_user = fair_level(of_users, room);
    for clients in users.values() {
        let level = fair_level(sizes_of(clients), of_user);
        for client in clients.iter().filter(|client| sizes[client] > level) {
            let Some(groups) = kept.get_mut(client) else { continue };
            groups.sort_unstable_by_key(|group| group.place.ticks);
            let mut left = sizes[client];
            let beyond = groups.iter().take_while(|group| {
                let is_beyond = left > level;
                left -= group.bytes();
                is_beyond
            });
            let beyond = beyond.count();
            groups.drain(..beyond);
        }
    }
}
