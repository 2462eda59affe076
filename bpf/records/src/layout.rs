//! The tables from which `cargo xtask layouts` writes `bpf/include/records.h`.

use crate::{
    CounterRecord, GpuFailureRecord, LANE_HEADER_SIZE, LANE_SLACK, LaneHeader, MAX_FRAMES,
    ProbeRecord, RingRecord, SampleRecord, SchedRecord, SchedStackRecord, StackHeader, TaskRecord,
    TracepointRecord, gpu_failure, sched_flags, stack_id, stack_space, statistic, task_state,
};

/// One field of a [`StructLayout`].
#[derive(Clone, Copy, Debug)]
pub struct FieldLayout {
    /// The field's name.
    pub name: &'static str,
    /// Its declaration in C without the semicolon: `"__u64 lost[32]"`.
    pub c_type: &'static str,
    /// Bytes from the start of the structure.
    pub offset: usize,
}

/// One structure of the generated header.
#[derive(Clone, Copy, Debug)]
pub struct StructLayout {
    /// The name, the same in both languages.
    pub name: &'static str,
    /// Bytes.
    pub size: usize,
    /// The fields in order.
    pub fields: &'static [FieldLayout],
}

/// Every structure that the kernel programs use.
pub const LAYOUTS: &[StructLayout] = &[
    SchedRecord::LAYOUT,
    SchedStackRecord::LAYOUT,
    SampleRecord::LAYOUT,
    TaskRecord::LAYOUT,
    StackHeader::LAYOUT,
    CounterRecord::LAYOUT,
    ProbeRecord::LAYOUT,
    TracepointRecord::LAYOUT,
    GpuFailureRecord::LAYOUT,
    RingRecord::LAYOUT,
    LaneHeader::LAYOUT,
];

/// Every constant of the generated header besides the record kinds.
pub const CONSTANTS: &[(&str, u64)] = &[
    ("SCHED_PREEMPTED", sched_flags::PREEMPTED as u64),
    ("SCHED_IO_WAIT", sched_flags::IO_WAIT as u64),
    ("SCHED_FROM_INTERRUPT", sched_flags::FROM_INTERRUPT as u64),
    ("STATE_UNINTERRUPTIBLE", task_state::UNINTERRUPTIBLE as u64),
    ("STATE_DEAD", task_state::DEAD as u64),
    ("STATE_IDLE", task_state::IDLE as u64),
    ("STACK_NONE", stack_id::NONE as u64),
    ("STACK_LOST", stack_id::LOST as u64),
    ("STACK_USER", stack_space::USER as u64),
    ("STACK_KERNEL", stack_space::KERNEL as u64),
    ("STATISTIC_WRITTEN", statistic::WRITTEN as u64),
    ("STATISTIC_STACKS", statistic::STACKS as u64),
    ("STATISTIC_STACKS_SENT", statistic::STACKS_SENT as u64),
    ("STATISTIC_STACKS_LOST", statistic::STACKS_LOST as u64),
    ("STATISTIC_SLOT_HITS", statistic::SLOT_HITS as u64),
    ("STATISTIC_SLOT_MISSES", statistic::SLOT_MISSES as u64),
    ("STATISTIC_CROSS_CHECKED", statistic::CROSS_CHECKED as u64),
    ("STATISTIC_CROSS_DIFFERENT", statistic::CROSS_DIFFERENT as u64),
    ("STATISTIC_USER_UNREADABLE", statistic::USER_UNREADABLE as u64),
    ("GPU_FAILURE_FENCE", gpu_failure::FENCE as u64),
    ("GPU_FAILURE_SCHEDULER", gpu_failure::SCHEDULER as u64),
    ("LANE_HEADER_SIZE", LANE_HEADER_SIZE as u64),
    ("LANE_SLACK", LANE_SLACK as u64),
    ("MAX_FRAMES", MAX_FRAMES as u64),
];
