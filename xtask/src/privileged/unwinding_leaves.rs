//! User stacks of functions that call nothing, whose callers are hard to find.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, StackCut, StackId, Tables, ThreadId, Time};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::context::{Context, number};

/// Functions whose caller is found: what is called `calls_NAME`.
const FOUND: [&str; 5] =
    ["leaf_bare", "leaf_framed", "leaf_by_register", "leaf_returns_by_register", "vfork"];
/// What the C library's vfork is called.
const VFORK: [&str; 4] = ["vfork", "__vfork", "__libc_vfork", "__GI_vfork"];
/// A function whose unwind information no row can express: its stack ends there.
const INEXPRESSIBLE: &str = "leaf_inexpressible";
/// The handler of the signal that interrupts them.
const HANDLER: &str = "leaf_handler";
/// Of 1,000 stacks so many show the caller; others come before tables were made, or while the
/// function makes its frame and nothing says so.
const FOUND_OF_1000: u64 = 990;

/// Functions that call nothing show their direct caller, also where their return address is in a
/// register, where nothing says where it is, and in a signal's handler; where it cannot be found
/// the stack says so, and no stack leaves the caller out.
pub(crate) fn leaves(context: &Context) -> Result<String> {
    let capture = context.path("leaves.syscap");
    let options = ["--freq", "999", "--stacks", "samples,off-cpu", "--unwind", "tables"];
    let lines = context.record(&capture, &options, &["leaves", "8"])?;
    let line = lines.first().context("the load printed nothing")?;
    let pid = number(line, "pid")? as u32;
    let mut leaves = Leaves { pid, counts: BTreeMap::new(), wrong: Vec::new() };
    Session::open(CaptureReader::open(&capture)?)?.play(&mut leaves)?;
    let wrong = &leaves.wrong;
    ensure!(wrong.is_empty(), "wrong stacks: {leaves}, such as {:?}", &wrong[..wrong.len().min(3)]);
    // Without CAP_SYS_NICE whoever opens files waits for the load, and an emulated machine is so
    // slow that the load has ended by then.
    if context.is_emulated() && !super::is_root() {
        return Ok(leaves.to_string());
    }
    // On a machine that does other work, too, this program has a tenth of a CPU.
    let least = 20;
    let mut all_interrupted = 0;
    for name in FOUND {
        let Counts { found, cut, interrupted, .. } = leaves.of(name);
        ensure!(found + cut >= least, "too few stacks of {name}: {leaves}");
        let of_1000 = if context.is_emulated() { 950 } else { FOUND_OF_1000 };
        ensure!(found * 1000 >= (found + cut) * of_1000, "stacks without caller: {leaves}");
        all_interrupted += interrupted;
    }
    ensure!(all_interrupted > 0, "no signal has interrupted any: {leaves}");
    let Counts { found, cut, .. } = leaves.of(INEXPRESSIBLE);
    ensure!(found == 0 && cut >= least, "{INEXPRESSIBLE} has a caller: {leaves}");
    Ok(leaves.to_string())
}

/// How stacks through a function look.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// The caller follows.
    found: u64,
    /// Of these, below a signal's handler.
    interrupted: u64,
    /// The stack ends there, and says so.
    cut: u64,
    /// Anything else.
    wrong: u64,
}

#[derive(Debug)]
struct Leaves {
    pid: u32,
    counts: BTreeMap<&'static str, Counts>,
    /// Wrong stacks, innermost function first.
    wrong: Vec<Vec<String>>,
}

impl fmt::Display for Leaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, counts)) in self.counts.iter().enumerate() {
            let Counts { found, interrupted, cut, wrong } = counts;
            f.write_str(if index == 0 { "" } else { "; " })?;
            write!(
                f,
                "{name}: {found} with caller ({interrupted} of them interrupted), {cut} cut, \
                 {wrong} wrong"
            )?;
        }
        Ok(())
    }
}

impl Leaves {
    fn of(&self, name: &str) -> Counts {
        self.counts.get(name).copied().unwrap_or_default()
    }

    fn add(&mut self, thread: ThreadId, stack: StackId, tables: &Tables) {
        if tables.process(tables.thread(thread).process).pid != self.pid {
            return;
        }
        let frames = tables.stack(stack);
        let labels: Vec<String> = frames.iter().map(|frame| tables.frame_label(*frame)).collect();
        let names = FOUND.into_iter().chain([INEXPRESSIBLE]);
        let found = { names }
            .find_map(|name| Some((name, labels.iter().position(|label| is_of(label, name))?)));
        let Some((name, at)) = found else { return };
        let counts = self.counts.entry(name).or_default();
        let outer = labels.get(at + 1);
        let cut = frames.get(at + 1).and_then(|frame| tables.truncated_by(*frame));
        if outer.is_some_and(|outer| *outer == format!("calls_{name}")) {
            counts.found += 1;
            counts.interrupted += u64::from(labels[..at].iter().any(|label| label == HANDLER));
        } else if cut.is_some_and(|cut| {
            name != INEXPRESSIBLE
                || matches!(cut, StackCut::UnusableInformation | StackCut::NoTableYet)
        }) {
            counts.cut += 1;
        } else {
            counts.wrong += 1;
            self.wrong.push(labels);
        }
    }
}

fn is_of(label: &str, name: &str) -> bool {
    match name {
        "vfork" => VFORK.contains(&label),
        name => label == name,
    }
}

impl Exporter for Leaves {
    type Error = Infallible;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        match event {
            Event::Sample(sample) => {
                if let Some(stack) = sample.stack {
                    self.add(sample.thread, stack, tables);
                }
            }
            Event::Switch(switch) => {
                if let (Some(thread), Some(stack)) = (switch.previous, switch.off_cpu.stack) {
                    self.add(thread, stack, tables);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
