//! A logger of a machine whose every event the test states, in microseconds.

use super::group::{DISK, FILE, IMAGE, PAGE_FAULT, PERF_INFO, PROCESS, STACK, THREAD};
use super::{FakeTrace, Payload, classic, event, perf_info, system};

/// Groups of the kernel's records, as their headers number them.
pub mod group {
    /// Transfers of disks.
    pub const DISK: u8 = 0x01;
    /// Page faults.
    pub const PAGE_FAULT: u8 = 0x02;
    /// Processes.
    pub const PROCESS: u8 = 0x03;
    /// Names of files.
    pub const FILE: u8 = 0x04;
    /// Threads, switches and wakeups.
    pub const THREAD: u8 = 0x05;
    /// The machine.
    pub const CONFIGURATION: u8 = 0x0b;
    /// Samples, DPCs and interrupts.
    pub const PERF_INFO: u8 = 0x0f;
    /// Images.
    pub const IMAGE: u8 = 0x14;
    /// Stacks.
    pub const STACK: u8 = 0x18;
}

/// The tick at a time in microseconds: the clock runs at ten million ticks a second.
pub fn ticks(us: u64) -> u64 {
    FakeTrace::START + us * 10
}

/// A logger that speaks of microseconds.
///
/// Its records have the layouts of the MOF classes that the Windows SDK documents, in versions that
/// Windows 10 writes. Opcodes of processes, threads and images: 1 begins, 2 ends, 3 was there at
/// the beginning, 4 at the end. Kinds of records are (group, opcode), threads (process, thread).
#[derive(Clone, Debug)]
pub struct Logger {
    /// The file that it writes.
    pub trace: FakeTrace,
}

impl Logger {
    /// The process and thread that records with such a header name.
    pub const WRITER: (u32, u32) = (100, 101);
    /// The address of every request of a disk.
    pub const REQUEST: u64 = 0xffff_c000_0abc_0000;

    /// A machine of that many CPUs.
    pub fn new(cpus: u32) -> Self {
        let mut trace = FakeTrace::new(cpus);
        // Started ten seconds before the recording, which came to its end.
        trace.header[0xf8..0x100]
            .copy_from_slice(&(FakeTrace::START_TIME - 100_000_000).to_le_bytes());
        trace.header[0x10..0x18]
            .copy_from_slice(&(FakeTrace::START_TIME + 100_000_000).to_le_bytes());
        Self { trace }
    }

    /// A record of the kernel's shortest kind.
    pub fn perf_info(&mut self, cpu: u16, us: u64, kind: (u8, u8), version: u16, payload: &[u8]) {
        self.trace.record(cpu, &perf_info(ticks(us), kind.0, kind.1, version, payload));
    }

    /// A record of the kernel that names the thread that wrote it.
    pub fn system(&mut self, cpu: u16, us: u64, kind: (u8, u8), version: u16, payload: &[u8]) {
        self.trace.record(cpu, &system(ticks(us), Self::WRITER, kind, version, payload));
    }

    /// A classic event of CPU 0.
    pub fn classic(&mut self, us: u64, class: [u8; 16], opcode: u8, payload: &[u8]) {
        self.trace.record(0, &classic(ticks(us), (4, 8), class, (opcode, 2), payload));
    }

    /// A provider's event of CPU 0.
    pub fn event(&mut self, us: u64, provider: [u8; 16], id: u16, payload: &[u8]) {
        self.trace.record(0, &event(ticks(us), Self::WRITER, provider, (id, 0), payload));
    }

    /// What happens to a process (version 4: key, ids, session, exit code, page directory, flags;
    /// nobody's; name, command line).
    pub fn process(&mut self, us: u64, opcode: u8, pid: u32, name: &str, command: &str) {
        let ids = Payload::default().pointer(0).u32s(&[pid, 4, 0, 0]);
        let user = ids.pointer(0).u32s(&[0, 0]);
        let payload = user.ascii(name).utf16(command);
        self.system(0, us, (PROCESS, opcode), 4, &payload.bytes);
    }

    /// What happens to a thread (version 3: stacks, affinity, start address, TEB, service tag,
    /// priorities, name).
    pub fn thread(&mut self, us: u64, opcode: u8, (pid, tid): (u32, u32), name: &str) {
        let payload = Payload::default().u32s(&[pid, tid]).pointers(&[0; 7]).u32s(&[0, 0]);
        self.system(0, us, (THREAD, opcode), 3, &payload.utf16(name).bytes);
    }

    /// What happens to an image (version 3: base, size, process, checksum, time stamp, signature,
    /// default base, reserved, path).
    pub fn image(&mut self, us: u64, opcode: u8, pid: u32, (base, size): (u64, u64), path: &str) {
        let payload = Payload::default().pointers(&[base, size]);
        let payload = payload.u32s(&[pid, 0, 0x5f00_0000, 0]).pointer(0).u32s(&[0; 4]);
        self.system(0, us, (IMAGE, opcode), 3, &payload.utf16(path).bytes);
    }

