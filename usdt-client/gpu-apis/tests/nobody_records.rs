//! While nobody records, no query is written.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

mod stand_in;

use stand_in::{opengl, vulkan};
use syscollect_gpu_apis::opengl::OpenGlContext;
use syscollect_gpu_apis::vulkan::{VulkanQueue, VulkanRecorder};
use syscollect_usdt_client::gpu::{GpuApi, GpuContext, GpuTicks};
use syscollect_usdt_client::{location, testing};

#[test]
fn nothing_is_called_while_nobody_records() {
    testing::hide_from_recorders();
    let commands = vulkan::command_buffer();
    let context = GpuContext::new(GpuApi::Vulkan, "queue", GpuTicks::NANOSECONDS);
    // SAFETY: the device is none.
    let recorder = unsafe {
        let queue = VulkanQueue::without_clock(vulkan::device(), context);
        VulkanRecorder::<4>::new(queue).unwrap()
    };
    // SAFETY: as above.
    drop(unsafe { recorder.zone(commands, location!("draw")) });
    recorder.collect().unwrap();
    assert_eq!((vulkan::recorded(commands), recorder.outstanding(), recorder.refused()), (0, 0, 0));

    let gl = opengl::functions();
    // SAFETY: as above.
    let context = unsafe { OpenGlContext::<_, 4>::new(&gl, "context", 64).unwrap() };
    drop(context.zone(location!("draw")));
    context.collect();
    assert_eq!((opengl::pending(), context.outstanding(), context.refused()), (0, 0, 0));
}
