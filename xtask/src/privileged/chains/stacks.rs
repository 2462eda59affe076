//! Stacks of programs whose chains of calls are known: whether each is whole, cut, or wrong.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::fmt;
use std::path::Path;

use anyhow::{Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, FrameId, StackCut, StackId, Tables, ThreadId, Time};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

/// While these put the frame of another function in the place of their caller's, both are there in
/// part.
const EXCHANGE: &str = "_Unwind_Resume";
/// So many different stacks of a program are shown that are wrong, and that are cut.
const SHOWN: usize = 3;

/// Functions that call one another and nothing else.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    /// Their names, the innermost first.
    pub(crate) functions: Vec<String>,
    /// What calls the outermost; empty if that is not one function.
    pub(crate) called_by: &'static str,
}

impl Chain {
    /// `f20` to `f01`, as the programs in `xtask/workloads/chains` have them.
    pub(crate) fn numbered(prefix: char, called_by: &'static str) -> Self {
        let functions = (1..=20).rev().map(|number| format!("{prefix}{number:02}")).collect();
        Self { functions, called_by }
    }
}

/// What is known of a program's stacks.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownStacks {
    pub(crate) chains: Vec<Chain>,
    /// The first functions of its threads; a stack is whole if it ends in one of them.
    pub(crate) roots: &'static [&'static str],
    /// One that comes to one of these is as whole as can be: nothing says what called it.
    pub(crate) entries: &'static [&'static str],
    /// Functions of the chain call others, too: what is missing between those and the chain cannot
    /// be told.
    pub(crate) calls_others: bool,
    /// A signal handler: below it is what it returns to, and what the signal has interrupted.
    pub(crate) handler: &'static str,
    /// What runs in the place of any function of the chain, as interpreters do.
    pub(crate) stand_in: &'static str,
    /// How frames begin that may lie between any two, of code that no file has.
    pub(crate) between: &'static str,
    /// Code without unwind information: between its first instructions a function has no frame yet,
    /// and its caller may be missing.
    pub(crate) has_no_tables: bool,
    /// Threads of the chain do other things, too, whose stacks do not count.
    pub(crate) does_others: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StackKind {
    Sample,
    OffCpu,
    Waker,
}

impl StackKind {
    /// What of an event has a stack.
    pub(crate) fn of(event: &Event) -> Option<(Self, ThreadId, StackId)> {
        let (kind, thread, stack) = match event {
            Event::Sample(sample) => (Self::Sample, Some(sample.thread), sample.stack),
            Event::Switch(switch) => (Self::OffCpu, switch.previous, switch.off_cpu.stack),
            Event::Wakeup(wakeup) if !wakeup.from_interrupt => {
                (Self::Waker, wakeup.waker, wakeup.stack)
            }
            _ => return None,
        };
        Some((kind, thread?, stack?))
    }
}

impl fmt::Display for StackKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sample => "samples",
            Self::OffCpu => "off-CPU stacks",
            Self::Waker => "wakers' stacks",
        })
    }
}

/// How the stacks of one kind look, of one program's threads that are in a chain.
#[derive(Clone, Debug, Default)]
pub(crate) struct StackCounts {
    pub(crate) whole: u64,
    pub(crate) cut: u64,
    pub(crate) wrong: u64,
    /// Those of the moment in which a frame is made or exchanged, which no table describes.
    pub(crate) unsettled: u64,
    /// Before tables were made, whatever they look like but wrong.
    pub(crate) early: u64,
    pub(crate) early_whole: u64,
    causes: BTreeMap<&'static str, u64>,
}

impl StackCounts {
    pub(crate) fn all(&self) -> u64 {
        self.whole + self.cut
    }

    /// How many are whole from a program's first moment on, and of how many; a wrong one is not.
    pub(crate) fn whole_of_all(&self) -> (u64, u64) {
        (self.whole + self.early_whole, self.all() + self.early + self.wrong)
    }

    /// Whether so many of 1,000 are whole, once tables were made.
    pub(crate) fn are_whole(&self, of_1000: u64) -> bool {
        self.whole * 1000 >= self.all() * of_1000
    }

