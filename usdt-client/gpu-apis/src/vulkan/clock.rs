//! A device's clock and the host's, read by the driver in one call.

use super::VulkanDevice;
use crate::calibration::{ClockReading, between, closest};
use ash::{ext, khr, vk};
use std::ffi::{CStr, c_void};
use syscollect_usdt_client::gpu::HostTime;

/// The names of what reads clocks, and of what says which: of the newer extension, and of the
/// older one. Their types are the same.
const NAMES: [CalibrationNames; 2] = [
    CalibrationNames {
        extension: khr::calibrated_timestamps::NAME,
        read: c"vkGetCalibratedTimestampsKHR",
        domains: c"vkGetPhysicalDeviceCalibrateableTimeDomainsKHR",
    },
    CalibrationNames {
        extension: ext::calibrated_timestamps::NAME,
        read: c"vkGetCalibratedTimestampsEXT",
        domains: c"vkGetPhysicalDeviceCalibrateableTimeDomainsEXT",
    },
];

/// What an extension's parts are called.
struct CalibrationNames {
    extension: &'static CStr,
    read: &'static CStr,
    domains: &'static CStr,
}

/// The extension by which a device reads its clock and the host's together, to be enabled with the
/// device; `None` where it has none.
///
/// # Safety
///
/// The instance lives, and the device was found by it.
pub unsafe fn calibration_extension(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
) -> Option<&'static CStr> {
    // SAFETY: as the caller says.
    let offered = unsafe { instance.enumerate_device_extension_properties(physical) }.ok()?;
    NAMES.iter().map(|names| names.extension).find(|name| {
        offered.iter().any(|extension| extension.extension_name_as_c_str() == Ok(name))
    })
}

/// How a device's clock is read.
pub(super) enum DeviceClock {
    /// Together with CLOCK_MONOTONIC.
    WithMonotonic(khr::calibrated_timestamps::DeviceFn),
    /// Alone, so between two readings of the host's.
    Alone(khr::calibrated_timestamps::DeviceFn),
    /// Not at all.
    Unknown,
}

impl DeviceClock {
    /// # Safety
    ///
    /// The handles belong together and live.
    pub(super) unsafe fn of(vulkan: VulkanDevice<'_>) -> Self {
        NAMES
            .iter()
            // SAFETY: as the caller says.
            .find_map(|names| unsafe { Self::by(vulkan, names) })
            .unwrap_or(Self::Unknown)
    }

    /// `None` where the extension is not enabled, or reads no clock of the device.
    ///
    /// # Safety
    ///
    /// As [`DeviceClock::of`].
    unsafe fn by(vulkan: VulkanDevice<'_>, names: &CalibrationNames) -> Option<Self> {
        let VulkanDevice { entry, instance, physical, device } = vulkan;
        let pointer = |function: vk::PFN_vkVoidFunction| {
            function.map_or(std::ptr::null(), |function| function as *const c_void)
        };
        // SAFETY: the handles live, and the names are of C.
        let (read, domains) = unsafe {
            (
                pointer(instance.get_device_proc_addr(device.handle(), names.read.as_ptr())),
                pointer(entry.get_instance_proc_addr(instance.handle(), names.domains.as_ptr())),
            )
        };
        if read.is_null() || domains.is_null() {
            return None;
        }
        let read = khr::calibrated_timestamps::DeviceFn::load(|_| read);
        let domains = khr::calibrated_timestamps::InstanceFn::load(|_| domains);
        let mut count = 16;
        let mut known = [vk::TimeDomainKHR::DEVICE; 16];
        // SAFETY: there is room for as many as is said; what of it is filled is said, too.
        let result = unsafe {
            (domains.get_physical_device_calibrateable_time_domains_khr)(
                physical,
                &raw mut count,
                known.as_mut_ptr(),
            )
        };
        let known = match result {
            vk::Result::SUCCESS | vk::Result::INCOMPLETE => known.get(..count as usize)?,
            _ => return None,
        };
        if !known.contains(&vk::TimeDomainKHR::DEVICE) {
            None
        } else if known.contains(&vk::TimeDomainKHR::CLOCK_MONOTONIC) {
            Some(Self::WithMonotonic(read))
        } else {
            Some(Self::Alone(read))
        }
    }

