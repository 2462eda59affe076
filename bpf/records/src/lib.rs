//! The layouts of every record that crosses from the kernel programs to the
//! collector.
//!
//! **Duties.** One definition of each structure, as `#[repr(C)]` Rust; the C
//! header `bpf/include/records.h` is generated from [`LAYOUTS`] and
//! [`CONSTANTS`] by `cargo xtask layouts`, and both languages assert sizes and
//! offsets at compile time. Safe conversion from bytes, because records arrive
//! from files too.
//!
//! **Non-goals.** No decoding into events (that is `syscollect-merge`), no I/O,
//! no dependency: the crate is `no_std` so that anything may link it.
//!
//! A record never carries the CPU it was written on, nor what the previous
//! record of the lane already says: both belong to the chunk (see
//! `docs/capture-format.md`).
//!
//! ```
//! use syscollect_records::{RecordKind, SchedRecord, Stamp};
//!
//! let record = SchedRecord { stamp: Stamp::new(1_000, RecordKind::Switch), tid: 7, ..Default::default() };
//! let bytes = record.as_bytes();
//! assert_eq!(bytes.len(), 16);
//! let (ticks_low, kind) = SchedRecord::from_bytes(bytes).unwrap().stamp.split();
//! assert_eq!((ticks_low, kind), (1_000, RecordKind::Switch as u8));
//! ```
#![no_std]

mod arch;
mod layout;

pub use layout::{CONSTANTS, FieldLayout, LAYOUTS, StructLayout};

/// What a record describes: the low byte of its [`Stamp`].
///
/// Numbers are part of the capture format; they are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// A context switch ([`SchedRecord`], [`SchedStackRecord`]).
    Switch = 1,
    /// `sched_waking`: a sleeping task is about to be made runnable.
    Waking = 2,
    /// `sched_wakeup_new`: a new task runs for the first time.
    WakeupNew = 3,
    /// A task moves to another CPU's run queue.
    Migrate = 4,
    /// The CPU frequency of one CPU changed; `tid` holds kHz.
    Frequency = 5,
    /// Written after a loss: `tid` is the task that is current now, and
    /// the record counts what was lost before it.
    Resume = 6,
    /// A CPU sample ([`SampleRecord`]).
    Sample = 8,
    /// A new task ([`TaskRecord`]).
    Fork = 9,
    /// A task replaced its program.
    Exec = 10,
    /// A task ended.
    Exit = 11,
    /// A task changed its name.
    Rename = 12,
    /// A stack's frames ([`StackHeader`] and its addresses).
    Stack = 13,
    /// A value of a polled counter ([`CounterRecord`]).
    Counter = 16,
    /// One reading of all clocks ([`ClockRecord`]).
    Clock = 17,
    /// A hit of a probe ([`ProbeRecord`]).
    Probe = 18,
    /// A thread of an instrumented program announced its ring ([`RingRecord`]).
    Ring = 19,
    /// A kernel tracepoint that the kernel describes itself ([`TracepointRecord`]).
    Tracepoint = 20,
    /// Work of a GPU ended with an error ([`GpuFailureRecord`]).
    GpuFailure = 21,
}

impl RecordKind {
    /// Every kind with its name in the C header and in messages.
    pub const ALL: &[(RecordKind, &'static str)] = &[
        (Self::Switch, "switch"),
        (Self::Waking, "waking"),
        (Self::WakeupNew, "wakeup_new"),
        (Self::Migrate, "migrate"),
        (Self::Frequency, "frequency"),
        (Self::Resume, "resume"),
        (Self::Sample, "sample"),
        (Self::Fork, "fork"),
        (Self::Exec, "exec"),
        (Self::Exit, "exit"),
        (Self::Rename, "rename"),
        (Self::Stack, "stack"),
        (Self::Counter, "counter"),
        (Self::Clock, "clock"),
        (Self::Probe, "probe"),
        (Self::Ring, "ring"),
        (Self::Tracepoint, "tracepoint"),
        (Self::GpuFailure, "gpu_failure"),
    ];

    /// The kind of that number, if it is known to this version.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.iter().map(|(kind, _)| *kind).find(|kind| *kind as u8 == number)
    }

