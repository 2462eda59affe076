//! Whether what an interrupt does is told from what the thread does that it interrupts.

use syscollect_untrusted_files::FixedPath;

use super::machine::Machine;
use super::probe::Probe;
use super::{Capability, Try};
use crate::arch::{HOT, PREEMPT_COUNT};
use crate::interrupts::shows_count;

/// Which way the recorder takes to the kernel's count of interrupts.
pub(super) fn interrupts(machine: &Machine, attempt: Try<'_>) -> Capability {
    const NAME: &str = "interrupts";
    const TOLD: &str =
        "what interrupts do (wake threads, signal fences) is told from what threads do";
    for variable in [PREEMPT_COUNT, HOT] {
        if attempt(&Probe::Variable(variable)).is_ok() {
            return Capability::yes(NAME, format!("{TOLD}, by the kernel's variable {variable}"));
        }
    }
    if FixedPath::below(machine.root(), "proc/kallsyms").open().is_ok_and(shows_count) {
        return Capability::yes(
            NAME,
            format!("{TOLD}, by the address of {PREEMPT_COUNT} in /proc/kallsyms"),
        );
    }
    let why = "what interrupts do to GPUs is told of the threads that they interrupt, and wakeups \
               in page faults have no waker: the kernel does not show where it counts interrupts";
    Capability::no(NAME, why)
        .fix("a kernel with CONFIG_KALLSYMS_ALL shows it, to root or with cap_syslog")
}
