//! Programs that tell which work of GPUs failed, which no tracepoint says.
//!
//! Raw tracepoints: what their arguments point to is read by offsets, because
//! the types are not all of vmlinux (5.11 describes those of modules).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use super::object::Settings;
use super::offer::Offer;
use crate::bpf_calls::{self, PROG_TYPE_RAW_TRACEPOINT, ProgramKind};
use crate::bpf_object::{KernelObject, MapSizes, SharedMaps};
use crate::btf;
use crate::committed_object;
use crate::error::CaptureError;

const NAME: &str = "fences.bpf.o";
const RAW_TRACEPOINT_OPEN: i64 = 17;
/// The module that has the DRM scheduler, where it is not built in.
const SCHEDULER: &str = "gpu_sched";

/// Said where jobs of the scheduler cannot be told from failed ones.
pub(crate) const NO_JOBS: &str = "jobs of the DRM scheduler that failed are shown as finished, \
                                  their fences as failed: the kernel does not describe the module \
                                  gpu_sched (from 5.11 on it may)";
/// Said where nothing can.
pub(crate) const NO_FENCES: &str =
    "work of GPUs that failed is shown as finished: the kernel does not describe fences";

/// Where members lie in the kernel's structures, bytes from their start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// `error`, `context` and `seqno` of `struct dma_fence`.
    fence: [u32; 3],
    /// `finished` and `parent` of `struct drm_sched_fence`.
    job: Option<[u32; 2]>,
}

impl Layout {
    /// That of the machine whose /sys lies below `root`.
    ///
    /// # Errors
    ///
    /// The kernel describes no fences; what reading said.
    pub(crate) fn below(root: &Path) -> io::Result<Self> {
        let fence = btf::offsets(root, None, "dma_fence", ["error", "context", "seqno"])?;
        let job =
            |module| btf::offsets(root, module, "drm_sched_fence", ["finished", "parent"]).ok();
        Ok(Self { fence, job: job(Some(SCHEDULER)).or_else(|| job(None)) })
    }

    /// Whether jobs of the scheduler tell that they failed, and not only their fences.
    pub(crate) fn knows_jobs(&self) -> bool {
        self.job.is_some()
    }

    fn constants(&self) -> [(&'static str, [u8; 4]); 5] {
        let [error, context, sequence] = self.fence;
        let [finished, parent] = self.job.unwrap_or_default();
        [
            ("FENCE_ERROR", error),
            ("FENCE_CONTEXT", context),
            ("FENCE_SEQUENCE", sequence),
            ("JOB_FINISHED", finished),
            ("JOB_PARENT", parent),
        ]
        .map(|(name, offset)| (name, offset.to_ne_bytes()))
    }
}

/// A program that looks at work which ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndProgram {
    /// At fences.
    Fence,
    /// At jobs of the scheduler.
    Job,
}

impl EndProgram {
    /// Its name in the object.
    fn name(self) -> &'static str {
        match self {
            Self::Fence => "on_fence",
            Self::Job => "on_job",
        }
    }
}

/// The program for a tracepoint that ends work; `None` for all others.
fn program_of(offer: &Offer) -> Option<EndProgram> {
    match (offer.system.as_str(), offer.name.as_str()) {
        ("dma_fence", "dma_fence_signaled") => Some(EndProgram::Fence),
        // The latter from 6.16 on.
        ("gpu_scheduler", "drm_sched_process_job" | "drm_sched_job_done") => Some(EndProgram::Job),
        _ => None,
    }
}

/// The attached programs; each is detached with its link.
#[derive(Default)]
pub(super) struct Failures {
    links: Vec<OwnedFd>,
    programs: Vec<OwnedFd>,
}

