//! Threads with their messages and samples; plots.

use super::cursor::Cursor;
use super::zones::{Extra, Locations, Timelines, Zone};
use super::{Damage, Strings, TracyFile};
use std::collections::{BTreeMap, BTreeSet};

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// When.
    pub time: i64,
    /// What.
    pub text: String,
    /// Alpha, blue, green, red from the highest byte on.
    pub color: u32,
    /// Whose: the thread's number.
    pub thread: u64,
    /// Index of its call stack; 0 is none.
    pub callstack: u32,
    /// Whether it is the recorder's, and 0 trace, 1 debug, 2 info, 3 warning, 4 error, 5 fatal;
    /// where the layout says so.
    pub importance: Option<(bool, u8)>,
}

/// A stack at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample {
    /// When.
    pub time: i64,
    /// Index of the call stack.
    pub callstack: u32,
}

/// A thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Its number.
    pub id: u64,
    /// Samples of kernel code.
    pub kernel_samples: u64,
    /// Where it is among the others: lower ones first; 0 where the layout does not say.
    pub group_hint: i32,
    /// Its outermost zones.
    pub zones: Vec<Zone>,
    /// Indices of its messages.
    pub messages: Vec<usize>,
    /// Samples of switches: they are among the samples too.
    pub switch_samples: Vec<Sample>,
    /// All samples.
    pub samples: Vec<Sample>,
}

/// A plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Its name.
    pub name: String,
    /// 0 of the user, 2 the CPU usage.
    pub kind: u8,
    /// 0 number, 1 memory, 2 percentage, 3 watt.
    pub format: u8,
    /// Whether a value holds until the next.
    pub steps: bool,
    /// The values.
    pub values: Vec<(i64, f64)>,
}

/// The two tables of threads.
pub(super) struct Tables {
    pub(super) local: Vec<u64>,
    pub(super) external: Vec<u64>,
}

pub(super) fn tables(
    cursor: &mut Cursor<'_>,
    strings: &Strings,
    trace: &mut TracyFile,
) -> Result<Tables, Damage> {
    cursor.section("names of threads");
    for (id, pointer) in cursor.list(16, |cursor| Ok((cursor.u64()?, cursor.u64()?)))? {
        let former = trace.thread_names.insert(id, strings.pointer(cursor, pointer)?);
        cursor.check(former.is_none(), || format!("thread {id} has two names"))?;
    }
    for (id, process, thread) in
        cursor.list(24, |cursor| Ok((cursor.u64()?, cursor.u64()?, cursor.u64()?)))?
    {
        let names = (strings.pointer(cursor, process)?, strings.pointer(cursor, thread)?);
        let former = trace.external_names.insert(id, names);
        cursor.check(former.is_none(), || format!("external thread {id} has two names"))?;
    }
    cursor.section("tables of threads");
    Ok(Tables { local: table(cursor)?, external: table(cursor)? })
}

fn table(cursor: &mut Cursor<'_>) -> Result<Vec<u64>, Damage> {
    let list = cursor.list(8, Cursor::u64)?;
    let set: BTreeSet<u64> = list.iter().copied().collect();
    cursor.check(set.len() == list.len(), || "a thread is there twice".into())?;
    cursor.check(list.len() <= 1 << 16, || format!("{} threads", list.len()))?;
    // The viewer looks for the thread of a switch, which is 0, and would add it.
    cursor.check(list.first() == Some(&0), || format!("{:?} is first", list.first()))?;
    Ok(list)
}

pub(super) fn messages(
    cursor: &mut Cursor<'_>,
    strings: &Strings,
    trace: &mut TracyFile,
) -> Result<BTreeMap<u64, usize>, Damage> {
    cursor.section("messages");
    let mut keys = BTreeMap::new();
    let mut reference = 0;
    for index in 0..cursor.count(32)? {
        let key = cursor.u64()?;
        let before = reference;
        let time = cursor.time(&mut reference)?;
        cursor.check(time >= before, || "messages are out of order".into())?;
        let text = cursor.string_ref()?;
        let text = strings
            .reference(cursor, text)?
            .ok_or_else(|| cursor.damage("a message without words"))?;
        let color = cursor.u32()?;
        let callstack = cursor.int24()?;
        let mut importance = None;
        if cursor.since([0, 13, 2]) {
            let (source, severity) = (cursor.u8()?, cursor.u8()?);
            cursor.check(source <= 1 && severity <= 5, || {
                format!("source {source}, severity {severity}")
            })?;
            importance = Some((source == 1, severity));
        }
        cursor.check(keys.insert(key, index).is_none(), || {
            format!("two messages have the key {key}")
        })?;
        trace.messages.push(Message { time, text, color, thread: u64::MAX, callstack, importance });
    }
    Ok(keys)
}

