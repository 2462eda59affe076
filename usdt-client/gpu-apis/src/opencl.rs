//! OpenCL, by opencl3.
//!
//! An [`OpenClQueue`] is a queue with its device's clock, shared by all threads. Each thread that
//! enqueues commands has an [`OpenClRecorder`] of its own, so that threads share no lock. A zone
//! goes from the start of its first command to the end of its last one, as the events of these
//! say; its CPU times are those of enqueuing. The queue has to be made with
//! `CL_QUEUE_PROFILING_ENABLE`.

use crate::calibration::{CalibrationTimer, ClockReading, between, closest};
use opencl3::command_queue::{CL_QUEUE_PROFILING_ENABLE, CommandQueue};
use opencl3::device::Device;
use opencl3::error_codes::ClError;
use opencl3::event::{CL_COMPLETE, Event, retain_event};
use opencl3::platform::Platform;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use syscollect_usdt_client::Location;
use syscollect_usdt_client::gpu::{
    GpuApi, GpuContext, GpuTicks, GpuZone, GpuZoneDetails, GpuZoneId,
};

/// Why a queue can have no zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenClError {
    /// It was made without `CL_QUEUE_PROFILING_ENABLE`.
    NotProfiled,
    /// A call failed, with that error.
    Failed(i32),
}

impl fmt::Display for OpenClError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotProfiled => out.write_str("the queue has no CL_QUEUE_PROFILING_ENABLE"),
            Self::Failed(error) => write!(out, "a call of OpenCL failed: {}", ClError(*error)),
        }
    }
}

impl std::error::Error for OpenClError {}

impl From<ClError> for OpenClError {
    fn from(ClError(error): ClError) -> Self {
        Self::Failed(error)
    }
}

/// A queue: what its zones have in common.
#[derive(Debug)]
pub struct OpenClQueue {
    context: GpuContext,
    /// Where it can read its clock and the host's together.
    clock: Option<Device>,
    timer: CalibrationTimer,
}

impl OpenClQueue {
    /// A queue of that device; viewers show it by that name.
    pub fn new(
        queue: &CommandQueue,
        device: &Device,
        name: &str,
    ) -> Result<Arc<Self>, OpenClError> {
        if queue.properties()? & CL_QUEUE_PROFILING_ENABLE == 0 {
            return Err(OpenClError::NotProfiled);
        }
        let context = GpuContext::new(GpuApi::OpenCl, name, GpuTicks::NANOSECONDS);
        let clock = has_timers(device).then_some(*device);
        Ok(Arc::new(Self { context, clock, timer: CalibrationTimer::default() }))
    }

    /// Its clock and the host's now, as [`OpenClRecorder::collect`] tells them now and then;
    /// `None` where the device cannot say (before OpenCL 2.1, and where its platform has no timer
    /// of the host).
    pub fn read_clocks(&self) -> Option<ClockReading> {
        let device = self.clock?;
        // The host's timer may be any clock of it, so the client's is read around both.
        closest(|| {
            between(|| device.get_device_and_host_timer().ok().map(|[device, _host]| device))
        })
    }
}

/// Whether a device reads its clock; older drivers have no such function, and no place for it.
fn has_timers(device: &Device) -> bool {
    let since_2_1 = device.version().is_ok_and(|version| is_since_2_1(&version));
    since_2_1
        && device
            .platform()
            .and_then(|platform| Platform::new(platform).host_timer_resolution())
            .is_ok_and(|resolution| resolution > 0)
}

/// Of a version as `CL_DEVICE_VERSION` has it: "OpenCL 3.0 PoCL".
fn is_since_2_1(version: &str) -> bool {
    let numbers = version.split(' ').nth(1).and_then(|numbers| numbers.split_once('.'));
    numbers.is_some_and(|(major, minor)| {
        matches!((major.parse::<u32>(), minor.parse::<u32>()), (Ok(major), Ok(minor))
            if (major, minor) >= (2, 1))
    })
}

/// Commands of a zone that was told; at least the first event is there.
#[derive(Debug)]
struct EnqueuedCommands {
    zone: GpuZoneId,
    first: Event,
    /// Where there is more than one.
    last: Option<Event>,
}

/// What is known of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandsState {
    Pending,
    /// When the first started and the last ended.
    Done([u64; 2]),
    /// One failed, or has no times.
    WithoutTimes,
}

impl EnqueuedCommands {
    fn state(&self) -> CommandsState {
        let last = self.last.as_ref().unwrap_or(&self.first);
        for event in [&self.first, last] {
            match event.command_execution_status() {
                Ok(status) if status.0 == CL_COMPLETE => {}
                Ok(status) if status.0 > CL_COMPLETE => return CommandsState::Pending,
                _ => return CommandsState::WithoutTimes,
            }
        }
        match (self.first.profiling_command_start(), last.profiling_command_end()) {
            (Ok(began), Ok(ended)) => CommandsState::Done([began, ended]),
            _ => CommandsState::WithoutTimes,
        }
    }
}

