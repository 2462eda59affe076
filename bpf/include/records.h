/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* Generated from bpf/records/src by `cargo xtask layouts`; do not edit. */
/* The includer defines __u8, __u16, __u32 and __u64. */
#ifndef SYSCOLLECT_RECORDS_H
#define SYSCOLLECT_RECORDS_H

/* What a record describes: the low byte of its stamp. */
enum record_kind {
	KIND_SWITCH = 1,
	KIND_WAKING = 2,
	KIND_WAKEUP_NEW = 3,
	KIND_MIGRATE = 4,
	KIND_FREQUENCY = 5,
	KIND_RESUME = 6,
	KIND_SAMPLE = 8,
	KIND_FORK = 9,
	KIND_EXEC = 10,
	KIND_EXIT = 11,
	KIND_RENAME = 12,
	KIND_STACK = 13,
	KIND_COUNTER = 16,
	KIND_CLOCK = 17,
	KIND_PROBE = 18,
	KIND_RING = 19,
	KIND_TRACEPOINT = 20,
	KIND_GPU_FAILURE = 21,
};

#define SCHED_PREEMPTED 1
#define SCHED_IO_WAIT 2
#define SCHED_FROM_INTERRUPT 4
#define STATE_UNINTERRUPTIBLE 2
#define STATE_DEAD 16
#define STATE_IDLE 128
#define STACK_NONE 0
#define STACK_LOST 4294967295U
#define STACK_USER 0
#define STACK_KERNEL 1
#define STACK_PYTHON_CODE 2
#define STACK_TOO_DEEP 1
#define STACK_NO_UNWIND_INFORMATION 2
#define STACK_UNREADABLE 3
#define STACK_NO_TABLE_YET 4
#define STACK_UNUSABLE_INFORMATION 5
#define STACK_FRAME_POINTERS 6
#define STACK_MEMORY_GONE 7
#define UNWIND_PAGE_BYTES 65536
#define UNWIND_ROWS_MAX 16384
#define STACK_MEMORY_PART_BYTES 2048
#define STACK_MEMORY_PARTS 32
#define STACK_MEMORY_TOP_PARTS 44
#define MEMORY_OF_SCHED 0
#define MEMORY_OF_SAMPLE 1
#define MEMORY_OF_PROBE 2
#define PYTHON_FILES 64
#define PYTHON_FRAME 9223372036854775808U
#define PYTHON_ENTRY 4611686018427387904U
#define PYTHON_ID_SHIFT 24
#define PYTHON_PLACE_MASK 16777215
#define PYTHON_FRAME_BYTES 128
#define PYTHON_CODE_BYTES 256
#define PYTHON_NAME_BYTES 256
#define PYTHON_FILE_BYTES 512
#define PYTHON_LINES_BYTES 2048
#define PYTHON_ENTRY_EACH 0
#define PYTHON_ENTRY_FLAG 1
#define PYTHON_ENTRY_OWNER 2
#define PYTHON_INSTRUCTION_BYTES 0
#define PYTHON_INSTRUCTION_WORDS 1
#define PYTHON_INSTRUCTION_ADDRESS 2
#define HOTSPOT_FILES 64
#define MEMBER_LENGTH 0
#define MEMBER_DATA 1
#define MEMBER_MEMORY 2
#define MEMBER_SEGMENTS 3
#define MEMBER_SEGMENT_SIZE 4
#define MEMBER_LOW_BOUNDARY 5
#define MEMBER_HIGH_BOUNDARY 6
#define MEMBER_LOW 7
#define MEMBER_SIZE 8
#define MEMBER_FRAME_SIZE 9
#define MEMBER_FRAME_COMPLETE 10
#define MEMBER_CODE 11
#define MEMBER_INTERPRETER_BEGIN 12
#define MEMBER_INTERPRETER_SIZE 13
#define MEMBERS 14
#define CONTINUATION_BARRIER 0
#define CONTINUATION_TAIL 1
#define CONTINUATION_CHUNK_PC 2
#define CONTINUATION_CHUNK_SP 3
#define CONTINUATION_CHUNK_BOTTOM 4
#define CONTINUATION_CHUNK_PARENT 5
#define CONTINUATION_CHUNK_STACK 6
#define CONTINUATION_NARROW_BASE 7
#define CONTINUATION_NARROW_SHIFT 8
#define CONTINUATION_COMPRESSED 9
#define CONTINUATIONS 10
#define CFA_NONE 0
#define CFA_RSP 1
#define CFA_RBP 2
#define CFA_AT_RSP 3
#define CFA_AT_RSP_PLUS_WORD 4
#define CFA_AT_RBP 5
#define CFA_AT_RBP_PLUS_WORD 6
#define CFA_PLT 7
#define CFA_SIGNAL 8
#define CFA_END 9
#define CFA_RSP_FAR 10
#define CFA_INEXPRESSIBLE 11
#define CFA_GO_SYSTEM_STACK 12
#define CFA_GO_MORE_STACK 13
#define CFA_GO_C_STACK 14
#define CFA_REGISTER 16
#define CFA_RETURN_REGISTER 32
#define FRAME_POINTER_SAME 0
#define FRAME_POINTER_AT_CFA 1
#define FRAME_POINTER_AT_RBP 2
#define FRAME_POINTER_LOST 3
#define LOST_FRAME_POINTER 1
#define FRAME_CALLED 0
#define FRAME_LINKED 1
#define FRAME_RUNNING 2
#define FRAME_INTERRUPTED 3
#define SAVED_REGISTERS 15
#define RUNNING_ORDER 82023060440177610U
#define INTERRUPTED_ORDER 8526495043023388365U
#define STATISTIC_WRITTEN 0
#define STATISTIC_STACKS 1
#define STATISTIC_STACKS_SENT 2
#define STATISTIC_STACKS_LOST 3
#define STATISTIC_SLOT_HITS 4
#define STATISTIC_SLOT_MISSES 5
#define STATISTIC_CROSS_CHECKED 6
#define STATISTIC_CROSS_DIFFERENT 7
#define STATISTIC_USER_UNREADABLE 8
#define STATISTIC_USER_WALKS 9
#define STATISTIC_STACK_MEMORY 17
#define STATISTIC_USER_SLOT_HITS 18
#define STATISTIC_USER_CROSS_CHECKED 19
#define STATISTIC_USER_CROSS_DIFFERENT 20
#define PROBE_HAS_STACK 2147483648U
#define ANNOUNCED_UNKNOWN 0
#define ANNOUNCED_ARENA 1
#define ANNOUNCED_OTHER 2
#define GPU_FAILURE_FENCE 0
#define GPU_FAILURE_SCHEDULER 1
#define LANE_HEADER_SIZE 4096
#define LANE_SLACK 4096
#define MAX_FRAMES 127

