//! Zones of GPUs, as threads write them.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

mod common;

use common::{record, ring_of, scenario, thread_id};
use syscollect_usdt_client::gpu::{
    GpuApi, GpuContext, GpuTicks, GpuZoneDetails, GpuZoneId, GpuZoneTag, HostTime,
};
use syscollect_usdt_client::testing::Drain;
use syscollect_usdt_client::{StaticString, location};
use syscollect_zone_protocol::{Event, GpuEvent, Item};

#[test]
fn a_zone_is_submitted_and_its_times_come_later_from_another_thread() {
    record();
    scenario();
    let queue =
        GpuContext::new(GpuApi::Vulkan, "graphics", GpuTicks { nanoseconds: 52.083, bits: 36 });
    queue.calibrate(HostTime::Monotonic(5_000), 77, u64::MAX);
    let (outer, inner) = {
        let outer = queue.begin(location!("frame"));
        static FRAME: StaticString = StaticString::new("Frame");
        let tag = Some(GpuZoneTag { text: &FRAME, number: 1234 });
        let (name, text) = ("shadows of 3", "2048 x 2048");
        let details = GpuZoneDetails { name, text, color: 0xff, tag };
        let inner = queue.begin_with(location!("shadows", 0x12_34_56), &details);
        (outer.id(), inner.id())
    };
    assert_eq!(
        scenario(),
        [
            "gpu graphics clock 5000 is 77 within 2147483647",
            "gpu graphics begin frame 1",
            "gpu graphics begin shadows 2",
            "ZoneName \"shadows of 3\"",
            "ZoneText \"2048 x 2048\"",
            "color 0000ff",
            "tag Frame 1234",
            "gpu graphics end 2",
            "gpu graphics end 1",
        ]
    );
    let lines = std::thread::scope(|scope| {
        let queue = &queue;
        let thread = scope.spawn(move || {
            queue.resolve(inner, 20, 30);
            queue.resolve_without_times(outer);
            queue.resolve(GpuZoneId::INACTIVE, 1, 2);
            scenario()
        });
        thread.join().unwrap()
    });
    assert_eq!(lines[1..], ["gpu graphics times 2 [20, 30]", "gpu graphics no times 1"]);
}

/// What the calling thread has written since it was asked last.
fn own_items() -> Vec<Vec<u64>> {
    let mut drain = Drain::open().unwrap();
    let number = ring_of(&drain, thread_id()).unwrap();
    drain.take(number)
}

#[test]
fn contexts_of_one_name_are_two_and_no_number_comes_twice() {
    record();
    scenario();
    let queues = [(); 2].map(|()| GpuContext::new(GpuApi::Custom, "copies", GpuTicks::NANOSECONDS));
    let ids = [&queues[0], &queues[1], &queues[0]].map(|queue| {
        let zone = queue.begin(location!("copy"));
        zone.id()
    });
    assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2]);
    let contexts: Vec<u32> = own_items()
        .iter()
        .filter_map(|item| match Item::decode(item)? {
            Item::Stamped { event: Event::Gpu(GpuEvent::ZoneBegin { zone, .. }), .. } => {
                Some(zone.context)
            }
            _ => None,
        })
        .collect();
    assert!(contexts[0] == contexts[2] && contexts[0] != contexts[1], "{contexts:?}");
}

#[test]
fn a_zone_may_have_its_stack() {
    record();
    scenario();
    let queue = GpuContext::new(GpuApi::Custom, "stacks", GpuTicks::NANOSECONDS);
    drop(queue.begin_with_stack(location!("deep")));
    let lines = scenario();
    assert!(lines[0].starts_with("gpu stacks begin deep"), "{lines:?}");
    assert!(lines[1].starts_with("Stack"), "{lines:?}");
}
