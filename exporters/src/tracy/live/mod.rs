//! A session that goes on, told to Tracy's viewer over its live protocol.
//!
//! What each event becomes is the same as in a file, as far as it can be told at once:
//!
//! - of the tracks of a thread, the first of its own zones is on the thread; every other track has
//!   a row of its own, since whether they nest is not known yet;
//! - who gives up waiting for a lock goes on to wait, as the viewer sees it: a message says so;
//! - memory that was allocated before the viewer came is not told;
//! - names of threads are those of when the viewer first asks; messages tell of later ones.

mod code;
mod gpu;
mod names;
mod recording_frames;
mod room;
mod rows;
mod things;
mod zones;

use super::messages::{self, Importance};
use super::rows::RowOwner;
use super::{header, loss_label};
use crate::labels;
use code::{LiveCode, ToldPart};
use gpu::{EndedJob, LiveGpus, ToldJobs};
pub use names::CodeToName;
use room::Owner;
use rows::LiveRows;
use std::convert::Infallible;
use syscollect_model::{
    Crash, Event, Exporter, Forgotten, GpuJob, LockAction, LockEvent, Loss, LossCause, MachineId,
    MemoryEvent, RecorderSummary, Severity, SignalExit, Slice, StackId, Switch, SymbolTable,
    Tables, ThreadId, Time, TrackId, TrackKind,
};
use syscollect_tracy_protocol as tracy;
use syscollect_tracy_protocol::{CpuRow, EndedRow, Host, Limits, Session};
use things::NamedObjects;
use zones::LiveZones;

/// From one value of the load to the next, nanoseconds.
const LOAD_STEP: u64 = 100_000_000;
/// How often it is said what gave way.
const TOLD_EVERY: u64 = 1_000_000_000;
const GREY: u32 = 0xaa_aaaa;
const RED: u32 = 0xff_5555;

/// Tells events to a Tracy viewer, as an [`Exporter`] that goes on: bytes of the viewer go into its
/// [`session`](Self::session), and bytes for it come out.
///
/// ```
/// use syscollect_exporters::TracyLive;
/// use syscollect_model::{Exporter, Tables};
///
/// let mut live = TracyLive::default();
/// live.begin(&Tables::default())?;
/// live.session().connect(1_700_000_000);
/// let hello = [&b"TracyPrf"[..], &82u32.to_le_bytes()].concat();
/// live.session().receive(&hello).unwrap();
/// live.session().pump();
/// assert!(live.session().output().len() > 1_170, "a welcome, and what there is");
/// # Ok::<(), std::convert::Infallible>(())
/// ```
#[derive(Debug)]
pub struct TracyLive {
    session: Session,
    rows: LiveRows,
    zones: LiveZones,
    code: LiveCode,
    things: NamedObjects,
    gpus: LiveGpus,
    /// When the last of their jobs was told.
    gpus_until: Time,
    load: Load,
    /// When it was last said which rows gave way to others.
    rows_told: Option<Time>,
}

impl Default for TracyLive {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl TracyLive {
    /// With these bounds for a viewer.
    pub fn new(limits: Limits) -> Self {
        let mut session = Session::with_limits(Host::default(), rows::OWN_ROW, limits);
        let rows = LiveRows::new(&mut session.catalogue);
        Self {
            session,
            rows,
            zones: LiveZones::default(),
            code: LiveCode::default(),
            things: NamedObjects::default(),
            gpus: LiveGpus::default(),
            gpus_until: Time(0),
            load: Load::default(),
            rows_told: None,
        }
    }

    /// The connection.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Asks this for who runs the process with an id: users have shares of what viewers are told.
    pub fn ask(&mut self, user_of: fn(u32) -> Option<u32>) {
        self.things.ask(user_of);
        self.gpus.ask(user_of);
        self.rows.ask(user_of);
        self.zones.locations.ask(user_of);
    }

