//! `cargo xtask vm PACKAGE...`: recordings on other kernels, in virtual machines.
//!
//! The packages are Debian's kernels as `apt-get download` brings them
//! (linux-image-*; from 7.x linux-binary-* and linux-modules-* together). QEMU
//! emulates the CPUs, so no KVM is needed, and times mean nothing there. The
//! machine sees the host's files read-only, so nothing is installed in it.

mod kernel;
mod machine;
mod verdict;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::privileged::context::build_loads;
use crate::process::{output_of, root};
use crate::report::Report;

const INSTALL: &str = "on Debian or Ubuntu: apt-get install qemu-system-x86 busybox-static cpio kmod xz-utils";
const TOOLS: [&str; 6] = ["qemu-system-x86_64", "dpkg-deb", "depmod", "modprobe", "cpio", "xz"];

/// The recordings that the guest makes, see guest.sh.
const RECORDINGS: [&str; 4] = ["default", "stacks", "bare", "one"];

/// Records on each kernel, one machine at a time.
pub(crate) fn run(packages: &[PathBuf]) -> Result<()> {
    for tool in TOOLS {
        if Command::new(tool).arg("--version").output().is_err() {
            bail!("{tool} is missing ({INSTALL})");
        }
    }
    output_of(Command::new("cargo").current_dir(root()).args(["build", "--quiet", "--release", "-p", "syscollect"]))?;
    let programs = [root().join("target/release/syscollect"), build_loads()?];
    let mut report = Report::default();
    for kernel in kernel::unpack(packages)? {
        report.step(&kernel.version, || {
            let results = machine::record(&kernel, &programs)?;
            verdict::judge(&kernel, results.path())
        });
    }
    report.finish("vm")
}
