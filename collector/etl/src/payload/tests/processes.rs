use super::{BITNESSES, Bytes, address, is_malformed_when_shorter};
use crate::payload::{IMAGE_ID, ImageChange, Lifecycle, Payload, SYSTEM_CONFIG_EX, decode};
use crate::{Guid, Record, Task};

const PROCESS: u8 = 3;
const IMAGE: u8 = 0x14;
const BASE: u64 = 0x7ff8_1234_0000;

/// A process up to its user, as its version has it.
fn head(is_64_bit: bool, version: u16) -> Bytes {
    let bytes = Bytes::new(is_64_bit);
    if version == 0 {
        return bytes.pointer(40).pointer(4);
    }
    let bytes = bytes.pointer(BASE).u32(40).u32(4).u32(1).u32(u32::MAX);
    let bytes = if version >= 3 { bytes.pointer(0x1ab000) } else { bytes };
    if version >= 4 { bytes.u32(7) } else { bytes }
}

#[test]
fn every_version_of_a_process_is_read_past_its_user() {
    for is_64_bit in BITNESSES {
        for version in 0..=5 {
            for parts in [0, 1, 5, 15] {
                let bytes = head(is_64_bit, version).user(parts);
                let (needed, tail) = (
                    bytes.bytes.len(),
                    bytes.ascii("game.exe").utf16("game.exe -x").utf16("package"),
                );
                let Payload::Process(process) = decode(&tail.kernel(PROCESS, 1, version)) else {
                    panic!("{version}")
                };
                assert_eq!((process.pid, process.parent_pid), (40, 4));
                assert_eq!(
                    (process.session, process.exit_status),
                    if version == 0 { (0, 0) } else { (1, -1) }
                );
                assert_eq!(process.image_name.to_string_lossy(), "game.exe");
                let command_line = if version < 2 { "" } else { "game.exe -x" };
                assert_eq!(process.command_line.to_string_lossy(), command_line);
                is_malformed_when_shorter(&tail.kernel(PROCESS, 1, version), needed);
            }
        }
    }
}

#[test]
fn a_process_of_nobody_has_one_word_in_place_of_its_user() {
    for (opcode, lifecycle) in [
        (1, Lifecycle::Start),
        (2, Lifecycle::End),
        (3, Lifecycle::DataCollectionStart),
        (4, Lifecycle::DataCollectionEnd),
        (39, Lifecycle::Defunct),
    ] {
        let bytes = head(true, 4).u32(0).ascii("Idle").utf16("");
        let Payload::Process(process) = decode(&bytes.kernel(PROCESS, opcode, 4)) else {
            panic!("no process")
        };
        assert_eq!(
            (process.image_name.to_string_lossy().as_ref(), process.lifecycle),
            ("Idle", lifecycle)
        );
        assert!(process.command_line.is_empty());
    }
}

#[test]
fn an_image_of_every_version_says_where_it_lies_and_what_file_it_is() {
    for is_64_bit in BITNESSES {
        let path = r"\Device\HarddiskVolume4\game.dll";
        let oldest = Bytes::new(is_64_bit).pointer(BASE).u32(0x5000).utf16(path);
        let first = Bytes::new(is_64_bit).pointer(BASE).pointer(0x5000).u32(40).utf16(path);
        let second = Bytes::new(is_64_bit).pointer(BASE).pointer(0x5000).u32(40);
        let second = second
            .u32(0xabc)
            .u32(0x5fff_ffff)
            .u32(0)
            .pointer(0x1_8000_0000)
            .raw(&[0; 16])
            .utf16(path);
        for (version, bytes) in [(0, &oldest), (1, &first), (2, &second), (3, &second)] {
            let Payload::Image(image) = decode(&bytes.kernel(IMAGE, 10, version)) else {
                panic!("{version}")
            };
            assert_eq!((image.base, image.size, image.pid), (address(BASE, is_64_bit), 0x5000, 40));
            assert_eq!(image.path.to_string_lossy(), path);
            let identity = if version < 2 {
                (0, 0, 0)
            } else {
                (0xabc, 0x5fff_ffff, address(1 << 31 | 1 << 32, is_64_bit))
            };
            assert_eq!((image.checksum, image.timestamp, image.default_base), identity);
            is_malformed_when_shorter(
                &bytes.kernel(IMAGE, 10, version),
                bytes.bytes.len() - 2 * (path.len() + 1),
            );
        }
        let nobody = Record { task: None, ..oldest.kernel(IMAGE, 10, 0) };
        assert!(matches!(decode(&nobody), Payload::Image(image) if image.pid == 0));
        let other = Record { task: Some(Task { pid: 48, tid: 52 }), ..first.kernel(IMAGE, 10, 1) };
        assert!(matches!(decode(&other), Payload::Image(image) if image.pid == 40));
    }
}