    /// Which process records: of its threads only the first has a row of its own where others say
    /// nothing.
    pub fn is_recorded_by(&mut self, pid: u32) {
        self.rows.recorder = Some(pid);
    }

    /// From now on a viewer that asks for a function that has no name waits until somebody who
    /// [looks](Self::take_to_name) for it says [what was found](Self::add_names), or that this was
    /// [all](Self::end_names). What is on top of the stack of who leaves its CPU and is called as a
    /// function of the recording is not shown.
    pub fn find_names(&mut self, is_of_recording: fn(&str) -> bool) {
        self.code.find_names(is_of_recording);
    }

    /// Code whose functions a viewer waits for: of files no more than so many places, and all of
    /// the kernel.
    pub fn take_to_name(&mut self, most: usize) -> Vec<CodeToName> {
        self.code.take_to_name(&mut self.session, most)
    }

    /// What was found in some modules of what was [to be named](Self::take_to_name) so far; what is
    /// missing in their tables has no name.
    pub fn add_names(&mut self, tables: &[SymbolTable]) {
        self.code.add_names(&mut self.session, tables);
    }

    /// All was told that was found of what was [to be named](Self::take_to_name): the rest has no
    /// names.
    pub fn end_names(&mut self) {
        self.code.end_names(&mut self.session);
    }

    /// Nobody looks any longer: what a viewer waits for gets no name.
    pub fn give_up_names(&mut self) {
        self.code.give_up_names(&mut self.session);
    }

    fn tell(&mut self, time: Time, event: tracy::Event) {
        self.session.tell(nanoseconds(time), event);
    }

    fn stack(&mut self, stack: Option<StackId>, tables: &Tables) -> Option<tracy::StackId> {
        self.code.stack(stack?, ToldPart::Whole, &mut self.session.catalogue, tables)
    }

    fn thread(&mut self, thread: ThreadId, tables: &Tables) -> Option<u32> {
        self.rows.thread(thread, &mut self.session.catalogue, tables)
    }

    fn row(&mut self, owner: RowOwner, tables: &Tables) -> u32 {
        self.rows.other(owner, &mut self.session.catalogue, tables)
    }

    fn track_row(&mut self, track: TrackId, tables: &Tables) -> u32 {
        self.rows.of_track(track, &mut self.session.catalogue, tables)
    }

    fn message(&mut self, time: Time, message: tracy::Message) {
        self.tell(time, tracy::Event::Message(Box::new(message)));
    }

    /// What happens to a thread, said by itself.
    fn lifecycle(&mut self, thread: ThreadId, time: Time, text: String, tables: &Tables) {
        if self.rows.is_quiet(thread, tables) {
            return;
        }
        if let Some(thread) = self.thread(thread, tables) {
            let importance = Importance::of_system(Severity::Debug);
            self.message(time, words(thread, &text, Some(GREY), importance));
        }
    }

    fn switch(&mut self, time: Time, switch: &Switch, tables: &Tables) {
        let Ok(cpu) = u8::try_from(switch.cpu.number) else { return };
        self.load.switch(cpu, switch.next != Tables::IDLE_THREAD, time);
        let next = self.thread(switch.next, tables).unwrap_or_default();
        let previous =
            switch.previous.map(|thread| self.thread(thread, tables).unwrap_or_default());
        let is_blocked = !switch.off_cpu.preempted;
        let stack = switch.off_cpu.stack.filter(|_| is_blocked);
        let priorities = [switch.next_priority, switch.previous_priority];
        let switch = tracy::Switch {
            cpu,
            previous,
            next,
            state: super::sched::state(switch),
            priorities: priorities.map(|priority| priority.clamp(-128, 127) as i8),
            stack: stack.and_then(|stack| {
                let catalogue = &mut self.session.catalogue;
                self.code.stack(stack, ToldPart::WithoutRecording, catalogue, tables)
            }),
        };
        self.tell(time, tracy::Event::Switch(switch));
    }

