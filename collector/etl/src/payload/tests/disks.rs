use super::{BITNESSES, Bytes, address, is_malformed_when_shorter};
use crate::payload::{
    DiskIo, DiskIoBegin, DiskIoKind, HardFault, Machine, PageFault, PageFaultKind, Payload, decode,
};

const DISK: u8 = 1;
const PAGE_FAULT: u8 = 2;
const FILE: u8 = 4;
const CONFIGURATION: u8 = 0x0b;
const KEY: u64 = 0xffff_c001_1122_3344;

#[test]
fn a_transfer_says_how_long_it_took_and_from_version_3_on_who_began_it() {
    for is_64_bit in BITNESSES {
        let first =
            Bytes::new(is_64_bit).u32(1).u32(0x43).u32(4096).u32(0).u64(1 << 33).pointer(KEY);
        let second = first.clone().pointer(KEY + 1).u64(7_000);
        let third = second.clone().u32(44);
        for (opcode, kind) in [(10, DiskIoKind::Read), (11, DiskIoKind::Write)] {
            let whole = DiskIo {
                kind,
                disk: 1,
                flags: 0x43,
                size: 4096,
                offset: 1 << 33,
                file: address(KEY, is_64_bit),
                request: address(KEY + 1, is_64_bit),
                duration: 7_000,
                tid: Some(44),
            };
            assert_eq!(decode(&third.kernel(DISK, opcode, 3)), Payload::DiskIo(whole));
            let nobody = DiskIo { tid: None, ..whole };
            assert_eq!(decode(&second.kernel(DISK, opcode, 2)), Payload::DiskIo(nobody));
            let short = DiskIo { request: 0, duration: 0, ..nobody };
            assert_eq!(decode(&first.kernel(DISK, opcode, 1)), Payload::DiskIo(short));
            is_malformed_when_shorter(&second.kernel(DISK, opcode, 3), second.bytes.len());
        }
    }
}

#[test]
fn a_flush_moves_nothing() {
    for is_64_bit in BITNESSES {
        let bytes = Bytes::new(is_64_bit).u32(1).u32(0x6_0000).u64(7_000).pointer(KEY).u32(44);
        let flush = DiskIo {
            kind: DiskIoKind::Flush,
            disk: 1,
            flags: 0x6_0000,
            size: 0,
            offset: 0,
            file: 0,
            request: address(KEY, is_64_bit),
            duration: 7_000,
            tid: Some(44),
        };
        assert_eq!(decode(&bytes.kernel(DISK, 14, 3)), Payload::DiskIo(flush));
        is_malformed_when_shorter(&bytes.kernel(DISK, 14, 3), bytes.bytes.len() - 4);
    }
}

#[test]
fn the_begin_of_a_transfer_names_its_request() {
    for is_64_bit in BITNESSES {
        let bytes = Bytes::new(is_64_bit).pointer(KEY).u32(44);
        for (opcode, kind) in
            [(12, DiskIoKind::Read), (13, DiskIoKind::Write), (15, DiskIoKind::Flush)]
        {
            let begin = DiskIoBegin { kind, request: address(KEY, is_64_bit), tid: Some(44) };
            assert_eq!(decode(&bytes.kernel(DISK, opcode, 3)), Payload::DiskIoBegin(begin));
        }
    }
}

#[test]
fn faults_say_what_was_touched() {
    for is_64_bit in BITNESSES {
        let (key, touched) = (address(KEY, is_64_bit), address(0x7ff0_1234_5000, is_64_bit));
        let hard = Bytes::new(is_64_bit)
            .u64(900)
            .u64(1 << 20)
            .pointer(touched)
            .pointer(KEY)
            .u32(44)
            .u32(16_384);
        let fault = HardFault {
            start: 900,
            offset: 1 << 20,
            address: touched,
            file: key,
            tid: 44,
            size: 16_384,
        };
        assert_eq!(decode(&hard.kernel(PAGE_FAULT, 32, 2)), Payload::HardFault(fault));
        is_malformed_when_shorter(&hard.kernel(PAGE_FAULT, 32, 2), hard.bytes.len());
        let soft = Bytes::new(is_64_bit).pointer(touched).pointer(KEY);
        let kinds = [
            PageFaultKind::Transition,
            PageFaultKind::DemandZero,
            PageFaultKind::CopyOnWrite,
            PageFaultKind::GuardPage,
            PageFaultKind::HardPageFault,
            PageFaultKind::AccessViolation,
        ];
        for (opcode, kind) in (10..).zip(kinds) {
            let fault = PageFault { kind, address: touched, instruction: key };
            assert_eq!(decode(&soft.kernel(PAGE_FAULT, opcode, 2)), Payload::PageFault(fault));
        }
    }
}

#[test]
fn keys_of_files_are_named_until_they_are_given_up() {
    for is_64_bit in BITNESSES {
        let bytes = Bytes::new(is_64_bit).pointer(KEY).utf16(r"\Device\HarddiskVolume4\data.bin");
        for (opcode, is_deleted) in [(0, false), (32, false), (35, true), (36, false)] {
            let Payload::FileName(name) = decode(&bytes.kernel(FILE, opcode, 2)) else {
                panic!("no name")
            };
            assert_eq!((name.file, name.is_deleted), (address(KEY, is_64_bit), is_deleted));
            assert_eq!(name.path.to_string_lossy(), r"\Device\HarddiskVolume4\data.bin");
        }
    }
}

#[test]
fn the_machine_says_its_cpus_and_memory() {
    let bytes = Bytes::new(true).u32(3_600).u32(8).u32(16_384).u32(4_096).u32(65_536).utf16("name");
    let machine = Machine { mhz: 3_600, cpus: 8, memory_mib: 16_384, page_size: 4_096 };
    assert_eq!(decode(&bytes.kernel(CONFIGURATION, 10, 3)), Payload::Machine(machine));
    let mut model = Bytes::new(true).u32(3).u32(0).u32(3_600).utf16("A CPU @ 3.60GHz");
    model.bytes.resize(12 + 2 * 64, 0);
    let Payload::Processor(processor) = decode(&model.kernel(CONFIGURATION, 35, 2)) else {
        panic!("no model")
    };
    assert_eq!((processor.cpu, processor.mhz), (3, 3_600));
    assert_eq!(processor.name.to_string_lossy(), "A CPU @ 3.60GHz");
    is_malformed_when_shorter(&model.kernel(CONFIGURATION, 35, 2), 12);
}