impl Failures {
    /// Attaches to what is offered. Has to come before the programs that copy these tracepoints'
    /// records. What cannot be told is added to `missing`.
    pub(super) fn attach(
        offers: &[Offer],
        settings: Settings,
        maps: &SharedMaps,
        missing: &mut Vec<String>,
    ) -> Self {
        let mut attached = Self::default();
        if !offers.iter().any(|offer| program_of(offer).is_some()) {
            return attached;
        }
        let Ok(layout) = Layout::below(Path::new("/")) else {
            missing.push(NO_FENCES.to_owned());
            return attached;
        };
        for offer in offers {
            let Some(program) = program_of(offer) else { continue };
            if program == EndProgram::Job && !layout.knows_jobs() {
                missing.push(NO_JOBS.to_owned());
            } else if let Err(error) = attached.add(program, offer, layout, settings, maps) {
                missing.push(format!(
                    "failures at {}/{} are not told: {error}",
                    offer.system, offer.name
                ));
            }
        }
        attached
    }

    fn add(
        &mut self,
        program: EndProgram,
        offer: &Offer,
        layout: Layout,
        settings: Settings,
        maps: &SharedMaps,
    ) -> Result<(), CaptureError> {
        let (tsc, lane_bytes) = ([u8::from(settings.tsc)], settings.lane_bytes.to_ne_bytes());
        let offsets = layout.constants();
        let offsets = offsets.iter().map(|(name, offset)| (*name, &offset[..]));
        let constants: Vec<(&str, &[u8])> = offsets
            .chain([("USE_TSC", &tsc[..]), ("TRACEPOINT_LANE_BYTES", &lane_bytes[..])])
            .collect();
        let sizes = MapSizes { entries: &[], ring_bytes: 0 };
        let object =
            KernelObject::new(NAME, &committed_object::FENCES.bytes(), &constants, maps, &sizes)?;
        let program = object.load(program.name(), ProgramKind::of(PROG_TYPE_RAW_TRACEPOINT))?;
        let link = open_raw_tracepoint(&offer.name, program.as_fd()).map_err(|error| {
            CaptureError::system(format!("cannot attach to {}", offer.name), error)
        })?;
        self.links.push(link);
        self.programs.push(program);
        Ok(())
    }

    /// Detaches everything.
    pub(super) fn detach(&mut self) {
        self.links.clear();
    }

    /// Ends that the programs did not look at, because one was running on that CPU.
    pub(super) fn skipped(&self) -> u64 {
        self.programs.iter().map(|program| bpf_calls::recursion_misses(program.as_fd())).sum()
    }
}

/// `union bpf_attr` of BPF_RAW_TRACEPOINT_OPEN (include/uapi/linux/bpf.h).
#[repr(C)]
struct RawTracepoint {
    name: u64,
    program: u32,
    padding: u32,
}

/// Runs a program at a tracepoint with the tracepoint's own arguments, until the link is closed.
fn open_raw_tracepoint(name: &str, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    let mut attr = RawTracepoint {
        name: name.as_ptr() as u64,
        program: program.as_raw_fd() as u32,
        padding: 0,
    };
    bpf_calls::bpf_fd(RAW_TRACEPOINT_OPEN, &mut attr)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracepoints::format::Format;

    fn offer(system: &str, name: &str) -> Offer {
        let format = Format::parse("ID: 1\n").unwrap();
        Offer { system: system.to_owned(), name: name.to_owned(), format }
    }

    #[test]
    fn ends_are_looked_at_by_both_generations_of_names_and_nothing_else_is() {
        assert_eq!(program_of(&offer("dma_fence", "dma_fence_signaled")), Some(EndProgram::Fence));
        assert_eq!(
            program_of(&offer("gpu_scheduler", "drm_sched_process_job")),
            Some(EndProgram::Job)
        );
        assert_eq!(
            program_of(&offer("gpu_scheduler", "drm_sched_job_done")),
            Some(EndProgram::Job)
        );
        assert_eq!(program_of(&offer("dma_fence", "dma_fence_init")), None);
        assert_eq!(program_of(&offer("xe", "dma_fence_signaled")), None);
    }

    #[test]
    fn a_kernel_without_descriptions_has_no_layout() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Layout::below(root.path()).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