    fn sample(&mut self, time: Time, sample: &syscollect_model::Sample, tables: &Tables) {
        let thread = match sample.thread {
            Tables::IDLE_THREAD => self.row(RowOwner::IdleCpu(sample.cpu), tables),
            thread => match self.thread(thread, tables) {
                Some(thread) => thread,
                None => return,
            },
        };
        let stack = match self.stack(sample.stack, tables) {
            Some(stack) => stack,
            None => self.code.no_stack(&mut self.session.catalogue),
        };
        self.tell(time, tracy::Event::Sample { thread, stack });
    }

    fn instant(&mut self, track: TrackId, time: Time, slice: &Slice, tables: &Tables) {
        let thread = self.track_row(track, tables);
        let importance = Importance::of_fields(&slice.fields, tables);
        let text = labels::instant(slice, tables);
        let stack = self.stack(slice.stack, tables);
        let message = words(thread, &text, slice.color, importance);
        self.message(time, tracy::Message { stack, ..message });
    }

    fn said(
        &mut self,
        track: TrackId,
        time: Time,
        message: &syscollect_model::Message,
        tables: &Tables,
    ) {
        let thread = self.track_row(track, tables);
        let importance = Importance::of_fields(&message.fields, tables);
        let text = labels::message(message, tables);
        let stack = self.stack(message.stack, tables);
        let message = words(thread, &text, message.color, importance);
        self.message(time, tracy::Message { stack, ..message });
    }

    fn loss(&mut self, time: Time, loss: &Loss) {
        if let Some(gap) = loss.scheduling_gap() {
            let cpu = gap.cpu.map(|cpu| u8::try_from(cpu.number));
            match cpu.transpose() {
                Ok(cpu) => self.tell(time, tracy::Event::Gap(cpu)),
                // It is none of those that are shown.
                Err(_) => return,
            }
        }
        let importance = Importance::own(Severity::Warning);
        let text = match loss.cause {
            LossCause::BeyondShare => {
                let (count, of) = (loss.count, loss.origin.name());
                format!("{count} records of {of} are not told: a program has more than its share")
            }
            _ => loss_label(loss, loss.count),
        };
        self.message(time, words(rows::OWN_ROW, &text, Some(RED), importance));
    }

    fn slice_begin(&mut self, track: TrackId, time: Time, slice: &Slice, tables: &Tables) {
        if let TrackKind::Frames { .. } = tables.track(track).kind {
            let set = self.things.set(track, &mut self.session.catalogue, tables);
            return self.tell(time, tracy::Event::FrameBegin(set));
        }
        let thread = self.track_row(track, tables);
        let catalogue = &mut self.session.catalogue;
        let location = self.zones.begin(track, slice, catalogue, tables);
        let stack = self.stack(slice.stack, tables);
        self.tell(time, tracy::Event::ZoneBegin { thread, location, stack });
    }

    fn slice_end(&mut self, track: TrackId, time: Time, tables: &Tables) {
        if let TrackKind::Frames { .. } = tables.track(track).kind {
            let set = self.things.set(track, &mut self.session.catalogue, tables);
            return self.tell(time, tracy::Event::FrameEnd(set));
        }
        let thread = self.track_row(track, tables);
        let said = self.zones.end(track, tables);
        self.tell(time, tracy::Event::ZoneEnd { thread, said });
    }

    fn counter(&mut self, track: TrackId, time: Time, value: f64, tables: &Tables) {
        if value.is_finite() {
            let plot = self.things.plot(track, &mut self.session.catalogue, tables);
            self.tell(time, tracy::Event::Plot(plot, value));
        }
    }

