//! Which libraries with calls to GPUs are there for `record --gpu`.

use super::Capability;
use super::machine::Machine;
use crate::probes::{functions_in, installed_libraries};
use syscollect_probes::{LibraryPreset, library_presets};

/// A row for each interface.
pub(super) fn presets(machine: &Machine) -> Vec<Capability> {
    let installed = installed_libraries(&machine.path(""));
    let rows = library_presets().map(|preset| {
        let paths = installed.iter().filter(|(own, _)| own.key == preset.key).map(|(_, path)| path);
        row(
            preset,
            paths.map(|path| (path.display().to_string(), functions_in(preset, path))).collect(),
        )
    });
    rows.collect()
}

/// What its libraries have; nothing where there are none.
fn row(preset: &LibraryPreset, libraries: Vec<(String, Result<usize, String>)>) -> Capability {
    if libraries.is_empty() {
        let names: Vec<String> = preset.libraries().collect();
        let why = format!(
            "no {} in the usual folders; found when a program maps one",
            names.join(" or ")
        );
        return Capability::no(preset.key, why);
    }
    let some =
        libraries.iter().any(|(_, functions)| functions.as_ref().is_ok_and(|count| *count > 0));
    let words = libraries.into_iter().map(|(path, functions)| match functions {
        Ok(0) => format!("{path} (exports none of the functions that are known)"),
        Ok(count) => format!("{path} ({count} functions)"),
        Err(why) => format!("{path} ({why})"),
    });
    let words = words.collect::<Vec<_>>().join(", ");
    match some {
        true => Capability::yes(preset.key, format!("calls for --gpu, as zones: {words}")),
        false => Capability::no(preset.key, words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_without_known_functions_is_named_beside_one_that_has_some() {
        let both = row_of(&[Ok(0), Ok(12)]);
        assert!(
            both.available && both.reason.contains("none") && both.reason.contains("12 functions"),
            "{both:?}"
        );
        let broken = row_of(&[Err("it is damaged".to_owned())]);
        assert!(
            !broken.available && !broken.required && broken.reason.contains("damaged"),
            "{broken:?}"
        );
        let none = row_of(&[]);
        assert!(!none.available && none.reason.contains("no libcuda.so.1"), "{none:?}");
    }

    fn row_of(counts: &[Result<usize, String>]) -> Capability {
        let preset = library_presets().next().unwrap();
        let counts = counts.iter().map(|count| ("/x/libcuda.so.1".to_owned(), count.clone()));
        row(preset, counts.collect())
    }
}