/// What a thread enqueues zones with.
#[derive(Debug)]
pub struct OpenClRecorder {
    queue: Arc<OpenClQueue>,
    enqueued: RefCell<Vec<EnqueuedCommands>>,
    /// Zones that found no place among these.
    refused: RefCell<u64>,
}

impl OpenClRecorder {
    /// Of so many zones in flight, from being enqueued to being read. Others are shown without
    /// times, and counted ([`OpenClRecorder::refused`]).
    pub fn new(queue: Arc<OpenClQueue>, most: usize) -> Self {
        let enqueued = RefCell::new(Vec::with_capacity(most.max(1)));
        Self { queue, enqueued, refused: RefCell::default() }
    }

    /// A zone of one command.
    pub fn enqueue<E>(
        &self,
        location: &'static Location,
        command: impl FnOnce() -> Result<Event, E>,
    ) -> Result<Event, E> {
        let mut zone = self.zone(location);
        let event = command()?;
        zone.command(&event);
        Ok(event)
    }

    /// Begins a zone: commands that are named to it belong to it.
    pub fn zone(&self, location: &'static Location) -> OpenClZone<'_> {
        self.enter(self.queue.context.begin(location))
    }

    /// Begins a zone of which more is said.
    pub fn zone_with(
        &self,
        location: &'static Location,
        details: &GpuZoneDetails<'_>,
    ) -> OpenClZone<'_> {
        self.enter(self.queue.context.begin_with(location, details))
    }

    /// What zones are begun by, for [`OpenClRecorder::enter`].
    pub fn context(&self) -> &GpuContext {
        &self.queue.context
    }

    /// Marks a zone that was begun by [`OpenClRecorder::context`], in whatever way (with its call
    /// stack, say).
    pub fn enter<'r>(&'r self, zone: GpuZone<'r>) -> OpenClZone<'r> {
        OpenClZone { recorder: self, first: None, last: None, zone }
    }

    /// Tells of zones that the device has done, without waiting for the others, and reads the
    /// clocks now and then. Call it once a frame, and behind `finish` at the end.
    pub fn collect(&self) {
        let queue = &self.queue;
        queue.timer.calibrate(&queue.context, || queue.read_clocks());
        let mut enqueued = self.enqueued.borrow_mut();
        let mut index = 0;
        while let Some(commands) = enqueued.get(index) {
            match commands.state() {
                CommandsState::Pending => {
                    index += 1;
                    continue;
                }
                CommandsState::Done([began, ended]) => {
                    queue.context.resolve(commands.zone, began, ended);
                }
                CommandsState::WithoutTimes => queue.context.resolve_without_times(commands.zone),
            }
            enqueued.swap_remove(index);
        }
    }

    /// Zones that found no place.
    pub fn refused(&self) -> u64 {
        *self.refused.borrow()
    }

    /// Zones whose times were not read yet.
    pub fn outstanding(&self) -> usize {
        self.enqueued.borrow().len()
    }

    fn keep(&self, commands: EnqueuedCommands) {
        let mut enqueued = self.enqueued.borrow_mut();
        if enqueued.len() < enqueued.capacity() {
            enqueued.push(commands);
        } else {
            *self.refused.borrow_mut() += 1;
            self.queue.context.resolve_without_times(commands.zone);
        }
    }
}

impl Drop for OpenClRecorder {
    fn drop(&mut self) {
        for commands in self.enqueued.get_mut().drain(..) {
            self.queue.context.resolve_without_times(commands.zone);
        }
    }
}

/// A zone whose commands are being enqueued.
#[must_use = "commands that are named to it until its guard is dropped belong to the zone"]
#[derive(Debug)]
pub struct OpenClZone<'r> {
    recorder: &'r OpenClRecorder,
    first: Option<Event>,
    last: Option<Event>,
    zone: GpuZone<'r>,
}

impl OpenClZone<'_> {
    /// A command belongs to it. In a queue that keeps no order, the zone ends with the command
    /// that was named last.
    pub fn command(&mut self, event: &Event) {
        if !self.zone.id().is_active() {
            return;
        }
        // SAFETY: the event lives, for somebody has it.
        if unsafe { retain_event(event.get()) }.is_ok() {
            let event = Some(Event::new(event.get()));
            if self.first.is_none() {
                self.first = event;
            } else {
                self.last = event;
            }
        }
    }
}

impl Drop for OpenClZone<'_> {
    fn drop(&mut self) {
        let zone = self.zone.id();
        match self.first.take() {
            Some(first) => {
                let last = self.last.take();
                self.recorder.keep(EnqueuedCommands { zone, first, last });
            }
            None => self.recorder.queue.context.resolve_without_times(zone),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_since_2_1;

    #[test]
    fn a_device_has_timers_since_2_1() {
        for (version, since) in [
            ("OpenCL 3.0 PoCL HSTR: cpu", true),
            ("OpenCL 2.1 ", true),
            ("OpenCL 2.0 AMD-APP", false),
            ("OpenCL 1.2 CUDA", false),
            ("OpenCL 10.0", true),
            ("OpenCL", false),
            ("", false),
        ] {
            assert_eq!(is_since_2_1(version), since, "{version}");
        }
    }
}
