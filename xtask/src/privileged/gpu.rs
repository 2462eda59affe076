//! GPU drivers: what a load asked of them is what was recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{
    Event, Exporter, FieldRole, GpuJob, GpuJobEnd, LaneKind, Loss, RecorderSummary, Tables, Time,
    Value,
};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::context::{Context, finish, module_parameter, number, text};
use crate::report::Outcome;

const FENCES: u64 = 100;
/// The driver's name of fences of the test module.
const MODULE_FENCES: &str = "syscollect_test";
/// The errors of the job that the test module's scheduler gives up, of the one that is refused, and
/// of the one that is never run.
const TIMED_OUT: &str = "ETIME (-62)";
const REFUSED: &str = "EIO (-5)";
const KILLED: &str = "ESRCH (-3)";

/// Fences of vgem, made and signaled by system calls: each a job, each wait a slice.
pub(crate) fn fences(context: &Context) -> Result<Outcome> {
    if !Path::new("/dev/dri").exists() {
        return Ok(Outcome::NotOffered("there is no /dev/dri: neither vgem nor a GPU".to_owned()));
    }
    let capture = context.path("fences.syscap");
    let reported = context.record(&capture, &["--gpu"], &["fences", &FENCES.to_string()])?;
    let reported = reported.first().context("the load printed nothing")?;
    let recorded = RecordedGpus::of(&capture)?;
    let jobs = recorded.jobs("vgem");
    ensure!(
        jobs.finished == FENCES,
        "{} fences of vgem came to their end, not {FENCES}: {recorded:?}",
        jobs.finished
    );
    ensure!(jobs.others == 0, "{} fences of vgem did not end well: {recorded:?}", jobs.others);
    ensure!(
        jobs.threads == FENCES,
        "{} fences name the thread that made them: {recorded:?}",
        jobs.threads
    );
    let waits = number(reported, "waits")?;
    ensure!(
        recorded.waits == waits,
        "{} waits for fences, not {waits}: {recorded:?}",
        recorded.waits
    );
    Ok(Outcome::Passed(format!(
        "{FENCES} of {FENCES} fences made and signaled, {waits} of {waits} waits"
    )))
}

/// Page flips of a virtual GPU: as many answers as commands, and its vertical blanks.
pub(crate) fn virtio(context: &Context) -> Result<Outcome> {
    if !Path::new("/sys/bus/virtio/drivers/virtio_gpu").exists() {
        return Ok(Outcome::NotOffered("there is no virtual GPU".to_owned()));
    }
    if finish(Command::new("modetest").arg("-h")).is_err() {
        return Ok(Outcome::Skipped("there is no modetest (package libdrm-tests)".to_owned()));
    }
    let capture = context.path("virtio.syscap");
    let mode = mode()?;
    let truth = Ftrace::start(&["virtio_gpu", "drm"])?;
    // It flips until its input ends.
    let flipping = format!("sleep 5 | modetest -M virtio_gpu -v -s {mode}");
    let output = context.run(&[
        "record",
        "-o",
        text(&capture)?,
        "--gpu",
        "--",
        "/bin/sh",
        "-c",
        &flipping,
    ])?;
    let (truth, stderr) = (truth.events(), output.stderr);
    let (recorded, truth) = (RecordedGpus::of(&capture)?, truth?);
    let jobs = recorded.jobs("virtio_gpu");
    let [queued, answered, flips] =
        ["virtio_gpu_cmd_queue", "virtio_gpu_cmd_response", "drm_vblank_event_delivered"]
            .map(|name| truth.iter().filter(|event| event.name == name).count() as u64);
    ensure!(
        queued > 0 && queued == answered,
        "ftrace saw {queued} commands and {answered} answers\n{stderr}"
    );
    ensure!(flips > 0, "ftrace saw no flips\n{stderr}");
    let (missed, blanks) = blanks(&recorded, &truth)?;
    // Interrupts that come while another program of the recorder runs on the CPU are lost, which it
    // counts.
    let missing =
        [queued.checked_sub(jobs.finished), flips.checked_sub(recorded.flips), Some(missed)];
    let missing =
        missing.into_iter().sum::<Option<u64>>().filter(|missing| *missing <= recorded.lost);
    let reported = format!(
        "{} of {queued} commands answered, {} of {flips} flips, {blanks}, as ftrace tells",
        jobs.finished, recorded.flips
    );
    let missing = missing.with_context(|| {
        format!("{reported}: {:?} {:?}\n{stderr}", recorded.queues, recorded.recorder_notes)
    })?;
    ensure!(
        jobs.others <= missing,
        "{} commands were not answered: {:?}",
        jobs.others,
        recorded.queues
    );
    Ok(Outcome::Passed(if missing == 0 {
        reported
    } else {
        format!("{reported}; the recorder says that it lost {missing}")
    }))
}

