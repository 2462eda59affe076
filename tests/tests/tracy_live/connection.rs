//! A viewer and what tells it, with nothing between them.

use syscollect_exporters::TracyLive;
use syscollect_tests::tracy_viewer::StrictViewer;
use syscollect_tracy_protocol::Received;

/// Seconds since 1970 when viewers connect.
pub(crate) const NOW: u64 = 1_700_000_000;

/// A viewer that has connected.
pub(crate) fn connect(live: &mut TracyLive) -> StrictViewer {
    let mut viewer = StrictViewer::default();
    live.session().connect(NOW);
    let hello = viewer.take_bytes();
    assert_eq!(live.session().receive(&hello), Ok(Received::Welcomed));
    viewer
}

/// Both hear each other, in pieces of so many bytes at most, until nothing is left to say.
pub(crate) fn exchange(live: &mut TracyLive, viewer: &mut StrictViewer, piece: usize) {
    loop {
        let session = live.session();
        session.pump();
        let mut moved = 0;
        while !session.output().is_empty() {
            let bytes = &session.output()[..session.output().len().min(piece)];
            viewer.receive(bytes).expect("nothing contradicts what came before");
            let sent = bytes.len();
            session.sent(sent);
            moved += sent;
        }
        let asked = viewer.take_bytes();
        for bytes in asked.chunks(piece) {
            assert_eq!(session.receive(bytes), Ok(Received::Taken));
        }
        if moved + asked.len() == 0 {
            return;
        }
    }
}

/// Nothing more comes: both say so.
pub(crate) fn end(live: &mut TracyLive, viewer: &mut StrictViewer) {
    live.session().finish();
    exchange(live, viewer, 10_000);
    assert!(viewer.is_at_end() && viewer.is_terminated() && live.session().is_over());
    assert_eq!(live.session().counts().refused, 0, "it was asked for what it had told of");
}
