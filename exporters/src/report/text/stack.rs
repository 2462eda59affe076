//! Stacks in a few lines.
//!
//! Where there is no room for all of a stack, its innermost functions are shown. These are the
//! kernel's, the C library's and those of the language that the program is written in: so the
//! program's own functions come before others, the innermost first.

use crate::report::data::StackLabels;
use crate::report::text::printer::{Printer, WordBlock};
use crate::report::text::words::{shortened, shown};
use std::collections::BTreeSet;

/// Where a stack is shown that a row has.
const BELOW_A_ROW: WordBlock = WordBlock { indent: 11, lines: 3 };
/// What is shown of a stack in any case: the innermost function and the innermost one of the
/// program, then so many of the innermost, and of interpreted ones the outermost.
const INNERMOST: usize = 4;
const OUTERMOST: usize = 2;
/// Characters of a line that are left beside the longest name, for what stands around it.
const BESIDE_NAME: usize = 8;
/// What stands for functions that there is no room for.
const ELLIPSIS: &str = "…";
/// Functions that every blocked stack begins with.
const SCHEDULER: [&str; 2] = ["__schedule", "schedule"];
/// Functions that stacks of wakers begin with, whatever they wake.
const WAKING: [&str; 8] = [
    "try_to_wake_up",
    "default_wake_function",
    "autoremove_wake_function",
    "wake_up_q",
    "__wake_up",
    "__wake_up_common",
    "__wake_up_sync_key",
    "wake_up_process",
];
/// Functions through which every system call of x86-64 goes.
const KERNEL_ENTRY: [&str; 3] = ["x64_sys_call", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"];

/// A stack that is to be shown, innermost frame first.
pub(super) struct StackText<'a> {
    pub(super) stack: &'a StackLabels,
    /// Where.
    pub(super) block: WordBlock,
    /// What stands before it.
    pub(super) before: Vec<String>,
}

impl<'a> StackText<'a> {
    pub(super) fn below_a_row(stack: &'a StackLabels) -> Self {
        Self { stack, block: BELOW_A_ROW, before: Vec::new() }
    }

    pub(super) fn print(&self, out: &mut Printer) {
        let Self { stack, block, before } = self;
        let longest = out.width().saturating_sub(block.indent + BESIDE_NAME);
        let notable = NotableFrames::of(stack, longest);
        let all: Vec<usize> = (0..notable.len()).collect();
        let words = |kept: &[usize]| [&before[..], &notable.words(kept)].concat();
        let fits = |kept: &[usize]| out.has_room(*block, &words(kept));
        let mut kept = Vec::new();
        if !notable.own.is_empty() && !fits(&all) {
            kept = notable.most_telling(fits);
        }
        if kept.is_empty() {
            kept = all;
        }
        out.wrapped_words(*block, &words(&kept));
    }
}

/// The frames of a stack that tell something, innermost first: the ways out of the scheduler and
/// into the kernel are the same for all.
struct NotableFrames<'a> {
    frames: Vec<&'a str>,
    /// Which of them are the program's own, innermost first.
    own: Vec<usize>,
    /// Which of them are interpreted.
    interpreted: BTreeSet<usize>,
    /// Characters that each may take, if others are left out.
    longest: usize,
}

impl<'a> NotableFrames<'a> {
    fn of(stack: &'a StackLabels, longest: usize) -> Self {
        let all = stack.frames.iter().map(String::as_str).enumerate();
        let telling =
            all.skip_while(|(_, frame)| SCHEDULER.contains(frame) || WAKING.contains(frame));
        let (mut frames, mut own, mut interpreted) = (Vec::new(), Vec::new(), BTreeSet::new());
        for (place, frame) in telling.filter(|(_, frame)| !is_kernel_entry(frame)) {
            if stack.own.binary_search(&place).is_ok() {
                own.push(frames.len());
            }
            if stack.interpreted.binary_search(&place).is_ok() {
                interpreted.insert(frames.len());
            }
            frames.push(frame);
        }
        Self { frames, own, interpreted, longest }
    }

    fn len(&self) -> usize {
        self.frames.len()
    }

    /// As many frames as there is room for, those first that tell most.
    fn most_telling(&self, fits: impl Fn(&[usize]) -> bool) -> Vec<usize> {
        let first = (0..self.len().min(1)).chain(self.own.first().copied());
        let innermost = 0..self.len().min(INNERMOST);
        let outermost = self.interpreted.iter().rev().take(OUTERMOST).copied();
        let own = self.own.iter().copied();
        let in_order = first.chain(innermost).chain(outermost).chain(own).chain(0..self.len());
        let mut kept = BTreeSet::new();
        let mut last = Vec::new();
        for place in in_order {
            if !kept.insert(place) {
                continue;
            }
            let more: Vec<usize> = kept.iter().copied().collect();
            if !fits(&more) {
                break;
            }
            last = more;
        }
        last
    }

