//! Methods that .NET compiled as the program ran: names of code that lies in no image.
//!
//! The runtime tells each method when it has compiled it, and at the beginning or at the end of
//! a recording those that are there. The methods of all processes are laid out one
//! behind the other, in the order in which they are told, as if they were one image:
//! so two that had the same address, in two processes or at two times, are two.

use super::clr_stacks::RUNTIME;
use super::images::KERNEL_HALF;
use crate::payload::reader::Reader;
use crate::{Guid, Record};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// `Microsoft-Windows-DotNETRuntimeRundown`.
const RUNDOWN: Guid = Guid::from_u128(0xa669021c_c450_4609_a035_5af59af4df18);
/// `MethodLoadVerbose`, and `MethodDCStartVerbose` of a rundown.
const LOAD: u16 = 143;
/// `MethodDCEndVerbose` of a rundown.
const THERE_AT_END: u16 = 144;
/// Methods that are kept.
const MOST_METHODS: usize = 1 << 20;
/// Bytes of their names.
const MOST_BYTES: usize = 64 << 20;
/// Characters of a class's name, and of a method's.
const LONGEST_NAME: usize = 512;
/// Starts of methods before an address at which one is looked for that reaches the address.
const MOST_STARTS: usize = 256;
/// Where the first of all methods is laid out: zero would mean that the start of a function is not
/// known.
const FIRST: u64 = 0x1000;

/// What a record says of a method.
#[derive(Clone, Debug)]
pub(super) struct MethodRecord {
    at: u64,
    pid: u32,
    id: u64,
    start: u64,
    size: u32,
    /// It is there: compiled at an earlier time.
    is_rundown: bool,
    name: Box<str>,
}

/// What records say of methods, in order of time.
#[derive(Debug, Default)]
pub(super) struct MethodRecords {
    records: Vec<MethodRecord>,
    bytes: usize,
}

/// Whether an event of a provider tells of a method.
#[inline]
pub(super) fn is_method(provider: &Guid, id: u16) -> bool {
    match id {
        LOAD => *provider == RUNTIME || *provider == RUNDOWN,
        THERE_AT_END => *provider == RUNDOWN,
        _ => false,
    }
}

impl MethodRecords {
    /// Takes such an event; one that is cut off, and those beyond the limits, are left out.
    #[cold]
    pub(super) fn learn(&mut self, record: &Record<'_>, provider: &Guid) {
        if self.records.len() >= MOST_METHODS || self.bytes >= MOST_BYTES {
            return;
        }
        if let Some(method) = parse(record, *provider == RUNDOWN) {
            self.bytes += method.name.len();
            self.records.push(method);
        }
    }
}

fn parse(record: &Record<'_>, is_rundown: bool) -> Option<MethodRecord> {
    let pid = record.task?.pid;
    let mut reader = Reader::new(record.payload, record.is_64_bit);
    let (id, _module, start, size) = (reader.u64()?, reader.u64()?, reader.u64()?, reader.u32()?);
    let (_token, _flags) = (reader.u32()?, reader.u32()?);
    let is_code = size > 0 && start > 0 && start < KERNEL_HALF;
    let mut name: String = reader.utf16().characters().take(LONGEST_NAME).collect();
    let method = reader.utf16();
    if !is_code || method.is_empty() {
        return None;
    }
    if !name.is_empty() {
        name.push('.');
    }
    name.extend(method.characters().take(LONGEST_NAME));
    Some(MethodRecord { at: record.timestamp, pid, id, start, size, is_rundown, name: name.into() })
}

/// A method in memory.
#[derive(Debug)]
pub(super) struct Method {
    id: u64,
    start: u64,
    pub(super) size: u64,
    /// Raw time since which it was there; 0 where nothing tells it.
    since: u64,
    /// Where it is laid out.
    pub(super) offset: u64,
    pub(super) name: Box<str>,
}

/// All methods: which lay where, in whose memory, and since when.
#[derive(Debug, Default)]
pub(super) struct Methods {
    all: Vec<Method>,
    processes: FxHashMap<u32, Process>,
}

/// What all processes of one id had.
#[derive(Debug, Default)]
struct Process {
    /// Raw times at which they ended, ascending.
    ends: Vec<u64>,
    /// Raw times since which an address may have another name, ascending.
    changes: Vec<u64>,
    /// Methods by process, in order of time.
    layouts: Vec<Layout>,
}

/// The methods of one process.
#[derive(Debug, Default)]
struct Layout {
    /// Rows, by start and then by time.
    rows: Vec<u32>,
    /// The farthest end of each row and those before it.
    reach: Vec<u64>,
}

