//! What events and providers are called.

use crate::Guid;
use crate::file::LOST_EVENT;
use crate::payload::{EVENT_METADATA, IMAGE_ID, SYSTEM_CONFIG_EX};

/// The kernel's groups.
const GROUPS: [(u8, &str); 27] = [
    (0x00, "EventTrace"),
    (0x01, "DiskIo"),
    (0x02, "PageFault"),
    (0x03, "Process"),
    (0x04, "FileIo"),
    (0x05, "Thread"),
    (0x06, "TcpIp"),
    (0x07, "Job"),
    (0x08, "UdpIp"),
    (0x09, "Registry"),
    (0x0a, "DbgPrint"),
    (0x0b, "SystemConfig"),
    (0x0c, "Spare"),
    (0x0d, "WmiLibrary"),
    (0x0e, "ThreadPool"),
    (0x0f, "PerfInfo"),
    (0x10, "Heap"),
    (0x11, "Object"),
    (0x12, "Power"),
    (0x13, "ModBound"),
    (0x14, "Image"),
    (0x15, "Dpc"),
    (0x16, "CriticalSection"),
    (0x17, "CriticalSectionHeap"),
    (0x18, "StackWalk"),
    (0x19, "UltraMemory"),
    (0x1a, "Alpc"),
];

/// Events of the kernel by group and opcode.
const KERNEL_EVENTS: [(u8, u8, &str); 54] = [
    (0x00, 0, "Header"),
    (0x00, 5, "Extension"),
    (0x00, 8, "EndExtension"),
    (0x01, 10, "Read"),
    (0x01, 11, "Write"),
    (0x01, 12, "ReadInit"),
    (0x01, 13, "WriteInit"),
    (0x01, 14, "FlushBuffers"),
    (0x01, 15, "FlushInit"),
    (0x02, 10, "TransitionFault"),
    (0x02, 11, "DemandZeroFault"),
    (0x02, 12, "CopyOnWrite"),
    (0x02, 13, "GuardPageFault"),
    (0x02, 14, "HardPageFault"),
    (0x02, 15, "AccessViolation"),
    (0x02, 32, "HardFault"),
    (0x03, 1, "Start"),
    (0x03, 2, "End"),
    (0x03, 3, "DCStart"),
    (0x03, 4, "DCEnd"),
    (0x03, 10, "ImageLoad"),
    (0x03, 11, "PerfCounters"),
    (0x03, 39, "Defunct"),
    (0x04, 0, "Name"),
    (0x04, 32, "FileCreate"),
    (0x04, 35, "FileDelete"),
    (0x04, 36, "FileRundown"),
    (0x05, 1, "Start"),
    (0x05, 2, "End"),
    (0x05, 3, "DCStart"),
    (0x05, 4, "DCEnd"),
    (0x05, 36, "CSwitch"),
    (0x05, 50, "ReadyThread"),
    (0x05, 72, "SetName"),
    (0x0b, 10, "CPU"),
    (0x0f, 46, "SampledProfile"),
    (0x0f, 51, "SysClEnter"),
    (0x0f, 52, "SysClExit"),
    (0x0f, 66, "ThreadedDPC"),
    (0x0f, 67, "ISR"),
    (0x0f, 68, "DPC"),
    (0x0f, 69, "TimerDPC"),
    (0x0f, 72, "SetInterval"),
    (0x0f, 73, "CollectionStart"),
    (0x0f, 74, "CollectionEnd"),
    (0x14, 2, "UnLoad"),
    (0x14, 3, "DCStart"),
    (0x14, 4, "DCEnd"),
    (0x14, 10, "Load"),
    (0x18, 32, "Stack"),
    (0x18, 35, "KeyDelete"),
    (0x18, 36, "KeyRundown"),
    (0x18, 37, "KeyKernel"),
    (0x18, 38, "KeyUser"),
];

