//! Python frames, put in their places among those of machine code.

use rustc_hash::FxHashMap;
use std::ops::Range;
use syscollect_model::Lane;
use syscollect_playback::PythonCodes;
use syscollect_records::python::{CodeHeader, ENTRY, FRAME, ID_SHIFT, PLACE_MASK};

/// A frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StackPlace {
    /// Machine code at an address.
    Address(u64),
    /// A Python function: an offset as [`PythonCodes::offset`] makes it.
    Python(u64),
}

/// What is known of a code object that frames refer to.
#[derive(Clone, Debug)]
struct SentCode {
    row: u32,
    /// Where the interpreter's loop lies in the process: addresses.
    loops: [Range<u64>; 2],
}

/// What code objects are called, by the lane that they were sent in and their ids there.
#[derive(Debug, Default)]
pub(crate) struct SentCodes {
    codes: FxHashMap<(Lane, u32), SentCode>,
}

/// The number of words at the front that are addresses of machine code; the rest are Python frames.
pub(crate) fn machine_frames(words: &[u64]) -> usize {
    words.iter().position(|word| word & FRAME != 0).unwrap_or(words.len())
}

impl SentCodes {
    /// Adds what was sent of a code object; `false` if it cannot be read.
    pub(crate) fn add(&mut self, lane: Lane, bytes: &[u8], codes: &mut PythonCodes) -> bool {
        let read = CodeHeader::from_bytes(bytes)
            .and_then(|header| Some((header, syscollect_cpython::PythonCode::read(bytes)?)));
        let Some((header, code)) = read else { return false };
        let [first, end, cold_first, cold_end] = header.loops;
        let loops = [first..end, cold_first..cold_end];
        let sent = SentCode { row: codes.intern(code), loops };
        // An id is given out once; another one could only be damage.
        self.codes.entry((lane, header.id)).or_insert(sent);
        true
    }

    /// Puts Python frames among those of machine code, both innermost first: behind the call of the
    /// interpreter's loop that runs them. `is_whole`: the last address is the thread's first function.
    pub(crate) fn interleave(
        &self,
        lane: Lane,
        addresses: &[u64],
        python: &[u64],
        is_whole: bool,
        codes: &PythonCodes,
    ) -> Vec<StackPlace> {
        let code = |word: u64| self.codes.get(&(lane, (word >> ID_SHIFT & PLACE_MASK) as u32));
        let loops = python.iter().find_map(|word| code(*word)).map(|code| &code.loops);
        let is_loop = |(index, address): (usize, &u64)| {
            // But for the innermost they are where calls return to.
            let address = address.wrapping_sub(u64::from(index > 0));
            loops.is_some_and(|loops| loops.iter().any(|part| part.contains(&address)))
        };
        let place = |word: &u64| {
            let row = code(*word).map(|code| code.row);
            StackPlace::Python(codes.offset(row, (word & PLACE_MASK) as u32))
        };
        let runs: Vec<bool> = addresses.iter().enumerate().map(is_loop).collect();
        let mut groups = python.split_inclusive(|word| word & ENTRY != 0);
        let mut unmatched = calls_without_frames(&runs, groups.clone().count(), is_whole);
        let mut places = Vec::with_capacity(addresses.len() + python.len());
        for (address, runs) in addresses.iter().zip(runs) {
            if runs && unmatched > 0 {
                unmatched -= 1;
            } else if runs {
                places.extend(groups.next().unwrap_or_default().iter().map(place));
            }
            places.push(StackPlace::Address(*address));
        }
        // Outer frames, where those of machine code are missing.
        places.extend(groups.flatten().map(place));
        places
    }
}

/// How many of the innermost calls of the loop have no frames yet: one that was just entered has
/// none. Only where the stack is whole is it known that the outermost ones belong together.
fn calls_without_frames(runs: &[bool], groups: usize, is_whole: bool) -> usize {
    let calls = runs.iter().filter(|runs| **runs).count();
    if is_whole { calls.saturating_sub(groups) } else { 0 }
}
