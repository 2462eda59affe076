//! How programs are attached to places in user code: by what this kernel has.

use crate::host::kernel_at_least;
use crate::{bpf_attempts, bpf_calls};

/// How programs are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttachMethod {
    /// A link to many places of a file.
    Multi,
    /// An event of the uprobe PMU, whose type number this is, for each place.
    Events(u32),
    /// The same where events have no cookies (before 5.15).
    EventsWithoutCookies(u32),
}

/// Set to `events` to have the PMU's events used where links to many places are there, too.
const WAY: &str = "SYSCOLLECT_UPROBES";

impl AttachMethod {
    /// Whether [`of_this_kernel`](Self::of_this_kernel) may choose events. Asks the kernel's
    /// version only, so that it is known before anything is tried.
    pub(crate) fn may_be_events() -> bool {
        Self::events_are_forced() || !kernel_at_least(6, 6)
    }

    fn events_are_forced() -> bool {
        std::env::var_os(WAY).is_some_and(|way| way == "events")
    }

    /// The best way of this kernel; why there is none.
    pub(crate) fn of_this_kernel() -> Result<Self, String> {
        let forced = Self::events_are_forced();
        let refused = match bpf_attempts::try_uprobe_multi() {
            Ok(()) if !forced => return Ok(Self::Multi),
            Ok(()) => "not used".to_owned(),
            Err(error) => error.to_string(),
        };
        match bpf_calls::uprobe_pmu() {
            Ok(pmu) if kernel_at_least(5, 15) => Ok(Self::Events(pmu)),
            Ok(pmu) => Ok(Self::EventsWithoutCookies(pmu)),
            Err(error) => Err(format!("links to many places: {refused}; the uprobe PMU: {error}")),
        }
    }
}
