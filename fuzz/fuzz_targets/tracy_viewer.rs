//! Whatever bytes come from who connects as a Tracy viewer, nothing breaks, and what waits for it
//! has a bound.
//!
//! An input is pieces: a length, how much of the output is taken then, what happens meanwhile, and
//! so many bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::Arc;
use syscollect_tracy_protocol::{
    Event, FrameRow, Host, Limits, LineRow, LocationId, LocationRow, Memory, Message, PlotId,
    PlotRow, Session, SetId, SetRow, StackId, Switch, TextId, ThreadRow,
};

/// Rows that events refer to.
struct KnownRows {
    text: TextId,
    location: LocationId,
    stack: StackId,
    plot: PlotId,
    set: SetId,
}

/// Addresses of the stack; of the first somebody finds the function.
const ADDRESSES: [u64; 2] = [0x1000, 0x2000];

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { waiting: 4_000, output: 2_000, input: 300, naming: 4 };
    let mut session = Session::with_limits(Host::default(), 1, limits);
    let rows = known(&mut session);
    session.connect(1);
    let (mut rest, mut time) = (bytes, 0);
    while let [length, taken, happens, piece @ ..] = rest {
        let length = usize::from(*length).min(piece.len());
        let _ = session.receive(&piece[..length]);
        time += 1;
        happen(*happens, time, &rows, &mut session);
        session.pump();
        assert!(session.output().len() < 400_000, "what waits has no bound");
        session.sent(usize::from(*taken) * 64);
        rest = &piece[length..];
    }
    session.finish();
    session.pump();
});

fn known(session: &mut Session) -> KnownRows {
    let catalogue = &mut session.catalogue;
    let [label, name, process] = ["a / b", "b", "a"].map(Box::from);
    catalogue.name_thread(1, ThreadRow { label, name, process, pid: 1, is_quiet: false });
    let text = catalogue.text("work");
    let place = LocationRow { name: Some(text), function: text, file: text, line: 1, color: 0 };
    let location = catalogue.location(place);
    for address in ADDRESSES {
        catalogue.frame(address, frame("unknown"));
    }
    catalogue.may_be_named(ADDRESSES[0]);
    catalogue.add_pool(text);
    KnownRows {
        text,
        location,
        stack: catalogue.stack(&ADDRESSES).expect("there is room for one"),
        plot: catalogue.add_plot(PlotRow { name: text, format: 0, is_step: true }),
        set: catalogue.add_set(SetRow { name: Some(text), continuous: false }),
    }
}

fn frame(name: &str) -> FrameRow {
    let [name, file, image] = [name, "b.rs", "/b"].map(Arc::from);
    FrameRow { image, lines: [LineRow { name, file, line: 1, symbol: 0x3000, length: 16 }].into() }
}

/// A bit for each thing that may happen.
fn happen(what: u8, time: i64, rows: &KnownRows, session: &mut Session) {
    let KnownRows { text, location, stack, plot, set } = *rows;
    let (thread, some_stack) = (1, Some(stack));
    let allocated = (time % 2 == 1).then_some(64);
    let memory = Memory { thread, pool: Some(text), address: 16, allocated, stack: some_stack };
    let next = (time % 2) as u32;
    let (previous, stack_left) = (Some(1 - next), (next == 0).then_some(stack));
    let switch =
        Switch { cpu: 0, previous, next, state: 0, priorities: [0; 2], stack: stack_left };
    let (color, severity, own) = (None, 2, false);
    let words = "words".into();
    let message = Message { thread, text: words, color, severity, own, stack: some_stack };
    let events = [
        vec![
            Event::ZoneBegin { thread, location, stack: some_stack },
            Event::ZoneEnd { thread, said: None },
        ],
        vec![Event::Switch(switch), Event::Wakeup { cpu: 0, thread }],
        vec![Event::Sample { thread, stack }, Event::Message(Box::new(message))],
        vec![Event::Memory(memory), Event::Plot(plot, time as f64)],
        vec![if next == 0 { Event::FrameEnd(set) } else { Event::FrameBegin(set) }],
    ];
    for (bit, events) in events.into_iter().enumerate() {
        if what >> bit & 1 == 1 {
            events.into_iter().for_each(|event| session.tell(time, event));
        }
    }
    match what >> 5 {
        1 => session.keep_alive(),
        2 => {
            let wanted = session.take_to_name();
            wanted.into_iter().for_each(|address| session.named(address, Some(frame("known"))));
        }
        3 => session.connect(1),
        4 => session.disconnect(),
        5 => session.finish(),
        _ => {}
    }
}
