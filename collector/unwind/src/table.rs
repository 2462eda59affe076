//! Rows of pages, made of a file's unwind information and, where that says nothing, of its code.

use crate::UnwindRow;
use crate::code::{BareCode, CODE_AROUND, LINKED_CODE_AROUND, linked_rules, moving, rules};
use crate::fde::FdeReader;
use crate::file::{Layout, Source};
use crate::frames::{FrameFormat, Frames, debug_frame, eh_frame, enters_haskell};
use crate::haskell;
use crate::index::FdePosition;
use crate::program::{Damaged, Program};
use crate::rule::{Rule, Slice};
use crate::run::Run;
use crate::writer::PageWriter;
use gimli::{FrameDescriptionEntry, UnwindSection};
use std::ops::Range;
use std::sync::OnceLock;
use syscollect_elf::LoadedPart;
use syscollect_records::unwind::PAGE_BYTES;

/// Shorter gaps between functions are padding, in which nothing runs: what holds before goes on,
/// which saves two rows for each function.
const PADDING_MAX: u64 = 16;
/// Bytes of FDEs and CIEs that are evaluated for a page at most, which takes up to 25 ms; of
/// ordinary code a page has 10,000, of the densest 60,000.
const WORK_OF_PAGE: usize = 512 << 10;
/// What each entry counts for besides, though it may lead to nothing that can be used.
const WORK_OF_ENTRY: usize = 64;

/// Tables of the pages that `writer` wants.
pub(crate) fn pages(
    frames: &Frames,
    code: Option<CodeReader<'_>>,
    writer: PageWriter,
) -> Vec<(u32, Vec<UnwindRow>)> {
    match frames.format {
        FrameFormat::EhFrame => {
            Builder::new(frames, eh_frame(&frames.bytes), code, writer).build(frames)
        }
        FrameFormat::DebugFrame => {
            Builder::new(frames, debug_frame(&frames.bytes), code, writer).build(frames)
        }
    }
}

/// Bytes of functions with one rule that are looked into. Nearly all shorter ones are a compiler's,
/// whose rules are true, and to look into each would take as long as all else.
const HAND_WRITTEN: Range<u64> = 4096..128 << 10;

/// Reads code of which nothing else is known, or little that is true.
#[derive(Clone, Copy)]
pub(crate) struct CodeReader<'a> {
    pub(crate) source: &'a Source,
    pub(crate) layout: &'a Layout,
    /// Whether it is of a program that enters Haskell, once that is known.
    pub(crate) enters_haskell: &'a OnceLock<bool>,
}

/// Less code than this, bytes, is not what GHC has compiled.
const HASKELL_MIN: u64 = 4096;

impl CodeReader<'_> {
    /// Where the code at these addresses of a segment, of which all of `said` is said, moves its
    /// stack pointer all the same, and what holds there.
    fn moving_rules(
        &self,
        segment: LoadedPart,
        addresses: &Range<u64>,
        said: Rule,
    ) -> Vec<(u64, Rule)> {
        let size = addresses.end - addresses.start;
        let offset = addresses.start - segment.address + segment.offset;
        let part = LoadedPart::new(addresses.start, offset, size);
        let bytes = part.and_then(|part| self.source.read(part).ok());
        bytes.map_or_else(Vec::new, |bytes| moving::rules(&bytes, addresses.start, said))
    }

    /// Rules of the code at these addresses of a segment, a part of what has no unwind information.
    /// What cannot be read has none.
    fn rules(
        &self,
        segment: LoadedPart,
        wanted: &Range<u64>,
        without_information: &Range<u64>,
    ) -> Vec<(u64, Rule)> {
        let bytes_around = |around: u64| {
            let start = without_information.start.max(wanted.start.saturating_sub(around));
            let end = without_information.end.min(wanted.end.saturating_add(around));
            let offset = start - segment.address + segment.offset;
            let part = LoadedPart::new(start, offset, end - start)?;
            Some((self.source.read(part).ok()?, start))
        };
        // Such code has no returns by which anything could be known of it.
        let is_large = without_information.end - without_information.start >= HASKELL_MIN;
        let enters = || enters_haskell(self.source, self.layout);
        if is_large && *self.enters_haskell.get_or_init(enters) {
            let bytes = bytes_around(0);
            return bytes.map_or_else(Vec::new, |(bytes, start)| haskell::rules(&bytes, start));
        }
        let code = BareCode {
            bytes: &[],
            address: 0,
            without_information: without_information.clone(),
            entry: self.layout.entry,
        };
        // Where functions keep frame pointers, a look at less says as much.
        if let Some((bytes, address)) = bytes_around(LINKED_CODE_AROUND)
            && let Some(rules) = linked_rules(&BareCode { bytes: &bytes, address, ..code.clone() })
        {
            return rules;
        }
        let Some((bytes, address)) = bytes_around(CODE_AROUND) else { return Vec::new() };
        rules(&BareCode { bytes: &bytes, address, ..code })
    }
}

struct Builder<'a, S> {
    fdes: FdeReader<'a, S>,
    /// `None` where rules are not read from code.
    code: Option<CodeReader<'a>>,
    writer: PageWriter,
    /// Bytes that may still be evaluated.
    work_left: usize,
}

