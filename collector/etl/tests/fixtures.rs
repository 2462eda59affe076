//! Real files of Windows 7 to 11, to the last record.

use std::collections::HashMap;
use syscollect_etl::file::{Clock, HeaderKind, Trace};
use syscollect_etl::{Class, Record};
use syscollect_tests::etl::{self, FIXTURES, fixture, repeated};

fn open(name: &str) -> Trace {
    Trace::from_bytes(vec![fixture(name)]).expect("a fixture opens")
}

#[syscollect_fixtures::test]
fn every_record_of_every_file_is_given_and_nothing_is_left_over() {
    for (name, total) in FIXTURES {
        let trace = open(name);
        let mut records = 0;
        let statistics = trace.scan(|_, _| records += 1);
        assert_eq!((records, statistics.records), (total, total), "{name}");
        assert_eq!(statistics.records_by_header.iter().sum::<u64>(), total, "{name}");
        assert!(
            statistics.is_complete() && statistics.other_records == 0,
            "{name}: {statistics:?}"
        );
        assert_eq!(u64::from(trace.headers()[0].buffers_written), statistics.buffers, "{name}");
    }
}

#[syscollect_fixtures::test]
fn merging_gives_the_same_records_in_order_of_time_and_of_every_cpu() {
    for (name, total) in FIXTURES {
        let trace = open(name);
        let mut merged = trace.merged();
        let (mut last, mut order) = (0, HashMap::<u16, Vec<RecordOutline>>::new());
        while let Some((_, record)) = merged.next() {
            assert!(record.timestamp >= last, "{name}: time goes back");
            last = record.timestamp;
            order.entry(record.cpu).or_default().push(RecordOutline::of(&record));
        }
        let mut in_file = HashMap::<u16, Vec<RecordOutline>>::new();
        let statistics = trace.scan(|_, record| {
            in_file.entry(record.cpu).or_default().push(RecordOutline::of(record));
        });
        assert!(order == in_file, "{name}: a CPU's records changed their order");
        assert_eq!(merged.statistics(), statistics, "{name}");
        assert_eq!(statistics.records, total, "{name}");
    }
}

/// A record as far as it tells it from its neighbours.
#[derive(PartialEq, Eq)]
struct RecordOutline(u64, Class, usize);

impl RecordOutline {
    fn of(record: &Record<'_>) -> Self {
        Self(record.timestamp, record.class, record.payload.len())
    }
}

/// Records of a kernel event.
fn count(trace: &Trace, kinds: &[(u8, u8)]) -> usize {
    let mut count = 0;
    trace.scan(|_, record| {
        count += usize::from(kinds.iter().any(|(group, opcode)| {
            record.class == Class::Kernel { group: *group, opcode: *opcode }
        }));
    });
    count
}

#[syscollect_fixtures::test]
fn a_compressed_file_has_the_samples_and_stacks_its_page_lists() {
    let trace = open(etl::PERFVIEW);
    let statistics = trace.scan(|_, _| ());
    assert_eq!((statistics.buffers, statistics.compressed_buffers), (360, 359));
    assert!(trace.headers()[0].is_compressed());
    assert_eq!(count(&trace, &[(0x0f, 46)]), 79_528);
    assert_eq!(count(&trace, &[(0x18, 32)]), 252);
    assert_eq!(count(&trace, &[(0x18, 37), (0x18, 38)]), 9_107);
    let mut stacks = 0;
    trace.scan(|_, record| stacks += record.extended.filter(|item| item.kind == 6).count());
    assert_eq!(stacks, 655);
}

#[syscollect_fixtures::test]
fn a_32_bit_logger_on_a_machine_with_another_clock_rate_is_understood() {
    let trace = open(etl::GPUVIS);
    let header = &trace.headers()[0];
    assert_eq!((header.pointer_size, header.cpus, header.os_build), (4, 8, 17_134));
    assert_eq!((header.clock, header.perf_freq), (Clock::Qpc, 3_119_142));
    assert!(header.qpc_is_tsc());
    // It ended within 10 ms of its last record.
    let mut last = 0;
    let statistics = trace.scan(|_, record| last = last.max(record.timestamp));
    assert!((0..100_000).contains(&(header.end_time - header.wall_time(last))));
    assert_eq!(statistics.records_with(HeaderKind::Event64), 211_033);
}

#[syscollect_fixtures::test]
fn the_events_a_logger_lost_are_in_its_header() {
    let trace = open(etl::SYNTHETIC);
    let header = &trace.headers()[0];
    assert_eq!((header.events_lost, header.buffers_lost), (7, 0));
    assert!(!header.qpc_is_tsc());
    assert_eq!(count(&trace, &[(5, 36)]), 3_847);
    assert_eq!(count(&trace, &[(5, 50)]), 3_191);
    assert_eq!(count(&trace, &[(0x0f, 46)]), 1_924);
    assert_eq!(count(&trace, &[(0x18, 32)]), 3_488);
}

#[syscollect_fixtures::test]
fn a_recording_in_two_files_is_the_recording() {
    let whole = fixture(etl::GPUVIS);
    // Its first buffer is the header; the others go by CPU into one file or the other.
    let buffers: Vec<&[u8]> = whole.chunks(65_536).collect();
    let parts = [0, 1].map(|odd| {
        let of_part = buffers[1..].iter().filter(|buffer| buffer[0x28] % 2 == odd);
        [buffers[0]].iter().chain(of_part).copied().collect::<Vec<_>>().concat()
    });
    let parts = Trace::from_bytes(parts.into()).expect("they open");
    let whole = Trace::from_bytes(vec![whole]).expect("it opens");
    let (mut one, mut two) = (whole.merged(), parts.merged());
    while let Some((file, record)) = two.next() {
        if file == 1 && matches!(record.class, Class::Kernel { group: 0, .. }) {
            // The header, a second time.
            continue;
        }
        assert_eq!(file, usize::from(record.cpu % 2));
        let of_whole = one.next().expect("as many").1;
        assert_eq!(record.timestamp, of_whole.timestamp);
    }
    assert!(one.next().is_none());
    assert_eq!(two.statistics().records, whole.scan(|_, _| ()).records + 2);
}

#[syscollect_fixtures::test]
fn a_file_on_disk_reads_as_it_does_in_memory() {
    let bytes = fixture(etl::SYNTHETIC);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("trace.etl");
    std::fs::write(&path, &bytes).expect("it can be written");
    let on_disk = Trace::open(&[path]).expect("it opens");
    let in_memory = Trace::from_bytes(vec![bytes]).expect("it opens");
    assert_eq!(on_disk.bytes(), in_memory.bytes());
    assert_eq!(on_disk.headers(), in_memory.headers());
    assert_eq!(on_disk.scan(|_, _| ()), in_memory.scan(|_, _| ()));
}

#[syscollect_fixtures::test]
fn a_recording_repeated_is_as_many_recordings_one_after_the_other() {
    let bytes = fixture(etl::SYNTHETIC);
    let long = repeated(&bytes, bytes.len() * 2 + 1);
    let trace = Trace::from_bytes(vec![long]).expect("it opens");
    let (mut merged, mut last) = (trace.merged(), 0);
    while let Some((_, record)) = merged.next() {
        assert!(record.timestamp >= last);
        last = record.timestamp;
    }
    assert_eq!(merged.statistics().records, 1 + 3 * 13_230);
}
