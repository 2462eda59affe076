//! `cargo xtask ci`: everything that `.ci/run` does after `cargo test`.

use anyhow::Result;

use crate::process::{cargo, output_of, root};
use crate::report::Report;
use crate::{bpf, dist, examples, fuzz, layouts, privileged, tidy, viewers, vm, windows};

/// Runs every step, also after one that failed.
pub(crate) fn run() -> Result<()> {
    let mut report = Report::default();
    report.step("format", || quiet(&["fmt", "--all", "--check"]));
    report.step("tidy", tidy::run);
    report.step("layouts", || layouts::run(true));
    report.step("kernel object", || bpf::run(true));
    report.step("clippy", || {
        quiet(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"])
    });
    windows::steps(&mut report);
    report.step("GPU interfaces", examples::gpu::without_drivers);
    report.step("documentation", documentation);
    report.step("release build", || quiet(&["build", "--quiet", "--release"]));
    dist::steps(&mut report);
    report.step("Lua", examples::lua::without_recorder);
    report.step("the ring's ordering under loom", loom);
    report.step("figures in the viewers", viewers::step);
    fuzz::steps(&mut report);
    privileged::steps(&mut report);
    report.step("other kernels", vm::step);
    report.finish("ci")
}

fn quiet(arguments: &[&str]) -> Result<()> {
    output_of(cargo().args(arguments)).map(|_| ())
}

fn documentation() -> Result<()> {
    let arguments = ["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"];
    output_of(cargo().args(arguments).env("RUSTDOCFLAGS", "-D warnings")).map(|_| ())
}

/// Tries every order in which another processor could see the ring's stores.
fn loom() -> Result<()> {
    // Everything is compiled anew with this flag, so in a folder of its own.
    let folder = root().join("target").join("loom");
    let arguments =
        ["test", "--quiet", "--release", "-p", "syscollect-usdt-client", "--test", "loom"];
    output_of(
        cargo().args(arguments).env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", folder),
    )
    .map(|_| ())
}
