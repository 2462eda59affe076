//! Files that others made, compared with what `readelf` says of them. A file that
//! this machine lacks is passed over.
#![allow(clippy::unwrap_used, reason = "what readelf prints is what these tests expect")]

use std::path::Path;
use std::process::Command;
use syscollect_probes::{ArgumentLocation, Functions, Returns, UsdtProbe, soname, usdt_probes};

const FILES: [&str; 4] = [
    "/usr/bin/python3.11",
    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
    "/usr/lib/postgresql/15/bin/postgres",
    "/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so",
];

/// Provider, name, site address, semaphore address and arguments, as `readelf` has them.
type Line = (String, String, u64, u64, String);

fn readelf(path: &str) -> Option<Vec<Line>> {
    let output = Command::new("readelf").arg("-n").arg(path).env("LC_ALL", "C").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = Vec::<Line>::new();
    for line in text.lines().map(str::trim) {
        let last = lines.last_mut();
        match (line.split_once(": "), last) {
            (Some(("Provider", provider)), _) => {
                lines.push((provider.to_owned(), String::new(), 0, 0, String::new()));
            }
            (Some(("Name", name)), Some(last)) if last.1.is_empty() => last.1 = name.to_owned(),
            (Some(("Location", addresses)), Some(last)) => {
                let (site, rest) = addresses.split_once(',').unwrap();
                last.2 = number(site);
                last.3 = number(rest.rsplit_once("Semaphore: ").unwrap().1);
            }
            (Some(("Arguments", arguments)), Some(last)) => last.4 = arguments.to_owned(),
            _ => {}
        }
    }
    Some(lines)
}

fn number(text: &str) -> u64 {
    u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).unwrap()
}

fn each_file(mut check: impl FnMut(&str, &[u8])) {
    for path in FILES.iter().filter(|path| Path::new(path).exists()) {
        check(path, &std::fs::read(path).unwrap());
    }
}

#[test]
fn every_probe_that_readelf_lists_is_found_with_all_its_arguments() {
    each_file(|path, bytes| {
        let found = usdt_probes(bytes).unwrap();
        assert_eq!(found.warnings, Vec::<String>::new(), "{path}");
        let Some(expected) = readelf(path) else { return };
        assert_eq!(found.probes.len(), expected.len(), "{path}");
        for (probe, (provider, name, _, semaphore, arguments)) in found.probes.iter().zip(&expected)
        {
            assert_eq!((&probe.provider, &probe.name), (provider, name), "{path}");
            assert_eq!(probe.semaphore.is_some(), *semaphore != 0, "{path} {name}");
            assert_eq!(
                probe.arguments.len(),
                arguments.split_whitespace().count(),
                "{path} {name}"
            );
        }
        let unsupported =
            found.probes.iter().flat_map(|probe| &probe.arguments).filter(|a| !a.is_supported());
        assert_eq!(unsupported.count(), 0, "{path}");
    });
}

#[test]
fn every_argument_prints_as_the_note_has_it_but_for_the_forms_of_numbers() {
    each_file(|path, bytes| {
        let Some(expected) = readelf(path) else { return };
        // Where a variable lies, only the file's symbols tell.
        for (probe, (.., text)) in usdt_probes(bytes).unwrap().probes.iter().zip(&expected) {
            for (argument, text) in probe
                .arguments
                .iter()
                .zip(text.split_whitespace())
                .filter(|(_, text)| !text.contains("%rip"))
            {
                let printed = argument.to_string();
                // A note may leave out an offset of 0 and a scale of 1, and name a register wider
                // than the value.
                let is_plain = matches!(
                    &argument.place,
                    ArgumentLocation::Memory { offset: 1.., index: None, .. }
                );
                assert!(printed == text || !is_plain, "{path}: {text} became {printed}");
                assert_eq!(
                    &text.parse::<syscollect_probes::Argument>().unwrap(),
                    argument,
                    "{path}: {text}"
                );
            }
        }
    });
}

/// The site is one byte of code, which the compiler left empty: a `nop`.
#[test]
fn every_offset_is_that_of_a_nop_and_every_semaphore_is_zero() {
    each_file(|path, bytes| {
        for UsdtProbe { name, offset, semaphore, .. } in usdt_probes(bytes).unwrap().probes {
            assert_eq!(bytes[offset as usize], 0x90, "{path}: {name}");
            if let Some(at) = semaphore.map(|at| at as usize) {
                assert_eq!(bytes[at..at + 2], [0, 0], "{path}: {name}");
            }
        }
    });
}

#[test]
fn a_librarys_functions_and_its_own_name_are_found() {
    each_file(|path, bytes| {
        if !path.contains("libstdc++") {
            return;
        }
        assert_eq!(soname(bytes).unwrap().as_deref(), Some("libstdc++.so.6"));
        let functions = Functions::read(bytes).unwrap();
        let push = functions.matching(&"std::string::push_back".parse().unwrap(), 10);
        let names: Vec<_> = push.into_iter().flatten().map(|function| function.name).collect();
        assert!(names.iter().any(|name| name.contains("push_back")), "{names:?}");
        let throw = &functions.matching(&"__cxa_throw".parse().unwrap(), 10).unwrap()[0];
        assert_eq!(
            functions.returns(bytes, throw),
            Ok(Returns::At(Vec::new())),
            "it never returns"
        );
    });
}

/// Of compilers' code nearly all is understood. What cannot be told is not guessed: an end is
/// always an instruction that is one, by its first byte.
#[test]
fn where_the_functions_of_a_library_end_is_known_of_nearly_all() {
    for name in ["libc.so.6", "libstdc++.so.6", "libm.so.6", "libpthread.so.0"] {
        let Ok(bytes) = std::fs::read(format!("/usr/lib/x86_64-linux-gnu/{name}")) else {
            continue;
        };
        let Ok(functions) = Functions::read(&bytes[..]) else { continue };
        let (mut all, mut known) = (0, 0);
        for function in functions.all().filter(|function| function.size > 0) {
            all += 1;
            if let Ok(Returns::At(exits)) = functions.returns(&bytes[..], &function) {
                known += 1;
                for exit in &exits {
                    let first = bytes[*exit as usize];
                    let is_end =
                        matches!(first, 0xc2 | 0xc3 | 0xf2 | 0xf3 | 0xe9 | 0xeb | 0xff | 0x41);
                    assert!(is_end, "{name}: {}: {exits:x?}", function.name);
                }
            }
        }
        assert!(known * 100 >= all * 95, "{name}: {known} of {all}");
    }
}
