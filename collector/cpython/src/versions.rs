//! Where the structures of each version lie.
//!
//! 3.8 to 3.12: `offsetof` over the headers of CPython's releases for x86-64, built without
//! `--with-pydebug`. From 3.13 on `_PyRuntime` begins with a table of them (`_Py_DebugOffsets`,
//! Include/internal/pycore_runtime.h, from 3.14 on pycore_debug_offsets.h).

use crate::PythonFileError;
use syscollect_records::python::{
    CODE_BYTES, FRAME_BYTES, PythonFile, entry_rule, instruction_rule,
};

/// Stands for `PythonFile::kept_frame` where a thread has its frame itself.
const IN_THREAD: u16 = 0xffff;

/// What versions before 3.12 share.
const FIRST: PythonFile = PythonFile {
    runtime: 0,
    code_type: 0,
    loops: [0; 4],
    interpreter: 40,
    threads: 8,
    thread_next: 8,
    thread_id: 176,
    thread_frame: 24,
    kept_frame: IN_THREAD,
    frame_bytes: 112,
    frame_code: 32,
    frame_previous: 24,
    frame_instruction: 104,
    frame_entry: 0,
    code_bytes: 128,
    code_first_line: 40,
    code_file: 104,
    code_name: 112,
    code_lines: 120,
    code_instructions: 0,
    text_length: 16,
    text_state: 32,
    text_ascii: 48,
    text_other: 72,
    bytes_length: 16,
    bytes_data: 32,
    object_type: 8,
    version: 8,
    entry: entry_rule::EACH,
    instruction: instruction_rule::BYTES,
    text_kind: 2,
};

const VERSION_9: PythonFile = PythonFile { version: 9, ..FIRST };

const VERSION_10: PythonFile = PythonFile {
    frame_instruction: 96,
    version: 10,
    instruction: instruction_rule::WORDS,
    ..FIRST
};

const VERSION_11: PythonFile = PythonFile {
    interpreter: 48,
    threads: 16,
    thread_id: 152,
    thread_frame: 56,
    kept_frame: 8,
    frame_bytes: 72,
    frame_previous: 48,
    frame_instruction: 56,
    frame_entry: 68,
    code_bytes: 144,
    code_first_line: 72,
    code_file: 112,
    code_name: 128,
    code_lines: 136,
    code_instructions: 184,
    version: 11,
    entry: entry_rule::FLAG,
    instruction: instruction_rule::ADDRESS,
    ..FIRST
};

const VERSION_12: PythonFile = PythonFile {
    threads: 72,
    thread_id: 136,
    kept_frame: 0,
    frame_code: 0,
    frame_previous: 8,
    frame_entry: 70,
    code_first_line: 68,
    code_instructions: 192,
    text_ascii: 40,
    text_other: 56,
    version: 12,
    entry: entry_rule::OWNER,
    ..VERSION_11
};

/// What is known of a version, from 3.8 to 3.12.
pub(crate) fn known(minor: u8) -> Option<PythonFile> {
    Some(match minor {
        8 => FIRST,
        9 => VERSION_9,
        10 => VERSION_10,
        11 => VERSION_11,
        12 => VERSION_12,
        _ => return None,
    })
}

/// What `_PyRuntime` begins with from 3.13 on.
const COOKIE: &[u8; 8] = b"xdebugpy";
/// Words of the table up to what is needed of it, in any version.
pub(crate) const TABLE_BYTES: usize = 96 * 8;
/// A structure that is larger than this is none; the largest, the interpreter's, has some 300 KB.
const OFFSET_MAX: u64 = 1 << 24;

/// Which words of the table begin a structure's part: its first word is the structure's size.
struct Parts {
    runtime: usize,
    interpreter: usize,
    thread: usize,
    frame: usize,
    code: usize,
    object: usize,
    bytes: usize,
    text: usize,
}

const PARTS_13: Parts = Parts {
    runtime: 3,
    interpreter: 6,
    thread: 19,
    frame: 28,
    code: 34,
    object: 44,
    bytes: 64,
    text: 67,
};
const PARTS_14: Parts = Parts {
    runtime: 3,
    interpreter: 6,
    thread: 22,
    frame: 31,
    code: 39,
    object: 50,
    bytes: 74,
    text: 77,
};

/// Whether these bytes of `_PyRuntime` are a table of offsets.
pub(crate) fn is_table(bytes: &[u8]) -> bool {
    bytes.starts_with(COOKIE)
}