    fn lock(&mut self, time: Time, event: &LockEvent, tables: &Tables) {
        let Some(thread) = self.thread(event.thread, tables) else { return };
        let action = match event.action {
            LockAction::Wait => tracy::LockAction::Wait,
            LockAction::Obtain => tracy::LockAction::Obtain,
            LockAction::Release => tracy::LockAction::Release,
            LockAction::GiveUp => {
                let name = tables.strings.get(tables.lock(event.lock).name);
                let text = format!("gives up on lock {name}");
                return self.lifecycle(event.thread, time, text, tables);
            }
        };
        let catalogue = &mut self.session.catalogue;
        let lock = self.things.lock(event.lock, catalogue, &mut self.zones, tables);
        let location = event.location;
        let owner = Owner::new(tables.thread(event.thread).process, tables);
        let location =
            location.map(|location| self.zones.place(Some(location), owner, catalogue, tables));
        let shared = event.shared && catalogue.lock(lock).is_some_and(|lock| lock.shared);
        self.tell(time, tracy::Event::Lock { lock, thread, action, shared, location });
    }

    fn memory(&mut self, time: Time, event: &MemoryEvent, tables: &Tables) {
        let Some(thread) = self.thread(event.thread, tables) else { return };
        let process = tables.thread(event.thread).process;
        let pool = self.things.pool((process, event.pool), &mut self.session.catalogue, tables);
        let stack = self.stack(event.stack, tables);
        let MemoryEvent { address, allocated, .. } = *event;
        let memory = tracy::Memory { thread, pool: Some(pool), address, allocated, stack };
        self.tell(time, tracy::Event::Memory(memory));
    }

    fn job(&mut self, track: TrackId, time: Time, job: &GpuJob, tables: &Tables) {
        let thread = match job.thread.and_then(|thread| self.thread(thread, tables)) {
            Some(thread) => thread,
            None => self.row(RowOwner::Track(track), tables),
        };
        let catalogue = &mut self.session.catalogue;
        let location = match job.zone {
            Some(zone) => self.zones.of_gpu(job, zone, catalogue, tables),
            None => gpu::job_location(job, catalogue, tables),
        };
        let ended = EndedJob { track, thread, location, end: job.ended(time), job };
        let told = self.gpus.job(ended, &mut self.things, catalogue, tables);
        self.tell_jobs(time, told);
        self.gpus_until = time;
    }

    fn tell_jobs(&mut self, time: Time, ToldJobs { context, jobs }: ToldJobs) {
        for job in jobs {
            self.tell(time, tracy::Event::Job(context, Box::new(job)));
        }
    }

    /// Zones of GPUs that are not part of what came with them.
    #[cold]
    fn tell_untimed(&mut self, time: Time) {
        self.gpus.take_untimed().into_iter().for_each(|told| self.tell_jobs(time, told));
    }

    /// Tells of rows that gave way to others, and now and then how many these were.
    #[cold]
    fn end_rows(&mut self, time: Time) {
        let mut ended = std::mem::take(&mut self.things.ended);
        ended.append(&mut self.zones.ended);
        ended.append(&mut self.gpus.ended);
        ended.extend(self.rows.gave_way.drain(..).map(EndedRow::Thread));
        ended.into_iter().for_each(|row| self.tell(time, tracy::Event::Ended(row)));
        let is_due = self.rows_told.is_none_or(|last| time.0.saturating_sub(last.0) >= TOLD_EVERY);
        if !is_due {
            return;
        }
        self.rows_told = Some(time);
        let NamedObjects { plots, sets, locks, pools, .. } = &mut self.things;
        let counts = [
            ("plots", plots.take_gave_way()),
            ("sets of frames", sets.take_gave_way()),
            ("locks", locks.take_gave_way()),
            ("pools of memory", pools.take_gave_way()),
            ("tracks", self.rows.take_gave_way()),
            ("source locations", self.zones.locations.take_gave_way()),
            ("contexts of GPUs", self.gpus.take_gave_way()),
            ("zones within one of a GPU", self.gpus.take_left_out()),
        ];
        for (what, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            let text = format!("{count} {what} gave way to others: there are too many");
            let importance = Importance::own(Severity::Warning);
            self.message(time, words(rows::OWN_ROW, &text, Some(RED), importance));
        }
    }

