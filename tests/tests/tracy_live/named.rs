//! Functions whose names are found when a viewer asks.

use crate::connection::{NOW, connect, end, exchange};
use crate::expected::Both;
use syscollect_exporters::{CodeToName, TracyLive};
use syscollect_model::{Symbol, SymbolFrame, SymbolTable};
use syscollect_playback::Recording as _;
use syscollect_tests::tracy_viewer::{HELLO, StrictViewer};
use syscollect_tests::{golden, reference_capture};
use syscollect_tracy_protocol::{FrameRow, Host, Limits, Session};

/// As who looks for names would tell of them.
fn found(code: CodeToName) -> SymbolTable {
    let CodeToName { path, build_id, mut offsets, .. } = code;
    offsets.sort_unstable();
    let symbol = |offset| Symbol {
        offset,
        start: offset,
        size: 8,
        frames: vec![SymbolFrame { function: format!("found_{offset:x}"), ..Default::default() }],
        ..Default::default()
    };
    let symbols = offsets.into_iter().map(symbol).collect();
    SymbolTable { path, build_id, symbols, ..Default::default() }
}

#[test]
fn names_come_when_they_are_found_and_the_stream_waits_for_none() {
    let mut viewer: Option<StrictViewer> = None;
    let mut both = Both::new(|events: u64, live: &mut TracyLive| {
        if viewer.is_none() {
            live.find_names(|_| false);
        }
        let viewer = viewer.get_or_insert_with(|| connect(live));
        if events.is_multiple_of(50) {
            exchange(live, viewer, 100_000);
        }
    });
    golden::open(reference_capture::capture()).play(&mut both).unwrap();
    let Both { mut live, .. } = both;
    let mut viewer = viewer.unwrap();
    exchange(&mut live, &mut viewer, 100_000);
    assert!(!viewer.is_answered(), "it waits for names");
    assert!(!viewer.seen().switches.is_empty(), "and for nothing else");
    let code = live.take_to_name(2);
    let count: usize = code.iter().map(|code| code.offsets.len()).sum();
    let tables: Vec<_> = code.into_iter().map(found).collect();
    live.add_names(&tables);
    live.give_up_names();
    exchange(&mut live, &mut viewer, 100_000);
    assert!(viewer.is_answered());
    let lines = viewer.seen().frames.values().flatten();
    let named = lines.filter(|(name, ..)| name.starts_with("found_")).count();
    assert_eq!(named, count);
    assert!(count > 0);
    end(&mut live, &mut viewer);
}

#[test]
fn what_waits_for_names_leaves_a_viewer_room_for_other_questions() {
    const CALLSTACK_FRAME: u8 = 10;
    let limits = Limits { naming: 16, ..Limits::default() };
    let mut session = Session::with_limits(Host::default(), 1, limits);
    for address in 0..16 {
        let row = FrameRow { image: "code".into(), lines: Box::default() };
        session.catalogue.frame(address, row);
        session.catalogue.may_be_named(address);
    }
    session.connect(NOW);
    session.receive(&HELLO).unwrap();
    for address in 0..16u64 {
        let query = [&[CALLSTACK_FRAME][..], &address.to_le_bytes(), &[0; 4]].concat();
        session.receive(&query).unwrap();
    }
    // Of what nearly fills the room one is answered each time, until there is some.
    for expected in [0, 1, 2, 2, 2] {
        session.pump();
        assert_eq!(session.counts().answered, expected);
    }
    assert_eq!(session.take_to_name().len(), 16, "for a later viewer all are looked for");
    session.named(0, None);
    assert_eq!(session.counts().answered, 2, "it was answered");
    session.named(2, None);
    assert_eq!(session.counts().answered, 3);
}
