//! Zones that are open on a thread, and whose they are.
//!
//! The client knows a zone by its depth alone. A with-block in a generator may end while others
//! are open, on another thread, or in a forked child, so it is asked here whose zone is at that
//! depth: an end that finds none of its own ends nothing.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering};

use syscollect_usdt_client::ZoneToken;
use syscollect_usdt_client::zone::end;

use crate::site::{Begun, Site};

/// A zone, and whose it is.
pub(crate) struct OpenZone {
    owner: u64,
    token: ZoneToken,
    site: Option<&'static Site>,
    /// What it is called, if not as its place.
    name: Option<Box<str>>,
}

/// A zone that is laid aside while its coroutine or generator waits.
pub(crate) struct SuspendedZone {
    owner: u64,
    site: &'static Site,
    name: Option<Box<str>>,
}

/// Those of a coroutine, the outermost first. One for whose place there was no room has ended.
pub(crate) type Suspended = Vec<SuspendedZone>;

/// Owners with this bit are functions, whose ends are no longer seen once [`forget_functions`] was
/// called.
pub(crate) const IS_FUNCTION: u64 = 1 << 63;

/// How often [`forget_functions`] was called.
static FORGOTTEN: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static FORGOTTEN_HERE: Cell<u32> = const { Cell::new(0) };
    static OPEN: RefCell<Vec<OpenZone>> = const { RefCell::new(Vec::new()) };
}

/// No zone of a function will end by itself: each thread ends them before its next zone.
pub(crate) fn forget_functions() {
    FORGOTTEN.fetch_add(1, Ordering::Relaxed);
    before_zone();
}

/// Before a zone begins: ends what [`forget_functions`] has left open on this thread.
#[inline]
pub(crate) fn before_zone() {
    let forgotten = FORGOTTEN.load(Ordering::Relaxed);
    if FORGOTTEN_HERE.replace(forgotten) != forgotten {
        end_functions();
    }
}

#[cold]
fn end_functions() {
    let outermost = |open: &mut Vec<OpenZone>| {
        open.iter().find(|zone| zone.owner & IS_FUNCTION != 0).map(|zone| zone.owner)
    };
    while let Some(owner) = with(outermost).flatten() {
        pop(owner, |_| {});
    }
}

/// Remembers a zone that has begun.
pub(crate) fn push(owner: u64, Begun { token, site, name }: Begun) {
    if token.is_active() {
        with(|open| open.push(OpenZone { owner, token, site, name }));
    }
}

/// Ends the owner's innermost zone on this thread, if it has one; `before` says what is yet to be
/// said of it.
pub(crate) fn pop(owner: u64, before: impl FnOnce(ZoneToken)) {
    let found = with(|open| {
        let index = open.iter().rposition(|zone| zone.owner == owner)?;
        let token = open[index].token;
        open.truncate(index);
        Some(token)
    });
    if let Some(token) = found.flatten() {
        before(token);
        end(token);
    }
}

/// The owner's innermost zone on this thread.
pub(crate) fn token_of(owner: u64) -> ZoneToken {
    let find = |open: &mut Vec<OpenZone>| {
        open.iter().rev().find(|zone| zone.owner == owner).map(|zone| zone.token)
    };
    with(find).flatten().unwrap_or(ZoneToken::INACTIVE)
}

/// Ends the owner's innermost zone and those within it, which are given back to be begun again.
pub(crate) fn suspend(owner: u64) -> Suspended {
    let mut inner = Suspended::new();
    let found = with(|open| {
        let index = open.iter().rposition(|zone| zone.owner == owner)?;
        let token = open[index].token;
        inner.extend(open.drain(index + 1..).filter_map(
            |OpenZone { owner, site, name, .. }| Some(SuspendedZone { owner, site: site?, name }),
        ));
        open.truncate(index);
        Some(token)
    });
    if let Some(token) = found.flatten() {
        end(token);
    }
    inner
}

/// Begins zones again that were laid aside.
pub(crate) fn resume(suspended: Suspended) {
    for SuspendedZone { owner, site, name } in suspended {
        push(owner, site.begin_named(name));
    }
}

/// The owner's innermost zone on this thread is called so.
pub(crate) fn rename(owner: u64, name: &str) {
    with(|open| {
        if let Some(zone) = open.iter_mut().rev().find(|zone| zone.owner == owner) {
            zone.name = Some(name.into());
        }
    });
}

/// Nothing where the thread is about to end, or where a signal's handler came in between.
fn with<T>(work: impl FnOnce(&mut Vec<OpenZone>) -> T) -> Option<T> {
    OPEN.try_with(|open| open.try_borrow_mut().ok().map(|mut open| work(&mut open))).ok().flatten()
}
