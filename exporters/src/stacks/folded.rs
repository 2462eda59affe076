//! Folded stacks: a line for each stack, `process;outermost;...;innermost COUNT`.

use super::totals::{StackTotal, StackTotals};
use super::{StackKind, StackOptions};
use crate::ExportError;
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use syscollect_model::{
    Event, Exporter, FrameId, Loss, ProcessId, RecorderSummary, StackId, Tables, Time,
    is_unprintable,
};

/// The lines of a session, counted while it is played.
pub(super) struct Folding {
    kind: StackKind,
    totals: StackTotals,
    pub(super) lines: Vec<String>,
    has_stacks: bool,
}

impl Folding {
    pub(super) fn new(options: StackOptions) -> Self {
        let StackOptions { kind, process, idle } = options;
        let totals =
            if idle { StackTotals::new(process) } else { StackTotals::without_idle(process) };
        Self { kind, totals, lines: Vec::new(), has_stacks: false }
    }

    #[inline]
    pub(super) fn event(&mut self, time: Time, event: &Event, tables: &Tables) {
        self.totals.event(time, event, tables);
    }

    /// Makes the lines, sorted, threads of a process together, and processes of one name too.
    pub(super) fn end(&mut self, tables: &Tables) {
        let mut by_process: BTreeMap<(ProcessId, Option<StackId>), u64> = BTreeMap::new();
        for ((thread, stack), total) in self.totals.finish(tables) {
            let count = self.count(&total);
            *by_process.entry((tables.thread(thread).process, stack)).or_default() += count;
        }
        let mut lines: BTreeMap<String, u64> = BTreeMap::new();
        for ((process, stack), count) in by_process {
            let count = match self.kind {
                StackKind::OffCpu => count / 1000,
                StackKind::OnCpu | StackKind::Wakers | StackKind::Probes => count,
            };
            if count > 0 {
                self.has_stacks |= stack.is_some();
                *lines.entry(line(process, stack, tables)).or_default() += count;
            }
        }
        self.lines = lines.into_iter().map(|(stack, count)| format!("{stack} {count}")).collect();
    }

    /// Whether none of the lines has a stack: they say how often, or how long, and not where.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_stacks
    }

    /// Nanoseconds off the CPU, so that short stays of several threads add up before they are cut.
    fn count(&self, total: &StackTotal) -> u64 {
        match self.kind {
            StackKind::OnCpu => total.samples,
            StackKind::OffCpu => total.off_cpu_ns,
            StackKind::Wakers => total.wakeups,
            StackKind::Probes => total.hits,
        }
    }
}

fn line(process: ProcessId, stack: Option<StackId>, tables: &Tables) -> String {
    let mut line = clean(&tables.process_name(process));
    match stack {
        None => line.push_str(";[no stack]"),
        Some(id) => {
            for frame in tables.stack(id).iter().rev() {
                line.push(';');
                line.push_str(&frame_name(*frame, tables));
            }
        }
    }
    line
}

/// The suffixes are those that flame graph tools colour by.
fn frame_name(id: FrameId, tables: &Tables) -> String {
    let frame = tables.frame(id);
    let kernel = frame
        .module
        .map_or(frame.offset >> 63 == 1, |module| tables.module(module).kind.is_kernel());
    let mut name = clean(&tables.frame_label(id));
    if frame.inlined {
        name.push_str("_[i]");
    } else if kernel {
        name.push_str("_[k]");
    }
    name
}

/// `;` separates frames, and a line is a stack. What turns a line around, or shows nothing, is
/// escaped.
fn clean(name: &str) -> String {
    let mut clean = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            ';' => clean.push(':'),
            _ if c.is_control() => clean.push(' '),
            _ if is_unprintable(c) => clean.extend(c.escape_default()),
            _ => clean.push(c),
        }
    }
    clean
}

/// Writes the session's stacks folded, one line each.
///
/// ```
/// use syscollect_exporters::{FoldedExporter, StackOptions};
/// use syscollect_model::{CpuId, Event, Exporter, Sample, Tables, Time};
///
/// let tables = Tables::default();
/// let options = StackOptions { idle: true, ..StackOptions::default() };
/// let mut exporter = FoldedExporter::new(Vec::new(), options);
/// exporter.begin(&tables)?;
/// let (cpu, thread) = (CpuId::new(0), Tables::IDLE_THREAD);
/// let sample = Sample { cpu, thread, stack: None, in_kernel: true };
/// exporter.event(Time(1), &Event::Sample(sample), &tables)?;
/// exporter.end(&[], None, &tables)?;
/// assert_eq!(exporter.finish()?, b"swapper;[no stack] 1\n");
/// # Ok::<(), syscollect_exporters::ExportError>(())
/// ```
pub struct FoldedExporter<W> {
    out: W,
    folding: Folding,
}

impl<W: Write> FoldedExporter<W> {
    /// A writer to `out`, which gets large pieces and needs no buffer.
    pub fn new(out: W, options: StackOptions) -> Self {
        Self { out, folding: Folding::new(options) }
    }

    /// Whether the session, which has ended, had no such stack: what is written is valid, and says
    /// nothing of where.
    pub fn is_empty(&self) -> bool {
        self.folding.is_empty()
    }

    /// Writes the lines and gives the output back.
    ///
    /// # Errors
    ///
    /// [`ExportError::Write`] when the output refuses bytes.
    pub fn finish(self) -> Result<W, ExportError> {
        let mut out = BufWriter::with_capacity(1 << 16, self.out);
        for line in &self.folding.lines {
            writeln!(out, "{line}")?;
        }
        out.flush()?;
        Ok(out.into_inner().map_err(std::io::IntoInnerError::into_error)?)
    }
}

impl<W: Write> Exporter for FoldedExporter<W> {
    type Error = ExportError;

    #[inline]
    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), ExportError> {
        self.folding.event(time, event, tables);
        Ok(())
    }

    fn end(
        &mut self,
        _: &[Loss],
        _: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Result<(), ExportError> {
        self.folding.end(tables);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_frame_and_reads_as_it_is_written() {
        assert_eq!(clean("a;b\n\u{1b}[2Jc"), "a:b  [2Jc");
        assert_eq!(clean("safe\u{202e}evil"), "safe\\u{202e}evil");
        assert_eq!(clean("größer::<T>()"), "größer::<T>()");
    }
}
