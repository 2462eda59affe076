//! Zones before main.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use syscollect_usdt_client::{testing, zone};

static RAN: AtomicBool = AtomicBool::new(false);

extern "C" fn before_main() {
    testing::raise();
    let _zone = zone!("before main");
    RAN.store(true, Ordering::Relaxed);
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

#[test]
fn a_zone_before_main_is_recorded() {
    assert!(RAN.load(Ordering::Relaxed));
    // The main thread's id is the process's.
    assert_eq!(
        common::scenario_of(std::process::id()),
        ["attached 0", "begin before main at 0", "end 0"]
    );
}
