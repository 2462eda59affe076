//! Readable lines, for golden tests and for looking at a session without a viewer.
//!
//! One line per event: microseconds since the first event, where, what. Strings
//! of the recorded machine are escaped, so that a name with a line break in it
//! still makes one line.

use crate::report::off_cpu::state_name;
use crate::{ExportError, labels};
use rustc_hash::FxHashMap;
use std::io::Write;
use syscollect_model::{
    Event, Exporter, Fields, GpuJob, GpuJobEnd, GpuZone, LocationId, LockAction, LockEvent,
    LoopMark, Loss, MachineId, MemoryEvent, Message, MessageText, OffCpu, ProcessId,
    RecorderSummary, Sample, Scope, SessionInfo, SleepState, Slice, SliceUpdate, StackId, StringId,
    Switch, Tables, ThreadId, Time, TrackId, Value, Wakeup,
};

/// Writes a session as readable lines.
pub struct TextExporter<W> {
    out: W,
    line: String,
    origin: Option<Time>,
    /// Open slices by track, for the indentation.
    depth: FxHashMap<TrackId, usize>,
}

impl<W: Write> TextExporter<W> {
    /// A writer to `out`; it writes line by line, so `out` should buffer.
    pub fn new(out: W) -> Self {
        Self { out, line: String::new(), origin: None, depth: FxHashMap::default() }
    }

    /// Flushes and gives the output back.
    ///
    /// # Errors
    ///
    /// [`ExportError::Write`] when the last bytes cannot be written.
    pub fn finish(mut self) -> Result<W, ExportError> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn write_line(&mut self) -> Result<(), ExportError> {
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes())?;
        self.line.clear();
        Ok(())
    }

    /// The words of an event on a slice track, indented by the open slices.
    fn slice(&mut self, event: &Event, tables: &Tables) -> String {
        match *event {
            Event::SliceBegin(track, ref slice) => {
                let depth = self.depth.entry(track).or_default();
                *depth += 1;
                let words = slice_text(slice, tables);
                format!("{} {}BEGIN {words}", track_name(track, tables), indent(*depth - 1))
            }
            Event::SliceUpdate(track, ref more) => {
                let depth = self.depth.get(&track).copied().unwrap_or_default();
                format!(
                    "{} {}+{}",
                    track_name(track, tables),
                    indent(depth),
                    update_text(more, tables)
                )
            }
            Event::SliceEnd(track) => {
                let depth = self.depth.entry(track).or_default();
                *depth = depth.saturating_sub(1);
                format!("{} {}END", track_name(track, tables), indent(*depth))
            }
            Event::Instant(track, ref slice) => {
                let depth = self.depth.get(&track).copied().unwrap_or_default();
                format!(
                    "{} {}* {}",
                    track_name(track, tables),
                    indent(depth),
                    slice_text(slice, tables)
                )
            }
            Event::Message(track, ref message) => {
                let depth = self.depth.get(&track).copied().unwrap_or_default();
                format!(
                    "{} {}* {}",
                    track_name(track, tables),
                    indent(depth),
                    message_text(message, tables)
                )
            }
            Event::FrameImage(track, ref image) => {
                let flipped = if image.is_flipped { " flipped" } else { "" };
                format!(
                    "{} *{flipped} {}",
                    track_name(track, tables),
                    slice_text(&image.mark, tables)
                )
            }
            _ => String::new(),
        }
    }
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth)
}

impl<W: Write> Exporter for TextExporter<W> {
    type Error = ExportError;

    fn begin(&mut self, tables: &Tables) -> Result<(), ExportError> {
        let session = tables.machine(MachineId::FIRST);
        self.line = session_text("session", session);
        self.write_line()?;
        for (machine, session) in (0..).map(MachineId).zip(&tables.machines).skip(1) {
            let hostname = session.hostname.escape_debug();
            self.line = session_text(&format!("{machine} ({hostname})"), session);
            self.write_line()?;
        }
        Ok(())
    }

    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), ExportError> {
        let origin = *self.origin.get_or_insert(time);
        let words = match event {
            Event::SliceBegin(..)
            | Event::SliceUpdate(..)
            | Event::SliceEnd(..)
            | Event::Instant(..)
            | Event::Message(..)
            | Event::FrameImage(..) => self.slice(event, tables),
            other => describe(time, other, tables),
        };
        let nanoseconds = time.0.saturating_sub(origin.0);
        self.line = format!("{:>9}.{:03} {words}", nanoseconds / 1000, nanoseconds % 1000);
        self.write_line()
    }

    fn end(
        &mut self,
        losses: &[Loss],
        recorder: Option<&RecorderSummary>,
        _: &Tables,
    ) -> Result<(), ExportError> {
        for loss in losses {
            self.line = format!("lost: {}", loss_text(loss));
            self.write_line()?;
        }
        if let Some(summary) = recorder {
            self.line = format!(
                "recorder: stopped by {} after {} us",
                summary.stop_reason.name().escape_debug(),
                summary.duration_ns / 1000
            );
            self.write_line()?;
        }
        Ok(())
    }
}

