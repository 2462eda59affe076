use super::*;
use crate::arch::Register;
use crate::{ArgumentKind, ArgumentLocation, Spec};
use proptest::prelude::*;
use std::io::Cursor;
use syscollect_elf::ReadCache;
use syscollect_fixtures::elf::{CODE, CODE_OFFSET, DATA, DATA_OFFSET, File, note, raw_note};

fn probes(bytes: &[u8]) -> UsdtProbes {
    usdt_probes(bytes).unwrap()
}

fn line() -> Vec<u8> {
    note([CODE + 0x20, 0, DATA + 4], &["python", "line", "8@%rdi -4@112(%rsp)"])
}

#[test]
fn a_probe_is_found_where_it_lies_in_the_file_with_its_semaphore() {
    let found = probes(&File::with_notes(line()).bytes());
    let [probe] = &found.probes[..] else { panic!("{found:?}") };
    assert_eq!((probe.provider.as_str(), probe.name.as_str()), ("python", "line"));
    assert_eq!(probe.offset, CODE_OFFSET + 0x20);
    assert_eq!(probe.semaphore, Some(DATA_OFFSET + 4));
    assert_eq!(
        probe.arguments.iter().map(Argument::describe).collect::<Vec<_>>(),
        ["u64 rdi", "i32 [rsp+112]"]
    );
    assert!(found.warnings.is_empty());
}

#[test]
fn of_providers_that_nobody_wants_nothing_is_told() {
    let senseless = note([CODE + 0x20, 0, 0], &["other", "line", "no argument"]);
    let bytes = File::with_notes([line(), senseless].concat()).bytes();
    let found = usdt_probes_of(&bytes[..], |provider| provider == b"python").unwrap();
    assert_eq!((found.probes.len(), found.warnings.len()), (1, 0));
    assert!(usdt_probes_of(&bytes[..], |_| false).unwrap().probes.is_empty());
}

#[test]
fn a_stream_that_is_read_where_needed_says_the_same_as_the_bytes() {
    let bytes = File::with_notes(line()).bytes();
    let stream = ReadCache::new(Cursor::new(bytes.clone()));
    assert_eq!(usdt_probes(&stream).unwrap(), probes(&bytes));
}

#[test]
fn a_file_without_sections_tells_its_probes_by_its_segment_of_notes() {
    let build_id = raw_note(b"GNU\0", 3, &[7; 20]);
    let file = File { segments: vec![(4, [build_id, line()].concat())], ..File::default() };
    assert_eq!(probes(&file.bytes()).probes.len(), 1);
}

#[test]
fn a_file_that_was_moved_after_its_notes_were_written_has_its_probes_moved() {
    let mut file = File::with_notes(note([0x20, 0x100, 0x4004], &["a", "b", "4@counter(%rip)"]));
    file.sections.push((".stapsdt.base", 1, CODE + 0x100, 0, Vec::new()));
    let found = probes(&file.bytes()).probes;
    assert_eq!((found[0].offset, found[0].semaphore), (CODE_OFFSET + 0x20, Some(DATA_OFFSET + 4)));
}

#[test]
fn a_variable_of_the_file_is_read_by_its_distance_from_the_site() {
    let mut file =
        File::with_symbols(&[("counter", 1, 1, DATA + 8), ("two", 1, 0, 1), ("two", 1, 0, 2)]);
    let arguments = "4@counter(%rip) 4@two(%rip) 4@none(%rip)";
    file.sections.push((".note.stapsdt", 7, 0, 0, note([CODE, 0, 0], &["a", "b", arguments])));
    let found = probes(&file.bytes()).probes;
    let distance = (DATA + 8 - CODE) as i64;
    let place =
        ArgumentLocation::Memory { base: Some(Register::Rip), index: None, offset: distance };
    assert_eq!(found[0].arguments[0].place, place);
    assert!(!found[0].arguments[1].is_supported(), "two variables are so called");
    assert!(!found[0].arguments[2].is_supported());
}

