//! What instrumented programs call their zones, plots and frames: of their logs only what triggers
//! ask for.

use crate::cause::{Cause, NamePattern};
use crate::found::{TriggerSet, Triggers};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use syscollect_merge::each_definition;
use syscollect_store::{ClientDefinition, Producer, ProducerShares};
use syscollect_zone_protocol::log::Definition;

/// Entries that are kept of all programs.
const MOST_ENTRIES: usize = 1 << 20;
/// Programs that live and of which it is known whose they are; entries of more stay.
const MOST_PROGRAMS: usize = 1 << 16;

/// The main set of frames has no name, and its frames are called so on timelines.
const MAIN_SET: [&str; 2] = ["", "Frame"];

/// An entry of a log that triggers ask for.
#[derive(Clone, Debug)]
pub(crate) struct NamedEntry {
    pub(crate) name: Arc<str>,
    /// Those that ask for zones, plots or frames of this name.
    pub(crate) triggers: Arc<Triggers>,
}

/// What is asked for, by the kind of entry.
#[derive(Debug, Default)]
struct AskedNames {
    zones: Vec<(usize, NamePattern)>,
    plots: Vec<(usize, NamePattern)>,
    /// Without a name: any set.
    frames: Vec<(usize, Option<NamePattern>)>,
    /// Parts of messages.
    messages: Vec<(usize, String)>,
}

/// The logs of all programs.
#[derive(Debug)]
pub(crate) struct ClientLogs {
    asked: AskedNames,
    /// By the program's number and the entry's; a string may be asked for as two things.
    locations: FxHashMap<(u32, u32), NamedEntry>,
    plots: FxHashMap<(u32, u32), NamedEntry>,
    frames: FxHashMap<(u32, u32), NamedEntry>,
    messages: FxHashMap<(u32, u32), NamedEntry>,
    /// Numbers of programs by their processes.
    clients: FxHashMap<u32, Vec<u32>>,
    programs: usize,
    /// Whose programs these are, where that is known.
    users: FxHashMap<u32, u32>,
    /// Entries that are kept.
    entries: ProducerShares,
    /// Those for which there is something that is called as they ask.
    pub(crate) seen: TriggerSet,
    unfollowed: u64,
    /// Of the main set of frames, which has no name.
    main: Option<NamedEntry>,
}

