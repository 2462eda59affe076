//! Whatever writers and readers do, the buffer gives what the slow and simple model gives: the same
//! packets in the same order, to the reader and to the fold, and the same losses.
#![allow(missing_docs, reason = "a test")]

mod model;

use model::script::{Met, STEP, run};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};
use syscollect_trace_buffer::{Commit, LossCause, Refusal};

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn the_buffer_does_what_the_model_does(
        size in any::<u8>(),
        mode in any::<u8>(),
        steps in vec(any::<[u8; STEP]>(), 0..200),
    ) {
        let mut bytes = vec![size, mode];
        bytes.extend(steps.into_iter().flatten());
        run(&bytes);
    }
}

/// A property holds easily of what never happens.
#[test]
fn random_steps_come_by_everything() {
    let mut number = 1_u64;
    let mut met = Met::default();
    for _ in 0..400 {
        let bytes: Vec<u8> = (0..2 + 150 * STEP)
            .map(|_| {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (number >> 56) as u8
            })
            .collect();
        let script = run(&bytes);
        met.commits.extend(script.commits);
        met.lost |= script.lost;
        met.read += script.read;
        met.folded += script.folded;
        met.patches += script.patches;
        met.copies += script.copies;
    }
    let refusals =
        [Refusal::TooLarge, Refusal::Full, Refusal::Late, Refusal::Far, Refusal::Contradiction];
    let commits = [Commit::Stored, Commit::Extended, Commit::Moved, Commit::Known];
    for commit in commits.into_iter().chain(refusals.map(Commit::Refused)) {
        let count = met.commits.iter().filter(|met| **met == commit).count();
        assert!(count >= 2, "{commit:?}: {count}");
    }
    assert!(LossCause::ALL.into_iter().all(|cause| met.lost.contains(cause)));
    for count in [met.read, met.folded, met.patches, met.copies] {
        assert!(count >= 500, "{count}");
    }
}