struct SchedRecord {
	__u64 stamp;
	__u32 tid;
	__u8 state;
	__u8 prio;
	__u8 next_prio;
	__u8 flags;
};
_Static_assert(sizeof(struct SchedRecord) == 16, "size of SchedRecord");
_Static_assert(__builtin_offsetof(struct SchedRecord, stamp) == 0, "SchedRecord.stamp");
_Static_assert(__builtin_offsetof(struct SchedRecord, tid) == 8, "SchedRecord.tid");
_Static_assert(__builtin_offsetof(struct SchedRecord, state) == 12, "SchedRecord.state");
_Static_assert(__builtin_offsetof(struct SchedRecord, prio) == 13, "SchedRecord.prio");
_Static_assert(__builtin_offsetof(struct SchedRecord, next_prio) == 14, "SchedRecord.next_prio");
_Static_assert(__builtin_offsetof(struct SchedRecord, flags) == 15, "SchedRecord.flags");

struct SchedStackRecord {
	struct SchedRecord event;
	__u32 user_stack;
	__u32 kernel_stack;
};
_Static_assert(sizeof(struct SchedStackRecord) == 24, "size of SchedStackRecord");
_Static_assert(__builtin_offsetof(struct SchedStackRecord, event) == 0, "SchedStackRecord.event");
_Static_assert(__builtin_offsetof(struct SchedStackRecord, user_stack) == 16,
	       "SchedStackRecord.user_stack");
_Static_assert(__builtin_offsetof(struct SchedStackRecord, kernel_stack) == 20,
	       "SchedStackRecord.kernel_stack");