/// Providers whose names their events do not bring with them.
const PROVIDERS: [(u128, &str); 28] = [
    (0x802ec45a_1e99_4b83_9920_87c98277ba9d, "Microsoft-Windows-DxgKrnl"),
    (0xca11c036_0102_4a2d_a6ad_f03cfed5d3c9, "Microsoft-Windows-DXGI"),
    (0x783aca0a_790e_4d7f_8451_aa850511c6b9, "Microsoft-Windows-D3D9"),
    (0x9e9bba3c_2e38_40cb_99f4_9e8281425164, "Microsoft-Windows-Dwm-Core"),
    (0x8c416c79_d49b_4f01_a467_e56d3aa8234c, "Microsoft-Windows-Win32k"),
    (0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716, "Microsoft-Windows-Kernel-Process"),
    (0xedd08927_9cc4_4e65_b970_c2560fb5c289, "Microsoft-Windows-Kernel-File"),
    (0x331c3b3a_2005_44c2_ac5e_77220c37d6b4, "Microsoft-Windows-Kernel-Power"),
    (0x0f67e49f_fe51_4e9f_b490_6f2948cc6027, "Microsoft-Windows-Kernel-Processor-Power"),
    (0xa68ca8b7_004f_d7b6_a698_07e2de0f1f5d, "Microsoft-Windows-Kernel-General"),
    (0xc514638f_7723_485b_bcfc_96565d735d4a, "Microsoft-Windows-Kernel-Acpi"),
    (0x9c205a39_1250_487d_abd7_e831c6290539, "Microsoft-Windows-Kernel-PnP"),
    (0xb675ec37_bdb6_4648_bc92_f3fdc74d3ca2, "Microsoft-Windows-Kernel-EventTracing"),
    (0xd1d93ef7_e1f2_4f45_9943_03d245fe6c00, "Microsoft-Windows-Kernel-Memory"),
    (0x7dd42a49_5329_4832_8dfd_43d979153a88, "Microsoft-Windows-Kernel-Network"),
    (0x70eb4f03_c1de_4f73_a051_33d13d5413bd, "Microsoft-Windows-Kernel-Registry"),
    (0xc7bde69a_e1e0_4177_b6ef_283ad1525271, "Microsoft-Windows-Kernel-Disk"),
    (0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4, "Microsoft-Windows-DotNETRuntime"),
    (0xa669021c_c450_4609_a035_5af59af4df18, "Microsoft-Windows-DotNETRuntimeRundown"),
    (0x8e9f5090_2d75_4d03_8a81_e5afbf85daf1, "System.Diagnostics.Eventing.FrameworkEventSource"),
    (0x2e5dba47_a3d2_4d16_8ee0_6671ffdcd7b5, "System.Threading.Tasks.TplEventSource"),
    (0x30336ed4_e327_447c_9de0_51b652c86108, "Microsoft-Windows-Shell-Core"),
    (0x43e63da5_41d1_4fbf_aded_1bbed98fdd1d, "Microsoft-Windows-Subsys-SMSS"),
    (0xa0c1853b_5c40_4b15_8766_3cf1c58f985a, "Microsoft-Windows-PowerShell"),
    (0x13b197bd_7cee_4b4e_8dd0_59314ce374ce, "Windows Kernel Trace Rundown"),
    (0xdb6f6ddb_ac77_4e88_8253_819df9bbf140, "Microsoft-Windows-Direct3D11"),
    (0x65cd4c8a_0848_4583_92a0_31c0fbaf00c0, "DX"),
    (0x531a35ab_63ce_4bcf_aa98_f88c7a89e455, "XAML"),
];

/// The group's name and the event's, where they are known.
pub(super) fn kernel_event(group: u8, opcode: u8) -> (String, Option<&'static str>) {
    let name = GROUPS.iter().find(|(number, _)| *number == group).map(|(_, name)| *name);
    let event = KERNEL_EVENTS.iter().find(|(of, number, _)| (*of, *number) == (group, opcode));
    (
        name.map_or_else(|| format!("Kernel group {group:#04x}"), str::to_owned),
        event.map(|(_, _, name)| *name),
    )
}

/// A provider's name, or that of a classic class.
pub(super) fn provider(guid: Guid) -> Option<&'static str> {
    match guid {
        LOST_EVENT => Some("LostEvent"),
        IMAGE_ID => Some("ImageId"),
        EVENT_METADATA => Some("EventMetadata"),
        SYSTEM_CONFIG_EX => Some("SystemConfigEx"),
        guid => PROVIDERS
            .iter()
            .find(|(known, _)| Guid::from_u128(*known) == guid)
            .map(|(_, name)| *name),
    }
}

/// An event's name.
pub(super) fn event(provider: Guid, id: u16) -> Option<&'static str> {
    match (provider, id) {
        (LOST_EVENT, 32) => Some("Event"),
        (LOST_EVENT, 33) => Some("Buffer"),
        (EVENT_METADATA, 32) => Some("EventInfo"),
        (EVENT_METADATA, 33) => Some("MapInfo"),
        (IMAGE_ID, 0) => Some("FileId"),
        (IMAGE_ID, 36) => Some("DebugId"),
        (SYSTEM_CONFIG_EX, 32) => Some("Build"),
        (SYSTEM_CONFIG_EX, 35) => Some("VolumeMapping"),
        _ => None,
    }
}