/// What the table says.
pub(crate) fn from_table(bytes: &[u8]) -> Result<PythonFile, PythonFileError> {
    let table = Table(bytes.as_chunks().0);
    // PY_VERSION_HEX.
    let minor = (table.word(1) >> 16) as u8;
    let is_free_threaded = table.word(2) == 1;
    let parts = match minor {
        13 => PARTS_13,
        14 => PARTS_14,
        _ => return Err(PythonFileError::UnknownVersion(minor)),
    };
    let frame = table.within(parts.frame, [1, 2, 3, 5], FRAME_BYTES)?;
    let [kind] = table.within(parts.object, [1], CODE_BYTES)?;
    let [file, name, lines, first_line] = table.within(parts.code, [1, 3, 4, 5], CODE_BYTES)?;
    let code = [file, name, lines, first_line, kind];
    let ascii = table.offset(parts.text, 3)?;
    Ok(PythonFile {
        // Behind the first of the list lies the pointer to the main one.
        interpreter: table.wide(parts.runtime, 2)? + 8,
        threads: table.wide(parts.interpreter, 3)?,
        thread_next: table.offset(parts.thread, 2)?,
        thread_id: table.offset(parts.thread, 5)?,
        thread_frame: table.offset(parts.thread, 4)?,
        kept_frame: IN_THREAD,
        frame_bytes: end(&frame),
        frame_previous: frame[0],
        frame_code: frame[1],
        frame_instruction: frame[2],
        frame_entry: frame[3],
        code_bytes: end(&code),
        code_file: code[0],
        code_name: code[1],
        code_lines: code[2],
        code_first_line: code[3],
        code_instructions: table.offset(parts.code, 9)?,
        text_length: table.offset(parts.text, 2)?,
        text_state: table.offset(parts.text, 1)?,
        text_ascii: ascii,
        // Two more words: the length of its UTF-8 form and where that lies.
        text_other: ascii.checked_add(16).ok_or(PythonFileError::BadOffsets)?,
        bytes_length: table.offset(parts.bytes, 1)?,
        bytes_data: table.offset(parts.bytes, 2)?,
        object_type: code[4],
        version: minor,
        entry: entry_rule::OWNER,
        instruction: instruction_rule::ADDRESS,
        // Without a global lock whether a string is interned has a byte of its own (3.14).
        text_kind: if minor >= 14 && is_free_threaded { 8 } else { 2 },
        ..FIRST
    })
}

/// The numbers of the table, 8 bytes each.
struct Table<'a>(&'a [[u8; 8]]);

impl Table<'_> {
    /// The largest number where there is none.
    fn word(&self, index: usize) -> u64 {
        self.0.get(index).map_or(u64::MAX, |word| u64::from_le_bytes(*word))
    }

    fn wide(&self, part: usize, field: usize) -> Result<u32, PythonFileError> {
        match self.word(part + field) {
            offset if offset < OFFSET_MAX => Ok(offset as u32),
            _ => Err(PythonFileError::BadOffsets),
        }
    }

    fn offset(&self, part: usize, field: usize) -> Result<u16, PythonFileError> {
        u16::try_from(self.wide(part, field)?).map_err(|_| PythonFileError::BadOffsets)
    }

    /// Offsets within the first `bytes` bytes of what they are of: each is read with what lies
    /// before it.
    fn within<const N: usize>(
        &self,
        part: usize,
        fields: [usize; N],
        bytes: usize,
    ) -> Result<[u16; N], PythonFileError> {
        let mut offsets = [0; N];
        for (offset, field) in offsets.iter_mut().zip(fields) {
            *offset = self.offset(part, field)?;
            if usize::from(*offset) + 8 > bytes {
                return Err(PythonFileError::BadOffsets);
            }
        }
        Ok(offsets)
    }
}

fn end(offsets: &[u16]) -> u16 {
    offsets.iter().max().map_or(0, |last| last + 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with each part's offset where its field is: `part * 8 + field`.
    fn table(minor: u64, words: usize) -> Vec<u8> {
        let mut table = vec![0_u64; words];
        table[0] = u64::from_le_bytes(*COOKIE);
        table[1] = 3 << 24 | minor << 16 | 0xf0;
        table.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn set(table: &mut [u8], word: usize, value: u64) {
        table[word * 8..][..8].copy_from_slice(&value.to_le_bytes());
    }

    #[test]
    fn a_table_says_where_structures_lie() {
        let mut made = table(13, 96);
        assert!(is_table(&made));
        for (word, value) in [(5, 632), (9, 7344), (21, 8), (24, 152), (23, 72), (29, 8), (33, 70)]
        {
            set(&mut made, word, value);
        }
        for (word, value) in [(31, 56), (35, 112), (37, 128), (38, 136), (39, 68), (43, 200)] {
            set(&mut made, word, value);
        }
        for (word, value) in [(45, 8), (65, 16), (66, 32), (68, 32), (69, 16), (70, 40)] {
            set(&mut made, word, value);
        }
        let expected = PythonFile {
            interpreter: 640,
            threads: 7344,
            thread_id: 152,
            thread_frame: 72,
            kept_frame: IN_THREAD,
            frame_bytes: 78,
            code_instructions: 200,
            version: 13,
            ..VERSION_12
        };
        assert_eq!(from_table(&made).unwrap(), expected);
    }

    #[test]
    fn offsets_that_no_structure_has_and_versions_of_the_future_are_refused() {
        let mut made = table(14, 96);
        assert!(from_table(&made).is_ok());
        set(&mut made, 32, FRAME_BYTES as u64 - 7);
        assert!(matches!(from_table(&made), Err(PythonFileError::BadOffsets)));
        assert!(matches!(from_table(&table(15, 96)), Err(PythonFileError::UnknownVersion(15))));
        assert!(from_table(&table(13, 20)).is_err());
    }
}
