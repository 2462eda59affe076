//! What kernels told of GPUs in virtual machines, told again as text.
//!
//! The captures are parts of recordings of the privileged tests on Debian's
//! kernels, cut by `cargo xtask cut` (`cargo xtask vm --keep` has the whole).
//! Layouts and order of records are those kernels' own.

use std::path::PathBuf;

use syscollect_merge::Session;
use syscollect_store::CaptureReader;
use syscollect_tests::golden;

fn check(name: &str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/gpu");
    let reader =
        CaptureReader::open(&folder.join(name).with_extension("syscap")).expect("it is a capture");
    assert!(reader.damage().is_empty(), "{:?}", reader.damage());
    let mut session = Session::open(reader).expect("it has clock readings");
    golden::check(&format!("gpu/{name}"), &mut session);
}

#[test]
fn fences_of_vgem_are_jobs_of_the_thread_that_made_them_and_waits_of_others_on_every_kernel() {
    ["fences_5_10", "fences_6_12", "fences_7_2"].into_iter().for_each(check);
}

#[test]
fn page_flips_of_virtio_gpu_are_commands_and_frames_and_newer_kernels_have_vertical_blanks_for_it()
{
    ["virtio_5_10", "virtio_6_12", "virtio_7_2"].into_iter().for_each(check);
}

#[test]
fn jobs_of_the_scheduler_have_their_stages_and_what_they_waited_for_on_every_kernel() {
    ["scheduler_5_10", "scheduler_6_12", "scheduler_7_2"].into_iter().for_each(check);
}

#[test]
fn a_job_that_the_scheduler_gave_up_has_failed_where_the_kernel_says_so_of_modules() {
    ["given_up_5_10", "given_up_6_12", "given_up_7_2"].into_iter().for_each(check);
}
