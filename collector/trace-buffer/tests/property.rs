//! Whatever writers and readers do, the buffer gives what the slow and simple model gives: the same
//! packets in the same order, to the reader and to the fold, and the same losses.
#![allow(missing_docs, reason = "a test")]

mod model;

use model::script::{STEP, run};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

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
