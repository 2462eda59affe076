//! What comes out, and in which order.
#![allow(missing_docs, reason = "a test")]

mod scenario;

use scenario::{A, B, C, Scenario, chunk, lines};
use syscollect_trace_buffer::{BatchLimit, Commit, SequenceId};

#[test]
fn an_empty_buffer_has_nothing() {
    let mut scenario = Scenario::ring(4096);
    assert_eq!(scenario.read(), "");
    assert_eq!(scenario.read(), "");
}

#[test]
fn packets_come_out_once_and_are_gone() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with('a', 30).with('b', 40)]);
    assert_eq!(scenario.read(), "a*30, b*40");
    assert_eq!(scenario.read(), "");
    assert_eq!(scenario.0.chunks(), 0);
    scenario.store([chunk(A, 1).with('c', 5)]);
    assert_eq!(scenario.read(), "c*5");
    assert_eq!(scenario.lost(), "nothing");
}

#[test]
fn packets_of_different_writers_come_in_the_order_of_the_buffer() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([
        chunk(A, 0).with('a', 10),
        chunk(B, 7).with('b', 10).with('c', 1),
        chunk(A, 1).with('d', 10),
        chunk(C, 3).with('e', 10),
    ]);
    assert_eq!(scenario.read(), "a*10, b*10, c, d*10, e*10");
}

#[test]
fn each_writer_of_each_producer_is_a_sequence() {
    let mut scenario = Scenario::ring(1 << 20);
    let ids = [(0, 0), (0, 65_535), (65_535, 0), (65_535, 65_535), (1, 0), (0, 1)];
    for (producer, writer) in ids {
        scenario.store([chunk(SequenceId::new(producer, writer), 5).with('x', 1)]);
    }
    assert_eq!(scenario.0.sequences().count(), ids.len());
    let mut batch = scenario.0.read(BatchLimit::NONE);
    let mut read = Vec::new();
    while let Some(packet) = batch.next_packet() {
        read.push((packet.sequence.producer, packet.sequence.writer));
    }
    assert_eq!(read, ids);
}

#[test]
fn empty_packets_are_left_out() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([
        chunk(A, 0).with('a', 42).with('-', 0).with('b', 42).with('-', 0),
        chunk(A, 1).with('-', 0).on_next(),
        chunk(A, 2).with('-', 0).continued(),
    ]);
    assert_eq!(scenario.read(), "a*42, b*42");
    assert_eq!(scenario.lost(), "nothing");
}

#[test]
fn a_batch_is_bounded_by_packets_and_by_bytes_and_the_next_one_goes_on() {
    let mut scenario = Scenario::ring(4096);
    scenario
        .store([chunk(A, 0).with('a', 10).with('b', 10).with('c', 10), chunk(B, 0).with('d', 9)]);
    let mut batch = scenario.0.read(BatchLimit::packets(2));
    assert!(batch.next_packet().is_some() && batch.next_packet().is_some());
    assert!(batch.is_limited() && batch.next_packet().is_none());
    assert_eq!(lines(scenario.0.read(BatchLimit::bytes(1))), "c*10");
    assert_eq!(lines(scenario.0.read(BatchLimit { packets: 0, bytes: 9 })), "");
    assert_eq!(scenario.read(), "d*9");
}

#[test]
fn a_batch_that_is_dropped_loses_nothing() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with('a', 10).with('b', 10), chunk(A, 1).with('c', 10)]);
    assert_eq!(scenario.read_packets(1), "a*10");
    scenario.store([chunk(A, 2).with('d', 10)]);
    assert_eq!(scenario.read(), "b*10, c*10, d*10");
    assert_eq!(scenario.lost(), "nothing");
}

#[test]
fn a_packet_goes_on_in_the_next_chunk() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([
        chunk(A, 0).with('a', 10).with('b', 20).on_next(),
        chunk(A, 1).with('c', 30).with('d', 40).on_next().continued(),
        chunk(A, 2).with('e', 50).continued(),
    ]);
    assert_eq!(scenario.read(), "a*10, b*20+c*30, d*40+e*50");
}

