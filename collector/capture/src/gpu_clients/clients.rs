//! What processes have of GPUs, from what their clients tell again and again. No I/O.

use std::collections::{BTreeMap, HashMap};

use super::fdinfo::{Busy, ClientId, ClientUsage, Device, Engine};

/// Counters at once, so that no driver and no program makes them without end.
const MOST_SERIES: usize = 4096;

/// What is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Series {
    pub(crate) pid: u32,
    pub(crate) device: Device,
    pub(crate) part: GpuPart,
}

/// A part of a GPU, by the driver's name for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum GpuPart {
    /// Bytes in a region.
    Memory(String),
    /// How busy an engine is, percent.
    Engine(String),
}

/// The clients of all processes, in rounds: each tells at most once in a round.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    round: u64,
    known: HashMap<ClientId, KnownClient>,
    /// Of this round.
    sums: BTreeMap<Series, f64>,
    shown: BTreeMap<Series, u64>,
    next_number: u64,
    left_out: bool,
}

#[derive(Debug)]
struct KnownClient {
    /// Who had it first, as long as he has it: a device that is handed on, or that
    /// children inherit, is counted once.
    owner: u32,
    round: u64,
    engines: BTreeMap<String, Before>,
}

/// An engine's last reading.
#[derive(Clone, Copy, Debug)]
struct Before {
    busy: u64,
    clock: u64,
}

impl Clients {
    /// What a client of this process tells at this time, nanoseconds.
    pub(crate) fn add(&mut self, pid: u32, now: u64, usage: ClientUsage) {
        let ClientUsage { client, memory, engines, .. } = usage;
        let device = client.device.clone();
        let known = self.known.entry(client).or_insert_with(|| KnownClient {
            owner: pid,
            round: 0,
            engines: BTreeMap::new(),
        });
        let current = self.round + 1;
        if known.owner != pid || known.round == current {
            return;
        }
        known.round = current;
        for (region, bytes) in memory {
            let part = GpuPart::Memory(region);
            let series = Series { pid, device: device.clone(), part };
            *self.sums.entry(series).or_default() += bytes as f64;
        }
        for (name, engine) in engines {
            let used = known.used(&name, engine, now);
            let part = GpuPart::Engine(name);
            let series = Series { pid, device: device.clone(), part };
            *self.sums.entry(series).or_default() += used;
        }
    }

    /// The round is over: says what new counters count, and then the value of each. What was there
    /// before and is gone is 0 once more; what was never anything but 0 is not shown.
    pub(crate) fn end_round(
        &mut self,
        mut define: impl FnMut(u64, &Series),
        mut value: impl FnMut(u64, f64),
    ) {
        self.round += 1;
        self.known.retain(|_, known| known.round == self.round);
        let mut sums = std::mem::take(&mut self.sums);
        self.shown.retain(|series, number| {
            let sum = sums.remove(series);
            value(*number, sum.unwrap_or(0.0));
            sum.is_some()
        });
        for (series, sum) in sums.into_iter().filter(|(_, sum)| *sum > 0.0) {
            if self.shown.len() >= MOST_SERIES {
                self.left_out = true;
                return;
            }
            let number = self.next_number;
            self.next_number += 1;
            define(number, &series);
            value(number, sum);
            self.shown.insert(series, number);
        }
    }

    /// Whether there were more counters than are shown.
    pub(crate) fn left_out(&self) -> bool {
        self.left_out
    }
}