    /// A switch from a thread in a state, for a reason, to another (version 3: ids, priorities,
    /// C-state, unused, reason, mode, state, ideal CPU, how long the new one waited).
    pub fn switch(&mut self, cpu: u16, us: u64, old: u32, (state, reason): (u8, u8), new: u32) {
        let payload = Payload::default().u32s(&[new, old]).raw(&[8, 9, 0, 0, reason, 1, state, 0]);
        self.perf_info(cpu, us, (THREAD, 36), 3, &payload.u32s(&[0, 0]).bytes);
    }

    /// A thread may run from now on (version 2: thread, reason, increment, flags).
    pub fn ready(&mut self, cpu: u16, us: u64, tid: u32) {
        let payload = Payload::default().u32(tid).raw(&[0, 0, 1, 0]);
        self.perf_info(cpu, us, (THREAD, 50), 2, &payload.bytes);
    }

    /// The stack of an event of a thread, innermost address first.
    pub fn stack(&mut self, cpu: u16, us: u64, event_us: u64, task: (u32, u32), frames: &[u64]) {
        let payload = of_event(event_us, task).pointers(frames);
        self.perf_info(cpu, us, (STACK, 32), 2, &payload.bytes);
    }

    /// The same by its key: of the kernel's part or the program's.
    pub fn stack_key(&mut self, us: u64, event_us: u64, task: (u32, u32), key: u64, kernel: bool) {
        let opcode = if kernel { 37 } else { 38 };
        self.perf_info(0, us, (STACK, opcode), 2, &of_event(event_us, task).pointer(key).bytes);
    }

    /// What a key stands for that is given up now (opcode 35), or was there at the end (36).
    pub fn stack_key_definition(&mut self, us: u64, opcode: u8, key: u64, frames: &[u64]) {
        let payload = Payload::default().pointer(key).pointers(frames);
        self.perf_info(0, us, (STACK, opcode), 2, &payload.bytes);
    }

    /// Where a CPU was, and in which thread (version 2).
    pub fn sample(&mut self, cpu: u16, us: u64, tid: u32, address: u64) {
        let payload = Payload::default().pointer(address).u32(tid).u16(1).u16(0);
        self.perf_info(cpu, us, (PERF_INFO, 46), 2, &payload.bytes);
    }

    /// A routine of the kernel that ended: 66 threaded DPC, 68 DPC, 69 of a timer, 67 interrupt,
    /// which also says whether it was its device's, and its vector.
    pub fn routine(&mut self, us: u64, opcode: u8, start_us: u64, address: u64) {
        let payload = Payload::default().u64(ticks(start_us)).pointer(address);
        let payload = if opcode == 67 { payload.raw(&[1, 0x51, 0, 0]) } else { payload };
        self.perf_info(0, us, (PERF_INFO, opcode), 2, &payload.bytes);
    }

    /// A read (opcode 10) or write (11) of disk 0 by thread 101 that ended (version 3: disk, flags,
    /// size, reserved, place, key of the file, request, duration in ticks, thread).
    pub fn transfer(&mut self, us: u64, opcode: u8, took_us: u64, file: u64) {
        let payload = Payload::default().u32s(&[0, 0, 4096, 0]);
        let payload =
            payload.u64(0x8000).pointer(file).pointer(Self::REQUEST).u64(took_us * 10).u32(101);
        self.perf_info(0, us, (DISK, opcode), 3, &payload.bytes);
    }

    /// A page was read from a file for thread 101 (version 2: begin, place, address, key of the
    /// file, thread, size).
    pub fn hard_fault(&mut self, us: u64, start_us: u64, address: u64, file: u64) {
        let payload = Payload::default().u64(ticks(start_us)).u64(0x3000);
        let payload = payload.pointers(&[address, file]).u32s(&[101, 4096]);
        self.perf_info(0, us, (PAGE_FAULT, 32), 2, &payload.bytes);
    }

    /// What a file's key stands for: from now on (opcode 0, 32), until now (35), at the end (36).
    pub fn file_name(&mut self, us: u64, opcode: u8, file: u64, path: &str) {
        let payload = Payload::default().pointer(file).utf16(path);
        self.system(0, us, (FILE, opcode), 2, &payload.bytes);
    }

    /// .NET's runtime tells of a method of a process, as it is compiled or in a rundown (ids,
    /// address, size, token, flags, names, instance of the runtime).
    pub fn method(
        &mut self,
        us: u64,
        pid: u32,
        (provider, id): ([u8; 16], u16),
        (start, size): (u64, u32),
        name: [&str; 2],
    ) {
        let payload = Payload::default().pointers(&[start ^ 0x55, 0x77, start]);
        let payload = payload.u32s(&[size, 0x0600_0001, 0]).utf16(name[0]).utf16(name[1]);
        let payload = payload.utf16("void ()").u16(9);
        let event = event(ticks(us), (pid, pid + 1), provider, (id, 37), &payload.bytes);
        self.trace.record(0, &event);
    }
}

/// What all records about a stack begin with: the event's time and its thread.
fn of_event(event_us: u64, (pid, tid): (u32, u32)) -> Payload {
    Payload::default().u64(ticks(event_us)).u32s(&[pid, tid])
}
