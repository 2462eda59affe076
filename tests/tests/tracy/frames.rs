//! Frame sets.

use crate::scenario::Scenario;
use syscollect_model::{Event, Slice};
use syscollect_tests::tracy_reader::FrameSet;

fn set(name: Option<&str>, continuous: bool, frames: &[(i64, i64)]) -> FrameSet {
    let images = vec![-1; frames.len()];
    FrameSet { name: name.map(Into::into), continuous, frames: frames.to_vec(), images }
}

#[test]
fn a_file_without_frames_has_what_the_viewer_looks_at() {
    assert_eq!(Scenario::new(1).read().frame_sets, [set(None, true, &[(0, -1)])]);
}

#[test]
fn the_set_without_a_name_is_the_main_one_and_keeps_its_numbers() {
    let mut scenario = Scenario::new(1);
    let process = scenario.process(5, "game");
    let [physics, frames, loads] = [("physics", true), ("Frames", true), ("loads", false)]
        .map(|(name, continuous)| scenario.frames(process, name, continuous));
    let main = scenario.main_frames(process);
    let name = scenario.name("Frame");
    for (at, track, begins) in [
        (1, physics, Some(1)),
        (2, frames, Some(1)),
        (10, main, Some(700)),
        (12, loads, Some(1)),
        (15, loads, None),
        (15, loads, None),
        (20, main, None),
        (20, main, Some(701)),
        (22, loads, Some(2)),
        (23, loads, Some(3)),
        (30, main, Some(702)),
    ] {
        let event = match begins {
            number @ Some(_) => Event::SliceBegin(track, Slice { number, ..Slice::named(name) }),
            None => Event::SliceEnd(track),
        };
        scenario.at(at, event);
    }
    let trace = scenario.read();
    let expected = [
        set(None, true, &[(0, -1), (10, -1), (20, -1), (30, -1)]),
        set(Some("physics"), true, &[(1, -1)]),
        set(Some("Frames"), true, &[(2, -1)]),
        set(Some("loads"), false, &[(12, 15), (22, 23), (23, -1)]),
    ];
    assert_eq!(trace.frame_sets, expected);
    assert_eq!(trace.header.first_frame, 700, "the second entry is frame 700");
    assert!(trace.threads.is_empty(), "frames are no zones");
}

#[test]
fn frames_of_two_programs_are_told_apart() {
    let mut scenario = Scenario::new(1);
    let name = scenario.name("Frame");
    for pid in [5, 6] {
        let process = scenario.process(pid, "game");
        let audio = ["audio", "audio"].map(|name| scenario.frames(process, name, true));
        let tracks = [scenario.main_frames(process), audio[0], audio[1]];
        tracks
            .iter()
            .for_each(|track| scenario.at(pid.into(), Event::SliceBegin(*track, name.into())));
    }
    let names: Vec<_> =
        scenario.read().frame_sets.into_iter().map(|set| set.name.unwrap_or_default()).collect();
    let others = [
        "game (5) audio",
        "game (5) audio #2",
        "game (6) Frames",
        "game (6) audio",
        "game (6) audio #2",
    ];
    assert_eq!(names, [&[""][..], &others].concat());
}

#[test]
fn a_long_name_is_cut_to_what_the_viewer_has_room_for() {
    let mut scenario = Scenario::new(1);
    let process = scenario.process(5, "game");
    let track = scenario.frames(process, &"é".repeat(40_000), true);
    let name = scenario.name("Frame");
    scenario.at(1, Event::SliceBegin(track, name.into()));
    let name = scenario.read().frame_sets[1].name.clone().unwrap();
    assert_eq!(name, "é".repeat(450) + "...");
}