#[test]
fn what_happens_to_an_image_is_told_apart() {
    let bytes = Bytes::new(true).raw(&[0; 60]);
    let changes = [2, 3, 4, 10].map(|opcode| match decode(&bytes.kernel(IMAGE, opcode, 3)) {
        Payload::Image(image) => image.change,
        other => panic!("{other:?}"),
    });
    let expected = [
        ImageChange::Unload,
        ImageChange::DataCollectionStart,
        ImageChange::DataCollectionEnd,
        ImageChange::Load,
    ];
    assert_eq!(changes, expected);
    assert_eq!(decode(&bytes.kernel(IMAGE, 33, 2)), Payload::Unknown);
    // The kernel logs the loading of an image as an event of its process.
    assert_eq!(decode(&bytes.kernel(PROCESS, 10, 3)), decode(&bytes.kernel(IMAGE, 10, 3)));
}

#[test]
fn the_pdb_of_an_image_is_known_by_guid_and_age() {
    let guid = Guid::from_u128(0x988a0d29_3b0e_42e4_8a13_9ddd7f0f2bc1);
    for is_64_bit in BITNESSES {
        let head = Bytes::new(is_64_bit).pointer(BASE).u32(40).raw(&guid.0).u32(3);
        let bytes = head.clone().ascii("game.pdb");
        let Payload::ImageDebugId(id) = decode(&bytes.classic(IMAGE_ID, 36)) else {
            panic!("no identity")
        };
        assert_eq!((id.base, id.pid, id.guid, id.age), (address(BASE, is_64_bit), 40, guid, 3));
        assert_eq!(id.pdb.to_string_lossy(), "game.pdb");
        is_malformed_when_shorter(&bytes.classic(IMAGE_ID, 36), head.bytes.len());
    }
}

#[test]
fn the_file_of_an_image_is_known_by_time_and_size() {
    for is_64_bit in BITNESSES {
        let bytes =
            Bytes::new(is_64_bit).pointer(BASE).pointer(0x5000).u32(0).u32(77).utf16("game.dll");
        let Payload::ImageFileId(id) = decode(&bytes.classic(IMAGE_ID, 0)) else {
            panic!("no identity")
        };
        assert_eq!(
            (id.base, id.size, id.pid, id.timestamp),
            (address(BASE, is_64_bit), 0x5000, 0, 77)
        );
        assert_eq!(id.original_name.to_string_lossy(), "game.dll");
    }
}

#[test]
fn merging_tools_tell_the_build_and_what_volumes_are_called() {
    let build = Bytes::new(true).u64(1).utf16("17134.amd64fre.rs4").utf16("Windows 10");
    let Payload::Build(read) = decode(&build.classic(SYSTEM_CONFIG_EX, 32)) else {
        panic!("no build")
    };
    assert_eq!(
        (read.lab.to_string(), read.product.to_string()),
        ("17134.amd64fre.rs4".into(), "Windows 10".into())
    );
    let volume = Bytes::new(true).utf16(r"\Device\HarddiskVolume4\").utf16(r"C:\");
    let Payload::VolumeMapping(read) = decode(&volume.classic(SYSTEM_CONFIG_EX, 35)) else {
        panic!("no volume")
    };
    assert_eq!(read.kernel_path.to_string(), r"\Device\HarddiskVolume4\");
    assert_eq!(read.drive_path.to_string(), r"C:\");
}
