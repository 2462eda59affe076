//! The reference capture: each exporter shows what was planned.

use crate::exported;
use std::sync::LazyLock;
use syscollect_tests::reference_capture::{self, Figures};
use syscollect_tests::shown::{self, Viewer, differences, lacks};

static CAPTURE: LazyLock<Vec<u8>> = LazyLock::new(reference_capture::capture);

fn agrees(viewer: Viewer, shown: &Figures) {
    let plan = reference_capture::figures();
    assert_eq!(
        differences(viewer, &plan, shown),
        Vec::<String>::new(),
        "all that it shows: {shown:#?}"
    );
    let [planned, zones] = [&plan, shown].map(|figures| {
        let zones = figures.keys().filter(|name| name.starts_with("zone ") && !lacks(viewer, name));
        zones.collect::<Vec<_>>()
    });
    if zones != planned {
        assert!(zones.is_empty(), "it shows zones that nobody planned: {shown:#?}");
    }
}

#[test]
fn the_tracy_file_shows_what_was_planned() {
    let (file, cuts) = exported::tracy_and_cuts(exported::open(&CAPTURE));
    assert!(cuts.is_empty(), "{cuts:?}");
    agrees(Viewer::Tracy, &shown::tracy(&file).unwrap());
}

#[test]
fn the_firefox_profile_shows_what_was_planned() {
    agrees(Viewer::Firefox, &shown::firefox(&exported::firefox(exported::open(&CAPTURE))).unwrap());
}

#[test]
fn the_report_says_what_was_planned() {
    let json = serde_json::to_vec(&exported::report(exported::open(&CAPTURE))).unwrap();
    agrees(Viewer::Report, &shown::report(&json).unwrap());
}

#[test]
fn the_pictures_of_stacks_show_what_was_planned() {
    agrees(Viewer::Folded, &shown::folded(&exported::folded(exported::open(&CAPTURE))).unwrap());
    agrees(Viewer::Pprof, &shown::pprof(&exported::pprof(exported::open(&CAPTURE))).unwrap());
}

#[test]
fn a_figure_that_differs_is_told() {
    let plan = Figures::from([
        ("samples".to_owned(), 2),
        ("self main".to_owned(), 1),
        ("runs".to_owned(), 9),
    ]);
    let shown = Figures::from([("samples".to_owned(), 3)]);
    let reported = ["samples: 2 planned, 3 shown", "self main: 1 planned, nothing shown"];
    assert_eq!(
        differences(Viewer::Folded, &plan, &shown),
        reported,
        "runs are nothing that stacks show"
    );
}
