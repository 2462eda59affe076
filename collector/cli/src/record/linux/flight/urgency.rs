//! How the threads of snapshots stand to others.
//!
//! What is held is written before many others whoever wants it: that is little work, and until it
//! is done the recorder holds more than its buffer. Names are found before many others while
//! somebody waits for them. Where nobody does, as for a trigger's snapshot, they are found behind
//! everything else, but not for ever: a user who computes on all CPUs leaves nothing to who goes
//! behind.

use super::places::Requester;
use crate::record::backend::series::go_behind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use syscollect_capture::{RaisedSession, goes_before_many};

/// How long names are looked for while somebody waits.
const LONGEST_AWAITED: Duration = Duration::from_secs(8);
/// For how long a snapshot that nobody waits for is named behind everything else,
const LONGEST_BEHIND: Duration = Duration::from_secs(20);
/// and for how long in all.
const LONGEST_UNAWAITED: Duration = Duration::from_secs(30);
/// How often it is looked whether somebody waits by now.
const TICK: Duration = Duration::from_millis(100);
/// Snapshots of members of the group that came sooner after one of theirs go with all others: what
/// goes before others is taken from them.
const BETWEEN_MEMBERS: Duration = Duration::from_secs(30);

/// What the snapshots of a recorder know of each other.
#[derive(Debug, Default)]
pub(super) struct Urgencies {
    /// The recorder's session goes before others while any of them does.
    session: Mutex<Weak<RaisedSession>>,
    /// Of how many somebody waits until others are named.
    waiting: AtomicUsize,
    /// When one of a member last went before others.
    of_member: Mutex<Option<Instant>>,
}

/// How the thread that writes and names one snapshot stands, until this is dropped.
#[derive(Debug)]
pub(super) struct Urgency {
    all: Arc<Urgencies>,
    requester: Requester,
    thread: u32,
    session: Option<Arc<RaisedSession>>,
    /// Closed with this, so that the thread ends that would raise this one.
    behind: Option<Sender<()>>,
}

/// Somebody waits until others are named, until this is dropped.
pub(super) struct Waiting<'a>(&'a Urgencies);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Urgencies {
    /// Whether one for this requester goes before others at once.
    fn goes_first(&self, requester: Requester, now: Instant) -> bool {
        if !matches!(requester, Requester::Member(_)) {
            return true;
        }
        let mut last = lock(&self.of_member);
        let is_rare = last.is_none_or(|last| now.duration_since(last) >= BETWEEN_MEMBERS);
        if is_rare {
            *last = Some(now);
        }
        is_rare
    }

    /// That thread goes before others from now on; as long as what is returned lives, so does the
    /// session.
    fn raise(&self, thread: u32) -> Arc<RaisedSession> {
        goes_before_many(thread);
        let mut session = lock(&self.session);
        session.upgrade().unwrap_or_else(|| {
            let raised = Arc::new(RaisedSession::before_many());
            *session = Arc::downgrade(&raised);
            raised
        })
    }

    /// Raises the thread of a snapshot that nobody waits for once that was behind others for
    /// `longest`, or holds up one that somebody waits for, until `ended` is closed.
    fn raise_in_time(&self, thread: u32, ended: &Receiver<()>, longest: Duration) {
        let due = Instant::now() + longest;
        while Instant::now() < due && self.waiting.load(Ordering::Relaxed) == 0 {
            if ended.recv_timeout(TICK) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
        let _session = self.raise(thread);
        // Nothing is sent: it is over when the other end is gone.
        let _ = ended.recv();
    }
}

impl Urgencies {
    /// Whatever is named is waited for from now on.
    pub(super) fn hurry(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }
}

impl Urgency {
    /// The thread of this one goes before others: its place is wanted.
    pub(super) fn hurry(&mut self) {
        self.session = Some(self.all.raise(self.thread));
    }

    /// The calling thread writes a snapshot.
    pub(super) fn begin(all: &Arc<Urgencies>, requester: Requester) -> Self {
        // SAFETY: gettid takes nothing and cannot fail.
        let thread = unsafe { libc::gettid() } as u32;
        let goes_first = all.goes_first(requester, Instant::now());
        let session = goes_first.then(|| all.raise(thread));
        Self { all: all.clone(), requester, thread, session, behind: None }
    }

