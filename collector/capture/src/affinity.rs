//! Running on a certain CPU for a moment.

/// Puts the thread back where it was allowed to run when dropped.
pub(crate) struct Affinity(libc::cpu_set_t);

/// Moves the thread to `cpu`; `None` where that is not permitted or the CPU is gone.
pub(crate) fn run_on(cpu: u32) -> Option<Affinity> {
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: an all-zero cpu_set_t is the empty set; both calls get valid sets
    // of the size stated, and CPU_SET ignores numbers beyond the set.
    unsafe {
        let mut before: libc::cpu_set_t = std::mem::zeroed();
        let mut wanted: libc::cpu_set_t = std::mem::zeroed();
        if cpu as usize >= size * 8 || libc::sched_getaffinity(0, size, &raw mut before) != 0 {
            return None;
        }
        libc::CPU_SET(cpu as usize, &mut wanted);
        (libc::sched_setaffinity(0, size, &raw const wanted) == 0).then_some(Affinity(before))
    }
}

impl Drop for Affinity {
    fn drop(&mut self) {
        // SAFETY: a set that sched_getaffinity filled in.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const self.0) };
    }
}
