//! Payloads byte by byte.

use super::decode::MAX_FENCES;
use super::*;
use proptest::prelude::*;

/// A payload of pointers and numbers.
struct Payload {
    bytes: Vec<u8>,
    is_64_bit: bool,
}

impl Payload {
    fn new(is_64_bit: bool) -> Self {
        Self { bytes: Vec::new(), is_64_bit }
    }

    fn pointer(mut self, value: u64) -> Self {
        let size = if self.is_64_bit { 8 } else { 4 };
        self.bytes.extend_from_slice(&value.to_le_bytes()[..size]);
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn decode(&self, id: u16, version: u16) -> Option<Dxgkrnl> {
        decode(id, version, &self.bytes, self.is_64_bit)
    }
}

#[test]
fn a_dma_packet_reads_the_same_whatever_the_width_of_pointers() {
    for wide in [true, false] {
        let start =
            Payload::new(wide).pointer(0xc).pointer(0).u32(0).u64(7).u32(3).pointer(1).u32(0);
        let expected = Dxgkrnl::DmaStart {
            context: 0xc,
            queue_context: 0,
            kind: DmaKind::Render,
            id: 7,
            sequence: 3,
        };
        assert_eq!(start.decode(175, 1), Some(expected));
        let done = Payload::new(wide).pointer(0xc).u32(1).u64(7).u32(3).u32(2).u32(0);
        let (kind, end) = (DmaKind::Paging, DmaEnd::Preempted);
        assert_eq!(
            done.decode(177, 1),
            Some(Dxgkrnl::DmaDone { context: 0xc, kind, id: 7, sequence: 3, end })
        );
    }
}

#[test]
fn a_signal_names_its_fences() {
    let signal = Payload::new(true)
        .pointer(0xc)
        .u32(5)
        .u32(0)
        .u32(2)
        .pointer(0xa)
        .pointer(0xb)
        .u64(1)
        .u64(2);
    let Some(Dxgkrnl::QueuePacketStart(packet)) = signal.decode(245, 2) else {
        panic!("a packet starts")
    };
    let fences = [Fence { context: 0xa, sequence: 1 }, Fence { context: 0xb, sequence: 2 }];
    assert_eq!(
        (packet.kind, packet.sequence, packet.fences.as_slice()),
        (QueuePacketKind::Signal, 5, &fences[..])
    );
}

#[test]
fn a_signal_of_more_fences_than_there_are_has_none() {
    let signal = Payload::new(true).pointer(0xc).u32(5).u32(0).u32(u32::MAX).pointer(0xa);
    let Some(Dxgkrnl::QueuePacketStart(packet)) = signal.decode(245, 2) else {
        panic!("a packet starts")
    };
    assert_eq!(packet.fences, []);
}

#[test]
fn later_versions_of_present_have_the_interval_before_the_flags() {
    let (window, flags) = (0x99, 4);
    let expected = Some(Dxgkrnl::Present { window, source: 0, flags, status: 0 });
    let old = Payload::new(true).u32(1).pointer(window).u32(0).u32(flags).u32(0);
    let new = Payload::new(true).u32(1).pointer(window).u32(0).u32(1).u32(flags).u32(0);
    assert_eq!((old.decode(184, 0), new.decode(184, 1)), (expected.clone(), expected));
}

#[test]
fn a_context_and_its_device_say_where_they_belong() {
    let context = (0..7)
        .fold(Payload::new(true).pointer(0xd).u32(3), |payload, _| payload.u32(0))
        .pointer(0xc);
    let expected = Dxgkrnl::Context { change: Change::Rundown, context: 0xc, device: 0xd, node: 3 };
    assert_eq!(context.decode(32, 0), Some(expected));
    let device = Payload::new(false).pointer(4).pointer(0xa).u32(1).pointer(0xd);
    let expected = Dxgkrnl::Device { change: Change::Stop, device: 0xd, adapter: 0xa, process: 4 };
    assert_eq!(device.decode(28, 1), Some(expected));
}

#[test]
fn a_sync_of_several_planes_finds_its_frame_behind_them() {
    let sync = Payload::new(true).pointer(0xa).u32(2).u64(0x1000).u64(0x2000).u32(1).u32(77).u32(0);
    let expected =
        VSync { adapter: 0xa, source: 1, frame: 77, address: Some(0x1000), multi_plane: true };
    assert_eq!(sync.decode(273, 0), Some(Dxgkrnl::VSync(expected)));
}

#[test]
fn an_engine_has_a_class_and_a_name() {
    let named = Payload::new(true).pointer(0xa).u32(1).u32(6).u32(0x6f_0043).u32(0);
    let expected =
        Dxgkrnl::Node { adapter: 0xa, node: 1, engine: Engine::Copy, name: "Co".to_owned() };
    assert_eq!(named.decode(250, 0), Some(expected));
}

proptest! {
    #[test]
    fn any_bytes_decode_to_something_or_nothing(
        id in 0_u16..600,
        version in 0_u16..5,
        payload in proptest::collection::vec(any::<u8>(), 0..200),
        is_64_bit: bool,
    ) {
        if let Some(Dxgkrnl::QueuePacketStart(packet)) = decode(id, version, &payload, is_64_bit) {
            prop_assert!(packet.fences.len() <= MAX_FENCES);
        }
    }

    #[test]
    fn a_payload_cut_short_never_says_something_else(
        id in proptest::sample::select(vec![
            17, 23, 25, 28, 31, 116, 166, 168, 175, 177, 180, 184, 259, 266, 273, 423,
        ]),
        payload in proptest::collection::vec(any::<u8>(), 0..100),
        cut in 0_usize..100,
    ) {
        let (whole, part) = (
            decode(id, 1, &payload, true),
            decode(id, 1, &payload[..cut.min(payload.len())], true),
        );
        prop_assert!(part.is_none() || part == whole);
    }
}
