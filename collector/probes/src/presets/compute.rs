//! What lets a GPU compute: OpenCL, AMD's HIP and HSA, Intel's Level Zero.

use super::Parameter::Pointed;
use super::cuda::{
    COPY, COPY_2D, COPY_KIND, COPY_KIND_ASYNC, COPY_PEER, EVENT, EVENT_STREAM, GRAPH_STREAM,
    LAUNCH, LAUNCH_DIM3, NONE, SET, STREAM, STREAM_EVENT,
};
use super::{LibraryPreset, function, int, long};

/// `libOpenCL`, which hands every call to the driver of the queue.
pub(super) const OPENCL: LibraryPreset = LibraryPreset {
    key: "gpu_calls_opencl",
    track: "OpenCL",
    libraries: &["libOpenCL.so.1"],
    variants: &[],
    lookups: &[],
    functions: &[
        // (queue, kernel, dimensions, offsets, sizes, ...): sizes may have one member only.
        function("clEnqueueNDRangeKernel", &[("dimensions", int(2)), ("size_x", Pointed(4, 0, 8))]),
        function("clEnqueueTask", &[]),
        function("clEnqueueReadBuffer", &[("blocking", int(2)), ("bytes", long(4))]),
        function("clEnqueueWriteBuffer", &[("blocking", int(2)), ("bytes", long(4))]),
        function("clEnqueueCopyBuffer", &[("bytes", long(5))]),
        function("clEnqueueFillBuffer", &[("bytes", long(5))]),
        function("clEnqueueReadImage", &[("blocking", int(2))]),
        function("clEnqueueWriteImage", &[("blocking", int(2))]),
        function("clEnqueueMapBuffer", &[("blocking", int(2)), ("bytes", long(5))]),
        function("clWaitForEvents", &[("events", int(0))]),
        function("clFlush", &[]),
        function("clFinish", &[]),
        function("clBuildProgram", &[]),
    ],
};

/// `libamdhip64`
pub(super) const HIP: LibraryPreset = LibraryPreset {
    key: "gpu_calls_hip",
    track: "HIP",
    libraries: &["libamdhip64.so."],
    variants: &["_spt"],
    lookups: &[],
    functions: &[
        function("hipLaunchKernel", LAUNCH_DIM3),
        function("hipLaunchCooperativeKernel", LAUNCH_DIM3),
        function("hipModuleLaunchKernel", LAUNCH),
        function("hipModuleLaunchCooperativeKernel", LAUNCH),
        // Here the grid counts threads, not blocks, as the interface has it.
        function("hipExtModuleLaunchKernel", LAUNCH),
        function("hipGraphLaunch", GRAPH_STREAM),
        function("hipMemcpy", COPY_KIND),
        function("hipMemcpyAsync", COPY_KIND_ASYNC),
        function("hipMemcpyWithStream", COPY_KIND_ASYNC),
        function("hipMemcpyHtoD", COPY),
        function("hipMemcpyDtoH", COPY),
        function("hipMemcpyDtoD", COPY),
        function("hipMemcpyHtoDAsync", COPY),
        function("hipMemcpyDtoHAsync", COPY),
        function("hipMemcpyDtoDAsync", COPY),
        function("hipMemcpyPeer", COPY_PEER),
        function("hipMemcpyPeerAsync", COPY_PEER),
        function("hipMemcpy2D", COPY_2D),
        function("hipMemcpy2DAsync", COPY_2D),
        function("hipMemset", SET),
        function("hipMemsetAsync", SET),
        function("hipDeviceSynchronize", NONE),
        function("hipStreamSynchronize", STREAM),
        function("hipEventSynchronize", EVENT),
        function("hipStreamWaitEvent", STREAM_EVENT),
        function("hipEventRecord", EVENT_STREAM),
    ],
};

/// `libhsa-runtime64`, below HIP. Work is handed over by writing to a queue in memory, which calls
/// nothing but the doorbell at most.
pub(super) const HSA: LibraryPreset = LibraryPreset {
    key: "gpu_calls_hsa",
    track: "HSA",
    libraries: &["libhsa-runtime64.so.1"],
    variants: &[],
    lookups: &[],
    functions: &[
        function("hsa_amd_memory_async_copy", &[("bytes", long(4))]),
        function("hsa_amd_memory_async_copy_on_engine", &[("bytes", long(4))]),
        function("hsa_memory_copy", COPY),
        function("hsa_signal_wait_scacquire", &[("signal", long(0))]),
        function("hsa_signal_wait_relaxed", &[("signal", long(0))]),
    ],
};

/// `libze_loader`
pub(super) const LEVEL_ZERO: LibraryPreset = LibraryPreset {
    key: "gpu_calls_level_zero",
    track: "Level Zero",
    libraries: &["libze_loader.so.1"],
    variants: &[],
    lookups: &[],
    functions: &[
        function("zeCommandQueueExecuteCommandLists", &[("lists", int(1))]),
        function("zeCommandListAppendMemoryCopy", &[("bytes", long(3))]),
        function("zeCommandQueueSynchronize", &[("timeout_ns", long(1))]),
        function("zeCommandListHostSynchronize", &[("timeout_ns", long(1))]),
        function("zeFenceHostSynchronize", &[("timeout_ns", long(1))]),
        function("zeEventHostSynchronize", &[("timeout_ns", long(1))]),
    ],
};