struct SampleRecord {
	__u64 stamp;
	__u32 tid;
	__u32 lost_before;
	__u32 user_stack;
	__u32 kernel_stack;
};
_Static_assert(sizeof(struct SampleRecord) == 24, "size of SampleRecord");
_Static_assert(__builtin_offsetof(struct SampleRecord, stamp) == 0, "SampleRecord.stamp");
_Static_assert(__builtin_offsetof(struct SampleRecord, tid) == 8, "SampleRecord.tid");
_Static_assert(__builtin_offsetof(struct SampleRecord, lost_before) == 12,
	       "SampleRecord.lost_before");
_Static_assert(__builtin_offsetof(struct SampleRecord, user_stack) == 16,
	       "SampleRecord.user_stack");
_Static_assert(__builtin_offsetof(struct SampleRecord, kernel_stack) == 20,
	       "SampleRecord.kernel_stack");

struct TaskRecord {
	__u64 stamp;
	__u32 tid;
	__u32 tgid;
	__u32 parent_tid;
	__u32 parent_tgid;
	__u8 comm[16];
	__u64 start_time;
	__u32 exit_code;
	__u32 lost_before;
};
_Static_assert(sizeof(struct TaskRecord) == 56, "size of TaskRecord");
_Static_assert(__builtin_offsetof(struct TaskRecord, stamp) == 0, "TaskRecord.stamp");
_Static_assert(__builtin_offsetof(struct TaskRecord, tid) == 8, "TaskRecord.tid");
_Static_assert(__builtin_offsetof(struct TaskRecord, tgid) == 12, "TaskRecord.tgid");
_Static_assert(__builtin_offsetof(struct TaskRecord, parent_tid) == 16, "TaskRecord.parent_tid");
_Static_assert(__builtin_offsetof(struct TaskRecord, parent_tgid) == 20, "TaskRecord.parent_tgid");
_Static_assert(__builtin_offsetof(struct TaskRecord, comm) == 24, "TaskRecord.comm");
_Static_assert(__builtin_offsetof(struct TaskRecord, start_time) == 40, "TaskRecord.start_time");
_Static_assert(__builtin_offsetof(struct TaskRecord, exit_code) == 48, "TaskRecord.exit_code");
_Static_assert(__builtin_offsetof(struct TaskRecord, lost_before) == 52, "TaskRecord.lost_before");

struct StackHeader {
	__u64 stamp;
	__u32 id;
	__u32 tgid;
	__u16 frames;
	__u16 space;
	__u32 truncated;
};
_Static_assert(sizeof(struct StackHeader) == 24, "size of StackHeader");
_Static_assert(__builtin_offsetof(struct StackHeader, stamp) == 0, "StackHeader.stamp");
_Static_assert(__builtin_offsetof(struct StackHeader, id) == 8, "StackHeader.id");
_Static_assert(__builtin_offsetof(struct StackHeader, tgid) == 12, "StackHeader.tgid");
_Static_assert(__builtin_offsetof(struct StackHeader, frames) == 16, "StackHeader.frames");
_Static_assert(__builtin_offsetof(struct StackHeader, space) == 18, "StackHeader.space");
_Static_assert(__builtin_offsetof(struct StackHeader, truncated) == 20, "StackHeader.truncated");

struct CounterRecord {
	__u64 stamp;
	__u64 counter;
	__u64 value;
};
_Static_assert(sizeof(struct CounterRecord) == 24, "size of CounterRecord");
_Static_assert(__builtin_offsetof(struct CounterRecord, stamp) == 0, "CounterRecord.stamp");
_Static_assert(__builtin_offsetof(struct CounterRecord, counter) == 8, "CounterRecord.counter");
_Static_assert(__builtin_offsetof(struct CounterRecord, value) == 16, "CounterRecord.value");

