//! Bytes of whoever connects.

use crate::connection::{NOW, connect, exchange};
use proptest::prelude::*;
use syscollect_exporters::TracyLive;
use syscollect_playback::Recording as _;
use syscollect_tests::tracy_viewer::HELLO;
use syscollect_tests::{golden, reference_capture};
use syscollect_tracy_protocol::{HandshakeError, Limits, Received};

/// One that knows all of the reference capture.
fn live(limits: Limits) -> TracyLive {
    let mut live = TracyLive::new(limits);
    golden::open(reference_capture::capture()).play(&mut live).unwrap();
    live
}

#[test]
fn half_a_handshake_gets_no_answer_and_a_wrong_one_no_welcome() {
    let mut live = TracyLive::default();
    let session = live.session();
    for length in 0..HELLO.len() {
        session.connect(NOW);
        assert_eq!(session.receive(&HELLO[..length]).unwrap(), Received::Taken);
        session.pump();
        assert!(session.output().is_empty());
    }
    session.connect(NOW);
    assert_eq!(session.receive(b"GET / HTTP/1.1").unwrap_err(), HandshakeError::NotTracy);
    assert!(session.output().is_empty() && session.is_over());
    session.connect(NOW);
    let newer = [&HELLO[..8], &[83, 0, 0, 0]].concat();
    let error = session.receive(&newer).unwrap_err();
    assert!(matches!(error, HandshakeError::Version { theirs: 83, ours: 82, .. }));
    assert_eq!((session.output(), session.is_over()), (&[2][..], true));
}

#[test]
fn whatever_address_is_asked_for_the_answer_is_a_polite_no() {
    let mut live = live(Limits::default());
    let mut viewer = connect(&mut live);
    exchange(&mut live, &mut viewer, 1 << 20);
    let before = live.session().counts();
    let mut asked = 0;
    for kind in [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 14, 15, 16, 200, 255] {
        for pointer in [0, 1 << 47, 0x7fff_ffff_f000, 0xffff_ffff_8100_0000, u64::MAX] {
            let mut query = [kind; 13];
            query[1..9].copy_from_slice(&u64::to_le_bytes(pointer));
            live.session().receive(&query).unwrap();
            asked += 1;
        }
    }
    live.session().pump();
    let counts = live.session().counts();
    assert_eq!((counts.answered, counts.refused), (before.answered, before.refused + asked));
}

#[test]
fn a_flood_of_queries_waits_for_who_reads_the_answers() {
    let limits = Limits { output: 10_000, input: 1_000, ..Limits::default() };
    let mut live = live(limits);
    connect(&mut live);
    let session = live.session();
    let mut full = 0;
    for _ in 0..10_000 {
        if matches!(session.receive(&[1; 13 * 50]).unwrap(), Received::Full(_)) {
            full += 1;
        }
        session.pump();
        assert!(session.output().len() < 300_000);
    }
    assert!(full > 5_000, "{full} were taken back");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_bytes_of_a_viewer_do_harm(
        hello in any::<bool>(),
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20),
        sent in prop::collection::vec(0usize..5_000, 20),
    ) {
        let limits = Limits { output: 5_000, input: 500, waiting: 10_000, naming: 4 };
        let mut live = TracyLive::new(limits);
        let session = live.session();
        session.connect(NOW);
        if hello {
            session.receive(&HELLO).unwrap();
        }
        for (piece, sent) in pieces.iter().zip(sent) {
            let _ = session.receive(piece);
            session.pump();
            prop_assert!(session.output().len() < 300_000);
            session.sent(sent);
        }
        session.finish();
        session.pump();
        session.disconnect();
    }
}