    /// Whether no more than this of 1,000 are of moments that no table describes.
    pub(crate) fn are_settled(&self, but_of_1000: u64) -> bool {
        self.unsettled * 1000 <= (self.all() + self.early) * but_of_1000
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.whole += other.whole;
        self.cut += other.cut;
        self.unsettled += other.unsettled;
        self.wrong += other.wrong;
        self.early += other.early;
        self.early_whole += other.early_whole;
        for (cause, count) in &other.causes {
            *self.causes.entry(cause).or_default() += count;
        }
    }

    fn count(&mut self, verdict: &Verdict, is_early: bool) {
        let is_whole = *verdict == Verdict::Whole;
        match (verdict, is_early) {
            (Verdict::Wrong, _) => self.wrong += 1,
            (Verdict::Unsettled, _) => self.unsettled += 1,
            (_, true) => {
                self.early += 1;
                self.early_whole += u64::from(is_whole);
            }
            (Verdict::Cut(cut), false) => {
                self.cut += 1;
                *self.causes.entry(cut.reason()).or_default() += 1;
            }
            (_, false) => self.whole += 1,
        }
    }
}

impl fmt::Display for StackCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { whole, cut, wrong, unsettled, early, early_whole, causes } = self;
        write!(f, "{whole} whole, {cut} cut")?;
        for (index, (cause, count)) in causes.iter().enumerate() {
            write!(f, "{}{count} {cause}", if index == 0 { " (" } else { ", " })?;
        }
        let close = if causes.is_empty() { "" } else { ")" };
        write!(f, "{close}, {wrong} wrong, ")?;
        if *unsettled > 0 {
            write!(f, "{unsettled} unsettled, ")?;
        }
        write!(f, "before tables were made {early_whole} of {early} whole")
    }
}

/// The stacks of one program in a recording.
#[derive(Debug)]
pub(crate) struct ProgramStacks {
    pid: u32,
    known: KnownStacks,
    /// When its first stack was taken.
    began: Option<Time>,
    /// By thread and kind; all of its children's are of thread 0.
    threads: BTreeMap<(u32, StackKind), ThreadCounts>,
    verdicts: HashMap<StackId, Verdict>,
    /// Different stacks that are wrong, and that are cut: what was found, and the frames.
    wrong: Vec<String>,
    cut: Vec<String>,
}

/// Of a thread that is never in a chain nothing counts.
#[derive(Debug, Default)]
struct ThreadCounts {
    has_chain: bool,
    counts: StackCounts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Whole,
    Cut(StackCut),
    Wrong,
    /// Of a moment that no table describes.
    Unsettled,
    /// Whole, and of other code than the chain.
    Other,
    /// The same, but cut, perhaps before it came to the chain.
    OtherCut(StackCut),
}

