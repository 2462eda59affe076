//! Where Go's runtime goes to another stack, which its unwind information says nothing of.
//!
//! A goroutine has a small stack of its own; what needs more runs on that of its thread: the
//! runtime's own work (`runtime.systemstack`), what makes a goroutine's stack larger
//! (`runtime.morestack`), and C (`runtime.asmcgocall`). Each of these three leaves where it came
//! from in a place that its code tells. The code is the same in every program, so that it is found
//! without names, which may be stripped. Source: `runtime/asm_amd64.s` of Go 1.19; a version whose code is another one is not recognised.

use std::ops::Range;

use syscollect_records::unwind::{ROWS_MAX, UnwindRow, WORD_BYTES, cfa_rule, frame_pointer_rule};

use crate::rule::{Rule, SAME};

/// Bytes before and behind a page that help to find what lies in it.
pub(crate) const AROUND: u64 = 1024;

/// `mov rdx, rdi; mov rdi, [rdi]; call rdi`: calls what is to run on the thread's stack.
const CALLS_FUNCTION: [u8; 8] = [0x48, 0x89, 0xfa, 0x48, 0x8b, 0x3f, 0xff, 0xd7];
/// `mov rsp, [rbx + 56]`: goes to the thread's stack.
const GOES_TO_THREAD: [u8; 4] = [0x48, 0x8b, 0x63, 0x38];
/// `mov [rsi + n], rbp`: keeps the goroutine's frame pointer.
const KEEPS_FRAME_POINTER: [u8; 3] = [0x48, 0x89, 0x6e];
/// `call rax`: calls C.
const CALLS_C: [u8; 2] = [0xff, 0xd0];

/// Code that runs on another stack than its caller, by its place in the bytes that were looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StackSwitch {
    pub(crate) place: Range<usize>,
    pub(crate) rule: Rule,
}

/// Where `code` does so, by ascending place.
pub(crate) fn stack_switches(code: &[u8]) -> Vec<StackSwitch> {
    let mut switches = Vec::new();
    let mut running = None;
    for at in places(code, &CALLS_FUNCTION) {
        let behind = at + CALLS_FUNCTION.len();
        if let Some((goroutine, length)) = comes_back(&code[behind..]) {
            running = running.or(Some(goroutine));
            let rule = Rule::new((cfa_rule::GO_SYSTEM_STACK, goroutine), SAME);
            switches.push(StackSwitch { place: at..behind + length, rule });
        }
    }
    // Which of the thread's words leads to its goroutine only the other's code says.
    for at in places(code, &GOES_TO_THREAD).filter(|_| running.is_some()) {
        let behind = at + GOES_TO_THREAD.len();
        let Some(length) = calls_twice(&code[behind..]) else { continue };
        let before = &code[at.saturating_sub(64)..at];
        let kept = places(before, &KEEPS_FRAME_POINTER).last();
        let Some(kept) = kept.and_then(|kept| word_at(before, kept + KEEPS_FRAME_POINTER.len()))
        else {
            continue;
        };
        let (goroutine, saved) = (running.unwrap_or_default(), (frame_pointer_rule::SAME, kept));
        let rule = Rule::new((cfa_rule::GO_MORE_STACK, goroutine), saved);
        switches.push(StackSwitch { place: behind..behind + length, rule });
    }
    for at in places(code, &CALLS_C) {
        let behind = at + CALLS_C.len();
        if let Some((rule, length)) = comes_back_from_c(&code[behind..]) {
            switches.push(StackSwitch { place: at..behind + length, rule });
        }
    }
    switches.sort_by_key(|switch| switch.place.start);
    switches
}

/// Says in a page's rows what holds from `start` up to `end`, which lie in the page.
pub(crate) fn say_within(rows: &mut Vec<UnwindRow>, place: &Range<u64>, rule: Rule) {
    let Ok(start) = u16::try_from(place.start) else { return };
    if place.is_empty() || rows.len() + 2 > ROWS_MAX {
        return;
    }
    let first = rows.partition_point(|row| u64::from(row.address) < place.start);
    let behind = rows.partition_point(|row| u64::from(row.address) <= place.end);
    let after = behind.checked_sub(1).map_or(Rule::NONE, |last| Rule::of_row(rows[last]));
    let end = u16::try_from(place.end).ok().map(|end| after.at(end));
    rows.splice(first..behind, [rule.at(start)].into_iter().chain(end));
}

