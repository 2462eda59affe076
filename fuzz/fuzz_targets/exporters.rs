//! Whatever a recording holds, each exporter ends, without a panic and in memory that the
//! recording's size bounds; what is to be JSON is, and the packets of a trace fill their file to
//! its last byte.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use syscollect_exporters::report::{ReportExporter, ReportOptions, TreeOptions, TreeOrder};
use syscollect_exporters::{
    FirefoxExporter, FirefoxOptions, FlamegraphExporter, FoldedExporter, PerfettoExporter,
    PprofExporter, StackKind, StackOptions, TextExporter, TracyExporter,
};
use syscollect_fuzz::captures::{preamble, sealed};
use syscollect_merge::Session;
use syscollect_model::Exporter;
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

fuzz_target!(|bytes: &[u8]| {
    static PREAMBLE: LazyLock<Vec<u8>> = LazyLock::new(preamble);
    let Some((first, bytes)) = bytes.split_first() else { return };
    let file = sealed(PREAMBLE.clone(), bytes);
    let Ok(Ok(mut session)) = CaptureReader::from_bytes(file).map(Session::open) else { return };
    export(*first, &mut session);
});

fn export(which: u8, session: &mut Session) {
    match which % 10 {
        0 => {
            let file = played(session, PerfettoExporter::new(Vec::new()))
                .finish()
                .expect("memory takes every byte");
            assert_eq!(packets_end(&file), Some(()), "packets fill the file");
        }
        1 | 2 => {
            let options =
                FirefoxOptions { sched_markers: which % 10 == 2, ..FirefoxOptions::default() };
            let file = played(session, FirefoxExporter::new(Vec::new(), options)).finish();
            let file = file.expect("memory takes every byte");
            serde_json::from_slice::<serde_json::Value>(&file).expect("JSON");
        }
        3 => {
            played(session, TracyExporter::new(Vec::new()))
                .finish()
                .expect("memory takes every byte");
        }
        4 => {
            played(session, PprofExporter::new(Vec::new(), None))
                .finish()
                .expect("memory takes every byte");
        }
        5..=7 => {
            let kind = [StackKind::OnCpu, StackKind::OffCpu, StackKind::Wakers]
                [usize::from(which % 10) - 5];
            let options = StackOptions { kind, process: None, idle: false };
            played(session, FoldedExporter::new(Vec::new(), options.clone()))
                .finish()
                .expect("memory takes every byte");
            played(session, FlamegraphExporter::new(Vec::new(), options)).finish().ok();
        }
        8 => {
            played(session, TextExporter::new(Vec::new()))
                .finish()
                .expect("memory takes every byte");
        }
        _ => {
            let order = if which < 128 { TreeOrder::Callees } else { TreeOrder::Callers };
            let tree = Some(TreeOptions { order, least_ppm: 0, ..TreeOptions::default() });
            let options = ReportOptions { tree, ..ReportOptions::default() };
            let report = played(session, ReportExporter::new(options)).finish();
            assert!(report.text(80).contains("Lost") && report.tree_text(80).contains("Lost"));
            serde_json::to_vec(&report).expect("JSON");
        }
    }
}

/// The exporter after all of the session.
fn played<E: Exporter>(session: &mut Session, mut exporter: E) -> E
where
    E::Error: std::fmt::Debug,
{
    session.play(&mut exporter).expect("memory takes every byte");
    exporter
}

/// Follows the packets of a Perfetto trace (field 1, a length) to the file's end.
fn packets_end(mut file: &[u8]) -> Option<()> {
    while let Some((tag, rest)) = file.split_first() {
        let (mut length, mut shift, mut rest) = (0u64, 0, rest);
        loop {
            let (byte, after) = rest.split_first()?;
            length |= u64::from(byte & 0x7f) << shift;
            (shift, rest) = (shift + 7, after);
            if byte & 0x80 == 0 {
                break;
            }
        }
        file = rest.get(length as usize..).filter(|_| *tag == 0x0a)?;
    }
    Some(())
}
