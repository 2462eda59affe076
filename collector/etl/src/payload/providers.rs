//! Names of providers that many traces have, for files that do not say them.
//!
//! They are those that `logman query providers` lists on Windows 10.

use crate::Guid;

const NAMES: [(Guid, &str); 24] = [
    (Guid::from_u128(0x802ec45a_1e99_4b83_9920_87c98277ba9d), "Microsoft-Windows-DxgKrnl"),
    (Guid::from_u128(0xca11c036_0102_4a2d_a6ad_f03cfed5d3c9), "Microsoft-Windows-DXGI"),
    (Guid::from_u128(0x783aca0a_790e_4d7f_8451_aa850511c6b9), "Microsoft-Windows-D3D9"),
    (Guid::from_u128(0xdb6f6ddb_ac77_4e88_8253_819df9bbf140), "Microsoft-Windows-Direct3D11"),
    (Guid::from_u128(0x5d8087dd_3a9b_4f56_90df_49196cdc4f11), "Microsoft-Windows-Direct3D12"),
    (Guid::from_u128(0x9e9bba3c_2e38_40cb_99f4_9e8281425164), "Microsoft-Windows-Dwm-Core"),
    (Guid::from_u128(0x8c416c79_d49b_4f01_a467_e56d3aa8234c), "Microsoft-Windows-Win32k"),
    (Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716), "Microsoft-Windows-Kernel-Process"),
    (Guid::from_u128(0x331c3b3a_2005_44c2_ac5e_77220c37d6b4), "Microsoft-Windows-Kernel-Power"),
    (Guid::from_u128(0x0f67e49f_fe51_4e9f_b490_6f2948cc6027), "Microsoft-Windows-Kernel-Processor-Power"),
    (Guid::from_u128(0xc514638f_7723_485b_bcfc_96565d735d4a), "Microsoft-Windows-Kernel-Acpi"),
    (Guid::from_u128(0xedd08927_9cc4_4e65_b970_c2560fb5c289), "Microsoft-Windows-Kernel-File"),
    (Guid::from_u128(0xc7bde69a_e1e0_4177_b6ef_283ad1525271), "Microsoft-Windows-Kernel-Disk"),
    (Guid::from_u128(0xd1d93ef7_e1f2_4f45_9943_03d245fe6c00), "Microsoft-Windows-Kernel-Memory"),
    (Guid::from_u128(0x70eb4f03_c1de_4f73_a051_33d13d5413bd), "Microsoft-Windows-Kernel-Registry"),
    (Guid::from_u128(0x7dd42a49_5329_4832_8dfd_43d979153a88), "Microsoft-Windows-Kernel-Network"),
    (Guid::from_u128(0xb675ec37_bdb6_4648_bc92_f3fdc74d3ca2), "Microsoft-Windows-Kernel-EventTracing"),
    (Guid::from_u128(0x2f07e2ee_15db_40f1_90ef_9d7ba282188a), "Microsoft-Windows-TCPIP"),
    (Guid::from_u128(0x1c95126e_7eea_49a9_a3fe_a378b03ddb4d), "Microsoft-Windows-DNS-Client"),
    (Guid::from_u128(0x6ad52b32_d609_4be9_ae07_ce8dae937e39), "Microsoft-Windows-RPC"),
    (Guid::from_u128(0xae4bd3be_f36f_45b6_8d21_bdd6fb832853), "Microsoft-Windows-Audio"),
    (Guid::from_u128(0x315a8872_923e_4ea2_9889_33cd4754bf64), "Microsoft-Windows-Immersive-Shell"),
    (Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4), "Microsoft-Windows-DotNETRuntime"),
    (Guid::from_u128(0xa669021c_c450_4609_a035_5af59af4df18), "Microsoft-Windows-DotNETRuntimeRundown"),
];

/// Name of a provider, if it is one of the few that are known without the file's help.
pub fn well_known_provider(provider: Guid) -> Option<&'static str> {
    NAMES.iter().find(|(guid, _)| *guid == provider).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_that_every_graphics_trace_has_is_named() {
        assert_eq!(well_known_provider(crate::payload::dxgkrnl::PROVIDER), Some("Microsoft-Windows-DxgKrnl"));
        assert_eq!(well_known_provider(Guid::default()), None);
    }

    #[test]
    fn no_provider_is_listed_twice() {
        for (index, (guid, name)) in NAMES.iter().enumerate() {
            assert!(NAMES[index + 1..].iter().all(|(other, second)| other != guid && second != name), "{name}");
        }
    }
}
