//! What drivers add to jobs of the DRM scheduler (amdgpu, xe), and their own
//! fences of these jobs, which are the same work and no job of their own.

use rustc_hash::FxHashMap;
use syscollect_model::{Fence, Field, FieldRole, StringId, ThreadId, Value};

use super::decoder::{Detail, Family, Gpu, Key};
use super::recent::Recent;
use super::record::DescribedRecord;
use super::scheduler::UNNAMED;
use crate::engine::Engine;
use syscollect_playback::Stopped;

/// What a thread says of the job that it gives to the scheduler next.
#[derive(Clone, Debug, Default)]
struct AnnouncedJob {
    ring: Option<StringId>,
    fence: Option<Fence>,
    /// The scheduler's number of the job, on kernels that tell it.
    number: Option<u64>,
    /// Where the driver's own fence lies.
    address: Option<u64>,
    fields: Vec<Field>,
}

impl AnnouncedJob {
    /// Whether it can be the same job. Older kernels tell half of a fence's numbers.
    fn is_of(&self, fence: Option<Fence>, number: Option<u64>) -> bool {
        let same_fence = self.fence.zip(fence).is_none_or(|(a, b)| halves(a) == halves(b));
        same_fence && self.number.zip(number).is_none_or(|(a, b)| a == b)
    }

    /// Adds what the scheduler does not tell. Before 6.1 it tells the address of its ring's name
    /// only.
    fn complete(self, detail: &mut Detail, unnamed: StringId) {
        detail.fence = detail.fence.or(self.fence);
        self.fields.into_iter().for_each(|field| replace(&mut detail.fields, field));
        if let Some(ring) = self.ring.filter(|_| detail.queue == unnamed) {
            (detail.queue, detail.name) = (ring, ring);
        }
    }
}

fn halves(fence: Fence) -> [u32; 2] {
    [fence.context as u32, fence.sequence as u32]
}

/// What is remembered of jobs on their way from drivers to the scheduler and back.
#[derive(Debug, Default)]
pub(super) struct Submissions {
    announced: FxHashMap<ThreadId, AnnouncedJob>,
    /// The job that a thread gave to the GPU last, and its ring.
    running: FxHashMap<ThreadId, (Key, StringId)>,
    /// Whose a fence on the GPU is; `None` where its numbers are used again by nobody's.
    own: Recent<Fence, Option<Key>>,
    /// Fences of xe, and jobs whose fence it is, by address.
    fences: Recent<u64, Fence>,
    jobs: Recent<u64, Key>,
}

impl Submissions {
    /// The job whose fence on the GPU it is.
    pub(super) fn job_of(&self, fence: Fence) -> Option<Key> {
        self.own.get(as_reported(fence)).flatten()
    }
}

/// The half of a fence's numbers that tracepoints of fences tell.
fn as_reported(fence: Fence) -> Fence {
    Fence { context: fence.context & 0xffff_ffff, sequence: fence.sequence & 0xffff_ffff }
}

/// Whether fences of this timeline are those of a ring of the scheduler, as their drivers name
/// them.
fn is_timeline_of(ring: &str, driver: &str, timeline: &str) -> bool {
    !ring.is_empty() && (ring == timeline || (!driver.is_empty() && ring.starts_with(driver)))
}

impl Gpu {
    /// Jobs of AMD's driver, which are the scheduler's (drivers/gpu/drm/amd/amdgpu/amdgpu_trace.h).
    pub(super) fn amdgpu(
        &mut self,
        engine: &mut Engine<'_>,
        name: &str,
        reading: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let thread = self.current(engine, reading).filter(|_| reading.table.has_scheduler());
        let Some(thread) = thread else { return self.plain(engine, reading) };
        let ring = reading
            .text("ring")
            .filter(|ring| !ring.is_empty())
            .map(|ring| engine.tables.strings.intern(&ring));
        let fence = reading.number("context").zip(reading.number("seqno"));
        let fence = fence.map(|(context, sequence)| Fence { context, sequence });
        let fields =
            self.numbers(engine, reading, &[("num_ibs", "indirect buffers")], Value::Unsigned);
        let number = reading.number("sched_job_id");
        let attributes = AnnouncedJob { ring, fence, number, address: None, fields };
        match name {
            "amdgpu_cs_ioctl" => drop(self.submissions.announced.insert(thread, attributes)),
            "amdgpu_sched_run_job" => self.amdgpu_runs(engine, thread, attributes),
            _ => return self.plain(engine, reading),
        }
        Ok(())
    }