impl KnownClient {
    /// Percent of the engine since the last reading; nothing at the first.
    fn used(&mut self, name: &str, engine: Engine, now: u64) -> f64 {
        let (busy, clock) = match engine.busy {
            Busy::Nanoseconds(busy) => (busy, now),
            Busy::Cycles { busy, all } => (busy, all),
        };
        let Some(before) = self.engines.get_mut(name) else {
            self.engines.insert(name.to_owned(), Before { busy, clock });
            return 0.0;
        };
        // A count that falls behind catches up later, as the kernel's documentation promises.
        let worked = busy.saturating_sub(before.busy);
        let passed = clock.saturating_sub(before.clock);
        *before = Before { busy: busy.max(before.busy), clock: clock.max(before.clock) };
        if passed == 0 {
            0.0
        } else {
            100.0 * worked as f64 / (passed as f64 * engine.capacity as f64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    fn device() -> Device {
        Device { driver: "amdgpu".into(), slot: "0000:0b:00.0".into() }
    }

    fn usage(number: u64) -> ClientUsage {
        ClientUsage { client: ClientId { device: device(), number }, ..ClientUsage::default() }
    }

    fn holds(number: u64, bytes: u64) -> ClientUsage {
        ClientUsage { memory: [("vram".to_owned(), bytes)].into(), ..usage(number) }
    }

    fn works(number: u64, busy: Busy, capacity: u64) -> ClientUsage {
        ClientUsage {
            engines: [("gfx".to_owned(), Engine { busy, capacity })].into(),
            ..usage(number)
        }
    }

    /// Ends the round: process, part and value of each counter.
    fn values(
        clients: &mut Clients,
        names: &mut HashMap<u64, (u32, String)>,
    ) -> Vec<(u32, String, f64)> {
        let mut reported = Vec::new();
        let mut defined = Vec::new();
        clients.end_round(
            |number, series| defined.push((number, series.clone())),
            |number, value| reported.push((number, value)),
        );
        for (number, series) in defined {
            let (GpuPart::Memory(name) | GpuPart::Engine(name)) = series.part;
            assert!(
                names.insert(number, (series.pid, name)).is_none(),
                "a number means one counter for ever"
            );
        }
        reported
            .into_iter()
            .map(|(number, value)| (names[&number].0, names[&number].1.clone(), value))
            .collect()
    }

    fn reported(rounds: &[&[(u32, u64, ClientUsage)]]) -> Vec<Vec<(u32, f64)>> {
        let (mut clients, mut names) = (Clients::default(), HashMap::new());
        let mut all = Vec::new();
        for round in rounds {
            round.iter().for_each(|(pid, now, usage)| clients.add(*pid, *now, usage.clone()));
            let values = values(&mut clients, &mut names);
            all.push(values.into_iter().map(|(pid, _, value)| (pid, value)).collect());
        }
        all
    }

    #[test]
    fn a_client_behind_two_descriptors_counts_once_and_two_clients_add_up() {
        let round = [(7, 0, holds(1, 100)), (7, 0, holds(1, 100)), (7, 0, holds(2, 30))];
        assert_eq!(reported(&[&round]), [[(7, 130.0)]]);
    }

    #[test]
    fn a_client_that_children_inherit_stays_with_who_had_it_first_as_long_as_it_does() {
        let rounds = reported(&[
            &[client_of(9)],
            &[client_of(5), client_of(9)],
            &[client_of(5)],
            &[client_of(5)],
        ]);
        assert_eq!(rounds, [vec![(9, 100.0)], vec![(9, 100.0)], vec![(9, 0.0)], vec![(5, 100.0)]]);
    }

    fn client_of(pid: u32) -> (u32, u64, ClientUsage) {
        (pid, 0, holds(1, 100))
    }

    #[test]
    fn a_process_that_ends_is_told_as_0_once() {
        let rounds = reported(&[
            &[(7, 0, holds(1, 100)), (8, 0, holds(2, 5))],
            &[(8, 1, holds(2, 5))],
            &[(8, 2, holds(2, 6))],
        ]);
        assert_eq!(rounds, [vec![(7, 100.0), (8, 5.0)], vec![(7, 0.0), (8, 5.0)], vec![(8, 6.0)]]);
    }

    #[test]
    fn what_is_never_anything_but_0_is_not_shown() {
        let rounds =
            reported(&[&[(7, 0, holds(1, 0))], &[(7, 1, holds(1, 9))], &[(7, 2, holds(1, 0))]]);
        assert_eq!(rounds, [vec![], vec![(7, 9.0)], vec![(7, 0.0)]]);
    }

    #[test]
    fn use_is_the_work_since_the_last_reading_over_the_time_and_the_engines() {
        let rounds = reported(&[
            &[two_engines_busy(0, 50)],
            &[two_engines_busy(SECOND, SECOND + 50)],
            &[two_engines_busy(3 * SECOND, SECOND + 50)],
        ]);
        assert_eq!(rounds, [vec![], vec![(7, 50.0)], vec![(7, 0.0)]]);
    }

    fn two_engines_busy(at: u64, ns: u64) -> (u32, u64, ClientUsage) {
        (7, at, works(1, Busy::Nanoseconds(ns), 2))
    }

    #[test]
    fn cycles_are_measured_by_the_gpus_own_clock() {
        let rounds =
            reported(&[&[cycles_busy(10, 100)], &[cycles_busy(20, 140)], &[cycles_busy(30, 140)]]);
        assert_eq!(rounds, [vec![], vec![(7, 25.0)], vec![(7, 0.0)]]);
    }

    fn cycles_busy(busy: u64, all: u64) -> (u32, u64, ClientUsage) {
        (7, 0, works(1, Busy::Cycles { busy, all }, 1))
    }

    #[test]
    fn a_count_that_falls_behind_is_awaited_where_it_was() {
        let half = SECOND / 2;
        let rounds = reported(&[
            &[busy(0, 0)],
            &[busy(1, SECOND)],
            &[busy(2, half)],
            &[busy(3, SECOND + half)],
        ]);
        assert_eq!(rounds, [vec![], vec![(7, 100.0)], vec![(7, 0.0)], vec![(7, 50.0)]]);
    }

    fn busy(at: u64, ns: u64) -> (u32, u64, ClientUsage) {
        (7, at * SECOND, works(1, Busy::Nanoseconds(ns), 1))
    }

    #[test]
    fn there_are_so_many_counters_and_no_more_until_some_go() {
        let mut clients = Clients::default();
        let mut names = HashMap::new();
        (0..5000).for_each(|pid| clients.add(pid, 0, holds(u64::from(pid), 1)));
        assert_eq!(
            (values(&mut clients, &mut names).len(), clients.left_out()),
            (MOST_SERIES, true)
        );
        values(&mut clients, &mut names);
        clients.add(9000, 0, holds(9000, 1));
        assert_eq!(values(&mut clients, &mut names).len(), 1);
    }

    proptest! {
        #[test]
        fn whatever_is_told_values_are_finite_and_no_client_counts_twice(
            rounds in prop::collection::vec(
                prop::collection::vec(
                    (0u32..4, any::<u64>(), 0u64..4, any::<u64>(), any::<u64>(), 1u64..9),
                    0..12,
                ),
                0..8,
            ),
        ) {
            let (mut clients, mut names) = (Clients::default(), HashMap::new());
            for round in rounds {
                let mut most = BTreeMap::new();
                for (pid, now, number, bytes, all, capacity) in round {
                    let reported = works(number, Busy::Cycles { busy: bytes, all }, capacity);
                    let memory = [("vram".to_owned(), bytes >> 12)].into();
                    clients.add(pid, now, ClientUsage { memory, ..reported });
                    let of_client: &mut u64 = most.entry(number).or_default();
                    *of_client = (bytes >> 12).max(*of_client);
                }
                let values = values(&mut clients, &mut names);
                prop_assert!(values.iter().all(|(_, _, value)| value.is_finite() && *value >= 0.0));
                let sum: f64 = values
                    .iter()
                    .filter(|(_, name, _)| name == "vram")
                    .map(|(_, _, value)| value)
                    .sum();
                prop_assert!(
                    sum <= most.values().map(|bytes| *bytes as f64).sum::<f64>() * 1.000_001
                );
            }
        }
    }
}
