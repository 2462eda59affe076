//! Vulkan, by ash.
//!
//! A [`VulkanQueue`] is a queue's family of a device with its clock, shared by all threads. Each
//! thread that records command buffers has a [`VulkanRecorder`] of its own: a query pool and the
//! books of it, so that threads share no lock. A zone is what is recorded between its beginning and
//! the drop of its guard; its CPU times are those of recording.
//!
//! The device needs the feature `hostQueryReset` (Vulkan 1.2), and one of the extensions that
//! [`calibration_extension`] names, for clocks that are known better than by guessing.

mod clock;

use crate::calibration::{CalibrationTimer, ClockReading};
use ash::vk;
use clock::DeviceClock;
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use syscollect_usdt_client::Location;
use syscollect_usdt_client::gpu::{
    GpuApi, GpuContext, GpuTicks, GpuZone, GpuZoneDetails, GpuZoneId, QueryPair, QueryRing,
};

pub use clock::calibration_extension;

/// Queries that are read at once; `QueryRing` asks for no more.
const MOST_READ: usize = 128;

/// Why a device or a queue can have no zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VulkanError {
    /// Queues of that family write no time stamps (`timestampValidBits` is 0), or there is no such.
    NoTimestamps,
    /// The device is older than Vulkan 1.2: its queries cannot be reset by the host.
    NoHostQueryReset,
    /// A call failed.
    Failed(vk::Result),
}

impl fmt::Display for VulkanError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTimestamps => out.write_str("queues of this family write no time stamps"),
            Self::NoHostQueryReset => out.write_str("Vulkan 1.2 is needed, to reset queries"),
            Self::Failed(result) => write!(out, "a call of Vulkan failed: {result}"),
        }
    }
}

impl std::error::Error for VulkanError {}

impl From<vk::Result> for VulkanError {
    fn from(result: vk::Result) -> Self {
        Self::Failed(result)
    }
}

/// A device as a program has it.
#[derive(Clone, Copy)]
pub struct VulkanDevice<'a> {
    /// What the instance was made by.
    pub entry: &'a ash::Entry,
    /// The instance.
    pub instance: &'a ash::Instance,
    /// What the device was made of.
    pub physical: vk::PhysicalDevice,
    /// The device.
    pub device: &'a ash::Device,
}

impl fmt::Debug for VulkanDevice<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "VulkanDevice({:?})", self.device.handle())
    }
}

/// A queue: what its zones have in common.
pub struct VulkanQueue {
    device: ash::Device,
    context: GpuContext,
    clock: DeviceClock,
    timer: CalibrationTimer,
}

impl fmt::Debug for VulkanQueue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("VulkanQueue").field("context", &self.context).finish_non_exhaustive()
    }
}

impl VulkanQueue {
    /// A queue of that family; viewers show it by that name.
    ///
    /// # Safety
    ///
    /// The handles belong together, and live as long as this. The feature `hostQueryReset` of the
    /// device is enabled.
    pub unsafe fn new(
        vulkan: VulkanDevice<'_>,
        family: u32,
        name: &str,
    ) -> Result<Arc<Self>, VulkanError> {
        let VulkanDevice { instance, physical, device, .. } = vulkan;
        // SAFETY: the instance and what was found by it live, as the caller says.
        let (properties, families) = unsafe {
            (
                instance.get_physical_device_properties(physical),
                instance.get_physical_device_queue_family_properties(physical),
            )
        };
        if properties.api_version < vk::API_VERSION_1_2 {
            return Err(VulkanError::NoHostQueryReset);
        }
        let bits = families.get(family as usize).map_or(0, |family| family.timestamp_valid_bits);
        if bits == 0 {
            return Err(VulkanError::NoTimestamps);
        }
        let ticks = GpuTicks { nanoseconds: properties.limits.timestamp_period.into(), bits };
        // SAFETY: as above.
        let clock = unsafe { DeviceClock::of(vulkan) };
        Ok(Self::with_clock(device.clone(), GpuContext::new(GpuApi::Vulkan, name, ticks), clock))
    }

