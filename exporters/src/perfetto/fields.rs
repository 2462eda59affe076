//! Field numbers of the Perfetto messages that are written.
//!
//! Source of fact: perfetto_trace.proto, as the Python package `perfetto` 0.59.1
//! carries it. One module per message, in the order in which a trace nests them.

/// `Trace`
pub(crate) mod trace {
    pub(crate) const PACKET: u32 = 1;
}

/// `TracePacket`
pub(crate) mod packet {
    pub(crate) const FTRACE_EVENTS: u32 = 1;
    pub(crate) const PROCESS_TREE: u32 = 2;
    pub(crate) const CLOCK_SNAPSHOT: u32 = 6;
    pub(crate) const TIMESTAMP: u32 = 8;
    pub(crate) const TRUSTED_PACKET_SEQUENCE_ID: u32 = 10;
    pub(crate) const TRACK_EVENT: u32 = 11;
    pub(crate) const INTERNED_DATA: u32 = 12;
    pub(crate) const SEQUENCE_FLAGS: u32 = 13;
    pub(crate) const TRACE_STATS: u32 = 35;
    pub(crate) const SYSTEM_INFO: u32 = 45;
    pub(crate) const COMPRESSED_PACKETS: u32 = 50;
    pub(crate) const TRACE_PACKET_DEFAULTS: u32 = 59;
    pub(crate) const TRACK_DESCRIPTOR: u32 = 60;
    pub(crate) const PERF_SAMPLE: u32 = 66;
    pub(crate) const CPU_INFO: u32 = 67;
    pub(crate) const FIRST_PACKET_ON_SEQUENCE: u32 = 87;
    pub(crate) const MACHINE_ID: u32 = 98;
    pub(crate) const TRACE_ATTRIBUTES: u32 = 126;
}

/// `TracePacketDefaults`
pub(crate) mod defaults {
    pub(crate) const PERF_SAMPLE_DEFAULTS: u32 = 12;
    pub(crate) const TIMESTAMP_CLOCK_ID: u32 = 58;
}

/// `ClockSnapshot` and `ClockSnapshot.Clock`
pub(crate) mod clock_snapshot {
    pub(crate) const CLOCKS: u32 = 1;
    pub(crate) const PRIMARY_TRACE_CLOCK: u32 = 2;
    pub(crate) const CLOCK_ID: u32 = 1;
    pub(crate) const TIMESTAMP: u32 = 2;
}

/// `SystemInfo` and `Utsname`
pub(crate) mod system_info {
    pub(crate) const UTSNAME: u32 = 1;
    pub(crate) const TRACING_SERVICE_VERSION: u32 = 4;
    pub(crate) const NUM_CPUS: u32 = 8;
    pub(crate) const SYSTEM_RAM_BYTES: u32 = 16;
    pub(crate) const MACHINE_NAME: u32 = 17;
    pub(crate) const UTSNAME_SYSNAME: u32 = 1;
    pub(crate) const UTSNAME_VERSION: u32 = 2;
    pub(crate) const UTSNAME_RELEASE: u32 = 3;
    pub(crate) const UTSNAME_MACHINE: u32 = 4;
}

/// `CpuInfo` and `CpuInfo.Cpu`
pub(crate) mod cpu_info {
    pub(crate) const CPUS: u32 = 1;
    pub(crate) const PROCESSOR: u32 = 1;
    pub(crate) const FREQUENCIES: u32 = 2;
}

/// `ProcessTree`, `ProcessTree.Process` and `ProcessTree.Thread`
pub(crate) mod process_tree {
    pub(crate) const PROCESSES: u32 = 1;
    pub(crate) const THREADS: u32 = 2;
    pub(crate) const PROCESS_PID: u32 = 1;
    pub(crate) const PROCESS_PPID: u32 = 2;
    pub(crate) const PROCESS_CMDLINE: u32 = 3;
    pub(crate) const PROCESS_IS_KTHREAD: u32 = 8;
    pub(crate) const PROCESS_CMDLINE_IS_COMM: u32 = 9;
    pub(crate) const THREAD_TID: u32 = 1;
    pub(crate) const THREAD_NAME: u32 = 2;
    pub(crate) const THREAD_TGID: u32 = 3;
}

/// `FtraceEventBundle`
pub(crate) mod bundle {
    pub(crate) const CPU: u32 = 1;
    pub(crate) const EVENT: u32 = 2;
    pub(crate) const COMPACT_SCHED: u32 = 4;
}

/// `FtraceEventBundle.CompactSched`
pub(crate) mod compact_sched {
    pub(crate) const SWITCH_TIMESTAMP: u32 = 1;
    pub(crate) const SWITCH_PREV_STATE: u32 = 2;
    pub(crate) const SWITCH_NEXT_PID: u32 = 3;
    pub(crate) const SWITCH_NEXT_PRIO: u32 = 4;
    pub(crate) const INTERN_TABLE: u32 = 5;
    pub(crate) const SWITCH_NEXT_COMM_INDEX: u32 = 6;
    pub(crate) const WAKING_TIMESTAMP: u32 = 7;
    pub(crate) const WAKING_PID: u32 = 8;
    pub(crate) const WAKING_TARGET_CPU: u32 = 9;
    pub(crate) const WAKING_PRIO: u32 = 10;
    pub(crate) const WAKING_COMM_INDEX: u32 = 11;
    pub(crate) const WAKING_COMMON_FLAGS: u32 = 12;
}

