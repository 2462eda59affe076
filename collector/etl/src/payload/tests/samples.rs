use super::{BITNESSES, Bytes, address, is_malformed_when_shorter};
use crate::file::LOST_EVENT;
use crate::payload::{
    Dpc, DpcKind, Frames, Isr, ItemStack, LostKind, Payload, Sample, SampleInterval, SampleMoment,
    Stack, StackKeyDefinition, StackKeyReference, decode, item_stacks,
};
use crate::{ExtendedItems, Task};

const PERF_INFO: u8 = 0x0f;
const STACK: u8 = 0x18;
const ADDRESS: u64 = 0xffff_f800_1234_5678;

#[test]
fn a_sample_says_where_a_cpu_was_and_in_what() {
    for is_64_bit in BITNESSES {
        for (flags, in_dpc, in_isr) in [(0x40, false, false), (1, true, false), (2, false, true)] {
            let bytes = Bytes::new(is_64_bit).pointer(ADDRESS).u32(44).u16(1).u16(flags);
            let sample =
                Sample { address: address(ADDRESS, is_64_bit), tid: 44, count: 1, in_dpc, in_isr };
            assert_eq!(decode(&bytes.kernel(PERF_INFO, 46, 2)), Payload::Sample(sample));
            is_malformed_when_shorter(&bytes.kernel(PERF_INFO, 46, 2), bytes.bytes.len());
        }
    }
}

#[test]
fn the_interval_of_samples_is_told_when_the_trace_begins_ends_and_when_it_changes() {
    let bytes = Bytes::new(true).u32(0).u32(1221).u32(10_000).utf16("Timer");
    for (opcode, moment) in
        [(72, SampleMoment::Set), (73, SampleMoment::Start), (74, SampleMoment::End)]
    {
        let interval = SampleInterval { moment, source: 0, interval: 1221, old_interval: 10_000 };
        assert_eq!(decode(&bytes.kernel(PERF_INFO, opcode, 3)), Payload::SampleInterval(interval));
        is_malformed_when_shorter(&bytes.kernel(PERF_INFO, opcode, 3), 12);
    }
}

#[test]
fn deferred_calls_and_interrupts_say_when_they_began() {
    for is_64_bit in BITNESSES {
        let routine = address(ADDRESS, is_64_bit);
        let bytes = Bytes::new(is_64_bit).u64(900).pointer(ADDRESS);
        for (opcode, kind) in [(66, DpcKind::Threaded), (68, DpcKind::Normal), (69, DpcKind::Timer)]
        {
            let record = bytes.kernel(PERF_INFO, opcode, 2);
            assert_eq!(decode(&record), Payload::Dpc(Dpc { kind, start: 900, routine }));
            is_malformed_when_shorter(&record, bytes.bytes.len());
        }
        let second = bytes.clone().raw(&[1, 0xd1, 0, 0]);
        let isr = Isr { start: 900, routine, was_claimed: true, vector: 0xd1 };
        assert_eq!(decode(&second.kernel(PERF_INFO, 67, 2)), Payload::Isr(isr));
        let first = bytes.u32(1);
        assert_eq!(decode(&first.kernel(PERF_INFO, 67, 1)), Payload::Isr(Isr { vector: 0, ..isr }));
    }
}

#[test]
fn a_stack_belongs_to_the_event_of_its_time_and_thread() {
    for is_64_bit in BITNESSES {
        let head = Bytes::new(is_64_bit).u64(123).u32(40).u32(44);
        let needed = head.bytes.len();
        let bytes = head.pointer(ADDRESS).pointer(0x10).pointer(0x20).raw(&[9, 9, 9]);
        let Payload::Stack(stack) = decode(&bytes.kernel(STACK, 32, 2)) else { panic!("no stack") };
        assert_eq!((stack.event_timestamp, stack.task), (123, Task { pid: 40, tid: 44 }));
        let expected = [address(ADDRESS, is_64_bit), 0x10, 0x20];
        assert_eq!(
            (stack.frames.iter().collect::<Vec<_>>(), stack.frames.iter().len()),
            (expected.to_vec(), 3)
        );
        assert!(!stack.frames.is_empty());
        is_malformed_when_shorter(&bytes.kernel(STACK, 32, 2), needed);
    }
}

