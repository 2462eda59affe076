//! How much of a CPU the session has that this process is in.
//!
//! Where no control group divides the CPUs, the kernel does, among sessions
//! (`CONFIG_SCHED_AUTOGROUP`, sched(7)): a nice value counts within its session only, and a user
//! who starts 40 sessions leaves the recorder a 41st of what there is. But a session has a nice
//! value of its own.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use syscollect_untrusted_files::FixedPath;

/// This process's file: `/autogroup-25 nice 0`; what is written is the nice value.
const PATH: &str = "/proc/self/autogroup";
/// What a session has that nobody changed. Others are left as they are: somebody knows why.
const ORDINARY: &str = "nice 0";
/// Whoever may not change other sessions waits a tenth of a second between two changes, of any
/// session.
const BETWEEN_CHANGES: Duration = Duration::from_millis(110);
const TRIES: u32 = 5;

/// The file, open, while the session goes before others; -1 while it does not.
static RAISED: AtomicI32 = AtomicI32::new(-1);

/// While this lives, the session of this process goes before others.
#[derive(Debug, Default)]
pub struct RaisedSession {
    is_raised: bool,
}

impl RaisedSession {
    /// The session goes before many others, as threads do ([`super::goes_before_many`]).
    pub fn before_many() -> Self {
        Self::to(-super::BEFORE_MANY)
    }

    /// Gives the session a nice value below 0; does nothing where it has one already, where that is
    /// not permitted, or where CPUs are not divided among sessions.
    fn to(nice: libc::c_int) -> Self {
        let raised = raise(nice).map(|file| RAISED.store(file.into_raw_fd(), Ordering::Release));
        Self { is_raised: raised.is_ok() }
    }
}

/// The file in which the session's nice value is now this.
fn raise(nice: libc::c_int) -> std::io::Result<std::fs::File> {
    let mut file = FixedPath::new(PATH).open_with(OpenOptions::new().read(true).write(true))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    if !text.trim_end().ends_with(ORDINARY) || RAISED.load(Ordering::Acquire) >= 0 {
        return Err(std::io::Error::other("it is not for us to change"));
    }
    file.write_all(nice.to_string().as_bytes())?;
    Ok(file)
}

impl Drop for RaisedSession {
    fn drop(&mut self) {
        if !self.is_raised {
            return;
        }
        for _ in 0..TRIES {
            if restore_session() {
                break;
            }
            std::thread::sleep(BETWEEN_CHANGES);
        }
    }
}

/// The session no longer goes before others, if it did; whether that is so. May be called in a
/// signal handler, before the process ends.
pub fn restore_session() -> bool {
    let file = RAISED.swap(-1, Ordering::AcqRel);
    if file < 0 {
        return true;
    }
    let ordinary = c"0";
    // SAFETY: a descriptor that is never closed, and text that outlives the call;
    // async-signal-safe.
    let written = unsafe { libc::write(file, ordinary.as_ptr().cast(), 1) };
    if written != 1 {
        RAISED.store(file, Ordering::Release);
    }
    written == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nice() -> Option<String> {
        let text = std::fs::read_to_string(PATH).ok()?;
        text.rsplit_once("nice ").map(|(_, nice)| nice.trim_end().to_owned())
    }

    #[test]
    fn a_session_goes_before_others_for_a_while_where_that_is_permitted() {
        let before = nice();
        let raised = RaisedSession::to(-2);
        let expected = if raised.is_raised { Some("-2".to_owned()) } else { before.clone() };
        assert_eq!(nice(), expected);
        drop(raised);
        assert_eq!(nice(), before);
    }
}