    /// The same without a clock, of a device that is known to be good for it: for tests.
    ///
    /// # Safety
    ///
    /// As [`VulkanQueue::new`].
    #[doc(hidden)]
    pub unsafe fn without_clock(device: ash::Device, context: GpuContext) -> Arc<Self> {
        Self::with_clock(device, context, DeviceClock::Unknown)
    }

    fn with_clock(device: ash::Device, context: GpuContext, clock: DeviceClock) -> Arc<Self> {
        Arc::new(Self { device, context, clock, timer: CalibrationTimer::default() })
    }

    /// Its clock and the host's now, as [`VulkanRecorder::collect`] tells them now and then;
    /// `None` where the device cannot say.
    pub fn read_clocks(&self) -> Option<ClockReading> {
        // SAFETY: the device lives as long as this, as its maker said.
        unsafe { self.clock.read(&self.device) }
    }
}

/// What a thread records zones with: queries of its own.
///
/// `PAIRS` is how many zones can be in flight, from being recorded to being read. Zones that find
/// no query are shown without times, and counted ([`VulkanRecorder::refused`]).
#[derive(Debug)]
pub struct VulkanRecorder<const PAIRS: usize> {
    queue: Arc<VulkanQueue>,
    pool: vk::QueryPool,
    ring: RefCell<QueryRing<GpuZoneId, PAIRS>>,
}

impl<const PAIRS: usize> VulkanRecorder<PAIRS> {
    /// Makes the queries.
    ///
    /// # Safety
    ///
    /// When this is dropped, the device lives, and no command buffer that has its zones is
    /// pending.
    pub unsafe fn new(queue: Arc<VulkanQueue>) -> Result<Self, VulkanError> {
        let info = vk::QueryPoolCreateInfo::default()
            .query_type(vk::QueryType::TIMESTAMP)
            .query_count(PAIRS as u32 * 2);
        // SAFETY: the device lives.
        let pool = unsafe { queue.device.create_query_pool(&info, None)? };
        Ok(Self { queue, pool, ring: RefCell::default() })
    }

