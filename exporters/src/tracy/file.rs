//! The file from its first byte to its last, in the order that the format wants.

use super::code::Code;
use super::collected::Collected;
use super::gpu;
use super::header::{self, TraceSpan};
use super::locks;
use super::memory;
use super::messages::{self, Crash};
use super::options::TracyLayout;
use super::plots;
use super::rows::{Rows, Sample};
use super::sched;
use super::strings::{FileStrings, pointer};
use super::threads::Threads;
use super::wire::Payload;
use std::collections::BTreeSet;
use std::io::{self, Write};
use syscollect_model::Tables;

/// What the file is made of.
pub(crate) struct Contents<'a> {
    pub(super) collected: &'a mut Collected,
    pub(crate) span: TraceSpan,
    pub(crate) code: &'a mut Code,
    pub(crate) crash: Option<Crash>,
    pub(crate) notes: Vec<u32>,
    /// The load of all CPUs, a plot.
    pub(crate) usage: Vec<(i64, f64)>,
}

/// Writes everything.
pub(crate) fn write<W: Write>(
    out: &mut Payload<W>,
    contents: Contents<'_>,
    tables: &Tables,
) -> io::Result<()> {
    let Contents { collected, span, code, crash, notes, usage } = contents;
    let Collected { session, rows, cpus, strings, plots, slices, locks, memory, gpus, .. } =
        collected;
    // All strings come first: they stand before what points to them.
    let threads = Threads::new(rows, strings, tables);
    let plots = plots.named(&usage, strings, tables);
    let frames = slices.frames.named(strings, tables);
    let locks = locks.named(&mut slices.shared.locations, strings, tables);
    let callstacks = name_stacks(rows, code, strings, tables);
    let of_messages = messages::callstacks(rows, code, strings, tables);
    let of_zones = slices.shared.callstacks(code, strings, tables);
    let pools = memory.named(code, strings, tables);
    let gpus = gpus.named(strings, tables);
    let mut pointers: BTreeSet<u32> =
        plots.iter().map(plots::Plot::name).chain(frames.names()).collect();
    pointers.extend(pools.iter().filter_map(|pool| pool.name).chain(crash.map(|crash| crash.text)));

    header::write(out, session, &TraceSpan { first_frame: frames.offset(), ..span })?;
    messages::write_crash(out, crash, &threads)?;
    frames.write(out)?;
    if out.layout >= TracyLayout::V0_14 {
        [0; 2].into_iter().try_for_each(|none| out.count(none))?; // sections, their descriptions
    }
    write_strings(out, strings, &pointers)?;
    threads.write(out)?;
    slices.shared.locations.write(out)?;
    locks::write(out, &locks, &threads)?;
    messages::write(out, rows, &of_messages)?;
    slices.shared.write_extras(out, &of_zones)?;
    timelines(out, rows, &threads, &callstacks)?;
    gpu::write(out, &gpus, &threads)?;
    plots::write(out, &plots)?;
    memory::write(out, &pools, &threads)?;
    write_code(out, code)?;
    out.count(notes.len())?;
    notes.iter().try_for_each(|note| out.string_ref(Some(*note)))?;
    frames.write_images(out)?;
    cpus.write(out, rows, &threads)?;
    threads.write_processes(out, rows, tables)?;
    sched::write_totals(out, rows, &threads)?;
    symbols(out, code)?;
    // Code of symbols, code to symbols, hardware samples, source files.
    [0; 4].into_iter().try_for_each(|none| out.count(none))
}

fn write_strings<W: Write>(
    out: &mut Payload<W>,
    strings: &FileStrings,
    pointers: &BTreeSet<u32>,
) -> io::Result<()> {
    out.count(strings.rows().len())?;
    for (text, index) in strings.rows().iter().zip(0..) {
        out.u64(pointer(index))?;
        out.text(text)?;
    }
    // Names of plots, frame sets and pools, and the words of the crash, are looked up by pointer.
    out.count(pointers.len())?;
    for text in pointers {
        out.u64(pointer(*text))?;
        out.u64(pointer(*text))?;
    }
    Ok(())
}

/// The call stack of each sample, in the order of rows and samples.
fn name_stacks(
    rows: &Rows,
    code: &mut Code,
    strings: &mut FileStrings,
    tables: &Tables,
) -> Vec<u32> {
    let samples = rows.all().iter().flat_map(|row| &row.samples);
    samples.map(|sample| code.callstack(sample.stack(), strings, tables)).collect()
}