struct ProbeRecord {
	__u64 stamp;
	__u32 tid;
	__u32 tgid;
	__u32 probe;
	__u16 size;
	__u8 arguments;
	__u8 texts;
	__u64 stack_pointer;
	__u32 unreadable;
	__u32 cpu;
};
_Static_assert(sizeof(struct ProbeRecord) == 40, "size of ProbeRecord");
_Static_assert(__builtin_offsetof(struct ProbeRecord, stamp) == 0, "ProbeRecord.stamp");
_Static_assert(__builtin_offsetof(struct ProbeRecord, tid) == 8, "ProbeRecord.tid");
_Static_assert(__builtin_offsetof(struct ProbeRecord, tgid) == 12, "ProbeRecord.tgid");
_Static_assert(__builtin_offsetof(struct ProbeRecord, probe) == 16, "ProbeRecord.probe");
_Static_assert(__builtin_offsetof(struct ProbeRecord, size) == 20, "ProbeRecord.size");
_Static_assert(__builtin_offsetof(struct ProbeRecord, arguments) == 22, "ProbeRecord.arguments");
_Static_assert(__builtin_offsetof(struct ProbeRecord, texts) == 23, "ProbeRecord.texts");
_Static_assert(__builtin_offsetof(struct ProbeRecord, stack_pointer) == 24,
	       "ProbeRecord.stack_pointer");
_Static_assert(__builtin_offsetof(struct ProbeRecord, unreadable) == 32, "ProbeRecord.unreadable");
_Static_assert(__builtin_offsetof(struct ProbeRecord, cpu) == 36, "ProbeRecord.cpu");

struct TracepointRecord {
	__u64 stamp;
	__u32 tid;
	__u32 tgid;
	__u32 tracepoint;
	__u16 bytes;
	__u16 interrupt;
	__u32 cpu;
	__u32 reserved;
};
_Static_assert(sizeof(struct TracepointRecord) == 32, "size of TracepointRecord");
_Static_assert(__builtin_offsetof(struct TracepointRecord, stamp) == 0, "TracepointRecord.stamp");
_Static_assert(__builtin_offsetof(struct TracepointRecord, tid) == 8, "TracepointRecord.tid");
_Static_assert(__builtin_offsetof(struct TracepointRecord, tgid) == 12, "TracepointRecord.tgid");
_Static_assert(__builtin_offsetof(struct TracepointRecord, tracepoint) == 16,
	       "TracepointRecord.tracepoint");
_Static_assert(__builtin_offsetof(struct TracepointRecord, bytes) == 20, "TracepointRecord.bytes");
_Static_assert(__builtin_offsetof(struct TracepointRecord, interrupt) == 22,
	       "TracepointRecord.interrupt");
_Static_assert(__builtin_offsetof(struct TracepointRecord, cpu) == 24, "TracepointRecord.cpu");
_Static_assert(__builtin_offsetof(struct TracepointRecord, reserved) == 28,
	       "TracepointRecord.reserved");

struct GpuFailureRecord {
	__u64 stamp;
	__u32 tid;
	__u32 tgid;
	__s32 error;
	__u16 bytes;
	__u16 told_by;
	__u32 cpu;
	__u32 reserved;
	__u64 fence;
	__u64 context;
	__u64 sequence;
};
_Static_assert(sizeof(struct GpuFailureRecord) == 56, "size of GpuFailureRecord");
_Static_assert(__builtin_offsetof(struct GpuFailureRecord, stamp) == 0, "GpuFailureRecord.stamp");
_Static_assert(__builtin_offsetof(struct GpuFailureRecord, tid) == 8, "GpuFailureRecord.tid");
_Static_assert(__builtin_offsetof(struct GpuFailureRecord, tgid) == 12, "GpuFailureRecord.tgid");
_Static_assert(__builtin_offsetof(struct GpuFailureRecord, error) == 16, "GpuFailureRecord.error");
_Static_assert(__builtin_offsetof(struct GpuFailureRecord, bytes) == 20, "GpuFailureRecord.bytes");
_Static_assert(__builtin_offsetof(struct GpuFailureRecord, told_by) == 22,
	       "GpuFailureRecord.told_by");
_Static_assert(__builtin_offsetof(struct GpuFailureRecord, cpu) == 24, "GpuFailureRecord.cpu");
_Static_assert(__builtin_offsetof(struct GpuFailureRecord, reserved) == 28,
	       "GpuFailureRecord.reserved");
_Static_assert(__builtin_offsetof(struct GpuFailureRecord, fence) == 32, "GpuFailureRecord.fence");
_Static_assert(__builtin_offsetof(struct GpuFailureRecord, context) == 40,
	       "GpuFailureRecord.context");
_Static_assert(__builtin_offsetof(struct GpuFailureRecord, sequence) == 48,
	       "GpuFailureRecord.sequence");

