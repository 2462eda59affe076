//! Patches, chunks that their writers still have, and what comes again.
#![allow(missing_docs, reason = "a test")]

mod scenario;

use scenario::{A, B, Scenario, chunk};
use syscollect_trace_buffer::{Commit, Patch, PatchError, Refusal};

#[test]
fn a_patch_replaces_bytes() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with('a', 5), chunk(B, 0).with('b', 8), chunk(A, 1).with('c', 3)]);
    assert!(scenario.patch(B, 0, 5, "YMCA"));
    assert_eq!(scenario.read(), "a*5, b*4YMCA, c*3");
}

#[test]
fn patches_reach_both_ends_of_the_last_fragment_and_nothing_else() {
    let mut scenario = Scenario::ring(4096);
    let draft = chunk(A, 0).with('a', 4).with('b', 15).on_next().needs_patch();
    scenario.store([draft, chunk(A, 1).with('c', 2).continued()]);
    // Sizes lie at 0 and 5, contents at 1 and 6.
    for (offset, with) in [(0, "XXXX"), (1, "XX"), (4, "XX"), (5, "X"), (18, "XXXX"), (90, "")] {
        assert!(!scenario.patch(A, 0, offset, with), "at {offset}");
    }
    let patch = |offset, bytes| Patch { offset, bytes };
    let two = [patch(6, b"PERF".as_slice()), patch(17, b"ETTO".as_slice())];
    assert_eq!(scenario.0.patch(A, 0, &two, false), Ok(()));
    assert_eq!(scenario.read(), "a*4, PERFb*7ET*2O+c*2");
    assert_eq!(scenario.lost(), "nothing");
}

#[test]
fn of_patches_that_come_together_all_are_made_or_none() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with('a', 8).on_next().needs_patch()]);
    let patch = |offset| Patch { offset, bytes: b"XX" };
    let error = PatchError::OutOfBounds { offset: 8, len: 2 };
    assert_eq!(scenario.0.patch(A, 0, &[patch(1), patch(8)], false), Err(error));
    assert_eq!(
        error.to_string(),
        "a patch of 2 bytes at 8 is not within the chunk's last fragment"
    );
    assert!(scenario.patch(A, 0, 1, ""));
    scenario.store([chunk(A, 1).with('b', 1).continued()]);
    assert_eq!(scenario.read(), "a*8+b");
}

#[test]
fn a_patch_of_a_chunk_that_is_not_there_does_nothing() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with('a', 8)]);
    assert!(!scenario.patch(B, 0, 1, "XXXX"));
    for id in [1, 2, u32::MAX, 1 << 31] {
        assert!(!scenario.patch(A, id, 1, "XXXX"));
    }
    assert_eq!(scenario.read(), "a*8");
    assert!(!scenario.patch(A, 0, 1, "XXXX"), "it was read");
    assert_eq!(scenario.0.statistics().patches_refused, 6);
}

#[test]
fn a_packet_waits_for_its_patches_and_holds_up_its_own_sequence_only() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([
        chunk(A, 0).with('a', 16).on_next().needs_patch(),
        chunk(A, 1).with('b', 16).continued().with('c', 1),
        chunk(B, 0).with('p', 16),
        chunk(B, 1).with('q', 16).on_next().needs_patch(),
        chunk(B, 2).with('r', 16).continued(),
    ]);
    assert_eq!(scenario.read(), "p*16");
    for _ in 0..5 {
        assert_eq!(scenario.read(), "");
    }
    assert!(scenario.patch(B, 1, 1, "PATC"));
    assert_eq!(scenario.read(), "PATCq*12+r*16");
    let first = Patch { offset: 1, bytes: b"PERF" };
    assert_eq!(scenario.0.patch(A, 0, &[first], true), Ok(()));
    assert_eq!(scenario.read(), "", "there is more to come");
    assert!(scenario.patch(A, 0, 5, "ETTO"));
    assert_eq!(scenario.read(), "PERFET*2Oa*8+b*16, c");
    assert_eq!(scenario.lost(), "nothing");
}

#[test]
fn a_packet_in_the_middle_of_whose_chunks_one_needs_a_patch_waits() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([
        chunk(A, 0).with('a', 4).on_next(),
        chunk(A, 1).with('b', 4).continued().on_next().needs_patch(),
        chunk(A, 2).with('c', 4).continued().with('d', 4).on_next().needs_patch(),
        chunk(A, 3).with('e', 4).continued(),
    ]);
    assert!(scenario.patch(A, 2, 6, "D"), "the later one first");
    assert_eq!(scenario.read(), "");
    assert!(scenario.patch(A, 1, 1, "B"));
    assert_eq!(scenario.read(), "a*4+Bb*3+c*4, Dd*3+e*4");
}

#[test]
fn only_the_last_fragment_waits_for_a_patch() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([
        chunk(A, 0).with('a', 4).on_next(),
        chunk(A, 1).with('b', 4).continued().with('c', 4).with('d', 4).on_next().needs_patch(),
    ]);
    assert_eq!(scenario.read(), "a*4+b*4, c*4");
}

