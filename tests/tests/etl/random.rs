//! Loggers that write anything at all.

use super::checked::Checked;
use proptest::prelude::*;
use syscollect_etl::session::Session;
use syscollect_playback::Recording;
use syscollect_tests::etl::{FakeTrace, event, event_with, perf_info, system};

/// Kinds of records that mean something, and one that does not.
const KINDS: [(u8, u8); 27] = [
    (0x05, 36),
    (0x05, 36),
    (0x05, 50),
    (0x05, 1),
    (0x05, 2),
    (0x05, 3),
    (0x05, 72),
    (0x03, 1),
    (0x03, 2),
    (0x03, 4),
    (0x03, 10),
    (0x14, 2),
    (0x14, 3),
    (0x0f, 46),
    (0x0f, 66),
    (0x0f, 67),
    (0x0f, 68),
    (0x18, 32),
    (0x18, 32),
    (0x18, 35),
    (0x18, 36),
    (0x18, 37),
    (0x18, 38),
    (0x01, 10),
    (0x02, 32),
    (0x04, 36),
    (0x77, 7),
];
const DXGKRNL: [u8; 16] = [
    0x5a, 0xc4, 0x2e, 0x80, 0x99, 0x1e, 0x83, 0x4b, 0x99, 0x20, 0x87, 0xc9, 0x82, 0x77, 0xba, 0x9d,
];

#[derive(Clone, Debug)]
struct KeptEvents {
    cpu: u16,
    /// Ticks behind the record before it.
    step: u64,
    kind: usize,
    /// The header with a thread rather than the shortest.
    has_thread: bool,
    /// The first eight bytes are a time near the record's.
    back: Option<u64>,
    words: Vec<u32>,
}

/// Words that occur in payloads: ids that are met again, and anything.
fn word() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0u32..12, 1 => Just(0xffff_f800), 1 => Just(0x7ff6_0000), 1 => any::<u32>()]
}

fn reported() -> impl Strategy<Value = KeptEvents> {
    let step = prop_oneof![8 => 0u64..200, 1 => 0u64..20_000_000];
    let words = prop::collection::vec(word(), 0..24);
    (0u16..3, step, 0..KINDS.len() + 2, any::<bool>(), prop::option::of(0u64..400), words).prop_map(
        |(cpu, step, kind, has_thread, back, words)| KeptEvents {
            cpu,
            step,
            kind,
            has_thread,
            back,
            words,
        },
    )
}

fn record(reported: &KeptEvents, time: u64) -> Vec<u8> {
    let mut payload: Vec<u8> = reported.words.iter().flat_map(|word| word.to_le_bytes()).collect();
    if let Some((front, back)) = payload.first_chunk_mut::<8>().zip(reported.back) {
        *front = (time.saturating_sub(back)).to_le_bytes();
    }
    let task = (
        reported.words.first().copied().unwrap_or(1) % 8,
        reported.words.last().copied().unwrap_or(1) % 8,
    );
    match KINDS.get(reported.kind) {
        Some(kind) if reported.has_thread => system(time, task, *kind, 3, &payload),
        Some((group, opcode)) => perf_info(time, *group, *opcode, 3, &payload),
        None if reported.has_thread => {
            event(time, task, DXGKRNL, (150 + task.0 as u16 * 10, 0), &payload)
        }
        None => {
            event_with(event(time, task, [7; 16], (3, 0), &[]), &[(6, &payload), (11, &payload)])
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_is_written_time_never_goes_back_and_slices_end(
        all in prop::collection::vec(reported(), 0..200),
    ) {
        let (mut trace, mut time) = (FakeTrace::new(3), FakeTrace::START);
        for reported in &all {
            time += reported.step;
            trace.record(reported.cpu, &record(reported, time));
        }
        let mut session = Session::from_bytes(vec![trace.finish()]).unwrap();
        let Ok(played) = session.play(&mut Checked::default());
        prop_assert_eq!(played.records, all.len() as u64 + 1);
        let stacks = session.facts().stacks;
        prop_assert!(
            stacks.matched <= stacks.records && stacks.samples_in_images <= stacks.samples
        );
    }
}