struct RingRecord {
	__u64 stamp;
	__u32 tid;
	__u32 tgid;
	__u32 descriptor;
	__u32 ring;
	__u32 user;
	__u16 announced;
	__u16 is_young;
	__u64 inode;
};
_Static_assert(sizeof(struct RingRecord) == 40, "size of RingRecord");
_Static_assert(__builtin_offsetof(struct RingRecord, stamp) == 0, "RingRecord.stamp");
_Static_assert(__builtin_offsetof(struct RingRecord, tid) == 8, "RingRecord.tid");
_Static_assert(__builtin_offsetof(struct RingRecord, tgid) == 12, "RingRecord.tgid");
_Static_assert(__builtin_offsetof(struct RingRecord, descriptor) == 16, "RingRecord.descriptor");
_Static_assert(__builtin_offsetof(struct RingRecord, ring) == 20, "RingRecord.ring");
_Static_assert(__builtin_offsetof(struct RingRecord, user) == 24, "RingRecord.user");
_Static_assert(__builtin_offsetof(struct RingRecord, announced) == 28, "RingRecord.announced");
_Static_assert(__builtin_offsetof(struct RingRecord, is_young) == 30, "RingRecord.is_young");
_Static_assert(__builtin_offsetof(struct RingRecord, inode) == 32, "RingRecord.inode");

struct UnwindRow {
	__u16 address;
	__u8 cfa;
	__u8 frame_pointer;
	__s16 cfa_offset;
	__s16 saved_offset;
};
_Static_assert(sizeof(struct UnwindRow) == 8, "size of UnwindRow");
_Static_assert(__builtin_offsetof(struct UnwindRow, address) == 0, "UnwindRow.address");
_Static_assert(__builtin_offsetof(struct UnwindRow, cfa) == 2, "UnwindRow.cfa");
_Static_assert(__builtin_offsetof(struct UnwindRow, frame_pointer) == 3, "UnwindRow.frame_pointer");
_Static_assert(__builtin_offsetof(struct UnwindRow, cfa_offset) == 4, "UnwindRow.cfa_offset");
_Static_assert(__builtin_offsetof(struct UnwindRow, saved_offset) == 6, "UnwindRow.saved_offset");

struct StackMemoryHeader {
	__u32 cpu;
	__u32 of;
	__u32 id;
	__u32 uid;
	__u16 reached;
	__u16 returns_at_sp;
	__u32 bytes;
	__u64 ip;
	__u64 sp;
	__u64 bp;
	__u64 start;
	__u64 file;
	__u64 code_start;
	__u64 code_end;
	__u64 code_bias;
	__u64 registers[15];
};
_Static_assert(sizeof(struct StackMemoryHeader) == 208, "size of StackMemoryHeader");
_Static_assert(__builtin_offsetof(struct StackMemoryHeader, cpu) == 0, "StackMemoryHeader.cpu");
_Static_assert(__builtin_offsetof(struct StackMemoryHeader, of) == 4, "StackMemoryHeader.of");
_Static_assert(__builtin_offsetof(struct StackMemoryHeader, id) == 8, "StackMemoryHeader.id");
_Static_assert(__builtin_offsetof(struct StackMemoryHeader, uid) == 12, "StackMemoryHeader.uid");
_Static_assert(__builtin_offsetof(struct StackMemoryHeader, reached) == 16,
	       "StackMemoryHeader.reached");
_Static_assert(__builtin_offsetof(struct StackMemoryHeader, returns_at_sp) == 18,
	       "StackMemoryHeader.returns_at_sp");
_Static_assert(__builtin_offsetof(struct StackMemoryHeader, bytes) == 20,
	       "StackMemoryHeader.bytes");
_Static_assert(__builtin_offsetof(struct StackMemoryHeader, ip) == 24, "StackMemoryHeader.ip");
_Static_assert(__builtin_offsetof(struct StackMemoryHeader, sp) == 32, "StackMemoryHeader.sp");
_Static_assert(__builtin_offsetof(struct StackMemoryHeader, bp) == 40, "StackMemoryHeader.bp");
_Static_assert(__builtin_offsetof(struct StackMemoryHeader, start) == 48,
	       "StackMemoryHeader.start");
