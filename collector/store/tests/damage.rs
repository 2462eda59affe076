//! Damaged files: what can be read is true, and the rest is counted.

mod scenario;
mod synthetic;

use proptest::prelude::*;
use scenario::Scenario;
use syscollect_model::{Lane, LaneKind, Ticks};
use syscollect_store::{CaptureReader, CaptureWriter, Damage, Definition, StoreError};

#[test]
fn a_whole_file_gives_back_what_was_written() {
    let scenario = Scenario::small();
    let reader = CaptureReader::from_bytes(scenario.file.clone()).unwrap();
    assert_eq!(reader.damage(), []);
    assert!(reader.is_complete());
    assert_eq!(reader.valid_length(), scenario.file.len() as u64);
    for lane in scenario.lanes() {
        assert_eq!(scenario.account(&reader, lane), (scenario.produced(lane), 0), "{lane}");
    }
    assert_eq!(Scenario::read_definitions(&reader), scenario.definitions);
}

#[test]
fn any_flipped_byte_loses_no_name_and_every_lost_record_is_counted() {
    let scenario = Scenario::small();
    let mut chunks_lost = 0;
    for (at, pattern) in
        (0..scenario.file.len()).flat_map(|at| [(at, 0x01), (at, 0x80), (at, 0xFF)])
    {
        let mut file = scenario.file.clone();
        file[at] ^= pattern;
        let reader =
            CaptureReader::from_bytes(file).unwrap_or_else(|error| panic!("byte {at}: {error}"));
        for lane in scenario.lanes() {
            let (there, lost) = scenario.account(&reader, lane);
            assert_eq!(there + lost, scenario.produced(lane), "byte {at} ^ {pattern:#x}, {lane}");
            assert!(
                lost == 0 || !lane.kind.is_definition(),
                "byte {at} ^ {pattern:#x} lost {lost} of {lane}"
            );
            chunks_lost += usize::from(lost > 0);
        }
        assert_eq!(
            Scenario::read_definitions(&reader),
            scenario.definitions,
            "byte {at} ^ {pattern:#x}"
        );
        assert!(reader.is_complete());
    }
    assert!(chunks_lost > 500, "the flips must reach chunks of events: {chunks_lost}");
}

#[test]
fn a_file_cut_off_anywhere_reads_to_its_last_whole_chunk() {
    let scenario = Scenario::small();
    for cut in 32..=scenario.file.len() {
        let opened = CaptureReader::from_bytes(scenario.file[..cut].to_vec());
        let reader = opened.unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        let whole = scenario.ends.iter().filter(|(_, end)| *end <= cut as u64).count();
        let found: usize = scenario.lanes().iter().map(|lane| reader.chunks(*lane).len()).sum();
        assert_eq!(found, whole, "cut at {cut}");
        for lane in scenario.lanes() {
            let (there, _) = scenario.account(&reader, lane);
            let expected =
                scenario.ends.iter().filter(|(of, end)| *of == lane && *end <= cut as u64).count();
            assert_eq!(
                expected,
                reader.chunks(lane).iter().filter(|entry| reader.read(entry).is_ok()).count()
            );
            assert!(there <= scenario.produced(lane));
        }
        let tail: Vec<_> = reader
            .damage()
            .iter()
            .filter(|damage| matches!(damage, Damage::Truncated { .. }))
            .collect();
        assert_eq!(
            tail.len(),
            usize::from(reader.valid_length() < cut as u64),
            "cut at {cut}: {tail:?}"
        );
    }
}

#[test]
fn of_two_captures_in_one_file_the_first_is_read_and_the_other_told_of() {
    let scenario = Scenario::small();
    let length = scenario.file.len();
    // Whole, and cut off within its last chunk.
    for first in [length, length - 5] {
        let both = [&scenario.file[..first], &scenario.file].concat();
        let reader = CaptureReader::from_bytes(both).unwrap();
        let alone = CaptureReader::from_bytes(scenario.file[..first].to_vec()).unwrap();
        let another = Damage::Another { offset: first as u64, bytes: length as u64 };
        let (reported, others): (Vec<&Damage>, Vec<&Damage>) =
            reader.damage().iter().partition(|damage| **damage == another);
        assert_eq!(reported.len(), 1, "{:?}", reader.damage());
        assert_eq!(others, alone.damage().iter().collect::<Vec<_>>());
        for lane in scenario.lanes() {
            assert_eq!(reader.chunks(lane), alone.chunks(lane));
        }
    }
}

#[test]
fn a_file_cut_off_within_its_header_is_refused() {
    let scenario = Scenario::small();
    for cut in 0..32 {
        let error = CaptureReader::from_bytes(scenario.file[..cut].to_vec()).unwrap_err();
        assert!(matches!(error, StoreError::NotACapture { .. }), "cut at {cut}: {error}");
    }
}

#[test]
fn a_chunk_lost_from_the_end_of_a_lane_is_counted_by_the_totals() {
    let scenario = Scenario::small();
    let lane = Lane::new(LaneKind::Sched, 0);
    let last = scenario.ends.iter().rposition(|(of, _)| *of == lane).unwrap();
    let mut file = scenario.file.clone();
    file[scenario.ends[last - 1].1 as usize..scenario.ends[last].1 as usize].fill(0xAA);
    let reader = CaptureReader::from_bytes(file).unwrap();
    assert_eq!(scenario.account(&reader, lane), (13, 6));
    let gap = reader.damage().iter().find(|damage| matches!(damage, Damage::Gap { .. }));
    let (after, records) = (Some(Ticks(2_900)), Some(6));
    assert_eq!(
        gap,
        Some(&Damage::Gap { lane, sequence: 2, chunks: 1, records, after, before: None })
    );
}

