//! `cargo xtask layouts`: the C header of the record layouts.
//!
//! The Rust structures of `syscollect-records` are the only definition; the
//! header repeats them for the kernel programs and asserts every size and
//! offset, so a disagreement is a compile error on one side or the other.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, bail};
use syscollect_records::{CONSTANTS, LAYOUTS, RecordKind, StructLayout};

use crate::process::root;

const HEADER: &str = "bpf/include/records.h";

/// Columns of a line.
const WIDTH: usize = 100;

/// Writes the header, or with `check` compares it with the committed one.
pub(crate) fn run(check: bool) -> Result<()> {
    let path = root().join(HEADER);
    let wanted = header();
    if !check {
        fs::write(&path, wanted).with_context(|| format!("cannot write {}", path.display()))?;
        return Ok(());
    }
    let present = fs::read_to_string(&path)
        .with_context(|| format!("cannot read {HEADER}; `cargo xtask layouts` writes it"))?;
    if present != wanted {
        bail!(
            "{HEADER} does not match bpf/records/src; run `cargo xtask layouts` and commit the \
             result"
        );
    }
    Ok(())
}

/// The whole header.
fn header() -> String {
    let mut out = String::from(
        "/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */\n\
         /* Generated from bpf/records/src by `cargo xtask layouts`; do not edit. */\n\
         /* The includer defines __u8, __u16, __u32 and __u64. */\n\
         #ifndef SYSCOLLECT_RECORDS_H\n#define SYSCOLLECT_RECORDS_H\n\n",
    );
    out.push_str("/* What a record describes: the low byte of its stamp. */\nenum record_kind {\n");
    for (kind, name) in RecordKind::ALL {
        let _ = writeln!(out, "\tKIND_{} = {},", name.to_uppercase(), *kind as u8);
    }
    out.push_str("};\n\n");
    for (name, value) in CONSTANTS {
        let suffix = if *value > i32::MAX as u64 { "U" } else { "" };
        let _ = writeln!(out, "#define {name} {value}{suffix}");
    }
    for layout in LAYOUTS {
        structure(&mut out, layout);
    }
    out.push_str("\n#endif /* SYSCOLLECT_RECORDS_H */\n");
    out
}

fn structure(out: &mut String, layout: &StructLayout) {
    let name = layout.name;
    let _ = writeln!(out, "\nstruct {name} {{");
    for field in layout.fields {
        let _ = writeln!(out, "\t{};", field.c_type);
    }
    let _ = writeln!(
        out,
        "}};\n_Static_assert(sizeof(struct {name}) == {}, \"size of {name}\");",
        layout.size
    );
    for field in layout.fields {
        let (field, offset) = (field.name, field.offset);
        let condition = format!("__builtin_offsetof(struct {name}, {field}) == {offset}");
        let one_line = format!("_Static_assert({condition}, \"{name}.{field}\");");
        let _ = match one_line.len() <= WIDTH {
            true => writeln!(out, "{one_line}"),
            false => writeln!(out, "_Static_assert({condition},\n\t       \"{name}.{field}\");"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::header;

    #[test]
    fn the_header_states_kinds_sizes_and_offsets() {
        let header = header();
        for line in [
            "\tKIND_SWITCH = 1,",
            "#define STACK_LOST 4294967295U",
            "struct TaskRecord {",
            "\t__u8 comm[16];",
            "_Static_assert(sizeof(struct TaskRecord) == 56, \"size of TaskRecord\");",
            "_Static_assert(__builtin_offsetof(struct TaskRecord, comm) == 24, \
             \"TaskRecord.comm\");",
        ] {
            assert!(header.lines().any(|present| present == line), "no line {line:?}");
        }
    }

    #[test]
    fn the_committed_header_is_fresh() {
        super::run(true).unwrap();
    }
}
