//! Probes that work only while another one is listened to.
//!
//! Python 3.11 passes `function__entry` only while it traces lines, which it
//! does while somebody listens to `line`: without that the probe is passed by
//! nothing but exceptions thrown into generators, and a zone has ends but no
//! beginnings. Listening to every line would cost a breakpoint for each. So
//! only the semaphore of `line` is raised, by a place that is hardly ever
//! passed and whose hits are not recorded.

use syscollect_probes::UsdtProbe;

use super::plan::Planned;

/// The number of probes whose hits are not recorded.
const IGNORED: u32 = 0;

const PYTHON: &str = "python";
/// Places to raise the semaphore at, the rarest first.
const RARE: [&str; 5] =
    ["gc__done", "gc__start", "import__find__load__done", "import__find__load__start", "audit"];

/// What must be attached with `planned`, if Python's function entries are among it.
pub(super) fn for_python(probes: &[UsdtProbe], planned: &[Planned]) -> Option<Planned> {
    let named =
        |name: &str| probes.iter().find(|probe| probe.provider == PYTHON && probe.name == name);
    let is_planned =
        |probe: &UsdtProbe| planned.iter().any(|planned| planned.offset == probe.offset);
    let line = named("line")?;
    if !is_planned(named("function__entry")?) || is_planned(line) {
        return None;
    }
    // The kernel knows one semaphore for each place.
    let place = RARE.iter().filter_map(|name| named(name)).find(|probe| !is_planned(probe))?;
    Some(Planned {
        offset: place.offset,
        semaphore: line.semaphore?,
        probe: IGNORED,
        arguments: Vec::new(),
        at_return: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = ["function__entry", "line", "gc__start", "gc__done"];

    fn probes() -> Vec<UsdtProbe> {
        (1..)
            .zip(&NAMES)
            .map(|(number, name)| UsdtProbe {
                provider: PYTHON.to_owned(),
                name: (*name).to_owned(),
                offset: number,
                semaphore: Some(100 + number),
                arguments: Vec::new(),
            })
            .collect()
    }

    fn planned(offset: u64) -> Planned {
        Planned {
            offset,
            semaphore: 100 + offset,
            probe: 7,
            arguments: Vec::new(),
            at_return: false,
        }
    }

    #[test]
    fn entries_raise_the_semaphore_of_lines_at_a_rare_place() {
        let found = for_python(&probes(), &[planned(1)]).unwrap();
        assert_eq!((found.offset, found.semaphore, found.probe), (4, 102, IGNORED));
    }

    #[test]
    fn a_place_that_is_recorded_keeps_its_own_semaphore() {
        assert_eq!(for_python(&probes(), &[planned(1), planned(4)]).unwrap().offset, 3);
        assert_eq!(for_python(&probes(), &[planned(1), planned(3), planned(4)]), None);
    }

    #[test]
    fn without_entries_or_with_lines_nothing_is_added() {
        assert_eq!(for_python(&probes(), &[planned(3)]), None);
        assert_eq!(for_python(&probes(), &[planned(1), planned(2)]), None);
        assert_eq!(for_python(&[], &[planned(1)]), None);
    }
}