#[test]
fn a_malformed_note_is_a_warning_and_the_others_are_listed() {
    let unfinished = raw_note(b"stapsdt\0", 3, &[[0; 24].as_slice(), b"a\0b\0c"].concat());
    let short = raw_note(b"stapsdt\0", 3, &[0; 7]);
    let nameless = note([CODE, 0, 0], &["", "b", ""]);
    let outside = note([DATA + 1, 0, 0], &["a", "in_data", ""]);
    let no_semaphore = note([CODE, 0, 0x9999], &["a", "lost_semaphore", ""]);
    let many = note([CODE, 0, 0], &["a", "many", &"$1 ".repeat(33)]);
    let notes = [unfinished, short, nameless, outside, no_semaphore, many, line()].concat();
    let found = probes(&File::with_notes(notes).bytes());
    assert_eq!(found.probes.len(), 1);
    assert_eq!(found.warnings.len(), 6, "{:#?}", found.warnings);
    assert!(
        found.warnings[3..]
            .iter()
            .any(|w| w.contains("a:in_data") && w.contains("not in the file's code"))
    );
    assert!(found.warnings.iter().any(|w| w.contains("a:lost_semaphore")));
}

#[test]
fn a_note_whose_code_the_linker_dropped_is_passed_over_without_a_word() {
    let dropped = [0x18, 0, u64::MAX, u64::MAX - 1]
        .map(|site| note([site, 0, 0], &["a", "dropped", ""]))
        .concat();
    let found = probes(&File::with_notes([dropped, line()].concat()).bytes());
    assert_eq!((found.probes.len(), found.warnings.len()), (1, 0), "{:?}", found.warnings);
}

#[test]
fn a_site_that_holds_an_instruction_is_not_probed() {
    for nop in
        [&[0x90][..], &[0x66, 0x90], &[0x0f, 0x1f, 0x44, 0, 0], &[0x66, 0x0f, 0x1f, 0x44, 0, 0]]
    {
        assert_eq!(with_code(nop).probes.len(), 1, "{nop:x?}");
    }
    for other in [&[0x48, 0x89, 0xe5][..], &[0xcc], &[0x0f, 0x0b], &[0x66, 0x66, 0x66, 0x66]] {
        let found = with_code(other);
        assert!(found.probes.is_empty() && found.warnings[0].contains("no nop"), "{other:x?}");
    }
}

/// The probes of a file that has this code at the probe's site.
fn with_code(code: &[u8]) -> UsdtProbes {
    let site = (CODE_OFFSET + 0x20) as usize;
    let mut bytes = File::with_notes(line()).bytes();
    bytes[site..site + code.len()].copy_from_slice(code);
    probes(&bytes)
}

#[test]
fn a_table_that_is_cut_within_a_note_keeps_what_came_before() {
    let mut notes = [line(), line()].concat();
    notes.truncate(notes.len() - 20);
    let found = probes(&File::with_notes(notes).bytes());
    assert_eq!(found.probes.len(), 1);
    assert!(found.warnings[0].contains("note 2 goes past the end"), "{:?}", found.warnings);
}

#[test]
fn a_thousand_damaged_notes_are_not_a_thousand_warnings() {
    let found = probes(&File::with_notes(note([0, 0, 0], &["", "", ""]).repeat(1000)).bytes());
    assert_eq!((found.probes.len(), found.warnings.len()), (0, 21));
    assert!(found.warnings[20].contains("980 more"));
}

#[test]
fn notes_that_two_sections_claim_are_listed_once() {
    let mut file = File::with_notes(line());
    file.sections.push((".note.stapsdt", 7, 0, 0, Vec::new()));
    let mut bytes = file.bytes();
    // The second section's header becomes a copy of the first's.
    let sections = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    bytes.copy_within(sections + 64..sections + 128, sections + 128);
    assert_eq!(probes(&bytes).probes.len(), 1);
}

