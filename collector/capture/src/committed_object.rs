//! The objects of the kernel programs as they are committed, built by `cargo xtask bpf`.

/// An object file, compressed: see `build.rs`.
pub(crate) struct CommittedObject(&'static [u8]);

macro_rules! committed {
    ($name:literal) => {
        CommittedObject(include_bytes!(concat!(env!("OUT_DIR"), "/", $name)))
    };
}

/// Scheduling, tasks and samples.
pub(crate) static SYSCOLLECT: CommittedObject = committed!("syscollect.bpf.o");
/// The same for kernels whose functions of programs are handed numbers only.
pub(crate) static OLDER: CommittedObject = committed!("older.bpf.o");
/// Hits of probes, and instrumented programs.
pub(crate) static PROBES: CommittedObject = committed!("probes.bpf.o");
/// The same with the stacks of hits.
pub(crate) static PROBE_STACKS: CommittedObject = committed!("probe_stacks.bpf.o");
/// Who has a file mapped.
pub(crate) static MAPPERS: CommittedObject = committed!("mappers.bpf.o");
/// Threads that sleep.
pub(crate) static SLEEPERS: CommittedObject = committed!("sleepers.bpf.o");
/// Any tracepoint.
pub(crate) static TRACEPOINTS: CommittedObject = committed!("tracepoints.bpf.o");
/// Jobs of GPUs that failed.
pub(crate) static FENCES: CommittedObject = committed!("fences.bpf.o");

impl CommittedObject {
    /// The object file's bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        lz4_flex::block::decompress_size_prepended(self.0).expect("the build compressed it")
    }
}