impl ClientLogs {
    pub(crate) fn new<'c>(causes: impl Iterator<Item = (usize, &'c Cause)>) -> Self {
        let mut asked = AskedNames::default();
        for (trigger, cause) in causes {
            match cause {
                Cause::Zone(name, _) => asked.zones.push((trigger, name.clone())),
                Cause::Plot(name, ..) => asked.plots.push((trigger, name.clone())),
                Cause::Frame(set, _) => asked.frames.push((trigger, set.clone())),
                Cause::Message(_, part) => asked.messages.push((trigger, part.clone())),
                _ => {}
            }
        }
        let is_of_main = |set: &NamePattern| MAIN_SET.iter().any(|name| set.matches(name));
        let of_main = asked.frames.iter().filter(|(_, set)| set.as_ref().is_none_or(is_of_main));
        let of_main: Triggers = of_main.map(|(trigger, _)| *trigger).collect();
        // It needs no entry of a log: whoever asks for it has seen its name.
        let mut seen = TriggerSet::default();
        seen.add(&of_main);
        let main = (!of_main.is_empty())
            .then(|| NamedEntry { name: "Frame".into(), triggers: Arc::new(of_main) });
        Self {
            asked,
            locations: FxHashMap::default(),
            plots: FxHashMap::default(),
            frames: FxHashMap::default(),
            messages: FxHashMap::default(),
            clients: FxHashMap::default(),
            programs: 0,
            users: FxHashMap::default(),
            entries: ProducerShares::default(),
            seen,
            unfollowed: 0,
            main,
        }
    }

    /// Names of programs that were more than are known at a time.
    pub(crate) fn unfollowed(&self) -> u64 {
        self.unfollowed
    }

    /// Whether anything of programs is asked for.
    pub(crate) fn are_asked(&self) -> bool {
        let AskedNames { zones, plots, frames, messages } = &self.asked;
        !(zones.is_empty() && plots.is_empty() && frames.is_empty() && messages.is_empty())
    }

    /// The zones of that place, if they are asked for.
    #[inline]
    pub(crate) fn location(&self, client: u32, number: u32) -> Option<&NamedEntry> {
        self.locations.get(&(client, number))
    }

    pub(crate) fn plot(&self, client: u32, number: u32) -> Option<&NamedEntry> {
        self.plots.get(&(client, number))
    }

    /// The frames of that set; 0 is the main one.
    pub(crate) fn frames(&self, client: u32, number: u32) -> Option<&NamedEntry> {
        match number {
            0 => self.main.as_ref(),
            _ => self.frames.get(&(client, number)),
        }
    }

    /// The message that a string is, if one asks for it.
    pub(crate) fn message(&self, client: u32, number: u32) -> Option<&NamedEntry> {
        self.messages.get(&(client, number))
    }

    /// Those that ask for a message of this text.
    pub(crate) fn of_message<'l>(&'l self, text: &'l str) -> impl Iterator<Item = usize> + 'l {
        let asked = self.asked.messages.iter().filter(|(_, part)| text.contains(part.as_str()));
        asked.map(|(trigger, _)| *trigger)
    }

    /// Programs, each once or more often.
    pub(crate) fn add_programs(&mut self, programs: &[ClientDefinition]) {
        for ClientDefinition { pid, client, user, .. } in programs {
            let of = self.clients.entry(*pid).or_default();
            if self.programs < MOST_PROGRAMS && !of.contains(client) {
                of.push(*client);
                self.programs += 1;
                user.map(|user| self.users.insert(*client, user));
            }
        }
    }

    /// Who pays for a program, where that is known.
    pub(crate) fn payer(&self, client: u32) -> Option<u32> {
        self.users.get(&client).copied()
    }

    /// Whose shares a program's number stands for.
    pub(crate) fn producer(&self, client: u32) -> Producer {
        let user = self.payer(client).unwrap_or(u32::MAX);
        Producer { user, program: client }
    }

    /// The programs of a process that has ended.
    pub(crate) fn take_clients_of(&mut self, pid: u32) -> Vec<u32> {
        let clients = self.clients.remove(&pid).unwrap_or_default();
        self.programs -= clients.len();
        clients
    }

    /// These programs have ended.
    pub(crate) fn forget(&mut self, clients: &FxHashSet<u32>) {
        for entries in [&mut self.locations, &mut self.plots, &mut self.frames, &mut self.messages]
        {
            entries.retain(|(client, _), _| !clients.contains(client));
        }
        for client in clients {
            let producer = self.producer(*client);
            self.entries.forget(producer);
            self.users.remove(client);
        }
    }

    /// Takes a chunk of a program's log.
    pub(crate) fn feed(&mut self, data: &[u8]) {
        each_definition(data, |client, number, definition| self.add((client, number), definition));
    }

    fn add(&mut self, key: (u32, u32), definition: &Definition<'_>) {
        let producer = self.producer(key.0);
        let Self { asked, locations, plots, frames, messages, entries, unfollowed, seen, .. } =
            self;
        let mut keep = |kept: &mut FxHashMap<_, _>, name: &str, triggers: Triggers| {
            if triggers.is_empty() || kept.contains_key(&key) {
                return;
            }
            seen.add(&triggers);
            let free = MOST_ENTRIES.saturating_sub(entries.of_all());
            if entries.room_for(producer, free) == 0 {
                *unfollowed += 1;
                return;
            }
            kept.insert(key, NamedEntry { name: name.into(), triggers: Arc::new(triggers) });
            entries.add(producer, 1);
        };
        match definition {
            Definition::Location(location) => {
                let name = String::from_utf8_lossy(location.name);
                keep(locations, &name, named(&asked.zones, &name).collect());
            }
            // The collector reads a counter's values at its address, and gives them as a plot's.
            Definition::Plot { name, .. } | Definition::Counter { name, .. } => {
                let name = String::from_utf8_lossy(name);
                keep(plots, &name, named(&asked.plots, &name).collect());
            }
            Definition::String(string) => {
                let string = String::from_utf8_lossy(string);
                let sets = asked
                    .frames
                    .iter()
                    .filter(|(_, set)| set.as_ref().is_none_or(|set| set.matches(&string)));
                keep(frames, &string, sets.map(|(trigger, _)| *trigger).collect());
                let parts =
                    asked.messages.iter().filter(|(_, part)| string.contains(part.as_str()));
                keep(messages, &string, parts.map(|(trigger, _)| *trigger).collect());
            }
            Definition::Lock { .. } | Definition::Schema { .. } | Definition::GpuContext(_) => {}
        }
    }
}

fn named<'l>(asked: &'l [(usize, NamePattern)], name: &'l str) -> impl Iterator<Item = usize> + 'l {
    asked.iter().filter(|(_, pattern)| pattern.matches(name)).map(|(trigger, _)| *trigger)
}
