//! Files whose every record is known, of shapes that the real ones do not have.

use syscollect_etl::file::{Clock, FileError, HeaderKind, Statistics, Trace};
use syscollect_etl::{Class, Guid, Record, Task};
use syscollect_tests::etl::{FakeTrace, classic, event, event_with, perf_info, system};

const START: u64 = FakeTrace::START;

fn open(bytes: Vec<u8>) -> Trace {
    Trace::from_bytes(vec![bytes]).expect("it opens")
}

fn sample(time: u64) -> Vec<u8> {
    perf_info(START + time, 0x0f, 46, 2, &[0xaa; 16])
}

/// CPU and time of all records but the header, merged.
fn times(trace: &Trace) -> Vec<(u16, u64)> {
    let mut times = vec![];
    let mut merged = trace.merged();
    while let Some((_, record)) = merged.next() {
        times.push((record.cpu, record.timestamp - START));
    }
    assert_eq!(times.remove(0), (0, 0), "the header comes first");
    times
}

/// The one record of a trace beside its header.
fn only<T>(record: &[u8], look: impl Fn(&Record<'_>) -> T) -> (T, Statistics) {
    let mut trace = FakeTrace::new(1);
    trace.record(0, record);
    let mut seen = None;
    let statistics = open(trace.finish()).scan(|_, record| {
        if record.class != (Class::Kernel { group: 0, opcode: 0 }) {
            seen = Some(look(record));
        }
    });
    assert_eq!(statistics.records, 2);
    (seen.expect("a record"), statistics)
}

#[test]
fn every_header_says_its_time_its_thread_and_what_it_is() {
    let class = *b"0123456789abcdef";
    let task = Some(Task { pid: 7, tid: 9 });
    let records = [
        (
            perf_info(START + 1, 5, 36, 4, b"payload"),
            Class::Kernel { group: 5, opcode: 36 },
            None,
            4,
        ),
        (
            system(START + 1, (7, 9), (3, 1), 4, b"payload"),
            Class::Kernel { group: 3, opcode: 1 },
            task,
            4,
        ),
        (
            classic(START + 1, (7, 9), class, (36, 2), b"payload"),
            Class::Classic { class: Guid(class), opcode: 36 },
            task,
            2,
        ),
    ];
    for (bytes, class, task, version) in records {
        let (seen, _) = only(&bytes, |record| {
            assert_eq!((record.timestamp, record.payload), (START + 1, &b"payload"[..]));
            (record.class, record.task, record.version, record.is_64_bit)
        });
        assert_eq!(seen, (class, task, version, true));
    }
}

#[test]
fn a_classic_event_of_the_kernels_own_class_is_the_kernels() {
    let thread = Guid::from_u128(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c);
    let kernel = Class::Kernel { group: 5, opcode: 3 };
    let (seen, statistics) =
        only(&classic(START, (7, 9), thread.0, (3, 3), &[]), |record| record.class);
    assert_eq!((seen, statistics.records_with(HeaderKind::Full64)), (kernel, 1));
    let mut new_clothes = event(START, (7, 9), thread.0, (0, 3), &[]);
    new_clothes[5] |= 1;
    assert_eq!(only(&new_clothes, |record| record.class).0, kernel);
}

#[test]
fn a_compact_header_has_no_times_before_the_payload() {
    let mut record = system(START + 3, (7, 9), (5, 1), 3, b"payload");
    record.drain(24..32);
    (record[2], record[4]) = (4, 24 + 7);
    let (seen, statistics) =
        only(&record, |record| (record.task, record.payload.to_vec(), record.timestamp - START));
    assert_eq!(seen, (Some(Task { pid: 7, tid: 9 }), b"payload".to_vec(), 3));
    assert_eq!(statistics.records_with(HeaderKind::Compact64), 1);
}

#[test]
fn a_32_bit_record_in_a_64_bit_file_is_one() {
    let mut record = sample(1);
    record[2] = 16;
    assert!(!only(&record, |record| record.is_64_bit).0);
}

#[test]
fn counters_between_header_and_payload_are_stepped_over() {
    let counters = [&[1; 24][..], b"payload"].concat();
    let record = perf_info(START, 5, 36, 4 | 0x0200 | 0x8000, &counters);
    assert_eq!(
        only(&record, |record| (record.version, record.payload.to_vec())).0,
        (4, b"payload".to_vec())
    );
}

#[test]
fn extended_items_lie_between_header_and_payload() {
    let plain = event(START, (7, 9), [1; 16], (175, 2), b"payload");
    let provider = Class::Provider {
        provider: Guid([1; 16]),
        id: 175,
        opcode: 2,
        level: 4,
        task: 0,
        keyword: 0,
    };
    assert_eq!(
        only(&plain, |record| (record.class, record.payload.to_vec())).0,
        (provider, b"payload".to_vec())
    );
    let with = event_with(plain, &[(11, b"schema!!!"), (6, &[3; 24])]);
    let ((payload, items), _) = only(&with, |record| {
        let items = record.extended.map(|item| (item.kind, item.data.to_vec())).collect::<Vec<_>>();
        (record.payload.to_vec(), items)
    });
    assert_eq!(payload, b"payload");
    assert_eq!(items, [(11, b"schema!!!".to_vec()), (6, vec![3; 24])]);
}

#[test]
fn wpp_messages_are_counted_and_their_time_and_thread_known() {
    // Sequence, GUID, performance time and thread follow the header.
    let mut message = vec![0, 0, 0, 0x90, 1, 0, 0x33, 0];
    message.extend([0; 4 + 16]);
    message.extend((START + 5).to_le_bytes());
    message.extend([9, 0, 0, 0, 7, 0, 0, 0]);
    message.extend(b"arguments");
    message[0] = message.len() as u8;
    let (seen, statistics) = only(&message, |record| {
        (record.class, record.task, record.timestamp, record.payload.to_vec())
    });
    assert_eq!(seen, (Class::Wpp, Some(Task { pid: 7, tid: 9 }), START + 5, b"arguments".to_vec()));
    assert_eq!(statistics.records_with(HeaderKind::Wpp), 1);
}

#[test]
fn a_message_without_time_comes_with_the_record_before_it() {
    let mut trace = FakeTrace::new(1);
    trace.record(0, &sample(4));
    trace.record(0, &[8, 0, 0, 0x90, 1, 0, 0, 0]);
    trace.record(0, &sample(6));
    assert_eq!(times(&open(trace.finish())), [(0, 4), (0, 4), (0, 6)]);
}

#[test]
fn filler_and_records_of_unknown_kinds_are_passed_over() {
    let mut trace = FakeTrace::new(1);
    trace.record(0, &[0xff; 16]);
    let mut instance = classic(START, (7, 9), [1; 16], (1, 0), &[0; 24]);
    instance[2] = 21;
    trace.record(0, &instance);
    trace.record(0, &sample(1));
    let statistics = open(trace.finish()).scan(|_, _| ());
    assert_eq!((statistics.records, statistics.other_records, statistics.filler_bytes), (2, 1, 16));
    assert!(statistics.is_complete());
}

#[test]
fn cpus_are_merged_by_time_and_a_tie_goes_to_the_lower() {
    let mut trace = FakeTrace::new(2);
    for (cpu, time) in [(1, 2), (1, 4), (0, 3), (0, 4), (0, 5)] {
        trace.record(cpu, &sample(time));
    }
    assert_eq!(times(&open(trace.finish())), [(1, 2), (0, 3), (0, 4), (1, 4), (0, 5)]);
}

#[test]
fn a_circular_file_begins_with_its_oldest_buffer() {
    let mut trace = FakeTrace::new(1);
    for time in 1..=4 {
        trace.record(0, &sample(time));
        trace.flush(0);
    }
    trace.buffers().rotate_left(3);
    trace.header[0x20] |= 2;
    let trace = open(trace.finish());
    assert!(trace.headers()[0].is_circular());
    assert_eq!(times(&trace), [(0, 1), (0, 2), (0, 3), (0, 4)]);
}

#[test]
fn cpus_beyond_the_number_the_header_states_are_cpus() {
    let mut trace = FakeTrace::new(1);
    trace.record(700, &sample(1));
    trace.record(2047, &sample(2));
    assert_eq!(times(&open(trace.finish())), [(700, 1), (2047, 2)]);
}

#[test]
fn a_compressed_file_reads_as_the_same_uncompressed() {
    let times: [Vec<(u16, u64)>; 2] = [false, true].map(|is_compressed| {
        let mut trace = FakeTrace::new(2);
        trace.is_compressed = is_compressed;
        (0..500).for_each(|time| trace.record((time % 2) as u16, &sample(time)));
        times(&open(trace.finish()))
    });
    assert_eq!(times[0].len(), 500);
    assert_eq!(times[0], times[1]);
}

#[test]
fn a_compression_that_is_not_supported_is_said_and_the_rest_is_read() {
    let mut trace = FakeTrace::new(1);
    trace.record(0, &sample(1));
    trace.flush(0);
    trace.is_compressed = true;
    trace.record(0, &sample(2));
    let mut bytes = trace.finish();
    bytes[0x2c] = 4; // Huffman
    let trace = open(bytes);
    assert_eq!(times(&trace), [(0, 1)]);
    let statistics = trace.scan(|_, _| ());
    assert_eq!((statistics.unsupported_buffers, statistics.damaged_buffers), (1, 0));
    assert!(!statistics.is_complete());
}

#[test]
fn buffers_that_follow_a_loss_are_counted() {
    let mut trace = FakeTrace::new(1);
    for flags in [2, 2, 4] {
        trace.flags = flags;
        trace.record(0, &sample(1));
        trace.flush(0);
    }
    let statistics = open(trace.finish()).scan(|_, _| ());
    assert_eq!(
        (statistics.buffers_after_lost_events, statistics.buffers_after_lost_buffers),
        (2, 1)
    );
}

#[test]
fn a_file_that_was_cut_off_gives_what_is_there() {
    let mut trace = FakeTrace::new(1);
    (0..4).for_each(|time| trace.record(0, &sample(time)));
    let bytes = trace.finish();
    let cut = open(bytes[..4096 + 0x48 + 32 * 2 + 20].to_vec());
    assert_eq!(times(&cut), [(0, 0), (0, 1)]);
    let statistics = cut.scan(|_, _| ());
    assert_eq!((statistics.damaged_buffers, statistics.damaged_bytes), (1, 2 * 32));
}

#[test]
fn damage_ends_a_buffer_and_not_the_file() {
    let mut trace = FakeTrace::new(1);
    for time in 0..6 {
        trace.record(0, &sample(time));
        if time % 2 == 1 {
            trace.flush(0);
        }
    }
    let mut bytes = trace.finish();
    bytes[4096 + 0x48 + 32 + 4] = 1; // A size below that of any header.
    bytes[2 * 4096 + 2] = 1; // A buffer as long as seventeen.
    let trace = open(bytes);
    assert_eq!(times(&trace), [(0, 0), (0, 4), (0, 5)]);
    let statistics = trace.scan(|_, _| ());
    assert_eq!(
        (statistics.damaged_buffers, statistics.damaged_bytes, statistics.stray_bytes),
        (1, 32, 4096)
    );
}

#[test]
fn space_that_was_set_aside_and_never_written_is_no_loss() {
    let mut trace = FakeTrace::new(1);
    trace.record(0, &sample(1));
    let mut bytes = trace.finish();
    bytes.resize(bytes.len() + 3 * 4096, 0);
    let statistics = open(bytes).scan(|_, _| ());
    assert_eq!((statistics.records, statistics.unused_bytes), (2, 3 * 4096));
    assert!(statistics.is_complete());
}

#[test]
fn sizes_beyond_all_measure_are_damage() {
    for (at, size) in [(0, u32::MAX), (0, 0), (0x30, u32::MAX), (0x30, 4097), (0x30, 0)] {
        let mut trace = FakeTrace::new(1);
        trace.record(0, &sample(1));
        let mut bytes = trace.finish();
        bytes[4096 + at..4096 + at + 4].copy_from_slice(&size.to_le_bytes());
        let statistics = open(bytes).scan(|_, _| ());
        assert_eq!((statistics.records, statistics.stray_bytes), (1, 4096), "{size} at {at:#x}");
    }
}

#[test]
fn what_expands_without_end_is_cut_off_where_its_buffer_ends() {
    let mut trace = FakeTrace::new(1);
    trace.is_compressed = true;
    trace.record(0, &sample(1));
    let mut bytes = trace.finish();
    // A literal, then a match of four billion bytes.
    bytes.truncate(4096 + 0x48);
    bytes.extend([0xff, 0xff, 0xff, 0x7f, 0x01, 7, 0, 0x0f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    let statistics = open(bytes).scan(|_, _| ());
    assert_eq!(
        (statistics.records, statistics.damaged_buffers, statistics.damaged_bytes),
        (1, 1, 32)
    );
}

#[test]
fn raw_time_stamps_become_the_time_of_day() {
    let trace = open(FakeTrace::new(1).finish());
    let header = &trace.headers()[0];
    assert_eq!((header.timestamp, header.start_time), (START, FakeTrace::START_TIME));
    assert_eq!(header.wall_time(START + 10_000_000), FakeTrace::START_TIME + 10_000_000);
    assert_eq!(header.wall_time(START - 1), FakeTrace::START_TIME - 1);
    assert_eq!((header.logger_name.as_str(), header.file_name.as_str()), ("fake", "fake.etl"));
    let mut system_time = header.clone();
    system_time.clock = Clock::SystemTime;
    assert_eq!(system_time.ticks_per_second(), Some(10_000_000));
    let mut cycles = header.clone();
    cycles.clock = Clock::CpuCycle;
    assert_eq!(cycles.wall_time(START + 3_000_000_000), FakeTrace::START_TIME + 10_000_000);
    // Whatever the numbers are, the sum stays within time.
    assert_eq!(header.wall_time(u64::MAX).max(header.wall_time(0)), header.wall_time(u64::MAX));
}

#[test]
fn files_that_count_time_differently_are_not_read_together() {
    let mut other = FakeTrace::new(1);
    other.header[0x110] = 2;
    let error = Trace::from_bytes(vec![
        FakeTrace::new(1).finish(),
        FakeTrace::new(1).finish(),
        other.finish(),
    ]);
    assert!(matches!(error, Err(FileError::OtherClock { .. })));
    // The same counter after the machine was started anew.
    let mut later = FakeTrace::new(1);
    later.header[0x108..0x110]
        .copy_from_slice(&(FakeTrace::START_TIME + 36_000_000_000).to_le_bytes());
    let error = Trace::from_bytes(vec![FakeTrace::new(1).finish(), later.finish()]);
    assert!(matches!(error, Err(FileError::OtherClock { .. })));
}

#[test]
fn what_is_no_trace_is_an_error_that_says_so() {
    for bytes in [
        vec![],
        b"not a trace at all, but a line of text".to_vec(),
        vec![0xff; 4096],
        vec![0; 4096],
    ] {
        let error = Trace::from_bytes(vec![bytes]).expect_err("no trace").to_string();
        assert!(error.contains("not an event trace log"), "{error}");
    }
    let mut first = FakeTrace::new(1).finish();
    first[0x48 + 6] = 1; // Not the logfile header's opcode.
    let error = Trace::from_bytes(vec![first]).expect_err("no header").to_string();
    assert!(error.contains("not a logfile header"), "{error}");
    assert!(matches!(Trace::from_bytes(vec![]), Err(FileError::NoFile)));
    let missing = Trace::open(&["no-such-file.etl".into()]).expect_err("no file").to_string();
    assert!(missing.contains("no-such-file.etl"), "{missing}");
}
