//! Unwind tables in far less memory than the code needs that runs: tables of what was run last take
//! the place of others, again and again.

use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, StackId, Tables, ThreadId, Time};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::chains::stacks::{ProgramStacks, RecordedStacks, StackKind};
use super::context::{Context, number, statistic, text};
use super::unwinding::{TABLES_MADE_NS, WHOLE, known};
use crate::process::output_of;

/// Memory of the tables, as the option has it, and in rows.
const MEMORY: &str = "512K";
const ROWS: u64 = (512 << 10) / 8;
/// Files that are visited, pages of each, and functions of a page, each of which has three rows:
/// all of them half as many again as there is room for, besides the rows of everything else.
const FILES: usize = 4;
const PAGES: usize = 8;
const FUNCTIONS: usize = 1024;
const SECONDS: &str = "24";
/// Of 100 stacks through code that was made room for, so many are whole: a page's first stacks come
/// before its rows, and those are whole as far as they could be sent as they lay in memory.
const VISITS_WHOLE: u64 = 60;
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
    let chain = printed(&lines, "pid").context("the chain printed nothing")?;
    let visitor = printed(&lines, "visitor").context("the load printed nothing")?;
    let again = printed(&lines, "again").context("the load printed nothing")?;

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
    let (evicted, rows) =
        (statistic(&info, "unwind_pages_evicted")?, statistic(&info, "unwind_rows")?);
    let (early, late) = visits.halves();
    let summary = format!(
        "{evicted} pages gave way, {rows} of {ROWS} rows in use; samples: {samples}; off-CPU \
         stacks: {off_cpu}; visits, {} and {} to the middle and then: {} and {} of 100 whole, {} \
         wrong",
        early.all,
        late.all,
        early.whole_of_100(),
        late.whole_of_100(),
        early.wrong + late.wrong
    );
    ensure!(again > 0, "the machine is too slow to visit each page twice: {summary}");
    ensure!(
        statistic(&info, "unwind_rows_max")? == ROWS && rows <= ROWS,
        "it took another size: {summary}"
    );
    ensure!(evicted >= EVICTED, "too little gave way: {summary}");
    chain.ensure_none_wrong()?;
    for (kind, counts) in [(StackKind::Sample, samples), (StackKind::OffCpu, off_cpu)] {
        ensure!(counts.all() >= 500, "too few {kind} of the chain: {summary}");
        ensure!(counts.are_whole(WHOLE), "{kind} of the chain that are not whole: {summary}");
    }
    ensure!(
        early.wrong + late.wrong == 0,
        "visits through code that was not visited, as {:?}: {summary}",
        visits.wrong.unwrap_or_default()
    );
    ensure!(late.all >= 500, "too few visits: {summary}");
    ensure!(late.whole_of_100() >= VISITS_WHOLE, "late visits do not reach main: {summary}");
    Ok(summary)
}

/// What one of the programs printed by that name.
fn printed(lines: &[Value], key: &str) -> Option<u64> {
    lines.iter().find_map(|line| number(line, key).ok())
}

/// Files whose functions are all alike, and have rows that no frame pointer replaces.
fn make_files(context: &Context, folder: &Path) -> Result<()> {
    let source = context.path("visited.s");
    let functions = FUNCTIONS * PAGES;
    let code = format!(
        ".text\n.balign 64\n.rept {functions}\n.cfi_startproc\npush %rbp\n\
         .cfi_adjust_cfa_offset 8\n\
         .cfi_rel_offset rbp, 0\nmov $1, %ebp\ncall *%rdi\npop %rbp\n.cfi_adjust_cfa_offset -8\n\
         .cfi_restore rbp\nret\n.balign 64\n.cfi_endproc\n.endr\n\
         .section .note.GNU-stack,\"\",@progbits\n"
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

/// How stacks of one half of the recording look.
#[derive(Clone, Copy, Debug, Default)]
struct HalfStacks {
    all: u64,
    whole: u64,
    wrong: u64,
}

impl HalfStacks {
    fn whole_of_100(self) -> u64 {
        self.whole * 100 / self.all.max(1)
    }
}

/// Stacks of threads that block in what visited code has called.
#[derive(Debug, Default)]
struct Visits {
    pid: u32,
    /// When, whether it is whole, whether it is wrong.
    all: Vec<(Time, bool, bool)>,
    /// The first that is wrong.
    wrong: Option<Vec<String>>,
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
        let is_whole = callers.iter().any(|label| label.ends_with("main"));
        // What is there of it is in its order.
        let is_wrong = match callers {
            [] => false,
            [cut] => !is_code(cut) && !cut.contains("truncated"),
            [code, caller, ..] => {
                !(code.contains("truncated") || is_code(code))
                    || !(calls(caller) || caller.contains("truncated"))
            }
        };
        if is_wrong && self.wrong.is_none() {
            self.wrong = Some(labels.clone());
        }
        self.all.push((at, is_whole, is_wrong));
    }

    fn halves(&self) -> (HalfStacks, HalfStacks) {
        let mut halves = (HalfStacks::default(), HalfStacks::default());
        let (Some(first), Some(last)) = (self.all.first(), self.all.last()) else { return halves };
        let middle = first.0.0 + (last.0.0 - first.0.0) / 2;
        for (at, is_whole, is_wrong) in &self.all {
            let half = if at.0 < middle { &mut halves.0 } else { &mut halves.1 };
            half.all += 1;
            half.whole += u64::from(*is_whole);
            half.wrong += u64::from(*is_wrong);
        }
        halves
    }
}

fn is_code(label: &str) -> bool {
    label.contains("visited-")
}

/// Whether it is the function that calls the code.
fn calls(label: &str) -> bool {
    label == "visit" || label.ends_with("::visit")
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