    fn crash(&mut self, time: Time, crash: &Crash, tables: &Tables) {
        let Some(thread) = self.thread(crash.thread, tables) else { return };
        let text = labels::crash(crash, tables);
        let stack = self.stack(crash.stack, tables);
        let message = words(thread, &text, Some(RED), Importance::of_system(Severity::Fatal));
        self.message(time, tracy::Message { stack, ..message });
        let text = self.session.catalogue.text(&text);
        self.tell(time, tracy::Event::Crash { thread, text });
    }

    /// A signal ends a process, for which its first thread speaks where none is known.
    fn signal_exit(&mut self, time: Time, exit: &SignalExit, tables: &Tables) {
        let thread = exit.thread.or_else(|| self.rows.first_of(exit.process, tables));
        let Some(thread) = thread.and_then(|thread| self.thread(thread, tables)) else { return };
        let text = labels::signal_exit(exit, tables);
        let (color, severity) = match exit.is_crash {
            true => (RED, Severity::Fatal),
            false => (GREY, Severity::Info),
        };
        self.message(time, words(thread, &text, Some(color), Importance::of_system(severity)));
        if exit.is_crash {
            let text = self.session.catalogue.text(&text);
            self.tell(time, tracy::Event::Crash { thread, text });
        }
    }
}

impl Exporter for TracyLive {
    type Error = Infallible;

    fn begin(&mut self, tables: &Tables) -> Result<(), Infallible> {
        let machine = tables.machine(MachineId::FIRST);
        self.load.cpus = machine.cpus.len().max(1) as u64;
        let catalogue = &mut self.session.catalogue;
        let cpus = machine.cpus.iter().filter(|cpu| cpu.cpu <= u8::MAX.into());
        catalogue.cpus =
            cpus.map(|cpu| CpuRow { package: cpu.package, core: cpu.core, cpu: cpu.cpu }).collect();
        catalogue.notes = header::note_lines(machine, None, &[]);
        self.session.describe(Host {
            program: header::short(&machine.hostname),
            description: header::host_info(machine),
            architecture: header::architecture(&machine.machine),
            manufacturer: header::vendor(&machine.cpu_model),
            pid: match machine.filter_pids[..] {
                [pid] => pid.into(),
                _ => 0,
            },
            sampling_period: header::sampling_period(machine),
        });
        Ok(())
    }

