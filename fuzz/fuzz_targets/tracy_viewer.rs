//! Whatever bytes come from who connects as a Tracy viewer, nothing breaks, and what waits for it
//! has a bound.
//!
//! An input is pieces: a length, how much of the output is taken then, and so many bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use syscollect_tracy_protocol::{Event, Host, Limits, LocationRow, Session, ThreadRow};

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { waiting: 4_000, output: 2_000, input: 300, naming: 4 };
    let mut session = Session::with_limits(Host::default(), 1, limits);
    let catalogue = &mut session.catalogue;
    let [label, name, process] = ["a / b", "b", "a"].map(Box::from);
    catalogue.name_thread(1, ThreadRow { label, name, process, pid: 1, is_quiet: false });
    let text = catalogue.text("work");
    let place = LocationRow { name: Some(text), function: text, file: text, line: 1, color: 0 };
    let location = catalogue.location(place);
    session.connect(1);
    let (mut rest, mut time) = (bytes, 0);
    while let [length, taken, piece @ ..] = rest {
        let length = usize::from(*length).min(piece.len());
        let _ = session.receive(&piece[..length]);
        time += 1;
        session.tell(time, Event::ZoneBegin { thread: 1, location, stack: None });
        session.tell(time, Event::ZoneEnd { thread: 1, said: None });
        session.pump();
        assert!(session.output().len() < 400_000, "what waits has no bound");
        session.sent(usize::from(*taken) * 64);
        rest = &piece[length..];
    }
    session.finish();
    session.pump();
});
