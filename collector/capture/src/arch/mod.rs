//! What depends on this machine's CPU. Another one is a module beside `x86_64` with the same names,
//! and a folder in `bpf/include/arch`; ARCHITECTURE.md has the list.

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "syscollect-capture records on x86-64 only: another CPU needs a module in \
     collector/capture/src/arch (its counter, the events that count it, system calls that it has \
     alone, how its kernel counts interrupts, where its libraries lie), a folder in \
     bpf/include/arch, and the objects that `cargo xtask bpf` makes of it"
);