type Lookups<'a> = (&'a Tables, &'a Locations, &'a [Extra], &'a BTreeMap<u64, usize>);

pub(super) fn threads(
    cursor: &mut Cursor<'_>,
    (tables, locations, extras, keys): Lookups<'_>,
    trace: &mut TracyFile,
) -> Result<(), Damage> {
    cursor.section("threads");
    let (zones, parents) = (cursor.u64()?, cursor.u64()?);
    let mut timelines = Timelines::new(locations, extras);
    let local: BTreeSet<u64> = tables.local.iter().copied().collect();
    for _ in 0..cursor.count(53)? {
        let thread = thread(cursor, &mut timelines, keys)?;
        cursor
            .check(local.contains(&thread.id), || format!("thread {} is not local", thread.id))?;
        for index in &thread.messages {
            let message = &mut trace.messages[*index];
            cursor.check(message.thread == u64::MAX, || "a message is of two threads".into())?;
            message.thread = thread.id;
        }
        trace.threads.push(thread);
    }
    cursor.check((timelines.zones, timelines.parents) == (zones, parents), || {
        format!("{zones} zones, {parents} with others inside were told, and there are others")
    })?;
    timelines.check_counts(cursor)?;
    let mut ids = BTreeSet::new();
    cursor.check(trace.threads.iter().all(|thread| ids.insert(thread.id)), || {
        "a thread is there twice".into()
    })?;
    // The viewer leaves the thread of such a message as the memory was.
    let orphans = trace.messages.iter().filter(|message| message.thread == u64::MAX).count();
    cursor.check(orphans == 0, || format!("{orphans} messages are of no thread"))
}

fn thread(
    cursor: &mut Cursor<'_>,
    timelines: &mut Timelines<'_>,
    keys: &BTreeMap<u64, usize>,
) -> Result<Thread, Damage> {
    let (id, count, kernel_samples) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
    let fiber = cursor.u8()?;
    cursor.check(fiber == 0, || "a fiber".into())?;
    let group_hint = if cursor.since([0, 11, 1]) { cursor.i32()? } else { 0 };
    let before = timelines.zones;
    let zones = timelines.read(cursor, &mut 0, 0)?;
    cursor.check(timelines.zones - before == count, || {
        format!("thread {id} is said to have {count} zones")
    })?;
    let messages = cursor.list(8, |cursor| {
        let key = cursor.u64()?;
        keys.get(&key)
            .copied()
            .ok_or_else(|| cursor.damage(format!("no message has the key {key}")))
    })?;
    let [switch_samples, samples] = [samples(cursor)?, samples(cursor)?];
    let all: BTreeSet<&Sample> = samples.iter().collect();
    cursor.check(switch_samples.iter().all(|sample| all.contains(sample)), || {
        "a sample of a switch is not among the samples".into()
    })?;
    cursor.check(kernel_samples <= samples.len() as u64, || {
        format!("{kernel_samples} samples of the kernel")
    })?;
    Ok(Thread { id, kernel_samples, group_hint, zones, messages, switch_samples, samples })
}

fn samples(cursor: &mut Cursor<'_>) -> Result<Vec<Sample>, Damage> {
    let mut reference = 0;
    cursor.list(11, |cursor| {
        let before = reference;
        let time = cursor.time(&mut reference)?;
        cursor.check(time > 0 && time >= before, || {
            format!("a sample at {time} after one at {before}")
        })?;
        Ok(Sample { time, callstack: cursor.int24()? })
    })
}

pub(super) fn plots(
    cursor: &mut Cursor<'_>,
    strings: &Strings,
    trace: &mut TracyFile,
) -> Result<(), Damage> {
    cursor.section("plots");
    trace.plots = cursor.list(48, |cursor| {
        let [kind, format, steps, fill] = [cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?];
        cursor.check(kind <= 3 && format <= 3 && steps <= 1 && fill <= 1, || {
            "an unknown kind".into()
        })?;
        cursor.u32()?; // colour
        let name = cursor.u64()?;
        let name = strings.id(cursor, name)?;
        let sums = [cursor.f64()?, cursor.f64()?, cursor.f64()?];
        let mut reference = 0;
        let values = cursor.list(16, |cursor| Ok((cursor.time(&mut reference)?, cursor.f64()?)))?;
        cursor.check(values.is_sorted_by_key(|(time, _)| *time), || {
            "values are out of order".into()
        })?;
        let numbers = values.iter().map(|(_, value)| *value);
        let min = numbers.clone().fold(f64::INFINITY, f64::min);
        let max = numbers.clone().fold(f64::NEG_INFINITY, f64::max);
        cursor
            .check(sums == [min, max, numbers.sum()], || format!("{sums:?} are the wrong sums"))?;
        Ok(Plot { name, kind, format, steps: steps == 1, values })
    })?;
    Ok(())
}
