//! Captures that are cut into batches in any way.

use proptest::prelude::*;
use std::path::PathBuf;
use std::sync::LazyLock;
use syscollect_tests::cuts::WholeCapture;
use syscollect_tests::reference_capture;

/// All kinds of lanes, damage, and what kernels told of GPUs.
static CAPTURES: LazyLock<Vec<WholeCapture>> = LazyLock::new(|| {
    let mut captures = vec![reference_capture::capture()];
    captures.extend(reference_capture::cases().into_iter().map(|case| case.capture));
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/gpu");
    for name in ["fences_7_2", "scheduler_6_12", "virtio_5_10"] {
        let path = folder.join(name).with_extension("syscap");
        captures.push(std::fs::read(path).expect("it is in the repository"));
    }
    captures.into_iter().filter_map(WholeCapture::new).collect()
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn however_a_capture_is_cut_into_batches_the_same_is_told(
        capture in any::<prop::sample::Index>(),
        seed in any::<u64>(),
    ) {
        capture.get(&CAPTURES).check(seed);
    }
}
