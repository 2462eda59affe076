//! Whatever tracepoints of GPU drivers say, and which work is said to have failed, jobs of
//! one track follow each other, what begins ends, and nothing panics.
//!
//! An input is a list of records: which tracepoint, on which CPU and by which thread, how much
//! later, how many fields, and a byte for each field: a small number, so that numbers and
//! addresses meet again, or one of few texts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use syscollect_fuzz::gpu::GpuChecker;
use syscollect_merge::Session;
use syscollect_model::{Lane, LaneKind, Ticks};
use syscollect_playback::Recording;
use syscollect_records::{ClockRecord, GpuFailureRecord, RecordKind, Stamp, TracepointRecord};
use syscollect_store::{
    CaptureReader, CaptureWriter, Chunk, ChunkHeader, Definition, TracepointDefinition,
    TracepointField, TracepointFieldKind,
};

const FIRST: u64 = 1 << 40;
/// Later than all records together.
const SPAN: u64 = 1 << 32;
/// Of each field of a record; a number may have 4 bytes more.
const FIELD_BYTES: u16 = 8;
const TEXT_BYTES: usize = 24;
const TEXTS: [&str; 16] = [
    "",
    "ring",
    "gfx",
    "radeon",
    "amdgpu",
    "i915",
    "xe",
    "preempt",
    "drm_sched",
    "dma_fence_array",
    "detached-driver",
    "amdgpu_eviction_fence",
    "control",
    "comp_1",
    "amdgpu-ring",
    "signaled",
];

/// Names of fields; those of [`IS_TEXT`] are texts.
type Fields = &'static [&'static str];
const IS_TEXT: [&str; 5] = ["driver", "timeline", "name", "dev", "ring"];
const FENCE: Fields = &["driver", "timeline", "context", "seqno"];
const OLDER: Fields = &["entity", "fence", "name", "id", "job_count"];
const NEWER: Fields = &["name", "dev", "fence_context", "fence_seqno", "id", "client_id"];
const REQUEST: Fields = &["dev", "ctx", "seqno", "class", "instance"];
const COMMAND: Fields = &["dev", "vq", "name", "type", "seqno", "ctx_id"];
const XE: Fields = &["ctx", "seqno", "fence", "guc_id", "batch_addr", "dev"];
const TRACEPOINTS: [(&str, &str, Fields); 38] = [
    ("dma_fence", "dma_fence_init", FENCE),
    ("dma_fence", "dma_fence_emit", FENCE),
    ("dma_fence", "dma_fence_signaled", FENCE),
    ("dma_fence", "dma_fence_destroy", FENCE),
    ("dma_fence", "dma_fence_wait_start", FENCE),
    ("dma_fence", "dma_fence_wait_end", FENCE),
    ("gpu_scheduler", "drm_sched_job", OLDER),
    ("gpu_scheduler", "drm_run_job", OLDER),
    ("gpu_scheduler", "drm_sched_process_job", &["fence"]),
    ("gpu_scheduler", "drm_sched_job_wait_dep", &["name", "id", "fence", "ctx", "seqno"]),
    ("gpu_scheduler", "drm_sched_job_queue", NEWER),
    ("gpu_scheduler", "drm_sched_job_run", NEWER),
    ("gpu_scheduler", "drm_sched_job_done", &["fence_context", "fence_seqno"]),
    ("gpu_scheduler", "drm_sched_job_add_dep", &["fence_context", "fence_seqno", "ctx", "seqno"]),
    (
        "gpu_scheduler",
        "drm_sched_job_unschedulable",
        &["fence_context", "fence_seqno", "ctx", "seqno"],
    ),
    (
        "amdgpu",
        "amdgpu_cs_ioctl",
        &["sched_job_id", "timeline", "context", "seqno", "ring", "num_ibs"],
    ),
    (
        "amdgpu",
        "amdgpu_sched_run_job",
        &["sched_job_id", "timeline", "context", "seqno", "ring", "num_ibs"],
    ),
    ("amdgpu", "amdgpu_iv", &["timestamp", "client_id"]),
    ("i915", "i915_request_queue", REQUEST),
    ("i915", "i915_request_add", REQUEST),
    ("i915", "i915_request_submit", REQUEST),
    ("i915", "i915_request_in", REQUEST),
    ("i915", "i915_request_out", REQUEST),
    ("i915", "i915_request_retire", REQUEST),
    ("i915", "i915_request_wait_begin", REQUEST),
    ("i915", "i915_request_wait_end", REQUEST),
    ("xe", "xe_hw_fence_create", XE),
    ("xe", "xe_hw_fence_signal", XE),
    ("xe", "xe_sched_job_create", XE),
    ("xe", "xe_sched_job_exec", XE),
    ("xe", "xe_sched_job_run", XE),
    ("xe", "xe_sched_job_timedout", XE),
    ("xe", "xe_sched_job_free", XE),
    ("virtio_gpu", "virtio_gpu_cmd_queue", COMMAND),
    ("virtio_gpu", "virtio_gpu_cmd_response", COMMAND),
    ("drm", "drm_vblank_event", &["crtc", "seq", "time"]),
    ("drm", "drm_vblank_event_delivered", &["file", "crtc", "seq"]),
    ("gpu_mem", "gpu_mem_total", &["gpu_id", "pid", "size"]),
];