    /// The kind's name: `"switch"`, `"waking"`, ...
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("unknown", |(_, name)| name)
    }
}

/// Time and kind in one word: `ticks << 8 | kind`.
///
/// The upper 8 bits of a 64-bit tick count do not fit; whoever reads a record
/// restores them from the first tick of its chunk (2^56 ticks are more than
/// 200 days at 4 GHz, and no chunk is that long).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Stamp(pub u64);

impl Stamp {
    /// Packs ticks (their low 56 bits) and kind.
    pub const fn new(ticks: u64, kind: RecordKind) -> Self {
        Self(ticks << 8 | kind as u64)
    }

    /// The low 56 bits of the ticks, and the kind's number.
    pub const fn split(self) -> (u64, u8) {
        (self.0 >> 8, self.0 as u8)
    }

    /// The full tick count, given a tick count within 2^55 of it.
    pub const fn ticks_near(self, reference: u64) -> u64 {
        let low = self.0 >> 8;
        // The signed 56-bit distance between the two, added to the reference.
        let distance = ((low.wrapping_sub(reference) << 8) as i64) >> 8;
        reference.wrapping_add(distance as u64)
    }
}

/// Flags of [`SchedRecord::flags`].
pub mod sched_flags {
    /// Switch: the task was preempted, it did not block.
    pub const PREEMPTED: u8 = 1;
    /// Switch: the task waits for I/O (`in_iowait`).
    pub const IO_WAIT: u8 = 2;
    /// Waking: the waker is interrupt code, not the current task's own.
    pub const FROM_INTERRUPT: u8 = 4;
}

/// States of [`SchedRecord::state`], independent of the kernel's numbering:
/// the lowest set bit of the kernel's state, as documented at
/// `TASK_STATE_*` in `include/linux/sched.h` (5.10 to 7.2).
pub mod task_state {
    /// Still runnable (preempted or yielded).
    pub const RUNNABLE: u8 = 0;
    /// Interruptible sleep (`S`).
    pub const INTERRUPTIBLE: u8 = 1;
    /// Uninterruptible sleep (`D`).
    pub const UNINTERRUPTIBLE: u8 = 2;
    /// Stopped by a signal (`T`).
    pub const STOPPED: u8 = 4;
    /// Stopped by a tracer (`t`).
    pub const TRACED: u8 = 8;
    /// Exiting, not yet reaped (`X`).
    pub const DEAD: u8 = 16;
    /// Zombie (`Z`).
    pub const ZOMBIE: u8 = 32;
    /// Parked kernel thread (`P`).
    pub const PARKED: u8 = 64;
    /// An idle kernel thread (`I`): uninterruptible, not counted as load.
    pub const IDLE: u8 = 128;
}

/// Stack ids with a meaning of their own.
pub mod stack_id {
    /// No stack was asked for or there is none.
    pub const NONE: u32 = 0;
    /// A stack was walked but its frames could not be stored.
    pub const LOST: u32 = u32::MAX;
}

/// Kinds of stacks in [`StackHeader::space`].
pub mod stack_space {
    /// Addresses of user code, in the address space of `StackHeader::tgid`.
    pub const USER: u16 = 0;
    /// Addresses of kernel code.
    pub const KERNEL: u16 = 1;
    /// No stack: what a Python code object is called ([`CodeHeader`](crate::python::CodeHeader)).
    /// `StackHeader::frames` counts its words, `StackHeader::id` is
    /// [`NONE`](super::stack_id::NONE).
    pub const PYTHON_CODE: u16 = 2;
}

