//! Who works for a thread that waits is as urgent as that thread.

/// The nice value of a thread, to be given to those that work for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadNice(libc::c_int);

impl ThreadNice {
    /// That of the calling thread.
    pub fn of_this_thread() -> Self {
        // SAFETY: the own thread's nice value; no memory is involved. It cannot fail, so that -1 is
        // a value.
        Self(unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) })
    }

    /// Gives it to a thread of this process, by its number, as far as that is permitted.
    pub fn give(self, thread: u32) {
        // SAFETY: plain numbers; no memory is involved.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, thread, self.0) };
    }

    /// Gives it to the calling thread.
    pub fn give_this_thread(self) {
        if Self::of_this_thread() != self {
            self.give(0);
        }
    }
}
