//! Whether a process is a Java virtual machine that awaits to be asked, and asking it as its user.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use syscollect_untrusted_files::{
    Owner, folder_in_root, read_text_patiently, status_at, working_folder,
};

use super::answer::Answer;
use super::protocol::Machine;
use super::watch::is_hotspot;
use crate::hexadecimal::hexadecimal;
use crate::privileges::{self, Stage};

/// A machine has a dozen threads, and the copy of one that is about to run another program has one:
/// that awaits the signal, too, until it is that program, which the signal ends.
const THREADS_MIN: u64 = 4;
/// Bytes of a list of mappings that are looked through, and of a command line.
const MAPPINGS_MAX: usize = 8 << 20;
const COMMAND_LINE_MAX: usize = 256 << 10;
/// From when a machine has loaded its library until it awaits the signal, and how often to see
/// whether it does.
const BEGINS: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// By which a machine is told to print its threads instead, whoever asks.
const TAKES_NONE: &[u8] = b"-XX:+DisableAttachMechanism";

/// Asks a process, if it is such a machine. This process has no right afterwards that its user has
/// not.
pub(super) fn ask(pid: u32, limit: Duration) -> Answer {
    let end = Instant::now() + limit;
    let target = match Target::find(pid) {
        Ok(target) => target,
        Err(why) => return why,
    };
    let Target { process, machine, status } = target;
    if become_user(&status).is_err() {
        return Answer::NotPermitted;
    }
    machine.ask(
        || Ok(pidfd_send_signal(&process, Signal::QUIT)?),
        end.saturating_duration_since(Instant::now()),
    )
}

/// A machine that may be asked.
struct Target {
    /// Not the one that has its number later.
    process: OwnedFd,
    machine: Machine,
    status: Status,
}

impl Target {
    /// Looks at a process. It may be any: who decides what it maps and what it is called wants the
    /// signal to be sent to it, or waits for somebody to look.
    fn find(pid: u32) -> Result<Self, Answer> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Answer::Gone)?;
        let process = pidfd_open(number, PidfdFlags::empty()).map_err(|_| Answer::Gone)?;
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let status = Status::of(&folder).ok_or(Answer::Gone)?;
        match status.state {
            'T' | 't' => return Err(Answer::Stopped),
            'Z' | 'X' => return Err(Answer::Gone),
            _ if status.threads < THREADS_MIN || !runs_hotspot(&folder) => {
                return Err(Answer::NotJvm);
            }
            _ if takes_none(&folder) || !awaits_quit(&folder) => return Err(Answer::TakesNone),
            _ => {}
        }
        let owner = Owner::of_process(pid).ok_or(Answer::Gone)?;
        let tmp = folder_in_root(pid, Path::new("/tmp"), &owner).map_err(|_| Answer::OutOfReach)?;
        let folder = working_folder(pid).ok();
        // What was read is of that process, if it lives: nobody else had its number.
        if has_ended(&process) {
            return Err(Answer::Gone);
        }
        let Status { own_pid, uid, .. } = status;
        Ok(Self { process, machine: Machine { tmp, folder, own_pid, pid, uid }, status })
    }
}

fn has_ended(process: &OwnedFd) -> bool {
    let mut ended = [PollFd::new(process, PollFlags::IN)];
    !matches!(poll(&mut ended, Some(&Timespec::default())), Ok(0))
}

fn runs_hotspot(folder: &Path) -> bool {
    let text = read_text_patiently(folder, "maps", MAPPINGS_MAX).unwrap_or_default();
    has_hotspot(&String::from_utf8_lossy(&text))
}

/// Whether HotSpot's library is loaded in what has these mappings, and not that of another machine,
/// whose libraries are called alike (OpenJ9: it writes a report of itself when it gets the signal).
/// A library that is loaded has variables: who reads its code, as recorders do, has none mapped.
fn has_hotspot(maps: &str) -> bool {
    let mut is_loaded = false;
    for line in maps.lines() {
        let Some((rest, path)) = line.find('/').map(|at| line.split_at(at)) else { continue };
        if path.contains("/libj9vm") {
            return false;
        }
        is_loaded |= is_hotspot(path) && rest.contains(" rw-p ");
    }
    is_loaded
}