/// Why a stack lacks its outer frames: [`StackHeader::truncated`]. To recordings of before unwind
/// tables only the first is known.
pub mod stack_ending {
    /// It has more than [`MAX_FRAMES`](crate::MAX_FRAMES).
    pub const TOO_DEEP: u32 = 1;
    /// There is no unwind information for the code of the last frame.
    pub const NO_UNWIND_INFORMATION: u32 = 2;
    /// The memory where the next frame should lie cannot be read.
    pub const UNREADABLE: u32 = 3;
    /// The table for the code of the last frame was not made yet.
    pub const NO_TABLE_YET: u32 = 4;
    /// There is unwind information for the code of the last frame, but none that can be used here.
    pub const UNUSABLE_INFORMATION: u32 = 5;
    /// The walk was by frame pointers alone, and the last frame's leads to no other.
    pub const FRAME_POINTERS: u32 = 6;
    /// The thread stands where no code is mapped any more: it has ended, or runs another program
    /// from now on, and the memory of the one that called the kernel is gone.
    pub const MEMORY_GONE: u32 = 7;
    /// The table for the code of the last frame was not made yet, and the next frame lies further up
    /// than what was sent of the stack: found by whoever walks such stacks on, in
    /// no record of the kernel programs.
    pub const BEYOND_MEMORY: u32 = 8;
}

