//! What was asked, by whom, and where the answer goes.

use super::closing::{Brought, Closer};
use super::message::{Answer, Request};
use std::os::fd::OwnedFd;
use syscollect_capture::{is_unix_stream, send_at_once};

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// Root, or the user who runs the recorder.
    Owner,
    /// A member of the group: this user.
    Member(u32),
}

impl Asker {
    /// Who the kernel says it is.
    pub(super) fn of(user: Option<u32>) -> Self {
        // SAFETY: geteuid has no preconditions and always succeeds.
        let own = unsafe { libc::geteuid() };
        match user {
            Some(user) if user == 0 || user == own => Self::Owner,
            user => Self::Member(user.unwrap_or(u32::MAX)),
        }
    }
}

/// A request, and where its answer goes.
pub(super) struct Asked {
    pub(super) asker: Asker,
    pub(super) request: Request,
    /// What came for a snapshot; nobody has looked yet what it is, as that may take time, too.
    pub(super) file: Option<Brought>,
    pub(super) answer: AnswerSocket,
}

/// Where an answer goes.
pub(super) struct AnswerSocket(Brought);

impl AnswerSocket {
    /// `None` where it is no stream to somebody of this machine.
    pub(super) fn of(descriptor: OwnedFd, closer: &Closer) -> Option<Self> {
        let is_one = is_unix_stream(&descriptor);
        let brought = Brought::new(descriptor, closer);
        is_one.then_some(Self(brought))
    }

    /// Answers without waiting: whoever has left or has no room is not answered.
    pub(super) fn send(self, answer: &Answer) {
        if let (Some(socket), Ok(answer)) = (self.0.as_fd(), serde_json::to_vec(answer)) {
            send_at_once(&socket, &answer);
        }
    }

    pub(super) fn refuse(self, why: &str) {
        self.send(&Answer::Refused { why: why.into() });
    }
}