    /// Jobs of the kernel's own are not announced; this comes right after the scheduler says that
    /// they run.
    fn amdgpu_runs(&mut self, engine: &mut Engine<'_>, thread: ThreadId, attributes: AnnouncedJob) {
        let Some((key, ring)) = self.submissions.running.get_mut(&thread) else { return };
        let key = *key;
        *ring = attributes.ring.unwrap_or(*ring);
        let unnamed = engine.tables.strings.intern(UNNAMED);
        let Some(detail) =
            self.jobs.detail(key).filter(|detail| attributes.is_of(detail.fence, None))
        else {
            return;
        };
        attributes.complete(detail, unnamed);
    }

    /// Jobs of Intel's newer driver, which are the scheduler's (drivers/gpu/drm/xe/xe_trace.h).
    pub(super) fn xe(
        &mut self,
        engine: &mut Engine<'_>,
        name: &str,
        reading: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let thread = self.current(engine, reading).filter(|_| reading.table.has_scheduler());
        let address = reading.number("fence");
        match (name, address, thread) {
            ("xe_hw_fence_create", Some(address), _) => {
                if let Some((context, sequence)) =
                    reading.number("ctx").zip(reading.number("seqno"))
                {
                    self.submissions.fences.note(address, Fence { context, sequence });
                }
                Ok(())
            }
            ("xe_sched_job_exec", address, Some(thread)) => {
                let mut fields = self.numbers(
                    engine,
                    reading,
                    &[("gt_id", "GT"), ("guc_id", "GuC id")],
                    Value::Unsigned,
                );
                fields.extend(self.numbers(
                    engine,
                    reading,
                    &[("batch_addr", "batch")],
                    Value::Address,
                ));
                let attributes = AnnouncedJob { address, fields, ..AnnouncedJob::default() };
                self.submissions.announced.insert(thread, attributes);
                Ok(())
            }
            ("xe_sched_job_timedout", Some(address), _) => {
                self.xe_gives_up(engine, address, reading)
            }
            _ => self.plain(engine, reading),
        }
    }

    fn xe_gives_up(
        &mut self,
        engine: &mut Engine<'_>,
        address: u64,
        reading: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let key = self.submissions.jobs.get(address);
        let name = engine.tables.strings.intern("timed out");
        match key.and_then(|key| self.jobs.detail(key)) {
            Some(detail) => {
                let value = Value::Text("the driver gave it up".into());
                detail.fields.push(Field::named(name, value));
                Ok(())
            }
            None => self.plain(engine, reading),
        }
    }

    fn numbers(
        &mut self,
        engine: &mut Engine<'_>,
        reading: &DescribedRecord<'_>,
        labels: &[(&str, &str)],
        value: fn(u64) -> Value,
    ) -> Vec<Field> {
        let known = labels.iter().filter_map(|(key, label)| Some((reading.number(key)?, label)));
        known
            .map(|(number, label)| Field::named(engine.tables.strings.intern(label), value(number)))
            .collect()
    }

    /// A thread gives a job to the scheduler: what the driver said right before is this job's.
    pub(super) fn announced(
        &mut self,
        engine: &mut Engine<'_>,
        key: Key,
        number: Option<u64>,
        detail: &mut Detail,
    ) {
        let attributes =
            detail.thread.and_then(|thread| self.submissions.announced.remove(&thread));
        let Some(attributes) =
            attributes.filter(|attributes| attributes.is_of(detail.fence, number))
        else {
            return;
        };
        let address = attributes.address;
        attributes.complete(detail, engine.tables.strings.intern(UNNAMED));
        let Some(address) = address else { return };
        self.submissions.jobs.note(address, key);
        if let Some(fence) = self.submissions.fences.get(address).map(as_reported) {
            // Until now it looked like a job of its own.
            self.jobs.forget((Family::Fence, fence.context, fence.sequence));
            self.submissions.own.note(fence, Some(key));
            let field = self.own_fence(engine, fence);
            replace(&mut detail.fields, field);
        }
    }

