//! A session of ETW from its start to its end, whatever happens between.
//!
//! [`Control`] is the root: the calls of the tracing API, which Windows answers
//! (`system`) or a fake of the tests. Here is the order of the calls, and that a
//! session that was started is always stopped: it would outlive this process.

use crate::error::{Error, Status};
use crate::layouts::{self, Counts, Properties, TooLong};
use crate::leftovers::leftovers;
use crate::plan::{Plan, Provider};

/// A session that runs: CONTROLTRACE_HANDLE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub(crate) u64);

/// TRACE_QUERY_INFO_CLASS: what about a session is set or asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Information {
    /// The events that carry stacks: an array of CLASSIC_EVENT_ID.
    Stacks = 3,
    /// The time between samples of the whole machine: TRACE_PROFILE_INTERVAL.
    SampleInterval = 5,
}

/// The calls of the tracing API that a recording makes.
pub trait Control {
    /// The names of all sessions that run: QueryAllTraces.
    fn sessions(&self) -> Result<Vec<String>, Status>;
    /// Whether a process with this id runs, and runs this program.
    fn records(&self, pid: u32) -> bool;
    /// StartTrace.
    fn start(&self, name: &str, properties: &mut Properties) -> Result<Handle, Status>;
    /// TraceSetInformation; without a session for what concerns the machine.
    fn set(&self, session: Option<Handle>, what: Information, bytes: &[u8]) -> Result<(), Status>;
    /// The time between samples, in 100 ns: TraceQueryInformation.
    fn interval(&self) -> Result<u32, Status>;
    /// EnableTraceEx2.
    fn enable(&self, session: Handle, provider: &Provider) -> Result<(), Status>;
    /// EnableTraceEx2, asking the provider to state what exists.
    fn capture_state(&self, session: Handle, provider: &Provider) -> Result<(), Status>;
    /// What a session has written and lost so far: ControlTrace.
    fn counts(&self, session: Handle) -> Result<Counts, Status>;
    /// ControlTrace; the answer has the last counts.
    fn stop(&self, session: Handle) -> Result<Counts, Status>;
    /// ControlTrace by name.
    fn stop_named(&self, name: &str) -> Result<(), Status>;
}

/// A session that runs, until it is stopped or dropped.
pub struct Session<'a, C: Control> {
    control: &'a C,
    handle: Option<Handle>,
    name: String,
    buffer_bytes: u64,
    interval_before: Option<u32>,
    notes: Vec<String>,
}

impl<'a, C: Control> Session<'a, C> {
    /// Stops what crashed recorders left, then starts a session as planned.
    ///
    /// What the recording can do without (an interval that cannot be set, a
    /// provider that is not there) is a note, not an error.
    ///
    /// # Errors
    ///
    /// Where the session cannot be started, or cannot carry the stacks that were
    /// asked for; nothing is left running then.
    pub fn start(control: &'a C, plan: &Plan, me: u32) -> Result<Self, Error> {
        let mut properties = Properties::of(plan)
            .map_err(|TooLong(length)| Error::LongName { path: plan.file.clone(), length })?;
        let mut notes = stop_leftovers(control, me);
        // From here on `Drop` puts back what was changed.
        let mut session = Self {
            control,
            handle: None,
            name: plan.name.clone(),
            buffer_bytes: u64::from(plan.buffer_kib) * 1024,
            interval_before: None,
            notes: vec![],
        };
        session.set_interval(plan.interval, &mut notes);
        let start = control.start(&plan.name, &mut properties);
        let handle =
            start.map_err(Error::refused(format!("start the trace session {}", plan.name)))?;
        session.handle = Some(handle);
        session.ask_for_stacks(handle, plan)?;
        session.enable(handle, &plan.providers, &mut notes);
        session.notes = notes;
        Ok(session)
    }

    /// What could not be done as asked, a line each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Bytes of a buffer: with [`Counts::buffers_written`] the size of the file so far.
    #[must_use]
    pub fn buffer_bytes(&self) -> u64 {
        self.buffer_bytes
    }

    /// What has been written and lost so far.
    ///
    /// # Errors
    ///
    /// Where the session is gone.
    pub fn counts(&self) -> Result<Counts, Error> {
        let handle = self.handle.ok_or(Status(4201));
        handle
            .and_then(|handle| self.control.counts(handle))
            .map_err(Error::refused(format!("query {}", self.name)))
    }

    /// Stops the session; its file is complete afterwards.
    ///
    /// # Errors
    ///
    /// Where Windows does not stop it, or it was gone already.
    pub fn stop(mut self) -> Result<Counts, Error> {
        let stopped = match self.handle.take() {
            Some(handle) => self.control.stop(handle),
            None => Err(Status(4201)),
        };
        stopped.map_err(Error::refused(format!("stop the trace session {}", self.name)))
    }

    fn set_interval(&mut self, interval: Option<u32>, notes: &mut Vec<String>) {
        let Some(interval) = interval else { return };
        // It is one for the whole machine, and stays after us.
        self.interval_before = self.control.interval().ok();
        if let Err(status) = self.control.set(
            None,
            Information::SampleInterval,
            &layouts::profile_interval(interval),
        ) {
            self.interval_before = None;
            notes.push(format!("the rate of samples stays as it is on this machine: {status}"));
        }
    }

    fn ask_for_stacks(&self, handle: Handle, plan: &Plan) -> Result<(), Error> {
        if plan.stacks.is_empty() {
            return Ok(());
        }
        let events = layouts::classic_event_ids(&plan.stacks);
        let set = self.control.set(Some(handle), Information::Stacks, &events);
        set.map_err(Error::refused("ask for stacks (--stacks none records without)"))
    }

    fn enable(&self, handle: Handle, providers: &[Provider], notes: &mut Vec<String>) {
        for provider in providers {
            let enabled = self.control.enable(handle, provider);
            let stated = || {
                if provider.states { self.control.capture_state(handle, provider) } else { Ok(()) }
            };
            if let Err(status) = enabled.and_then(|()| stated()) {
                notes
                    .push(format!("{} may be missing from the recording: {status}", provider.name));
            }
        }
    }
}

impl<C: Control> Drop for Session<'_, C> {
    fn drop(&mut self) {
        // Nobody is left to tell of a failure; the next recorder finds the session.
        if let Some(handle) = self.handle.take() {
            let _ = self.control.stop(handle);
        }
        if let Some(interval) = self.interval_before.take() {
            let _ = self.control.set(
                None,
                Information::SampleInterval,
                &layouts::profile_interval(interval),
            );
        }
    }
}

/// Stops sessions of recorders that are gone, and says so.
fn stop_leftovers(control: &impl Control, me: u32) -> Vec<String> {
    let names = match control.sessions() {
        Ok(names) => names,
        Err(status) => {
            return vec![format!(
                "cannot look for sessions that a crashed recorder left: {status}"
            )];
        }
    };
    leftovers(names, me, |pid| control.records(pid))
        .into_iter()
        .map(|name| match control.stop_named(&name) {
            Ok(()) => format!("stopped {name}, which a recorder that is gone had left running"),
            Err(status) => format!(
                "{name} was left running by a recorder that is gone and cannot be stopped: {status}"
            ),
        })
        .collect()
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
