//! Attaching the programs to points of files.
//!
//! One link for many points where the kernel has it (6.6); before that an event
//! of the uprobe PMU for each. Both find the file through an open descriptor,
//! so that it may lie in a container or be deleted; both attach to the file's
//! inode: to processes that map it now, and to those that will.
//!
//! The kernel raises the semaphores, in every process, and lowers them when the
//! descriptors are closed, which [`keeper`](super::keeper) holds.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::cookies::Cookies;
use super::keeper::{OneProcess, PerfLink, Request, UprobeKeeper};
use crate::attach_method::AttachMethod;
use crate::bpf_calls::{self, UprobePoint};

/// A program, and what hands it its cookies where the kernel does not.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) program: OwnedFd,
    pub(super) cookies: Option<Cookies>,
}

/// A point of a file at which a program is to run.
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

/// Places that could not be attached to, and why.
#[derive(Debug)]
pub(super) struct RefusedPoints {
    /// How many.
    pub(super) points: usize,
    /// What the kernel said.
    pub(super) why: io::Error,
}

/// A program that is attached to a file.
struct Attaching<'a> {
    keeper: &'a mut UprobeKeeper,
    program: &'a Program,
    file: BorrowedFd<'a>,
    /// In all processes or in one.
    process: Option<OneProcess>,
    refused: Vec<RefusedPoints>,
}

/// Attaches `program` to points of one file, in all processes or in one, for as long as the keeper
/// lives. Returns what was refused: a file may be attached in part.
pub(super) fn attach(
    keeper: &mut UprobeKeeper,
    way: AttachMethod,
    program: &Program,
    file: BorrowedFd<'_>,
    points: &[Point],
    process: Option<OneProcess>,
) -> Vec<RefusedPoints> {
    let mut attaching = Attaching { keeper, program, file, process, refused: Vec::new() };
    for at_return in [false, true] {
        let points: Vec<UprobePoint> = points
            .iter()
            .filter(|point| point.at_return == at_return)
            .map(|point| UprobePoint {
                offset: point.offset,
                semaphore: point.semaphore,
                cookie: point.cookie,
            })
            .collect();
        if points.is_empty() {
            continue;
        }
        match way {
            AttachMethod::Multi => attaching.all(&points, at_return),
            AttachMethod::Events(pmu) | AttachMethod::EventsWithoutCookies(pmu) => {
                points.iter().for_each(|point| attaching.event(pmu, *point, at_return));
            }
        }
    }
    attaching.refused
}

impl Attaching<'_> {
    /// All points with one link. The kernel refuses all for one that it cannot
    /// probe, so then each half is tried by itself.
    fn all(&mut self, points: &[UprobePoint], at_return: bool) {
        let request = Request {
            means: PerfLink::Link,
            at_return,
            process: self.process,
            points: points.to_vec(),
        };
        match self.keeper.link(&request, self.program.program.as_fd(), self.file) {
            Ok(()) => {}
            Err(error) if points.len() > 1 && concerns_one_place(&error) => {
                let (first, second) = points.split_at(points.len() / 2);
                self.all(first, at_return);
                self.all(second, at_return);
            }
            Err(why) => self.refuse(points.len(), why),
        }
    }

    fn event(&mut self, pmu: u32, point: UprobePoint, at_return: bool) {
        let request =
            |means| Request { means, at_return, process: self.process, points: vec![point] };
        let linked = match &self.program.cookies {
            None => self.keeper.link(
                &request(PerfLink::LinkedEvent(pmu)),
                self.program.program.as_fd(),
                self.file,
            ),
            // The event holds on to the program.
            Some(cookies) => cookies.program(point.cookie).and_then(|program| {
                self.keeper.link(&request(PerfLink::Event(pmu)), program.as_fd(), self.file)
            }),
        };
        if let Err(why) = linked {
            self.refuse(1, why);
        }
    }

    fn refuse(&mut self, points: usize, why: io::Error) {
        match self
            .refused
            .iter_mut()
            .find(|refused| refused.why.raw_os_error() == why.raw_os_error())
        {
            Some(refused) => refused.points += points,
            None => self.refused.push(RefusedPoints { points, why }),
        }
    }
}

/// An instruction that cannot be probed, as opposed to a file or a kernel that cannot.
fn concerns_one_place(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP | libc::EIO | 524))
}

/// Makes the links of a request. Closing them detaches.
pub(super) fn link(
    request: &Request,
    program: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
) -> io::Result<Vec<OwnedFd>> {
    let Request { means, at_return, process, points } = request;
    let pid = process.map(|one| one.pid);
    let path = bpf_calls::path_of(file);
    let (pmu, is_linked) = match *means {
        PerfLink::Link => {
            return bpf_calls::link_uprobe_multi(program, &path, points, *at_return, pid)
                .map(|link| vec![link]);
        }
        PerfLink::Event(pmu) => (pmu, false),
        PerfLink::LinkedEvent(pmu) => (pmu, true),
    };
    let point = *points.first().ok_or(io::ErrorKind::InvalidInput)?;
    let event = bpf_calls::open_uprobe_event(pmu, &path, point, *at_return, pid)?;
    if is_linked {
        let link = bpf_calls::link_perf_event(program, event.as_fd(), point.cookie)?;
        return Ok(vec![link, event]);
    }
    bpf_calls::run_at(event.as_fd(), program)?;
    Ok(vec![event])
}