#[test]
fn what_waits_for_a_patch_is_a_counted_loss_when_it_is_overwritten() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([
        chunk(A, 0).with('a', 1024).on_next().needs_patch(),
        chunk(A, 1).with('b', 1024).continued(),
    ]);
    assert_eq!(scenario.read(), "");
    scenario.store([chunk(A, 2).with('c', 2000), chunk(A, 3).with('d', 1900)]);
    assert_eq!(scenario.read(), "c*2000 after 1 overwritten, d*1900");
    assert!(!scenario.patch(A, 0, 2, "XXXX"));
}

#[test]
fn the_last_fragment_of_a_chunk_that_its_writer_has_is_not_read() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with('a', 20).with('b', 30).on_next().needs_patch().scraped(512)]);
    assert_eq!(scenario.read(), "a*20");
    assert_eq!(scenario.read(), "");
    scenario.store([chunk(A, 1).with('c', 40).continued().with('d', 50), chunk(B, 0).with('p', 1)]);
    assert_eq!(scenario.read(), "p", "the sequence waits, and no other");
    let whole = chunk(A, 0).with('a', 20).with('b', 30).on_next();
    assert_eq!(scenario.commit(&whole), Commit::Moved);
    assert_eq!(scenario.read(), "b*30+c*40, d*50");
    assert_eq!(scenario.lost(), "nothing");
}

#[test]
fn a_recommit_extends_a_chunk_before_in_the_middle_of_and_after_reading() {
    let whole = chunk(A, 0).with('a', 20).with('b', 30).with('c', 40).with('d', 50);
    for (already, read, then) in [
        (0, "", "a*20, b*30, c*40, d*50"),
        (1, "a*20", "b*30, c*40, d*50"),
        (9, "a*20, b*30", "c*40, d*50"),
    ] {
        let mut scenario = Scenario::ring(4096);
        scenario.store([chunk(A, 0).with('a', 20).with('b', 30).with('-', 5).scraped(512)]);
        assert_eq!(scenario.read_packets(already), read);
        assert!(matches!(scenario.commit(&whole), Commit::Extended | Commit::Moved));
        assert_eq!(scenario.read(), then);
        assert_eq!(scenario.lost(), "nothing");
    }
}

#[test]
fn a_second_scrape_extends_and_the_chunk_is_still_its_writers() {
    let mut scenario = Scenario::ring(4096);
    let scrape = chunk(A, 0).with('a', 20).with('b', 30).with('c', 10).on_next().scraped(512);
    scenario.store([scrape.clone()]);
    assert_eq!(scenario.read(), "a*20, b*30");
    assert_eq!(scenario.commit(&scrape), Commit::Known);
    assert_eq!(scenario.read(), "");
    let more = chunk(A, 0).with('a', 20).with('b', 30).with('c', 10).with('-', 1).scraped(512);
    assert_eq!(scenario.commit(&more), Commit::Extended);
    assert_eq!(scenario.read(), "c*10");
    let whole = chunk(A, 0).with('a', 20).with('b', 30).with('c', 10).with('d', 9).on_next();
    assert_eq!(scenario.commit(&whole), Commit::Moved);
    scenario.store([chunk(A, 1).with('e', 10).continued().with('f', 20)]);
    assert_eq!(scenario.read(), "d*9+e*10, f*20");
    assert_eq!(scenario.lost(), "nothing");
}

#[test]
fn a_packet_does_not_skip_a_chunk_that_its_writer_has() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([
        chunk(A, 0).with('a', 5).on_next(),
        chunk(A, 1).with('b', 5).continued().on_next().scraped(64),
        chunk(A, 2).with('c', 5).continued(),
    ]);
    assert_eq!(scenario.read(), "", "what lies between may still come");
    let whole = chunk(A, 1).with('b', 5).continued().on_next();
    assert_eq!(scenario.commit(&whole), Commit::Extended);
    assert_eq!(scenario.read(), "a*5+b*5+c*5");
}

#[test]
fn what_is_new_of_a_chunk_that_was_read_goes_where_new_chunks_go() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with('a', 32).with('b', 32).scraped(512 - 16)]);
    assert_eq!(scenario.read(), "a*32");
    scenario.store([
        chunk(B, 0).filling('x', 1024),
        chunk(B, 1).filling('x', 1024),
        chunk(B, 2).filling('x', 1024),
        chunk(B, 3).filling('y', 512),
    ]);
    assert_eq!(scenario.read(), "x*1006, x*1006, x*1006, y*494");
    // The next write would have gone over what was scraped.
    let whole = chunk(A, 0).with('a', 32).with('b', 32).with('c', 64).on_next();
    assert_eq!(scenario.commit(&whole), Commit::Moved);
    scenario.store([
        chunk(B, 4).filling('z', 512),
        chunk(A, 1).with('d', 32).continued().with('e', 32),
    ]);
    assert_eq!(scenario.read(), "b*32, c*64+d*32, z*494, e*32");
    assert_eq!(scenario.lost(), "nothing");
}