fn timelines<W: Write>(
    out: &mut Payload<W>,
    rows: &Rows,
    threads: &Threads,
    callstacks: &[u32],
) -> io::Result<()> {
    out.count(rows.all().iter().map(|row| row.zones.len()).sum())?;
    out.count(rows.all().iter().map(|row| row.zones.parents()).sum())?;
    out.count(rows.all().len())?;
    let (mut rest, mut message) = (callstacks, 0..);
    for (row, thread) in threads.of_rows(rows) {
        let (callstacks, next) = rest.split_at(row.samples.len());
        rest = next;
        out.u64(thread.number)?;
        out.count(row.zones.len())?;
        out.count(row.samples.iter().filter(|sample| sample.kernel).count())?;
        out.u8(0)?; // no fiber
        if out.layout >= TracyLayout::V0_13 {
            out.bytes(&thread.group_hint.to_le_bytes())?;
        }
        row.zones.write(out)?;
        out.count(row.messages.len())?;
        for index in message.by_ref().take(row.messages.len()) {
            out.u64(messages::key(index))?;
        }
        let samples = place_samples(&row.samples, callstacks);
        let of_switches = samples.iter().filter(|(.., off_cpu)| *off_cpu);
        write_samples(out, of_switches.clone().count(), of_switches)?;
        write_samples(out, samples.len(), samples.iter())?;
    }
    Ok(())
}

/// Samples as the file has them: time, call stack, whether it is of a switch.
///
/// The viewer tells the two kinds apart by their times, so a sample of a CPU in
/// the nanosecond of a switch is moved by one, before the switch if there is room.
fn place_samples(samples: &[Sample], callstacks: &[u32]) -> Vec<(i64, u32, bool)> {
    let placed =
        samples.iter().zip(callstacks).map(|(sample, stack)| (sample.time, *stack, sample.off_cpu));
    let mut placed: Vec<_> = placed.collect();
    if placed.windows(2).any(|two| two[0].0 == two[1].0 && two[0].2 != two[1].2) {
        let taken: Vec<i64> =
            samples.iter().filter(|sample| sample.off_cpu).map(|sample| sample.time).collect();
        let is_free = |time: &i64| taken.binary_search(time).is_err();
        for (time, ..) in placed.iter_mut().filter(|(time, _, off_cpu)| !off_cpu && !is_free(time))
        {
            let before = (1..*time).rev().take(4).find(&is_free);
            *time = before.or_else(|| (*time + 1..).find(&is_free)).unwrap_or(*time);
        }
        placed.sort_by_key(|(time, ..)| *time);
    }
    placed
}

fn write_samples<'a, W: Write>(
    out: &mut Payload<W>,
    count: usize,
    samples: impl Iterator<Item = &'a (i64, u32, bool)>,
) -> io::Result<()> {
    out.count(count)?;
    let mut reference = 0;
    for (time, callstack, _) in samples {
        out.i64(*time - reference)?;
        out.int24(*callstack)?;
        reference = *time;
    }
    Ok(())
}

fn write_code<W: Write>(out: &mut Payload<W>, code: &Code) -> io::Result<()> {
    out.count(code.callstacks().len())?;
    for frames in code.callstacks() {
        out.u16(frames.len() as u16)?;
        for id in frames {
            out.u64(id)?;
        }
    }
    out.count(code.frames().len())?;
    for frame in code.frames() {
        out.u64(frame.id)?;
        out.u8(frame.lines.len() as u8)?;
        out.string_index(frame.image)?;
        for line in &frame.lines {
            out.string_index(line.name)?;
            out.string_index(line.file)?;
            out.u32(line.line)?;
            out.u64(line.symbol)?;
        }
    }
    Ok(())
}

fn symbols<W: Write>(out: &mut Payload<W>, code: &Code) -> io::Result<()> {
    let inlined = code.symbols().iter().filter(|symbol| symbol.call.is_some()).count();
    out.count(code.symbols().len() - inlined)?;
    out.count(inlined)?;
    out.count(code.symbols().len())?;
    for symbol in code.symbols() {
        out.u64(symbol.address)?;
        out.string_index(symbol.name)?;
        out.string_index(symbol.file)?;
        out.u32(symbol.line)?;
        out.string_index(symbol.image)?;
        match symbol.call {
            Some((file, line)) => {
                out.string_index(file)?;
                out.u32(line)?;
                out.u8(1)?;
            }
            None => out.bytes(&[0; 8])?,
        }
        out.int24(symbol.size)?;
    }
    Ok(())
}
