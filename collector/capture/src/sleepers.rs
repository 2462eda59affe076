//! Threads that are asleep when a file begins or a snapshot is taken, with their stacks: who is not
//! woken has no event.
//!
//! **How.** A kernel program goes through all tasks once (`bpf/src/sleepers.bpf.c`): registers and
//! kernel stacks. What lies on a user stack is read from its process's memory, in its user's turn;
//! it is unwound when the recording has ended, as all stacks that come before their tables. Where
//! the thread ran meanwhile, what was read of it is no stack, and only the innermost frame is kept.
//!
//! Their stacks have a lane of their own, beside those of the CPUs.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use aya_obj::btf::BtfKind;
use rustc_hash::FxHashMap;
use syscollect_model::{ClockSource, Lane, LaneKind, Ticks};
use syscollect_records::unwind::{SleepingTask, StackMemoryHeader, frame_reached};
use syscollect_records::{RecordKind, StackHeader, Stamp, stack_ending, stack_space};
use syscollect_store::{Chunk, KnownProcess, KnownSleep};
use syscollect_untrusted_files::read_resident_memory;
use syscollect_unwind::{FrameReached, Registers, StackMemory, StackPieces};

use crate::bpf_calls::{self, ProgramKind};
use crate::bpf_object::KernelObject;
use crate::clock::ticks_now;
use crate::committed_object;
use crate::ebpf::short_reason;
use crate::error::CaptureError;
use crate::fair_queue::{ProcessUser, QueuedWork};
use crate::kernel_types::kernel_types;
use crate::memory::number_of_line;
use crate::priority::PriorityBoost;
use crate::shares::Pool;
use crate::snapshot;
use crate::stage::{CHUNK_BYTES, Flush, Stage, count_stacks};
use crate::unwind::{StackCopy, StacksInMemory};

const PROGRAM: &str = "sleeping_tasks";
/// The kernel's function for iterators over tasks.
const ITERATOR: &str = "bpf_iter_task";
/// Bytes that are read of a user stack: what the kernel saves for a signal handler takes up to 11
/// KiB of it.
const STACK_BYTES: usize = 32 << 10;
/// Bytes of all that are held, in which users have shares.
const HELD_BYTES: u64 = 32 << 20;
/// Bytes of what is read of all threads: 100,000 of them, or more.
const WALK_BYTES: u64 = 64 << 20;
/// Threads of which it is read in one turn how they sleep.
const STATES_AT_ONCE: usize = 64;
/// What a thread takes besides, about.
const THREAD_BYTES: u64 = 512;

/// A thread that was asleep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SleepingThread {
    task: SleepingTask,
    /// Addresses of its kernel stack, the innermost first.
    kernel: Vec<u64>,
}

impl SleepingThread {
    /// Whether it has not run since.
    fn sleeps_on(&self, root: &Path) -> bool {
        let SleepingTask { tid, tgid, switches: then, .. } = self.task;
        // Who was woken and runs for the first time has not left a CPU since.
        let now = Switches::read(&root.join(format!("proc/{tgid}/task/{tid}/status")));
        now.is_some_and(|now| now.count == then && !now.is_runnable)
    }
}

/// Who is asleep.
struct AsleepNow {
    threads: Vec<SleepingThread>,
    /// There was room for all of them.
    are_all: bool,
}

/// The kernel program that goes through all tasks.
struct TaskWalk(OwnedFd);

impl TaskWalk {
    fn load() -> Result<Self, String> {
        load_program().map(Self).map_err(|error| short_reason(error.as_ref()))
    }

    /// The threads of programs that are asleep now.
    fn asleep_now(&mut self) -> io::Result<AsleepNow> {
        let file = fs::File::from(bpf_calls::iterator_file(self.0.as_fd())?);
        let mut bytes = Vec::new();
        file.take(WALK_BYTES).read_to_end(&mut bytes)?;
        Ok(AsleepNow { threads: parse(&bytes), are_all: (bytes.len() as u64) < WALK_BYTES })
    }
}

fn load_program() -> Result<OwnedFd, Box<dyn std::error::Error>> {
    let btf = kernel_types()?;
    let object = KernelObject::alone("sleepers.bpf.o", &committed_object::SLEEPERS.bytes(), &btf)?;
    let iterator = btf.id_by_type_name_kind(ITERATOR, BtfKind::Func)?;
    Ok(object.load(PROGRAM, ProgramKind::iterator(iterator))?)
}

