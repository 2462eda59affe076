//! What is lost is counted, by cause, and the next packet of the sequence says so.
#![allow(missing_docs, reason = "a test")]

mod scenario;

use scenario::{A, B, Scenario, chunk, losses};
use syscollect_trace_buffer::{Commit, LossCause, Refusal, SequenceId};

/// A size that says that the writer gave the fragment up.
const ABORTED: &[u8] = &[0xff, 0xff, 0xff, 0x7f];

#[test]
fn ids_that_are_missing_are_a_gap() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with('a', 1), chunk(A, 2).with('b', 1), chunk(A, 9).with('c', 1)]);
    assert_eq!(scenario.read(), "a, b after 1 gap in chunk ids, c after 1 gap in chunk ids");
    assert_eq!(scenario.lost(), "2 gap in chunk ids");
}

#[test]
fn a_gap_between_two_readings_is_seen_and_counted_once() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, u32::MAX).with('a', 1)]);
    assert_eq!(scenario.read(), "a");
    scenario.store([chunk(A, 1).with('b', 1).with('c', 1).on_next().needs_patch()]);
    assert_eq!(scenario.read(), "b after 1 gap in chunk ids");
    assert_eq!(scenario.read(), "");
    assert_eq!(scenario.lost(), "1 gap in chunk ids");
}

#[test]
fn a_gap_is_none_before_something_behind_it_is_read() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with('a', 1)]);
    assert_eq!(scenario.read(), "a");
    scenario.store([chunk(A, 2).with('c', 1).on_next().needs_patch()]);
    assert_eq!(scenario.read(), "");
    scenario.store([chunk(A, 1).with('b', 1)]);
    assert_eq!(scenario.read(), "b");
    assert_eq!(scenario.lost(), "nothing");
}

#[test]
fn a_chunk_that_comes_too_late_is_refused_and_counted() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 5).with('a', 1)]);
    assert_eq!(scenario.read(), "a");
    assert_eq!(scenario.commit(&chunk(A, 4).with('b', 1)), Commit::Refused(Refusal::Late));
    scenario.store([chunk(A, 6).with('c', 1)]);
    assert_eq!(scenario.read(), "c after 1 gap in chunk ids");
}

#[test]
fn gaps_are_seen_after_everything_was_read_for_the_last_1024_sequences() {
    let mut scenario = Scenario::ring(1 << 20);
    let writers = 1024 + 100;
    for writer in 0..writers {
        scenario.0.commit(&chunk(SequenceId::new(1, writer), 0).with('a', 1).as_chunk());
    }
    scenario.read();
    assert_eq!((scenario.0.chunks(), scenario.0.sequences().count()), (0, 1024));
    for writer in 0..writers {
        scenario.0.commit(&chunk(SequenceId::new(1, writer), 2).with('b', 1).as_chunk());
    }
    // Those that were written to again are not among the empty ones; the oldest were forgotten.
    let read = scenario.read();
    let read: Vec<&str> = read.split(", ").collect();
    assert!(read[..100].iter().all(|line| *line == "b"));
    assert!(read[100..].iter().all(|line| *line == "b after 1 gap in chunk ids"));
    assert_eq!(read.len(), usize::from(writers));
}

#[test]
fn a_writer_that_had_no_room_says_so() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with('a', 10).with_raw(ABORTED), chunk(A, 1).with('b', 10)]);
    assert_eq!(scenario.read(), "a*10, b*10 after 1 no room");
}

#[test]
fn a_packet_that_was_given_up_in_its_second_chunk_is_lost_and_nothing_else() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([
        chunk(A, 0).with('a', 10).with('b', 10).on_next(),
        chunk(A, 1).with_raw(ABORTED).continued(),
        chunk(A, 2).with('d', 10),
    ]);
    assert_eq!(scenario.read(), "a*10, d*10 after 1 no room and 1 reassembly");
}

#[test]
fn a_packet_whose_fragments_lack_a_chunk_is_lost() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([
        chunk(A, 0).with('a', 32).on_next(),
        chunk(A, 2).with('b', 32).continued(),
        chunk(A, 3).with('c', 32),
    ]);
    // The one that begins, and the one that ends: whether they are one nobody knows.
    assert_eq!(scenario.read(), "c*32 after 2 reassembly and 1 gap in chunk ids");
}

#[test]
fn a_packet_that_does_not_go_on_is_lost_and_what_is_there_instead_is_read() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with('a', 32).on_next(), chunk(A, 1).with('b', 32)]);
    assert_eq!(scenario.read(), "b*32 after 1 reassembly");
}

#[test]
fn a_continuation_without_a_beginning_is_lost_and_hides_nothing() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with('a', 3).continued().with('b', 3)]);
    assert_eq!(scenario.read(), "b*3 after 1 reassembly", "it may have begun before");
    scenario.store([chunk(A, 1).with('c', 3).continued().with('d', 3)]);
    assert_eq!(scenario.read(), "d*3 after 1 violation of the format", "it did not");
}

