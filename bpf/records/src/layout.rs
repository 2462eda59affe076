//! The tables from which `cargo xtask layouts` writes `bpf/include/records.h`.

use crate::{
    CounterRecord, GpuFailureRecord, LANE_HEADER_SIZE, LANE_SLACK, LaneHeader, LaneShare,
    MAX_FRAMES, PROBE_HAS_STACK, ProbeRecord, RingRecord, SampleRecord, SchedRecord,
    SchedStackRecord, StackHeader, TaskRecord, TracepointRecord, announced, gpu_failure,
    python::{self, CodeHeader, PythonFile, entry_rule, instruction_rule},
    sched_flags, stack_ending, stack_id, stack_space, statistic, task_state,
    unwind::{
        self, SleepingTask, StackMemoryHeader, UnwindRow, cfa_rule, frame_pointer_rule,
        frame_reached, memory_of,
    },
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
    UnwindRow::LAYOUT,
    StackMemoryHeader::LAYOUT,
    SleepingTask::LAYOUT,
    PythonFile::LAYOUT,
    CodeHeader::LAYOUT,
    LaneHeader::LAYOUT,
    LaneShare::LAYOUT,
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
    ("STACK_PYTHON_CODE", stack_space::PYTHON_CODE as u64),
    ("STACK_TOO_DEEP", stack_ending::TOO_DEEP as u64),
    ("STACK_NO_UNWIND_INFORMATION", stack_ending::NO_UNWIND_INFORMATION as u64),
    ("STACK_UNREADABLE", stack_ending::UNREADABLE as u64),
    ("STACK_NO_TABLE_YET", stack_ending::NO_TABLE_YET as u64),
    ("STACK_UNUSABLE_INFORMATION", stack_ending::UNUSABLE_INFORMATION as u64),
    ("STACK_FRAME_POINTERS", stack_ending::FRAME_POINTERS as u64),
    ("UNWIND_PAGE_BYTES", unwind::PAGE_BYTES),
    ("UNWIND_ROWS_MAX", unwind::ROWS_MAX as u64),
    ("STACK_MEMORY_PART_BYTES", unwind::MEMORY_PART_BYTES as u64),
    ("STACK_MEMORY_PARTS", unwind::MEMORY_PARTS as u64),
    ("MEMORY_OF_SCHED", memory_of::SCHED as u64),
    ("MEMORY_OF_SAMPLE", memory_of::SAMPLE as u64),
    ("MEMORY_OF_PROBE", memory_of::PROBE as u64),
    ("PYTHON_FILES", python::FILES_MAX as u64),
    ("PYTHON_FRAME", python::FRAME),
    ("PYTHON_ENTRY", python::ENTRY),
    ("PYTHON_ID_SHIFT", python::ID_SHIFT as u64),
    ("PYTHON_PLACE_MASK", python::PLACE_MASK),
    ("PYTHON_FRAME_BYTES", python::FRAME_BYTES as u64),
    ("PYTHON_CODE_BYTES", python::CODE_BYTES as u64),
    ("PYTHON_NAME_BYTES", python::NAME_BYTES as u64),
    ("PYTHON_FILE_BYTES", python::FILE_BYTES as u64),
    ("PYTHON_LINES_BYTES", python::LINES_BYTES as u64),
    ("PYTHON_ENTRY_EACH", entry_rule::EACH as u64),
    ("PYTHON_ENTRY_FLAG", entry_rule::FLAG as u64),
    ("PYTHON_ENTRY_OWNER", entry_rule::OWNER as u64),
    ("PYTHON_INSTRUCTION_BYTES", instruction_rule::BYTES as u64),
    ("PYTHON_INSTRUCTION_WORDS", instruction_rule::WORDS as u64),
    ("PYTHON_INSTRUCTION_ADDRESS", instruction_rule::ADDRESS as u64),
    ("CFA_NONE", cfa_rule::NONE as u64),
    ("CFA_RSP", cfa_rule::RSP as u64),
    ("CFA_RBP", cfa_rule::RBP as u64),
    ("CFA_AT_RSP", cfa_rule::AT_RSP as u64),
    ("CFA_AT_RSP_PLUS_WORD", cfa_rule::AT_RSP_PLUS_WORD as u64),
    ("CFA_AT_RBP", cfa_rule::AT_RBP as u64),
    ("CFA_AT_RBP_PLUS_WORD", cfa_rule::AT_RBP_PLUS_WORD as u64),
    ("CFA_PLT", cfa_rule::PLT as u64),
    ("CFA_SIGNAL", cfa_rule::SIGNAL as u64),
    ("CFA_END", cfa_rule::END as u64),
    ("CFA_RSP_FAR", cfa_rule::RSP_FAR as u64),
    ("CFA_INEXPRESSIBLE", cfa_rule::INEXPRESSIBLE as u64),
    ("CFA_REGISTER", cfa_rule::REGISTER as u64),
    ("CFA_RETURN_REGISTER", cfa_rule::RETURN_REGISTER as u64),
    ("FRAME_POINTER_SAME", frame_pointer_rule::SAME as u64),
    ("FRAME_POINTER_AT_CFA", frame_pointer_rule::AT_CFA as u64),
    ("FRAME_POINTER_AT_RBP", frame_pointer_rule::AT_RBP as u64),
    ("FRAME_POINTER_LOST", frame_pointer_rule::LOST as u64),
    ("LOST_FRAME_POINTER", unwind::LOST_FRAME_POINTER),
    ("FRAME_CALLED", frame_reached::CALLED as u64),
    ("FRAME_LINKED", frame_reached::LINKED as u64),
    ("FRAME_RUNNING", frame_reached::RUNNING as u64),
    ("FRAME_INTERRUPTED", frame_reached::INTERRUPTED as u64),
    ("SAVED_REGISTERS", unwind::SAVED_REGISTERS as u64),
    ("RUNNING_ORDER", unwind::RUNNING_ORDER),
    ("INTERRUPTED_ORDER", unwind::INTERRUPTED_ORDER),
    ("STATISTIC_WRITTEN", statistic::WRITTEN as u64),
    ("STATISTIC_STACKS", statistic::STACKS as u64),
    ("STATISTIC_STACKS_SENT", statistic::STACKS_SENT as u64),
    ("STATISTIC_STACKS_LOST", statistic::STACKS_LOST as u64),
    ("STATISTIC_SLOT_HITS", statistic::SLOT_HITS as u64),
    ("STATISTIC_SLOT_MISSES", statistic::SLOT_MISSES as u64),
    ("STATISTIC_CROSS_CHECKED", statistic::CROSS_CHECKED as u64),
    ("STATISTIC_CROSS_DIFFERENT", statistic::CROSS_DIFFERENT as u64),
    ("STATISTIC_USER_UNREADABLE", statistic::USER_UNREADABLE as u64),
    ("STATISTIC_USER_WALKS", statistic::USER_WALKS as u64),
    ("STATISTIC_STACK_MEMORY", statistic::STACK_MEMORY as u64),
    ("STATISTIC_USER_SLOT_HITS", statistic::USER_SLOT_HITS as u64),
    ("STATISTIC_USER_CROSS_CHECKED", statistic::USER_CROSS_CHECKED as u64),
    ("STATISTIC_USER_CROSS_DIFFERENT", statistic::USER_CROSS_DIFFERENT as u64),
    ("PROBE_HAS_STACK", PROBE_HAS_STACK as u64),
    ("ANNOUNCED_UNKNOWN", announced::UNKNOWN as u64),
    ("ANNOUNCED_ARENA", announced::ARENA as u64),
    ("ANNOUNCED_OTHER", announced::OTHER as u64),
    ("GPU_FAILURE_FENCE", gpu_failure::FENCE as u64),
    ("GPU_FAILURE_SCHEDULER", gpu_failure::SCHEDULER as u64),
    ("LANE_HEADER_SIZE", LANE_HEADER_SIZE as u64),
    ("LANE_SLACK", LANE_SLACK as u64),
    ("MAX_FRAMES", MAX_FRAMES as u64),
];
