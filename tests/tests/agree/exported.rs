//! A recording as each format.

use syscollect_exporters::report::{Report, ReportExporter, ReportOptions};
use syscollect_exporters::{
    FirefoxExporter, FirefoxOptions, FoldedExporter, PerfettoExporter, PprofExporter, StackKind,
    StackOptions, TracyExporter,
};
use syscollect_merge::{Recordings, Session};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;
use syscollect_tests::golden;
use syscollect_tests::shown::Profile;
use syscollect_tests::tracy_reader::{self, TracyFile};

pub(crate) fn open(capture: &[u8]) -> Session {
    golden::open(capture.to_vec())
}

/// Two machines that did the same at the same time.
pub(crate) fn twice(capture: &[u8]) -> Recordings {
    let readers = [capture; 2].map(|bytes| CaptureReader::from_bytes(bytes.to_vec()).unwrap());
    Recordings::open(readers.into(), &|| false).unwrap()
}

pub(crate) fn tracy(recording: impl Recording) -> Vec<u8> {
    tracy_and_cuts(recording).0
}

/// The file, and what it had no room for.
pub(crate) fn tracy_and_cuts(mut recording: impl Recording) -> (Vec<u8>, Vec<String>) {
    let mut exporter = TracyExporter::new(Vec::new());
    recording.play(&mut exporter).unwrap();
    let cuts = exporter.cuts();
    (exporter.finish().unwrap(), cuts)
}

pub(crate) fn firefox(mut recording: impl Recording) -> Vec<u8> {
    let options = FirefoxOptions { sched_markers: true, ..FirefoxOptions::default() };
    let mut exporter = FirefoxExporter::new(Vec::new(), options);
    recording.play(&mut exporter).unwrap();
    exporter.finish().unwrap()
}

pub(crate) fn perfetto(mut recording: impl Recording) -> Vec<u8> {
    let mut exporter = PerfettoExporter::new(Vec::new());
    recording.play(&mut exporter).unwrap();
    exporter.finish().unwrap()
}

pub(crate) fn report(mut recording: impl Recording) -> Report {
    let mut exporter =
        ReportExporter::new(ReportOptions { rows: 1_000, ..ReportOptions::default() });
    recording.play(&mut exporter).unwrap();
    exporter.finish()
}

pub(crate) fn folded(mut recording: impl Recording) -> String {
    let options = StackOptions { idle: true, ..StackOptions::default() };
    let mut exporter = FoldedExporter::new(Vec::new(), options);
    recording.play(&mut exporter).unwrap();
    String::from_utf8(exporter.finish().unwrap()).unwrap()
}

pub(crate) fn off_cpu(mut recording: impl Recording) -> String {
    let options = StackOptions { kind: StackKind::OffCpu, process: None, idle: true };
    let mut exporter = FoldedExporter::new(Vec::new(), options);
    recording.play(&mut exporter).unwrap();
    String::from_utf8(exporter.finish().unwrap()).unwrap()
}

pub(crate) fn pprof(mut recording: impl Recording) -> Vec<u8> {
    let mut exporter = PprofExporter::new(Vec::new(), None);
    recording.play(&mut exporter).unwrap();
    exporter.finish().unwrap()
}

pub(crate) fn read_tracy(capture: &[u8]) -> TracyFile {
    tracy_reader::read(&tracy(open(capture))).unwrap()
}

pub(crate) fn read_firefox(capture: &[u8]) -> Profile {
    Profile::read(&firefox(open(capture))).unwrap()
}
