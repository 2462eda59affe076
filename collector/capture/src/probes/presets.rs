//! Calls of GPU libraries as zones, and presents as frames: what `record --gpu` adds to the probes
//! asked for.
//!
//! Which functions, and what to read of them, is known to `syscollect-probes`. Here a library is
//! recognised by the name it gives itself, wherever it lies, in each file that is looked into
//! anyway; those in the usual folders are looked into at the start, so that a program that loads
//! one later finds it attached.
//!
//! These functions are mostly a few instructions that jump to the driver: where they return is
//! noticed by their return address, unless they have returns of their own. What a library exports
//! is not all that programs call: see `lookups`.

use std::path::{Path, PathBuf};
use syscollect_untrusted_files::{FileLocation, Reader};

use rustc_hash::FxHashSet;
use syscollect_elf::ReadCache;
use syscollect_probes::{
    Argument, ArgumentLocation, Function, FunctionPreset, Functions, LibraryPreset, Parameter,
    Register, Returns, library_presets,
};
use syscollect_store::{ProbeArgument, ProbeDefinition, ProbeRole};

use crate::arch::LIBRARIES;

use super::files::{FileKey, OpenFile};
use super::lookups::{ANSWER, KnownFunction, OF_LOOKUP};
use super::plan::{Plan, Planned, Planner};
use super::program::StringReading;

/// Pairs of these functions have this bit, so that they are none of zones and other functions.
const PRESETS_PAIR: u32 = 1 << 30;

/// Where GPU libraries lie, first in the folders of this CPU below these,
const PARENTS: [&str; 3] = ["usr/lib", "lib", "usr/local/lib"];
/// then here.
const FOLDERS: [&str; 9] = [
    "usr/lib64",
    "lib64",
    "usr/local/lib",
    "usr/lib",
    "lib",
    "usr/lib/wsl/lib",
    "usr/local/cuda/lib64",
    "opt/rocm/lib",
    "run/opengl-driver/lib",
];
/// More entries than any such folder has.
const ENTRIES_MAX: usize = 100_000;
/// Files of one machine that are looked into, and versions of one library among them.
const INSTALLED_MAX: usize = 64;

/// The preset of the library with this file name and soname.
pub(super) fn preset_of(path: &Path, soname: Option<&str>) -> Option<&'static LibraryPreset> {
    let file_name = path.file_name().and_then(|name| name.to_str());
    let names = [soname, file_name];
    library_presets().find(|preset| names.iter().flatten().any(|name| preset.is_of(name)))
}

/// The libraries of presets in the usual folders below `root`, each file once.
#[expect(
    clippy::disallowed_methods,
    reason = "folders of the system; the files are opened as any that a program names"
)]
pub(crate) fn installed_libraries(root: &Path) -> Vec<(&'static LibraryPreset, PathBuf)> {
    let (mut found, mut folders, mut files) =
        (Vec::new(), FxHashSet::default(), FxHashSet::default());
    let of_this_cpu = PARENTS.map(|parent| root.join(parent).join(LIBRARIES));
    for folder in of_this_cpu.into_iter().chain(FOLDERS.map(|folder| root.join(folder))) {
        // Some of them are the same one.
        if !std::fs::canonicalize(&folder).is_ok_and(|real| folders.insert(real)) {
            continue;
        }
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten().take(ENTRIES_MAX) {
            let name = entry.file_name();
            let preset =
                name.to_str().and_then(|name| library_presets().find(|preset| preset.is_of(name)));
            let Some(preset) = preset.filter(|_| found.len() < INSTALLED_MAX) else { continue };
            if std::fs::canonicalize(entry.path()).is_ok_and(|real| files.insert(real)) {
                found.push((preset, entry.path()));
            }
        }
    }
    found
}

/// How many functions of a preset a file exports; why that cannot be told.
pub(crate) fn functions_in(preset: &LibraryPreset, path: &Path) -> Result<usize, String> {
    let file = OpenFile::at(&FileLocation::Named(path), None).map_err(|error| error.to_string())?;
    let cache = ReadCache::new(file.file.reader());
    let functions = Functions::read(&cache).map_err(|error| error.to_string())?;
    Ok(functions.called(|symbol| preset.function(symbol).is_some()).count())
}

/// What a preset asks for in a file.
struct PresetFunctions {
    functions: Vec<(&'static FunctionPreset, Function, Returns)>,
    lookups: Vec<(Function, Parameter)>,
}

/// What a preset asks for in a file; what to tell the user if that is nothing.
fn wanted(preset: &LibraryPreset, cache: &ReadCache<Reader>) -> Result<PresetFunctions, String> {
    let all = Functions::read(cache).map_err(|error| error.to_string())?;
    let called = all.called(|symbol| preset.function(symbol).is_some());
    let found = called.filter_map(|function| {
        let returns = all.returns_to_caller(cache, &function);
        let preset = preset.function(&function.symbol)?;
        Some((preset, function.past_callable_nop(cache), returns))
    });
    let functions: Vec<_> = found.collect();
    if functions.is_empty() {
        return Err("it exports none of the functions that are known".to_owned());
    }
    let lookups = all.called(|symbol| preset.lookup(symbol).is_some());
    let lookups = lookups.filter_map(|function| {
        let name = preset.lookup(&function.symbol)?;
        Some((function.past_callable_nop(cache), name))
    });
    Ok(PresetFunctions { functions, lookups: lookups.collect() })
}

impl Planner {
    /// Adds what a preset asks for in its library at `path`; what to tell the user if that is
    /// nothing.
    pub(super) fn preset(
        &mut self,
        preset: &LibraryPreset,
        (key, path): (FileKey, &str),
        cache: &ReadCache<Reader>,
        plan: &mut Plan,
    ) -> Option<String> {
        let found = match wanted(preset, cache) {
            Ok(found) => found,
            Err(why) => {
                return Some(format!("{path}: calls of {} are not recorded: {why}", preset.track));
            }
        };
        // What the user asked for by name goes before.
        let taken: FxHashSet<u64> = plan.points.iter().map(|point| point.offset).collect();
        for (known, function, returns) in found.functions {
            self.presets.insert((key, function.offset));
            if !taken.contains(&function.offset) {
                self.preset_function(
                    (preset.track, path),
                    (known, &function.name, function.offset),
                    &returns,
                    plan,
                );
            }
        }
        for (lookup, name) in
            found.lookups.iter().filter(|(lookup, _)| !taken.contains(&lookup.offset))
        {
            self.lookup((preset.track, path), lookup, *name, plan);
        }
        None
    }

