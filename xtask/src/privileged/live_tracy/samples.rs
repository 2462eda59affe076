//! Samples that a viewer was told, and stacks of who left its CPU, beside those of the same
//! recorder's snapshot: when, of whom, and the places in code that queries gave, with what is
//! inlined there and lines.
//!
//! Both say the same, but for what is known later:
//!
//! - the unwind table of code that has just begun to run is made while it runs, and a file has
//!   walked on: a stack that was told may end with the mark that says so, and be the beginning of
//!   the file's;
//! - functions that recording itself puts on top of a stack are known once they have names, which
//!   are asked for when the recorder begins.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Result, ensure};
use syscollect_merge::is_of_recording;
use syscollect_model::{StackCut, StackId, Tables};
use syscollect_tests::tracy_viewer::ReceivedTimeline;

use super::span::{FIRST_ROW, KnownSpan, same_in_order};

/// Since the recorder began, functions of the recording have names from here on, nanoseconds.
const OWN_NAMED: i64 = 5_000_000_000;
/// Differences that are told.
const MOST_TOLD: usize = 20;

/// Who was where. Thread 0 is none: its CPU idled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SampledThread {
    pub(super) time: i64,
    pub(super) thread: u32,
    /// It left its CPU.
    pub(super) leaves: bool,
}

/// A function at a place, or what stands for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CodeLine {
    name: String,
    file: String,
    line: u32,
}

/// A place in code, the innermost of its functions first; empty where nothing was answered.
type CodePlace = Vec<CodeLine>;
/// The innermost first.
type CodeStack = Vec<CodePlace>;

/// All of a file.
#[derive(Default)]
pub(super) struct Samples {
    samples: Vec<(SampledThread, Arc<CodeStack>)>,
    stacks: HashMap<StackId, Arc<CodeStack>>,
}

/// How many samples were the same, and how many of their functions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ComparedSamples {
    pub(super) samples: usize,
    pub(super) of_switches: usize,
    pub(super) functions: usize,
    /// Stacks that go on in the file, and stacks that begin with the recording.
    pub(super) longer_in_file: usize,
    pub(super) with_recording: usize,
}

impl Samples {
    /// A thread was seen.
    pub(super) fn add(&mut self, sample: SampledThread, stack: Option<StackId>, tables: &Tables) {
        let places = stack.map_or_else(Arc::default, |stack| {
            let known = self.stacks.entry(stack);
            Arc::clone(known.or_insert_with(|| Arc::new(places(stack, tables))))
        });
        self.samples.push((sample, places));
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
        let begun = self.samples.first().map_or(0, |(sample, _)| sample.time);
        let mut compared = ComparedSamples {
            of_switches: threads_told.iter().filter(|sample| sample.leaves).count(),
            ..ComparedSamples::default()
        };
        compared.samples = told.len() - compared.of_switches;
        let mut differences = Differences::default();
        for ((sample, stack), (_, in_file)) in told.iter().zip(&in_file) {
            let mut told = places_told(stack, seen);
            if sample.leaves && take_own_places(&mut told) {
                compared.with_recording += 1;
                let after = sample.time - begun;
                ensure!(after < OWN_NAMED, "the stack of {sample:?} begins with the recording");
            }
            compared.functions += told.len();
            compared.longer_in_file += usize::from(goes_on(&told, in_file));
            differences.add(*sample, &told, in_file);
        }
        // Code of a mapping that `live` heard of after it was asked is told by its address alone.
        let most = in_file.len() / MOST_BY_ADDRESS;
        ensure!(
            differences.by_address <= most,
            "{} stacks have places by their address alone, of which the file knows more",
            differences.by_address
        );
        differences.are_none()?;
        Ok(compared)
    }
}

/// Of so many stacks one may have a place that is told by its address alone.
const MOST_BY_ADDRESS: usize = 100;

/// Stacks that differ in what nothing explains.
#[derive(Debug, Default)]
struct Differences {
    stacks: usize,
    /// Those that differ only where a place was told by its address.
    by_address: usize,
    /// What was told and what the file has, how often.
    places: BTreeMap<String, usize>,
}