impl<'a, S: UnwindSection<Slice<'a>>> Builder<'a, S> {
    fn new(
        frames: &'a Frames,
        section: S,
        code: Option<CodeReader<'a>>,
        writer: PageWriter,
    ) -> Self {
        let fdes = FdeReader::new(&frames.bytes, section, &frames.bases);
        Self { fdes, code, writer, work_left: 0 }
    }

    fn build(mut self, frames: &Frames) -> Vec<(u32, Vec<UnwindRow>)> {
        for (run, entries) in &frames.runs {
            self.work_left = run.pages().saturating_mul(WORK_OF_PAGE);
            self.add_run(run, entries);
        }
        self.writer.finish()
    }

    /// Adds the rows of a run. Each entry decides from its beginning to that of the next, so that a
    /// page's rows do not depend on which other pages are wanted.
    fn add_run(&mut self, run: &Run, entries: &[FdePosition]) {
        let ends = entries.iter().skip(1).map(|next| next.address).chain([u64::MAX]);
        // The last one only ends the one before.
        let last = run.addresses().end;
        let first = entries.first().map_or(u64::MAX, |entry| entry.address);
        if first > run.addresses().start {
            self.add_bare_code(0..first, run);
        }
        for (entry, end) in entries.iter().zip(ends).take_while(|(entry, _)| entry.address < last) {
            self.add_entry(entry.offset, entry.address..end, run);
        }
        self.writer.end(run.offsets.end);
    }

    fn set(&mut self, run: &Run, address: u64, rule: Rule) {
        if address < run.addresses().end {
            self.writer.set(run.offset(address), rule);
        }
    }

    /// Adds the rows of the FDE at `offset`, whose code begins where `holds` does.
    fn add_entry(&mut self, offset: u32, holds: Range<u64>, run: &Run) {
        let Some(fde) = self.fde(offset, holds.start, run) else {
            return self.set(run, holds.start, Rule::INEXPRESSIBLE);
        };
        // Where functions overlap, the later one begins with its first instruction.
        let end = fde.end_address().min(holds.end);
        if fde.is_signal_trampoline() {
            self.set(run, holds.start, Rule::SIGNAL);
        } else {
            self.add_rows(&fde, holds.start..end, run);
        }
        if holds.end - end >= PADDING_MAX {
            self.add_bare_code(end..holds.end, run);
        }
    }

    /// Adds the rows of code without unwind information.
    fn add_bare_code(&mut self, addresses: Range<u64>, run: &Run) {
        let segment = run.segment.addresses();
        let bare = addresses.start.max(segment.start)..addresses.end.min(segment.end);
        let (mut start, end) =
            (bare.start.max(run.addresses().start), bare.end.min(run.addresses().end));
        // Page by page, so that a page's rows do not depend on which other pages are wanted.
        while start < end {
            let in_page = PAGE_BYTES - run.offset(start) % PAGE_BYTES;
            let wanted = start..end.min(start.saturating_add(in_page));
            self.set(run, start, Rule::NONE);
            let rules = self.code.map(|code| code.rules(run.segment, &wanted, &bare));
            for (address, rule) in rules.into_iter().flatten() {
                if address < wanted.end {
                    self.set(run, address.max(start), rule);
                }
            }
            start = wanted.end;
        }
    }

    /// The FDE at `offset`, if it is one of code at `address` in the run's segment, and evaluating
    /// it takes no longer than it may.
    fn fde(
        &mut self,
        offset: u32,
        address: u64,
        run: &Run,
    ) -> Option<FrameDescriptionEntry<Slice<'a>>> {
        self.work_left = self.work_left.checked_sub(WORK_OF_ENTRY)?;
        let fde = self.fdes.fde(offset as usize)?;
        let is_code = run.segment.addresses().contains(&address);
        if !is_code || fde.initial_address() != address || fde.end_address() <= address {
            return None;
        }
        let work = fde.entry_len() + fde.cie().entry_len();
        self.work_left = self.work_left.checked_sub(work)?;
        Some(fde)
    }

    fn add_rows(&mut self, fde: &FrameDescriptionEntry<Slice<'a>>, holds: Range<u64>, run: &Run) {
        let end = holds.end.min(run.addresses().end);
        let mut address = holds.start;
        let rows = self.add_rows_until(fde, &mut address, end, run);
        match rows {
            Ok(rule) if address == holds.start => self.add_moves(rule, holds, run),
            Ok(_) => {}
            // What was said before still counts.
            Err(Damaged) => self.writer.set(run.offset(address), Rule::INEXPRESSIBLE),
        }
    }

    /// Adds what the code of a long function says, of which there is one row.
    fn add_moves(&mut self, said: Rule, holds: Range<u64>, run: &Run) {
        let end = holds.end.min(run.segment.addresses().end);
        let is_hand_written = HAND_WRITTEN.contains(&end.saturating_sub(holds.start));
        let Some(code) = self.code.filter(|_| is_hand_written) else { return };
        for (address, rule) in code.moving_rules(run.segment, &(holds.start..end), said) {
            // Before the run, all is put at its beginning, where the last of it holds.
            if address < end {
                self.set(run, address, rule);
            }
        }
    }

    /// Adds the rows from `address` on, which becomes the place that the next is of. The rule of
    /// the last.
    fn add_rows_until(
        &mut self,
        fde: &FrameDescriptionEntry<Slice<'a>>,
        address: &mut u64,
        end: u64,
        run: &Run,
    ) -> Result<Rule, Damaged> {
        let (section, bases) = (&self.fdes.section, self.fdes.bases);
        let mut program = Program::new(section, fde.cie());
        // What a CIE says belongs to no address.
        for instruction in fde.cie().instructions(section, bases) {
            program.run(instruction.map_err(|_| Damaged)?, 0)?;
        }
        program.is_initial();
        for instruction in fde.instructions(section, bases) {
            let next = program.run(instruction.map_err(|_| Damaged)?, *address)?;
            if let Some(next) = next.filter(|next| *next > *address) {
                self.writer.set(run.offset(*address), program.rule());
                *address = next;
            }
            if *address >= end {
                return Ok(program.rule());
            }
        }
        self.writer.set(run.offset(*address), program.rule());
        Ok(program.rule())
    }
}