/// What the kernel program wrote; what is cut at the end is left out.
fn parse(mut bytes: &[u8]) -> Vec<SleepingThread> {
    let mut sleepers = Vec::new();
    while let Some(task) = SleepingTask::from_bytes(bytes) {
        let frames = task.kernel_frames as usize * 8;
        let Some(kernel) = bytes.get(SleepingTask::SIZE..SleepingTask::SIZE + frames) else {
            break;
        };
        let (words, _) = kernel.as_chunks::<8>();
        let kernel = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        sleepers.push(SleepingThread { task, kernel });
        bytes = &bytes[SleepingTask::SIZE + frames..];
    }
    sleepers
}

/// Threads of a user's processes of which it is not read yet how they sleep, or where. The user
/// decides how many there are, and how long reading their memory takes.
#[derive(Default)]
pub(crate) struct UnreadSleepers {
    /// With the threads whose states are to be read.
    processes: Vec<KnownProcess>,
    /// Those of them that the kernel program found asleep.
    sleepers: FxHashMap<u32, SleepingThread>,
    /// Threads that are asleep and whose user stacks are to be read, by the ids of these.
    stacks: Vec<(u32, SleepingThread)>,
}

impl UnreadSleepers {
    /// Adds all of a process's, which are taken out of those of the machine.
    fn add(&mut self, process: KnownProcess, machine: &mut FxHashMap<u32, SleepingThread>) {
        let tids = process.threads.iter().map(|thread| thread.tid);
        self.sleepers.extend(tids.filter_map(|tid| machine.remove_entry(&tid)));
        self.processes.push(process);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.stacks.is_empty()
    }

    /// Nothing more is read: stacks have their innermost frames. Of how many threads it is not
    /// known whether they sleep.
    pub(crate) fn leave_out(&mut self, stacks: &mut SleeperStacks, now: Ticks) -> u64 {
        let unread = self.count();
        self.processes.clear();
        for (id, sleeper) in self.stacks.drain(..) {
            stacks.write_innermost(id, &sleeper, now);
        }
        unread
    }

    /// Reads the states of some threads, and gives these; or the user stack of one.
    pub(crate) fn read_next(
        &mut self,
        stacks: &mut SleeperStacks,
        root: &Path,
        user: u32,
        clock: ClockSource,
    ) -> Option<KnownProcess> {
        let Some(unread) = self.processes.last_mut() else {
            let (id, sleeper) = self.stacks.pop()?;
            stacks.read(id, &sleeper, user, ticks_now(clock));
            return None;
        };
        let rest = unread.threads.len().saturating_sub(STATES_AT_ONCE);
        let threads = unread.threads.split_off(rest);
        let KnownProcess { pid, parent_pid, kernel, names_read, .. } = *unread;
        if rest == 0 {
            self.processes.pop();
        }
        let process = KnownProcess { pid, parent_pid, kernel, names_read, ..Default::default() };
        let mut process = KnownProcess { threads, ..process };
        snapshot::read_sleeps(root, &mut process);
        let now = ticks_now(clock);
        process.states_read = now;
        process.threads.retain(|thread| thread.asleep.is_some());
        for thread in &mut process.threads {
            if let (Some(sleep), Some(sleeper)) =
                (&mut thread.asleep, self.sleepers.remove(&thread.tid))
                && sleeper.sleeps_on(root)
                && stacks.add(sleep, &sleeper, user, now)
            {
                self.stacks.push((sleep.user_stack, sleeper));
            }
        }
        (!process.threads.is_empty()).then_some(process)
    }
}

impl QueuedWork for UnreadSleepers {
    /// How many threads there are whose states are to be read.
    fn count(&self) -> u64 {
        self.processes.iter().map(|process| process.threads.len() as u64).sum()
    }
}

/// User stacks as they lay in memory, for whoever unwinds them when the recording has ended.
pub(crate) type SleepersMemory = Arc<Mutex<StacksInMemory>>;

/// Tries whether the kernel takes the program that goes through all threads.
pub(crate) fn try_sleeper_stacks() -> io::Result<()> {
    load_program().map(drop).map_err(|error| match error.downcast::<CaptureError>() {
        Ok(error) => error.into_io(),
        Err(other) => io::Error::other(short_reason(other.as_ref())),
    })
}