/// Vertical blanks come before and after the recording, too: in between each was recorded once, in
/// its order, but for those that are counted here.
fn blanks(recorded: &RecordedGpus, truth: &[FtraceEvent]) -> Result<(u64, String)> {
    let truth = truth.iter().filter(|event| event.name == "drm_vblank_event");
    let truth: Vec<_> = truth
        .map(|event| Ok((event.ticks, (event.number("crtc")?, event.number("seq")?))))
        .collect::<Result<_>>()?;
    if truth.is_empty() && recorded.blanks.is_empty() {
        return Ok((0, "no vertical blanks: this kernel has none for virtual GPUs".to_owned()));
    }
    let (begin, end) = recorded.span.context("the capture has no records of tracepoints")?;
    let distinct: BTreeSet<_> = recorded.blanks.iter().collect();
    ensure!(
        recorded.blanks.is_sorted() && distinct.len() == recorded.blanks.len(),
        "out of order: {:?}",
        recorded.blanks
    );
    let known: BTreeSet<_> = truth.iter().map(|(_, blank)| blank).collect();
    let unknown: Vec<_> = distinct.difference(&known).collect();
    ensure!(unknown.is_empty(), "vertical blanks that ftrace does not know: {unknown:?}");
    let during = truth
        .iter()
        .filter(|(ticks, blank)| distinct.contains(blank) || (begin..end).contains(ticks));
    let (during, of, all) = (during.count(), distinct.len(), truth.len());
    ensure!(of > 0, "none of {all} vertical blanks was recorded");
    let reported = format!(
        "{of} of {during} vertical blanks while it recorded (of {all} with those before and after)"
    );
    Ok(((during - of) as u64, reported))
}

