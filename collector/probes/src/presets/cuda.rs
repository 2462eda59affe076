//! CUDA's driver (`cuda.h`) and its runtime (`cuda_runtime_api.h`).
//!
//! The runtime calls the driver, so that its calls enclose the driver's. Most programs carry the
//! runtime within themselves (`libcudart_static`): of them only the driver's calls are seen.

use super::Parameter::{High, Pointed};
use super::{FunctionPreset, LibraryPreset, Parameter, function, int, long};

type Arguments = &'static [(&'static str, Parameter)];

/// `(function, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes, stream, ...)`, which HIP
/// has, too.
pub(super) const LAUNCH: Arguments = &[
    ("grid_x", int(1)),
    ("grid_y", int(2)),
    ("grid_z", int(3)),
    ("block_x", int(4)),
    ("block_y", int(5)),
    ("block_z", int(6)),
    ("shared_bytes", int(7)),
    ("stream", long(8)),
];
/// `(function, dim3 grid, dim3 block, arguments, size_t sharedBytes, stream)`: each `dim3` takes
/// two words.
pub(super) const LAUNCH_DIM3: Arguments = &[
    ("grid_x", int(1)),
    ("grid_y", High(1)),
    ("grid_z", int(2)),
    ("block_x", int(3)),
    ("block_y", High(3)),
    ("block_z", int(4)),
    ("shared_bytes", long(6)),
    ("stream", long(7)),
];
/// A pointer to a structure of six dimensions, shared bytes and stream.
const LAUNCH_CONFIG: Arguments = &[
    ("grid_x", Pointed(0, 0, 4)),
    ("grid_y", Pointed(0, 4, 4)),
    ("grid_z", Pointed(0, 8, 4)),
    ("block_x", Pointed(0, 12, 4)),
    ("block_y", Pointed(0, 16, 4)),
    ("block_z", Pointed(0, 20, 4)),
    ("shared_bytes", Pointed(0, 24, 4)),
    ("stream", Pointed(0, 32, 8)),
];
/// `(to, from, bytes)`
pub(super) const COPY: Arguments = &[("bytes", long(2))];
/// `(to, from, bytes, stream)`
const COPY_ASYNC: Arguments = &[("bytes", long(2)), ("stream", long(3))];
/// `(to, from, bytes, kind)`
pub(super) const COPY_KIND: Arguments = &[("bytes", long(2)), ("kind", int(3))];
/// `(to, from, bytes, kind, stream)`
pub(super) const COPY_KIND_ASYNC: Arguments =
    &[("bytes", long(2)), ("kind", int(3)), ("stream", long(4))];
/// `(to, its context or device, from, its context or device, bytes)`
pub(super) const COPY_PEER: Arguments = &[("bytes", long(4))];
/// `(to, its pitch, from, its pitch, width, height, ...)`
pub(super) const COPY_2D: Arguments = &[("width_bytes", long(4)), ("height", long(5))];
/// A pointer to `CUDA_MEMCPY2D`.
const COPY_2D_CONFIG: Arguments =
    &[("width_bytes", Pointed(0, 112, 8)), ("height", Pointed(0, 120, 8))];
/// A pointer to `CUDA_MEMCPY3D`.
const COPY_3D_CONFIG: Arguments = &[
    ("width_bytes", Pointed(0, 176, 8)),
    ("height", Pointed(0, 184, 8)),
    ("depth", Pointed(0, 192, 8)),
];
/// `(to, value, count of values)`
pub(super) const SET: Arguments = &[("count", long(2))];
pub(super) const NONE: Arguments = &[];
pub(super) const STREAM: Arguments = &[("stream", long(0))];
pub(super) const EVENT: Arguments = &[("event", long(0))];
/// `(stream, event, flags)`
pub(super) const STREAM_EVENT: Arguments = &[("stream", long(0)), ("event", long(1))];
/// `(event, stream)`
pub(super) const EVENT_STREAM: Arguments = &[("event", long(0)), ("stream", long(1))];
/// `(graph, stream)`
pub(super) const GRAPH_STREAM: Arguments = &[("graph", long(0)), ("stream", long(1))];

