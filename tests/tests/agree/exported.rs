//! A capture as each format.

use syscollect_exporters::report::{Report, ReportExporter, ReportOptions};
use syscollect_exporters::{
    FirefoxExporter, FirefoxOptions, FoldedExporter, PerfettoExporter, PprofExporter, StackOptions,
    TracyExporter,
};
use syscollect_merge::Session;
use syscollect_playback::Recording;
use syscollect_tests::golden;
use syscollect_tests::shown::Profile;
use syscollect_tests::tracy_reader::{self, TracyFile};

pub(crate) fn open(capture: &[u8]) -> Session {
    golden::open(capture.to_vec())
}

pub(crate) fn tracy(capture: &[u8]) -> Vec<u8> {
    tracy_and_cuts(capture).0
}

/// The file, and what it had no room for.
pub(crate) fn tracy_and_cuts(capture: &[u8]) -> (Vec<u8>, Vec<String>) {
    let mut exporter = TracyExporter::new(Vec::new());
    open(capture).play(&mut exporter).unwrap();
    let cuts = exporter.cuts();
    (exporter.finish().unwrap(), cuts)
}

pub(crate) fn firefox(capture: &[u8]) -> Vec<u8> {
    let options = FirefoxOptions { sched_markers: true, ..FirefoxOptions::default() };
    let mut exporter = FirefoxExporter::new(Vec::new(), options);
    open(capture).play(&mut exporter).unwrap();
    exporter.finish().unwrap()
}

pub(crate) fn perfetto(capture: &[u8]) -> Vec<u8> {
    let mut exporter = PerfettoExporter::new(Vec::new());
    open(capture).play(&mut exporter).unwrap();
    exporter.finish().unwrap()
}

pub(crate) fn report(capture: &[u8]) -> Report {
    let mut exporter =
        ReportExporter::new(ReportOptions { rows: 1_000, ..ReportOptions::default() });
    open(capture).play(&mut exporter).unwrap();
    exporter.finish()
}

pub(crate) fn folded(capture: &[u8]) -> String {
    let mut exporter = FoldedExporter::new(Vec::new(), StackOptions::default());
    open(capture).play(&mut exporter).unwrap();
    String::from_utf8(exporter.finish().unwrap()).unwrap()
}

pub(crate) fn pprof(capture: &[u8]) -> Vec<u8> {
    let mut exporter = PprofExporter::new(Vec::new(), None);
    open(capture).play(&mut exporter).unwrap();
    exporter.finish().unwrap()
}

pub(crate) fn read_tracy(capture: &[u8]) -> TracyFile {
    tracy_reader::read(&tracy(capture)).unwrap()
}

pub(crate) fn read_firefox(capture: &[u8]) -> Profile {
    Profile::read(&firefox(capture)).unwrap()
}