impl Methods {
    /// Takes all records about methods, and when processes of an id ended (pid, raw time).
    pub(super) fn new(reported: MethodRecords, ends: &[(u32, u64)]) -> Self {
        let mut methods = Self::default();
        reported.records.iter().for_each(|record| {
            methods.processes.entry(record.pid).or_default();
        });
        for (pid, at) in ends {
            if let Some(process) = methods.processes.get_mut(pid) {
                process.ends.push(*at);
            }
        }
        methods.processes.values_mut().for_each(|process| process.ends.sort_unstable());
        let (mut newest, mut next) = (FxHashMap::default(), FIRST);
        for record in reported.records {
            methods.apply(record, &mut newest, &mut next);
        }
        let Self { all, processes } = &mut methods;
        processes.values_mut().for_each(|process| process.seal(all));
        methods
    }

    /// `newest` has the last method at each start of a process, `next` is where the next one is
    /// laid out.
    fn apply(
        &mut self,
        reported: MethodRecord,
        newest: &mut FxHashMap<(u32, usize, u64), u32>,
        next: &mut u64,
    ) {
        let MethodRecord { at, pid, id, start, size, is_rundown, name } = reported;
        let size = u64::from(size);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let number = process.number_at(at);
        let before = newest.get(&(pid, number, start)).map(|row| &self.all[*row as usize]);
        if is_rundown && before.is_some_and(|method| (method.id, method.size) == (id, size)) {
            return;
        }
        let since = if is_rundown && before.is_none() { 0 } else { at };
        let row = self.all.len() as u32;
        self.all.push(Method { id, start, size, since, offset: *next, name });
        *next += size;
        newest.insert((pid, number, start), row);
        if process.layouts.len() <= number {
            process.layouts.resize_with(number + 1, Layout::default);
        }
        process.layouts[number].rows.push(row);
    }

    /// Where the address of a process is laid out, if it lies in a method: in
    /// the newest that was there at raw time `at`, or in the first of all after it.
    pub(super) fn find(&self, pid: u32, at: u64, address: u64) -> Option<u64> {
        let process = self.processes.get(&pid)?;
        let method = process.layouts.get(process.number_at(at))?.find(&self.all, at, address)?;
        Some(method.offset + (address - method.start))
    }

    /// The method that is laid out at an offset which [`Self::find`] gave.
    pub(super) fn at_offset(&self, offset: u64) -> Option<&Method> {
        let before = self.all.partition_point(|method| method.offset <= offset);
        self.all.get(before.checked_sub(1)?)
    }

    /// A number that grows whenever an address of the process gets another name.
    #[inline]
    pub(super) fn epoch(&self, pid: u32, at: u64) -> u32 {
        self.processes
            .get(&pid)
            .map_or(0, |process| process.changes.partition_point(|change| *change <= at) as u32)
    }
}

impl Process {
    /// Which process of the id it was: the number of those that had ended.
    fn number_at(&self, at: u64) -> usize {
        self.ends.partition_point(|end| *end < at)
    }

    fn seal(&mut self, all: &[Method]) {
        let ends = self.ends.iter().map(|end| end.saturating_add(1));
        self.changes = ends.collect();
        for layout in &mut self.layouts {
            layout.seal(all);
            self.changes.extend(layout.changes(all));
        }
        self.changes.sort_unstable();
        self.changes.dedup();
    }
}

impl Layout {
    fn seal(&mut self, all: &[Method]) {
        self.rows.sort_by_key(|row| (all[*row as usize].start, all[*row as usize].since));
        let methods = self.rows.iter().map(|row| &all[*row as usize]);
        let ends = methods.map(|method| method.start.saturating_add(method.size));
        let farthest = ends.scan(0, |farthest: &mut u64, end| {
            *farthest = end.max(*farthest);
            Some(*farthest)
        });
        self.reach = farthest.collect();
    }

    /// Since when methods were there that share addresses with another.
    fn changes<'a>(&'a self, all: &'a [Method]) -> impl Iterator<Item = u64> + 'a {
        self.rows.iter().enumerate().filter_map(move |(index, row)| {
            let this = &all[*row as usize];
            let next = self.rows.get(index + 1).map(|row| &all[*row as usize]);
            let is_before = next.is_some_and(|next| next.start - this.start < this.size);
            let is_behind = index > 0 && self.reach[index - 1] > this.start;
            (is_before || is_behind).then_some(this.since)
        })
    }

    fn find<'a>(&self, all: &'a [Method], at: u64, address: u64) -> Option<&'a Method> {
        let mut end = self.rows.partition_point(|row| all[*row as usize].start <= address);
        let mut best: Option<&Method> = None;
        for _ in 0..MOST_STARTS {
            if end == 0 || self.reach[end - 1] <= address {
                break;
            }
            let start = all[self.rows[end - 1] as usize].start;
            let first = self.rows[..end].partition_point(|row| all[*row as usize].start < start);
            let there = newest(all, &self.rows, first..end, at);
            if address - start < there.size
                && best.is_none_or(|best| rank(there, at) > rank(best, at))
            {
                best = Some(there);
            }
            end = first;
        }
        best
    }
}