_Static_assert(__builtin_offsetof(struct StackMemoryHeader, file) == 56, "StackMemoryHeader.file");
_Static_assert(__builtin_offsetof(struct StackMemoryHeader, code_start) == 64,
	       "StackMemoryHeader.code_start");
_Static_assert(__builtin_offsetof(struct StackMemoryHeader, code_end) == 72,
	       "StackMemoryHeader.code_end");
_Static_assert(__builtin_offsetof(struct StackMemoryHeader, code_bias) == 80,
	       "StackMemoryHeader.code_bias");
_Static_assert(__builtin_offsetof(struct StackMemoryHeader, registers) == 88,
	       "StackMemoryHeader.registers");

struct SleepingTask {
	__u32 tid;
	__u32 tgid;
	__u32 io_wait;
	__u32 kernel_frames;
	__u64 switches;
	__u64 ip;
	__u64 sp;
	__u64 registers[15];
};
_Static_assert(sizeof(struct SleepingTask) == 160, "size of SleepingTask");
_Static_assert(__builtin_offsetof(struct SleepingTask, tid) == 0, "SleepingTask.tid");
_Static_assert(__builtin_offsetof(struct SleepingTask, tgid) == 4, "SleepingTask.tgid");
_Static_assert(__builtin_offsetof(struct SleepingTask, io_wait) == 8, "SleepingTask.io_wait");
_Static_assert(__builtin_offsetof(struct SleepingTask, kernel_frames) == 12,
	       "SleepingTask.kernel_frames");
_Static_assert(__builtin_offsetof(struct SleepingTask, switches) == 16, "SleepingTask.switches");
_Static_assert(__builtin_offsetof(struct SleepingTask, ip) == 24, "SleepingTask.ip");
_Static_assert(__builtin_offsetof(struct SleepingTask, sp) == 32, "SleepingTask.sp");
_Static_assert(__builtin_offsetof(struct SleepingTask, registers) == 40, "SleepingTask.registers");

struct PythonFile {
	__u64 runtime;
	__u64 code_type;
	__u64 loops[4];
	__u32 interpreter;
	__u32 threads;
	__u16 thread_next;
	__u16 thread_id;
	__u16 thread_frame;
	__u16 kept_frame;
	__u16 frame_bytes;
	__u16 frame_code;
	__u16 frame_previous;
	__u16 frame_instruction;
	__u16 frame_entry;
	__u16 code_bytes;
	__u16 code_first_line;
	__u16 code_file;
	__u16 code_name;
	__u16 code_lines;
	__u16 code_instructions;
	__u16 text_length;
	__u16 text_state;
	__u16 text_ascii;
	__u16 text_other;
	__u16 bytes_length;
	__u16 bytes_data;
	__u16 object_type;
	__u8 version;
	__u8 entry;
	__u8 instruction;
	__u8 text_kind;
};
_Static_assert(sizeof(struct PythonFile) == 104, "size of PythonFile");
_Static_assert(__builtin_offsetof(struct PythonFile, runtime) == 0, "PythonFile.runtime");
_Static_assert(__builtin_offsetof(struct PythonFile, code_type) == 8, "PythonFile.code_type");
_Static_assert(__builtin_offsetof(struct PythonFile, loops) == 16, "PythonFile.loops");
_Static_assert(__builtin_offsetof(struct PythonFile, interpreter) == 48, "PythonFile.interpreter");
_Static_assert(__builtin_offsetof(struct PythonFile, threads) == 52, "PythonFile.threads");
_Static_assert(__builtin_offsetof(struct PythonFile, thread_next) == 56, "PythonFile.thread_next");
_Static_assert(__builtin_offsetof(struct PythonFile, thread_id) == 58, "PythonFile.thread_id");
_Static_assert(__builtin_offsetof(struct PythonFile, thread_frame) == 60,
	       "PythonFile.thread_frame");
_Static_assert(__builtin_offsetof(struct PythonFile, kept_frame) == 62, "PythonFile.kept_frame");
_Static_assert(__builtin_offsetof(struct PythonFile, frame_bytes) == 64, "PythonFile.frame_bytes");
_Static_assert(__builtin_offsetof(struct PythonFile, frame_code) == 66, "PythonFile.frame_code");
_Static_assert(__builtin_offsetof(struct PythonFile, frame_previous) == 68,
	       "PythonFile.frame_previous");