/// Jobs of the DRM scheduler, driven by a module of these tests: all of them, what they wait for,
/// who waits for them, and those given up, refused and never run.
pub(crate) fn scheduler(context: &Context) -> Result<Outcome> {
    let programs = context.syscollect.parent().context("a program without a folder")?;
    let module = programs.join("syscollect_scheduler.ko");
    if !module.exists() {
        let why = fs::read_to_string(module.with_extension("why"));
        return Ok(Outcome::NotOffered(
            why.unwrap_or_else(|_| "`cargo xtask vm` builds a module for it".to_owned()),
        ));
    }
    let capture = context.path("scheduler.syscap");
    let [output, module] = [text(&capture)?, text(&module)?];
    let jobs = format!("jobs={FENCES}");
    context.succeed(&["record", "-o", output, "--gpu", "--", "/sbin/insmod", module, &jobs])?;
    let recorded = RecordedGpus::of(&capture)?;
    let (queued, run, waits, timeouts) =
        (counted("queued")?, counted("run")?, counted("waits")?, counted("timeouts")?);
    let (dependencies, refused, killed) =
        (counted("dependencies")?, counted("refused")?, counted("killed")?);
    let mut jobs =
        recorded.sum(|name| name.ends_with("test_ring") && !name.starts_with(MODULE_FENCES));
    // Before 6.1 queues have no names.
    let has_name = jobs.all() > 0;
    if !has_name {
        jobs = recorded.jobs("gpu_scheduler");
    }
    ensure!(
        queued == FENCES + 3 && jobs.all() == queued,
        "{} jobs, not {queued}: {recorded:?}",
        jobs.all()
    );
    ensure!(jobs.threads == queued, "jobs of an unknown thread: {recorded:?}");
    let reported = jobs.dependencies;
    ensure!(
        dependencies > 0 && reported == dependencies,
        "{reported} dependencies, not {dependencies}: {recorded:?}"
    );
    // Before 5.11 nothing says where a module's structures have their members.
    let tells_failures = Path::new("/sys/kernel/btf/gpu_sched").exists();
    let failed = if tells_failures { [timeouts, refused] } else { [0; 2] };
    ensure!(
        timeouts > 0 && jobs.timed_out == failed[0],
        "{} jobs timed out, not {timeouts}: {recorded:?}",
        jobs.timed_out
    );
    ensure!(
        refused > 0 && jobs.refused == failed[1],
        "{} jobs were refused, not {refused}: {recorded:?}",
        jobs.refused
    );
    ensure!(
        killed > 0 && jobs.killed == killed,
        "{} jobs were never run, not {killed}: {recorded:?}",
        jobs.killed
    );
    ensure!(
        jobs.others == killed + failed.iter().sum::<u64>(),
        "jobs of an unknown end: {recorded:?}"
    );
    // A fence of the driver on a ring that has a name is its job's.
    let fences = recorded.jobs(&format!("{MODULE_FENCES} test_ring"));
    let [own, alone, lost] = if has_name { [run, 0, 0] } else { [0, run, timeouts] };
    ensure!(
        jobs.own_fences == own && fences.all() == alone,
        "{own} and {alone} fences are not these: {recorded:?}"
    );
    ensure!(
        [fences.others, fences.timed_out] == [lost; 2],
        "{lost} fences timed out, which are not these: {recorded:?}"
    );
    let gates = recorded.jobs(&format!("{MODULE_FENCES} gate"));
    ensure!(
        gates.finished == dependencies && gates.others == 0,
        "not {dependencies} fences to wait for: {recorded:?}"
    );
    ensure!(recorded.waits == waits, "{} waits, not {waits}: {recorded:?}", recorded.waits);
    let shown = if tells_failures {
        ""
    } else {
        ", which only fences show: the kernel does not describe modules"
    };
    Ok(Outcome::Passed(format!(
        "{queued} of {queued} jobs, {run} of {run} of their fences, {waits} of {waits} waits, \
         {dependencies} of {dependencies} dependencies, {timeouts} timed out, {refused} \
         refused{shown}, {killed} never run"
    )))
}

/// The kernel's own tracer, which counts the same events.
struct Ftrace(PathBuf);

impl Ftrace {
    fn start(systems: &[&str]) -> Result<Self> {
        let folder =
            format!("/sys/kernel/tracing/instances/syscollect-test-{}", std::process::id());
        let trace = Self(PathBuf::from(folder));
        fs::create_dir(&trace.0).with_context(|| format!("cannot make {}", trace.0.display()))?;
        trace.set("buffer_size_kb", "16384")?;
        trace.set("trace_clock", "x86-tsc")?;
        systems.iter().try_for_each(|system| trace.set(&format!("events/{system}/enable"), "1"))?;
        Ok(trace)
    }

    fn set(&self, file: &str, value: &str) -> Result<()> {
        let file = self.0.join(file);
        fs::write(&file, value).with_context(|| format!("cannot write {}", file.display()))
    }

    /// What it recorded, in order of time.
    fn events(self) -> Result<Vec<FtraceEvent>> {
        self.set("tracing_on", "0")?;
        let text =
            fs::read_to_string(self.0.join("trace")).context("cannot read what ftrace recorded")?;
        Ok(text.lines().filter_map(FtraceEvent::parse).collect())
    }
}

