//! What this process may still do, stage by stage: each gives up what only the stages before it
//! needed.
//!
//! A recorder is started by root, reads what any user's programs say, and writes into any user's
//! folder. What it does not need it gives up before it looks at the first byte of theirs:
//! capabilities (per thread: threads that are started later have what their starter had), the way
//! back to them (`no_new_privs`, the bounding set), and system calls (`filter`). docs/security.md
//! has the model.
//!
//! Capabilities are capabilities(7), of which only the needed ones are kept; a user who has but two
//! of them keeps two.

mod filter;

use std::io;
use std::marker::PhantomData;

use rustix::thread::{self, CapabilitySet, CapabilitySets};
use syscollect_untrusted_files::FixedPath;

use crate::attach_method::AttachMethod;
use crate::hexadecimal::hexadecimal;
use crate::host::kernel_at_least;

/// What is needed while a recording runs, on kernels that tell these apart (5.9).
const RECORDING: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::PERFMON)
    // Rings of perf events of all CPUs, beyond what RLIMIT_MEMLOCK allows.
    .union(CapabilitySet::IPC_LOCK)
    // /proc/PID of other users, /proc/PID/map_files, and files that only their owners read.
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::CHECKPOINT_RESTORE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::SYSLOG)
    // The real-time class of threads that drain lanes.
    .union(CapabilitySet::SYS_NICE)
    // Asking the launched command, which may be another user's, to end.
    .union(CapabilitySet::KILL)
    .union(ACCOUNTS);

/// Attaching to programs: to those of other users, too, where it is done by process.
const ATTACHING: CapabilitySet =
    CapabilitySet::BPF.union(CapabilitySet::PERFMON).union(CapabilitySet::SYS_PTRACE);

/// Looking at Java virtual machines of all users, and becoming theirs.
const ASKING: CapabilitySet = CapabilitySet::SYS_PTRACE.union(ACCOUNTS).union(CapabilitySet::KILL);

/// Naming opens files of code and the kernel's list of symbols.
const NAMING: CapabilitySet = CapabilitySet::DAC_READ_SEARCH
    .union(CapabilitySet::SYSLOG)
    // The thread that named parts behind everything else is no longer behind it when the recording
    // is over.
    .union(CapabilitySet::SYS_NICE)
    .union(ACCOUNTS);

/// Acting with the rights of another user, which are fewer than root's.
const ACCOUNTS: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID);

/// Creating, giving away and renaming files in somebody else's folder. Only in force while that is
/// done, see [`WritingFiles`].
const FILES: CapabilitySet =
    CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::CHOWN).union(CapabilitySet::FOWNER);

/// A part of this program's life; each needs less than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Programs are loaded and attached, and the machine is recorded.
    Recording,
    /// The process that attaches to programs and does nothing else.
    Attaching,
    /// The process that has others ask Java virtual machines for the names of their methods.
    AskingJvms,
    /// A process that acts as another user, who may be root, and as nobody else.
    ActingAsUser,
    /// The recording is over, or was made long ago: code gets its names.
    Naming,
    /// The names are there, and a file is written.
    Exporting,
    /// A thread that waits for something and opens nothing. It may still become another user with
    /// all the others.
    Waiting,
}

impl Stage {
    /// What is in force all the time.
    fn standing(self) -> CapabilitySet {
        match self {
            Self::Recording => RECORDING | of_this_kernel(),
            Self::Attaching => ATTACHING | of_this_kernel(),
            Self::Naming => NAMING,
            Self::AskingJvms => ASKING,
            Self::Exporting | Self::ActingAsUser => CapabilitySet::empty(),
            Self::Waiting => ACCOUNTS,
        }
    }

    /// What is in force at times.
    fn at_times(self) -> CapabilitySet {
        match self {
            Self::Recording | Self::Naming | Self::Exporting => FILES,
            Self::Attaching | Self::AskingJvms | Self::ActingAsUser | Self::Waiting => {
                CapabilitySet::empty()
            }
        }
    }
}

/// What recording needs on kernels that have no capability of their own for it, or ask for more.
fn of_this_kernel() -> CapabilitySet {
    let mut needed = CapabilitySet::empty();
    // Events of the uprobe PMU ask for it (perf_uprobe_event_init in kernel/events/core.c), links
    // to many places do not; before 5.9 it also stands for BPF, PERFMON and CHECKPOINT_RESTORE.
    // Where perf events are for administrators, CAP_PERFMON opens none (Debian's 5.10 and 7.2).
    if AttachMethod::may_be_events() || is_perf_for_administrators() {
        needed |= CapabilitySet::SYS_ADMIN;
    }
    // Before that, memory of maps counts against RLIMIT_MEMLOCK, which has to be raised.
    if !kernel_at_least(5, 11) {
        needed |= CapabilitySet::SYS_RESOURCE;
    }
    needed
}

