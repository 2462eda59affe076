//! What a driver tells of one client, in the text of `/proc/PID/fdinfo/FD`
//! (Documentation/gpu/drm-usage-stats.rst in the kernel's sources).

use std::collections::BTreeMap;

/// Names are short; a longer one is damage.
const LONGEST_NAME: usize = 64;
/// Drivers have a dozen regions and engines.
const MOST_ENTRIES: usize = 64;

/// One client of a driver: what a program has behind an open GPU device, however many
/// file descriptors lead to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientUsage {
    pub(crate) client: ClientId,
    /// Bytes by region: those that are there, else those that were asked for.
    pub(crate) memory: BTreeMap<String, u64>,
    /// What engines did for it, by their names.
    pub(crate) engines: BTreeMap<String, Engine>,
    /// Values that could not be read.
    pub(crate) damaged: usize,
}

/// What tells clients apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClientId {
    pub(crate) device: Device,
    /// Unique among those of the device.
    pub(crate) number: u64,
}

/// A GPU as its driver names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Device {
    pub(crate) driver: String,
    /// `0000:03:00.0`; empty for what is not on a PCI bus.
    pub(crate) slot: String,
}

/// How far an engine, or a group of equal ones, has come in the work of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Engine {
    pub(crate) busy: Busy,
    /// Engines in the group, at least 1.
    pub(crate) capacity: u64,
}

/// A count that grows while an engine works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    /// Nanoseconds of work.
    Nanoseconds(u64),
    /// Cycles of work, and all that have passed.
    Cycles { busy: u64, all: u64 },
}

/// What is told of one name, before it is known which of the keys count.
#[derive(Clone, Copy, Debug, Default)]
struct ReportedKeys {
    resident: Option<u64>,
    memory: Option<u64>,
    total: Option<u64>,
    nanoseconds: Option<u64>,
    cycles: Option<u64>,
    all_cycles: Option<u64>,
    capacity: Option<u64>,
}

impl ClientUsage {
    /// Reads the text of an fdinfo file; `None` where no driver tells whose it is. A client
    /// without a number could not be counted once, and is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (mut driver, mut slot, mut number) = (None, None, None);
        let (mut reported, mut damaged) = (BTreeMap::<&str, ReportedKeys>::new(), 0);
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let (Some(key), value) = (key.strip_prefix("drm-"), value.trim()) else { continue };
            match key {
                "driver" => driver = Some(value).filter(|driver| is_name(driver)),
                "pdev" => slot = Some(value).filter(|slot| is_name(slot)),
                "client-id" => number = value.parse().ok(),
                key => damaged += usize::from(!note(key, value, &mut reported)),
            }
        }
        let device =
            Device { driver: driver?.to_owned(), slot: slot.unwrap_or_default().to_owned() };
        let all: Vec<_> =
            reported.iter().map(|(name, reported)| ((*name).to_owned(), *reported)).collect();
        Some(Self {
            client: ClientId { device, number: number? },
            memory: all
                .iter()
                .filter_map(|(name, reported)| Some((name.clone(), reported.bytes()?)))
                .collect(),
            engines: all
                .iter()
                .filter_map(|(name, reported)| Some((name.clone(), reported.engine()?)))
                .collect(),
            damaged,
        })
    }
}

impl ReportedKeys {
    fn bytes(&self) -> Option<u64> {
        self.resident.or(self.memory).or(self.total)
    }

    fn engine(&self) -> Option<Engine> {
        let busy = self
            .nanoseconds
            .map(Busy::Nanoseconds)
            .or_else(|| Some(Busy::Cycles { busy: self.cycles?, all: self.all_cycles? }))?;
        Some(Engine { busy, capacity: self.capacity.unwrap_or(1) })
    }
}

/// Notes a value; false where it is of a known key and cannot be read.
fn note<'a>(key: &'a str, value: &str, reported: &mut BTreeMap<&'a str, ReportedKeys>) -> bool {
    type KeyOf = fn(&mut ReportedKeys) -> &mut Option<u64>;
    type Reader = fn(&str) -> Option<u64>;
    // Longer prefixes stand before those they begin with.
    const KEYS: [(&str, Reader, KeyOf); 7] = [
        ("engine-capacity-", capacity, |reported| &mut reported.capacity),
        ("engine-", nanoseconds, |reported| &mut reported.nanoseconds),
        ("total-cycles-", plain, |reported| &mut reported.all_cycles),
        ("cycles-", plain, |reported| &mut reported.cycles),
        ("resident-", bytes, |reported| &mut reported.resident),
        ("memory-", bytes, |reported| &mut reported.memory),
        ("total-", bytes, |reported| &mut reported.total),
    ];
    let known = KEYS
        .iter()
        .find_map(|(prefix, read, place)| Some((key.strip_prefix(prefix)?, read, place)));
    let Some((name, read, place)) = known else { return true };
    let (true, Some(number)) = (is_name(name), read(value)) else { return false };
    if reported.len() >= MOST_ENTRIES && !reported.contains_key(name) {
        return false;
    }
    *place(reported.entry(name).or_default()) = Some(number);
    true
}

fn is_name(text: &str) -> bool {
    (1..=LONGEST_NAME).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic())
}

fn plain(value: &str) -> Option<u64> {
    value.parse().ok()
}

fn capacity(value: &str) -> Option<u64> {
    plain(value).filter(|engines| *engines > 0)
}

fn nanoseconds(value: &str) -> Option<u64> {
    plain(value.strip_suffix("ns")?.trim_end())
}

/// Bytes, or the binary units that the kernel writes.
fn bytes(value: &str) -> Option<u64> {
    let mut words = value.split_ascii_whitespace();
    let number = plain(words.next()?)?;
    let unit = match words.next() {
        None => 1,
        Some("KiB") => 1 << 10,
        Some("MiB") => 1 << 20,
        Some(_) => return None,
    };
    number.checked_mul(unit).filter(|_| words.next().is_none())
}

#[cfg(test)]
#[path = "fdinfo_tests.rs"]
mod tests;
