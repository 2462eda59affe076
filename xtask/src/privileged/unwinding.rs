//! User stacks of a program whose chain of calls is known, and in which rbp leads nowhere.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, StackId, Tables, ThreadId, Time};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::context::{Context, number};

/// For so long from its first stack on, tables are made of the code that was not walked before, and
/// stacks are unwound when the recording has stopped; and where all is emulated, and slow.
pub(super) const TABLES_MADE_NS: u64 = 2_000_000_000;
const TABLES_MADE_EMULATED_NS: u64 = 5_000_000_000;
/// Of 1,000 stacks so many are whole.
pub(super) const WHOLE: u64 = 995;
/// And of the first ones: this load's are longer than what is sent of a stack, so that those are cut
/// which come before the tables of its outer functions, more on a busy machine.
const WHOLE_EARLY: u64 = 900;

/// Samples and off-CPU stacks reach `main` through functions without frame pointers, one that
/// aligns its stack, a callback from the C library and a signal handler; and none of them leaves a
/// frame out.
pub(crate) fn unwinding(context: &Context) -> Result<String> {
    let capture = context.path("unwinding.syscap");
    let options = ["--freq", "999", "--stacks", "samples,off-cpu", "--unwind", "tables"];
    let lines = context.record(&capture, &options, &["unwound", "8"])?;
    let line = lines.first().context("the load printed nothing")?;
    let early_ns = if context.is_emulated() { TABLES_MADE_EMULATED_NS } else { TABLES_MADE_NS };
    let pid = number(line, "pid")? as u32;
    let mut chains = Chains::new(pid, early_ns);
    Session::open(CaptureReader::open(&capture)?)?.play(&mut chains)?;
    for (kind, least) in [(Kind::Sample, 2_000), (Kind::OffCpu, 300)] {
        let counts = chains.of(kind);
        let least = if context.is_emulated() { least / 10 } else { least };
        ensure!(counts.wrong == 0, "{kind} that leave out a frame: {chains}");
        // Without CAP_SYS_NICE whoever opens files waits for the load, and an emulated machine is so
        // slow that the load has ended by then.
        if context.is_emulated() && !super::is_root() {
            continue;
        }
        ensure!(counts.whole + counts.cut >= least, "too few {kind}: {chains}");
        ensure!(
            counts.whole * 1000 >= (counts.whole + counts.cut) * WHOLE,
            "{kind} that do not reach main: {chains}"
        );
        // What an emulated machine takes so long for that its programs send more than is held is
        // another question.
        ensure!(
            context.is_emulated() || counts.early_whole * 1000 >= counts.early * WHOLE_EARLY,
            "{kind} that do not reach main before tables were made: {chains}"
        );
    }
    Ok(chains.to_string())
}

/// The chain, from the innermost on; what these call varies, and what calls them is `main`.
fn chain() -> Vec<String> {
    let numbered = |numbers: std::ops::Range<u32>| numbers.map(|n| format!("unwound_{n:02}"));
    let aligned = std::iter::once("unwound_aligned".to_owned());
    numbered(0..12).chain(aligned).chain(numbered(12..20)).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Sample,
    OffCpu,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sample => "samples",
            Self::OffCpu => "off-CPU stacks",
        })
    }
}

/// How stacks through the chain look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) whole: u64,
    pub(super) cut: u64,
    pub(super) wrong: u64,
    /// Before tables were made, whatever they look like.
    early: u64,
    early_whole: u64,
}

/// What stacks through the chain of one process look like.
#[derive(Debug, Default)]
pub(super) struct Chains {
    pid: u32,
    early_ns: u64,
    /// When its first stack was taken.
    began: Option<Time>,
    counts: BTreeMap<Kind, Counts>,
}

impl fmt::Display for Chains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (kind, counts)) in self.counts.iter().enumerate() {
            let Counts { whole, cut, wrong, early, early_whole } = counts;
            f.write_str(if index == 0 { "" } else { "; " })?;
            write!(
                f,
                "{kind}: {whole} whole, {cut} cut, {wrong} wrong, before tables were made {early_whole} of {early} whole"
            )?;
        }
        Ok(())
    }
}

impl Chains {
    /// Of this process; those of its first nanoseconds are counted apart.
    pub(super) fn new(pid: u32, early_ns: u64) -> Self {
        Self { pid, early_ns, ..Self::default() }
    }

    pub(super) fn of(&self, kind: Kind) -> Counts {
        self.counts.get(&kind).copied().unwrap_or_default()
    }

    fn add(&mut self, kind: Kind, at: Time, thread: ThreadId, stack: StackId, tables: &Tables) {
        if tables.process(tables.thread(thread).process).pid != self.pid {
            return;
        }
        let labels: Vec<String> =
            tables.stack(stack).iter().map(|frame| tables.frame_label(*frame)).collect();
        let began = *self.began.get_or_insert(at);
        let is_of_chain = |label: &&String| chain().contains(label);
        let Some(first) = labels.iter().position(|label| is_of_chain(&label)) else { return };
        let found: Vec<&String> = labels[first..].iter().take_while(is_of_chain).collect();
        let whole = chain();
        let begins = whole.iter().position(|label| Some(&label) == found.first());
        let expected = &whole[begins.unwrap_or(whole.len())..];
        let is_whole = labels.iter().any(|label| label.ends_with("main"));
        let leads_on = expected.iter().zip(&found).all(|(expected, found)| expected == *found);
        let is_wrong = !leads_on || (is_whole && found.len() != expected.len());
        let counts = self.counts.entry(kind).or_default();
        counts.wrong += u64::from(is_wrong);
        match (at.0 - began.0 < self.early_ns, is_whole) {
            (true, _) => {
                counts.early += 1;
                counts.early_whole += u64::from(is_whole);
            }
            (false, true) => counts.whole += 1,
            (false, false) => counts.cut += 1,
        }
    }
}

impl Exporter for Chains {
    type Error = Infallible;

    fn event(&mut self, at: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        match event {
            Event::Sample(sample) => {
                if let Some(stack) = sample.stack {
                    self.add(Kind::Sample, at, sample.thread, stack, tables);
                }
            }
            Event::Switch(switch) => {
                if let (Some(thread), Some(stack)) = (switch.previous, switch.off_cpu.stack) {
                    self.add(Kind::OffCpu, at, thread, stack, tables);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
