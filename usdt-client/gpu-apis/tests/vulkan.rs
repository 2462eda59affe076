//! Zones in command buffers of Vulkan, of a device that is none.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

#[path = "../../tests/common/mod.rs"]
mod common;
mod stand_in;

use common::{record, scenario};
use stand_in::vulkan::{command_buffer, device, execute, lose, recorded};
use std::sync::Arc;
use syscollect_gpu_apis::vulkan::{VulkanError, VulkanQueue, VulkanRecorder};
use syscollect_usdt_client::gpu::{GpuApi, GpuContext, GpuTicks};
use syscollect_usdt_client::location;

fn queue(name: &str) -> Arc<VulkanQueue> {
    let context = GpuContext::new(GpuApi::Vulkan, name, GpuTicks::NANOSECONDS);
    // SAFETY: the device is none.
    unsafe { VulkanQueue::without_clock(device(), context) }
}

fn recorder<const PAIRS: usize>(queue: &Arc<VulkanQueue>) -> VulkanRecorder<PAIRS> {
    // SAFETY: as above.
    unsafe { VulkanRecorder::new(Arc::clone(queue)).unwrap() }
}

/// Marks a zone in which nothing is.
macro_rules! zone {
    ($recorder:expr, $commands:expr, $name:literal) => {
        // SAFETY: the device is none.
        unsafe { $recorder.zone($commands, location!($name)) }
    };
}

#[test]
fn threads_record_in_any_order_and_read_what_is_there() {
    record();
    let queue = queue("in any order");
    let first = recorder::<4>(&queue);
    let buffers = [command_buffer(), command_buffer()];
    scenario();
    {
        let _frame = zone!(first, buffers[0], "frame");
        let _inner = zone!(first, buffers[0], "inner");
    }
    assert_eq!(recorded(buffers[0]), 4);
    let (queue, second_buffer) = (&queue, buffers[1]);
    std::thread::scope(|scope| {
        let work = move || {
            let second = recorder::<4>(queue);
            drop(zone!(second, second_buffer, "other"));
            second.collect().unwrap();
            assert_eq!(second.outstanding(), 1, "it waits for nothing");
            execute(second_buffer);
            second.collect().unwrap();
            let lines = scenario();
            assert_eq!(lines.len(), 4, "{lines:?}");
            assert!(lines[3].starts_with("gpu in any order times 1"), "{lines:?}");
        };
        scope.spawn(work).join().unwrap();
    });
    first.collect().unwrap();
    assert_eq!(first.outstanding(), 2);
    execute(buffers[0]);
    first.collect().unwrap();
    assert_eq!(first.outstanding(), 0);
    let lines = scenario();
    let begins = ["gpu in any order begin frame 1", "gpu in any order begin inner 2"];
    assert_eq!(lines[..2], begins);
    assert_eq!(lines[2..4], ["gpu in any order end 2", "gpu in any order end 1"]);
    let times = |line: &str| -> Vec<u64> {
        let inner = line.split(['[', ']']).nth(1).unwrap();
        inner.split(", ").map(|number| number.parse().unwrap()).collect()
    };
    let [frame, inner] = [times(&lines[4]), times(&lines[5])];
    assert!(frame[0] < inner[0] && inner[1] < frame[1], "{lines:?}");
    assert_eq!(lines.len(), 6);
}

#[test]
fn a_query_is_used_again_when_it_was_read_and_zones_without_one_say_so() {
    record();
    let queue = queue("small");
    let recorder = recorder::<2>(&queue);
    let mut refused = 0;
    for round in 0..10 {
        let buffers = [(); 3].map(|()| command_buffer());
        scenario();
        for commands in buffers {
            drop(zone!(recorder, commands, "draw"));
        }
        refused += 1;
        assert_eq!(recorder.refused(), refused);
        assert_eq!(recorded(buffers[2]), 0);
        let lines = scenario();
        assert!(lines[5].starts_with("gpu small no times"), "{lines:?}");
        execute(buffers[1]);
        recorder.collect().unwrap();
        assert_eq!(recorder.outstanding(), 2, "the oldest was not written, in round {round}");
        execute(buffers[0]);
        recorder.collect().unwrap();
        assert_eq!(recorder.outstanding(), 0);
        let times = scenario().iter().filter(|line| line.contains("small times")).count();
        assert_eq!(times, 2);
    }
}

#[test]
fn a_lost_device_and_thrown_away_commands_leave_zones_without_times() {
    record();
    let queue = queue("lost");
    let mut recorder = recorder::<3>(&queue);
    scenario();
    drop(zone!(recorder, command_buffer(), "never submitted"));
    // SAFETY: the device is none.
    unsafe { recorder.abandon() };
    assert_eq!(recorder.outstanding(), 0);
    let commands = command_buffer();
    drop(zone!(recorder, commands, "done"));
    execute(commands);
    recorder.collect().unwrap();
    drop(zone!(recorder, command_buffer(), "lost"));
    lose(6);
    let lost = VulkanError::Failed(ash::vk::Result::ERROR_DEVICE_LOST);
    assert_eq!(recorder.collect(), Err(lost));
    drop(zone!(recorder, command_buffer(), "dropped"));
    drop(recorder);
    let lines = scenario();
    let told: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("gpu lost "))
        .filter(|line| line.contains("times"))
        .map(|line| line.split(" [").next().unwrap())
        .collect();
    assert_eq!(told, ["no times 1", "times 2", "no times 3", "no times 4"]);
}
