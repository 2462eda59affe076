//! Threads whose end is waited for, but not for ever: what they stand in (a file of a hostile
//! program, a disk that does not answer, the kernel) must not keep the recorder from ending.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::Thread;
use std::time::Duration;

/// A thread that makes a `T`. Dropping it does not end the thread.
#[derive(Debug)]
pub(crate) struct Worker<T> {
    done: Receiver<T>,
    thread: Thread,
}

/// Why a thread gave no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfinished {
    /// It panicked, which was printed.
    #[error("it broke off: a bug in syscollect")]
    Panicked,
    /// It did not end in time; it is left alone.
    #[error("it did not end within {} seconds", .0.as_secs())]
    Late(Duration),
}

impl<T: Send + 'static> Worker<T> {
    /// Starts a thread of that name.
    ///
    /// # Errors
    ///
    /// The system gives no more threads.
    pub(crate) fn start(
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<Self> {
        // With room for the one result, so that a thread nobody waits for any more can end.
        let (send, done) = sync_channel(1);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            // An error means that nobody waits any more.
            let _ = send.send(work());
        })?;
        Ok(Self { done, thread: thread.thread().clone() })
    }

    /// The thread.
    pub(crate) fn thread(&self) -> &Thread {
        &self.thread
    }

    /// Wakes the thread where it is parked.
    pub(crate) fn unpark(&self) {
        self.thread.unpark();
    }

    /// Whether the thread has a result, or never will.
    pub(crate) fn wait(&self, longest: Duration) -> Result<T, Unfinished> {
        self.done.recv_timeout(longest).map_err(|error| match error {
            RecvTimeoutError::Disconnected => Unfinished::Panicked,
            RecvTimeoutError::Timeout => Unfinished::Late(longest),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    #[test]
    fn a_thread_that_does_not_end_is_waited_for_no_longer_than_allowed() {
        let (end, wait) = channel::<()>();
        let worker = Worker::start("stands still", move || wait.recv().is_err()).unwrap();
        let begin = Instant::now();
        let longest = Duration::from_millis(50);
        assert_eq!(worker.wait(longest), Err(Unfinished::Late(longest)));
        assert!(begin.elapsed() >= longest);
        drop(end);
        assert_eq!(worker.wait(Duration::from_secs(20)), Ok(true));
    }

    #[test]
    fn a_thread_that_panics_is_told_from_one_that_is_late() {
        let worker: Worker<()> =
            Worker::start("panics", || std::panic::resume_unwind(Box::new(()))).unwrap();
        assert_eq!(worker.wait(Duration::from_secs(20)), Err(Unfinished::Panicked));
    }
}