fuzz_target!(|bytes: &[u8]| {
    let mut lanes = [Vec::new(), Vec::new()];
    let (mut now, mut failures, mut rest) = (FIRST, 0, bytes);
    while let Some(([which, by, later, fields], payload)) = rest.split_first_chunk::<4>() {
        let (payload, behind) = payload.split_at(usize::from(fields % 8).min(payload.len()));
        now += u64::from(*later);
        let lane = &mut lanes[usize::from(by >> 7)];
        // The highest bit says that something failed.
        if which & 0x80 == 0 {
            lane.push(tracepoint(usize::from(*which) % TRACEPOINTS.len(), *by, now, payload));
        } else {
            failures += 1;
            lane.push(failure(*which, *by, now, payload));
        }
        rest = behind;
    }
    let reader = CaptureReader::from_bytes(capture(&lanes)).expect("a capture");
    let mut session = Session::open(reader).expect("it has clock readings");
    let Ok(played) = session.play(&mut GpuChecker::default());
    assert!(played.unshown_failures <= failures, "more than there were");
});

/// A record of a tracepoint; fields that the payload lacks are missing from its end.
fn tracepoint(which: usize, by: u8, now: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    let texts_at = 8 + usize::from(FIELD_BYTES) * TRACEPOINTS[which].2.len();
    for (index, (name, byte)) in TRACEPOINTS[which].2.iter().zip(payload).enumerate() {
        let number = if IS_TEXT.contains(name) {
            (TEXT_BYTES as u64) << 16 | (texts_at + index * TEXT_BYTES) as u64
        } else {
            // Some differ in the half that tracepoints of fences do not tell.
            u64::from(byte & 0x3f) | u64::from(byte >> 6) << 32
        };
        bytes.extend(number.to_le_bytes());
    }
    if payload.len() >= TRACEPOINTS[which].2.len() {
        for byte in &payload[..TRACEPOINTS[which].2.len()] {
            let mut text = TEXTS[usize::from(*byte) % TEXTS.len()].as_bytes().to_vec();
            text.resize(TEXT_BYTES, 0);
            bytes.extend(text);
        }
    }
    let head = TracepointRecord {
        stamp: Stamp::new(now, RecordKind::Tracepoint),
        tid: u32::from(by & 7),
        tgid: u32::from(by & 6),
        tracepoint: which as u32,
        bytes: bytes.len() as u16,
        interrupt: u16::from(by >> 6 & 1),
        cpu: u32::from(by >> 7),
        reserved: 0,
    };
    [head.as_bytes(), &bytes].concat()
}

fn failure(which: u8, by: u8, now: u64, payload: &[u8]) -> Vec<u8> {
    let [fence, context, sequence] =
        [0, 1, 2].map(|index| u64::from(payload.get(index).copied().unwrap_or(0) & 0x3f));
    let record = GpuFailureRecord {
        stamp: Stamp::new(now, RecordKind::GpuFailure),
        tid: u32::from(by & 7),
        tgid: u32::from(by & 6),
        error: -i32::from(which),
        bytes: (GpuFailureRecord::SIZE - TracepointRecord::SIZE) as u16,
        told_by: u16::from(which & 3),
        cpu: u32::from(by >> 7),
        reserved: 0,
        fence,
        context,
        sequence,
    };
    record.as_bytes().to_vec()
}

fn field(index: u16, name: &str) -> TracepointField {
    let is_text = IS_TEXT.contains(&name);
    TracepointField {
        name: name.to_owned(),
        offset: 8 + FIELD_BYTES * index,
        size: if is_text { 4 } else { 8 },
        signed: false,
        kind: if is_text {
            TracepointFieldKind::TextElsewhere
        } else {
            TracepointFieldKind::Number
        },
    }
}

fn capture(lanes: &[Vec<Vec<u8>>; 2]) -> Vec<u8> {
    let definitions =
        (0..).zip(TRACEPOINTS).map(|(tracepoint, (system, name, fields))| TracepointDefinition {
            tracepoint,
            system: system.to_owned(),
            name: name.to_owned(),
            fields: (0..).zip(fields).map(|(index, name)| field(index, name)).collect(),
        });
    let mut writer = CaptureWriter::create(Vec::new()).expect("memory takes every byte");
    writer
        .define(&Definition::Tracepoints(definitions.collect()))
        .expect("memory takes every byte");
    let readings: Vec<Vec<u8>> = [0, SPAN].map(reading).to_vec();
    let clock = Lane::new(LaneKind::Clock, 0);
    writer
        .write(&chunk(clock, ClockRecord::SIZE as u32, &readings))
        .expect("memory takes every byte");
    for (cpu, records) in (0..).zip(lanes).filter(|(_, records)| !records.is_empty()) {
        let lane = Lane::new(LaneKind::Tracepoint, cpu);
        writer.write(&chunk(lane, 0, records)).expect("memory takes every byte");
    }
    writer.finish().expect("memory takes every byte")
}

fn reading(after: u64) -> Vec<u8> {
    let stamp = Stamp::new(FIRST + after, RecordKind::Clock);
    let reading = ClockRecord {
        stamp,
        monotonic: after,
        monotonic_raw: after,
        boottime: after,
        realtime: after,
        uncertainty: 1,
    };
    reading.as_bytes().to_vec()
}

fn chunk(lane: Lane, stride: u32, records: &[Vec<u8>]) -> Chunk {
    let data = records.concat();
    let header = ChunkHeader {
        lane,
        sequence: 0,
        first: Ticks(FIRST),
        last: Ticks(FIRST + SPAN),
        current_tid: u32::MAX,
        stride,
        records_before: 0,
        records: records.len() as u32,
        length: data.len() as u32,
    };
    Chunk { header, data }
}