#[test]
fn a_packet_may_have_any_number_of_chunks() {
    let mut scenario = Scenario::ring(1 << 20);
    scenario.store([chunk(A, 0).with('a', 300).on_next()]);
    for id in 1..2000 {
        scenario.0.commit(&chunk(A, id).with('b', 300).continued().on_next().as_chunk());
    }
    assert_eq!(scenario.read(), "", "its end is not there");
    scenario.store([chunk(A, 2000).with('c', 300).continued().with('d', 1)]);
    let mut batch = scenario.0.read(BatchLimit::NONE);
    let packet = batch.next_packet().expect("it is whole");
    assert_eq!((packet.fragments().count(), packet.len()), (2001, 600_300));
    assert_eq!(packet.to_vec().len(), 600_300);
    assert!(packet.as_slice().is_none());
    assert_eq!(lines(batch), "d");
    assert_eq!(scenario.0.inconsistency(), None);
    assert_eq!(scenario.0.chunks(), 0);
}

#[test]
fn a_packet_goes_on_across_the_end_of_the_block_and_across_the_end_of_ids() {
    let mut scenario = Scenario::ring(1024);
    scenario.store([chunk(B, 0).filling('x', 700)]);
    assert_eq!(scenario.read(), "x*682");
    scenario.store([
        chunk(A, u32::MAX - 1).with('a', 100).on_next(),
        chunk(A, u32::MAX).with('b', 120).continued().on_next(),
        chunk(A, 0).with('c', 100).continued().on_next(),
        chunk(A, 1).with('d', 10).continued().with('e', 1),
    ]);
    assert_eq!(scenario.0.statistics().wraps, 1);
    assert_eq!(scenario.read(), "a*100+b*120+c*100+d*10, e");
    assert_eq!(scenario.lost(), "nothing");
}

#[test]
fn chunks_that_come_out_of_order_are_read_in_order() {
    for order in [[0, 1, 2, 3], [0, 3, 2, 1], [0, 2, 1, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
        let mut scenario = Scenario::ring(4096);
        let first = u32::MAX - 1;
        for index in order {
            let letter = char::from(b'a' + index as u8);
            scenario.store([chunk(A, first.wrapping_add(index)).with(letter, 10)]);
        }
        scenario.store([chunk(B, 0).with('x', 1)]);
        let read = scenario.read();
        assert_eq!(read.replace("x, ", "").replace(", x", ""), "a*10, b*10, c*10, d*10");
        assert_eq!(scenario.lost(), "nothing");
    }
}

#[test]
fn packets_in_chunks_that_come_out_of_order_are_put_together() {
    let chunks = [
        chunk(A, 0).with('a', 10).with('b', 20).on_next(),
        chunk(A, 1).with('c', 30).continued().on_next(),
        chunk(A, 2).with('d', 40).continued().on_next(),
        chunk(A, 3).with('e', 50).continued().with('f', 1),
    ];
    for order in [[0, 1, 2, 3], [0, 3, 1, 2], [3, 0, 2, 1], [2, 3, 1, 0]] {
        let mut scenario = Scenario::ring(4096);
        for index in order {
            assert_eq!(scenario.commit(&chunks[index]), Commit::Stored);
        }
        assert_eq!(scenario.read(), "a*10, b*20+c*30+d*40+e*50, f");
        assert_eq!(scenario.lost(), "nothing");
    }
}

#[test]
fn older_chunks_of_a_sequence_come_with_the_first_that_lies_in_the_buffer() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([
        chunk(A, 0).with('a', 1),
        chunk(B, 0).with('p', 1),
        chunk(B, 2).with('r', 1),
        chunk(A, 1).with('b', 1),
        chunk(B, 1).with('q', 1),
    ]);
    assert_eq!(scenario.read(), "a, p, q, r, b");
}

#[test]
fn chunks_with_nothing_in_them_are_in_nobodys_way() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([
        chunk(A, 0),
        chunk(A, 1).with('a', 10).on_next(),
        chunk(A, 2),
        chunk(A, 3).continued().on_next(),
        chunk(A, 4).with('b', 10).continued(),
        chunk(A, 5),
    ]);
    assert_eq!(scenario.read(), "a*10+b*10");
    assert_eq!(scenario.lost(), "nothing");
    assert_eq!(scenario.0.chunks(), 0);
}

#[test]
fn sizes_may_be_written_longer_than_they_need_to_be() {
    let mut scenario = Scenario::ring(4096);
    scenario.store([chunk(A, 0).with_raw(b"\x82\x80\x80\x00xy").with('a', 3)]);
    assert_eq!(scenario.read(), "xy, a*3");
}

#[test]
fn the_longest_chunk_goes_in_and_out() {
    let mut scenario = Scenario::ring(1 << 20);
    let longest = syscollect_trace_buffer::MAX_PAYLOAD - 3;
    scenario.store([chunk(A, 0).with('a', longest), chunk(A, 1).with('b', longest)]);
    assert_eq!(scenario.read(), format!("a*{longest}, b*{longest}"));
}