/// Of methods that begin at one address, by time: the last before `at`, or the first after it.
fn newest<'a>(all: &'a [Method], rows: &[u32], range: Range<usize>, at: u64) -> &'a Method {
    let before = rows[range.clone()].partition_point(|row| all[*row as usize].since <= at);
    &all[rows[range.start + before.saturating_sub(1)] as usize]
}

/// Higher for those that were there, and of them for newer ones; of the others for earlier ones.
fn rank(method: &Method, at: u64) -> (bool, u64) {
    if method.since <= at { (true, method.since) } else { (false, u64::MAX - method.since) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn record(at: u64, pid: u32, start: u64, name: &str) -> MethodRecord {
        let id = u64::from(name.as_bytes()[0]);
        MethodRecord { at, pid, id, start, size: 0x100, is_rundown: false, name: name.into() }
    }

    fn methods(records: Vec<MethodRecord>, ends: &[(u32, u64)]) -> Methods {
        Methods::new(MethodRecords { records, bytes: 0 }, ends)
    }

    fn name(methods: &Methods, pid: u32, at: u64, address: u64) -> Option<&str> {
        let method = methods.at_offset(methods.find(pid, at, address)?)?;
        Some(&method.name)
    }

    #[test]
    fn an_address_has_the_name_of_its_process() {
        let methods = methods(vec![record(5, 7, 0x1000, "a"), record(6, 8, 0x1080, "b")], &[]);
        let names = [(7, 0xfff), (7, 0x1000), (7, 0x10ff), (7, 0x1100), (8, 0x10ff), (9, 0x10ff)]
            .map(|(pid, address)| name(&methods, pid, 10, address));
        assert_eq!(names, [None, Some("a"), Some("a"), None, Some("b"), None]);
    }

    #[test]
    fn memory_that_is_used_again_has_the_name_of_its_time() {
        let there = MethodRecord { is_rundown: true, ..record(90, 7, 0x1000, "second") };
        let records = vec![
            record(10, 7, 0x1000, "first"),
            record(12, 7, 0x3000, "other"),
            record(20, 7, 0x1080, "within"),
            record(30, 7, 0x1000, "second"),
            there,
        ];
        let methods = methods(records, &[]);
        let names = [5, 10, 19, 20, 30, 99].map(|at| name(&methods, 7, at, 0x1090));
        let first = Some("first");
        assert_eq!(names, [first, first, first, Some("within"), Some("second"), Some("second")]);
        let epochs = [9, 10, 12, 20, 30, 99].map(|at| methods.epoch(7, at));
        assert_eq!(epochs, [0, 1, 1, 2, 3, 3], "what shares no address changes nothing");
    }

    #[test]
    fn what_is_told_at_the_end_was_there_but_not_in_the_process_before() {
        let there = MethodRecord { is_rundown: true, ..record(90, 7, 0x1000, "there") };
        let methods = methods(vec![there], &[(7, 40)]);
        assert_eq!(
            [0, 40, 41, 99].map(|at| name(&methods, 7, at, 0x1000)),
            [None, None, Some("there"), Some("there")]
        );
        assert!(methods.epoch(7, 40) < methods.epoch(7, 41));
    }

    proptest! {
        /// Answers are remembered by epoch.
        #[test]
        fn while_the_epoch_is_the_same_an_address_has_the_same_name(
            mut reported in vec((0..60_u64, 0..2_u32, 1..32_u64, 1..24_u32, any::<bool>()), 0..24),
            ends in vec((0..2_u32, 0..60_u64), 0..3),
        ) {
            reported.sort_by_key(|reported| reported.0);
            let records = reported.into_iter().map(|(at, pid, start, size, is_rundown)| MethodRecord {
                size,
                is_rundown,
                ..record(at, pid, start, "m")
            });
            let methods = methods(records.collect(), &ends);
            for (pid, at, address) in (0..2)
                .flat_map(|pid| (1..70).map(move |at| (pid, at)))
                .flat_map(|(pid, at)| (0..60).map(move |address| (pid, at, address)))
            {
                let found = methods.find(pid, at, address);
                if methods.epoch(pid, at) == methods.epoch(pid, at - 1) {
                    prop_assert_eq!(found, methods.find(pid, at - 1, address));
                }
                let method = found.and_then(|offset| Some((offset, methods.at_offset(offset)?)));
                if let Some((offset, method)) = method {
                    prop_assert_eq!(offset - method.offset, address - method.start);
                    prop_assert!(address - method.start < method.size);
                }
            }
        }
    }
}