impl ProgramStacks {
    pub(crate) fn new(pid: u32, known: KnownStacks) -> Self {
        Self {
            pid,
            known,
            began: None,
            threads: BTreeMap::new(),
            verdicts: HashMap::new(),
            wrong: Vec::new(),
            cut: Vec::new(),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether these frames of a program's stack, the innermost first, lack none, as another tracer
    /// has them; `None` if they have nothing to do with the chain.
    pub(crate) fn has_all(&self, labels: &[String]) -> Option<bool> {
        match self.known.check(labels, false) {
            Err(_) if self.known.is_unsettled(labels) => None,
            Err(_) => Some(self.known.comes_to_entry(labels)),
            Ok(has_chain) => has_chain.then_some(true),
        }
    }

    /// All that was counted, of threads in which the chain was found.
    pub(crate) fn of(&self, kind: StackKind) -> StackCounts {
        let mut all = StackCounts::default();
        for ((tid, of), thread) in &self.threads {
            // Of a thread whose stacks are cut before they come to the chain, they count.
            if *of == kind && (thread.has_chain || *tid == self.pid) {
                all.add(&thread.counts);
            }
        }
        all
    }

    /// Fails if a stack is wrong.
    pub(crate) fn ensure_none_wrong(&self) -> Result<()> {
        let wrong: u64 = self.threads.values().map(|thread| thread.counts.wrong).sum();
        ensure!(wrong == 0, "{wrong} stacks are wrong, such as:\n{}", self.wrong.join("\n"));
        Ok(())
    }

    /// Different stacks that are cut.
    pub(crate) fn cut_ones(&self) -> String {
        self.cut.join("\n")
    }

    /// Counts from the present moment on.
    fn begin_anew(&mut self) {
        *self = Self::new(self.pid, std::mem::take(&mut self.known));
    }

    fn add(&mut self, event: &StackEvent, tables: &Tables, early_ns: u64) {
        let process = tables.process(tables.thread(event.thread).process);
        let tid = if process.pid == self.pid {
            tables.thread(event.thread).tid
        } else if process.parent_pid == Some(self.pid) {
            0
        } else {
            return;
        };
        let began = *self.began.get_or_insert(event.at);
        let verdict = match self.verdicts.get(&event.stack) {
            Some(known) => known.clone(),
            None => self.judge(event.stack, tables),
        };
        let thread = self.threads.entry((tid, event.kind)).or_default();
        thread.has_chain |= !matches!(verdict, Verdict::Other | Verdict::OtherCut(_));
        let is_early = event.at.0 - began.0 < early_ns;
        let verdict = match verdict {
            Verdict::Other => return,
            Verdict::OtherCut(_) if self.known.does_others => return,
            Verdict::OtherCut(cut) => Verdict::Cut(cut),
            verdict => verdict,
        };
        thread.counts.count(&verdict, is_early);
        if let Verdict::Cut(cut) = verdict
            && !is_early
            && self.cut.len() < SHOWN
        {
            let labels = user_functions(event.stack, tables).join(" < ");
            self.cut.push(format!("  {}: {labels} {}", event.kind, cut.frame_name()));
        }
    }

    fn judge(&mut self, stack: StackId, tables: &Tables) -> Verdict {
        let cut = tables.stack(stack).last().and_then(|frame| tables.truncated_by(*frame));
        let labels = user_functions(stack, tables);
        let verdict = match self.known.check(&labels, cut.is_some()) {
            Err(_) if self.known.is_unsettled(&labels) => Verdict::Unsettled,
            Err(why) => {
                if self.wrong.len() < SHOWN {
                    let cut = cut.map_or("", StackCut::frame_name);
                    let kernel = tables.stack(stack).len() - labels.len();
                    let labels = labels.join(" < ");
                    self.wrong.push(format!("  {why}: {kernel} of the kernel, {labels} {cut}"));
                }
                Verdict::Wrong
            }
            Ok(has_chain) => match (has_chain, cut) {
                (true, None) => Verdict::Whole,
                (true, Some(_)) if self.known.comes_to_entry(&labels) => Verdict::Whole,
                (true, Some(cut)) => Verdict::Cut(cut),
                (false, None) => Verdict::Other,
                (false, Some(_)) if is_ending(&labels) => Verdict::Other,
                (false, Some(cut)) => Verdict::OtherCut(cut),
            },
        };
        self.verdicts.insert(stack, verdict.clone());
        verdict
    }
}

/// Whether a thread has ended as far as its program is concerned: its memory is not there any more.
fn is_ending(labels: &[String]) -> bool {
    matches!(labels, [only] if ["_exit", "_Exit", "GI__exit"].iter().any(|exit| names(only, exit)))
}

/// What the frames of the program in a stack are called, the innermost first.
fn user_functions(stack: StackId, tables: &Tables) -> Vec<String> {
    let frames = tables.stack(stack).iter().filter(|frame| is_user(**frame, tables));
    frames.map(|frame| tables.frame_label(*frame)).collect()
}

fn is_user(frame: FrameId, tables: &Tables) -> bool {
    let module = tables.frame(frame).module;
    !tables.is_truncation(frame) && !module.is_some_and(|id| tables.module(id).kind.is_kernel())
}

/// What has to be the next frame's function.
enum Awaited<'a> {
    Anything,
    Function(&'a str),
}

impl KnownStacks {
    /// Whether there is a function of a chain in the stack of these functions, innermost first; an
    /// error says what cannot be.
    fn check(&self, labels: &[String], is_cut: bool) -> Result<bool, String> {
        let mut awaited = Awaited::Anything;
        let mut has_chain = false;
        for (index, label) in labels.iter().enumerate() {
            if !self.between.is_empty() && label.starts_with(self.between) {
                continue;
            }
            let stands_in = !self.stand_in.is_empty() && label == self.stand_in;
            if let Awaited::Function(function) = awaited
                && !names(label, function)
                && !stands_in
            {
                return Err(format!("{label} is there, and not {function}"));
            }
            let begins = matches!(awaited, Awaited::Anything);
            awaited = Awaited::Anything;
            let Some((chain, place)) = self.place(label) else { continue };
            has_chain = true;
            let interrupted = self.is_interrupted(&labels[..index]);
            if begins && place > 0 && index > 0 && !interrupted && !self.calls_others {
                return Err(format!("{label} is said to call {}", labels[index - 1]));
            }
            let next = chain.functions.get(place + 1).map_or(chain.called_by, String::as_str);
            if !next.is_empty() {
                awaited = Awaited::Function(next);
            }
        }
        if is_cut {
            return Ok(has_chain);
        }
        if let Awaited::Function(function) = awaited {
            return Err(format!("said to be whole, without {function}"));
        }
        // A stack without any is the kernel's alone.
        if labels.last().is_some_and(|last| !self.roots.iter().any(|root| names(last, root)))
            && !self.comes_to_entry(labels)
        {
            return Err("said to be whole, without the thread's first function".to_owned());
        }
        Ok(has_chain)
    }

    fn comes_to_entry(&self, labels: &[String]) -> bool {
        labels.iter().any(|label| self.entries.iter().any(|entry| names(label, entry)))
    }

    /// Whether what is wrong with a stack is of a moment that no table describes.
    fn is_unsettled(&self, labels: &[String]) -> bool {
        let exchanges = labels.iter().take(3).any(|label| names(label, EXCHANGE));
        // V8 calls one function to make the frame of another.
        let first = labels.iter().take(2).position(|label| self.place(label).is_some());
        // The rest of it has to be right.
        exchanges
            || self.has_no_tables
                && first.is_some_and(|first| self.check(&labels[first + 1..], false) == Ok(true))
    }

    /// Whether a signal was handled by the innermost of these frames.
    fn is_interrupted(&self, above: &[String]) -> bool {
        match above {
            _ if self.handler.is_empty() => false,
            [.., handler, _] if names(handler, self.handler) => true,
            // The handler has returned, to what the C library ends the signal by.
            [only] => names(only, "restore_rt") || only.starts_with("libc.so"),
            _ => false,
        }
    }

    fn place(&self, label: &str) -> Option<(&Chain, usize)> {
        self.chains.iter().find_map(|chain| {
            let place = chain.functions.iter().position(|function| names(label, function))?;
            Some((chain, place))
        })
    }
}

/// Whether the function's name is a word of what a frame is called: `deep::f03(long)` is `f03`.
fn names(label: &str, function: &str) -> bool {
    let words = label.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.into_iter().any(|word| word == function || word.trim_start_matches('_') == function)
}

struct StackEvent {
    kind: StackKind,
    at: Time,
    thread: ThreadId,
    stack: StackId,
}

/// The stacks of some programs in one capture.
#[derive(Debug)]
pub(crate) struct RecordedStacks {
    /// For so long from a program's first stack on, tables are made of the code that was not walked
    /// before.
    early_ns: u64,
    pub(crate) programs: Vec<ProgramStacks>,
}

impl RecordedStacks {
    pub(crate) fn new(early_ns: u64, programs: Vec<ProgramStacks>) -> Self {
        Self { early_ns, programs }
    }

    pub(crate) fn read(
        capture: &Path,
        early_ns: u64,
        programs: Vec<ProgramStacks>,
    ) -> Result<Self> {
        let mut read = Self::new(early_ns, programs);
        Session::open(CaptureReader::open(capture)?)?.play(&mut read)?;
        Ok(read)
    }

    fn add(&mut self, event: &StackEvent, tables: &Tables) {
        for program in &mut self.programs {
            program.add(event, tables, self.early_ns);
        }
    }
}

impl Exporter for RecordedStacks {
    type Error = Infallible;

    fn event(&mut self, at: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        // What ran in the process until then was whoever started it.
        if let Event::ProcessExec(process, _) = event {
            let pid = tables.process(*process).pid;
            let of_it = self.programs.iter_mut().filter(|program| program.pid == pid);
            of_it.for_each(ProgramStacks::begin_anew);
        } else if let Some((kind, thread, stack)) = StackKind::of(event) {
            self.add(&StackEvent { kind, at, thread, stack }, tables);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [&str; 4] = ["f04", "deep::f03(long)", "f02.isra.0", "f01"];

    fn known() -> KnownStacks {
        let functions = ["f04", "f03", "f02", "f01"].map(str::to_owned).to_vec();
        let chain = Chain { functions, called_by: "main" };
        KnownStacks { chains: vec![chain], roots: &["_start"], ..KnownStacks::default() }
    }

    fn check(labels: &[&[&str]], is_cut: bool) -> Result<bool, String> {
        let labels: Vec<String> = labels.concat().into_iter().map(str::to_owned).collect();
        known().check(&labels, is_cut)
    }

    #[test]
    fn a_whole_chain_is_right_from_wherever_it_stands() {
        let end = ["main", "_start"];
        assert_eq!(check(&[&["read", "leaf"], &NUMBERS, &end], false), Ok(true));
        assert_eq!(check(&[&NUMBERS[2..], &end], false), Ok(true));
        assert_eq!(check(&[&["write", "main", "_start"]], false), Ok(false));
        assert!(check(&[&["write", "main"]], false).is_err(), "that is no thread's first function");
    }

    #[test]
    fn what_is_left_out_is_found() {
        let end = ["main", "_start"];
        assert!(check(&[&["leaf"], &NUMBERS[1..], &end], false).is_err(), "a leaf's caller");
        assert!(check(&[&NUMBERS[..1], &NUMBERS[2..], &end], false).is_err(), "one within");
        assert!(check(&[&NUMBERS[..3], &end], false).is_err(), "the outermost");
        assert!(check(&[&NUMBERS[..2], &["x"], &NUMBERS[2..], &end], false).is_err(), "another");
    }

    #[test]
    fn a_stack_that_ends_early_has_to_be_called_cut() {
        assert_eq!(check(&[&NUMBERS[..2]], true), Ok(true));
        assert!(check(&[&NUMBERS[..2]], false).is_err());
        assert_eq!(check(&[&NUMBERS, &["main"]], true), Ok(true));
        assert!(check(&[&NUMBERS, &["main"]], false).is_err());
    }

    fn labels(labels: &[&str]) -> Vec<String> {
        labels.iter().map(|label| (*label).to_owned()).collect()
    }

    #[test]
    fn a_frame_that_is_being_made_hides_its_caller_alone() {
        let mut known = KnownStacks { has_no_tables: true, ..known() };
        let hidden = labels(&["f03", "f01", "main", "_start"]);
        assert!(known.check(&hidden, false).is_err() && known.is_unsettled(&hidden));
        let more = labels(&["f04", "f03", "f01", "main", "_start"]);
        assert!(!known.is_unsettled(&more));
        known.has_no_tables = false;
        assert!(!known.is_unsettled(&hidden));
    }

    #[test]
    fn a_handler_stands_on_whatever_it_interrupted() {
        let mut labels: Vec<String> = ["leaf", "on_signal", "libc.so.6+0x3c04f", "f02", "f01"]
            .into_iter()
            .chain(["main", "_start"])
            .map(str::to_owned)
            .collect();
        let handler = KnownStacks { handler: "on_signal", ..known() };
        assert_eq!(handler.check(&labels, false), Ok(true));
        labels.remove(1);
        assert!(handler.check(&labels, false).is_err(), "then it was called");
    }
}