/// An event in words, without its time.
fn describe(time: Time, event: &Event, tables: &Tables) -> String {
    match event {
        Event::Switch(switch) => switch_text(switch, tables),
        Event::Wakeup(wakeup) => wakeup_text(wakeup, tables),
        Event::Sample(sample) => sample_text(sample, tables),
        Event::Migration(m) => {
            format!("migrate {} {} -> {}", thread(m.thread, tables), m.from_cpu, m.to_cpu)
        }
        Event::ProcessStart(id) => format!("process start {}", process_text(*id, tables)),
        Event::ProcessExec(id, name) => {
            format!("exec {} as {}", process(*id, tables), text(*name, tables))
        }
        Event::ProcessEnd(id) => format!("process end {}", process(*id, tables)),
        Event::ThreadStart(id) => {
            format!(
                "thread start {} of {}",
                thread(*id, tables),
                process(tables.thread(*id).process, tables)
            )
        }
        Event::ThreadName(id, name) => {
            format!("thread name {} is {}", tables.thread(*id).tid, text(*name, tables))
        }
        Event::ThreadEnd(id) => format!("thread end {}", thread(*id, tables)),
        Event::Asleep(id, off_cpu) => {
            format!("asleep {} {}", thread(*id, tables), off_cpu_text(off_cpu, tables))
        }
        Event::LoopMark(id, mark) => {
            let what = match mark {
                LoopMark::Waits => "waits",
                LoopMark::Turns => "turns",
            };
            format!("loop {what} {}", thread(*id, tables))
        }
        Event::Counter(track, value) => format!("{} = {value}", track_name(*track, tables)),
        Event::Loss(loss) => format!("lost {}", loss_text(loss)),
        Event::SliceBegin(..)
        | Event::SliceUpdate(..)
        | Event::SliceEnd(..)
        | Event::Instant(..)
        | Event::Message(..)
        | Event::FrameImage(..) => String::new(),
        Event::GpuJob(track, job) => {
            format!("{} {}", track_name(*track, tables), job_text(job, time, tables))
        }
        Event::Lock(event) => lock_text(event, tables),
        Event::Memory(event) => memory_text(event, tables),
        Event::RecordingEnd(machine) => format!("recording of {machine} ends"),
        Event::Crash(crash) => {
            let (thread, stack) = (thread(crash.thread, tables), stack_text(crash.stack, tables));
            format!("crash {thread} {}{stack}", labels::crash(crash, tables))
        }
        Event::SignalExit(exit) => {
            let thread = exit.thread.map(|id| format!(" in {}", thread(id, tables)));
            let (who, thread) = (process(exit.process, tables), thread.unwrap_or_default());
            format!("{who} {}{thread}", labels::signal_exit(exit, tables))
        }
    }
}

/// The name, how it ended, by whom, and how long before its end each stage was.
fn job_text(job: &GpuJob, end: Time, tables: &Tables) -> String {
    let ended = match job.end {
        GpuJobEnd::Finished => "finished",
        GpuJobEnd::Failed => "failed",
        GpuJobEnd::Unfinished => "unfinished",
        GpuJobEnd::WithoutBeginning => "ended without a beginning",
        GpuJobEnd::Untimed => "without times",
    };
    let what = if job.zone.is_some() { "zone" } else { "job" };
    let name = numbered(job.name, job.zone.and_then(|zone| zone.number), tables);
    let mut words = format!("{what} {name} {ended}");
    if let Some(id) = job.thread {
        words += &format!(" of {}", thread(id, tables));
    }
    if let Some(context) = job.context {
        words += &format!(" context={context:#x}");
    }
    let done = job.zone.and_then(|zone| zone.submission_ended);
    let stages = [
        ("submitted", job.submitted),
        ("done", done),
        ("queued", job.queued),
        ("started", job.started),
        ("ended", job.zone.and_then(|zone| zone.ended)),
    ];
    for (stage, time) in stages.into_iter().filter_map(|(stage, time)| Some((stage, time?))) {
        let sign = if time > end { '+' } else { '-' };
        words += &format!(" {stage}={sign}{}ns", end.0.abs_diff(time.0));
    }
    if let Some(fence) = job.fence {
        words += &format!(" fence={}", labels::fence(fence));
    }
    if !job.waited_for.is_empty() {
        words += &format!(" waited for {}", labels::fences(&job.waited_for));
    }
    if let Some(GpuZone { depth, row, location, color, stack, .. }) = job.zone {
        words += &format!(" depth={depth}");
        if row != depth {
            words += &format!(" row={row}");
        }
        words += &location_text(location, tables);
        words += &color_text(color);
        words += &stack_text(stack, tables);
    }
    words + &fields_text(&job.fields, tables)
}