    fn forget(&mut self, forgotten: &mut Forgotten, _: &Tables) -> Result<(), Infallible> {
        self.rows.forget(forgotten);
        self.zones.forget(forgotten);
        if forgotten.code {
            self.code.forget(&mut self.session.catalogue);
        }
        Ok(())
    }

    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        if self.gpus.has_untimed() && time > self.gpus_until {
            self.tell_untimed(self.gpus_until);
        }
        if let Some(percent) = self.load.until(time) {
            self.tell(time, tracy::Event::Load(percent));
        }
        match event {
            Event::Switch(switch) => self.switch(time, switch, tables),
            Event::Wakeup(wakeup) => {
                if let (Ok(cpu), Some(thread)) =
                    (u8::try_from(wakeup.cpu.number), self.thread(wakeup.wakee, tables))
                {
                    self.tell(time, tracy::Event::Wakeup { cpu, thread });
                }
            }
            Event::Sample(sample) => self.sample(time, sample, tables),
            Event::Counter(track, value) => self.counter(*track, time, *value, tables),
            Event::SliceBegin(track, slice) => self.slice_begin(*track, time, slice, tables),
            Event::SliceUpdate(track, update) => self.zones.update(*track, update),
            Event::SliceEnd(track) => self.slice_end(*track, time, tables),
            Event::Instant(track, slice) => self.instant(*track, time, slice, tables),
            Event::Message(track, message) => self.said(*track, time, message, tables),
            Event::Loss(loss) => self.loss(time, loss),
            Event::ThreadStart(thread) => {
                self.rows.renamed(*thread, &mut self.session.catalogue, tables);
                self.lifecycle(*thread, time, "starts".into(), tables);
            }
            Event::ThreadName(thread, name) => {
                self.rows.renamed(*thread, &mut self.session.catalogue, tables);
                let text = format!("is named {}", tables.strings.get(*name));
                self.lifecycle(*thread, time, text, tables);
            }
            Event::ThreadEnd(thread) => {
                self.lifecycle(*thread, time, "ends".into(), tables);
                if let Some(ended) = self.rows.ended(*thread, tables) {
                    self.tell(time, tracy::Event::Ended(EndedRow::Thread(ended)));
                }
            }
            Event::ProcessEnd(process) => {
                self.things.process_ended(*process);
                self.zones.locations.ended(*process);
                self.rows.process_ended(*process);
                self.gpus.process_ended(*process);
            }
            Event::ProcessExec(process, name) => {
                if let Some(thread) = self.rows.first_of(*process, tables) {
                    self.rows.renamed(thread, &mut self.session.catalogue, tables);
                    let text = format!("runs {}", tables.strings.get(*name));
                    self.lifecycle(thread, time, text, tables);
                }
            }
            Event::Lock(event) => self.lock(time, event, tables),
            Event::Memory(event) => self.memory(time, event, tables),
            Event::GpuJob(track, job) => self.job(*track, time, job, tables),
            Event::FrameImage(track, image) => self.instant(*track, time, &image.mark, tables),
            Event::Crash(crash) => self.crash(time, crash, tables),
            Event::SignalExit(exit) => self.signal_exit(time, exit, tables),
            Event::RecordingEnd(_) => self.tell(time, tracy::Event::Gap(None)),
            // Only switches say from when on; their first threads say so; the next CPU says so of
            // moves.
            Event::Asleep(..)
            | Event::LoopMark(..)
            | Event::ProcessStart(_)
            | Event::Migration(_) => {}
        }
        let ended = [&self.things.ended, &self.zones.ended, &self.gpus.ended];
        let has_ended = ended.iter().any(|ended| !ended.is_empty());
        if has_ended || !self.rows.gave_way.is_empty() || self.gpus.has_left_out() {
            self.end_rows(time);
        }
        Ok(())
    }

    fn end(
        &mut self,
        _: &[Loss],
        _: Option<&RecorderSummary>,
        _: &Tables,
    ) -> Result<(), Infallible> {
        self.tell_untimed(self.gpus_until);
        Ok(())
    }
}

/// What a thread says.
fn words(thread: u32, text: &str, color: Option<u32>, importance: Importance) -> tracy::Message {
    tracy::Message {
        thread,
        text: super::strings::clean(text).into(),
        color,
        severity: messages::number(importance.severity),
        own: importance.own,
        stack: None,
    }
}

fn nanoseconds(time: Time) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

/// How much all CPUs were used since the last step.
#[derive(Debug, Default)]
struct Load {
    cpus: u64,
    /// Since when each has been used.
    used_since: Vec<Option<u64>>,
    used: u64,
    step: Option<u64>,
}

impl Load {
    fn switch(&mut self, cpu: u8, is_used: bool, time: Time) {
        let cpu = usize::from(cpu);
        if cpu >= self.used_since.len() {
            self.used_since.resize(cpu + 1, None);
        }
        if let Some(since) = self.used_since[cpu] {
            self.used += time.0.saturating_sub(since);
        }
        self.used_since[cpu] = is_used.then_some(time.0);
    }

    /// The load of the last step in percent, if it is over.
    fn until(&mut self, time: Time) -> Option<f32> {
        let begun = *self.step.get_or_insert(time.0);
        let passed = time.0.saturating_sub(begun);
        if passed < LOAD_STEP {
            return None;
        }
        for since in self.used_since.iter_mut().flatten() {
            self.used += time.0.saturating_sub(*since);
            *since = time.0;
        }
        self.step = Some(time.0);
        let used = std::mem::take(&mut self.used);
        Some((used as f64 * 100.0 / (passed as f64 * self.cpus as f64)).min(100.0) as f32)
    }
}
