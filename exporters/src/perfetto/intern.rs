//! Interned data: every name, frame and stack is written once per sequence.

use super::fields::interned;
use crate::proto::Message;
use rustc_hash::FxHashMap;
use syscollect_model::{FrameId, Module, ModuleId, ProcessId, StackId, StringId, Tables};

/// Which ids of one kind were written already.
#[derive(Debug, Default)]
pub(crate) struct WrittenIds {
    words: Vec<u64>,
}

impl WrittenIds {
    /// Notes `id`; whether it is new.
    #[inline]
    pub(crate) fn insert(&mut self, id: u32) -> bool {
        let (word, bit) = (id as usize / 64, 1u64 << (id % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Whether `id` was noted.
    pub(crate) fn contains(&self, id: u32) -> bool {
        self.words.get(id as usize / 64).is_some_and(|word| word >> (id % 64) & 1 == 1)
    }
}

/// Writes an `InternedString`, or any message of the same shape.
pub(crate) fn interned_string(data: &mut Vec<u8>, field: u32, iid: u64, text: &[u8]) {
    Message::new(data).message(field, |message| {
        message.uint(interned::IID, iid);
        message.bytes(interned::STRING, text);
    });
}

/// The id that stands for a string; 0 is no valid interning id.
pub(crate) fn string_iid(id: StringId) -> u64 {
    u64::from(id.0) + 1
}

/// Labels made for unnamed frames share the name space of functions with the strings, above them.
const LABELS: u64 = 1 << 32;
/// Frames that stand for processes, and their names, likewise.
const PROCESSES: u64 = 1 << 33;
/// The mapping of code that belongs to no known file.
const UNKNOWN_MAPPING: u64 = 1;

/// The stacks of one sequence of samples.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    started: bool,
    stacks: WrittenIds,
    /// Stacks that stand on the frame of a process, by their numbers from 1 on.
    rooted: FxHashMap<(ProcessId, StackId), u64>,
    processes: WrittenIds,
    frames: WrittenIds,
    functions: WrittenIds,
    sources: WrittenIds,
    modules: WrittenIds,
    paths: WrittenIds,
}

impl Stacks {
    /// The id that stands for a stack. What a reader needs for it and has not
    /// seen yet is appended to `data`, the fields of an `InternedData`.
    #[inline]
    pub(crate) fn stack(&mut self, id: StackId, tables: &Tables, data: &mut Vec<u8>) -> u64 {
        let iid = u64::from(id.0) + 1;
        if self.stacks.insert(id.0) {
            self.write_stack((iid, id), None, tables, data);
        }
        iid
    }

    /// The same of a stack that stands on a frame of its process. A sequence has stacks of one of
    /// the two kinds.
    #[inline]
    pub(crate) fn rooted_stack(
        &mut self,
        root: ProcessId,
        id: StackId,
        tables: &Tables,
        data: &mut Vec<u8>,
    ) -> u64 {
        if let Some(iid) = self.rooted.get(&(root, id)) {
            return *iid;
        }
        let iid = self.rooted.len() as u64 + 1;
        self.rooted.insert((root, id), iid);
        self.write_stack((iid, id), Some(root), tables, data);
        iid
    }

    #[cold]
    fn write_stack(
        &mut self,
        (iid, id): (u64, StackId),
        root: Option<ProcessId>,
        tables: &Tables,
        data: &mut Vec<u8>,
    ) {
        if !self.started {
            self.started = true;
            self.write_fixed(data);
        }
        if let Some(process) = root.filter(|process| self.processes.insert(process.0)) {
            write_process(process, tables, data);
        }
        let frames = tables.stack(id);
        for frame in frames {
            if self.frames.insert(frame.0) {
                self.write_frame(*frame, tables, data);
            }
        }
        Message::new(data).message(interned::CALLSTACKS, |message| {
            message.uint(interned::IID, iid);
            // Not packed: trace_processor does not read packed frame ids.
            if let Some(process) = root {
                message.uint(interned::CALLSTACK_FRAME_IDS, PROCESSES + u64::from(process.0));
            }
            // The model's stacks begin with the innermost frame, Perfetto's with the outermost.
            for frame in frames.iter().rev() {
                message.uint(interned::CALLSTACK_FRAME_IDS, u64::from(frame.0) + 1);
            }
        });
    }

    /// The unknown mapping.
    fn write_fixed(&mut self, data: &mut Vec<u8>) {
        interned_string(data, interned::MAPPING_PATHS, LABELS, b"[unknown]");
        Message::new(data).message(interned::MAPPINGS, |message| {
            message.uint(interned::IID, UNKNOWN_MAPPING);
            message.uint(interned::MAPPING_PATH_STRING_IDS, LABELS);
        });
    }

    fn write_frame(&mut self, id: FrameId, tables: &Tables, data: &mut Vec<u8>) {
        let frame = tables.frame(id);
        let mapping =
            frame.module.map_or(UNKNOWN_MAPPING, |module| self.mapping(module, tables, data));
        let function = match frame.function {
            Some(name) => self.function(name, tables, data),
            None => {
                let iid = LABELS + u64::from(id.0);
                interned_string(
                    data,
                    interned::FUNCTION_NAMES,
                    iid,
                    tables.frame_label(id).as_bytes(),
                );
                iid
            }
        };
        if let Some(file) = frame.file
            && self.sources.insert(file.0)
        {
            interned_string(
                data,
                interned::SOURCE_PATHS,
                string_iid(file),
                tables.strings.get(file).as_bytes(),
            );
        }
        Message::new(data).message(interned::FRAMES, |message| {
            message.uint(interned::IID, u64::from(id.0) + 1);
            message.uint(interned::FRAME_FUNCTION_NAME_ID, function);
            message.uint(interned::FRAME_MAPPING_ID, mapping);
            message.uint(interned::FRAME_REL_PC, frame.offset);
            if let Some(file) = frame.file {
                message.uint(interned::FRAME_SOURCE_PATH_IID, string_iid(file));
                message.uint(interned::FRAME_LINE_NUMBER, u64::from(frame.line));
            }
        });
    }

    fn function(&mut self, name: StringId, tables: &Tables, data: &mut Vec<u8>) -> u64 {
        if self.functions.insert(name.0) {
            interned_string(
                data,
                interned::FUNCTION_NAMES,
                string_iid(name),
                tables.strings.get(name).as_bytes(),
            );
        }
        string_iid(name)
    }

    fn mapping(&mut self, id: ModuleId, tables: &Tables, data: &mut Vec<u8>) -> u64 {
        let iid = UNKNOWN_MAPPING + 1 + u64::from(id.0);
        if self.modules.insert(id.0) {
            let Module { path, build_id, .. } = tables.module(id);
            if self.paths.insert(path.0) {
                interned_string(
                    data,
                    interned::MAPPING_PATHS,
                    string_iid(*path),
                    tables.strings.get(*path).as_bytes(),
                );
            }
            if !build_id.is_empty() {
                interned_string(data, interned::BUILD_IDS, iid, build_id.as_bytes());
            }
            Message::new(data).message(interned::MAPPINGS, |message| {
                message.uint(interned::IID, iid);
                if !build_id.is_empty() {
                    message.uint(interned::MAPPING_BUILD_ID, iid);
                }
                message.uint(interned::MAPPING_PATH_STRING_IDS, string_iid(*path));
            });
        }
        iid
    }
}

/// The frame that stands for a process.
fn write_process(id: ProcessId, tables: &Tables, data: &mut Vec<u8>) {
    let (iid, row) = (PROCESSES + u64::from(id.0), tables.process(id));
    let name = format!("{} ({})", tables.strings.get(row.name), row.pid);
    interned_string(data, interned::FUNCTION_NAMES, iid, name.as_bytes());
    Message::new(data).message(interned::FRAMES, |message| {
        message.uint(interned::IID, iid);
        message.uint(interned::FRAME_FUNCTION_NAME_ID, iid);
        message.uint(interned::FRAME_MAPPING_ID, UNKNOWN_MAPPING);
        message.uint(interned::FRAME_REL_PC, 0);
    });
}
