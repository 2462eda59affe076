//! What an event loop says of itself.

mod common;

use common::{record, scenario};
use syscollect_usdt_client::{loop_wait, message};
use syscollect_zone_protocol::LoopPhase;

#[test]
fn a_wait_lasts_as_long_as_its_guard_and_the_turn_until_the_next() {
    record();
    let _ = scenario();
    for _ in 0..2 {
        let wait = loop_wait();
        drop(wait);
        message!("an event");
    }
    let shown = scenario();
    let turn = ["loop 0", "loop 1", "message an event color 000000"];
    assert_eq!(shown, [turn, turn].concat());
    assert_eq!((LoopPhase::Waits as u8, LoopPhase::Turns as u8), (0, 1));
}
