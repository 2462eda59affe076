//! A kernel whose tracepoints of GPUs lack what jobs, frames and counters are made of.

use syscollect_records::task_state;
use syscollect_tests::tracepoint::{FakeField, FakeTracepoint, FakeValue, TEXT};
use syscollect_tests::{FakeMachine, golden};

/// Events with their fields, of which each lacks one that is needed.
const LACKING: &[(&str, &str, &[FakeField<'_>])] = &[
    ("dma_fence", "dma_fence_init", &[("driver", TEXT), ("timeline", TEXT), ("context", 4)]),
    ("dma_fence", "dma_fence_wait_start", &[("driver", TEXT), ("timeline", TEXT), ("seqno", 4)]),
    ("gpu_scheduler", "drm_sched_job", &[("name", TEXT), ("id", 8)]),
    ("gpu_scheduler", "drm_sched_job_done", &[("fence_context", 8)]),
    ("drm", "drm_vblank_event", &[("seq", 4)]),
    ("gpu_mem", "gpu_mem_total", &[("gpu_id", 4), ("size", 8)]),
    ("virtio_gpu", "virtio_gpu_cmd_queue", &[("dev", 4), ("type", 4)]),
    ("i915", "i915_request_add", &[("ctx", 8), ("class", 2)]),
];

#[test]
fn what_lacks_a_field_is_shown_as_it_is_and_the_rest_is_understood() {
    let mut machine = FakeMachine::new(1);
    machine.process(100, 1, "game", &[]);
    machine.switch(0, 1, task_state::RUNNABLE, 100);
    for ((system, event, fields), number) in LACKING.iter().zip(1u32..) {
        let tracepoint = FakeTracepoint::new(&mut machine, number, (system, event), fields);
        let values: Vec<FakeValue<'_>> = fields
            .iter()
            .map(|(_, size)| match *size {
                TEXT => FakeValue::Text("x"),
                _ => FakeValue::Number(7),
            })
            .collect();
        tracepoint.fire(&mut machine, (0, 10 + u64::from(number)), 100, &values);
    }
    let whole: &[FakeField<'_>] =
        &[("driver", TEXT), ("timeline", TEXT), ("context", 4), ("seqno", 4)];
    let fence = ["radeon".into(), "ring".into(), 5.into(), 1.into()];
    for (number, event) in [(20, "dma_fence_emit"), (21, "dma_fence_signaled")] {
        let tracepoint = FakeTracepoint::new(&mut machine, number, ("dma_fence", event), whole);
        tracepoint.fire(&mut machine, (0, u64::from(number) + 10), 100, &fence);
    }
    golden::check("gpu_lacking", &mut golden::open(machine.finish()));
}
