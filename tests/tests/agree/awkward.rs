//! What machines do seldom: every format shows it as it was.

use crate::exported;
use syscollect_tests::planted::{self, Figures};
use syscollect_tests::shown::{self, Viewer, differences};

fn shown(viewer: Viewer, capture: &[u8]) -> Figures {
    match viewer {
        Viewer::Tracy => shown::tracy(&exported::tracy(capture)).unwrap(),
        Viewer::Firefox => shown::firefox(&exported::firefox(capture)).unwrap(),
        _ => shown::report(&serde_json::to_vec(&exported::report(capture)).unwrap()).unwrap(),
    }
}

#[test]
fn what_is_awkward_comes_out_right_in_each() {
    for case in planted::cases() {
        for viewer in [Viewer::Tracy, Viewer::Firefox, Viewer::Report] {
            let shown = shown(viewer, &case.capture);
            let mut plan = case.figures(viewer);
            // The report counts messages by name, and these are their texts.
            plan.retain(|name, _| viewer != Viewer::Report || !name.starts_with("message "));
            let brief = |what: String| what.chars().take(300).collect::<String>();
            let wrong: Vec<String> = differences(viewer, &plan, &shown).into_iter().map(brief).collect();
            let all: Vec<String> = shown.iter().map(|(name, count)| brief(format!("{name}: {count}"))).collect();
            assert!(wrong.is_empty(), "{} in {}: {wrong:#?}\nof {all:#?}", case.name, viewer.name());
        }
    }
}
