//! Python frames, put in their places among those of machine code.

use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;
use syscollect_model::Lane;
use syscollect_playback::PythonCodes;
use syscollect_records::MAX_FRAMES;
use syscollect_records::python::{CodeHeader, ENTRY, FRAME, ID_SHIFT, PLACE_MASK};

/// A frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawFrame {
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

/// What code objects are called, by whose they are and their ids.
#[derive(Debug, Default)]
pub(crate) struct SentCodes {
    codes: FxHashMap<SentId, SentCode>,
}

/// The lane, the process and the code object's id there. Ids come again after 2^24 of them, which
/// somebody may try to reach: with the process they are at most confused with one's own.
type SentId = (Lane, u32, u32);

/// The number of words at the front that are addresses of machine code; the rest are Python frames.
pub(crate) fn machine_frames(words: &[u64]) -> usize {
    words.iter().position(|word| word & FRAME != 0).unwrap_or(words.len())
}

impl SentCodes {
    /// Adds what was sent of a code object; `false` if it cannot be read.
    pub(crate) fn add(
        &mut self,
        (lane, pid): (Lane, u32),
        bytes: &[u8],
        codes: &mut PythonCodes,
    ) -> bool {
        let read = CodeHeader::from_bytes(bytes)
            .and_then(|header| Some((header, syscollect_cpython::PythonCode::read(bytes)?)));
        let Some((header, code)) = read else { return false };
        let [first, end, cold_first, cold_end] = header.loops;
        let loops = [first..end, cold_first..cold_end];
        let sent = SentCode { row: codes.intern(code), loops };
        // An id is given out once; another one could only be damage.
        self.codes.entry((lane, pid, header.id)).or_insert(sent);
        true
    }

    /// Forgets those of processes that are not held.
    pub(crate) fn forget(&mut self, mut is_held: impl FnMut(u32) -> bool) {
        self.codes.retain(|(_, pid, _), _| is_held(*pid));
    }

    /// The rows that are needed.
    pub(crate) fn rows(&self) -> FxHashSet<u32> {
        self.codes.values().map(|code| code.row).collect()
    }

    /// The rows have other numbers.
    pub(crate) fn renumber(&mut self, rows: &FxHashMap<u32, u32>) {
        self.codes.retain(|_, code| rows.get(&code.row).map(|row| code.row = *row).is_some());
    }

    /// The code object of a word of a stack.
    fn code(&self, (lane, pid): (Lane, u32), word: u64) -> Option<&SentCode> {
        self.codes.get(&(lane, pid, (word >> ID_SHIFT & PLACE_MASK) as u32))
    }

    /// Puts Python frames among those of machine code, both innermost first: behind the call of the
    /// interpreter's loop that runs them, the innermost first.
    pub(crate) fn interleave(
        &self,
        (lane, pid): (Lane, u32),
        addresses: &[u64],
        python: &[u64],
        codes: &PythonCodes,
    ) -> Vec<RawFrame> {
        let loops = python.iter().find_map(|word| self.code((lane, pid), *word));
        let loops = loops.map(|code| &code.loops);
        let raw_frame = |word: &u64| {
            let row = self.code((lane, pid), *word).map(|code| code.row);
            RawFrame::Python(codes.offset(row, (word & PLACE_MASK) as u32))
        };
        let runs: Vec<bool> = addresses
            .iter()
            .enumerate()
            .map(|(index, address)| {
                // But for the innermost they are where calls return to.
                let address = address.wrapping_sub(u64::from(index > 0));
                loops.is_some_and(|loops| loops.iter().any(|part| part.contains(&address)))
            })
            .collect();
        let mut groups = python.split_inclusive(|word| word & ENTRY != 0);
        // A call of the loop that has just begun runs no function yet. Others can be more than
        // there are frames for, too: greenlets have machine stacks that go on below theirs.
        let calls = runs.iter().filter(|runs| **runs).count();
        let in_loop = addresses.first().zip(loops);
        let in_loop = in_loop.and_then(|(inner, loops)| inner.checked_sub(loops[0].start));
        let mut just_begun =
            in_loop.is_some_and(|bytes| bytes < BEGINNING_BYTES) && calls > groups.clone().count();
        let mut frames = Vec::with_capacity(addresses.len() + python.len() + 1);
        for (address, runs) in addresses.iter().zip(runs) {
            if runs && !std::mem::take(&mut just_begun) {
                frames.extend(groups.next().unwrap_or_default().iter().map(raw_frame));
            }
            frames.push(RawFrame::Address(*address));
        }
        // Outer frames, where those of machine code are missing.
        frames.extend(groups.flatten().map(raw_frame));
        if python.len() >= MAX_FRAMES && python.last().is_some_and(|word| word & ENTRY == 0) {
            let last =
                frames.iter().rposition(|raw_frame| matches!(raw_frame, RawFrame::Python(_)));
            frames.insert(last.map_or(0, |last| last + 1), RawFrame::Python(PythonCodes::CUT));
        }
        frames
    }
}

