//! Two machines that did the same: each exporter shows everything of both.

use crate::exported;
use syscollect_tests::reference_capture::{self, Figures};
use syscollect_tests::shown::{self, Viewer, differences, together};

fn agrees(viewer: Viewer, shown: &Figures) {
    let mut plan = reference_capture::figures_of_two_machines();
    if viewer == Viewer::Tracy {
        // Its file has room for one.
        plan.insert("crashes".to_owned(), 1);
    }
    let shown = together(shown);
    assert_eq!(differences(viewer, &plan, &shown), Vec::<String>::new(), "{shown:#?}");
}

#[test]
fn each_format_shows_both_machines() {
    let capture = reference_capture::capture();
    let twice = || exported::twice(&capture);
    let (file, cuts) = exported::tracy_and_cuts(twice());
    assert!(cuts.is_empty(), "{cuts:?}");
    agrees(Viewer::Tracy, &shown::tracy(&file).unwrap());
    agrees(Viewer::Firefox, &shown::firefox(&exported::firefox(twice())).unwrap());
    let report = serde_json::to_vec(&exported::report(twice())).unwrap();
    agrees(Viewer::Report, &shown::report(&report).unwrap());
    agrees(Viewer::Folded, &shown::folded(&exported::folded(twice())).unwrap());
    agrees(Viewer::Pprof, &shown::pprof(&exported::pprof(twice())).unwrap());
}
