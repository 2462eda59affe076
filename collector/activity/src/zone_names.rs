//! What instrumented programs call their zones and frames.

use rustc_hash::FxHashMap;
use std::sync::Arc;
use syscollect_merge::each_definition;
use syscollect_store::{ClientDefinition, Producer, ProducerShares};
use syscollect_zone_protocol::log::Definition;

/// Names of places that are kept, of all programs; and strings, some of which name sets of frames.
const MOST_ADDRESSES: usize = 1 << 16;
const MOST_STRINGS: usize = 1 << 14;
/// Programs that are known.
const MOST_PROGRAMS: usize = 1 << 14;
/// From a name so many bytes are kept.
const LONGEST_NAME: usize = 120;
/// Programs that did nothing for so many seconds make room where there is little.
const QUIET_SECONDS: u64 = 60;

/// Names, by the programs' numbers and the entries' of their logs.
#[derive(Debug, Default)]
pub(crate) struct ZoneNames {
    programs: FxHashMap<u32, Program>,
    /// Numbers of programs by their processes.
    of_process: FxHashMap<u32, Vec<u32>>,
    places: ProducerShares,
    strings: ProducerShares,
    /// Seconds so far.
    second: u64,
}

#[derive(Debug)]
struct Program {
    pid: u32,
    user: u32,
    places: FxHashMap<u32, Arc<str>>,
    strings: FxHashMap<u32, Arc<str>>,
    /// In which second anything of it was looked up.
    used: u64,
}

impl ZoneNames {
    pub(crate) fn add_programs(&mut self, programs: &[ClientDefinition]) {
        for ClientDefinition { client, pid, user, .. } in programs {
            if self.programs.len() >= MOST_PROGRAMS || self.programs.contains_key(client) {
                continue;
            }
            let program = Program {
                pid: *pid,
                user: user.unwrap_or(u32::MAX),
                places: FxHashMap::default(),
                strings: FxHashMap::default(),
                used: self.second,
            };
            self.programs.insert(*client, program);
            self.of_process.entry(*pid).or_default().push(*client);
        }
    }

    /// Takes a chunk of a program's log.
    pub(crate) fn feed(&mut self, data: &[u8]) {
        each_definition(data, |client, number, definition| match definition {
            Definition::Location(place) => {
                let named = [place.name, place.function, b"(no name)"];
                let name = named.into_iter().find(|name| !name.is_empty());
                self.keep(client, number, name.unwrap_or_default(), true);
            }
            Definition::String(text) => self.keep(client, number, text, false),
            _ => {}
        });
    }

    fn keep(&mut self, client: u32, number: u32, name: &[u8], is_place: bool) {
        let Some(program) = self.programs.get_mut(&client) else { return };
        let producer = Producer { user: program.user, program: client };
        let (names, shares, most) = match is_place {
            true => (&mut program.places, &mut self.places, MOST_ADDRESSES),
            false => (&mut program.strings, &mut self.strings, MOST_STRINGS),
        };
        let free = most.saturating_sub(shares.of_all());
        if names.contains_key(&number) || shares.room_for(producer, free) == 0 {
            return;
        }
        let name = &name[..name.len().min(LONGEST_NAME)];
        names.insert(number, String::from_utf8_lossy(name).into());
        shares.add(producer, 1);
    }

    /// The process of a program, and whose shares it has.
    pub(crate) fn process(&self, client: u32) -> Option<u32> {
        Some(self.programs.get(&client)?.pid)
    }

    pub(crate) fn producer(&self, client: u32) -> Producer {
        let user = self.programs.get(&client).map_or(u32::MAX, |program| program.user);
        Producer { user, program: client }
    }

    /// Whose program that is.
    pub(crate) fn user(&self, client: u32) -> Option<u32> {
        Some(self.programs.get(&client)?.user).filter(|user| *user != u32::MAX)
    }

    /// What a place is called.
    pub(crate) fn place(&mut self, client: u32, number: u32) -> Option<Arc<str>> {
        let program = self.programs.get_mut(&client)?;
        program.used = self.second;
        program.places.get(&number).cloned()
    }

    /// What a set of frames is called; the main one has no name.
    pub(crate) fn frames(&mut self, client: u32, number: u32) -> Option<Arc<str>> {
        let program = self.programs.get_mut(&client)?;
        program.used = self.second;
        match number {
            0 => Some("Frame".into()),
            number => program.strings.get(&number).cloned(),
        }
    }

    /// The programs of a process.
    pub(crate) fn clients(&self, pid: u32) -> &[u32] {
        self.of_process.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// A second is over: where there is little room, programs are forgotten that did nothing for
    /// long.
    pub(crate) fn close(&mut self) {
        self.second += 1;
        let is_full = self.places.of_all() > MOST_ADDRESSES / 4 * 3
            || self.strings.of_all() > MOST_STRINGS / 4 * 3
            || self.programs.len() > MOST_PROGRAMS / 4 * 3;
        if !is_full {
            return;
        }
        let Self { programs, of_process, places, strings, second, .. } = self;
        programs.retain(|client, program| {
            let is_kept = *second - program.used <= QUIET_SECONDS;
            if !is_kept {
                let producer = Producer { user: program.user, program: *client };
                places.forget(producer);
                strings.forget(producer);
            }
            is_kept
        });
        of_process.retain(|_, clients| {
            clients.retain(|client| programs.contains_key(client));
            !clients.is_empty()
        });
    }
}