/// The stacks of threads that were asleep.
pub(crate) struct SleeperStacks {
    walk: Option<TaskWalk>,
    loading: Option<JoinHandle<Result<TaskWalk, String>>>,
    /// Why there is no such program though it was asked for.
    refusal: Option<String>,
    /// Who was asleep when the file began, as far as nobody asked for them yet.
    found: Option<FxHashMap<u32, SleepingThread>>,
    stage: Stage,
    memory: SleepersMemory,
    room: Pool,
    /// Ids that were given out.
    ids: u32,
    /// Of kernel stacks, which many threads have alike.
    kernel: FxHashMap<Vec<u64>, u32>,
    /// There were more threads than are walked through.
    are_cut: bool,
    /// Threads of which it was not read whether they sleep, because the recording ended before.
    pub(crate) left_out: u64,
}

impl SleeperStacks {
    /// With the stacks of threads that are blocked, if these are wanted: begins to load the kernel
    /// program, which takes a moment. With a kernel that does not take it, as those before 5.15,
    /// there are no such stacks, which is said.
    pub(crate) fn start(memory: SleepersMemory, wanted: bool) -> Self {
        if !wanted {
            return Self::without(memory);
        }
        let thread = std::thread::Builder::new().name("sleepers".into());
        match thread.spawn(load_before_others) {
            Ok(loading) => Self { loading: Some(loading), ..Self::without(memory) },
            Err(error) => Self { refusal: Some(error.to_string()), ..Self::without(memory) },
        }
    }

    /// Whether it is loaded, or will not be.
    pub(crate) fn is_ready(&mut self) -> bool {
        if let Some(loaded) = self.loading.take_if(|loading| loading.is_finished()) {
            let loaded = loaded.join().unwrap_or_else(|_| Err("its thread ended".to_owned()));
            match loaded {
                Ok(walk) => self.walk = Some(walk),
                Err(refusal) => self.refusal = Some(refusal),
            }
        }
        self.loading.is_none()
    }

    /// Without any.
    pub(crate) fn without(memory: SleepersMemory) -> Self {
        Self {
            walk: None,
            loading: None,
            refusal: None,
            found: None,
            stage: Stage::new(Lane::new(LaneKind::SchedStack, Lane::SLEEPERS), 0),
            memory,
            room: Pool::spared_by_root(HELD_BYTES),
            ids: 0,
            kernel: FxHashMap::default(),
            are_cut: false,
            left_out: 0,
        }
    }