/// Whether the process awaits the signal, or does soon: it may just have begun.
fn awaits_quit(folder: &Path) -> bool {
    let end = Instant::now() + BEGINS;
    loop {
        match Status::of(folder) {
            Some(status) if status.awaits_quit => return true,
            Some(_) if Instant::now() < end => std::thread::sleep(LOOK_AGAIN),
            _ => return false,
        }
    }
}

fn takes_none(folder: &Path) -> bool {
    let line = read_text_patiently(folder, "cmdline", COMMAND_LINE_MAX).unwrap_or_default();
    line.split(|byte| *byte == 0).any(|argument| argument == TAKES_NONE)
}

/// This process acts as the machine's user, and has no other right any more.
fn become_user(status: &Status) -> io::Result<()> {
    // SAFETY: no memory is involved.
    let own = unsafe { (libc::geteuid(), libc::getegid()) };
    if own.0 == 0 || own != (status.uid, status.gid) {
        privileges::become_user(status.uid, status.gid)?;
    }
    privileges::keep(Stage::ActingAsUser)
}

/// What /proc/PID/status says.
#[derive(Debug, PartialEq, Eq)]
struct Status {
    state: char,
    /// The id in the process's own namespace.
    own_pid: u32,
    /// By which the machine judges who asks.
    uid: u32,
    gid: u32,
    threads: u64,
    /// It has a function for SIGQUIT.
    awaits_quit: bool,
}

impl Status {
    fn of(folder: &Path) -> Option<Self> {
        Self::parse(&status_at(&folder.join("status"))?)
    }

    fn parse(text: &str) -> Option<Self> {
        let caught = hexadecimal(field(text, "SigCgt")?)?;
        Some(Self {
            state: field(text, "State")?.chars().next()?,
            own_pid: field(text, "NSpid")?.split_ascii_whitespace().next_back()?.parse().ok()?,
            uid: effective(text, "Uid")?,
            gid: effective(text, "Gid")?,
            threads: field(text, "Threads")?.parse().ok()?,
            awaits_quit: caught >> (libc::SIGQUIT - 1) & 1 == 1,
        })
    }
}

fn field<'a>(status: &'a str, key: &str) -> Option<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.map(str::trim)
}

/// Of a user's or a group's numbers: real, effective, saved, and that of file systems.
fn effective(status: &str, key: &str) -> Option<u32> {
    field(status, key)?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tjava\nState:\tS (sleeping)\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\n\
        NSpid:\t19205\t17\nThreads:\t19\nSigCgt:\t0000000101005ccd\n";

    #[test]
    fn a_machine_is_judged_by_what_the_kernel_says() {
        let expected =
            Status { state: 'S', own_pid: 17, uid: 2, gid: 6, threads: 19, awaits_quit: true };
        assert_eq!(Status::parse(STATUS), Some(expected));
        let deaf = STATUS.replace("5ccd", "5cc9");
        assert!(!Status::parse(&deaf).unwrap().awaits_quit, "the signal would end it");
        assert_eq!(Status::parse(&STATUS.replace("NSpid", "x")), None);
    }

    #[test]
    fn a_library_is_loaded_where_it_has_variables() {
        let code = line("r-xp", "/lib/server/libjvm.so");
        assert!(!has_hotspot(&code), "who reads its code has that mapped, too");
        let loaded = code + &line("rw-p", "/lib/server/libjvm.so (deleted)");
        assert!(has_hotspot(&loaded));
        assert!(!has_hotspot(&(loaded + &line("r-xp", "/lib/default/libj9vm29.so"))));
    }

    fn line(rights: &str, path: &str) -> String {
        format!("7f00-7f10 {rights} 00001000 fe:00 123   {path}\n")
    }

    #[test]
    fn a_process_that_is_no_machine_is_sent_no_signal() {
        assert_eq!(refusal(std::process::id()), Answer::NotJvm);
        assert_eq!(refusal(u32::MAX), Answer::Gone);
        assert_eq!(refusal(i32::MAX as u32), Answer::Gone);
    }

    fn refusal(pid: u32) -> Answer {
        Target::find(pid).map(drop).unwrap_err()
    }
}