#[test]
fn a_packet_without_a_beginning_is_one_loss_however_many_chunks_it_has() {
    let mut scenario = Scenario::ring(4096);
    for id in 0..20 {
        scenario.store([chunk(A, id).with('a', 3).continued().on_next()]);
    }
    scenario.store([chunk(A, 20).with('a', 3).continued().with('b', 3)]);
    assert_eq!(scenario.read(), "b*3 after 1 reassembly");
}

#[test]
fn a_size_that_lies_loses_its_fragment_and_nothing_after_its_chunk() {
    let jumbo = [vec![0xff; 100], vec![0x7f]].concat();
    for damage in [&b"\x16abc"[..], b"\xff\xff\xff\xff\x7f", b"\x82", &jumbo] {
        let mut scenario = Scenario::ring(4096);
        scenario.store([
            chunk(A, 0).with('a', 5).with_raw(damage),
            chunk(B, 0).with('p', 5),
            chunk(A, 1).with('b', 5),
        ]);
        assert_eq!(scenario.read(), "a*5, p*5, b*5 after 1 violation of the format");
    }
}

#[test]
fn a_damaged_last_fragment_does_not_make_a_beginning_of_the_one_before() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([
        chunk(A, 0).with('a', 5).with_raw(b"\x70b").on_next(),
        chunk(A, 1).with('c', 5).continued().with('d', 5),
    ]);
    assert_eq!(scenario.read(), "a*5, d*5 after 1 violation of the format");
}

#[test]
fn a_chunk_that_says_more_fragments_than_it_has_keeps_those_that_it_has() {
    let mut scenario = Scenario::ring(4096);
    scenario
        .store([chunk(A, 0).with('a', 5).with('b', 5).saying(65_535), chunk(A, 1).with('c', 5)]);
    assert_eq!(scenario.read(), "a*5, b*5, c*5 after 1 violation of the format");
}

#[test]
fn bytes_behind_the_fragments_are_ignored() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with('a', 5).with_raw(b"\xff\xff\xff").saying(1)]);
    assert_eq!(scenario.read(), "a*5");
    assert_eq!(scenario.lost(), "nothing");
}

#[test]
fn a_chunk_larger_than_the_buffer_or_than_any_chunk_is_refused() {
    let mut scenario = Scenario::ring(1024);
    let large = chunk(A, 0).with('a', 1024);
    assert_eq!(scenario.commit(&large), Commit::Refused(Refusal::TooLarge));
    let scraped = chunk(A, 0).with('a', 5).scraped(1024);
    assert_eq!(scenario.commit(&scraped), Commit::Refused(Refusal::TooLarge));
    let huge = chunk(A, 0).with('a', 65_536);
    assert_eq!(scenario.commit(&huge), Commit::Refused(Refusal::TooLarge));
    scenario.store([chunk(A, 1).filling('b', 1024)]);
    assert_eq!(scenario.read(), "b*1006 after 3 violation of the format");
}

#[test]
fn ids_without_an_order_are_refused() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 10).with('a', 1)]);
    let far = chunk(A, 10 + (1 << 31)).with('b', 1);
    assert_eq!(scenario.commit(&far), Commit::Refused(Refusal::Far));
    scenario.store([chunk(A, 9 + (1 << 31)).with('c', 1)]);
    let between = chunk(A, u32::MAX).with('d', 1);
    assert_eq!(scenario.commit(&between), Commit::Refused(Refusal::Far));
    assert_eq!(scenario.read(), "a after 2 violation of the format, c after 1 gap in chunk ids");
}

#[test]
fn losses_are_those_of_the_sequence_and_are_delivered_once() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with('a', 1).with_raw(b"\x70")]);
    assert_eq!(scenario.read(), "a");
    let undelivered = scenario.0.undelivered_losses_of(A).expect("a sequence that is known");
    assert_eq!(losses(&undelivered), "1 violation of the format");
    scenario.store([chunk(B, 0).with('b', 1), chunk(A, 1).with('c', 1).with('d', 1)]);
    assert_eq!(scenario.read(), "b, c after 1 violation of the format, d");
    let known = scenario.0.losses_of(A).expect("a sequence that is known");
    assert_eq!(known.count(LossCause::Violation), 1);
    assert!(scenario.0.undelivered_losses_of(A).expect("it is known").is_empty());
    assert_eq!(scenario.0.losses_of(SequenceId::new(9, 9)), None);
}

#[test]
fn what_a_chunk_lacks_that_came_again_whole_is_counted() {
    let mut scenario = Scenario::ring(1024);
    scenario.store([chunk(A, 0).with('a', 20).with('-', 1).scraped(200)]);
    assert_eq!(scenario.read(), "a*20");
    scenario.store([chunk(B, 0).filling('x', 900)]);
    let given_up = chunk(A, 0).with('a', 20).with_raw(ABORTED);
    assert_eq!(scenario.commit(&given_up), Commit::Known);
    scenario.store([chunk(A, 1).with('b', 1)]);
    assert!(scenario.read().ends_with("b after 1 no room"));
}