/// A record that may be read from, and written as, plain bytes.
///
/// # Safety
///
/// The type is `#[repr(C)]`, has no padding, and every bit pattern is valid.
/// [`record!`](crate) asserts the sum of its fields' sizes.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! record {
    ($(#[$doc:meta])* $name:ident, $size:literal { $($(#[$field_doc:meta])* $field:ident : $ty:ty as $c:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(C)]
        pub struct $name { $($(#[$field_doc])* pub $field: $ty),* }

        const _: () = assert!(size_of::<$name>() == $size && 0 $(+ size_of::<$ty>())* == $size);

        // SAFETY: repr(C); the assertion above rules padding out; all fields
        // are integers or arrays of integers.
        unsafe impl Plain for $name {}

        impl $name {
            /// The size in bytes.
            pub const SIZE: usize = $size;
            /// Names, types and offsets of the fields, for the generated header.
            pub const LAYOUT: StructLayout = StructLayout {
                name: stringify!($name),
                size: $size,
                fields: &[$(FieldLayout { name: stringify!($field), c_type: $c, offset: core::mem::offset_of!($name, $field) }),*],
            };

            /// Reads a record from the start of `bytes`; `None` when they are too few.
            pub fn from_bytes(bytes: &[u8]) -> Option<Self> { read(bytes) }
            /// The record as it lies in memory.
            pub fn as_bytes(&self) -> &[u8] { bytes_of(self) }
        }
    };
}

pub(crate) fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: the length was checked, `Plain` makes every bit pattern valid,
    // and read_unaligned asks for no alignment.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

pub(crate) fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: `Plain` types have no padding, so all their bytes are initialized.
    unsafe { core::slice::from_raw_parts(core::ptr::from_ref(value).cast(), size_of::<T>()) }
}

record! {
    /// A scheduling event without stacks.
    ///
    /// | kind | `tid` | `state` | `prio` | `next_prio` | `flags` |
    /// |---|---|---|---|---|---|
    /// | switch | next task | of the previous task | previous | next | preempted, I/O wait |
    /// | waking, wakeup_new | woken task | its CPU, low byte | woken | its CPU, high byte | from interrupt |
    /// | migrate | task | origin CPU, low byte | destination, low | destination, high | origin, high byte |
    /// | frequency | kHz | CPU, low byte | CPU, high byte | - | - |
    /// | resume | current task | records lost, 24 bits, saturating, | in these | three bytes | - |
    ///
    /// The previous task of a switch, and the waker, is the lane's current
    /// task: the `tid` of the switch (or resume) before, or the chunk's.
    SchedRecord, 16 {
        /// Ticks and kind.
        stamp: Stamp as "__u64 stamp",
        /// See the table above.
        tid: u32 as "__u32 tid",
        /// Previous task's state, one of [`task_state`].
        state: u8 as "__u8 state",
        /// Kernel priority, 0 to 139 (100 to 139 are nice -20 to 19).
        prio: u8 as "__u8 prio",
        /// Kernel priority of the next task.
        next_prio: u8 as "__u8 next_prio",
        /// Bits of [`sched_flags`].
        flags: u8 as "__u8 flags",
    }
}

record! {
    /// A scheduling event with stacks: the off-CPU stack of the task that
    /// blocks (switch) or the waker's stack (waking).
    ///
    /// Lanes hold one of the two sizes only, so that chunks are matrices.
    SchedStackRecord, 24 {
        /// The event itself.
        event: SchedRecord as "struct SchedRecord event",
        /// Id of the user stack within the lane, see [`stack_id`].
        user_stack: u32 as "__u32 user_stack",
        /// Id of the kernel stack within the lane.
        kernel_stack: u32 as "__u32 kernel_stack",
    }
}

record! {
    /// A CPU sample.
    SampleRecord, 24 {
        /// Ticks and kind.
        stamp: Stamp as "__u64 stamp",
        /// The running task; 0 when the CPU was idle.
        tid: u32 as "__u32 tid",
        /// Samples lost in this lane since the record before, saturating.
        lost_before: u32 as "__u32 lost_before",
        /// Id of the user stack within the lane, see [`stack_id`].
        user_stack: u32 as "__u32 user_stack",
        /// Id of the kernel stack within the lane; 0 when user code ran.
        kernel_stack: u32 as "__u32 kernel_stack",
    }
}

record! {
    /// Fork, exec, exit or rename of a task.
    TaskRecord, 56 {
        /// Ticks and kind.
        stamp: Stamp as "__u64 stamp",
        /// The task (fork: the new task).
        tid: u32 as "__u32 tid",
        /// Its process.
        tgid: u32 as "__u32 tgid",
        /// Fork: the task that forked. Exec: the tid before the exec.
        parent_tid: u32 as "__u32 parent_tid",
        /// Fork: the process that forked. Else see [`TaskRecord::user`].
        parent_tgid: u32 as "__u32 parent_tgid",
        /// The name after the event, padded with zeros.
        comm: [u8; 16] as "__u8 comm[16]",
        /// Start of the task, nanoseconds of CLOCK_MONOTONIC; with the tid it is unique.
        start_time: u64 as "__u64 start_time",
        /// Exit: the code as `wait` gives it. Fork: see [`TaskRecord::user`].
        exit_code: u32 as "__u32 exit_code",
        /// Records lost in this lane since the record before, saturating.
        lost_before: u32 as "__u32 lost_before",
    }
}

impl TaskRecord {
    /// The user who runs the task: its real id, in the first user namespace. It stands, with one
    /// added, where its kind has nothing else. `None` where that was not recorded.
    pub fn user(&self) -> Option<u32> {
        let one_more = match RecordKind::from_number(self.stamp.split().1) {
            Some(RecordKind::Fork) => self.exit_code,
            _ => self.parent_tgid,
        };
        one_more.checked_sub(1)
    }

    /// The same record of a task that this user runs.
    #[must_use]
    pub fn of_user(self, user: u32) -> Self {
        let one_more = user.wrapping_add(1);
        match RecordKind::from_number(self.stamp.split().1) {
            Some(RecordKind::Fork) => Self { exit_code: one_more, ..self },
            _ => Self { parent_tgid: one_more, ..self },
        }
    }
}

record! {
    /// Starts a stack definition; `frames` addresses of 8 bytes follow,
    /// innermost first. The innermost is where the CPU stood; the byte before each other one lies
    /// in the caller's code, because a call may be a function's last instruction. Of a caller that
    /// a signal interrupted the address is one more than where it stood.
    StackHeader, 24 {
        /// Ticks and kind, before the first record that uses the stack.
        stamp: Stamp as "__u64 stamp",
        /// The id within the lane that uses it, counting from 1.
        id: u32 as "__u32 id",
        /// The process whose address space the user addresses belong to; 0 for kernel stacks.
        tgid: u32 as "__u32 tgid",
        /// Number of addresses that follow.
        frames: u16 as "__u16 frames",
        /// One of [`stack_space`].
        space: u16 as "__u16 space",
        /// 0 where the walk ended by itself; else one of [`stack_ending`].
        truncated: u32 as "__u32 truncated",
    }
}

record! {
    /// One value of a polled counter.
    CounterRecord, 24 {
        /// Ticks and kind.
        stamp: Stamp as "__u64 stamp",
        /// Index of the counter's definition.
        counter: u64 as "__u64 counter",
        /// Bits of an `f64`, in the unit of the definition.
        value: u64 as "__u64 value",
    }
}

record! {
    /// All clocks at one moment, nanoseconds.
    ClockRecord, 48 {
        /// Ticks (middle of the bracket) and kind.
        stamp: Stamp as "__u64 stamp",
        /// CLOCK_MONOTONIC.
        monotonic: u64 as "__u64 monotonic",
        /// CLOCK_MONOTONIC_RAW.
        monotonic_raw: u64 as "__u64 monotonic_raw",
        /// CLOCK_BOOTTIME.
        boottime: u64 as "__u64 boottime",
        /// CLOCK_REALTIME.
        realtime: u64 as "__u64 realtime",
        /// Half the width of the bracket that the reading took, ticks.
        uncertainty: u64 as "__u64 uncertainty",
    }
}

record! {
    /// A hit of a probe; `arguments` words of 8 bytes follow, then the texts,
    /// each `u16` bytes with `u16` 0, the bytes, and padding to 8. Where `unreadable` has the bit
    /// [`PROBE_HAS_STACK`], the last word is the id of the hit's user stack, see [`stack_id`].
    ProbeRecord, 40 {
        /// Ticks and kind.
        stamp: Stamp as "__u64 stamp",
        /// The thread, in the initial pid namespace.
        tid: u32 as "__u32 tid",
        /// Its process.
        tgid: u32 as "__u32 tgid",
        /// Which probe: the number of its definition.
        probe: u32 as "__u32 probe",
        /// Bytes of the record with all that follows, a multiple of 8.
        size: u16 as "__u16 size",
        /// Words that follow.
        arguments: u8 as "__u8 arguments",
        /// Bit n: argument n was read as a text too; the texts lie in this order.
        texts: u8 as "__u8 texts",
        /// The stack pointer at the hit: tells which calls have returned.
        stack_pointer: u64 as "__u64 stack_pointer",
        /// Bit n: argument n could not be read. And [`PROBE_HAS_STACK`].
        unreadable: u32 as "__u32 unreadable",
        /// The CPU.
        cpu: u32 as "__u32 cpu",
    }
}

/// A bit of [`ProbeRecord::unreadable`] that is no argument's: the hit has a stack.
pub const PROBE_HAS_STACK: u32 = 1 << 31;

record! {
    /// A kernel tracepoint's record, as the kernel lays it out for its trace
    /// files; its bytes follow, from the first common field on, padded to 8.
    TracepointRecord, 32 {
        /// Ticks and kind.
        stamp: Stamp as "__u64 stamp",
        /// The thread that was current, in the initial pid namespace; whatever ran where an
        /// interrupt did it.
        tid: u32 as "__u32 tid",
        /// Its process.
        tgid: u32 as "__u32 tgid",
        /// Which tracepoint: the number of its definition.
        tracepoint: u32 as "__u32 tracepoint",
        /// Bytes that follow, before padding: as many of the record as are kept.
        bytes: u16 as "__u16 bytes",
        /// 1 where an interrupt did it, and not the thread.
        interrupt: u16 as "__u16 interrupt",
        /// The CPU.
        cpu: u32 as "__u32 cpu",
        /// 0.
        reserved: u32 as "__u32 reserved",
    }
}

record! {
    /// A fence is signaled with an error, or the DRM scheduler takes a job for done whose fence
    /// was: the tracepoint's own record, which says nothing of it, follows on the same CPU.
    ///
    /// Lies among [`TracepointRecord`]s and says its size at the same place, so that who does not
    /// know it finds the next.
    GpuFailureRecord, 56 {
        /// Ticks and kind.
        stamp: Stamp as "__u64 stamp",
        /// The thread that was current, in the initial pid namespace.
        tid: u32 as "__u32 tid",
        /// Its process.
        tgid: u32 as "__u32 tgid",
        /// The error, a negative error number of the kernel. 0 where a driver gave the scheduler no
        /// fence for its job: how that ended is told when the job's own fence is signaled, which
        /// follows.
        error: i32 as "__s32 error",
        /// Bytes from `fence` on.
        bytes: u16 as "__u16 bytes",
        /// Who tells it, one of [`gpu_failure`].
        told_by: u16 as "__u16 told_by",
        /// The CPU.
        cpu: u32 as "__u32 cpu",
        /// 0.
        reserved: u32 as "__u32 reserved",
        /// Where the fence lies in the kernel; a job's own fence, which says that it is finished.
        fence: u64 as "__u64 fence",
        /// The fence's context.
        context: u64 as "__u64 context",
        /// Its number within the context.
        sequence: u64 as "__u64 sequence",
    }
}

/// Who tells a failure: [`GpuFailureRecord::told_by`].
pub mod gpu_failure {
    /// The fence, which is being signaled.
    pub const FENCE: u16 = 0;
    /// The DRM scheduler, for which the job is done.
    pub const SCHEDULER: u16 = 1;
}

record! {
    /// A thread of an instrumented program announced its ring.
    RingRecord, 40 {
        /// Ticks and kind.
        stamp: Stamp as "__u64 stamp",
        /// The thread, in the initial pid namespace.
        tid: u32 as "__u32 tid",
        /// Its process.
        tgid: u32 as "__u32 tgid",
        /// The arena's file descriptor in the process.
        descriptor: u32 as "__u32 descriptor",
        /// The ring's number.
        ring: u32 as "__u32 ring",
        /// The real user id of the thread, in the initial user namespace.
        user: u32 as "__u32 user",
        /// What the descriptor is, one of [`announced`].
        announced: u16 as "__u16 announced",
        /// Whether the process has lived for less than a second.
        is_young: u16 as "__u16 is_young",
        /// The inode's number, if it is what arenas are; else 0.
        inode: u64 as "__u64 inode",
    }
}

/// What a descriptor is that was announced: [`RingRecord::announced`].
pub mod announced {
    /// Nobody could look.
    pub const UNKNOWN: u16 = 0;
    /// A memfd of an arena's size.
    pub const ARENA: u16 = 1;
    /// Closed, or another file.
    pub const OTHER: u16 = 2;
}

record! {
    /// Begins every chunk of a thread's zones; items follow.
    ZoneChunk, 16 {
        /// The program's number, as its definition has it.
        client: u32 as "__u32 client",
        /// The thread, in the initial pid namespace.
        tid: u32 as "__u32 tid",
        /// Counts the threads that a lane has served: another number is another thread.
        owner: u32 as "__u32 owner",
        /// 0.
        reserved: u32 as "__u32 reserved",
    }
}

record! {
    /// Begins every chunk of a program's log; entries follow.
    ZoneLogChunk, 16 {
        /// The program's number, as its definition has it.
        client: u32 as "__u32 client",
        /// Where the first entry lies in the log, bytes.
        position: u32 as "__u32 position",
        /// 0.
        reserved: u64 as "__u64 reserved",
    }
}

/// Indices of [`LaneHeader::statistics`]: counts of what the programs did.
pub mod statistic {
    /// Records written.
    pub const WRITTEN: usize = 0;
    /// Stacks looked for (hits and misses).
    pub const STACKS: usize = 1;
    /// Stacks that were new and were sent.
    pub const STACKS_SENT: usize = 2;
    /// Stacks that were new but found no room: their events carry `stack_id::LOST`.
    pub const STACKS_LOST: usize = 3;
    /// Kernel stacks answered from verified slots, without a walk.
    pub const SLOT_HITS: usize = 4;
    /// Kernel stacks walked.
    pub const SLOT_MISSES: usize = 5;
    /// Stacks walked both ways, as a check.
    pub const CROSS_CHECKED: usize = 6;
    /// Of these, the ones that differed.
    pub const CROSS_DIFFERENT: usize = 7;
    /// User stacks whose frame-pointer walk ended at unreadable memory.
    pub const USER_UNREADABLE: usize = 8;
    /// User stacks that were walked to their thread's first function; then, at this number plus one
    /// of [`stack_ending`](crate::stack_ending), those that were cut.
    pub const USER_WALKS: usize = 9;
    /// User stacks of which the rest was sent as it lies in memory.
    pub const STACK_MEMORY: usize = 17;
    /// User stacks of threads that stood as before, answered without a walk.
    pub const USER_SLOT_HITS: usize = 18;
    /// Of those that could have been answered so, the ones that were walked as a check.
    pub const USER_CROSS_CHECKED: usize = 19;
    /// Of these, the ones that differed.
    pub const USER_CROSS_DIFFERENT: usize = 20;
}

/// Bytes before the data of a mapped lane; [`LaneHeader`] is their start.
pub const LANE_HEADER_SIZE: usize = 4096;
/// Free bytes behind the data, so that the last record never wraps.
pub const LANE_SLACK: usize = 4096;
/// Most frames of one stack.
pub const MAX_FRAMES: usize = 127;

record! {
    /// The start of a lane in memory shared with the kernel programs.
    ///
    /// `head` and `tail` count bytes from the start of the recording and only
    /// grow; the position in the data is their remainder by its size. Each
    /// lies on a cache line of its own: the kernel writes `head`, the
    /// collector `tail`.
    LaneHeader, 1416 {
        /// End of the written data; published after the record is complete.
        head: u64 as "__u64 head",
        /// Keeps `tail` off the kernel's cache line.
        head_padding: [u64; 7] as "__u64 head_padding[7]",
        /// Start of the unread data; written by the collector only.
        tail: u64 as "__u64 tail",
        /// Keeps what follows off the collector's cache line.
        tail_padding: [u64; 7] as "__u64 tail_padding[7]",
        /// The tick count at which this CPU's clock event counted zero.
        clock_base: u64 as "__u64 clock_base",
        /// Records lost since the last one that was written.
        lost_pending: u64 as "__u64 lost_pending",
        /// Not zero while a program writes to the lane.
        busy: u64 as "__u64 busy",
        /// The last stack id given out.
        last_stack: u64 as "__u64 last_stack",
        /// The task that the reader takes to be current after the last record;
        /// `u64::MAX` before the first.
        current: u64 as "__u64 current",
        /// Counters of the programs, see [`statistic`].
        statistics: [u64; 28] as "__u64 statistics[28]",
        /// Records lost because the lane was full, by kind number.
        lost: [u64; 32] as "__u64 lost[32]",
        /// Records lost because they happened inside the writing of another, by kind number.
        nested: [u64; 32] as "__u64 nested[32]",
        /// Records lost because the clock of a CPU coming up could not be read, by kind number.
        unclocked: [u64; 32] as "__u64 unclocked[32]",
        /// Records left out because one process or user made more than its share, by kind number.
        beyond_share: [u64; 32] as "__u64 beyond_share[32]",
    }
}

record! {
    /// What a user's records take of a CPU's lane.
    LaneShare, 40 {
        /// How far the lane was written when `used` was begun anew.
        mark: u64 as "__u64 mark",
        /// Bytes that were `used` before.
        before: u64 as "__u64 before",
        /// Bytes that were written since.
        used: u64 as "__u64 used",
        /// Records that were beyond the share.
        lost: u64 as "__u64 lost",
        /// The user who was the last to have it.
        uid: u32 as "__u32 uid",
        /// Not zero where several users have it.
        of_many: u32 as "__u32 of_many",
    }
}

pub mod hotspot;
pub mod python;
pub mod unwind;
