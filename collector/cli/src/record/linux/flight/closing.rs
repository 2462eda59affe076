//! Descriptors that others sent are closed on a thread of its own.
//!
//! Closing may take as long as whoever made the descriptor wants it to: a connection waits for its
//! data to be sent (`SO_LINGER`), a file for the process that serves its file system, and a socket
//! for what lies in it unread. Neither the thread that listens nor the one that answers may wait
//! for that.

use crate::confine;
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// While so many wait to be closed, nothing is received that could bring more. What is in requests
/// that were heard before comes on top.
const MOST: usize = 64;

/// Closes descriptors.
#[derive(Clone)]
pub(super) struct Closer {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    descriptors: Mutex<VecDeque<OwnedFd>>,
    changed: Condvar,
}

impl Closer {
    /// Starts the thread, which goes on until the program ends.
    pub(super) fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let ours = Arc::clone(&shared);
        std::thread::Builder::new().name("closing".into()).spawn(move || ours.run())?;
        Ok(Self { shared })
    }

    /// Closes it soon; does not wait.
    pub(super) fn close(&self, descriptor: OwnedFd) {
        self.shared.lock().push_back(descriptor);
        self.shared.changed.notify_all();
    }

    /// Whether there is room for more descriptors, now or before so much time has passed.
    pub(super) fn has_room(&self, longest: Duration) -> bool {
        let is_full = |waiting: &mut VecDeque<OwnedFd>| waiting.len() >= MOST;
        let (waiting, _) = self
            .shared
            .changed
            .wait_timeout_while(self.shared.lock(), longest, is_full)
            .unwrap_or_else(PoisonError::into_inner);
        waiting.len() < MOST
    }
}

impl Shared {
    fn run(&self) {
        confine::to_waiting();
        loop {
            let mut waiting = self
                .changed
                .wait_while(self.lock(), |waiting| waiting.is_empty())
                .unwrap_or_else(PoisonError::into_inner);
            let descriptor = waiting.pop_front();
            drop(waiting);
            if let Some(descriptor) = descriptor {
                do_not_linger(&descriptor);
                drop(descriptor);
            }
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<OwnedFd>> {
        self.descriptors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection goes on to send what it has, and nobody waits for it. What is none refuses this.
fn do_not_linger(descriptor: &OwnedFd) {
    let off = libc::linger { l_onoff: 0, l_linger: 0 };
    // SAFETY: the kernel reads the value, of that size.
    unsafe {
        libc::setsockopt(
            descriptor.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const off).cast(),
            size_of_val(&off) as libc::socklen_t,
        )
    };
}

/// A descriptor that somebody else sent; wherever this is dropped, it is closed on the other
/// thread.
pub(super) struct Brought {
    descriptor: Option<OwnedFd>,
    closer: Closer,
}

impl Brought {
    pub(super) fn new(descriptor: OwnedFd, closer: &Closer) -> Self {
        Self { descriptor: Some(descriptor), closer: closer.clone() }
    }

    pub(super) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd)
    }

    /// For a thread that may wait until it is closed.
    pub(super) fn into_file(mut self) -> Option<File> {
        self.descriptor.take().map(File::from)
    }
}

impl Drop for Brought {
    fn drop(&mut self) {
        if let Some(descriptor) = self.descriptor.take() {
            self.closer.close(descriptor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeReader, Read};

    fn closed(mut pipe: PipeReader) -> bool {
        pipe.read(&mut [0]).expect("a pipe can be read") == 0
    }

    #[test]
    fn what_was_brought_is_closed_soon_after_it_is_dropped() {
        let closer = Closer::start().unwrap();
        let pipes: Vec<PipeReader> = (0..MOST * 2)
            .map(|_| {
                let (reader, writer) = std::io::pipe().unwrap();
                drop(Brought::new(writer.into(), &closer));
                reader
            })
            .collect();
        assert!(pipes.into_iter().all(closed));
        assert!(closer.has_room(Duration::from_secs(10)));
        let (reader, writer) = std::io::pipe().unwrap();
        let file = Brought::new(writer.into(), &closer).into_file();
        drop(file.unwrap());
        assert!(closed(reader));
    }

    #[test]
    fn while_too_many_wait_there_is_no_room_for_more() {
        // Nobody closes anything.
        let closer = Closer { shared: Arc::default() };
        let null = File::open("/dev/null").unwrap();
        for _ in 0..MOST {
            assert!(closer.has_room(Duration::ZERO));
            closer.close(null.try_clone().unwrap().into());
        }
        assert!(!closer.has_room(Duration::from_millis(1)));
    }
}