/// The loop has its function after so many bytes of its code.
const BEGINNING_BYTES: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::EventStacks;
    use crate::stacks::{Resolver, StackCache, Stacks};
    use RawFrame::{Address, Python};
    use syscollect_model::{
        AddressSpaces, BuildId, LaneKind, Mapping, SessionInfo, Symbol, SymbolFrame, SymbolTable,
        Tables, Ticks,
    };
    use syscollect_records::{StackHeader, Stamp, stack_id, stack_space};

    const LOOP: u64 = 0x1000;
    const COLD: u64 = 0x8000;
    const C: u64 = 0x5000;
    const PID: u32 = 7;

    fn lane() -> Lane {
        Lane::new(LaneKind::SampleStack, 0)
    }

    /// Functions with the ids 1 to 3, of a process whose loop lies at `LOOP`, its cold part at
    /// `COLD`.
    fn sent() -> (SentCodes, PythonCodes) {
        let (mut sent, mut codes) = (SentCodes::default(), PythonCodes::default());
        for (id, name) in [(1, b"one"), (2, b"two"), (3, b"six")] {
            let header = CodeHeader {
                id,
                loops: [LOOP, LOOP + 0x100, COLD, COLD + 0x10],
                name_bytes: 3,
                name_kind: 1,
                version: 11,
                ..CodeHeader::default()
            };
            let bytes = [header.as_bytes(), name, &[0; 5]].concat();
            assert!(sent.add((lane(), PID), &bytes, &mut codes));
        }
        (sent, codes)
    }

    fn frame(id: u64, entry: bool) -> u64 {
        FRAME | id << ID_SHIFT | 4 | if entry { ENTRY } else { 0 }
    }

    fn interleaved(addresses: &[u64], python: &[u64]) -> Vec<RawFrame> {
        let (sent, codes) = sent();
        let frames = sent.interleave((lane(), PID), addresses, python, &codes);
        // By the function's number instead of its offset.
        frames
            .into_iter()
            .map(|raw_frame| match raw_frame {
                Python(offset) => Python(offset >> 32),
                address => address,
            })
            .collect()
    }

    #[test]
    fn functions_lie_below_the_call_of_the_loop_that_runs_them() {
        // C called by Python (two functions in one call of the loop), called by C, by Python.
        let addresses = [C, LOOP + 8, C + 8, COLD + 4, C + 16];
        let python = [frame(3, false), frame(2, true), frame(1, true)];
        let expected = [
            Address(C),
            Python(3),
            Python(2),
            Address(LOOP + 8),
            Address(C + 8),
            Python(1),
            Address(COLD + 4),
            Address(C + 16),
        ];
        assert_eq!(interleaved(&addresses, &python), expected);
    }

    #[test]
    fn a_call_of_the_loop_that_has_just_begun_runs_no_function_yet() {
        let addresses = [LOOP, C, LOOP + 8];
        let expected = [Address(LOOP), Address(C), Python(1), Address(LOOP + 8)];
        assert_eq!(interleaved(&addresses, &[frame(1, true)]), expected);
        // Unless there are functions for all.
        let expected = [Python(2), Address(LOOP), Address(C), Python(1), Address(LOOP + 8)];
        assert_eq!(interleaved(&addresses, &[frame(2, true), frame(1, true)]), expected);
    }

    #[test]
    fn greenlets_functions_are_those_of_the_innermost_calls() {
        // The machine stack goes on to the main program, of whose functions nothing is read.
        let addresses = [C, LOOP + 0x90, C + 8, LOOP + 0x80, C + 16];
        let expected = [
            Address(C),
            Python(2),
            Python(1),
            Address(LOOP + 0x90),
            Address(C + 8),
            Address(LOOP + 0x80),
            Address(C + 16),
        ];
        let python = [frame(2, false), frame(1, true)];
        assert_eq!(interleaved(&addresses, &python), expected);
    }

    #[test]
    fn where_functions_are_missing_a_frame_says_so() {
        let python = [frame(1, false); MAX_FRAMES];
        let frames = interleaved(&[LOOP + 8, C], &python);
        assert_eq!(frames.len(), MAX_FRAMES + 3);
        assert_eq!(frames[MAX_FRAMES - 1..][..3], [Python(1), Python(0), Address(LOOP + 8)]);
    }

    #[test]
    fn where_a_stack_is_cut_pythons_frames_go_on() {
        let python = [frame(2, true), frame(1, false), frame(3, true)];
        let expected = [Address(C), Python(2), Address(LOOP + 4), Python(1), Python(3)];
        assert_eq!(interleaved(&[C, LOOP + 4], &python), expected);
    }

    #[test]
    fn the_byte_before_a_return_address_is_the_callers() {
        // A call at the loop's very end, and one right before its beginning.
        let addresses = [C, LOOP + 0x100, LOOP];
        let expected = [Address(C), Python(1), Address(LOOP + 0x100), Address(LOOP)];
        assert_eq!(interleaved(&addresses, &[frame(1, true)]), expected);
    }

    #[test]
    fn a_function_of_which_nothing_was_sent_is_shown_without_a_name() {
        let expected = [Address(C), Python(0), Python(1), Address(LOOP + 8)];
        let python = [frame(77, false), frame(1, true)];
        assert_eq!(interleaved(&[C, LOOP + 8], &python), expected);
        // Without any that is known it cannot be told where the loop lies.
        let expected = [Address(C), Address(LOOP + 8), Python(0)];
        assert_eq!(interleaved(&[C, LOOP + 8], &python[..1]), expected);
    }

    #[test]
    fn a_code_object_that_was_cut_off_is_not_known() {
        let (mut sent, mut codes) = sent();
        assert!(!sent.add((lane(), PID), &[0; 40], &mut codes));
    }

    #[test]
    fn words_without_the_mark_are_machine_code() {
        assert_eq!(machine_frames(&[C, LOOP, frame(1, true), frame(2, true)]), 2);
        assert_eq!(machine_frames(&[C, LOOP]), 2);
    }

    /// A record of the stack lane.
    fn record(id: u32, space: u16, payload: &[u8]) -> Vec<u8> {
        let header = StackHeader {
            stamp: Stamp(100),
            id,
            tgid: PID,
            frames: (payload.len() / 8) as u16,
            space,
            ..StackHeader::default()
        };
        [header.as_bytes(), payload].concat()
    }

    #[test]
    fn a_function_stands_between_the_loop_and_what_is_inlined_in_the_loop() {
        let mut spaces = AddressSpaces::default();
        spaces.map(Mapping {
            pid: PID,
            start: LOOP,
            end: 0x9000,
            file_offset: LOOP,
            path: "/bin/python3.11".into(),
            build_id: BuildId::default(),
            since: Ticks(0),
        });
        spaces.seal();
        let header = CodeHeader {
            id: 1,
            loops: [LOOP, LOOP + 0x100, 0, 0],
            name_bytes: 4,
            name_kind: 1,
            file_bytes: 6,
            file_kind: 1,
            version: 11,
            ..CodeHeader::default()
        };
        let code = [header.as_bytes(), b"load\0\0\0\0", b"/io.py\0\0"].concat();
        let words = [C, LOOP + 0x98, frame(1, true)].map(u64::to_ne_bytes).concat();
        let data =
            [record(0, stack_space::PYTHON_CODE, &code), record(5, stack_space::USER, &words)];
        let mut stacks = Stacks::new(spaces, Vec::new());
        let read = stacks.read(lane(), Ticks(0), &data.concat(), Ticks(u64::MAX), None);
        assert_eq!((read.stacks, read.cut), (2, false));

        let symbols = vec![symbol(C, &["compress"]), symbol(LOOP + 0x97, &["call", "eval"])];
        let mut resolver = Resolver::new(&SessionInfo::default(), stacks);
        let path = "/bin/python3.11".into();
        resolver.add_names(vec![SymbolTable { path, symbols, ..SymbolTable::default() }]);
        let mut tables = Tables::default();
        let samples = Lane { kind: LaneKind::Sample, ..lane() };
        let stacks = EventStacks { user: 5, kernel: stack_id::NONE, at: Ticks(0) };
        let resolved = resolver.resolve(&mut StackCache::default(), samples, stacks, &mut tables);
        let frames = tables.stack(resolved.stack.unwrap());
        let names = frames.iter().map(|frame| {
            let frame = tables.frame(*frame);
            tables.strings.get(frame.function.unwrap())
        });
        assert_eq!(names.collect::<Vec<_>>(), ["compress", "call", "load (io.py)", "eval"]);
    }

    fn symbol(offset: u64, names: &[&str]) -> Symbol {
        Symbol {
            offset,
            frames: names
                .iter()
                .map(|name| SymbolFrame { function: (*name).into(), ..SymbolFrame::default() })
                .collect(),
            ..Symbol::default()
        }
    }
}
