//! What instrumented programs call their zones, frames and queues of GPUs.

use rustc_hash::FxHashMap;
use std::sync::Arc;
use syscollect_merge::{each_definition, gpu_context_name};
use syscollect_store::{ClientDefinition, Producer, ProducerShares};
use syscollect_zone_protocol::log::{Definition, GpuContext};

/// Names of places that are kept, of all programs; and strings, some of which name sets of frames,
/// with queues.
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

/// A queue of a GPU, and how its clock counts.
#[derive(Clone, Debug)]
pub(crate) struct GpuQueue {
    pub(crate) name: Arc<str>,
    tick_bits: u32,
    tick_femtoseconds: u64,
}

impl GpuQueue {
    /// How long it was from one of the clock's ticks to another, in ticks of the recording, of
    /// which a second has so many. The clock may have wrapped in between; an end before the
    /// beginning is at that.
    pub(crate) fn ticks_between(&self, [began, ended]: [u64; 2], second: u64) -> u64 {
        let unused = 64 - self.tick_bits.clamp(1, 64);
        // Moved up, so that the highest bit is the difference's sign.
        let lasted = (ended.wrapping_sub(began) << unused) as i64 >> unused;
        let seconds = lasted.max(0) as f64 * self.tick_femtoseconds as f64 * 1e-15;
        (seconds * second as f64).round() as u64
    }
}

#[derive(Debug)]
struct Program {
    pid: u32,
    user: u32,
    places: FxHashMap<u32, Arc<str>>,
    strings: FxHashMap<u32, Arc<str>>,
    queues: FxHashMap<u32, GpuQueue>,
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
                queues: FxHashMap::default(),
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
            Definition::GpuContext(context) => self.keep_queue(client, number, context),
            _ => {}
        });
    }

    /// A queue has room where a text has.
    fn keep_queue(&mut self, client: u32, number: u32, context: &GpuContext<'_>) {
        let Some(program) = self.programs.get_mut(&client) else { return };
        let producer = Producer { user: program.user, program: client };
        let free = MOST_STRINGS.saturating_sub(self.strings.of_all());
        if program.queues.contains_key(&number) || self.strings.room_for(producer, free) == 0 {
            return;
        }
        let GpuContext { api, tick_bits, tick_femtoseconds, name, .. } = *context;
        let name = gpu_context_name(api, name);
        let name = String::from_utf8_lossy(&name[..name.len().min(LONGEST_NAME)]).into();
        program.queues.insert(number, GpuQueue { name, tick_bits, tick_femtoseconds });
        self.strings.add(producer, 1);
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

    /// A queue of a GPU.
    pub(crate) fn queue(&mut self, client: u32, number: u32) -> Option<&GpuQueue> {
        let program = self.programs.get_mut(&client)?;
        program.used = self.second;
        program.queues.get(&number)
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 2_000_000_000;

    fn between(tick_bits: u32, nanoseconds: u64, ticks: [u64; 2]) -> u64 {
        let tick_femtoseconds = nanoseconds * 1_000_000;
        GpuQueue { name: "".into(), tick_bits, tick_femtoseconds }.ticks_between(ticks, SECOND)
    }

    #[test]
    fn a_gpus_ticks_are_those_of_the_recording_also_where_they_wrap() {
        assert_eq!(between(64, 1, [100, 600]), 1000);
        assert_eq!(between(32, 80, [u64::from(u32::MAX) - 4, 5]), 10 * 160);
        assert_eq!(between(64, 1, [u64::MAX, 1]), 4);
        for bits in [64, 32] {
            assert_eq!(between(bits, 1, [600, 100]), 0, "it ends before it begins");
        }
        assert_eq!(between(64, u64::MAX / 1_000_000, [0, 1 << 62]), u64::MAX);
        assert_eq!(between(1, 1, [0, 1]), 0, "of one bit nothing is known");
    }
}
