//! Programs that do more than is shown, and what is seen of others beside them.

use super::*;

const MARK: Event = Event::Frame { set: 0, phase: FramePhase::Mark };
const LOUD: Producer = Producer { user: 1001, program: 2 };

/// A program of user 1000 and one of user 1001; the place of the first.
fn two_programs() -> (Recorder, u32) {
    let mut recorder = Recorder::new(1);
    recorder.program(1, 70);
    recorder.program_of(LOUD.user, LOUD.program, 71);
    let place = recorder.place(1, 0, "request");
    (recorder, place)
}

fn async_begins(location: u32, zone: u64) -> Event {
    Event::AsyncBegin { location, zone, task: 0 }
}

/// Names of the rows of that process, and how many ended and are open.
fn rows_of(recorder: &Recorder, second: usize, pid: u32) -> Vec<(String, u64, u64)> {
    let rows = recorder.second(second).zones.iter().filter(|zone| zone.pid == pid);
    rows.map(|zone| (zone.name.to_string(), zone.count, zone.open)).collect()
}

#[test]
fn whose_chunks_were_left_out_is_said_and_nothing_is_missing_of_others() {
    let (mut recorder, place) = two_programs();
    let left_out = |recorder: &mut Recorder| {
        recorder.left_out(Lane::new(LaneKind::Zone, 5), Some(LOUD));
    };
    recorder.items(2, 4, &[(100 * MS, MARK)]);
    left_out(&mut recorder);
    recorder.items(1, 3, &[(100 * MS, async_begins(place, 9)), (110 * MS, MARK)]);
    recorder.until(200 * MS);
    left_out(&mut recorder);
    recorder.items(1, 3, &[(400 * MS, Event::AsyncEnd { zone: 9 }), (500 * MS, MARK)]);
    recorder.items(2, 4, &[(500 * MS, MARK), (510 * MS, MARK)]);
    recorder.until(3 * SECOND);
    let frame = ("Frame".to_owned(), 1, 0);
    assert_eq!(rows_of(&recorder, 0, 70), [frame, ("request".to_owned(), 1, 0)]);
    assert_eq!(rows_of(&recorder, 0, 71), []);
    // What was left out until 200 ms may be from later than the second's end.
    for (second, users) in [(0, &[LOUD.user][..]), (1, &[LOUD.user]), (2, &[])] {
        let second = recorder.second(second);
        assert_eq!(second.zones_incomplete_users, users, "second {}", second.number);
        assert_eq!(second.zones_incomplete, !users.is_empty());
    }
}

#[test]
fn who_keeps_many_zones_open_takes_no_rows_from_others() {
    let (mut recorder, place) = two_programs();
    let places: Vec<u32> = (0..600)
        .map(|number| recorder.place(LOUD.program, 4096 * number, &format!("m{number}")))
        .collect();
    let open = places.iter().zip(0..).map(|(place, zone)| (50 * MS, async_begins(*place, zone)));
    recorder.items(2, 4, &open.collect::<Vec<_>>());
    recorder.until(SECOND);
    recorder.items(1, 3, &[(1100 * MS, begins(place)), (1103 * MS, ENDS)]);
    recorder.until(2 * SECOND);
    assert_eq!(rows_of(&recorder, 1, 70), [("request".to_owned(), 1, 0)]);
    let second = recorder.second(1);
    assert_eq!((second.zones.len(), second.other_zones), (256, 345));
}

#[test]
fn a_users_many_processes_share_what_is_left_by_others_and_no_row_is_empty() {
    let (mut recorder, place) = two_programs();
    for client in 3..403 {
        recorder.program_of(LOUD.user, client, 100 + client);
        let name = recorder.place(client, 0, "busy");
        let thread = client as u16 + 10;
        recorder.items(client, thread, &[(100 * MS, begins(name)), (900 * MS, ENDS)]);
    }
    recorder.items(1, 3, &[(100 * MS, begins(place)), (103 * MS, ENDS)]);
    recorder.until(SECOND);
    assert_eq!(rows_of(&recorder, 0, 70), [("request".to_owned(), 1, 0)]);
    assert_eq!((recorder.second(0).zones.len(), recorder.second(0).other_zones), (256, 145));
}

#[test]
fn who_has_zones_at_places_without_end_leaves_room_to_others() {
    let (mut recorder, place) = two_programs();
    let zones: Vec<(u64, Event)> = (0..20_000u32)
        .flat_map(|number| {
            let at = u64::from(number) * 20;
            [(at, begins(number)), (at + 5, ENDS)]
        })
        .collect();
    recorder.items(2, 4, &zones);
    recorder.items(1, 3, &[(900 * MS, begins(place)), (903 * MS, ENDS)]);
    recorder.until(SECOND);
    assert_eq!(rows_of(&recorder, 0, 70), [("request".to_owned(), 1, 0)]);
    assert_eq!(recorder.second(0).other_zones, 20_000);
}
