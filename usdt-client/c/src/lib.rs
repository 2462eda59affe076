//! `libsyscollect_client.a` and `.so`: the client as C and C++ link it. See `include/syscollect.h`.

#[doc(hidden)]
pub use syscollect_usdt_client::ffi::*;