_Static_assert(__builtin_offsetof(struct PythonFile, frame_instruction) == 70,
	       "PythonFile.frame_instruction");
_Static_assert(__builtin_offsetof(struct PythonFile, frame_entry) == 72, "PythonFile.frame_entry");
_Static_assert(__builtin_offsetof(struct PythonFile, code_bytes) == 74, "PythonFile.code_bytes");
_Static_assert(__builtin_offsetof(struct PythonFile, code_first_line) == 76,
	       "PythonFile.code_first_line");
_Static_assert(__builtin_offsetof(struct PythonFile, code_file) == 78, "PythonFile.code_file");
_Static_assert(__builtin_offsetof(struct PythonFile, code_name) == 80, "PythonFile.code_name");
_Static_assert(__builtin_offsetof(struct PythonFile, code_lines) == 82, "PythonFile.code_lines");
_Static_assert(__builtin_offsetof(struct PythonFile, code_instructions) == 84,
	       "PythonFile.code_instructions");
_Static_assert(__builtin_offsetof(struct PythonFile, text_length) == 86, "PythonFile.text_length");
_Static_assert(__builtin_offsetof(struct PythonFile, text_state) == 88, "PythonFile.text_state");
_Static_assert(__builtin_offsetof(struct PythonFile, text_ascii) == 90, "PythonFile.text_ascii");
_Static_assert(__builtin_offsetof(struct PythonFile, text_other) == 92, "PythonFile.text_other");
_Static_assert(__builtin_offsetof(struct PythonFile, bytes_length) == 94,
	       "PythonFile.bytes_length");
_Static_assert(__builtin_offsetof(struct PythonFile, bytes_data) == 96, "PythonFile.bytes_data");
_Static_assert(__builtin_offsetof(struct PythonFile, object_type) == 98, "PythonFile.object_type");
_Static_assert(__builtin_offsetof(struct PythonFile, version) == 100, "PythonFile.version");
_Static_assert(__builtin_offsetof(struct PythonFile, entry) == 101, "PythonFile.entry");
_Static_assert(__builtin_offsetof(struct PythonFile, instruction) == 102, "PythonFile.instruction");
_Static_assert(__builtin_offsetof(struct PythonFile, text_kind) == 103, "PythonFile.text_kind");

struct CodeHeader {
	__u32 id;
	__u32 first_line;
	__u64 loops[4];
	__u16 name_bytes;
	__u16 file_bytes;
	__u16 lines_bytes;
	__u8 name_kind;
	__u8 file_kind;
	__u8 version;
	__u8 unused[7];
};
_Static_assert(sizeof(struct CodeHeader) == 56, "size of CodeHeader");
_Static_assert(__builtin_offsetof(struct CodeHeader, id) == 0, "CodeHeader.id");
_Static_assert(__builtin_offsetof(struct CodeHeader, first_line) == 4, "CodeHeader.first_line");
_Static_assert(__builtin_offsetof(struct CodeHeader, loops) == 8, "CodeHeader.loops");
_Static_assert(__builtin_offsetof(struct CodeHeader, name_bytes) == 40, "CodeHeader.name_bytes");
_Static_assert(__builtin_offsetof(struct CodeHeader, file_bytes) == 42, "CodeHeader.file_bytes");
_Static_assert(__builtin_offsetof(struct CodeHeader, lines_bytes) == 44, "CodeHeader.lines_bytes");
_Static_assert(__builtin_offsetof(struct CodeHeader, name_kind) == 46, "CodeHeader.name_kind");
_Static_assert(__builtin_offsetof(struct CodeHeader, file_kind) == 47, "CodeHeader.file_kind");
_Static_assert(__builtin_offsetof(struct CodeHeader, version) == 48, "CodeHeader.version");
_Static_assert(__builtin_offsetof(struct CodeHeader, unused) == 49, "CodeHeader.unused");