#[test]
fn a_stack_without_frames_is_one() {
    let bytes = Bytes::new(true).u64(123).u32(40).u32(44);
    let stack = Stack {
        event_timestamp: 123,
        task: Task { pid: 40, tid: 44 },
        frames: Frames::new(&[], true),
    };
    assert_eq!(decode(&bytes.kernel(STACK, 32, 2)), Payload::Stack(stack));
    assert!(stack.frames.is_empty());
}

#[test]
fn keys_of_stacks_are_referred_to_and_told_later() {
    for is_64_bit in BITNESSES {
        let key = address(ADDRESS, is_64_bit);
        let reference = Bytes::new(is_64_bit).u64(123).u32(40).u32(44).pointer(ADDRESS);
        for (opcode, is_kernel) in [(37, true), (38, false)] {
            let task = Task { pid: 40, tid: 44 };
            let expected = StackKeyReference { is_kernel, event_timestamp: 123, task, key };
            assert_eq!(
                decode(&reference.kernel(STACK, opcode, 2)),
                Payload::StackKeyReference(expected)
            );
            is_malformed_when_shorter(&reference.kernel(STACK, opcode, 2), reference.bytes.len());
        }
        let definition = Bytes::new(is_64_bit).pointer(ADDRESS).pointer(0x10).pointer(0x20);
        for (opcode, is_deleted) in [(35, true), (36, false)] {
            let frames = Frames::new(&definition.bytes[if is_64_bit { 8 } else { 4 }..], is_64_bit);
            let expected = StackKeyDefinition { key, frames, is_deleted };
            assert_eq!(
                decode(&definition.kernel(STACK, opcode, 2)),
                Payload::StackKeyDefinition(expected)
            );
            assert_eq!(frames.iter().collect::<Vec<_>>(), [0x10, 0x20]);
        }
    }
}

/// An extended item; all but the last say that another follows.
fn item(kind: u16, data: &Bytes, more: bool) -> Vec<u8> {
    let head = Bytes::new(true).u16(0).u16(kind).u16(more.into()).u16(data.bytes.len() as u16);
    let mut bytes = head.raw(&data.bytes).bytes;
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

#[test]
fn the_stacks_of_a_providers_event_lie_among_its_items() {
    let wide = Bytes::new(true).u64(1).pointer(ADDRESS).pointer(2);
    let narrow = Bytes::new(false).u64(2).pointer(3).pointer(4).pointer(5);
    let wide_key = Bytes::new(true).u64(3).pointer(ADDRESS);
    let narrow_key = Bytes::new(false).u64(4).pointer(7).u32(0);
    let mut items = item(11, &wide, true);
    items.extend(item(6, &wide, true));
    items.extend(item(5, &narrow, true));
    items.extend(item(18, &wide_key, true));
    items.extend(item(17, &narrow_key, true));
    items.extend(item(6, &Bytes::new(true).u32(1), false));
    let stacks: Vec<_> = item_stacks(ExtendedItems(&items)).collect();
    let [
        ItemStack::Frames { match_id: 1, frames: first },
        ItemStack::Frames { match_id: 2, frames: second },
        ItemStack::Key { match_id: 3, key: ADDRESS },
        ItemStack::Key { match_id: 4, key: 7 },
    ] = stacks[..]
    else {
        panic!("{stacks:?}")
    };
    assert_eq!(first.iter().collect::<Vec<_>>(), [ADDRESS, 2]);
    assert_eq!(second.iter().collect::<Vec<_>>(), [3, 4, 5]);
}

#[test]
fn what_was_lost_is_told_by_kind() {
    let nothing = Bytes::new(true);
    let lost = [32, 33, 34].map(|opcode| decode(&nothing.classic(LOST_EVENT, opcode)));
    let expected = [LostKind::Event, LostKind::Buffer, LostKind::File].map(Payload::Lost);
    assert_eq!(lost, expected);
    assert_eq!(decode(&nothing.classic(LOST_EVENT, 35)), Payload::Unknown);
}