/// `FtraceEvent` and the events in it
pub(crate) mod ftrace {
    pub(crate) const TIMESTAMP: u32 = 1;
    pub(crate) const PID: u32 = 2;

    pub(crate) const SCHED_SWITCH: u32 = 4;
    pub(crate) const SWITCH_PREV_COMM: u32 = 1;
    pub(crate) const SWITCH_PREV_PID: u32 = 2;
    pub(crate) const SWITCH_PREV_PRIO: u32 = 3;
    pub(crate) const SWITCH_PREV_STATE: u32 = 4;
    pub(crate) const SWITCH_NEXT_COMM: u32 = 5;
    pub(crate) const SWITCH_NEXT_PID: u32 = 6;
    pub(crate) const SWITCH_NEXT_PRIO: u32 = 7;

    pub(crate) const CPU_FREQUENCY: u32 = 11;
    pub(crate) const CPU_FREQUENCY_STATE: u32 = 1;
    pub(crate) const CPU_FREQUENCY_CPU_ID: u32 = 2;

    pub(crate) const SCHED_BLOCKED_REASON: u32 = 18;
    pub(crate) const BLOCKED_PID: u32 = 1;
    pub(crate) const BLOCKED_CALLER: u32 = 2;
    pub(crate) const BLOCKED_IO_WAIT: u32 = 3;

    pub(crate) const SCHED_WAKING: u32 = 20;
    pub(crate) const SCHED_WAKEUP_NEW: u32 = 114;
    pub(crate) const WAKING_COMM: u32 = 1;
    pub(crate) const WAKING_PID: u32 = 2;
    pub(crate) const WAKING_PRIO: u32 = 3;
    pub(crate) const WAKING_SUCCESS: u32 = 4;
    pub(crate) const WAKING_TARGET_CPU: u32 = 5;

    pub(crate) const TASK_NEWTASK: u32 = 235;
    pub(crate) const NEWTASK_PID: u32 = 1;
    pub(crate) const NEWTASK_COMM: u32 = 2;
    pub(crate) const NEWTASK_CLONE_FLAGS: u32 = 3;

    pub(crate) const TASK_RENAME: u32 = 236;
    pub(crate) const RENAME_PID: u32 = 1;
    pub(crate) const RENAME_OLDCOMM: u32 = 2;
    pub(crate) const RENAME_NEWCOMM: u32 = 3;

    pub(crate) const SCHED_PROCESS_EXEC: u32 = 237;
    pub(crate) const EXEC_FILENAME: u32 = 1;
    pub(crate) const EXEC_PID: u32 = 2;
    pub(crate) const EXEC_OLD_PID: u32 = 3;

    pub(crate) const SCHED_PROCESS_EXIT: u32 = 238;
    pub(crate) const EXIT_COMM: u32 = 1;
    pub(crate) const EXIT_PID: u32 = 2;
    pub(crate) const EXIT_TGID: u32 = 3;

    pub(crate) const SCHED_PROCESS_FREE: u32 = 240;
    pub(crate) const FREE_COMM: u32 = 1;
    pub(crate) const FREE_PID: u32 = 2;

    pub(crate) const SCHED_MIGRATE_TASK: u32 = 491;
    pub(crate) const MIGRATE_COMM: u32 = 1;
    pub(crate) const MIGRATE_PID: u32 = 2;
    pub(crate) const MIGRATE_ORIG_CPU: u32 = 4;
    pub(crate) const MIGRATE_DEST_CPU: u32 = 5;
}

/// `PerfSample`, `PerfSampleDefaults` and `PerfEvents.Timebase`
pub(crate) mod perf {
    pub(crate) const CPU: u32 = 1;
    pub(crate) const PID: u32 = 2;
    pub(crate) const TID: u32 = 3;
    pub(crate) const CALLSTACK_IID: u32 = 4;
    pub(crate) const CPU_MODE: u32 = 5;
    pub(crate) const TIMEBASE_COUNT: u32 = 6;
    pub(crate) const KERNEL_RECORDS_LOST: u32 = 17;

    pub(crate) const DEFAULTS_TIMEBASE: u32 = 1;
    pub(crate) const TIMEBASE_PERIOD: u32 = 1;
    pub(crate) const TIMEBASE_FREQUENCY: u32 = 2;
    pub(crate) const TIMEBASE_COUNTER: u32 = 4;
    pub(crate) const TIMEBASE_NAME: u32 = 10;
}

