//! Which fields a tracepoint's record must have for `syscollect-merge` to make jobs, waits, frames
//! and counters of it. One that lacks them is recorded all the same and shown as it is.

use syscollect_store::TracepointFieldKind;

use super::offer::{Offer, Offers};

/// One field under any of the names that it has had.
type Names = &'static [&'static str];

/// Subsystem, how the names of its events begin, and the fields, all of them numbers.
const NEEDED: &[(&str, &str, &[Names])] = &[
    ("dma_fence", "dma_fence_", &[&["context"], &["seqno"]]),
    // A job was known by the address of its fence before 6.16.
    ("gpu_scheduler", "drm_", &[&["fence", "fence_context"], &["fence", "fence_seqno"]]),
    ("drm", "drm_vblank_event", &[&["crtc"]]),
    ("gpu_mem", "gpu_mem_total", &[&["gpu_id"], &["pid"], &["size"]]),
    ("virtio_gpu", "virtio_gpu_cmd_", &[&["vq"]]),
    ("i915", "i915_request_", &[&["ctx"], &["seqno"]]),
    ("xe", "xe_hw_fence_create", &[&["ctx"], &["seqno"], &["fence"]]),
    ("xe", "xe_sched_job_", &[&["fence"]]),
];

/// The fields that a tracepoint lacks, by their newest names; none where nothing is needed.
pub(crate) fn lacking(offer: &Offer) -> Vec<&'static str> {
    let needed = NEEDED
        .iter()
        .filter(|(system, beginning, _)| {
            offer.system == *system && offer.name.starts_with(beginning)
        })
        .flat_map(|(_, _, fields)| fields.iter());
    needed
        .filter(|names| {
            !names.iter().any(|name| {
                let mut fields = offer.format.fields.iter();
                fields.any(|field| field.name == *name && field.kind == TracepointFieldKind::Number)
            })
        })
        .filter_map(|names| names.last().copied())
        .collect()
}

impl Offers {
    /// Those that are recorded and not understood, with what they lack, in words.
    pub(crate) fn not_understood(&self) -> Vec<String> {
        self.offers
            .iter()
            .filter_map(|offer| {
                let fields = lacking(offer);
                (!fields.is_empty()).then(|| {
                    format!("{}/{} without {}", offer.system, offer.name, fields.join(" and "))
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::Format;
    use super::*;

    fn offer(system: &str, name: &str, fields: &[&str]) -> Offer {
        let text: String = fields
            .iter()
            .enumerate()
            .map(|(number, field)| {
                format!("\tfield:{field};\toffset:{};\tsize:4;\tsigned:0;\n", 8 + 4 * number)
            })
            .collect();
        let format = Format::parse(&format!("ID: 1\n{text}")).unwrap();
        Offer { system: system.to_owned(), name: name.to_owned(), format }
    }

    #[test]
    fn a_fence_needs_its_context_and_number_and_both_must_be_numbers() {
        assert!(lacking_of_fences(&["unsigned int context", "unsigned int seqno"]).is_empty());
        assert_eq!(lacking_of_fences(&["unsigned int context"]), ["seqno"]);
        assert_eq!(
            lacking_of_fences(&["__data_loc char[] context", "unsigned int seqno"]),
            ["context"]
        );
        assert_eq!(lacking_of_fences(&[]), ["context", "seqno"]);
    }

    fn lacking_of_fences(fields: &[&str]) -> Vec<&'static str> {
        lacking(&offer("dma_fence", "dma_fence_emit", fields))
    }

    #[test]
    fn a_job_of_the_scheduler_is_known_by_its_fences_address_or_numbers() {
        assert!(lacking_of_scheduler("drm_sched_process_job", &["void * fence"]).is_empty());
        assert!(
            lacking_of_scheduler("drm_sched_job_done", &["u64 fence_context", "u64 fence_seqno"])
                .is_empty()
        );
        assert_eq!(
            lacking_of_scheduler("drm_sched_job_done", &["u64 fence_context"]),
            ["fence_seqno"]
        );
        assert_eq!(
            lacking_of_scheduler("drm_run_job", &["int id"]),
            ["fence_context", "fence_seqno"]
        );
    }

    fn lacking_of_scheduler(name: &str, fields: &[&str]) -> Vec<&'static str> {
        lacking(&offer("gpu_scheduler", name, fields))
    }

    #[test]
    fn what_nobody_knows_needs_nothing() {
        assert!(lacking(&offer("amdgpu", "amdgpu_iv", &[])).is_empty());
        assert!(lacking(&offer("drm", "drm_something_new", &[])).is_empty());
    }
}
