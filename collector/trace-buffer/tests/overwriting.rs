//! A ring that overwrites its oldest and hands it to a fold, a buffer that stops, and copies.
#![allow(missing_docs, reason = "a test")]

mod scenario;

use scenario::{A, B, C, Draft, Scenario, chunk, lines};
use syscollect_trace_buffer::{
    BatchLimit, Commit, MIN_BYTES, Mode, Refusal, SequenceId, SizeError, TraceBuffer,
};

#[test]
fn the_oldest_gives_way_and_the_next_packet_says_how_many() {
    let mut scenario = Scenario::ring(4096);
    for id in 0..16 {
        scenario.store([chunk(A, id).with('x', 200).with('y', 200)]);
    }
    let kept = ["x*200, y*200"; 9].join(", ");
    assert_eq!(scenario.read(), kept.replacen("x*200", "x*200 after 14 overwritten", 1));
    assert_eq!(scenario.lost(), "14 overwritten");
}

#[test]
fn what_was_read_is_no_loss_when_it_is_overwritten() {
    let mut scenario = Scenario::ring(1024);
    for id in 0..100 {
        scenario.store([chunk(A, id).with('x', 200).with('y', 30)]);
        assert_eq!(scenario.read(), "x*200, y*30");
    }
    assert_eq!(scenario.lost(), "nothing");
    assert_eq!(scenario.0.statistics().chunks_overwritten, 0);
}

#[test]
fn of_a_chunk_that_was_read_in_part_the_rest_is_lost() {
    let mut scenario = Scenario::ring(1024);
    scenario.store([chunk(A, 0).with('a', 10).with('b', 20).with('c', 30)]);
    assert_eq!(scenario.read_packets(1), "a*10");
    scenario.store([chunk(B, 0).filling('x', 1000), chunk(A, 1).with('d', 1)]);
    assert_eq!(scenario.read(), "x*982, d after 2 overwritten");
}

#[test]
fn a_fold_gets_each_whole_packet_that_is_overwritten_in_order() {
    let mut scenario = Scenario::ring(300);
    scenario.store([
        chunk(A, 1).with('c', 20).with('d', 20).on_next(),
        chunk(A, 0).with('a', 20).with('b', 20),
        chunk(B, 0).with('p', 20),
        chunk(A, 2).with('e', 20).continued().with('f', 20),
    ]);
    // The first that lies there goes, and with it what comes before it in its sequence, and the end
    // of the packet that begins in it.
    assert_eq!(scenario.fold(&chunk(C, 0).filling('x', 124)), "a*20, b*20, c*20, d*20+e*20, p*20");
    assert_eq!(scenario.read(), "f*20 after 4 overwritten, x*107");
    assert_eq!(scenario.0.inconsistency(), None);
}

#[test]
fn a_fold_waits_for_nothing_and_gets_nothing_that_is_not_whole() {
    let mut scenario = Scenario::ring(300);
    scenario.store([
        chunk(A, 0).with('a', 20).with('b', 20).on_next().needs_patch(),
        chunk(A, 1).with('c', 20).continued().with('d', 20),
        chunk(B, 0).with('p', 20).with('q', 20).scraped(60),
    ]);
    assert_eq!(scenario.read(), "a*20, p*20");
    scenario.store([chunk(B, 1).with('r', 20)]);
    assert_eq!(scenario.read(), "");
    assert_eq!(scenario.fold(&chunk(C, 0).filling('x', 250)), "d*20, r*20");
    assert_eq!(scenario.fold(&chunk(C, 1).filling('y', 60)), "x*232");
    assert_eq!(scenario.read(), "y*43 after 1 overwritten");
}