/// `InternedData` and the messages in it
pub(crate) mod interned {
    pub(crate) const EVENT_CATEGORIES: u32 = 1;
    pub(crate) const EVENT_NAMES: u32 = 2;
    pub(crate) const ANNOTATION_NAMES: u32 = 3;
    pub(crate) const SOURCE_LOCATIONS: u32 = 4;
    pub(crate) const FUNCTION_NAMES: u32 = 5;
    pub(crate) const FRAMES: u32 = 6;
    pub(crate) const CALLSTACKS: u32 = 7;
    pub(crate) const BUILD_IDS: u32 = 16;
    pub(crate) const MAPPING_PATHS: u32 = 17;
    pub(crate) const SOURCE_PATHS: u32 = 18;
    pub(crate) const MAPPINGS: u32 = 19;
    pub(crate) const KERNEL_SYMBOLS: u32 = 26;
    pub(crate) const ANNOTATION_STRINGS: u32 = 29;

    /// Of every interned message.
    pub(crate) const IID: u32 = 1;
    /// Of an interned string and of an event name.
    pub(crate) const STRING: u32 = 2;
    pub(crate) const LOCATION_FILE: u32 = 2;
    pub(crate) const LOCATION_FUNCTION: u32 = 3;
    pub(crate) const LOCATION_LINE: u32 = 4;
    pub(crate) const FRAME_FUNCTION_NAME_ID: u32 = 2;
    pub(crate) const FRAME_MAPPING_ID: u32 = 3;
    pub(crate) const FRAME_REL_PC: u32 = 4;
    pub(crate) const FRAME_SOURCE_PATH_IID: u32 = 5;
    pub(crate) const FRAME_LINE_NUMBER: u32 = 6;
    pub(crate) const MAPPING_BUILD_ID: u32 = 2;
    pub(crate) const MAPPING_PATH_STRING_IDS: u32 = 7;
    pub(crate) const CALLSTACK_FRAME_IDS: u32 = 2;
}

/// `TrackDescriptor` and the descriptors in it
pub(crate) mod track {
    pub(crate) const UUID: u32 = 1;
    pub(crate) const NAME: u32 = 2;
    pub(crate) const PROCESS: u32 = 3;
    pub(crate) const THREAD: u32 = 4;
    pub(crate) const PARENT_UUID: u32 = 5;
    pub(crate) const COUNTER: u32 = 8;
    pub(crate) const SIBLING_MERGE_BEHAVIOR: u32 = 15;
    pub(crate) const SIBLING_MERGE_KEY_INT: u32 = 17;
    pub(crate) const PROCESS_PID: u32 = 1;
    pub(crate) const THREAD_PID: u32 = 1;
    pub(crate) const THREAD_TID: u32 = 2;
    pub(crate) const COUNTER_UNIT: u32 = 3;
    pub(crate) const COUNTER_UNIT_NAME: u32 = 6;
}

/// `TrackEvent` and `DebugAnnotation`
pub(crate) mod track_event {
    pub(crate) const CATEGORY_IIDS: u32 = 3;
    pub(crate) const DEBUG_ANNOTATIONS: u32 = 4;
    pub(crate) const TYPE: u32 = 9;
    pub(crate) const NAME_IID: u32 = 10;
    pub(crate) const TRACK_UUID: u32 = 11;
    pub(crate) const NAME: u32 = 23;
    pub(crate) const SOURCE_LOCATION_IID: u32 = 34;
    pub(crate) const DOUBLE_COUNTER_VALUE: u32 = 44;
    pub(crate) const FLOW_IDS: u32 = 47;
    pub(crate) const TERMINATING_FLOW_IDS: u32 = 48;
    pub(crate) const CALLSTACK_IID: u32 = 56;

    pub(crate) const ANNOTATION_NAME_IID: u32 = 1;
    pub(crate) const ANNOTATION_BOOL: u32 = 2;
    pub(crate) const ANNOTATION_UINT: u32 = 3;
    pub(crate) const ANNOTATION_INT: u32 = 4;
    pub(crate) const ANNOTATION_DOUBLE: u32 = 5;
    pub(crate) const ANNOTATION_STRING: u32 = 6;
    pub(crate) const ANNOTATION_POINTER: u32 = 7;
    pub(crate) const ANNOTATION_NAME: u32 = 10;
    pub(crate) const ANNOTATION_STRING_IID: u32 = 17;
}

/// `TraceStats` and `TraceStats.BufferStats`
pub(crate) mod trace_stats {
    pub(crate) const BUFFER_STATS: u32 = 1;
    pub(crate) const CHUNKS_OVERWRITTEN: u32 = 3;
    pub(crate) const TRACE_WRITER_PACKET_LOSS: u32 = 19;
}

/// `TraceAttributes` and `TraceAttributes.Attribute`
pub(crate) mod attributes {
    pub(crate) const ATTRIBUTE: u32 = 1;
    pub(crate) const KEY: u32 = 1;
    pub(crate) const LONG_VALUE: u32 = 2;
    pub(crate) const STRING_VALUE: u32 = 3;
}
