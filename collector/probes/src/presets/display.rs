//! What brings pictures to a screen: Vulkan's loader, EGL, GLX.
//!
//! Each call that presents begins a frame, as tools for Windows count them: a frame lasts from one
//! call to the next. Most engines do not call the exports of Vulkan's loader: they ask
//! `vkGetDeviceProcAddr` for functions and get those of the driver or of a layer, which nothing
//! exports. So what it answers is looked at.

use super::{FunctionPreset, LibraryPreset, function, int, long, present};

const VULKAN_FRAMES: &str = "Vulkan frames";
const EGL_FRAMES: &str = "EGL frames";
const GLX_FRAMES: &str = "GLX frames";

/// `libvulkan`
pub(super) const VULKAN: LibraryPreset = LibraryPreset {
    key: "gpu_calls_vulkan",
    track: "Vulkan",
    libraries: &["libvulkan.so.1"],
    variants: &["KHR"],
    lookups: &[("vkGetDeviceProcAddr", 1), ("vkGetInstanceProcAddr", 1)],
    functions: VULKAN_FUNCTIONS,
};

const VULKAN_FUNCTIONS: &[FunctionPreset] = &[
    function("vkQueueSubmit", &[("submits", int(1)), ("fence", long(3))]),
    function("vkQueueSubmit2", &[("submits", int(1)), ("fence", long(3))]),
    function("vkQueueBindSparse", &[("binds", int(1)), ("fence", long(3))]),
    present("vkQueuePresentKHR", VULKAN_FRAMES),
    function("vkAcquireNextImageKHR", &[("timeout_ns", long(2))]),
    function("vkAcquireNextImage2KHR", &[]),
    function("vkWaitForFences", &[("fences", int(1)), ("all", int(3)), ("timeout_ns", long(4))]),
    function("vkWaitSemaphores", &[("timeout_ns", long(2))]),
    function("vkWaitForPresentKHR", &[("present", long(2)), ("timeout_ns", long(3))]),
    function("vkQueueWaitIdle", &[]),
    function("vkDeviceWaitIdle", &[]),
    // What makes a frame late the first time it shows something.
    function("vkCreateGraphicsPipelines", &[("pipelines", int(2))]),
    function("vkCreateComputePipelines", &[("pipelines", int(2))]),
];

/// `libEGL`
pub(super) const EGL: LibraryPreset = LibraryPreset {
    key: "gpu_calls_egl",
    track: "EGL",
    libraries: &["libEGL.so.1"],
    variants: &["KHR", "EXT"],
    lookups: &[("eglGetProcAddress", 0)],
    functions: &[
        present("eglSwapBuffers", EGL_FRAMES),
        present("eglSwapBuffersWithDamage", EGL_FRAMES),
        function("eglClientWaitSync", &[("timeout_ns", long(3))]),
        function("eglWaitSync", &[]),
        function("eglWaitClient", &[]),
        function("eglWaitGL", &[]),
    ],
};

/// `libGLX`, and `libGL`, which calls it or has it within.
pub(super) const GLX: LibraryPreset = LibraryPreset {
    key: "gpu_calls_glx",
    track: "GLX",
    libraries: &["libGLX.so.0", "libGL.so.1"],
    variants: &[],
    lookups: &[("glXGetProcAddress", 0), ("glXGetProcAddressARB", 0)],
    functions: &[
        present("glXSwapBuffers", GLX_FRAMES),
        present("glXSwapBuffersMscOML", GLX_FRAMES),
        function("glXWaitGL", &[]),
        function("glXWaitX", &[]),
    ],
};
