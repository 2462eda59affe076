//! Captures as text, and text compared with files.

use std::path::PathBuf;
use syscollect_exporters::TextExporter;
use syscollect_merge::Session;
use syscollect_model::Time;
use syscollect_playback::{Played, Recording};
use syscollect_store::CaptureReader;

/// Opens a capture that lies in memory, and which tells the same [in pieces](crate::cuts).
pub fn open(capture: Vec<u8>) -> Session {
    crate::cuts::check(&capture);
    crate::cuts::check_live(&capture);
    crate::cuts::check_beside_itself(&capture);
    let reader = CaptureReader::from_bytes(capture).expect("it is a capture");
    Session::open(reader).expect("it has clock readings")
}

/// The same of a capture of which a file knows more than a recording that goes on, as
/// [`syscollect_merge::Live`] says: what comes out meanwhile is `golden/live/NAME.txt`.
///
/// # Panics
///
/// When it is another.
pub fn open_foreseen(name: &str, capture: Vec<u8>) -> Session {
    crate::cuts::check(&capture);
    crate::cuts::check_beside_itself(&capture);
    let mut lines = crate::cuts::live(&capture).expect("it is whole").join("\n");
    lines.push('\n');
    check_lines(&format!("live/{name}"), &lines);
    let reader = CaptureReader::from_bytes(capture).expect("it is a capture");
    Session::open(reader).expect("it has clock readings")
}

/// A session as readable lines, and what was played.
pub fn text(session: &mut impl Recording) -> (String, Played) {
    text_of_range(session, None, None)
}

/// The same of a part of the time.
pub fn text_of_range(
    session: &mut impl Recording,
    from: Option<Time>,
    to: Option<Time>,
) -> (String, Played) {
    let mut exporter = TextExporter::new(Vec::new());
    let played = session.play_range(&mut exporter, from, to).expect("memory takes every byte");
    let bytes = exporter.finish().expect("memory takes every byte");
    (String::from_utf8(bytes).expect("lines are UTF-8"), played)
}

/// Compares a session's lines, and what it says of itself, with `golden/NAME.txt`.
///
/// With `UPDATE_GOLDEN=1` in the environment the file is written instead.
///
/// # Panics
///
/// When they differ.
pub fn check(name: &str, session: &mut impl Recording) {
    check_range(name, session, None, None);
}

/// The same of a part of the time.
///
/// # Panics
///
/// When they differ.
pub fn check_range(name: &str, session: &mut impl Recording, from: Option<Time>, to: Option<Time>) {
    let (mut lines, played) = text_of_range(session, from, to);
    let kinds: Vec<String> =
        played.events_by_type.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    lines += &format!(
        "played: {} records, {} events ({}), {} lost, {} stacks missing\n",
        played.records,
        played.events,
        kinds.join(", "),
        played.lost,
        played.missing_stacks
    );
    check_lines(name, &lines);
}

fn check_lines(name: &str, lines: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, lines).expect("the golden file can be written");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some((line, (got, want))) =
        (1..).zip(lines.lines().zip(expected.lines())).find(|(_, (a, b))| a != b)
    {
        panic!(
            "{name}.txt differs in line {line}:\n  got  {got}\n  want {want}\nall that came:\n\
             {lines}"
        );
    }
    assert_eq!(lines, expected, "{name}.txt has another number of lines");
}