/// An event as ftrace tells it.
#[derive(Debug, PartialEq)]
struct FtraceEvent {
    /// Of the time stamp counter.
    ticks: u64,
    name: String,
    fields: String,
}

impl FtraceEvent {
    /// Of a line like `modetest-72 [000] d.h. 8812345678: drm_vblank_event: crtc=0, seq=7`.
    fn parse(line: &str) -> Option<Self> {
        let (before, rest) = line.split_once(": ")?;
        let ticks = before.rsplit(' ').next()?.parse().ok()?;
        let (name, fields) = rest.split_once(": ")?;
        Some(Self { ticks, name: name.trim().to_owned(), fields: fields.to_owned() })
    }

    fn number(&self, field: &str) -> Result<u64> {
        let mut fields = self.fields.split(", ").filter_map(|text| text.split_once('='));
        let value =
            fields.find(|(name, _)| *name == field).and_then(|(_, value)| value.parse().ok());
        value.with_context(|| format!("no number {field} in {self:?}"))
    }
}

impl Drop for Ftrace {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("events/enable"), "0");
        let _ = fs::remove_dir(&self.0);
    }
}

/// The first connector and its first mode, as modetest's -s takes them.
fn mode() -> Result<String> {
    let listed = finish(Command::new("modetest").args(["-M", "virtio_gpu", "-c"]))?.stdout;
    let id = listed
        .lines()
        .find(|line| line.contains("\tconnected"))
        .and_then(|line| line.split('\t').next());
    let mode = listed.lines().find(|line| line.trim_start().starts_with("#0 "));
    let mode = mode.and_then(|line| line.split_whitespace().nth(1));
    let (id, mode) =
        id.zip(mode).with_context(|| format!("modetest lists no connector:\n{listed}"))?;
    Ok(format!("{id}:{mode}"))
}

/// What a capture tells of GPUs.
#[derive(Debug, Default)]
struct RecordedGpus {
    /// By the name of their queue.
    queues: BTreeMap<String, Jobs>,
    waits: u64,
    /// CRTC and number of each vertical blank.
    blanks: Vec<(u64, u64)>,
    flips: u64,
    /// Ticks of the first and the last record.
    span: Option<(u64, u64)>,
    /// Records of tracepoints that the recorder says it lost.
    lost: u64,
    /// What the recorder says of itself: shown where a test fails.
    recorder_notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Jobs {
    finished: u64,
    others: u64,
    /// Those that name the thread that handed them over.
    threads: u64,
    /// Those of the others that failed with [`TIMED_OUT`].
    timed_out: u64,
    /// Those of the others that failed with [`REFUSED`].
    refused: u64,
    /// Those of the others that failed with [`KILLED`].
    killed: u64,
    /// Fences that they waited for.
    dependencies: u64,
    /// Those that have a fence on the GPU.
    own_fences: u64,
}

impl Jobs {
    fn all(&self) -> u64 {
        self.finished + self.others
    }
}

impl RecordedGpus {
    fn of(capture: &Path) -> Result<Self> {
        let mut recorded = Self::default();
        let reader = CaptureReader::open(capture)?;
        let lanes = reader.lanes().into_iter().filter(|lane| lane.kind == LaneKind::Tracepoint);
        let chunks = lanes.flat_map(|lane| reader.chunks(lane));
        recorded.span = chunks.fold(None, |span: Option<(u64, u64)>, chunk| {
            let (first, last) = span.unwrap_or((u64::MAX, 0));
            Some((first.min(chunk.first.0), last.max(chunk.last.0)))
        });
        Session::open(reader)?.play(&mut recorded)?;
        Ok(recorded)
    }

    /// Of all queues whose name begins so.
    fn jobs(&self, driver: &str) -> Jobs {
        self.sum(|name| name.starts_with(driver))
    }