    /// These frames, with what is left out between them.
    fn words(&self, kept: &[usize]) -> Vec<String> {
        let mut words = Vec::with_capacity(kept.len());
        let mut next = 0;
        for place in kept {
            if *place > next {
                words.push(format!("{ELLIPSIS} <"));
            }
            next = place + 1;
            let mut frame = shown(self.frames[*place]);
            if kept.len() < self.len() {
                frame = shortened(&frame, self.longest);
            }
            words.push(if next == self.len() { frame } else { format!("{frame} <") });
        }
        if next < self.len() {
            words.push(ELLIPSIS.to_owned());
        }
        words
    }
}

fn is_kernel_entry(frame: &str) -> bool {
    KERNEL_ENTRY.contains(&frame) || frame.starts_with("__x64_sys_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(width: usize, frames: &[&str], interpreted: &[usize]) -> String {
        told_with_own(width, frames, interpreted, interpreted)
    }

    fn told_with_own(
        width: usize,
        frames: &[&str],
        interpreted: &[usize],
        own: &[usize],
    ) -> String {
        let mut out = Printer::new(width);
        let frames = frames.iter().map(|frame| (*frame).to_owned()).collect();
        let (interpreted, own) = (interpreted.to_vec(), own.to_vec());
        StackText::below_a_row(&StackLabels { frames, interpreted, own }).print(&mut out);
        out.finish()
    }

    #[test]
    fn who_of_the_program_called_the_library_is_shown_in_any_case() {
        let channel = "std::sync::mpmc::array::Channel<alloc::vec::Vec<prog::Item>>::send";
        let mut frames = vec!["__schedule", "schedule", "futex_do_wait", "do_futex", "syscall"];
        frames.extend([channel; 9]);
        let own = [frames.len(), frames.len() + 1];
        frames.extend(["prog::produce", "prog::main::{{closure}}"]);
        frames.extend(["std::thread::start", "start_thread", "clone3"]);
        let shown = told_with_own(100, &frames, &[], &own);
        assert_eq!(
            shown,
            format!(
                "           futex_do_wait < do_futex < syscall <\n           {channel} < … < \
                 prog::produce <\n           prog::main::{{{{closure}}}} < …\n"
            )
        );
        // Though the names before take all of a line.
        let long = "a".repeat(300);
        let frames = [&long[..], &long, &long, "own", &long];
        let shown = told_with_own(60, &frames, &[], &[3]);
        assert!(shown.trim_end().ends_with("own < …"), "{shown}");
        let all_long = told_with_own(60, &[&long, &"b".repeat(300), &"c".repeat(300)], &[], &[2]);
        assert!(all_long.contains("cccc"), "{all_long}");
        assert!(!told_with_own(2000, &frames, &[], &[3]).contains('…'));
    }

    #[test]
    fn of_a_cut_stack_the_programs_functions_are_shown_before_the_interpreters() {
        let interpreter = ["call", "vectorcall_function", "evaluate_the_frame"];
        let mut frames =
            vec!["__schedule", "schedule", "futex_wait", "do_futex", "lock", "acquire"];
        let mut interpreted = Vec::new();
        for function in ["query (w.py)", "lookup (w.py)", "serve (w.py)", "run (threading.py)"] {
            frames.extend(interpreter);
            interpreted.push(frames.len());
            frames.push(function);
        }
        frames.extend(interpreter.into_iter().chain(["start_thread", "clone3"]));
        assert_eq!(
            reported(70, &frames, &interpreted),
            "           futex_wait < do_futex < lock < acquire < call < … <\n           \
             query (w.py) < … < lookup (w.py) < … < serve (w.py) < … <\n           \
             run (threading.py) < …\n"
        );
        let shown = reported(1000, &frames, &interpreted);
        assert!(!shown.contains('…') && shown.ends_with("start_thread < clone3\n"), "{shown}");
    }

    #[test]
    fn a_deep_recursion_shows_where_it_is_and_who_began_it() {
        let mut frames = vec!["sem_wait", "acquire"];
        frames.extend(std::iter::repeat_n("descend (deep.py)", 200));
        frames.extend(["main (deep.py)", "<module> (deep.py)", "_start"]);
        let interpreted: Vec<usize> = (2..204).collect();
        let shown = reported(80, &frames, &interpreted);
        assert!(
            shown.trim_start().starts_with("sem_wait < acquire < descend (deep.py) <"),
            "{shown}"
        );
        assert!(shown.ends_with("… < main (deep.py) < <module> (deep.py) < …\n"), "{shown}");
        assert_eq!(shown.lines().count(), BELOW_A_ROW.lines, "{shown}");
    }

    #[test]
    fn the_ways_to_wake_and_to_sleep_are_no_news() {
        let frames = ["try_to_wake_up", "wake_up_q", "futex_wake", "do_syscall_64", "unlock"];
        assert_eq!(reported(80, &frames, &[]).trim(), "futex_wake < unlock");
    }
}
