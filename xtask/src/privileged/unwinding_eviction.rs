//! Unwind tables in far less memory than the code needs that runs: tables of what was run last take
//! the place of others, again and again.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, StackId, Tables, ThreadId, Time};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::chains::stacks::{ProgramStacks, RecordedStacks, StackKind};
use super::context::{Context, number, text};
use super::unwinding::{TABLES_MADE_NS, WHOLE, known};
use crate::process::output_of;

/// Memory of the tables, as the option has it, and in rows.
const MEMORY: &str = "512K";
const ROWS: u64 = (512 << 10) / 8;
/// Files that are visited, pages of each, and functions of a page, each of which has three rows: all
/// of them half as many again as there is room for, besides the rows of everything else.
const FILES: usize = 4;
const PAGES: usize = 8;
const FUNCTIONS: usize = 1024;
const SECONDS: &str = "24";
/// Of 100 pages that are visited late, so many have a stack that is whole. A visit's first stacks
/// come before its page's rows, and are too long to be sent as they lie in memory.
const PAGES_WHOLE: usize = 90;
/// Pages that gave way at least: those that were visited for the second time, and more.
const EVICTED: u64 = 20;

/// Functions of many pages run in turns, until nothing of the first is left, and again, while a
/// chain of calls runs all the time. No stack leads through what does not belong to it, the chain's
/// are whole all the time, and so are those of code that is run late.
pub(crate) fn unwinding_eviction(context: &Context) -> Result<String> {
    let folder = context.path("visited");
    make_files(context, &folder)?;
    let capture = context.path("unwinding-eviction.syscap");
    let options = ["--freq", "999", "--stacks", "samples,off-cpu", "--unwind", "tables"];
    let all = [&options[..], &["--unwind-memory", MEMORY, "--only"]].concat();
    let lines = context.record(&capture, &all, &["visiting", text(&folder)?, SECONDS])?;
    let of = |key: &str| lines.iter().find_map(|line| number(line, key).ok());
    let chain = of("pid").context("the chain printed nothing")?;
    let visitor = of("visitor").context("the load printed nothing")?;
    let again = of("again").context("the load printed nothing")?;

    let mut stacks = Stacks {
        chains: RecordedStacks::new(
            TABLES_MADE_NS,
            vec![ProgramStacks::new(chain as u32, known())],
        ),
        visits: Visits { pid: visitor as u32, ..Visits::default() },
    };
    Session::open(CaptureReader::open(&capture)?)?.play(&mut stacks)?;
    let Stacks { chains, visits } = stacks;
    let chain = &chains.programs[0];
    let (samples, off_cpu) = (chain.of(StackKind::Sample), chain.of(StackKind::OffCpu));
    let info = context.info(&capture)?;
    let count = |name: &str| number(&info["recorder"]["statistics"], name);
    let (evicted, rows) = (count("unwind_pages_evicted")?, count("unwind_rows")?);
    let late = visits.late_pages();
    let (late_pages, whole_pages) = (late.len(), late.values().filter(|whole| **whole > 0).count());
    let seen = format!(
        "{evicted} pages gave way, {rows} of {ROWS} rows in use; samples: {samples}; off-CPU stacks: \
         {off_cpu}; visits: {} stacks, {} wrong; of {} in the second half {} whole, of {whole_pages} \
         of {late_pages} pages",
        visits.all.len(),
        visits.wrong.len(),
        visits.late().count(),
        late.values().sum::<u64>(),
    );
    ensure!(again > 0, "the machine is too slow to visit each page twice: {seen}");
    ensure!(count("unwind_rows_max")? == ROWS && rows <= ROWS, "it took another size: {seen}");
    ensure!(evicted >= EVICTED, "too little gave way: {seen}");
    chain.ensure_none_wrong()?;
    for (kind, counts) in [(StackKind::Sample, samples), (StackKind::OffCpu, off_cpu)] {
        ensure!(counts.all() >= 500, "too few {kind} of the chain: {seen}");
        ensure!(counts.are_whole(WHOLE), "{kind} of the chain that are not whole: {seen}");
    }
    ensure!(
        visits.wrong.is_empty(),
        "visits through code that was not visited, as {:?}: {seen}",
        visits.wrong[0]
    );
    ensure!(late_pages >= FILES * PAGES / 2, "too few visits: {seen}");
    ensure!(
        whole_pages * 100 >= late_pages * PAGES_WHOLE,
        "of pages that are visited late no stack reaches main: {seen}"
    );
    Ok(seen)
}