    fn sum(&self, is_wanted: impl Fn(&str) -> bool) -> Jobs {
        let queues = self.queues.iter().filter(|(name, _)| is_wanted(name));
        queues.fold(Jobs::default(), |sum, (_, jobs)| Jobs {
            finished: sum.finished + jobs.finished,
            others: sum.others + jobs.others,
            threads: sum.threads + jobs.threads,
            timed_out: sum.timed_out + jobs.timed_out,
            refused: sum.refused + jobs.refused,
            killed: sum.killed + jobs.killed,
            dependencies: sum.dependencies + jobs.dependencies,
            own_fences: sum.own_fences + jobs.own_fences,
        })
    }
}

/// What the module counted itself.
fn counted(name: &str) -> Result<u64> {
    module_parameter("syscollect_scheduler", name)
}

fn has_failed_with(job: &GpuJob, error: &str) -> bool {
    job.end == GpuJobEnd::Failed
        && job.fields.iter().any(|field| {
            field.role == FieldRole::JobError && field.value == Value::Text(error.into())
        })
}

impl Exporter for RecordedGpus {
    type Error = std::convert::Infallible;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<(), Self::Error> {
        match event {
            Event::GpuJob(track, job) => {
                let name = tables.strings.get(tables.track(*track).name).to_owned();
                let jobs = self.queues.entry(name).or_default();
                match job.end {
                    GpuJobEnd::Finished => jobs.finished += 1,
                    _ => jobs.others += 1,
                }
                jobs.threads += u64::from(job.thread.is_some());
                jobs.dependencies += job.waited_for.len() as u64;
                let mut fields = job.fields.iter();
                jobs.own_fences += u64::from(
                    fields.any(|field| tables.strings.get(field.name) == "fence on the GPU"),
                );
                jobs.timed_out += u64::from(has_failed_with(job, TIMED_OUT));
                jobs.refused += u64::from(has_failed_with(job, REFUSED));
                jobs.killed += u64::from(has_failed_with(job, KILLED));
            }
            Event::SliceBegin(track, slice) => match tables.strings.get(slice.name) {
                "waits for a fence" => self.waits += 1,
                "vblank" => {
                    let crtc = tables.strings.get(tables.track(*track).name).rsplit(' ').next();
                    let crtc = crtc.and_then(|crtc| crtc.parse().ok());
                    self.blanks.push((crtc.unwrap_or(u64::MAX), slice.number.unwrap_or(0)));
                }
                "flip" => self.flips += 1,
                _ => {}
            },
            _ => {}
        }
        Ok(())
    }

    fn end(
        &mut self,
        losses: &[Loss],
        recorder: Option<&RecorderSummary>,
        _: &Tables,
    ) -> Result<(), Self::Error> {
        self.lost += losses
            .iter()
            .filter(|loss| loss.origin == LaneKind::Tracepoint.into())
            .map(|loss| loss.count)
            .sum::<u64>();
        self.recorder_notes.extend(losses.iter().map(|loss| format!("{loss:?}")));
        if let Some(recorder) = recorder {
            self.recorder_notes.extend(recorder.missing.iter().cloned());
            let written = recorder.statistics.get("tracepoint_records_written");
            self.recorder_notes.push(format!("{written:?} records of tracepoints"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::FtraceEvent;

    #[test]
    fn a_line_of_ftrace_is_an_event_with_ticks_and_numbers() {
        let line = "          <idle>-0       [001] d.h1. 8812345678: drm_vblank_event: crtc=1, \
                    seq=7, high-prec=false";
        let reported = FtraceEvent::parse(line).unwrap();
        assert_eq!((reported.ticks, reported.name.as_str()), (8_812_345_678, "drm_vblank_event"));
        assert_eq!((reported.number("crtc").unwrap(), reported.number("seq").unwrap()), (1, 7));
        assert!(reported.number("time").is_err());
        assert_eq!(FtraceEvent::parse("# entries-in-buffer/entries-written: 2/2   #P:2"), None);
    }
}
