//! Attaching the programs to places in files.
//!
//! One link for many places where the kernel has it (6.6); before that an event
//! of the uprobe PMU for each. Both find the file through an open descriptor,
//! so that it may lie in a container or be deleted; both attach to the file's
//! inode: to processes that map it now, and to those that will.
//!
//! The kernel raises the semaphores, in every process, and lowers them when the
//! descriptors are closed: also when the recorder is killed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::cookies::Cookies;
use crate::bpf_calls::{self, Place};

/// How programs are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A link to many places of a file.
    Multi,
    /// An event of the uprobe PMU, whose type number this is, for each place.
    Events(u32),
    /// The same where events have no cookies (before 5.15).
    EventsWithoutCookies(u32),
}

/// Set to `events` to have the PMU's events used where links to many places are there, too.
const WAY: &str = "SYSCOLLECT_UPROBES";

impl Way {
    /// Whether [`of_this_kernel`](Self::of_this_kernel) may choose events. Asks the kernel's version only, so that it
    /// is known before anything is tried.
    pub(crate) fn may_be_events() -> bool {
        Self::events_are_forced() || !crate::ebpf::kernel_at_least(6, 6)
    }

    fn events_are_forced() -> bool {
        std::env::var_os(WAY).is_some_and(|way| way == "events")
    }

    /// The best way of this kernel; why there is none.
    pub(crate) fn of_this_kernel() -> Result<Self, String> {
        let forced = Self::events_are_forced();
        let refused = match crate::support::try_uprobe_multi() {
            Ok(()) if !forced => return Ok(Self::Multi),
            Ok(()) => "not used".to_owned(),
            Err(error) => error.to_string(),
        };
        match bpf_calls::uprobe_pmu() {
            Ok(pmu) if crate::ebpf::kernel_at_least(5, 15) => Ok(Self::Events(pmu)),
            Ok(pmu) => Ok(Self::EventsWithoutCookies(pmu)),
            Err(error) => Err(format!("links to many places: {refused}; the uprobe PMU: {error}")),
        }
    }
}

/// A program, and what hands it its cookies where the kernel does not.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) program: OwnedFd,
    pub(super) cookies: Option<Cookies>,
}

/// A place in a file at which a program is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    /// Where the instruction lies in the file.
    pub(super) offset: u64,
    /// Where its semaphore lies in the file, 16 bits; 0 for none.
    pub(super) semaphore: u64,
    /// What the program is told.
    pub(super) cookie: u64,
    /// It runs when the function that begins here returns.
    pub(super) at_return: bool,
}

/// What is attached. Dropping it detaches, and lowers the semaphores.
#[derive(Debug, Default)]
pub(super) struct Attached {
    links: Vec<OwnedFd>,
}

/// Closing a link waits for the whole machine to have taken notice, which
/// several can wait for at once.
const DETACHING_THREADS: usize = 16;

impl Drop for Attached {
    fn drop(&mut self) {
        let share = self.links.len().div_ceil(DETACHING_THREADS).max(1);
        std::thread::scope(|scope| {
            while !self.links.is_empty() {
                let some = self.links.split_off(self.links.len().saturating_sub(share));
                scope.spawn(|| some.into_iter().for_each(drop));
            }
        });
    }
}

impl Attached {
    /// Adds what `other` holds.
    pub(super) fn absorb(&mut self, mut other: Self) {
        self.links.append(&mut other.links);
    }

    /// How many descriptors hold it.
    pub(super) fn links(&self) -> usize {
        self.links.len()
    }
}

/// Places that could not be attached to, and why.
#[derive(Debug)]
pub(super) struct Refused {
    /// How many.
    pub(super) places: usize,
    /// What the kernel said.
    pub(super) why: io::Error,
}

/// Attaches `program` to points of one file, in all processes or in one.
/// Returns what is attached, and what was refused: a file may be attached in part.
pub(super) fn attach(
    way: Way,
    program: &Program,
    file: BorrowedFd<'_>,
    points: &[Point],
    pid: Option<u32>,
) -> (Attached, Vec<Refused>) {
    let (mut attached, mut refused) = (Attached::default(), Vec::new());
    for at_return in [false, true] {
        let places: Vec<Place> = points
            .iter()
            .filter(|point| point.at_return == at_return)
            .map(|point| Place { offset: point.offset, semaphore: point.semaphore, cookie: point.cookie })
            .collect();
        if places.is_empty() {
            continue;
        }
        match way {
            Way::Multi => {
                let program = program.program.as_fd();
                attach_all(program, file, &places, at_return, pid, &mut attached, &mut refused);
            }
            Way::Events(pmu) | Way::EventsWithoutCookies(pmu) => {
                let each = |place: &Place| attach_event(pmu, program, file, *place, at_return, pid);
                collect(places.iter().map(each), &mut attached, &mut refused);
            }
        }
    }
    (attached, refused)
}

/// All places with one link. The kernel refuses all for one that it cannot
/// probe, so then each half is tried by itself.
fn attach_all(
    program: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    places: &[Place],
    at_return: bool,
    pid: Option<u32>,
    attached: &mut Attached,
    refused: &mut Vec<Refused>,
) {
    match bpf_calls::link_uprobe_multi(program, &bpf_calls::path_of(file), places, at_return, pid) {
        Ok(link) => attached.links.push(link),
        Err(error) if places.len() > 1 && concerns_one_place(&error) => {
            let (first, second) = places.split_at(places.len() / 2);
            attach_all(program, file, first, at_return, pid, attached, refused);
            attach_all(program, file, second, at_return, pid, attached, refused);
        }
        Err(why) => refused.push(Refused { places: places.len(), why }),
    }
}

/// An instruction that cannot be probed, as opposed to a file or a kernel that cannot.
fn concerns_one_place(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP | libc::EIO | 524))
}

fn attach_event(
    pmu: u32,
    program: &Program,
    file: BorrowedFd<'_>,
    place: Place,
    at_return: bool,
    pid: Option<u32>,
) -> io::Result<Vec<OwnedFd>> {
    let event = bpf_calls::open_uprobe_event(pmu, &bpf_calls::path_of(file), place, at_return, pid)?;
    let Some(cookies) = &program.cookies else {
        let link = bpf_calls::link_perf_event(program.program.as_fd(), event.as_fd(), place.cookie)?;
        return Ok(vec![link, event]);
    };
    // The event holds on to the program.
    bpf_calls::run_at(event.as_fd(), cookies.program(place.cookie)?.as_fd())?;
    Ok(vec![event])
}

fn collect(
    results: impl Iterator<Item = io::Result<Vec<OwnedFd>>>,
    attached: &mut Attached,
    refused: &mut Vec<Refused>,
) {
    for result in results {
        match result {
            Ok(held) => attached.links.extend(held),
            Err(why) => match refused.iter_mut().find(|refused| refused.why.raw_os_error() == why.raw_os_error()) {
                Some(refused) => refused.places += 1,
                None => refused.push(Refused { places: 1, why }),
            },
        }
    }
}
