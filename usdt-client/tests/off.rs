//! With the feature `off` nothing is left.
//!
//! `cargo test -p syscollect-usdt-client --features off --test off`
#![cfg(feature = "off")]

use syscollect_usdt_client::{enabled, frame_mark, message, plot, testing, zone};

#[test]
fn with_the_feature_off_marks_do_nothing_and_no_probe_is_in_the_file() {
    testing::raise();
    assert!(!enabled());
    let zone = zone!("zone");
    zone.value(1);
    message!("text");
    plot!("plot", 1);
    frame_mark!();
    assert!(!zone.is_active());
    assert_eq!(testing::arena_descriptor(), None);
    let file = std::fs::read("/proc/self/exe").unwrap();
    // Put together here, or the file would hold it because of this test.
    let owner = [b"staps".as_slice(), b"dt\0"].concat();
    assert!(!file.windows(owner.len()).any(|window| window == owner));
}