#[test]
fn a_chunk_with_unread_packets_is_extended_where_it_lies() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with('a', 32).with('b', 32).with('-', 1).scraped(512)]);
    assert_eq!(scenario.read_packets(1), "a*32");
    scenario.store([chunk(B, 0).with('x', 1)]);
    let whole = chunk(A, 0).with('a', 32).with('b', 32).with('c', 32);
    assert_eq!(scenario.commit(&whole), Commit::Extended);
    assert_eq!(scenario.read(), "b*32, c*32, x");
}

#[test]
fn a_chunk_that_was_overwritten_while_its_writer_had_it_may_come_again() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with('a', 20).with('b', 30).with('-', 5).scraped(512)]);
    assert_eq!(scenario.read(), "a*20, b*30");
    for id in 0..4 {
        scenario.store([chunk(B, id).filling('x', 1024)]);
    }
    let is_whole =
        |scenario: &Scenario| scenario.0.losses_of(A).is_some_and(|losses| losses.is_empty());
    assert!(is_whole(&scenario), "the rest may come");
    let more = chunk(A, 0).with('a', 20).with('b', 30).with('c', 5).with('-', 1).scraped(512);
    assert_eq!(scenario.commit(&more), Commit::Stored);
    assert!(scenario.read().ends_with("c*5"), "and nothing twice");
    let whole = chunk(A, 0).with('a', 20).with('b', 30).with('c', 5).with('d', 6).on_next();
    assert_eq!(scenario.commit(&whole), Commit::Moved);
    scenario.store([chunk(A, 1).with('e', 7).continued()]);
    assert_eq!(scenario.read(), "d*6+e*7");
    assert!(is_whole(&scenario));
}

#[test]
fn a_sequence_that_waits_for_a_recommit_goes_on_with_a_loss_when_it_is_overwritten() {
    let mut scenario = Scenario::ring(1024);
    scenario.store([
        chunk(A, 0).with('a', 20).with('b', 30).on_next().scraped(256),
        chunk(B, 0).filling('x', 400),
        chunk(A, 1).with('c', 10).continued().with('d', 10),
    ]);
    assert_eq!(scenario.read(), "a*20, x*382");
    scenario.store([chunk(B, 1).filling('y', 300), chunk(B, 2).filling('z', 200)]);
    assert_eq!(scenario.read(), "d*10 after 1 overwritten, y*282, z*182");
    let whole = chunk(A, 0).with('a', 20).with('b', 30).on_next();
    assert_eq!(scenario.commit(&whole), Commit::Refused(Refusal::Late));
}

#[test]
fn the_same_again_is_nothing_new() {
    let mut scenario = Scenario::ring(4096);
    let draft = chunk(A, 0).with('a', 20).with('b', 30);
    scenario.store([draft.clone()]);
    assert_eq!(scenario.commit(&draft), Commit::Known);
    assert_eq!(scenario.read(), "a*20, b*30");
    assert_eq!(scenario.commit(&draft), Commit::Known);
    scenario.store([chunk(A, 1).with('c', 40)]);
    assert_eq!(scenario.read(), "c*40");
    assert_eq!(scenario.lost(), "nothing");
}

#[test]
fn a_recommit_cannot_take_back_or_change_what_was_committed() {
    let scraped = chunk(A, 0).with('a', 30).with('b', 40).with('-', 1).scraped(100);
    for lie in [
        chunk(A, 0).with('a', 30),
        chunk(A, 0).with('a', 10).with('b', 10).with('c', 100),
        chunk(A, 0).with('a', 30).with('b', 40).with('c', 90),
        chunk(A, 0).with('a', 30).with('b', 40).with('c', 5).continued(),
    ] {
        let mut scenario = Scenario::ring(4096);
        scenario.store([scraped.clone()]);
        assert_eq!(scenario.read_packets(1), "a*30");
        assert_eq!(scenario.commit(&lie), Commit::Refused(Refusal::Contradiction));
        assert_eq!(scenario.read(), "b*40 after 1 violation of the format");
    }
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with('a', 30).with('b', 40)]);
    let longer = chunk(A, 0).with('a', 30).with('b', 40).with('c', 1);
    assert_eq!(scenario.commit(&longer), Commit::Refused(Refusal::Contradiction));
    assert_eq!(scenario.commit(&chunk(A, 0).with('a', 3)), Commit::Refused(Refusal::Contradiction));
    assert_eq!(scenario.read(), "a*30 after 2 violation of the format, b*40");
}

#[test]
fn a_recommit_out_of_order_is_one_all_the_same() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with('a', 20).with('b', 30).with('-', 1).scraped(512)]);
    assert_eq!(scenario.read_packets(1), "a*20");
    scenario.store([chunk(A, 1).with('d', 50).continued().with('e', 60)]);
    let whole = chunk(A, 0).with('a', 20).with('b', 30).with('c', 40).on_next();
    assert_eq!(scenario.commit(&whole), Commit::Extended);
    assert_eq!(scenario.read(), "b*30, c*40+d*50, e*60");
}
