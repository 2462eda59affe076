//! Jobs of the DRM scheduler.

use syscollect_model::{Fence, Field, StringId, Value};

use super::decoder::{Detail, Family, Gpu, Key};
use super::jobs::Stage;
use super::record::DescribedRecord;
use crate::engine::Engine;
use syscollect_playback::Stopped;

/// Dependencies of a job that are shown.
const MOST_DEPENDENCIES: usize = 64;

/// The queue of jobs whose ring's name is not told.
pub(super) const UNNAMED: &str = "gpu_scheduler";

/// A job by its ring's name, or the address of that, and its number.
pub(super) type Numbered = (StringId, u64, u64);

impl Gpu {
    /// Jobs of the DRM scheduler, by both generations of names
    /// (drivers/gpu/drm/scheduler/gpu_scheduler_trace.h).
    pub(super) fn scheduler(
        &mut self,
        engine: &mut Engine<'_>,
        name: &str,
        reading: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        if name == "drm_sched_job_wait_dep" {
            return self.numbered_waits(engine, reading);
        }
        let fence = reading.number("fence_context").zip(reading.number("fence_seqno"));
        let key = match (fence, reading.number("fence")) {
            (Some((context, sequence)), _) => (Family::Scheduler, context, sequence),
            // Before 6.16 jobs are told by the address of their fence.
            (None, Some(address)) => (Family::Scheduler, address, 0),
            (None, None) => return self.plain(engine, reading),
        };
        let fence = fence.map(|(context, sequence)| Fence { context, sequence });
        match name {
            "drm_sched_job" | "drm_sched_job_queue" => {
                let mut detail = self.scheduler_detail(engine, fence, reading);
                self.announced(engine, key, reading.number("id"), &mut detail);
                if let (None, Some(numbered)) = (fence, self.numbered(engine, reading)) {
                    self.numbered.note(numbered, key);
                }
                self.stage(engine, key, Stage::Submitted, detail.clone())?;
                self.stage(engine, key, Stage::Queued, detail)
            }
            "drm_run_job" | "drm_sched_job_run" => {
                let detail = self.scheduler_detail(engine, fence, reading);
                self.runs(engine, key, reading);
                self.stage(engine, key, Stage::Started, detail)
            }
            "drm_sched_process_job" | "drm_sched_job_done" if self.failures.is_undecided(key) => {
                Ok(())
            }
            "drm_sched_process_job" | "drm_sched_job_done" => {
                let detail = self.scheduler_detail(engine, fence, reading);
                let end = self.end_of_job(key);
                self.job_ends(engine, key, end, detail)
            }
            "drm_sched_job_add_dep" | "drm_sched_job_unschedulable" => {
                self.waits_for(key, reading);
                Ok(())
            }
            _ => self.plain(engine, reading),
        }
    }

    /// Before 6.16 a dependency names the job by its ring and number, and `fence` is what it waits
    /// for.
    fn numbered_waits(
        &mut self,
        engine: &mut Engine<'_>,
        reading: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        match self.numbered(engine, reading).and_then(|numbered| self.numbered.get(numbered)) {
            Some(key) => self.waits_for(key, reading),
            // It was handed over before the recording.
            None => engine.sink.tally.unmatched_ends += 1,
        }
        Ok(())
    }

    fn waits_for(&mut self, key: Key, reading: &DescribedRecord<'_>) {
        let dependency =
            reading.one_of(&["dep_context", "ctx"]).zip(reading.one_of(&["dep_seqno", "seqno"]));
        if let (Some((context, sequence)), Some(detail)) = (dependency, self.jobs.detail(key)) {
            let fence = Fence { context, sequence };
            if !detail.waited_for.contains(&fence) && detail.waited_for.len() < MOST_DEPENDENCIES {
                detail.waited_for.push(fence);
            }
        }
    }

    fn numbered(
        &mut self,
        engine: &mut Engine<'_>,
        reading: &DescribedRecord<'_>,
    ) -> Option<Numbered> {
        // Before 6.1 the name is an address in the kernel.
        let ring = reading.text("name").unwrap_or_default();
        let ring = engine.tables.strings.intern(&ring);
        Some((ring, reading.number("name").unwrap_or(0), reading.number("id")?))
    }

    pub(super) fn scheduler_detail(
        &mut self,
        engine: &mut Engine<'_>,
        fence: Option<Fence>,
        reading: &DescribedRecord<'_>,
    ) -> Detail {
        // Before 6.1 the name is an address in the kernel.
        let ring = reading.text("name").unwrap_or(UNNAMED.into());
        let device = reading.text("dev").unwrap_or_default();
        let thread = self.current(engine, reading);
        let name = engine.tables.strings.intern(if ring.is_empty() { "job" } else { &ring });
        let queue = engine.tables.strings.intern(format!("{device} {ring}").trim());
        let context = reading.one_of(&["client_id", "entity"]);
        let labels = [
            ("id", "job"),
            ("job_count", "jobs in the queue"),
            ("hw_job_count", "jobs on the GPU"),
        ];
        let fields = labels.iter().filter_map(|(key, label)| {
            let name = engine.tables.strings.intern(label);
            reading.number(key).map(|value| Field::named(name, Value::Unsigned(value)))
        });
        let fields = fields.collect();
        Detail { queue, name, context, fence, thread, waited_for: Vec::new(), fields }
    }
}