/// The name, then what else is said, in the order of the model.
fn slice_text(slice: &Slice, tables: &Tables) -> String {
    let mut words = numbered(slice.name, slice.number, tables);
    if let Some(category) = slice.category {
        words += &format!(" [{}]", text(category, tables));
    }
    if let Some(schema) = slice.schema {
        words += &format!(" <{}>", text(tables.schema(schema).name, tables));
    }
    words
        + &fields_text(&slice.fields, tables)
        + &location_text(slice.location, tables)
        + &color_text(slice.color)
        + &stack_text(slice.stack, tables)
}

/// The text or the category, then what else is said, in the order of the model.
fn message_text(message: &Message, tables: &Tables) -> String {
    let category = text(message.category, tables);
    let name = match &message.text {
        Some(MessageText::Written(written)) => {
            format!("{category} [{category}] text=\"{}\"", written.escape_debug())
        }
        Some(MessageText::Interned { string, number }) => {
            format!("{} [{category}]", numbered(*string, *number, tables))
        }
        None => format!("{category} [{category}]"),
    };
    name + &fields_text(&message.fields, tables)
        + &color_text(message.color)
        + &stack_text(message.stack, tables)
}

fn update_text(more: &SliceUpdate, tables: &Tables) -> String {
    let name = more.name.map_or_else(String::new, |(name, number)| {
        format!(" is {}", numbered(name, number, tables))
    });
    let unfinished = if more.unfinished { " unfinished" } else { "" };
    format!("{name}{}{}{unfinished}", fields_text(&more.fields, tables), color_text(more.color))
}

fn numbered(name: StringId, number: Option<u64>, tables: &Tables) -> String {
    let number = number.map_or_else(String::new, |number| format!(" {number}"));
    text(name, tables) + &number
}

fn fields_text(fields: &Fields, tables: &Tables) -> String {
    fields
        .iter()
        .map(|field| format!(" {}={}", text(field.name, tables), value_text(&field.value, tables)))
        .collect()
}

fn value_text(value: &Value, tables: &Tables) -> String {
    match value {
        Value::Text(text) => format!("\"{}\"", text.escape_debug()),
        Value::String(id) => format!("\"{}\"", text(*id, tables)),
        Value::Unsigned(value) => value.to_string(),
        Value::Signed(value) => value.to_string(),
        Value::Float(value) => format!("{value:?}"),
        Value::Address(value) => format!("{value:#x}"),
        Value::Duration(value) => format!("{value}ns"),
        Value::Bytes(value) => format!("{value}B"),
        Value::Percentage(value) => format!("{}%", value * 100.0),
    }
}

fn location_text(location: Option<LocationId>, tables: &Tables) -> String {
    let Some(id) = location else { return String::new() };
    let row = tables.location(id);
    format!(" at {}:{} in {}", text(row.file, tables), row.line, text(row.function, tables))
}

fn color_text(color: Option<u32>) -> String {
    color.map_or_else(String::new, |color| format!(" #{color:06x}"))
}

fn lock_text(event: &LockEvent, tables: &Tables) -> String {
    let action = match event.action {
        LockAction::Wait => "waits for",
        LockAction::Obtain => "obtains",
        LockAction::Release => "releases",
        LockAction::GiveUp => "gives up",
    };
    let shared = if event.shared { " (shared)" } else { "" };
    let name = text(tables.lock(event.lock).name, tables);
    let place = location_text(event.location, tables);
    format!("lock {} {action} {name}#{}{shared}{place}", thread(event.thread, tables), event.lock.0)
}

fn memory_text(event: &MemoryEvent, tables: &Tables) -> String {
    let what = event
        .allocated
        .map_or_else(|| "frees".to_owned(), |bytes| format!("allocates {bytes}B at"));
    let pool = event.pool.map_or_else(String::new, |pool| format!(" of {}", text(pool, tables)));
    let stack = stack_text(event.stack, tables);
    format!("memory {} {what} {:#x}{pool}{stack}", thread(event.thread, tables), event.address)
}

