//! Samples that a viewer was told, and stacks of who left its CPU, beside those of the same recorder's
//! snapshot: when, of whom, and the functions that queries gave.

use std::collections::HashMap;
use std::rc::Rc;

use anyhow::{Result, ensure};
use syscollect_model::{StackId, Tables};
use syscollect_tests::tracy_viewer::ReceivedTimeline;

use super::span::{FIRST_ROW, KnownSpan, same_in_order};

/// Of a hundred functions so many have names that both know.
const LEAST_NAMED: usize = 80;

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
        let (mut named, mut all) = (0, 0);
        for ((sample, stack), (_, functions)) in told.iter().zip(&in_file) {
            let told = functions_told(stack, seen);
            ensure!(
                told.len() == functions.len(),
                "{sample:?} was told with {told:?}, and in the snapshot it has {functions:?}"
            );
            for (told, in_file) in told.iter().zip(&***functions) {
                all += 1;
                let (Some(told), Some(in_file)) = (told, in_file) else { continue };
                named += 1;
                ensure!(
                    told == in_file,
                    "{sample:?}: {told:?} was told, {in_file:?} is in the file"
                );
            }
        }
        ensure!(named * 100 >= all * LEAST_NAMED, "of {all} functions {named} have names");
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

/// Those that a viewer was told; what it was told of last may have got no answer.
fn functions_told(stack: &[u64], seen: &ReceivedTimeline) -> Functions {
    let places =
        stack.iter().map(|address| seen.frames.get(address).and_then(|lines| lines.last()));
    let names = places.map(|line| line.map(|(name, ..)| name.clone()));
    names.filter(|name| name.as_deref() != Some("[no stack]")).collect()
}