impl Differences {
    fn add(&mut self, sample: SampledThread, told: &CodeStack, in_file: &CodeStack) {
        if told == in_file || goes_on(told, in_file) {
            return;
        }
        let is_address =
            |place: &CodePlace| matches!(place.as_slice(), [only] if only.name.starts_with("0x"));
        let is_same =
            |(told, in_file): (&CodePlace, &CodePlace)| told == in_file || is_address(told);
        if told.len() == in_file.len() && told.iter().zip(in_file).all(is_same) {
            self.by_address += 1;
            return;
        }
        self.stacks += 1;
        let differs = told.iter().zip(in_file).find(|(told, in_file)| told != in_file);
        let text = match differs {
            Some((told, in_file)) => format!("{} instead of {}", text(told), text(in_file)),
            None => {
                let [told, in_file] = [told, in_file].map(|stack| {
                    let last = stack.last().map_or_else(|| "nothing".into(), text);
                    format!("{} places up to {last}", stack.len())
                });
                format!("{told} instead of {in_file} at {sample:?}")
            }
        };
        *self.places.entry(text).or_default() += 1;
    }

    fn are_none(self) -> Result<()> {
        let mut places: Vec<_> = self.places.into_iter().collect();
        places.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let mut lines = String::new();
        for (place, count) in places.iter().take(MOST_TOLD) {
            let _ = write!(lines, "\n  {count} times {place}");
        }
        let (stacks, places) = (self.stacks, places.len());
        ensure!(stacks == 0, "{stacks} stacks were told otherwise, in {places} ways:{lines}");
        Ok(())
    }
}

/// A place in a line.
fn text(place: &CodePlace) -> String {
    let line = |CodeLine { name, file, line }: &CodeLine| format!("{name} ({file}:{line})");
    match place.as_slice() {
        [] => "no answer".into(),
        lines => lines.iter().map(line).collect::<Vec<_>>().join(" in "),
    }
}

/// Whether a stack that was told ends only because there was no unwind table yet, and the file's is
/// the same as far as that.
fn goes_on(told: &CodeStack, in_file: &CodeStack) -> bool {
    let no_table = StackCut::NoTableYet.frame_name();
    let Some((mark, known)) = told.split_last() else { return false };
    let is_cut = mark.first().is_some_and(|line| line.name == no_table);
    is_cut && told != in_file && in_file.starts_with(known)
}

/// Places of a stack of a file.
fn places(stack: StackId, tables: &Tables) -> CodeStack {
    let frames = tables.stack(stack).chunk_by(|before, _| tables.frame(*before).inlined);
    let line = |frame| {
        let row = tables.frame(frame);
        let file = row.file.map(|file| tables.strings.get(file)).unwrap_or_default();
        CodeLine { name: tables.frame_label(frame), file: file.to_owned(), line: row.line }
    };
    frames.map(|frames| frames.iter().map(|frame| line(*frame)).collect()).collect()
}

/// Takes away what recording has put on top of a stack; whether there was something.
fn take_own_places(places: &mut CodeStack) -> bool {
    let is_own =
        |place: &CodePlace| place.last().is_some_and(|outermost| is_of_recording(&outermost.name));
    let own = places.iter().take_while(|place| is_own(place)).count();
    places.drain(..own);
    own > 0
}

fn places_told(stack: &[u64], seen: &ReceivedTimeline) -> CodeStack {
    let line = |(name, file, line): &(String, String, u32)| CodeLine {
        name: name.clone(),
        file: if file == "<kernel>" { String::new() } else { file.clone() },
        line: *line,
    };
    let places = stack.iter().map(|address| {
        let lines = seen.frames.get(address).map(Vec::as_slice).unwrap_or_default();
        lines.iter().map(line).collect::<CodePlace>()
    });
    let is_none = |place: &CodePlace| place.first().is_some_and(|line| line.name == "[no stack]");
    places.filter(|place| !is_none(place)).collect()
}
