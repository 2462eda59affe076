//! Probes in user programs: USDT probes, functions, calls of GPU libraries, instrumented programs
//! that announce themselves.
//!
//! **Duties.** Loading `bpf/probes.bpf.o`; finding out which files hold what was
//! asked for, and the probes of instrumented programs (`syscollect_usdt_client`), in
//! processes that run and in those that come; attaching; draining the hits into
//! chunks of [`LaneKind::Probe`](syscollect_model::LaneKind::Probe); telling
//! `crate::zones` of announced rings.
//!
//! **Non-goals.** What a file holds is read by `syscollect-probes`; what a hit
//! means is for `syscollect-merge`.
//!
//! Three threads share the work. The *manager* reads files and has them attached to, which
//! takes milliseconds each; *announcements* waits for instrumented programs; the
//! collector thread copies records out of mapped ring buffers. A process of its own, the
//! [*keeper*](keeper), holds what is attached, so that nothing stays when the recorder is killed.
//!
//! # Limits
//!
//! - Programs attach to a file, in every process that maps it: a filter by
//!   process is applied when a probe is hit, which costs the others the hit.
//! - A process that ends within the milliseconds between mapping a file and the
//!   attaching is missed, once for each file: later ones find it attached.
//! - The kernel follows returns of a thread to a depth of 64 calls. While one is
//!   awaited, the return address on the stack is the kernel's own: an exception
//!   that leaves such a function ends the program, and stacks of samples stop there.
//! - A text that was not read into memory yet by its program cannot be read at
//!   the hit; its argument is told as unreadable.
//! - Kernels before 5.15 have no cookies: each place gets a small program of its own there
//!   ([`cookies`]).

mod announcements;
mod attach;
mod attaching;
mod bounded_notes;
mod companion;
mod cookies;
mod cost;
mod counting;
mod descriptors;
mod dropped_announcements;
mod files;
mod found_functions;
mod hit_shares;
mod keeper;
mod known_file;
mod launch;
mod lookups;
mod manager;
mod mapping_tree;
mod object;
mod plan;
#[cfg(test)]
mod preloaded_tests;
mod presets;
mod process_slots;
mod program;
mod scan;
mod scan_queue;
mod semaphores;
mod single;
mod single_attaches;
mod source;
mod unattached;

pub(crate) use keeper::UprobeKeeper;
pub(crate) use manager::{ManagerInbox, MappedFiles};
pub(crate) use presets::{functions_in, installed_libraries};
pub(crate) use source::{ProbeSource, Setup};
