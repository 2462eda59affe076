//! Stacks in a few lines.
//!
//! Where there is no room for all of a stack, its innermost functions are shown. Of an interpreted
//! program these are the interpreter's own, and between any two of the program's are more of them:
//! so the program's functions come before those of the interpreter.

use super::columns::{fits, wrapped};
use super::data::StackLabels;
use super::text::{Text, shown};
use super::wait_python::is_python;
use std::collections::BTreeSet;
use syscollect_model::{StackId, Tables};

/// Lines that a stack may take.
const LINES: usize = 3;
/// Where they begin.
const INDENT: usize = 11;
/// Of a stack with interpreted functions, what is shown in any case: the innermost functions, and
/// of interpreted ones the outermost.
const INNERMOST: usize = 4;
const OUTERMOST: usize = 2;
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

/// What a stack's frames are called, innermost first, and which of them are interpreted.
pub(super) fn labels(stack: Option<StackId>, tables: &Tables) -> StackLabels {
    let frames = stack.map_or(&[][..], |stack| tables.stack(stack));
    let interpreted = (0..frames.len()).filter(|index| is_python(&frames[*index], tables));
    StackLabels {
        frames: frames.iter().map(|frame| tables.frame_label(*frame)).collect(),
        interpreted: interpreted.collect(),
    }
}

impl Text {
    /// A stack in a few lines, innermost frame first.
    pub(super) fn frames_of_stack(&mut self, stack: &StackLabels) {
        self.stack_words(INDENT, LINES, &[], stack);
    }

    /// The same behind some words, in lines of a place of their own.
    pub(super) fn stack_words(
        &mut self,
        indent: usize,
        lines: usize,
        before: &[String],
        stack: &StackLabels,
    ) {
        let telling = Telling::of(&stack.frames, &stack.interpreted);
        let all: Vec<usize> = (0..telling.len()).collect();
        let words = |kept: &[usize]| [before, &telling.words(kept)].concat();
        let fits = |kept: &[usize]| fits(self.width, indent, lines, &words(kept));
        let kept = match telling.interpreted.is_empty() || fits(&all) {
            true => all,
            false => telling.most_telling(fits),
        };
        wrapped(&mut self.text, self.width, indent, lines, &words(&kept));
    }
}

/// The frames of a stack that tell something, innermost first: the ways out of the scheduler and
/// into the kernel are the same for all.
struct Telling<'a> {
    frames: Vec<&'a str>,
    /// Which of them are interpreted.
    interpreted: BTreeSet<usize>,
}

impl<'a> Telling<'a> {
    fn of(frames: &'a [String], interpreted: &[usize]) -> Self {
        let is_common = |frame: &&String| {
            SCHEDULER.contains(&frame.as_str()) || WAKING.contains(&frame.as_str())
        };
        let common = frames.iter().take_while(is_common).count();
        let telling = frames.iter().enumerate().skip(common);
        let telling: Vec<_> = telling.filter(|(_, frame)| !is_kernel_entry(frame)).collect();
        let places = telling.iter().enumerate();
        let interpreted = places
            .filter(|(_, (index, _))| interpreted.binary_search(index).is_ok())
            .map(|(place, _)| place)
            .collect();
        Self { frames: telling.into_iter().map(|(_, frame)| frame.as_str()).collect(), interpreted }
    }

    fn len(&self) -> usize {
        self.frames.len()
    }

    /// As many frames as there is room for, those first that tell most.
    fn most_telling(&self, fits: impl Fn(&[usize]) -> bool) -> Vec<usize> {
        let innermost = 0..self.len().min(INNERMOST);
        let outermost = self.interpreted.iter().rev().take(OUTERMOST).copied();
        let program = self.interpreted.iter().copied();
        let in_order = innermost.chain(outermost).chain(program).chain(0..self.len());
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
            let frame = shown(self.frames[*place]);
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

    fn told(width: usize, frames: &[&str], interpreted: &[usize]) -> String {
        let mut out = Text { text: String::new(), width };
        let frames = frames.iter().map(|frame| (*frame).to_owned()).collect();
        out.frames_of_stack(&StackLabels { frames, interpreted: interpreted.to_vec() });
        out.text
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
            told(70, &frames, &interpreted),
            "           futex_wait < do_futex < lock < acquire < call < … <\n           \
             query (w.py) < … < lookup (w.py) < … < serve (w.py) < … <\n           \
             run (threading.py) < …\n"
        );
        let shown = told(1000, &frames, &interpreted);
        assert!(!shown.contains('…') && shown.ends_with("start_thread < clone3\n"), "{shown}");
    }

    #[test]
    fn a_deep_recursion_shows_where_it_is_and_who_began_it() {
        let mut frames = vec!["sem_wait", "acquire"];
        frames.extend(std::iter::repeat_n("descend (deep.py)", 200));
        frames.extend(["main (deep.py)", "<module> (deep.py)", "_start"]);
        let interpreted: Vec<usize> = (2..204).collect();
        let shown = told(80, &frames, &interpreted);
        assert!(
            shown.trim_start().starts_with("sem_wait < acquire < descend (deep.py) <"),
            "{shown}"
        );
        assert!(shown.ends_with("… < main (deep.py) < <module> (deep.py) < …\n"), "{shown}");
        assert_eq!(shown.lines().count(), LINES, "{shown}");
    }

    #[test]
    fn the_ways_to_wake_and_to_sleep_are_no_news() {
        let frames = ["try_to_wake_up", "wake_up_q", "futex_wake", "do_syscall_64", "unlock"];
        assert_eq!(told(80, &frames, &[]).trim(), "futex_wake < unlock");
    }
}
