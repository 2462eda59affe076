//! Without shared memory: no arena, and nothing that fails for it.

use syscollect_usdt_client::{frame_mark, message, plot, testing, zone};

#[test]
fn without_shared_memory_there_is_no_descriptor_and_zones_still_nest() {
    testing::refuse_shared_memory();
    testing::raise();
    for index in 0..3 {
        let outer = zone!("outer");
        let inner = zone!("inner");
        assert_eq!((outer.token().to_number(), inner.token().to_number()), (0, 1));
        inner.value(1);
        message!("text {index}");
        plot!("plot", index);
        frame_mark!();
    }
    assert_eq!(testing::arena_descriptor(), None);
}
