//! Whose a cause is: what one user does takes nothing from what another's programs cause.

use super::*;

/// A process of that user is ended by SIGABRT.
fn aborts(recorder: &mut Recorder, at: u64, pid: u32, user: u32) {
    let aborted = TaskRecord {
        tid: pid,
        tgid: pid,
        comm: name("server"),
        exit_code: 6,
        ..Default::default()
    };
    recorder.task(0, at * MS, RecordKind::Exit, aborted.of_user(user));
}

#[test]
fn processes_of_another_user_with_the_same_name_use_up_neither_limit_nor_pause() {
    let mut recorder = Recorder::new(&["died: crash server, limit 2, pause 1s"]);
    (0..900).for_each(|number| aborts(&mut recorder, 100 + number, 2000 + number as u32, 1002));
    aborts(&mut recorder, 1000, 7, 1001);
    recorder.watcher.nothing_before(Ticks(1100 * MS));
    let fired = recorder.watcher.fired();
    let fired: Vec<_> = fired.iter().map(|of| (of.user, of.payer, of.reason.as_str())).collect();
    let reason = |who: &str| format!("server {who} was ended by SIGABRT");
    let expected = [
        (Some(1002), Payer::User(1002), &*reason("2000 of user 1002")),
        (Some(1001), Payer::User(1001), &*reason("7 of user 1001")),
    ];
    assert_eq!(fired, expected);
    let status = recorder.watcher.statuses().remove(0);
    let of = |counts: &UserCounts| (counts.user, counts.events, counts.fired, counts.paused);
    let users: Vec<_> = status.users.iter().map(of).collect();
    assert_eq!(users, [(Some(1002), 900, 1, 899), (Some(1001), 1, 1, 0)]);
}

#[test]
fn the_ids_that_a_user_has_besides_pay_from_that_users_share() {
    fn payer(user: u32) -> u32 {
        if user >= 100_000 { 1001 } else { user }
    }
    let mut recorder = Recorder::new(&["died: crash server, limit 1, pause 0s"]);
    recorder.watcher = recorder.watcher.paid_by(payer);
    (0..50).for_each(|number| aborts(&mut recorder, 100, 2000 + number, 100_000 + number));
    recorder.watcher.nothing_before(Ticks(200 * MS));
    let fired = recorder.watcher.fired();
    assert_eq!((fired.len(), fired[0].payer), (1, Payer::User(1001)));
    assert_eq!(fired[0].reason, "server 2000 of user 100000 was ended by SIGABRT");
}

#[test]
fn only_what_that_user_or_program_does_is_a_cause() {
    let mut recorder = Recorder::new(&[
        "alice: crash server, user 1001",
        "here: zone request in server > 20ms",
        "elsewhere: zone request in other > 20ms",
        "usual: zone request in other > 3x p99",
    ]);
    recorder.processes(&[(70, "server")]);
    let client =
        ClientDefinition { client: 1, pid: 70, user: Some(1001), ..ClientDefinition::default() };
    recorder.define(&Definition::Clients(vec![client]));
    aborts(&mut recorder, 50, 8, 1002);
    aborts(&mut recorder, 60, 9, 1001);
    let request = recorder.zone_name("request");
    let end = stamped(150 * MS, Event::ZoneEnd { depth: 0 });
    recorder.items(&[stamped(100 * MS, zone(request, 0)), end]);
    let expected = [
        fired("alice", 60 * MS, 9, "server 9 of user 1001 was ended by SIGABRT"),
        fired("here", 150 * MS, 70, "zone request took 50.0 ms in server 70 of user 1001"),
    ];
    assert_eq!(recorder.fired(200 * MS), expected);
    let statuses = recorder.watcher.statuses();
    assert_eq!(statuses.iter().map(|of| of.events).collect::<Vec<_>>(), [1, 1, 0, 0]);
    assert_eq!(statuses[3].note, "0 of 100 that it takes to know what is usual");
}

#[test]
fn firings_that_one_user_makes_wait_leave_room_to_anothers() {
    let triggers: Vec<String> =
        (0..60).map(|of| format!("t{of}: crash server, pause 0s")).collect();
    let texts: Vec<&str> = triggers.iter().map(String::as_str).collect();
    let mut recorder = Recorder::new(&texts);
    (0..100).for_each(|number| aborts(&mut recorder, 100 + number, 2000 + number as u32, 1002));
    aborts(&mut recorder, 300, 7, 1001);
    recorder.watcher.nothing_before(Ticks(400 * MS));
    let fired = recorder.watcher.fired();
    let of = |user| fired.iter().filter(|of| of.user == Some(user)).count();
    assert_eq!([of(1002), of(1001)], [512, 60]);
}
