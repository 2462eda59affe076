//! Machines with GPUs, and with what is missing to see them.

use std::fs;
use std::os::unix::fs::symlink;

use super::tests::{Fake, works};

const EVENTS: &str = "sys/kernel/tracing/events";

/// A card with its render node, and a program that draws on it.
pub(super) fn add_card(fake: &Fake) {
    let devices = ["card0", "renderD128"];
    for device in devices {
        let folder = fake.path(&format!("sys/class/drm/{device}/device"));
        fs::create_dir_all(&folder).unwrap();
        symlink("../../../bus/pci/drivers/amdgpu", folder.join("driver")).unwrap();
        fake.write(&format!("dev/dri/{device}"), "");
    }
    fs::create_dir_all(fake.path("sys/class/drm/card0-HDMI-A-1")).unwrap();
    open(
        fake,
        "drm-driver: amdgpu\ndrm-client-id: 5\ndrm-memory-vram: 5 KiB\ndrm-engine-gfx: 7 ns\n",
    );
}

/// A process has the render node open, and this is what the driver says of it.
fn open(fake: &Fake, fdinfo: &str) {
    let descriptor = fake.path("proc/70/fd/9");
    fs::create_dir_all(descriptor.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&descriptor);
    symlink("/dev/dri/renderD128", descriptor).unwrap();
    fake.write("proc/70/fdinfo/9", fdinfo);
}

fn format(fields: &[&str]) -> String {
    format!("ID: 7\n{}", fields.iter().map(|name| field(name)).collect::<String>())
}

fn field(field: &str) -> String {
    format!("\tfield:unsigned int {field};\toffset:8;\tsize:4;\tsigned:0;\n")
}

#[test]
fn drivers_are_named_with_their_devices_and_what_they_tell_of_processes() {
    let fake = Fake::complete();
    let support = fake.support(&works);
    assert_eq!(support("gpu_drivers").reason, "drivers of GPUs: amdgpu (card0, renderD128)");
    let memory = support("gpu_memory");
    assert_eq!(memory.reason, "of processes drivers tell: amdgpu memory (vram) and engines (gfx)");
    fake.write(
        &format!("{EVENTS}/gpu_mem/gpu_mem_total/format"),
        &format(&["gpu_id", "pid", "size"]),
    );
    let memory = fake.support(&works)("gpu_memory");
    assert!(
        memory.reason.ends_with("; gpu_mem_total tells of memory when it changes"),
        "{}",
        memory.reason
    );
}

#[test]
fn a_driver_that_tells_nothing_of_processes_is_named() {
    let fake = Fake::complete();
    for fdinfo in ["drm-driver: amdgpu\ndrm-client-id: 5\n", "pos: 0\nflags: 02\n"] {
        open(&fake, fdinfo);
        let memory = fake.support(&works)("gpu_memory");
        assert!(
            !memory.available && memory.reason.contains("nothing is told by amdgpu"),
            "{}",
            memory.reason
        );
    }
    fs::remove_file(fake.path("proc/70/fd/9")).unwrap();
    let memory = fake.support(&works)("gpu_memory");
    assert!(!memory.available && memory.reason.contains("no process"), "{}", memory.reason);
}

#[test]
fn a_machine_without_drm_says_so_and_what_is_shown_all_the_same() {
    let fake = Fake::complete();
    for folder in ["sys/class/drm", "dev/dri", "sys/kernel/tracing/events/dma_fence"] {
        fs::remove_dir_all(fake.path(folder)).unwrap();
    }
    let support = fake.support(&works);
    let drivers = support("gpu_drivers");
    assert!(
        !drivers.available
            && drivers.reason.contains("no DRM")
            && drivers.reason.contains("calls of libraries")
    );
    assert!(drivers.remedy.unwrap().contains("modprobe"));
    assert!(!support("gpu_memory").available && !support("gpu_events").available);
    fake.write("proc/driver/nvidia/version", "");
    let drivers = fake.support(&works)("gpu_drivers");
    assert!(drivers.reason.contains("NVIDIA's own driver"), "{}", drivers.reason);
}

#[test]
fn a_container_without_the_devices_is_told_to_have_them() {
    let fake = Fake::complete();
    fs::remove_dir_all(fake.path("dev/dri")).unwrap();
    let drivers = fake.support(&works)("gpu_drivers");
    assert!(
        !drivers.available
            && drivers.reason.contains("amdgpu")
            && drivers.remedy.unwrap().contains("--device")
    );
}

#[test]
fn a_tracepoint_of_another_shape_or_without_a_field_is_named_and_the_others_are_recorded() {
    let fake = Fake::complete();
    assert!(fake.support(&works)("gpu_formats").available);
    fake.write(&format!("{EVENTS}/drm/drm_vblank_event/format"), "another shape\n");
    let row = fake.support(&works)("gpu_formats");
    assert!(!row.available && !row.required);
    let expected =
        "of an unknown shape, and not recorded: drm/drm_vblank_event; the others are recorded";
    assert_eq!(row.reason, expected);
    fake.write(&format!("{EVENTS}/dma_fence/dma_fence_emit/format"), &format(&["context"]));
    fake.write(&format!("{EVENTS}/gpu_scheduler/drm_sched_process_job/format"), &format(&["job"]));
    let row = fake.support(&works)("gpu_formats");
    let expected = "shown as they are, not as jobs or values: dma_fence/dma_fence_emit without \
                    seqno, gpu_scheduler/drm_sched_process_job without fence_context and \
                    fence_seqno; the others are recorded";
    assert!(row.reason.ends_with(expected), "{}", row.reason);
    assert!(row.remedy.unwrap().contains("format"));
    assert!(fake.support(&works)("gpu_events").reason.contains("dma_fence (2), gpu_scheduler (1)"));
}

#[test]
fn tracepoints_of_gpus_are_listed_by_subsystem() {
    let fake = Fake::complete();
    fake.write(&format!("{EVENTS}/drm/drm_vblank_event/format"), &format(&["crtc"]));
    fake.write(&format!("{EVENTS}/drm/drm_vblank_event_queued/format"), &format(&["crtc"]));
    let row = fake.support(&works)("gpu_events");
    assert!(row.available && row.reason.contains("dma_fence (1), drm (2)"), "{}", row.reason);
    fs::remove_dir_all(fake.path(EVENTS)).unwrap();
    fs::create_dir_all(fake.path(&format!("{EVENTS}/sched/sched_switch"))).unwrap();
    let row = fake.support(&works)("gpu_events");
    assert!(!row.available && !row.required && row.reason.contains("no DRM"), "{}", row.reason);
    fs::remove_dir_all(fake.path(EVENTS)).unwrap();
    let row = fake.support(&works)("tracefs");
    assert!(
        !row.available && !row.required && row.remedy.unwrap().contains("mount -t tracefs"),
        "{}",
        row.reason
    );
}
