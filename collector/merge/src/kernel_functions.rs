//! Which kernel functions say nothing about why a task waits.
//!
//! Names are those of Linux 5.10 to 7.2; a suffix that the compiler adds
//! (`.isra.0`, `.constprop.0`, `.cold`) does not count.

/// Beginnings of the names of frames that recording itself puts on top of a
/// kernel stack: from the tracepoint down into the BPF program and the helper
/// that walks the stack.
const TRACING: [&str; 13] = [
    "bpf_",               // bpf_prog_..., bpf_trace_run4, bpf_get_stack, bpf_trampoline_...
    "__bpf_",             // __bpf_trace_sched_switch, __bpf_get_stack, __bpf_prog_enter
    "____bpf_",           // ____bpf_get_stack, as the helpers' macros name it
    "trace_",             // trace_sched_switch where it is not inlined, trace_call_bpf
    "__trace_",           // __trace_sched_switch (6.x: out-of-line part)
    "__traceiter_",       // __traceiter_sched_switch (5.10 on)
    "__do_trace_",        // __do_trace_sched_waking (6.14 on)
    "trace_event_raw_",   // trace_event_raw_event_sched_switch
    "perf_trace_",        // perf_trace_sched_switch
    "perf_callchain_",    // perf_callchain_kernel
    "get_perf_callchain", // called by bpf_get_stack
    "perf_tp_event",      // perf's own users of the tracepoint
    "arch_stack_walk",
];

/// Functions of the scheduler's front door, in which every blocked task waits.
///
/// Not listed, because they say what is waited for: `wait_for_completion`,
/// `futex_wait_queue`, `mutex_lock`, `rwsem_down_*`, `do_nanosleep`, `pipe_read`.
const SCHEDULER: [&str; 9] = [
    "__schedule",       // also __schedule_loop
    "schedule", // schedule_timeout*, schedule_hrtimeout*, schedule_idle, schedule_preempt_disabled
    "preempt_schedule", // _common, _irq, _notrace, _thunk
    "__preempt_schedule",
    "__cond_resched", // also _lock, _rwlock
    "io_schedule",    // io_schedule_timeout, _prepare
    "rt_mutex_schedule",
    "raw_irqentry_exit_cond_resched",
    "context_switch",
];

/// Whether the function is part of how this program records.
pub fn is_of_recording(function: &str) -> bool {
    TRACING.iter().any(|prefix| function.starts_with(prefix))
}

/// Whether the function is the scheduler itself, so that its caller says more.
pub(crate) fn is_scheduler(function: &str) -> bool {
    SCHEDULER.iter().any(|word| {
        function
            .strip_prefix(word)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', '.']))
    })
}

/// Whether the kernel's function stands in every stack of a thread that blocks, and says nothing of
/// why it does: the scheduler's own, and what recording puts there.
pub fn is_in_every_wait(function: &str) -> bool {
    is_scheduler(function) || is_of_recording(function)
}

/// How many of the innermost frames belong to the recording: the run of
/// tracing frames at the top, up to its outermost one. Unnamed frames in
/// between are BPF programs that kallsyms does not show.
pub(crate) fn tracing_frames<'a>(functions: impl Iterator<Item = Option<&'a str>>) -> usize {
    let mut outermost = 0;
    for (index, function) in functions.enumerate() {
        match function {
            Some(name) if is_of_recording(name) => outermost = index + 1,
            Some(_) => break,
            None => {}
        }
    }
    outermost
}

/// The first function outside the scheduler and the recording, as its index.
///
/// `None` where an unnamed frame comes first: nobody knows whether it is
/// the scheduler.
pub(crate) fn blocking_frame<'a>(
    functions: impl Iterator<Item = Option<&'a str>>,
) -> Option<usize> {
    for (index, function) in functions.enumerate() {
        let name = function?;
        if !is_scheduler(name) && !is_of_recording(name) {
            return Some(index);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_reader_waits_in_pipe_read() {
        let stack = ["__schedule", "schedule", "pipe_read", "vfs_read"].map(Some);
        assert_eq!(blocking_frame(stack.into_iter()), Some(2));
    }

    #[test]
    fn what_is_waited_for_is_never_skipped() {
        let stack = [
            "__schedule.isra.0",
            "schedule",
            "schedule_timeout",
            "wait_for_completion",
            "flush_work",
        ]
        .map(Some);
        assert_eq!(blocking_frame(stack.into_iter()), Some(3));
        assert!(!is_scheduler("scheduler_tick"), "only whole words match");
        assert!(!is_scheduler("futex_wait_queue"));
    }

    #[test]
    fn an_unnamed_frame_is_not_taken_for_the_reason() {
        assert_eq!(blocking_frame([Some("__schedule"), None, Some("pipe_read")].into_iter()), None);
        assert_eq!(blocking_frame([Some("__schedule")].into_iter()), None);
    }

    #[test]
    fn frames_of_the_recording_are_cut_but_a_traced_program_keeps_its_own() {
        let own = [
            None,
            Some("bpf_trace_run4"),
            Some("__traceiter_sched_switch"),
            Some("__schedule"),
            Some("schedule"),
        ];
        assert_eq!(tracing_frames(own.into_iter()), 3);
        let program_that_calls_bpf =
            [Some("__schedule"), Some("bpf_map_update_elem"), Some("__sys_bpf")];
        assert_eq!(tracing_frames(program_that_calls_bpf.into_iter()), 0);
        assert_eq!(tracing_frames([None, None].into_iter()), 0, "without names nothing is cut");
    }
}
