//! What this machine can record, and why not: what `syscollect doctor` prints.
//!
//! Everything is tried rather than told from the kernel's version: events are
//! opened and small programs are loaded, and both are closed at once. The
//! attempts go through [`Probe`], and files through [`Machine`], so that tests
//! describe machines that are not here.

mod gpu;
mod interrupts;
mod limits;
mod machine;
mod presets;
mod probe;
mod sources;
mod user_probes;

use probe::{Probe, try_on_this_kernel};
use serde::Serialize;
use std::io;

pub use machine::Machine;

/// Something that recording uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// A short name that never changes: `"btf"`.
    pub name: &'static str,
    /// Whether it is there.
    pub available: bool,
    /// Whether nothing can be recorded without it.
    pub required: bool,
    /// What was found; if it is missing, what recording does without it.
    pub reason: String,
    /// The command that fixes it, if there is one.
    pub remedy: Option<String>,
}

impl Capability {
    /// The name of the drivers of GPUs, whose reason tells which there are.
    pub const GPU_DRIVERS: &str = "gpu_drivers";

    /// Whether it matters to `record --gpu` alone.
    pub fn is_of_gpus(&self) -> bool {
        self.name.starts_with("gpu_")
    }

    /// Whether it is a kind of libraries whose calls `record --gpu` records.
    pub fn is_of_gpu_calls(&self) -> bool {
        self.name.starts_with("gpu_calls_")
    }

    fn yes(name: &'static str, reason: impl Into<String>) -> Self {
        Self { name, available: true, required: false, reason: reason.into(), remedy: None }
    }

    fn no(name: &'static str, reason: impl Into<String>) -> Self {
        Self { name, available: false, required: false, reason: reason.into(), remedy: None }
    }

    fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// How to fix it, unless it is there.
    fn fix(mut self, remedy: impl Into<String>) -> Self {
        if !self.available {
            self.remedy = Some(remedy.into());
        }
        self
    }
}

/// What a kernel without permission answers is no word on what it can do.
const AS_ROOT: &str = "sudo syscollect doctor";

/// Every capability of this machine.
pub fn support() -> Vec<Capability> {
    support_of(&Machine::this(), &try_on_this_kernel)
}

/// What this process lacks of what names and describes: in words, for a
/// recording that goes on without it. Nothing as root.
pub(crate) fn lacking_for_names() -> Vec<String> {
    let machine = Machine::this();
    let all = limits::privileges(&machine)
        .into_iter()
        .chain(sources::names(&machine, &try_on_this_kernel));
    all.filter(|capability| !capability.available)
        .map(|capability| format!("{}: {}", capability.name, capability.reason))
        .collect()
}

/// How a kernel answers to attempts.
type Try<'a> = &'a dyn Fn(&Probe) -> io::Result<()>;

fn support_of(machine: &Machine, attempt: Try<'_>) -> Vec<Capability> {
    let mut all = Vec::new();
    all.extend(limits::privileges(machine));
    all.extend(sources::kernel_programs(machine, attempt));
    all.extend(user_probes::user_probes(machine, attempt));
    all.extend(sources::clocks(machine, attempt));
    all.extend(sources::sampling(machine, attempt));
    all.extend(limits::limits(machine, attempt));
    all.extend(sources::names(machine, attempt));
    all.push(sources::power(machine));
    all.extend(gpu::gpu(machine));
    all.push(interrupts::interrupts(machine, attempt));
    all.extend(presets::presets(machine));
    all
}

/// Tells one attempt: `yes` and `without` are the reasons, `remedy` fixes what
/// the kernel lacks; what it forbids is fixed by being root.
fn tried(
    name: &'static str,
    result: io::Result<()>,
    yes: impl Into<String>,
    without: &str,
    remedy: Option<&str>,
) -> Capability {
    let Err(error) = result else { return Capability::yes(name, yes) };
    let capability = Capability::no(name, format!("{without} ({})", describe(&error)));
    match (is_forbidden(&error), remedy) {
        (true, _) => capability.fix(AS_ROOT),
        (false, Some(remedy)) => capability.fix(remedy),
        (false, None) => capability,
    }
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES))
}

/// The system's word for an error, without the number that io::Error adds.
fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod gpu_tests;
#[cfg(test)]
mod tests;