    /// Whether a function of a preset that the file exports begins there.
    pub(super) fn is_preset(&self, key: FileKey, offset: u64) -> bool {
        self.presets.contains(&(key, offset))
    }

    /// Adds a function that a program was given the address of.
    pub(super) fn found_function(
        &mut self,
        (track, known): KnownFunction,
        path: &str,
        offset: u64,
        plan: &mut Plan,
    ) {
        // Nothing tells how long it is, so where it returns by itself is not known.
        self.preset_function((track, path), (known, known.name, offset), &Returns::ByAddress, plan);
    }

    /// Adds a function that returns addresses of functions: what it is asked for, and what it
    /// answers.
    fn lookup(
        &mut self,
        place: (&str, &str),
        function: &Function,
        name: Parameter,
        plan: &mut Plan,
    ) {
        let (entry, exit) = (self.number() | OF_LOOKUP, self.number() | OF_LOOKUP | ANSWER);
        let text = ProbeArgument {
            name: "name".to_owned(),
            size: 8,
            text: Some(true),
            ..ProbeArgument::default()
        };
        let pair = PRESETS_PAIR | entry;
        plan.definitions.push(ProbeDefinition {
            arguments: vec![text],
            ..definition(place, &function.name, entry, ProbeRole::FunctionEntry, pair)
        });
        plan.definitions.push(ProbeDefinition {
            arguments: vec![shown("address", 8)],
            ..definition(place, &function.name, exit, ProbeRole::FunctionReturn, pair)
        });
        let returned = Argument {
            size: 8,
            signed: false,
            float: false,
            place: ArgumentLocation::Register { register: Register::Rax, shift: 0 },
        };
        let at_entry = Planned {
            offset: function.offset,
            semaphore: 0,
            probe: entry,
            arguments: vec![(name.argument(), StringReading::Always)],
            at_return: false,
        };
        let at_return = Planned {
            probe: exit,
            arguments: vec![(returned, StringReading::Never)],
            at_return: true,
            ..at_entry
        };
        plan.points.extend([at_entry, at_return]);
    }

    fn preset_function(
        &mut self,
        place: (&str, &str),
        (known, name, offset): (&FunctionPreset, &str, u64),
        returns: &Returns,
        plan: &mut Plan,
    ) {
        let (role, exits, at_return) = match returns {
            Returns::At(exits) => (ProbeRole::FunctionExit, &exits[..], false),
            Returns::ByAddress => (ProbeRole::FunctionReturn, &[offset][..], true),
        };
        let (entry, exit) = (self.number(), self.number());
        let pair = PRESETS_PAIR | entry;
        plan.definitions.push(ProbeDefinition {
            arguments: known
                .arguments
                .iter()
                .map(|(name, parameter)| shown(name, parameter.argument().size))
                .collect(),
            frames: known.frames.unwrap_or_default().to_owned(),
            ..definition(place, name, entry, ProbeRole::FunctionEntry, pair)
        });
        plan.definitions.push(definition(place, name, exit, role, pair));
        let arguments = known
            .arguments
            .iter()
            .map(|(_, parameter)| (parameter.argument(), StringReading::Never))
            .collect();
        plan.points.push(planned_place(offset, entry, arguments, false));
        plan.points.extend(
            exits.iter().map(|exit_at| planned_place(*exit_at, exit, Vec::new(), at_return)),
        );
    }
}

fn planned_place(
    offset: u64,
    probe: u32,
    arguments: Vec<(Argument, StringReading)>,
    at_return: bool,
) -> Planned {
    Planned { offset, semaphore: 0, probe, arguments, at_return }
}

/// A probe of a function on the track of its interface, in a file.
fn definition(
    (track, path): (&str, &str),
    name: &str,
    probe: u32,
    role: ProbeRole,
    pair: u32,
) -> ProbeDefinition {
    ProbeDefinition {
        probe,
        role,
        pair,
        track: track.to_owned(),
        name: name.to_owned(),
        path: path.to_owned(),
        ..Default::default()
    }
}

/// A number without a sign.
fn shown(name: &str, size: u8) -> ProbeArgument {
    ProbeArgument { name: name.to_owned(), size, text: Some(false), ..ProbeArgument::default() }
}

#[cfg(test)]
#[path = "presets_tests.rs"]
mod tests;