fn switch_text(switch: &Switch, tables: &Tables) -> String {
    let previous = switch.previous.map_or_else(|| "?".to_owned(), |id| thread(id, tables));
    format!(
        "{} switch {previous} [{}] {} -> {} [{}]{}",
        switch.cpu,
        switch.previous_priority,
        off_cpu_text(&switch.off_cpu, tables),
        thread(switch.next, tables),
        switch.next_priority,
        stack_text(switch.off_cpu.stack, tables)
    )
}

fn off_cpu_text(off_cpu: &OffCpu, tables: &Tables) -> String {
    let preempted = if off_cpu.preempted { ", preempted" } else { "" };
    let io_wait = if off_cpu.io_wait { ", waits for I/O" } else { "" };
    let function =
        off_cpu.blocked_in.map_or_else(String::new, |id| format!(", in {}", text(id, tables)));
    format!("({}{preempted}{io_wait}{function})", state(off_cpu.state))
}

fn wakeup_text(wakeup: &Wakeup, tables: &Tables) -> String {
    let waker = wakeup.waker.map_or_else(|| "?".to_owned(), |id| thread(id, tables));
    let interrupt = if wakeup.from_interrupt { " (interrupt)" } else { "" };
    format!(
        "{} {waker}{interrupt} {} {} [{}] on {}{}",
        wakeup.cpu,
        if wakeup.new { "wakes new" } else { "wakes" },
        thread(wakeup.wakee, tables),
        wakeup.priority,
        wakeup.target_cpu,
        stack_text(wakeup.stack, tables)
    )
}

fn sample_text(sample: &Sample, tables: &Tables) -> String {
    format!(
        "{} sample {} ({}){}",
        sample.cpu,
        thread(sample.thread, tables),
        if sample.in_kernel { "kernel" } else { "user" },
        stack_text(sample.stack, tables)
    )
}

fn process_text(id: ProcessId, tables: &Tables) -> String {
    let row = tables.process(id);
    let parent = row.parent_pid.map_or_else(String::new, |pid| format!(", child of {pid}"));
    let command = match row.command_line.join(" ") {
        line if line.is_empty() => String::new(),
        line => format!(": {}", line.escape_debug()),
    };
    format!("{}{parent}{command}", process(id, tables))
}

fn loss_text(loss: &Loss) -> String {
    let cpu = loss.cpu.map_or_else(String::new, |cpu| format!(" of {cpu}"));
    format!("{} from {}{cpu}: {}", loss.count, loss.origin.name().escape_debug(), loss.cause.name())
}

fn stack_text(stack: Option<StackId>, tables: &Tables) -> String {
    let Some(id) = stack else { return String::new() };
    let labels = tables.stack(id).iter().map(|frame| {
        let inlined = if tables.frame(*frame).inlined { " (inlined)" } else { "" };
        format!("{}{inlined}", tables.frame_label(*frame).escape_debug())
    });
    format!(" | {}", labels.collect::<Vec<_>>().join(" < "))
}

fn session_text(of: &str, session: &SessionInfo) -> String {
    format!(
        "{of}: {}, {} {} {}, {} CPUs",
        session.recorder.escape_debug(),
        session.os.name().escape_debug(),
        session.kernel_release.escape_debug(),
        session.machine.escape_debug(),
        session.cpus.len()
    )
}

fn track_name(id: TrackId, tables: &Tables) -> String {
    let track = tables.track(id);
    let name = text(track.name, tables);
    match track.scope {
        Scope::Machine(machine) => format!("{name}{}", at_machine(machine)),
        Scope::Cpu(cpu) => format!("{cpu} {name}"),
        Scope::Process(id) => format!("{} {name}", process(id, tables)),
        Scope::Thread(id) => format!("{} {name}", thread(id, tables)),
    }
}

fn thread(id: ThreadId, tables: &Tables) -> String {
    let row = tables.thread(id);
    let machine = at_machine(tables.process(row.process).machine);
    format!("{}/{}{machine}", text(row.name, tables), row.tid)
}

fn process(id: ProcessId, tables: &Tables) -> String {
    let row = tables.process(id);
    format!("{}/{}{}", text(row.name, tables), row.pid, at_machine(row.machine))
}

/// `@1`; nothing for the first machine.
fn at_machine(machine: MachineId) -> String {
    match machine {
        MachineId::FIRST => String::new(),
        MachineId(number) => format!("@{number}"),
    }
}

fn text(id: StringId, tables: &Tables) -> String {
    tables.strings.get(id).escape_debug().to_string()
}

fn state(state: SleepState) -> &'static str {
    match state {
        SleepState::Interruptible => "sleeps",
        other => state_name(other),
    }
}
