//! What depends on the CPU. Another one is a folder beside `x86_64` with the same names.

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "syscollect-usdt-client instruments programs on x86-64 only, depend on it for that target: \
     another CPU needs a folder in usdt-client/src/arch (its counter, whether that runs at one \
     rate, a fence before it, its registers in unwind tables, nops and registers of the probes)"
);