/// Where each thread has a default stream of its own, functions that use it have such names.
const THREAD_STREAMS: &[&str] = &["_ptsz", "_ptds"];

/// `libcuda`
pub(super) const DRIVER: LibraryPreset = LibraryPreset {
    key: "gpu_calls_cuda",
    track: "CUDA",
    libraries: &["libcuda.so.1"],
    variants: THREAD_STREAMS,
    lookups: &[],
    functions: DRIVER_FUNCTIONS,
};

const DRIVER_FUNCTIONS: &[FunctionPreset] = &[
    function("cuLaunchKernel", LAUNCH),
    function("cuLaunchKernelEx", LAUNCH_CONFIG),
    function("cuLaunchCooperativeKernel", LAUNCH),
    function("cuGraphLaunch", GRAPH_STREAM),
    function("cuMemcpy", COPY),
    function("cuMemcpyAsync", COPY_ASYNC),
    function("cuMemcpyPeer", COPY_PEER),
    function("cuMemcpyPeerAsync", COPY_PEER),
    function("cuMemcpyHtoD_v2", COPY),
    function("cuMemcpyDtoH_v2", COPY),
    function("cuMemcpyDtoD_v2", COPY),
    function("cuMemcpyHtoDAsync_v2", COPY_ASYNC),
    function("cuMemcpyDtoHAsync_v2", COPY_ASYNC),
    function("cuMemcpyDtoDAsync_v2", COPY_ASYNC),
    function("cuMemcpy2D_v2", COPY_2D_CONFIG),
    function("cuMemcpy2DUnaligned_v2", COPY_2D_CONFIG),
    function("cuMemcpy2DAsync_v2", COPY_2D_CONFIG),
    function("cuMemcpy3D_v2", COPY_3D_CONFIG),
    function("cuMemcpy3DAsync_v2", COPY_3D_CONFIG),
    function("cuMemsetD8_v2", SET),
    function("cuMemsetD32_v2", SET),
    function("cuMemsetD8Async", SET),
    function("cuMemsetD32Async", SET),
    function("cuCtxSynchronize", NONE),
    function("cuStreamSynchronize", STREAM),
    function("cuEventSynchronize", EVENT),
    function("cuStreamWaitEvent", STREAM_EVENT),
    function("cuEventRecord", EVENT_STREAM),
];

/// `libcudart`, where it is a library of its own.
pub(super) const RUNTIME: LibraryPreset = LibraryPreset {
    key: "gpu_calls_cudart",
    track: "CUDA",
    libraries: &["libcudart.so."],
    variants: THREAD_STREAMS,
    lookups: &[],
    functions: RUNTIME_FUNCTIONS,
};

const RUNTIME_FUNCTIONS: &[FunctionPreset] = &[
    function("cudaLaunchKernel", LAUNCH_DIM3),
    function("cudaLaunchKernelExC", LAUNCH_CONFIG),
    function("cudaLaunchCooperativeKernel", LAUNCH_DIM3),
    function("cudaGraphLaunch", GRAPH_STREAM),
    function("cudaMemcpy", COPY_KIND),
    function("cudaMemcpyAsync", COPY_KIND_ASYNC),
    function("cudaMemcpyPeer", COPY_PEER),
    function("cudaMemcpyPeerAsync", COPY_PEER),
    function("cudaMemcpyToSymbol", COPY),
    function("cudaMemcpyFromSymbol", COPY),
    function("cudaMemcpy2D", COPY_2D),
    function("cudaMemcpy2DAsync", COPY_2D),
    function("cudaMemset", SET),
    function("cudaMemsetAsync", SET),
    function("cudaDeviceSynchronize", NONE),
    function("cudaStreamSynchronize", STREAM),
    function("cudaEventSynchronize", EVENT),
    function("cudaStreamWaitEvent", STREAM_EVENT),
    function("cudaEventRecord", EVENT_STREAM),
];