#[test]
fn a_write_that_was_cut_off_does_not_swallow_the_chunks_after_it() {
    let scenario = Scenario::small();
    let lane = Lane::new(LaneKind::Sched, 0);
    let (_, end) = scenario.ends.iter().find(|(of, _)| *of == lane).unwrap();
    let mut file = scenario.file.clone();
    // The first chunk of switches lost 5 bytes of its payload: its header's
    // length now reaches into the second.
    file.drain(*end as usize - 5..*end as usize);
    let reader = CaptureReader::from_bytes(file).unwrap();
    assert_eq!(scenario.account(&reader, lane), (10, 9));
    assert_eq!(Scenario::read_definitions(&reader), scenario.definitions);
}

#[test]
fn a_damaged_page_loses_no_definition_in_a_large_file() {
    let mut writer = CaptureWriter::create(Vec::new()).unwrap();
    let lane = Lane::new(LaneKind::Sample, 0);
    let mut random = synthetic::Random(5);
    for sequence in 0..48 {
        writer.define(&Definition::Counters(vec![Default::default(); sequence as usize])).unwrap();
        let mut chunk = scenario::chunk(lane, sequence, sequence * 2_730, 2_730, 24);
        chunk.data.iter_mut().for_each(|byte| *byte = random.next() as u8);
        writer.write(&chunk).unwrap();
    }
    let file = writer.finish().unwrap();
    assert!(file.len() > 3 << 20, "the copies' distance must matter");
    let whole: Vec<_> = CaptureReader::from_bytes(file.clone())
        .unwrap()
        .definitions()
        .map(Result::unwrap)
        .collect();
    assert_eq!(whole.len(), 49);
    for start in
        (0..file.len()).step_by(16_411).chain((file.len() - 20_000..file.len()).step_by(509))
    {
        let mut damaged = file.clone();
        let end = (start + 4096).min(file.len());
        damaged[start..end].fill(0);
        let reader = CaptureReader::from_bytes(damaged).unwrap();
        let read: Vec<_> = reader.definitions().map(Result::unwrap).collect();
        assert_eq!(read, whole, "page at {start}");
    }
}

#[test]
fn a_foreign_file_and_a_later_format_are_refused_with_reasons() {
    let foreign = CaptureReader::from_bytes(vec![b'x'; 100_000]).unwrap_err().to_string();
    assert!(foreign.contains("is not a syscollect capture"), "{foreign}");
    let mut file = Scenario::small().file;
    file[8] = 9;
    let crc = crc32fast::hash(&file[..28]);
    file[28..32].copy_from_slice(&crc.to_le_bytes());
    let later = CaptureReader::from_bytes(file).unwrap_err().to_string();
    assert!(later.contains("format 9") && later.contains("use a newer syscollect"), "{later}");
}

/// One thing that happens to a file.
#[derive(Clone, Debug)]
enum Accident {
    Flip(prop::sample::Index, u8),
    Remove(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize, prop::sample::Index),
    Zero(prop::sample::Index, usize),
}

fn accident() -> impl Strategy<Value = Accident> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        (index(), 1u8..).prop_map(|(at, pattern)| Accident::Flip(at, pattern)),
        (index(), 1usize..300).prop_map(|(at, length)| Accident::Remove(at, length)),
        (index(), 1usize..300, index())
            .prop_map(|(from, length, to)| Accident::Repeat(from, length, to)),
        (index(), 1usize..5000).prop_map(|(at, length)| Accident::Zero(at, length)),
    ]
}

fn range(at: &prop::sample::Index, length: usize, size: usize) -> std::ops::Range<usize> {
    at.index(size)..(at.index(size) + length).min(size)
}

fn happen(accident: &Accident, file: &mut Vec<u8>) {
    if file.is_empty() {
        return;
    }
    let size = file.len();
    match accident {
        Accident::Flip(at, pattern) => file[at.index(size)] ^= pattern,
        Accident::Remove(at, length) => drop(file.drain(range(at, *length, size))),
        Accident::Zero(at, length) => file[range(at, *length, size)].fill(0),
        Accident::Repeat(from, length, to) => {
            let bytes = file[range(from, *length, size)].to_vec();
            file.splice(to.index(size)..to.index(size), bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_to_a_file_nothing_in_it_becomes_something_else(
        accidents in prop::collection::vec(accident(), 1..12),
    ) {
        let scenario = Scenario::small();
        let mut file = scenario.file.clone();
        accidents.iter().for_each(|accident| happen(accident, &mut file));
        let Ok(reader) = CaptureReader::from_bytes(file) else { return Ok(()) };
        for lane in scenario.lanes() {
            let (there, lost) = scenario.account(&reader, lane);
            prop_assert!(there + lost <= scenario.produced(lane));
        }
        for definition in Scenario::read_definitions(&reader) {
            prop_assert!(scenario.definitions.contains(&definition));
        }
    }

    #[test]
    fn arbitrary_bytes_are_read_without_harm(
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
        at in 0usize..3000,
    ) {
        let mut file = Scenario::small().file;
        let at = at.min(file.len());
        file.truncate(at);
        file.extend_from_slice(&bytes);
        for bytes in [bytes, file] {
            if let Ok(reader) = CaptureReader::from_bytes(bytes) {
                let entries =
                    reader.lanes().into_iter().flat_map(|lane| reader.chunks(lane).to_vec());
                prop_assert!(entries.filter(|entry| reader.read(entry).is_ok()).count() <= 15);
            }
        }
    }
}