#[test]
fn with_and_without_a_fold_the_same_is_lost() {
    let run = |folds: bool| {
        let mut scenario = Scenario::ring(700);
        let mut folded = Vec::new();
        for id in 0..60 {
            let draft = chunk([A, B][id as usize % 2], id / 2).with('x', id as usize % 7 * 9);
            let draft = draft.with('-', 0).with('y', 5);
            if folds {
                folded.push(scenario.fold(&draft));
            } else {
                scenario.commit(&draft);
            }
        }
        (scenario.read(), scenario.lost())
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn what_a_recommit_claims_of_fragments_that_were_there_is_not_counted() {
    let mut scenario = Scenario::ring(256);
    scenario.store([chunk(A, 0).with('a', 1).with('b', 1).with('-', 1).scraped(64)]);
    // As many bytes as the two, and one fragment.
    let lie = chunk(A, 0).with('x', 3).with('c', 1);
    assert_eq!(scenario.commit(&lie), Commit::Extended);
    scenario.store([chunk(B, 0).filling('y', 200)]);
    assert_eq!(scenario.lost(), "3 overwritten", "a, b and c");
}

#[test]
fn to_make_room_for_a_late_chunk_what_follows_it_may_be_passed() {
    let mut scenario = Scenario::ring(200);
    scenario.store([chunk(A, 0).with('a', 10)]);
    assert_eq!(scenario.read(), "a*10");
    scenario.store([chunk(B, 0).filling('x', 68), chunk(A, 2).filling('c', 100)]);
    // The first chunk lies where the next write goes; its room is free, what it needs is not.
    let late = chunk(A, 1).filling('b', 180);
    assert_eq!(scenario.commit(&late), Commit::Refused(Refusal::Late));
    scenario.store([chunk(A, 3).with('d', 1)]);
    assert_eq!(scenario.read(), "d after 2 gap in chunk ids and 1 overwritten");
}

#[test]
fn padding_of_one_word_is_enough() {
    for left in [4, 8, 12, 16, 20] {
        let mut scenario = Scenario::ring(256);
        scenario.store([
            chunk(A, 0).filling('a', 64),
            chunk(A, 1).filling('b', 64),
            chunk(A, 2).filling('c', 128 - left),
        ]);
        // It does not fit into what is left, and leaves something of the first.
        scenario.store([chunk(A, 3).filling('d', 64 - left)]);
        assert_eq!(scenario.0.statistics().wraps, 1);
        let (c, d) = (128 - left - 17, 64 - left - 17);
        assert_eq!(
            scenario.read(),
            format!("b*47 after 1 overwritten, c*{c}, d*{d}"),
            "{left} bytes left"
        );
        scenario.store([chunk(A, 4).filling('e', 64 + left)]);
        assert_eq!(scenario.read(), format!("e*{}", 64 + left - 17));
    }
}

#[test]
fn a_buffer_is_filled_to_its_last_byte() {
    let mut scenario = Scenario::ring(256);
    let quarter = |id: u32| chunk(A, id).filling(char::from(b'a' + id as u8), 64);
    for id in 0..4 {
        scenario.store([quarter(id)]);
    }
    assert_eq!((scenario.0.used(), scenario.0.statistics().wraps), (256, 0));
    assert_eq!(scenario.0.clone_for_reading().statistics().chunks_written, 4);
    scenario.store([quarter(4), quarter(5)]);
    assert_eq!(scenario.read(), "c*47 after 2 overwritten, d*47, e*47, f*47");
}

#[test]
fn sizes_of_buffers_have_bounds() {
    let error = TraceBuffer::new(15, Mode::Ring).expect_err("less than a header");
    assert_eq!(error, SizeError { bytes: 15 });
    assert!(error.to_string().starts_with("a trace buffer of 15 bytes"));
    assert!(TraceBuffer::new(1 << 33, Mode::Ring).is_err());
    let mut smallest = Scenario::ring(MIN_BYTES);
    smallest.store([chunk(A, 0), chunk(A, 1)]);
    assert_eq!(smallest.commit(&chunk(A, 2).with('a', 1)), Commit::Refused(Refusal::TooLarge));
    assert_eq!(smallest.read(), "");
    assert_eq!(Scenario::ring(1027).0.size(), 1024);
}

#[test]
fn a_buffer_that_discards_stops_for_good_also_when_it_was_read() {
    let mut scenario = Scenario::discard(256);
    scenario.store([chunk(A, 0).filling('a', 128)]);
    assert_eq!(scenario.read(), "a*111");
    scenario.store([chunk(A, 1).filling('b', 64)]);
    assert_eq!(scenario.commit(&chunk(A, 2).filling('c', 68)), Commit::Refused(Refusal::Full));
    assert!(scenario.0.is_full());
    // This one would fit.
    assert_eq!(scenario.commit(&chunk(A, 3).with('d', 1)), Commit::Refused(Refusal::Full));
    assert_eq!(scenario.commit(&chunk(B, 0).with('p', 1)), Commit::Refused(Refusal::Full));
    assert_eq!(scenario.read(), "b*47 after 2 no room");
    assert_eq!(scenario.commit(&chunk(A, 4).with('e', 1)), Commit::Refused(Refusal::Full));
    assert_eq!(scenario.read(), "");
    assert_eq!(scenario.lost(), "4 no room");
}

#[test]
fn what_a_full_buffer_has_may_still_become_whole() {
    let mut scenario = Scenario::discard(256);
    scenario.store([
        chunk(A, 0).with('a', 20).with('b', 10).on_next().scraped(100),
        chunk(B, 0).with('p', 20).on_next().needs_patch(),
        chunk(B, 1).with('q', 20).continued(),
    ]);
    assert_eq!(scenario.commit(&chunk(C, 0).filling('x', 128)), Commit::Refused(Refusal::Full));
    assert_eq!(scenario.read(), "a*20");
    let whole = chunk(A, 0).with('a', 20).with('b', 10).with('c', 30);
    assert_eq!(scenario.commit(&whole), Commit::Extended, "where it lies: nothing laps it");
    assert!(scenario.patch(B, 0, 1, "P"));
    assert_eq!(scenario.read(), "b*10, c*30, Pp*19+q*20");
}

#[test]
fn the_end_of_a_packet_that_no_longer_fits_leaves_the_packet_unread() {
    let mut scenario = Scenario::discard(256);
    scenario.store([chunk(A, 0).with('a', 5).with('b', 200).on_next()]);
    let end = chunk(A, 1).with('c', 20).continued();
    assert_eq!(scenario.commit(&end), Commit::Refused(Refusal::Full));
    assert_eq!(scenario.read(), "a*5 after 1 no room");
    assert_eq!(scenario.read(), "");
}

fn busy() -> Scenario {
    let mut scenario = Scenario::ring(600);
    let drafts: [Draft; 8] = [
        chunk(B, 0).filling('x', 300),
        chunk(A, 0).with('a', 50).on_next().needs_patch(),
        chunk(A, 2).with('c', 50).continued().with('d', 5),
        chunk(B, 1).with('p', 20),
        chunk(A, 1).with('b', 40).continued().on_next(),
        chunk(C, 0).with('s', 10).with('t', 10).with('-', 1).scraped(60),
        chunk(C, 1).with('u', 10),
        chunk(B, 2).with('q', 20),
    ];
    for draft in drafts {
        scenario.commit(&draft);
    }
    assert_eq!(scenario.0.statistics().wraps, 1);
    scenario
}

#[test]
fn a_copy_gives_what_the_buffer_would_have_given() {
    let expected = "s*10, t*10, p*20 after 1 overwritten, q*20";
    let mut scenario = busy();
    let mut snapshot = scenario.0.clone_for_reading();
    let read = lines(snapshot.read(BatchLimit::NONE));
    let mut sorted: Vec<_> = read.split(", ").collect();
    sorted.sort_unstable();
    let mut expected: Vec<_> = expected.split(", ").collect();
    expected.sort_unstable();
    assert_eq!(sorted, expected);
    assert_eq!(scenario.read(), read);
    assert_eq!(lines(snapshot.read(BatchLimit::NONE)), "");
}

#[test]
fn a_copy_is_taken_while_recording_goes_on_and_changes_nothing() {
    let (mut with, mut without) = (busy(), busy());
    let mut snapshot = with.0.clone_for_reading();
    for scenario in [&mut with, &mut without] {
        scenario.store([chunk(B, 3).with('r', 20)]);
        assert!(scenario.patch(A, 0, 1, "A"));
    }
    assert!(!lines(snapshot.read(BatchLimit::NONE)).contains("r*20"), "that came later");
    assert_eq!(with.read(), without.read());
    assert_eq!(with.0.losses(), without.0.losses());
}

#[test]
fn a_copy_goes_on_where_reading_was() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with('a', 10).with('b', 10), chunk(B, 0).with('c', 10)]);
    assert_eq!(scenario.read_packets(1), "a*10");
    let mut snapshot = scenario.0.clone_for_reading();
    assert_eq!(lines(snapshot.read(BatchLimit::packets(1))), "b*10");
    assert_eq!(lines(snapshot.read(BatchLimit::NONE)), "c*10");
    assert_eq!(scenario.read(), "b*10, c*10");
}

#[test]
fn more_sequences_than_there_may_be_are_refused_and_nobody_else_is() {
    let mut scenario = Scenario::ring(8 << 20);
    let most = 65_536 + 1024;
    for number in 0..most {
        let writer = SequenceId::new(1 + (number >> 16) as u16, number as u16);
        let commit = scenario.0.commit(&chunk(writer, 0).with('a', 1).as_chunk());
        assert_eq!(commit, Commit::Stored);
    }
    let another = SequenceId::new(9, 9);
    let refused = Commit::Refused(Refusal::TooManySequences);
    assert_eq!(scenario.0.commit(&chunk(another, 0).with('a', 1).as_chunk()), refused);
    assert_eq!(scenario.lost(), "1 no room");
    let known = SequenceId::new(1, 7);
    assert_eq!(scenario.0.commit(&chunk(known, 1).with('b', 1).as_chunk()), Commit::Stored);
    scenario.read();
    assert_eq!(scenario.0.commit(&chunk(another, 1).with('a', 1).as_chunk()), Commit::Stored);
}