struct HotspotFile {
	__u64 heaps;
	__u64 interpreter;
	__u64 call_stub;
	__u64 members[14];
	__u64 continuation[10];
	__u32 block_header;
	__u16 frame_complete_bytes;
	__u16 code_offset_bytes;
};
_Static_assert(sizeof(struct HotspotFile) == 224, "size of HotspotFile");
_Static_assert(__builtin_offsetof(struct HotspotFile, heaps) == 0, "HotspotFile.heaps");
_Static_assert(__builtin_offsetof(struct HotspotFile, interpreter) == 8, "HotspotFile.interpreter");
_Static_assert(__builtin_offsetof(struct HotspotFile, call_stub) == 16, "HotspotFile.call_stub");
_Static_assert(__builtin_offsetof(struct HotspotFile, members) == 24, "HotspotFile.members");
_Static_assert(__builtin_offsetof(struct HotspotFile, continuation) == 136,
	       "HotspotFile.continuation");
_Static_assert(__builtin_offsetof(struct HotspotFile, block_header) == 216,
	       "HotspotFile.block_header");
_Static_assert(__builtin_offsetof(struct HotspotFile, frame_complete_bytes) == 220,
	       "HotspotFile.frame_complete_bytes");
_Static_assert(__builtin_offsetof(struct HotspotFile, code_offset_bytes) == 222,
	       "HotspotFile.code_offset_bytes");

struct LaneHeader {
	__u64 head;
	__u64 head_padding[7];
	__u64 tail;
	__u64 tail_padding[7];
	__u64 clock_base;
	__u64 lost_pending;
	__u64 busy;
	__u64 last_stack;
	__u64 current;
	__u64 statistics[28];
	__u64 lost[32];
	__u64 nested[32];
	__u64 unclocked[32];
	__u64 beyond_share[32];
};
_Static_assert(sizeof(struct LaneHeader) == 1416, "size of LaneHeader");
_Static_assert(__builtin_offsetof(struct LaneHeader, head) == 0, "LaneHeader.head");
_Static_assert(__builtin_offsetof(struct LaneHeader, head_padding) == 8, "LaneHeader.head_padding");
_Static_assert(__builtin_offsetof(struct LaneHeader, tail) == 64, "LaneHeader.tail");
_Static_assert(__builtin_offsetof(struct LaneHeader, tail_padding) == 72,
	       "LaneHeader.tail_padding");
_Static_assert(__builtin_offsetof(struct LaneHeader, clock_base) == 128, "LaneHeader.clock_base");
_Static_assert(__builtin_offsetof(struct LaneHeader, lost_pending) == 136,
	       "LaneHeader.lost_pending");
_Static_assert(__builtin_offsetof(struct LaneHeader, busy) == 144, "LaneHeader.busy");
_Static_assert(__builtin_offsetof(struct LaneHeader, last_stack) == 152, "LaneHeader.last_stack");
_Static_assert(__builtin_offsetof(struct LaneHeader, current) == 160, "LaneHeader.current");
_Static_assert(__builtin_offsetof(struct LaneHeader, statistics) == 168, "LaneHeader.statistics");
_Static_assert(__builtin_offsetof(struct LaneHeader, lost) == 392, "LaneHeader.lost");
_Static_assert(__builtin_offsetof(struct LaneHeader, nested) == 648, "LaneHeader.nested");
_Static_assert(__builtin_offsetof(struct LaneHeader, unclocked) == 904, "LaneHeader.unclocked");
_Static_assert(__builtin_offsetof(struct LaneHeader, beyond_share) == 1160,
	       "LaneHeader.beyond_share");

struct LaneShare {
	__u64 mark;
	__u64 before;
	__u64 used;
	__u64 lost;
	__u32 uid;
	__u32 of_many;
};
_Static_assert(sizeof(struct LaneShare) == 40, "size of LaneShare");
_Static_assert(__builtin_offsetof(struct LaneShare, mark) == 0, "LaneShare.mark");
_Static_assert(__builtin_offsetof(struct LaneShare, before) == 8, "LaneShare.before");
_Static_assert(__builtin_offsetof(struct LaneShare, used) == 16, "LaneShare.used");
_Static_assert(__builtin_offsetof(struct LaneShare, lost) == 24, "LaneShare.lost");
_Static_assert(__builtin_offsetof(struct LaneShare, uid) == 32, "LaneShare.uid");
_Static_assert(__builtin_offsetof(struct LaneShare, of_many) == 36, "LaneShare.of_many");

#endif /* SYSCOLLECT_RECORDS_H */
