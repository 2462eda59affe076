//! Programs that write more than is watched, and what is seen of them and of others.

use super::*;

const MARK: Event = Event::Frame { set: 0, phase: FramePhase::Mark };

fn async_zone(location: u32) -> [Event; 2] {
    [Event::AsyncBegin { location, zone: 9, task: 0 }, Event::AsyncEnd { zone: 9 }]
}

#[test]
fn who_writes_more_than_is_watched_hides_no_async_zones_and_frames_of_others() {
    let texts = ["job: zone request > 20ms, pause 0s", "frame > 33ms, pause 0s"];
    let mut recorder = Recorder::new(&texts);
    recorder.processes(&[(70, "server"), (71, "flood")]);
    let of = |client, pid| ClientDefinition { client, pid, ..ClientDefinition::default() };
    recorder.define(&Definition::Clients(vec![of(1, 70), of(2, 71)]));
    let request = recorder.zone_name("request");
    let [begin, end] = async_zone(request);
    // Chunks of the other one are left out again and again, before, while and after it is open.
    let flood = |recorder: &mut Recorder| recorder.left_out(Lane::new(LaneKind::Zone, 1), Some(2));
    flood(&mut recorder);
    recorder.items(&[stamped(100 * MS, begin), stamped(110 * MS, MARK)]);
    assert_eq!(recorder.fired(150 * MS), []);
    flood(&mut recorder);
    assert_eq!(recorder.fired(200 * MS), []);
    flood(&mut recorder);
    recorder.items(&[stamped(300 * MS, end), stamped(310 * MS, MARK)]);
    let expected = [
        fired("job", 300 * MS, 70, "zone request took 200 ms in server 70"),
        fired("frame", 310 * MS, 70, "frame Frame took 200 ms in server 70"),
    ];
    assert_eq!(recorder.fired(400 * MS), expected);
}

#[test]
fn a_program_whose_chunks_were_left_out_is_timed_again_a_second_later() {
    let mut recorder = Recorder::new(&["frame > 33ms, pause 0s"]);
    let marks = |recorder: &mut Recorder, ms: &[u64]| {
        let items: Vec<Item> = ms.iter().map(|ms| stamped(ms * MS, MARK)).collect();
        recorder.items_of(2, 1, &items);
    };
    marks(&mut recorder, &[100]);
    recorder.left_out(Lane::new(LaneKind::Zone, 2), Some(2));
    marks(&mut recorder, &[200, 300]);
    assert_eq!(recorder.fired(400 * MS), []);
    marks(&mut recorder, &[900, 1300]);
    assert_eq!(recorder.fired(1350 * MS), []);
    assert_eq!(recorder.fired(1450 * MS), []);
    marks(&mut recorder, &[1500, 1600]);
    let reason = "frame Frame took 100 ms in thread 71";
    assert_eq!(recorder.fired(1700 * MS), [fired("frame", 1600 * MS, 71, reason)]);
}

#[test]
fn a_zone_that_may_have_ended_in_what_was_left_out_is_not_stuck() {
    let mut recorder = Recorder::new(&["slow: zone request > 20ms, pause 0s"]);
    let request = recorder.zone_name("request");
    recorder.items(&[stamped(100 * MS, zone(request, 0))]);
    recorder.left_out(Lane::new(LaneKind::Zone, 0), Some(1));
    assert_eq!(recorder.fired(3000 * MS), []);
    // Its next chunk tells that it may have.
    recorder.items(&[stamped(3100 * MS, zone(request, 0))]);
    let reason = "zone request has not ended for 1.90 s in thread 70";
    assert_eq!(recorder.fired(5000 * MS), [fired("slow", 4120 * MS, 70, reason)]);
}