/// Files whose functions are all alike, and have rows that no frame pointer replaces.
fn make_files(context: &Context, folder: &Path) -> Result<()> {
    let source = context.path("visited.s");
    let functions = FUNCTIONS * PAGES;
    let code = format!(
        ".text\n.balign 64\n.rept {functions}\n.cfi_startproc\npush %rbp\n.cfi_adjust_cfa_offset 8\n\
         .cfi_rel_offset rbp, 0\nmov $1, %ebp\ncall *%rdi\npop %rbp\n.cfi_adjust_cfa_offset -8\n\
         .cfi_restore rbp\nret\n.balign 64\n.cfi_endproc\n.endr\n.section .note.GNU-stack,\"\",@progbits\n"
    );
    fs::write(&source, code)?;
    fs::create_dir(folder)?;
    for number in 0..FILES {
        // Each has a build id of its own.
        let file = folder.join(format!("visited-{number}.so"));
        let id = format!("-Wl,--build-id=0x{number:040x}");
        output_of(
            Command::new("cc").args(["-shared", "-nostdlib", &id, "-o"]).args([&file, &source]),
        )?;
    }
    Ok(())
}

/// A stack of a thread that blocks in what visited code has called.
#[derive(Debug)]
struct Visit {
    at: Time,
    /// The page's function, as frames of it are shown.
    code: String,
    is_whole: bool,
}

#[derive(Debug, Default)]
struct Visits {
    pid: u32,
    all: Vec<Visit>,
    /// Frames of those that are not as visits are.
    wrong: Vec<Vec<String>>,
}

impl Visits {
    fn add(&mut self, at: Time, thread: ThreadId, stack: StackId, tables: &Tables) {
        if tables.process(tables.thread(thread).process).pid != self.pid {
            return;
        }
        let labels: Vec<String> =
            tables.stack(stack).iter().map(|frame| tables.frame_label(*frame)).collect();
        let Some(back) = labels.iter().position(|label| label.contains("visited_back")) else {
            return;
        };
        let callers = &labels[back + 1..];
        let is_cut = |label: &String| label.contains("truncated");
        let calls = |label: &String| label == "visit" || label.ends_with("::visit");
        // What is there of it is in its order.
        let is_right = match callers {
            [] => true,
            [code, rest @ ..] if code.contains("visited-") => {
                rest.first().is_none_or(|caller| calls(caller) || is_cut(caller))
            }
            [cut, ..] => is_cut(cut),
        };
        if !is_right {
            self.wrong.push(labels);
            return;
        }
        let is_whole = callers.iter().any(|label| label.ends_with("main"));
        let code = callers.first().filter(|label| !is_cut(label)).cloned().unwrap_or_default();
        self.all.push(Visit { at, code, is_whole });
    }

    /// Those of the second half.
    fn late(&self) -> impl Iterator<Item = &Visit> {
        let first = self.all.first().map_or(0, |visit| visit.at.0);
        let last = self.all.last().map_or(0, |visit| visit.at.0);
        self.all.iter().filter(move |visit| visit.at.0 >= first + (last - first) / 2)
    }

    /// How many stacks of each page that was visited in the second half are whole.
    fn late_pages(&self) -> BTreeMap<&str, u64> {
        let mut pages = BTreeMap::new();
        for visit in self.late().filter(|visit| !visit.code.is_empty()) {
            *pages.entry(visit.code.as_str()).or_default() += u64::from(visit.is_whole);
        }
        pages
    }
}

struct Stacks {
    chains: RecordedStacks,
    visits: Visits,
}

impl Exporter for Stacks {
    type Error = Infallible;

    fn event(&mut self, at: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        if let Event::Switch(switch) = event
            && let (Some(thread), Some(stack)) = (switch.previous, switch.off_cpu.stack)
        {
            self.visits.add(at, thread, stack, tables);
        }
        self.chains.event(at, event, tables)
    }
}