    /// It is written, and the calling thread names it: how long it may look for names.
    pub(super) fn written(&mut self) -> Duration {
        if !self.requester.is_trigger() {
            return LONGEST_AWAITED;
        }
        let (behind, ended) = channel();
        let (all, thread) = (self.all.clone(), self.thread);
        let watch = std::thread::Builder::new().name("urgency".into());
        // Before this one goes behind, for it inherits what this one has. Without it names are
        // missing where the machine is busy, and nothing else.
        let _ = watch.spawn(move || all.raise_in_time(thread, &ended, LONGEST_BEHIND));
        self.behind = Some(behind);
        self.session = None;
        go_behind();
        LONGEST_UNAWAITED
    }

    /// To be kept while others are named first: they hurry where somebody waits for this one.
    pub(super) fn wait(&self) -> Option<Waiting<'_>> {
        (!self.requester.is_trigger()).then(|| {
            self.all.waiting.fetch_add(1, Ordering::Relaxed);
            Waiting(&self.all)
        })
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in there is whole even if a thread panicked.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::places::TriggerShare;
    use super::*;
    use syscollect_triggers::Payer;
    use syscollect_untrusted_files::ThreadNice;

    const TRIGGER: Requester =
        Requester::Trigger(TriggerShare { trigger: 0, payer: Payer::User(1001) });

    #[test]
    fn a_member_who_asks_again_and_again_takes_little_from_others() {
        let (all, start) = (Urgencies::default(), Instant::now());
        let asked =
            |requester, seconds| all.goes_first(requester, start + Duration::from_secs(seconds));
        let [alice, bob] = [1, 2].map(Requester::Member);
        assert_eq!([asked(alice, 0), asked(bob, 1), asked(alice, 29)], [true, false, false]);
        assert!(asked(Requester::Owner, 2) && asked(TRIGGER, 2), "others are none");
        assert_eq!([asked(bob, 30), asked(bob, 31)], [true, false]);
    }

    #[test]
    fn a_triggers_snapshot_is_named_behind_others_until_it_holds_up_one_that_somebody_waits_for() {
        let all = Arc::new(Urgencies::default());
        let named = std::thread::spawn({
            let all = all.clone();
            move || {
                let mut triggered = Urgency::begin(&all, TRIGGER);
                let raised = ThreadNice::of_this_thread();
                assert_eq!(triggered.written(), LONGEST_UNAWAITED);
                assert!(triggered.wait().is_none(), "nobody waits for it");
                let behind = ThreadNice::of_this_thread();
                let asked = Urgency { requester: Requester::Owner, ..triggered };
                let _waiting = asked.wait();
                [raised, behind, once_raised(behind)]
            }
        });
        let [raised, behind, awaited] = named.join().unwrap();
        assert_ne!(raised, behind);
        assert_eq!(awaited, if may_be_raised() { raised } else { behind });
    }

    #[test]
    fn a_triggers_snapshot_does_not_stay_behind_others_for_ever() {
        let named = std::thread::spawn(|| {
            let (_open, ended) = channel();
            let thread = go_behind();
            // Before anybody raises it, which may be at once.
            let behind = ThreadNice::of_this_thread();
            std::thread::spawn(move || {
                Urgencies::default().raise_in_time(thread, &ended, Duration::ZERO);
            });
            once_raised(behind) != behind
        });
        assert_eq!(named.join().unwrap(), may_be_raised());
    }

    /// What the calling thread's nice value becomes.
    fn once_raised(behind: ThreadNice) -> ThreadNice {
        let patience = Instant::now();
        while ThreadNice::of_this_thread() == behind
            && may_be_raised()
            && patience.elapsed() < Duration::from_secs(20)
        {
            std::thread::sleep(TICK);
        }
        ThreadNice::of_this_thread()
    }

    /// Root may raise threads; a user may lower them alone.
    fn may_be_raised() -> bool {
        let tried = std::thread::spawn(|| {
            let thread = go_behind();
            let behind = ThreadNice::of_this_thread();
            goes_before_many(thread);
            ThreadNice::of_this_thread() != behind
        });
        tried.join().unwrap()
    }
}