/// What `runtime.systemstack` does when the function has returned: takes its goroutine from where
/// its thread (m) has it, and goes back to that one's stack. Where that is, in words of the thread,
/// and how many bytes of code lie before the stack is another one.
fn comes_back(code: &[u8]) -> Option<(i16, usize)> {
    // mov rax, fs:[-8]; or mov rcx, -8; mov rax, fs:[rcx].
    let at = after_any(
        code,
        &[
            &[0x64, 0x48, 0x8b, 0x04, 0x25, 0xf8, 0xff, 0xff, 0xff],
            &[0x48, 0xc7, 0xc1, 0xf8, 0xff, 0xff, 0xff, 0x64, 0x48, 0x8b, 0x01],
        ],
    )?;
    // mov rbx, [rax + 48]; mov rax, [rbx + n].
    let at = at + after_any(&code[at..], &[&[0x48, 0x8b, 0x58, 0x30, 0x48, 0x8b, 0x83]])?;
    let goroutine = i32::from_le_bytes(*code.get(at..)?.first_chunk()?);
    let at = at + size_of::<i32>();
    // mov fs:[-8], rax; or mov fs:[rcx], rax.
    let stores: [&[u8]; 2] =
        [&[0x64, 0x48, 0x89, 0x04, 0x25, 0xf8, 0xff, 0xff, 0xff], &[0x64, 0x48, 0x89, 0x01]];
    let at = at + after_any(&code[at..], &stores)?;
    // mov rsp, [rax + 56].
    after_any(&code[at..], &[&[0x48, 0x8b, 0x60, 0x38]])?;
    Some((words(goroutine.into())?, at))
}

/// What `runtime.morestack` does on the thread's stack: perhaps it takes a frame pointer from
/// there, calls what makes a larger stack, which does not return, and then what ends the program.
fn calls_twice(code: &[u8]) -> Option<usize> {
    const CALL: u8 = 0xe8;
    let from = after_any(code, &[&[0x48, 0x8b, 0x6b]]).map_or(0, |at| at + 1);
    let is_call = |at: usize| code.get(from + at) == Some(&CALL);
    (is_call(0) && is_call(5) && code.get(from + 10) == Some(&0xc3)).then_some(from + 10)
}

/// What `runtime.asmcgocall` does when C has returned: finds its goroutine in a word of the stack,
/// and in another how far it was below the upper end of that one's stack; or there the stack
/// pointer itself, where it did not go to another stack, or where it was of no goroutine.
fn comes_back_from_c(code: &[u8]) -> Option<(Rule, usize)> {
    if let Some(at) = after_any(code, &[&[0x48, 0x8b, 0x7c, 0x24]]) {
        let goroutine = word_at(code, at)?;
        // mov rsi, [rdi + 8]; sub rsi, [rsp + n].
        let at = at + 1;
        let at = at + after_any(&code[at..], &[&[0x48, 0x8b, 0x77, 0x08, 0x48, 0x2b]])?;
        let (depth, length) = word_beside_stack_pointer(&code[at..])?;
        let saved = (frame_pointer_rule::SAME, depth);
        return Some((Rule::new((cfa_rule::GO_C_STACK, goroutine), saved), at + length));
    }
    // mov rsi, [rsp + n]; mov rsp, rsi.
    let at = after_any(code, &[&[0x48, 0x8b]])?;
    let (place, length) = word_beside_stack_pointer(&code[at..])?;
    let at = at + length;
    after_any(&code[at..], &[&[0x48, 0x89, 0xf4]])?;
    Some((Rule::new((cfa_rule::AT_RSP_PLUS_WORD, place), SAME), at))
}

/// The rest of an instruction of rsi and the word at rsp, or at rsp and a byte: which word, and how
/// many bytes say so.
fn word_beside_stack_pointer(code: &[u8]) -> Option<(i16, usize)> {
    if after_any(code, &[&[0x34, 0x24]]).is_some() {
        return Some((0, 2));
    }
    after_any(code, &[&[0x74, 0x24]])?;
    Some((word_at(code, 2)?, 3))
}

/// Where `pattern` begins.
fn places<'c>(code: &'c [u8], pattern: &'c [u8]) -> impl Iterator<Item = usize> + 'c {
    let windows = code.windows(pattern.len()).enumerate();
    windows.filter(move |(_, window)| *window == pattern).map(|(at, _)| at)
}

/// Where what `code` begins with ends, if it is one of these.
fn after_any(code: &[u8], beginnings: &[&[u8]]) -> Option<usize> {
    beginnings.iter().find(|beginning| code.starts_with(beginning)).map(|found| found.len())
}

/// The byte there, a distance of some words.
fn word_at(code: &[u8], at: usize) -> Option<i16> {
    let distance = i64::from(code.get(at)?.cast_signed());
    words(distance)
}

fn words(bytes: i64) -> Option<i16> {
    let is_whole = bytes >= 0 && bytes % WORD_BYTES == 0;
    is_whole.then(|| i16::try_from(bytes / WORD_BYTES).ok())?
}

#[cfg(test)]
mod tests;
