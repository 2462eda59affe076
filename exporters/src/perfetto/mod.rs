//! Perfetto traces, for ui.perfetto.dev and trace_processor.
//!
//! What a session becomes:
//!
//! | model | trace |
//! |---|---|
//! | switches, wakeups | `FtraceEventBundle.compact_sched`, full events where that cannot say it |
//! | why a thread sleeps | `sched_blocked_reason` with interned kernel symbols |
//! | new wakeups, moves, starts, names, ends | ftrace events |
//! | processes and threads | `ProcessTree`, `task_newtask`, `sched_process_free` |
//! | CPU samples | `PerfSample`, perf session "CPU samples" |
//! | stacks of blocked threads | `PerfSample`, a session and a process `[off-CPU]` of their own: one for each interval |
//! | stacks of who woke others | `PerfSample`, a session and a process `[wakers]` of their own: one for each wakeup |
//! | counters in kHz on a CPU | `cpu_frequency` |
//! | other counters, slices, instants, messages | `TrackEvent`; a thread's zones lie on the thread's own, above its states |
//! | numbers of slices, texts of messages | names |
//! | fields, and what becomes known later | debug annotations |
//! | locks | slices by holder on tracks below "Locks" of the process, "waiting for ..." below the thread |
//! | event loops | stretches over a limit without their wait on a track below the thread |
//! | memory | counters below "Memory" of the process |
//! | crashes | instants on the thread and on "Crash" of the process |
//! | processes that a signal ended | instants on "Ended by a signal" of the process |
//! | GPU jobs | slices on a track for each queue, below "GPU" of the machine or of the process; see below |
//! | frames of the machine | slices on tracks below "Displays" |
//! | colours | left out: there is no field for them |
//! | losses | instants on the track "Losses"; exact totals in the statistics of severity `data_loss` |
//! | the session, the recorder's summary | `SystemInfo`, `CpuInfo`, metadata `trace_attribute.syscollect.*` |
//!
//! Facts, all seen with trace_processor v55.3 and the UI v52: everything is in
//! CLOCK_BOOTTIME, which needs no conversion; the UI draws one flame graph over
//! all perf sessions of the processes that are selected, hence processes that
//! stand for those of other stacks (`graphs`); samples without a stack
//! are shown without one.
//!
//! GPU jobs are track events, not `GpuRenderStageEvent`s. The UI v52 draws both in
//! a group "GPU", but arrows only between track events: what joins a render stage
//! with the thread that submitted it (`TrackEvent` extension 3000,
//! `gpu_correlation`), and one with another, becomes flows in trace_processor
//! v55.3 and none there. Numbers of a render stage can only be text, and both
//! together would show every job twice. The view `gpu_slice` is of render stages
//! alone: jobs are the slices on tracks whose parent is named "GPU".

mod context;
mod details;
mod fields;
mod gpu;
mod graphs;
mod intern;
mod lane;
mod locks;
mod loops;
mod machine;
mod memory;
mod names;
mod packets;
mod samples;
mod sched;
mod session;
mod slices;
mod stream;
mod threads;
mod tracks;

use crate::process_filter::concerning;
use crate::{ExportError, LoopLimit, ProcessFilter};
use context::Context;
use machine::MachineTrace;
use std::io::Write;
use stream::Stream;
use syscollect_model::{Event, Exporter, Loss, MachineId, RecorderSummary, Tables, Time};

/// Writes a session as a Perfetto trace, as a stream.
///
/// ```
/// use syscollect_exporters::PerfettoExporter;
/// use syscollect_model::{Exporter, Tables};
///
/// let tables = Tables::default();
/// let mut exporter = PerfettoExporter::new(Vec::new());
/// exporter.begin(&tables)?;
/// exporter.end(&[], None, &tables)?;
/// let file: Vec<u8> = exporter.finish()?;
/// assert_eq!(file[0], 0x0a, "packets are field 1 of the trace");
/// # Ok::<(), syscollect_exporters::ExportError>(())
/// ```
pub struct PerfettoExporter<W: Write> {
    stream: Stream<W>,
    /// Only these processes.
    process: Option<ProcessFilter>,
    loop_limit: LoopLimit,
    /// By their ids; none before the beginning.
    machines: Vec<MachineTrace>,
    /// The last event; `None` before the first.
    last: Option<Time>,
}

impl<W: Write> PerfettoExporter<W> {
    /// A writer to `out`, which gets large pieces and needs no buffer. One
    /// thread is started that compresses.
    pub fn new(out: W) -> Self {
        Self {
            stream: Stream::new(out, 1),
            process: None,
            loop_limit: LoopLimit::default(),
            machines: Vec::new(),
            last: None,
        }
    }

    /// Only these processes, who wakes them, and what belongs to the machine; all of them where
    /// `process` is `None`. The CPUs are idle where they run others.
    pub fn only(self, process: Option<ProcessFilter>) -> Self {
        Self { process, ..self }
    }

    /// Event loops are told to be away after that time.
    pub fn with_loop_limit(self, loop_limit: LoopLimit) -> Self {
        Self { loop_limit, ..self }
    }

    /// Writes what is still held and gives the output back.
    ///
    /// # Errors
    ///
    /// [`ExportError::Write`] when the output refuses the last bytes.
    pub fn finish(self) -> Result<W, ExportError> {
        self.stream.finish()
    }
}

impl<W: Write> Exporter for PerfettoExporter<W> {
    type Error = ExportError;

    fn begin(&mut self, tables: &Tables) -> Result<(), ExportError> {
        for (machine, session) in (0..).map(MachineId).zip(&tables.machines) {
            self.machines.push(MachineTrace::begin(
                machine,
                &mut self.stream,
                session,
                self.loop_limit,
            )?);
        }
        Ok(())
    }

    #[inline]
    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), ExportError> {
        let Self { stream, process, machines, last, .. } = self;
        let at = &mut Context { stream, time, tables };
        if last.is_none() {
            machines.iter_mut().try_for_each(|of| of.first_event(at, process.as_ref()))?;
        }
        *last = Some(time);
        let narrowed;
        let event = match process {
            None => event,
            Some(filter) => {
                let Some(rest) = concerning(filter, event, tables) else { return Ok(()) };
                narrowed = rest;
                &*narrowed
            }
        };
        let index = match machines.len() {
            1 => 0,
            _ => usize::from(event.machine(tables).0),
        };
        match machines.get_mut(index) {
            Some(machine) => machine.event(at, event, process.as_ref()),
            None => Ok(()),
        }
    }

    fn end(
        &mut self,
        losses: &[Loss],
        recorder: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Result<(), ExportError> {
        let time = self.last.unwrap_or_default();
        let at = &mut Context { stream: &mut self.stream, time, tables };
        for (number, machine) in (0..).map(MachineId).zip(&mut self.machines) {
            let is_first = number == MachineId::FIRST;
            machine.end(at, recorder.filter(|_| is_first))?;
            let losses: Vec<Loss> =
                losses.iter().filter(|loss| loss.machine() == number).cloned().collect();
            machine.write_losses(at.stream, time, &losses)?;
        }
        Ok(())
    }
}
