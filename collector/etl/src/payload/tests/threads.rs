use super::{BITNESSES, Bytes, address, is_malformed_when_shorter};
use crate::payload::{
    ContextSwitch, Lifecycle, Payload, ReadyThread, ThreadState, Utf16, WaitReason, decode,
};

const THREAD: u8 = 5;

#[test]
fn a_switch_recorded_on_a_32_bit_machine_says_who_waits_and_why() {
    // AAAAACwRAAAACQAAFwABABIAAAAmSAAA
    let payload = [0, 0, 0, 0, 44, 17, 0, 0, 0, 9, 0, 0, 23, 0, 1, 0, 18, 0, 0, 0, 38, 72, 0, 0];
    let bytes = Bytes::new(false).raw(&payload);
    let switch = ContextSwitch {
        new_tid: 0,
        old_tid: 4396,
        new_priority: 0,
        old_priority: 9,
        previous_c_state: 0,
        old_wait_reason: WaitReason(23),
        old_wait_mode: 0,
        old_state: ThreadState::READY,
        old_ideal_cpu: 0,
        new_wait_time: 18,
    };
    assert_eq!(decode(&bytes.kernel(THREAD, 36, 2)), Payload::ContextSwitch(switch));
}

#[test]
fn a_switch_recorded_on_a_64_bit_machine_says_how_deep_the_cpu_slept() {
    // zAgAAAAAAAAIAAEAAAACBAEAAACHbYg0
    let payload =
        [0xcc, 8, 0, 0, 0, 0, 0, 0, 8, 0, 1, 0, 0, 0, 2, 4, 1, 0, 0, 0, 0x87, 0x6d, 0x88, 0x34];
    let bytes = Bytes::new(true).raw(&payload);
    let switch = ContextSwitch {
        new_tid: 2252,
        old_tid: 0,
        new_priority: 8,
        old_priority: 0,
        previous_c_state: 1,
        old_wait_reason: WaitReason(0),
        old_wait_mode: 0,
        old_state: ThreadState::RUNNING,
        old_ideal_cpu: 4,
        new_wait_time: 1,
    };
    for version in 2..=4 {
        assert_eq!(decode(&bytes.kernel(THREAD, 36, version)), Payload::ContextSwitch(switch));
    }
}

#[test]
fn the_oldest_switch_has_a_quantum_where_later_ones_have_the_idle_state() {
    let bytes = Bytes::new(false).u32(8).u32(12).raw(&[1, 2, 6, 6, 0, 0, 5, 0]).u32(3);
    let Payload::ContextSwitch(switch) = decode(&bytes.kernel(THREAD, 36, 1)) else {
        panic!("no switch")
    };
    assert_eq!((switch.new_tid, switch.previous_c_state, switch.new_wait_time), (8, 0, 3));
    is_malformed_when_shorter(&bytes.kernel(THREAD, 36, 1), 20);
}

#[test]
fn a_thread_made_ready_says_how_its_priority_was_raised() {
    let bytes = Bytes::new(true).u32(0x1234).raw(&[1, 0xfe, 5, 0]);
    let ready = ReadyThread { tid: 0x1234, adjust_reason: 1, adjust_increment: -2, flags: 5 };
    assert_eq!(decode(&bytes.kernel(THREAD, 50, 2)), Payload::ReadyThread(ready));
    is_malformed_when_shorter(&bytes.kernel(THREAD, 50, 2), 7);
}

/// Ids, four pointers to stacks, two addresses.
fn thread(is_64_bit: bool) -> Bytes {
    let bytes = Bytes::new(is_64_bit).u32(40).u32(44);
    let stacks = (1..=4).fold(bytes, |bytes, stack| bytes.pointer(stack << 12));
    stacks.pointer(0xff).pointer(START)
}

const START: u64 = 0x7ff8_8765_4321;

#[test]
fn every_version_of_a_thread_names_process_and_thread() {
    for is_64_bit in BITNESSES {
        let second = thread(is_64_bit).pointer(0x7ff0_0000).u32(9);
        let third = second.clone().raw(&[8, 5, 2, 0]).utf16("worker \u{e9}");
        let first = thread(is_64_bit).u8(1);
        for (version, bytes) in [(1, &first), (2, &second), (3, &second), (3, &third), (4, &third)]
        {
            let record = bytes.kernel(THREAD, 1, version);
            let Payload::Thread(thread) = decode(&record) else { panic!("version {version}") };
            assert_eq!((thread.pid, thread.tid, thread.lifecycle), (40, 44, Lifecycle::Start));
            assert_eq!(thread.start_address, address(START, is_64_bit));
            let name = if std::ptr::eq(bytes, &third) { "worker \u{e9}" } else { "" };
            assert_eq!(thread.name.to_string_lossy(), name);
        }
        is_malformed_when_shorter(&second.kernel(THREAD, 2, 3), second.bytes.len());
    }
}

#[test]
fn the_oldest_thread_is_named_before_its_process_and_says_no_more() {
    for (opcode, lifecycle) in [
        (1, Lifecycle::Start),
        (2, Lifecycle::End),
        (3, Lifecycle::DataCollectionStart),
        (4, Lifecycle::DataCollectionEnd),
    ] {
        let bytes = Bytes::new(false).u32(44).u32(40);
        let Payload::Thread(thread) = decode(&bytes.kernel(THREAD, opcode, 0)) else {
            panic!("no thread")
        };
        assert_eq!(
            (thread.pid, thread.tid, thread.start_address, thread.lifecycle),
            (40, 44, 0, lifecycle)
        );
    }
}

#[test]
fn the_end_of_a_thread_of_version_1_is_two_words() {
    let bytes = Bytes::new(true).u32(40).u32(44);
    let Payload::Thread(thread) = decode(&bytes.kernel(THREAD, 2, 1)) else { panic!("no thread") };
    assert_eq!((thread.pid, thread.tid), (40, 44));
}

#[test]
fn a_thread_can_be_named_while_it_runs() {
    let bytes = Bytes::new(true).u32(40).u32(44).utf16("render");
    let Payload::ThreadName(name) = decode(&bytes.kernel(THREAD, 72, 2)) else { panic!("no name") };
    assert_eq!((name.pid, name.tid, name.name.to_string_lossy().as_str()), (40, 44, "render"));
    is_malformed_when_shorter(&bytes.kernel(THREAD, 72, 2), 8);
}

#[test]
fn a_name_without_its_final_zero_ends_with_the_payload() {
    let bytes = Bytes::new(true).u32(40).u32(44).raw(b"a\0b\0c");
    let Payload::ThreadName(name) = decode(&bytes.kernel(THREAD, 72, 2)) else { panic!("no name") };
    assert_eq!(name.name, Utf16(b"a\0b\0"));
}
