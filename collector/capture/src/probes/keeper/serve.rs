//! What runs in the keeper's process.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::Link;
use super::message::{KeeperRequest, OneProcess, Reply};
use crate::descriptor_passing;
use crate::privileges::{self, Stage};
use crate::usage;

/// How long it may take to detach after the recorder has gone, which waits for it no longer than a
/// moment: minutes, where programs have probed files mapped tens of thousands of times. What takes
/// longer hangs, in a file system that a user serves, say; whoever is ended before leaves
/// breakpoints behind.
const LONGEST_DETACHING: Duration = Duration::from_secs(1800);
/// Closing a link waits for the whole machine to have taken notice, which several can wait for at
/// once.
const DETACHING_THREADS: usize = 16;
/// What is closed one by one is followed by a pause as long as that took, and no longer than this.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// Where programs have a file mapped again and again, the kernel is busy with them meanwhile, and
/// nobody can fork: then the pause is so many times as long as it was, and no longer than this.
const PAUSE_PER_WORK: u32 = 9;
const LONGEST_PAUSE_FOR_WORK: Duration = Duration::from_secs(2);

/// Serves until the other end is closed, and detaches everything.
pub(super) fn run(mut socket: UnixStream, link: Link) -> io::Result<()> {
    raise_limit_of_files();
    privileges::keep(Stage::Attaching)?;
    // A sandbox may refuse filters, which the recorder says of itself.
    let _ = privileges::refuse_what_recording_never_does();
    end_what_hangs(&socket)?;
    let mut links = Vec::new();
    let detaching = Detaching::start()?;
    // An error, too, means that the recorder is gone.
    let result = serve(&mut socket, link, &mut links, &detaching);
    let rest = detaching.end();
    detach(links.into_iter().map(|(_, link)| link).collect());
    // A panic there has been printed.
    let _ = rest.join();
    result
}

/// Each place is a descriptor where the kernel has no link to many.
fn raise_limit_of_files() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
}

/// Starts a thread that ends this process if it is there long after the recorder.
fn end_what_hangs(socket: &UnixStream) -> io::Result<()> {
    let socket = socket.try_clone()?;
    std::thread::Builder::new()
        .spawn(move || {
            let mut gone = [PollFd::new(&socket, PollFlags::RDHUP)];
            while !matches!(poll(&mut gone, None), Ok(1..)) {}
            std::thread::sleep(LONGEST_DETACHING);
            // SAFETY: ends this process and runs nothing of the recorder's, whose copy this is.
            unsafe { libc::_exit(1) }
        })
        .map(drop)
}

/// What is attached, and the lease under which it is.
type Leased = (u64, OwnedFd);

/// Attaches and lets go at the recorder's word, until it says no more.
fn serve(
    socket: &mut UnixStream,
    link: Link,
    links: &mut Vec<Leased>,
    detaching: &Detaching,
) -> io::Result<()> {
    while let Some((asked, fds)) = receive(socket)? {
        let done = match asked {
            KeeperRequest::Attach(request) => {
                let [program, file] = <[OwnedFd; 2]>::try_from(fds)
                    .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
                let lease = request.process.map_or(0, |OneProcess { lease, .. }| lease);
                let made = link(&request, program.as_fd(), file.as_fd());
                made.map(|made| links.extend(made.into_iter().map(|link| (lease, link))))
            }
            KeeperRequest::LetGo { leases, at_once } => {
                let over: Vec<_> = links
                    .extract_if(.., |(lease, _)| leases.contains(lease))
                    .map(|(_, link)| link)
                    .collect();
                match at_once {
                    true => detach(over),
                    false => detaching.add(over),
                }
                Ok(())
            }
        };
        let errno = done.map_or_else(|error| error.raw_os_error().unwrap_or(libc::EIO), |()| 0);
        socket.write_all(&Reply { errno, cpu_ns: usage::cpu_time().as_nanos() as u64 }.encode())?;
    }
    Ok(())
}

/// What is asked for next, with its program and its file; `None` at the end.
fn receive(socket: &mut UnixStream) -> io::Result<Option<(KeeperRequest, Vec<OwnedFd>)>> {
    let mut head = [0; KeeperRequest::HEAD_BYTES];
    let (received, fds) = descriptor_passing::receive(socket, &mut head)?;
    if received == 0 {
        return Ok(None);
    }
    socket.read_exact(&mut head[received..])?;
    let (mut asked, length) = KeeperRequest::decode_head(&head);
    let mut rest = vec![0; length];
    socket.read_exact(&mut rest)?;
    asked.decode_rest(&rest);
    Ok(Some((asked, fds)))
}

/// Closes links one after the other, of which each can keep others from being made for a moment.
struct Detaching {
    links: Sender<OwnedFd>,
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Detaching {
    fn start() -> io::Result<Self> {
        let (links, received) = channel();
        let ends = Arc::new(AtomicBool::new(false));
        let is_ending = ends.clone();
        let thread =
            std::thread::Builder::new().spawn(move || Self::close_all(&received, &is_ending))?;
        Ok(Self { links, ends, thread })
    }

    /// Closes them one after the other, and pauses in between until all are to end.
    fn close_all(links: &Receiver<OwnedFd>, is_ending: &AtomicBool) {
        for link in links {
            let (began, cpu_time) = (Instant::now(), usage::thread_cpu_time());
            drop(link);
            let worked = usage::thread_cpu_time().saturating_sub(cpu_time);
            let pause = (worked * PAUSE_PER_WORK).min(LONGEST_PAUSE_FOR_WORK);
            if !is_ending.load(Ordering::Relaxed) {
                std::thread::park_timeout(pause.max(began.elapsed().min(LONGEST_PAUSE)));
            }
        }
    }

    fn add(&self, links: Vec<OwnedFd>) {
        // Where the thread broke off, they are closed here.
        links.into_iter().for_each(|link| drop(self.links.send(link)));
    }

    /// What is left is closed without pauses.
    fn end(self) -> JoinHandle<()> {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread
    }
}

/// Closes links.
fn detach(mut links: Vec<OwnedFd>) {
    let share = links.len().div_ceil(DETACHING_THREADS).max(1);
    std::thread::scope(|scope| {
        while !links.is_empty() {
            let some = links.split_off(links.len().saturating_sub(share));
            // Without the thread they are closed here, with what it would have done.
            let detach = || some.into_iter().for_each(drop);
            let _ = std::thread::Builder::new().spawn_scoped(scope, detach);
        }
    });
}
