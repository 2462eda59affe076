//! What every program of Vulkan does: an instance, a device, buffers, command buffers.

use crate::AnyError;
use ash::vk;
use std::sync::{Arc, Mutex};
use syscollect_gpu_apis::vulkan::{VulkanDevice, calibration_extension};

/// Bytes that are filled and copied.
const BYTES: u64 = 4 << 20;

/// A device with a queue.
pub(crate) struct Setup {
    entry: ash::Entry,
    instance: ash::Instance,
    physical: vk::PhysicalDevice,
    device: ash::Device,
    queue: vk::Queue,
    pub(crate) family: u32,
    pub(crate) device_name: String,
    /// Command pools, one for each thread; destroyed with the device.
    pools: Mutex<Vec<vk::CommandPool>>,
}

impl Setup {
    pub(crate) fn new() -> Result<Self, AnyError> {
        // SAFETY: the loader is a library like others; nothing else of Vulkan runs yet.
        let entry = unsafe { ash::Entry::load()? };
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the structures live during the call.
        let instance = unsafe { entry.create_instance(&info, None)? };
        // SAFETY: the instance lives.
        let devices = unsafe { instance.enumerate_physical_devices()? };
        let physical = *devices.first().ok_or("there is no device for Vulkan")?;
        // SAFETY: the device is the instance's.
        let (properties, families) = unsafe {
            (
                instance.get_physical_device_properties(physical),
                instance.get_physical_device_queue_family_properties(physical),
            )
        };
        let family = families
            .iter()
            .position(|family| {
                let copies =
                    vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE | vk::QueueFlags::TRANSFER;
                family.timestamp_valid_bits > 0 && family.queue_flags.intersects(copies)
            })
            .ok_or("no queue writes time stamps")? as u32;
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(family)
            .queue_priorities(&[1.0])];
        // SAFETY: as above.
        let calibration = unsafe { calibration_extension(&instance, physical) };
        let extensions: Vec<_> = calibration.iter().map(|name| name.as_ptr()).collect();
        let mut features = vk::PhysicalDeviceVulkan12Features::default().host_query_reset(true);
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&extensions)
            .push_next(&mut features);
        // SAFETY: the structures live during the call.
        let device = unsafe { instance.create_device(physical, &info, None)? };
        // SAFETY: the device was made with one queue of that family.
        let queue = unsafe { device.get_device_queue(family, 0) };
        let device_name = properties.device_name_as_c_str()?.to_string_lossy().into_owned();
        let pools = Mutex::default();
        Ok(Self { entry, instance, physical, device, queue, family, device_name, pools })
    }

    pub(crate) fn vulkan(&self) -> VulkanDevice<'_> {
        let Self { entry, instance, physical, device, .. } = self;
        VulkanDevice { entry, instance, physical: *physical, device }
    }

    /// Command buffers of a pool of their own, for one thread.
    pub(crate) fn command_buffers<const N: usize>(
        &self,
    ) -> Result<[vk::CommandBuffer; N], AnyError> {
        let info = vk::CommandPoolCreateInfo::default()
            .queue_family_index(self.family)
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        // SAFETY: the device lives.
        let pool = unsafe { self.device.create_command_pool(&info, None)? };
        self.pools.lock().map_err(|_| "a thread panicked")?.push(pool);
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .command_buffer_count(N as u32);
        // SAFETY: the pool is new.
        let buffers = unsafe { self.device.allocate_command_buffers(&info)? };
        buffers.try_into().map_err(|_| "not as many command buffers as were asked for".into())
    }

    pub(crate) fn begin(&self, commands: vk::CommandBuffer) -> Result<(), AnyError> {
        let info = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the buffer was waited for, and its pool is used by one thread at a time.
        unsafe { self.device.begin_command_buffer(commands, &info) }.map_err(AnyError::from)
    }

    pub(crate) fn end(&self, commands: vk::CommandBuffer) -> Result<(), AnyError> {
        // SAFETY: as `begin`.
        unsafe { self.device.end_command_buffer(commands) }.map_err(AnyError::from)
    }

    pub(crate) fn fence(&self, signaled: bool) -> Result<vk::Fence, AnyError> {
        let flags =
            if signaled { vk::FenceCreateFlags::SIGNALED } else { vk::FenceCreateFlags::empty() };
        let info = vk::FenceCreateInfo::default().flags(flags);
        // SAFETY: the device lives.
        Ok(unsafe { self.device.create_fence(&info, None)? })
    }

    pub(crate) fn destroy_fence(&self, fence: vk::Fence) {
        // SAFETY: what signals it was waited for.
        unsafe { self.device.destroy_fence(fence, None) };
    }

    /// Waits for a fence, and resets it.
    pub(crate) fn wait(&self, fence: vk::Fence) -> Result<(), AnyError> {
        // SAFETY: the fence is the device's, and nobody else has it.
        unsafe {
            self.device.wait_for_fences(&[fence], true, u64::MAX)?;
            self.device.reset_fences(&[fence])?;
        }
        Ok(())
    }

    pub(crate) fn submit(
        &self,
        commands: &[vk::CommandBuffer],
        fence: vk::Fence,
    ) -> Result<(), AnyError> {
        let submits = [vk::SubmitInfo::default().command_buffers(commands)];
        // SAFETY: only the main thread submits; the buffers were recorded, and the fence reset.
        unsafe { self.device.queue_submit(self.queue, &submits, fence) }.map_err(AnyError::from)
    }

    pub(crate) fn wait_idle(&self) -> Result<(), AnyError> {
        // SAFETY: only the main thread submits.
        unsafe { self.device.device_wait_idle() }.map_err(AnyError::from)
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        // SAFETY: all else that was made of these is gone: it has a reference to this.
        unsafe {
            // Where that fails, the device is lost, and nothing runs.
            let _ = self.device.device_wait_idle();
            for pool in self.pools.lock().into_iter().flat_map(|pools| pools.clone()) {
                self.device.destroy_command_pool(pool, None);
            }
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}

/// Two buffers with one memory, of a thread.
pub(crate) struct Copies {
    setup: Arc<Setup>,
    memory: vk::DeviceMemory,
    from: vk::Buffer,
    to: vk::Buffer,
}

impl Copies {
    pub(crate) fn new(setup: &Arc<Setup>) -> Result<Self, AnyError> {
        let device = &setup.device;
        let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let info = vk::BufferCreateInfo::default().size(BYTES).usage(usage);
        // SAFETY: the device lives; both buffers are alike, so their memory is, too.
        let (from, to, needs, memories) = unsafe {
            let from = device.create_buffer(&info, None)?;
            (
                from,
                device.create_buffer(&info, None)?,
                device.get_buffer_memory_requirements(from),
                setup.instance.get_physical_device_memory_properties(setup.physical),
            )
        };
        let usable = |index: &u32| needs.memory_type_bits & 1 << index != 0;
        let local = |index: &u32| {
            let flags = memories.memory_types[*index as usize].property_flags;
            flags.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL)
        };
        let mut types = (0..memories.memory_type_count).filter(usable);
        let kind = types.clone().find(local).or_else(|| types.next()).ok_or("no memory")?;
        let second = needs.size.next_multiple_of(needs.alignment);
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(second + needs.size)
            .memory_type_index(kind);
        // SAFETY: the memory is as large as both need, and of a type that both take.
        let memory = unsafe {
            let memory = device.allocate_memory(&info, None)?;
            device.bind_buffer_memory(from, memory, 0)?;
            device.bind_buffer_memory(to, memory, second)?;
            memory
        };
        Ok(Self { setup: Arc::clone(setup), memory, from, to })
    }

    pub(crate) fn fill(&self, setup: &Setup, commands: vk::CommandBuffer, value: u32) {
        // SAFETY: the buffer of commands is being recorded; all of the other is filled.
        unsafe { setup.device.cmd_fill_buffer(commands, self.from, 0, BYTES, value) };
        let barrier = [vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(vk::AccessFlags::TRANSFER_READ)];
        let stage = vk::PipelineStageFlags::TRANSFER;
        let none = vk::DependencyFlags::empty();
        // SAFETY: as above.
        unsafe {
            setup.device.cmd_pipeline_barrier(commands, stage, stage, none, &barrier, &[], &[]);
        }
    }

    pub(crate) fn copy(&self, setup: &Setup, commands: vk::CommandBuffer) {
        let all = [vk::BufferCopy::default().size(BYTES)];
        // SAFETY: the buffer of commands is being recorded; both others are that long.
        unsafe { setup.device.cmd_copy_buffer(commands, self.from, self.to, &all) };
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        let device = &self.setup.device;
        // SAFETY: their thread ends, or returns, when the device was waited for.
        unsafe {
            device.destroy_buffer(self.from, None);
            device.destroy_buffer(self.to, None);
            device.free_memory(self.memory, None);
        }
    }
}