    /// What to say of what is missing.
    pub(crate) fn left_out_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.left_out > 0 {
            words.push(format!(
                "{} threads were not looked at before the recording ended: those that slept from \
                 its beginning to its end are not shown",
                self.left_out
            ));
        }
        if let Some(refusal) = &self.refusal {
            words.push(format!(
                "threads that sleep from the beginning to the end have no stacks: the program that \
                 goes through all threads could not be used ({refusal})"
            ));
        }
        if self.are_cut {
            let cut = "not all threads that slept when the recording began have stacks: there \
                       were too many";
            words.push(cut.to_owned());
        }
        words
    }

    /// Another file begins, with who is asleep then.
    pub(crate) fn begin_file(&mut self) {
        self.found = None;
    }

    /// A snapshot is taken, with who is asleep then. What was read until now of the file's comes
    /// back, for [`end_snapshot`](Self::end_snapshot).
    pub(crate) fn begin_snapshot(&mut self) -> SleepersMemory {
        self.found = None;
        std::mem::take(&mut self.memory)
    }

    /// User stacks that were read for the snapshot; what is read from now on is the file's again.
    pub(crate) fn end_snapshot(&mut self, of_file: SleepersMemory) -> StacksInMemory {
        let read = std::mem::replace(&mut self.memory, of_file);
        std::mem::take(&mut read.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Threads of these processes, with whose these are, that may be asleep, by user. Who is asleep
    /// is found with the first of a file's processes.
    pub(crate) fn asleep_of(
        &mut self,
        processes: Vec<(ProcessUser, KnownProcess)>,
    ) -> BTreeMap<ProcessUser, UnreadSleepers> {
        let mut sleepers = self.found.take().unwrap_or_else(|| self.asleep_now());
        let mut by_user = BTreeMap::<ProcessUser, UnreadSleepers>::new();
        for (whose, process) in processes {
            by_user.entry(whose).or_default().add(process, &mut sleepers);
        }
        self.found = Some(sleepers);
        by_user
    }

    /// Who is asleep now, by thread id.
    fn asleep_now(&mut self) -> FxHashMap<u32, SleepingThread> {
        self.kernel.clear();
        self.room = Pool::spared_by_root(HELD_BYTES);
        let found = match self.walk.as_mut().map(TaskWalk::asleep_now) {
            Some(Ok(found)) => found,
            Some(Err(error)) => {
                self.refusal = Some(error.to_string());
                return FxHashMap::default();
            }
            None => return FxHashMap::default(),
        };
        self.are_cut |= !found.are_all;
        found.threads.into_iter().map(|one| (one.task.tid, one)).collect()
    }

    /// Gives a sleep its stacks, of a thread of this user: the kernel's is recorded, and the user
    /// stack, by its id, is still to be read. `false` where the user has had its share.
    fn add(
        &mut self,
        sleep: &mut KnownSleep,
        sleeper: &SleepingThread,
        user: u32,
        now: Ticks,
    ) -> bool {
        if !self.room.take(user, THREAD_BYTES) {
            return false;
        }
        sleep.io_wait = sleeper.task.io_wait != 0;
        if !sleeper.kernel.is_empty() {
            sleep.kernel_stack = match self.kernel.get(&sleeper.kernel) {
                Some(id) => *id,
                None => {
                    let id = self.next_id();
                    let header =
                        StackHeader { id, space: stack_space::KERNEL, ..StackHeader::default() };
                    self.write(header, &sleeper.kernel, now);
                    self.kernel.insert(sleeper.kernel.clone(), id);
                    id
                }
            };
        }
        sleep.user_stack = self.next_id();
        true
    }

    /// Reads what lies on the user stack of that id, of a thread of this user.
    fn read(&mut self, id: u32, sleeper: &SleepingThread, user: u32, now: Ticks) {
        let SleepingTask { tgid, ip, sp, registers, .. } = sleeper.task;
        self.write_innermost(id, sleeper, now);
        let bytes = read_resident_memory(tgid, sp, STACK_BYTES).unwrap_or_default();
        if !sleeper.sleeps_on(Path::new("/"))
            || bytes.is_empty()
            || !self.room.take(user, bytes.len() as u64)
        {
            return;
        }
        let registers_then = StackMemoryHeader {
            reached: frame_reached::RUNNING,
            registers,
            ..StackMemoryHeader::default()
        };
        let memory = StackMemory {
            registers: Registers::running(ip, sp, &registers),
            reached: FrameReached::of(&registers_then),
            stack: StackPieces::from(sp, bytes),
        };
        let key = (Lane::new(LaneKind::SchedStack, Lane::SLEEPERS), id);
        let mut stacks = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        stacks.insert(key, Arc::new(StackCopy::new(user, memory)));
    }

    /// Writes the stack of that id as far as it is known without its memory.
    fn write_innermost(&mut self, id: u32, sleeper: &SleepingThread, now: Ticks) {
        let SleepingTask { tgid, ip, .. } = sleeper.task;
        let header = StackHeader {
            id,
            tgid,
            space: stack_space::USER,
            truncated: stack_ending::NO_TABLE_YET,
            ..StackHeader::default()
        };
        self.write(header, &[ip], now);
    }

    /// Hands what was recorded to `sink`, as far as `flush` says.
    pub(crate) fn flush(&mut self, flush: Flush, now: Ticks, sink: &mut dyn FnMut(Chunk)) {
        if self.stage.is_due(flush) {
            self.stage.flush(now, count_stacks, sink);
        }
    }

    fn next_id(&mut self) -> u32 {
        self.ids += 1;
        self.ids
    }

    fn write(&mut self, header: StackHeader, addresses: &[u64], now: Ticks) {
        let stamp = Stamp::new(now.0, RecordKind::Stack);
        let header = StackHeader { stamp, frames: addresses.len() as u16, ..header };
        let data = self.stage.data();
        data.extend_from_slice(header.as_bytes());
        data.extend(addresses.iter().flat_map(|address| address.to_ne_bytes()));
    }
}

fn load_before_others() -> Result<TaskWalk, String> {
    // On a busy machine it is there too late for a short recording otherwise.
    let _boost = PriorityBoost::begin();
    TaskWalk::load()
}

/// What a thread's file `status` says of its time on CPUs.
struct Switches {
    /// How often it has left one.
    count: u64,
    /// It has one, or waits for one.
    is_runnable: bool,
}

impl Switches {
    #[expect(clippy::disallowed_methods, reason = "/proc/PID/task/TID/status")]
    fn read(status: &Path) -> Option<Self> {
        let text = fs::read_to_string(status).ok()?;
        let voluntary = number_of_line(&text, "voluntary_ctxt_switches:")?;
        let count = voluntary + number_of_line(&text, "nonvoluntary_ctxt_switches:")?;
        let state = text.lines().find_map(|line| line.strip_prefix("State:"))?;
        Some(Self { count, is_runnable: state.trim_start().starts_with('R') })
    }
}

// A chunk holds all of the longest kernel stack.
const _: () = assert!(CHUNK_BYTES > StackHeader::SIZE + 8 * u8::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(tid: u32, kernel: &[u64]) -> SleepingThread {
        let kernel_frames = kernel.len() as u32;
        let task = SleepingTask { tid, kernel_frames, ..SleepingTask::default() };
        SleepingThread { task, kernel: kernel.to_vec() }
    }

    fn written(sleepers: &[SleepingThread]) -> Vec<u8> {
        let bytes = sleepers.iter().flat_map(|one| {
            let frames = one.kernel.iter().flat_map(|address| address.to_ne_bytes());
            one.task.as_bytes().iter().copied().chain(frames).collect::<Vec<u8>>()
        });
        bytes.collect()
    }

    #[test]
    fn what_the_kernel_wrote_is_read_up_to_where_it_is_cut() {
        let all = [sleeper(1, &[10, 20]), sleeper(2, &[]), sleeper(3, &[30])];
        let bytes = written(&all);
        assert_eq!(parse(&bytes), all);
        for length in 0..bytes.len() {
            let read = parse(&bytes[..length]);
            assert!(read.len() < 3 && all.starts_with(&read), "{length}: {read:?}");
        }
    }

    #[test]
    fn threads_that_sleep_alike_have_one_kernel_stack_and_a_user_has_its_share() {
        let mut stacks = SleeperStacks::without(SleepersMemory::default());
        let mut ids = [10, 10, 20].map(|address| {
            let mut sleep = KnownSleep::default();
            assert!(stacks.add(&mut sleep, &sleeper(1, &[address]), 1000, Ticks(5)));
            (sleep.kernel_stack, sleep.user_stack)
        });
        assert_eq!(ids[0].0, ids[1].0);
        assert_ne!(ids[0].0, ids[2].0);
        ids.sort_by_key(|(_, user)| *user);
        assert!(ids.windows(2).all(|two| two[0].1 != two[1].1), "each has a user stack: {ids:?}");
        let mut chunks = Vec::new();
        stacks.flush(Flush::All, Ticks(9), &mut |chunk| chunks.push(chunk));
        assert_eq!(chunks.iter().map(|chunk| chunk.header.records).sum::<u32>(), 2);
        stacks.room = Pool::new(THREAD_BYTES);
        let mut sleep = KnownSleep::default();
        assert!(!stacks.add(&mut sleep, &sleeper(1, &[10]), 1000, Ticks(5)));
        assert_eq!(sleep, KnownSleep::default());
    }

    #[test]
    fn a_kernel_that_does_not_take_the_program_is_said() {
        let mut stacks = SleeperStacks::without(SleepersMemory::default());
        assert_eq!(stacks.left_out_words(), Vec::<String>::new());
        stacks.loading = Some(std::thread::spawn(refused));
        while !stacks.is_ready() {
            std::thread::yield_now();
        }
        let words = stacks.left_out_words();
        assert!(words.len() == 1 && words[0].contains("bpf_task_pt_regs"), "{words:?}");
    }

    fn refused() -> Result<TaskWalk, String> {
        Err("unknown func bpf_task_pt_regs#175".to_owned())
    }

    #[test]
    fn a_thread_s_own_switches_are_those_of_the_kernel() {
        let read = || Switches::read(Path::new("/proc/thread-self/status")).unwrap();
        let before = read();
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(before.is_runnable && read().count > before.count);
    }
}
