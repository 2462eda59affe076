//! Whether what an interrupt does to a GPU is told from what the thread does that it interrupts.

use std::fs::File;

use super::machine::Machine;
use super::probe::Probe;
use super::{AS_ROOT, Capability, Try};
use crate::tracepoints::shows_count_of_interrupts;

/// Which way the recorder takes to the kernel's count of interrupts.
pub(super) fn interrupts(machine: &Machine, attempt: Try<'_>) -> Capability {
    const NAME: &str = "gpu_interrupts";
    const TOLD: &str = "what interrupts do to GPUs is told from what threads do";
    for variable in ["__preempt_count", "pcpu_hot"] {
        if attempt(&Probe::Variable(variable)).is_ok() {
            return Capability::yes(NAME, format!("{TOLD}, by the kernel's variable {variable}"));
        }
    }
    if File::open(machine.path("proc/kallsyms")).is_ok_and(shows_count_of_interrupts) {
        return Capability::yes(
            NAME,
            format!("{TOLD}, by the address of __preempt_count in /proc/kallsyms"),
        );
    }
    let why = "what interrupts do to GPUs is told of the threads that they interrupt: the kernel describes no variable \
               that counts them, and shows no addresses (which need cap_syslog)";
    Capability::no(NAME, why).mend(AS_ROOT)
}