    /// Begins a zone: commands that are recorded until its guard is dropped belong to it.
    ///
    /// # Safety
    ///
    /// The command buffer is being recorded, by this thread, until the guard is dropped, for a
    /// queue of the family that was named. It is submitted once at most before it is recorded
    /// again.
    pub unsafe fn zone(
        &self,
        commands: vk::CommandBuffer,
        location: &'static Location,
    ) -> VulkanZone<'_, PAIRS> {
        // SAFETY: as the caller says.
        unsafe { self.enter(commands, self.queue.context.begin(location)) }
    }

    /// Begins a zone of which more is said.
    ///
    /// # Safety
    ///
    /// As [`VulkanRecorder::zone`].
    pub unsafe fn zone_with(
        &self,
        commands: vk::CommandBuffer,
        location: &'static Location,
        details: &GpuZoneDetails<'_>,
    ) -> VulkanZone<'_, PAIRS> {
        // SAFETY: as the caller says.
        unsafe { self.enter(commands, self.queue.context.begin_with(location, details)) }
    }

    /// What zones are begun by, for [`VulkanRecorder::enter`].
    pub fn context(&self) -> &GpuContext {
        &self.queue.context
    }

    /// Marks a zone that was begun by [`VulkanRecorder::context`], in whatever way (with its call
    /// stack, say).
    ///
    /// # Safety
    ///
    /// As [`VulkanRecorder::zone`].
    pub unsafe fn enter<'r>(
        &'r self,
        commands: vk::CommandBuffer,
        zone: GpuZone<'r>,
    ) -> VulkanZone<'r, PAIRS> {
        let id = zone.id();
        let pair = id.is_active().then(|| self.ring.borrow_mut().take(id)).flatten();
        match pair {
            // Reset here and not where they are read: by then the program may not have waited for
            // the fence of what wrote them, and until that a driver need not take it for done.
            // SAFETY: the buffer is being recorded. The pair's queries are the pool's, and no
            // other command writes them: they are new, or were read.
            Some(pair) => unsafe {
                let stage = vk::PipelineStageFlags::TOP_OF_PIPE;
                self.queue.device.reset_query_pool(self.pool, pair.begin(), 2);
                self.queue.device.cmd_write_timestamp(commands, stage, self.pool, pair.begin());
            },
            None => self.queue.context.resolve_without_times(id),
        }
        VulkanZone { recorder: self, commands, pair, _zone: zone }
    }

    /// Tells of zones that the GPU has done, without waiting for the others, and reads the clocks
    /// now and then. Call it once a frame, and when the device was waited for at the end.
    ///
    /// Fails where the device is lost: then it has told that no zone will have times.
    pub fn collect(&self) -> Result<(), VulkanError> {
        self.queue.timer.calibrate(&self.queue.context, || self.queue.read_clocks());
        let mut result = Ok(());
        self.ring.borrow_mut().resolve(
            |queries, values| {
                if let Err(error) = self.read(queries, values) {
                    result = Err(error);
                }
            },
            |zone, times| self.queue.context.resolve(zone, times.began, times.ended),
        );
        if result.is_err() {
            self.tell_all_without_times();
        }
        result.map_err(VulkanError::Failed)
    }

    /// Says that nothing which was recorded so far will be done: command buffers were thrown away
    /// before they were submitted. Their queries block others until this is said.
    ///
    /// # Safety
    ///
    /// No command buffer that has its zones is pending, or will be submitted.
    pub unsafe fn abandon(&mut self) {
        self.tell_all_without_times();
    }

    /// Zones that found no query.
    pub fn refused(&self) -> u64 {
        self.ring.borrow().refused()
    }

    /// Zones whose times were not read yet.
    pub fn outstanding(&self) -> usize {
        self.ring.borrow().outstanding()
    }

    fn tell_all_without_times(&self) {
        self.ring.borrow_mut().abandon(|zone| self.queue.context.resolve_without_times(zone));
    }

    /// Reads what is there of these queries.
    fn read(&self, queries: Range<u32>, values: &mut [Option<u64>]) -> Result<(), vk::Result> {
        /// A query's value, and whether it is there.
        type Written = [u64; 2];
        let mut written: [Written; MOST_READ] = [[0; 2]; MOST_READ];
        let written = &mut written[..values.len().min(MOST_READ)];
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WITH_AVAILABILITY;
        let device = &self.queue.device;
        // SAFETY: the device and the pool live, and the queries are the pool's.
        match unsafe { device.get_query_pool_results(self.pool, queries.start, written, flags) } {
            // Some are there, or none.
            Ok(()) | Err(vk::Result::NOT_READY) => {}
            Err(error) => return Err(error),
        }
        for (value, [ticks, available]) in values.iter_mut().zip(&*written) {
            *value = (*available != 0).then_some(*ticks);
        }
        Ok(())
    }
}

impl<const PAIRS: usize> Drop for VulkanRecorder<PAIRS> {
    fn drop(&mut self) {
        self.tell_all_without_times();
        // SAFETY: the device lives, and no command buffer that has it is pending, as its maker
        // said.
        unsafe { self.queue.device.destroy_query_pool(self.pool, None) };
    }
}

/// A zone that is being recorded.
#[must_use = "what is recorded until its guard is dropped belongs to the zone"]
#[derive(Debug)]
pub struct VulkanZone<'r, const PAIRS: usize> {
    recorder: &'r VulkanRecorder<PAIRS>,
    commands: vk::CommandBuffer,
    pair: Option<QueryPair>,
    /// Ends behind the last command.
    _zone: GpuZone<'r>,
}

impl<const PAIRS: usize> Drop for VulkanZone<'_, PAIRS> {
    fn drop(&mut self) {
        let Some(pair) = self.pair else { return };
        let (device, pool) = (&self.recorder.queue.device, self.recorder.pool);
        let stage = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
        // SAFETY: the buffer is still being recorded, as who made the guard said; the pair is
        // this zone's alone.
        unsafe { device.cmd_write_timestamp(self.commands, stage, pool, pair.end()) };
    }
}