    fn own_fence(&mut self, engine: &mut Engine<'_>, fence: Fence) -> Field {
        let value = Value::Text(format!("{}:{}", fence.context, fence.sequence).into());
        Field::named(engine.tables.strings.intern("fence on the GPU"), value)
    }

    /// A thread gives a job to the GPU.
    pub(super) fn runs(
        &mut self,
        engine: &mut Engine<'_>,
        key: Key,
        reading: &DescribedRecord<'_>,
    ) {
        let Some(thread) = self.current(engine, reading) else { return };
        let ring = engine.tables.strings.intern(&reading.text("name").unwrap_or_default());
        self.submissions.running.insert(thread, (key, ring));
    }

    /// Whether a fence that is told is the driver's own of a job that the scheduler tells: made by
    /// the thread that gave the job to the GPU last, on the timeline of its ring.
    pub(super) fn is_jobs_own(
        &mut self,
        engine: &mut Engine<'_>,
        name: &str,
        fence: Fence,
        reading: &DescribedRecord<'_>,
    ) -> bool {
        if name != "dma_fence_init" {
            return self.submissions.job_of(fence).is_some();
        }
        let running = self
            .current(engine, reading)
            .and_then(|thread| self.submissions.running.get(&thread).copied());
        let [driver, timeline] =
            ["driver", "timeline"].map(|field| reading.text(field).unwrap_or_default());
        let key = running
            .filter(|(_, ring)| {
                is_timeline_of(engine.tables.strings.get(*ring), &driver, &timeline)
            })
            .map(|(key, _)| key);
        let field = self.own_fence(engine, fence);
        if let Some((key, detail)) = key.and_then(|key| Some((key, self.jobs.detail(key)?))) {
            // The last of several is the job's: those before it are of what prepares the GPU for
            // it, or of a try that failed.
            replace(&mut detail.fields, field);
            detail.fields.retain(|field| field.role != FieldRole::JobError);
            self.submissions.own.note(fence, Some(key));
            return true;
        }
        if self.submissions.own.get(fence).is_some() {
            // Its numbers are used again.
            self.submissions.own.note(fence, None);
        }
        false
    }
}

pub(super) fn replace(fields: &mut Vec<Field>, field: Field) {
    fields.retain(|known| !known.is_same(&field));
    fields.push(field);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_says_is_of_a_job_that_it_does_not_contradict() {
        let attributes =
            AnnouncedJob { fence: fence(7, 9), number: Some(3), ..AnnouncedJob::default() };
        assert!(attributes.is_of(None, None) && attributes.is_of(fence(1 << 32 | 7, 9), Some(3)));
        assert!(!attributes.is_of(fence(7, 8), Some(3)) && !attributes.is_of(None, Some(4)));
        assert!(AnnouncedJob::default().is_of(fence(7, 9), Some(3)));
    }

    fn fence(context: u64, sequence: u64) -> Option<Fence> {
        Some(Fence { context, sequence })
    }

    #[test]
    fn rings_and_timelines_are_matched_as_drivers_name_them() {
        for (ring, driver, timeline) in [
            ("gfx_0.0.0", "amdgpu", "gfx_0.0.0"),
            ("nouveau_sched", "nouveau", "game[77]"),
            ("v3d_render", "v3d", "v3d-render"),
            ("pp", "lima", "pp"),
        ] {
            assert!(is_timeline_of(ring, driver, timeline), "{ring}");
        }
        assert!(!is_timeline_of("gfx_0.0.0", "amdgpu", "sdma0"), "another ring of the same GPU");
        assert!(
            !is_timeline_of("", "", "") && !is_timeline_of("gfx", "", "other"),
            "nothing is known"
        );
    }
}
