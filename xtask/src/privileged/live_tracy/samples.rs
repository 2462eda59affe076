//! Samples that a viewer was told, and stacks of who left its CPU, beside those of the same
//! recorder's snapshot: when, of whom, and the functions that queries gave.

use std::collections::HashMap;
use std::rc::Rc;

use anyhow::{Result, ensure};
use syscollect_merge::is_of_recording;
use syscollect_model::{StackId, Tables};
use syscollect_tests::tracy_viewer::ReceivedTimeline;

use super::span::{FIRST_ROW, KnownSpan, same_in_order};

/// Of a hundred functions so many have names that both know.
const LEAST_NAMED: usize = 80;

/// One of so many stacks may go on in the file, and one begin with functions of the recording,
/// until they have names.
const MOST_SHORTER: usize = 5;

/// Who was where. Thread 0 is none: its CPU idled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SampledThread {
    pub(super) time: i64,
    pub(super) thread: u32,
    /// It left its CPU.
    pub(super) leaves: bool,
}

/// Functions of a stack without those that were inlined, the innermost first; `None` where there is
/// no name for one.
type Functions = Vec<Option<String>>;

/// All of a file.
#[derive(Default)]
pub(super) struct Samples {
    samples: Vec<(SampledThread, Rc<Functions>)>,
    stacks: HashMap<StackId, Rc<Functions>>,
}

/// How many samples were the same, and how many of their functions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ComparedSamples {
    pub(super) samples: usize,
    pub(super) of_switches: usize,
    pub(super) functions: usize,
}

impl Samples {
    /// A thread was seen.
    pub(super) fn add(&mut self, sample: SampledThread, stack: Option<StackId>, tables: &Tables) {
        let functions = stack.map_or_else(Rc::default, |stack| {
            let known = self.stacks.entry(stack);
            Rc::clone(known.or_insert_with(|| Rc::new(functions(stack, tables))))
        });
        self.samples.push((sample, functions));
    }

    /// What a viewer was told is what is here; how much.
    pub(super) fn compare(
        &self,
        seen: &ReceivedTimeline,
        span: KnownSpan,
    ) -> Result<ComparedSamples> {
        let told = seen.samples.iter().filter(|(time, ..)| span.has(*time));
        let told = told.map(|(time, thread, stack, leaves)| {
            let thread = if *thread < FIRST_ROW { *thread } else { 0 };
            (SampledThread { time: *time, thread, leaves: *leaves }, stack)
        });
        let mut told: Vec<_> = told.collect();
        let in_file = self.samples.iter().filter(|(sample, _)| span.has(sample.time));
        let mut in_file: Vec<_> = in_file.collect();
        told.sort_by_key(|(sample, _)| *sample);
        in_file.sort_by_key(|(sample, _)| *sample);
        let threads_told: Vec<_> = told.iter().map(|(sample, _)| *sample).collect();
        let threads_in_file: Vec<_> = in_file.iter().map(|(sample, _)| *sample).collect();
        same_in_order("sample", &threads_told, &threads_in_file)?;
        let (mut named, mut all, mut shorter, mut with_own) = (0, 0, 0, 0);
        let mut others = 0;
        for ((sample, stack), (_, functions)) in told.iter().zip(&in_file) {
            let (mut told, is_cut) = without_cut(functions_told(stack, seen));
            if sample.leaves {
                with_own += usize::from(take_own_frames(&mut told));
            }
            let (in_file, _) = without_cut(functions.to_vec());
            // How the stack of a program goes on that has just begun is found later.
            let is_as_long = told.len() == in_file.len() || is_cut && told.len() < in_file.len();
            ensure!(is_as_long, "{sample:?} was told with {told:?}, the file has {in_file:?}");
            shorter += usize::from(told.len() < in_file.len());
            for (told, in_file) in told.iter().zip(&in_file) {
                all += 1;
                let (Some(told), Some(in_file)) = (told, in_file) else { continue };
                named += 1;
                // One place may have several names: debug information may know another one.
                others += usize::from(told != in_file);
            }
        }
        ensure!(named * 100 >= all * LEAST_NAMED, "of {all} functions {named} have names");
        ensure!(others * 10 <= named, "of {named} functions {others} have other names in the file");
        let most = told.len() / MOST_SHORTER;
        ensure!(shorter <= most, "of {} stacks {shorter} go on in the file", told.len());
        ensure!(with_own <= most, "of {} stacks {with_own} begin with the recording", told.len());
        let of_switches = threads_told.iter().filter(|sample| sample.leaves).count();
        let samples = threads_told.len() - of_switches;
        Ok(ComparedSamples { samples, of_switches, functions: named })
    }
}

/// Functions of a stack of a file.
fn functions(stack: StackId, tables: &Tables) -> Functions {
    let frames = tables.stack(stack).iter().map(|frame| tables.frame(*frame));
    let frames = frames.filter(|frame| !frame.inlined);
    let name = |function| tables.strings.get(function).to_owned();
    frames.map(|frame| frame.function.filter(|_| !frame.range_only).map(name)).collect()
}

/// Takes away what recording has put on top of a stack; whether there was something.
fn take_own_frames(functions: &mut Functions) -> bool {
    let is_own = |name: &Option<String>| name.as_deref().is_some_and(is_of_recording);
    let own = functions.iter().take_while(|name| is_own(name)).count();
    functions.drain(..own);
    own > 0
}

/// A stack without the mark that frames are missing, and whether it had that.
fn without_cut(mut functions: Functions) -> (Functions, bool) {
    let is_mark = |name: &Option<String>| name.as_deref().is_some_and(|name| name.starts_with('['));
    let is_cut = functions.last().is_some_and(is_mark);
    if is_cut {
        functions.pop();
    }
    (functions, is_cut)
}

/// Those that a viewer was told; what it was told of last may have got no answer, and an address is
/// no name: where code of a program lies that has just begun is found later.
fn functions_told(stack: &[u64], seen: &ReceivedTimeline) -> Functions {
    let places =
        stack.iter().map(|address| seen.frames.get(address).and_then(|lines| lines.last()));
    let names = places.map(|line| {
        let name = line.map(|(name, ..)| name.clone());
        name.filter(|name| !name.starts_with("0x"))
    });
    names.filter(|name| name.as_deref() != Some("[no stack]")).collect()
}