#[test]
fn what_is_no_program_for_this_machine_is_told_so() {
    assert!(reason(b"").contains("not an ELF file"));
    assert!(reason(b"#!/bin/sh\n").contains("not an ELF file"));
    let mut arm = File::default().bytes();
    arm[18] = 183;
    assert!(reason(&arm).contains("machine 183"));
    let mut object_file = File::default().bytes();
    object_file[16] = 1;
    assert!(reason(&object_file).contains("type 1"));
}

fn reason(bytes: &[u8]) -> String {
    usdt_probes(bytes).unwrap_err().to_string()
}

#[test]
fn a_file_cut_short_names_the_part_that_is_missing() {
    let bytes = File::with_notes(line()).bytes();
    for (length, part) in
        [(40, "header"), (100, "table of segments"), (bytes.len() - 1, "table of sections")]
    {
        let reason = usdt_probes(&bytes[..length]).unwrap_err().to_string();
        assert!(reason.contains(&format!("its {part} cannot be read")), "{reason}");
    }
}

#[test]
fn a_site_or_semaphore_past_the_files_end_is_none() {
    let mut file =
        File::with_notes([note([CODE + 0x100_0000, 0, 0], &["a", "b", ""]), line()].concat())
            .bytes();
    // The segment of code claims to be longer than the file.
    file[64 + 32..64 + 40]
        .copy_from_slice(&u64::MAX.to_le_bytes()[..].iter().map(|b| b >> 1).collect::<Vec<u8>>());
    let found = probes(&file);
    assert_eq!((found.probes.len(), found.warnings.len()), (1, 1), "{found:?}");
}

#[test]
fn arguments_are_called_as_the_user_says_else_as_is_known() {
    let probe = &probes(&File::with_notes(line()).bytes()).probes[0];
    let known = [
        (Some("filename".to_owned()), ArgumentKind::Text),
        (Some("function".to_owned()), ArgumentKind::Text),
    ];
    assert_eq!(names(probe, None), known);
    let Spec::Usdt(selector) = Spec::usdt("python:line(:int,where)").unwrap() else { panic!() };
    let mixed = [
        (Some("filename".to_owned()), ArgumentKind::Integer),
        (Some("where".to_owned()), ArgumentKind::Auto),
    ];
    assert_eq!(names(probe, Some(&selector)), mixed);
}

fn names(
    probe: &UsdtProbe,
    selector: Option<&ProbeSelector>,
) -> Vec<(Option<String>, ArgumentKind)> {
    probe.argument_specs(selector).into_iter().map(|spec| (spec.name, spec.kind)).collect()
}

proptest! {
    #[test]
    fn a_file_with_any_bytes_changed_is_read_or_refused(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..20),
        length in any::<proptest::sample::Index>(),
    ) {
        let mut file = File::with_symbols(&[("counter", 1, 1, DATA + 8)]);
        let variable = note([CODE, 0, 0], &["a", "b", "4@counter(%rip)"]);
        file.sections.push((".note.stapsdt", 7, 0, 0, [line(), variable].concat()));
        let mut bytes = file.bytes();
        for (at, value) in changes {
            // Most of the file is empty code, where nothing can go wrong.
            let at = at.index(bytes.len() - 0xb00);
            bytes[if at < 300 { at } else { at + 0xb00 }] = value;
        }
        let end = length.index(bytes.len() * 4);
        bytes.truncate(end.max(64));
        let _ = usdt_probes(&bytes[..]);
        let _ = (crate::Functions::read(&bytes[..]), crate::soname(&bytes[..]));
    }

    #[test]
    fn any_description_is_a_probe_or_a_warning(
        description in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        let found = probes(&File::with_notes(raw_note(b"stapsdt\0", 3, &description)).bytes());
        prop_assert_eq!(found.probes.len() + found.warnings.len(), 1);
    }
}
