//! What is kept of a tracepoint's record.

use syscollect_store::{TracepointField, TracepointFieldKind};

use super::format::Format;

/// Records are kept to this, as bpf/src/tracepoints.bpf.c has it.
const MOST_BYTES: usize = 256;
/// What is kept of the strings behind the fixed part: names of drivers and timelines.
const TEXT_BYTES: usize = 96;

/// The part of a record that is kept: to the end of its last text, as far as that lies within
/// `most_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordPrefix {
    /// Bytes at most, a multiple of 8.
    pub(super) most_bytes: u64,
    /// Where it says where the last string lies; 0 where there are no strings.
    pub(super) text_at: u64,
    /// What that place counts from.
    pub(super) text_base: u64,
}

impl RecordPrefix {
    /// Of records of this format.
    pub(super) fn of(format: &Format) -> Self {
        let last = format.last_text();
        let text_bytes = if last.is_some() { TEXT_BYTES } else { 0 };
        let most_bytes =
            (format.fixed_bytes() + text_bytes).next_multiple_of(8).clamp(8, MOST_BYTES) as u64;
        let reported =
            last.map(place_of).filter(|(at, _)| at.is_multiple_of(4) && at + 4 <= most_bytes);
        let (text_at, text_base) = reported.unwrap_or_default();
        Self { most_bytes, text_at, text_base }
    }
}

/// Where a field lies; a text lies behind what says where it does.
fn place_of(field: &TracepointField) -> (u64, u64) {
    let at = u64::from(field.offset);
    let base = if field.kind == TracepointFieldKind::TextRelative { at + 4 } else { 0 };
    (at, base)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(fields: &str) -> (u64, u64, u64) {
        let RecordPrefix { most_bytes, text_at, text_base } =
            RecordPrefix::of(&Format::parse(&format!("ID: 1\n{fields}")).unwrap());
        (most_bytes, text_at, text_base)
    }

    #[test]
    fn a_record_without_texts_is_kept_whole() {
        assert_eq!(kept("\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n"), (16, 0, 0));
        assert_eq!(kept("\tfield:char a[400];\toffset:8;\tsize:400;\tsigned:0;\n"), (256, 0, 0));
        assert_eq!(kept(""), (8, 0, 0));
    }

    #[test]
    fn a_record_with_texts_is_kept_to_the_end_of_the_last() {
        let two = text("driver", 8, "__data_loc") + &text("timeline", 12, "__data_loc");
        assert_eq!(kept(&two), (112, 12, 0));
        assert_eq!(kept(&text("name", 16, "__rel_loc")), (120, 16, 20));
        assert_eq!(
            kept(&text("far", 256, "__data_loc")),
            (256, 0, 0),
            "what is told beyond the kept part"
        );
    }

    fn text(name: &str, offset: i32, kind: &str) -> String {
        format!("\tfield:{kind} char[] {name};\toffset:{offset};\tsize:4;\tsigned:0;\n")
    }
}