/// Whether perf events are kept from ordinary users, by distributions' kernels in ways of their
/// own: the levels above 2 of `kernel.perf_event_paranoid`, which Debian (3) and Ubuntu (4) add and
/// set.
fn is_perf_for_administrators() -> bool {
    let level = FixedPath::new("/proc/sys/kernel/perf_event_paranoid").read_to_string();
    level.ok().and_then(|level| level.trim().parse::<i32>().ok()).is_some_and(|level| level > 2)
}

/// The calling thread, and what it starts from now on, keeps what `stage` needs of what it has.
/// There is no way back: not by running a program that is set-uid root either.
///
/// # Errors
///
/// None that a kernel is known to give: everybody may do with less.
pub fn keep(stage: Stage) -> io::Result<()> {
    let held = thread::capabilities(None)?;
    let standing = stage.standing();
    let permitted = held.permitted & (standing | stage.at_times());
    if held.effective.contains(CapabilitySet::SETPCAP) {
        bound(permitted)?;
    }
    thread::clear_ambient_capability_set()?;
    let inheritable = CapabilitySet::empty();
    thread::set_capabilities(
        None,
        CapabilitySets { effective: held.effective & standing, permitted, inheritable },
    )?;
    thread::set_no_new_privs(true)?;
    // Those have what was there before. One that hangs in a foreign file system stays as it is.
    syscollect_untrusted_files::end_idle_threads();
    Ok(())
}

/// All threads of this process act as that user from now on, and have what this user has: no
/// capability is left.
///
/// # Errors
///
/// Where a thread of this process may not, upon which none does.
pub fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    // The C library ends a process of which some threads may and others may not.
    if !all_threads_may_become_others()? {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // Groups first and the user last, because after that nothing else is allowed. The C library
    // does each for all threads. SAFETY: the pointer is to one group, as the length says.
    checked(unsafe { libc::setgroups(1, &raw const gid) })?;
    // SAFETY: no memory is involved.
    checked(unsafe { libc::setresgid(gid, gid, gid) })?;
    // SAFETY: no memory is involved.
    checked(unsafe { libc::setresuid(uid, uid, uid) })
}

fn checked(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether every thread has [`ACCOUNTS`] in force.
fn all_threads_may_become_others() -> io::Result<bool> {
    for task in FixedPath::new("/proc/self/task").entries()? {
        let status = FixedPath::below(&task?.path(), "status").read_to_string();
        let Ok(status) = status else { continue };
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let effective = effective.and_then(|mask| hexadecimal(mask.trim())).unwrap_or(0);
        if effective & ACCOUNTS.bits() != ACCOUNTS.bits() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Takes all but `kept` out of what any program may get that this thread runs.
fn bound(kept: CapabilitySet) -> io::Result<()> {
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        // The first number that the kernel does not know.
        let Ok(inside) = thread::capability_is_in_bounding_set(one) else { break };
        if inside && !kept.contains(one) {
            thread::remove_capability_from_bounding_set(one)?;
        }
    }
    Ok(())
}

/// All threads of this process are refused what no recorder does: running programs, sockets,
/// debugging, mounts, modules. The recorder has to have been started, and everything that it
/// launches.
///
/// # Errors
///
/// A kernel without filters of system calls, or a sandbox that refuses them.
pub fn refuse_what_recording_never_does() -> io::Result<()> {
    filter::recording()
}

/// As [`refuse_what_recording_never_does`], but for accepting connections at sockets that listen
/// already.
///
/// # Errors
///
/// A kernel without filters of system calls, or a sandbox that refuses them.
pub fn refuse_all_but_connections() -> io::Result<()> {
    filter::with_connections()
}

/// As [`refuse_what_recording_never_does`], but for sockets that lead to programs of this machine.
///
/// # Errors
///
/// A kernel without filters of system calls, or a sandbox that refuses them.
pub(crate) fn refuse_all_but_local_sockets() -> io::Result<()> {
    filter::with_local_sockets()
}

/// All threads of this process are refused everything but reading, writing and naming files, memory
/// and threads.
///
/// # Errors
///
/// A kernel without filters of system calls, or a sandbox that refuses them.
pub fn allow_only_naming_and_exporting() -> io::Result<()> {
    filter::finishing()
}

/// While this lives, the calling thread creates, gives away and renames files in anybody's folder,
/// as far as its [`Stage`] allows that. It is to live for single calls.
#[derive(Debug)]
pub struct WritingFiles {
    /// What was in force before; `None` where nothing had to change.
    before: Option<CapabilitySets>,
    /// Capabilities are a thread's, so this stays on its thread.
    _thread: PhantomData<*const ()>,
}

impl WritingFiles {
    /// Puts them in force.
    pub fn begin() -> Self {
        Self { before: Self::put_in_force(), _thread: PhantomData }
    }

    fn put_in_force() -> Option<CapabilitySets> {
        let before = thread::capabilities(None).ok()?;
        let effective = before.effective | (before.permitted & FILES);
        if effective == before.effective {
            return None;
        }
        thread::set_capabilities(None, CapabilitySets { effective, ..before }).ok()?;
        Some(before)
    }
}

impl Drop for WritingFiles {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // Less than is permitted is never refused.
            let _ = thread::set_capabilities(None, before);
        }
    }
}

#[cfg(test)]
mod tests;