    /// Both clocks; the closest of several tries.
    ///
    /// # Safety
    ///
    /// The device is the one that it was made of, and lives.
    pub(super) unsafe fn read(&self, device: &ash::Device) -> Option<ClockReading> {
        const DEVICE: vk::TimeDomainKHR = vk::TimeDomainKHR::DEVICE;
        const HOST: vk::TimeDomainKHR = vk::TimeDomainKHR::CLOCK_MONOTONIC;
        match self {
            Self::WithMonotonic(function) => closest(|| {
                // SAFETY: as the caller says; the device knows both clocks.
                let read = unsafe { timestamps(function, device, [DEVICE, HOST]) }?;
                let ([gpu, host], deviation) = (read.ticks, read.deviation);
                Some(ClockReading { host: HostTime::Monotonic(host), gpu, deviation })
            }),
            Self::Alone(function) => closest(|| {
                let mut deviation = 0;
                let reading = between(|| {
                    // SAFETY: as the caller says; the device knows its own clock.
                    let read = unsafe { timestamps(function, device, [DEVICE]) }?;
                    deviation = read.deviation;
                    Some(read.ticks[0])
                })?;
                Some(ClockReading { deviation: reading.deviation + deviation, ..reading })
            }),
            Self::Unknown => None,
        }
    }
}

/// Clocks that a driver read in one call.
struct Timestamps<const N: usize> {
    ticks: [u64; N],
    /// Nanoseconds that they may lie apart.
    deviation: u64,
}

/// # Safety
///
/// The function is the device's, which lives and knows these clocks.
unsafe fn timestamps<const N: usize>(
    functions: &khr::calibrated_timestamps::DeviceFn,
    device: &ash::Device,
    domains: [vk::TimeDomainKHR; N],
) -> Option<Timestamps<N>> {
    let infos = domains.map(|domain| vk::CalibratedTimestampInfoKHR::default().time_domain(domain));
    let (mut ticks, mut deviation) = ([0; N], 0);
    // SAFETY: as the caller says; there is a place for each clock.
    let result = unsafe {
        (functions.get_calibrated_timestamps_khr)(
            device.handle(),
            N as u32,
            infos.as_ptr(),
            ticks.as_mut_ptr(),
            &raw mut deviation,
        )
    };
    (result == vk::Result::SUCCESS).then_some(Timestamps { ticks, deviation })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ash::vk::Handle as _;
    use std::sync::atomic::{AtomicU64, Ordering};

    static CALLS: AtomicU64 = AtomicU64::new(0);

    /// Every fifth call fails, and the others are the closer the later they come.
    unsafe extern "system" fn read(
        _: vk::Device,
        count: u32,
        infos: *const vk::CalibratedTimestampInfoKHR<'_>,
        ticks: *mut u64,
        deviation: *mut u64,
    ) -> vk::Result {
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        if call % 5 == 4 {
            return vk::Result::ERROR_OUT_OF_HOST_MEMORY;
        }
        for index in 0..count as usize {
            // SAFETY: the caller has as many of both.
            unsafe {
                let device = (*infos.add(index)).time_domain == vk::TimeDomainKHR::DEVICE;
                ticks.add(index).write(if device { call } else { 1_000 + call });
            }
        }
        // SAFETY: the caller's place.
        unsafe { deviation.write(10_000_000 - call) };
        vk::Result::SUCCESS
    }

    #[test]
    fn the_closest_of_several_readings_counts_whatever_the_device_knows() {
        let read = || khr::calibrated_timestamps::DeviceFn::load(|_| read as *const c_void);
        // SAFETY: nothing is called of it.
        let device =
            unsafe { ash::Device::load_with(|_| std::ptr::null(), vk::Device::from_raw(1)) };
        // SAFETY: the function reads nothing of the device.
        let found = unsafe { DeviceClock::WithMonotonic(read()).read(&device) };
        let reading =
            ClockReading { host: HostTime::Monotonic(1_007), gpu: 7, deviation: 10_000_000 - 7 };
        assert_eq!(found, Some(reading));
        // SAFETY: as above.
        let found = unsafe { DeviceClock::Alone(read()).read(&device) }.expect("a reading");
        assert!(matches!(found.host, HostTime::Ticks(_)));
        assert!(found.gpu >= 8 && found.deviation >= 10_000_000 - 15);
        // SAFETY: as above.
        assert_eq!(unsafe { DeviceClock::Unknown.read(&device) }, None);
    }
}
