//! `cargo xtask vm [KERNEL ...] [-- TESTS]`: the privileged tests on other kernels.
//!
//! Debian's kernels are brought from its packages, unpacked outside the
//! checkout, and booted in QEMU, which emulates the CPUs, so no KVM is needed,
//! and times mean nothing there. The machine sees the host's files read-only;
//! nothing is installed in it. Inside, this same program runs the tests twice:
//! as root, and as an ordinary user with CAP_BPF and CAP_PERFMON alone.

mod kernel;
mod machine;
mod packages;
mod scheduler_module;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use self::kernel::Kernel;
use self::scheduler_module::TestModule;
use self::table::Table;
use crate::privileged::context::build_loads;
use crate::process::{on_all_cpus, output_of, root};
use crate::report::Outcome;

const INSTALL: &str =
    "on Debian or Ubuntu: apt-get install qemu-system-x86 busybox-static cpio kmod xz-utils";
const TOOLS: [&str; 6] = ["qemu-system-x86_64", "dpkg-deb", "depmod", "modprobe", "cpio", "xz"];

/// The releases that syscollect is meant for; 6.18 becomes the nearest that Debian has.
const RELEASES: [&str; 5] = ["5.10", "6.1", "6.12", "6.18", "7.2"];
/// The ones that CI has the time for, and the tests that tell most there.
const CI_RELEASES: [&str; 2] = ["5.10", "7.2"];
const CI_TESTS: [&str; 5] = ["bracket", "count", "zones-early", "probes-functions", "gpu-fences"];

/// Which kernels and tests.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Arguments {
    /// Releases like 6.1, or packages that lie here (.deb); all that syscollect is meant for if
    /// none is named.
    kernels: Vec<String>,
    /// A folder with `syscollect` and `syscollect-load`, instead of building them.
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// Keep what was recorded and printed on each kernel in this folder.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Only these tests, as `cargo xtask privileged` names them.
    #[arg(last = true)]
    tests: Vec<String>,
}

/// Runs the tests on each kernel and prints the table.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let releases: Vec<String> = match arguments.kernels.as_slice() {
        [] => RELEASES.map(str::to_owned).to_vec(),
        named => named.to_vec(),
    };
    let table = tabulate(kernels(&releases)?, &arguments.tests, arguments)?;
    println!("{table}");
    match table.failures() {
        0 => Ok(()),
        failures => bail!("{failures} tests failed"),
    }
}

/// The oldest and the newest kernel, as a step of the whole check.
pub(crate) fn step() -> Result<Outcome> {
    if let Some(tool) = missing_tool() {
        return Ok(Outcome::Skipped(format!("{tool} is missing ({INSTALL})")));
    }
    // A machine that cannot reach Debian's archive checks the rest.
    let kernels = match kernels(&CI_RELEASES.map(str::to_owned)) {
        Ok(kernels) => kernels,
        Err(error) => return Ok(Outcome::Skipped(format!("{error:#}"))),
    };
    let table = tabulate(kernels, &CI_TESTS.map(str::to_owned), &Arguments::default())?;
    match table.failures() {
        0 => Ok(Outcome::Passed(table.counts())),
        failures => bail!("{failures} tests failed:\n{table}"),
    }
}

fn missing_tool() -> Option<&'static str> {
    TOOLS.into_iter().find(|tool| Command::new(tool).arg("--version").output().is_err())
}

fn tabulate(kernels: Vec<Kernel>, tests: &[String], arguments: &Arguments) -> Result<Table> {
    if let Some(tool) = missing_tool() {
        bail!("{tool} is missing ({INSTALL})");
    }
    let built = arguments.programs.as_ref();
    let built = built.map_or_else(build, |folder| {
        Ok(["syscollect", "syscollect-load"].map(|name| folder.join(name)))
    });
    let [syscollect, load] = built?;
    // By way of /proc, because the file may be built anew meanwhile.
    let aside = tempfile::tempdir().context("cannot create a temporary folder")?;
    let own = aside.path().join("xtask");
    std::fs::copy("/proc/self/exe", &own).context("cannot copy this program")?;
    let programs = [syscollect, load, own];
    let machines = kernels.iter().map(|kernel| {
        let modules = scheduler_module::MODULES.iter().filter(|module| wanted(module, tests));
        let modules = modules
            .map(|module| test_module(module, kernel, aside.path()))
            .collect::<Result<Vec<_>>>()?;
        Ok((kernel, programs.iter().cloned().chain(modules).collect::<Vec<PathBuf>>()))
    });
    let machines = machines.collect::<Result<Vec<_>>>()?;
    // QEMU emulates a machine's CPUs on one of ours.
    let results = on_all_cpus(&machines, |(kernel, programs)| {
        let start = Instant::now();
        eprintln!("{}: booting", kernel.version);
        let test = || machine::test(kernel, programs, tests, arguments.keep.as_deref());
        // The emulator itself makes a mistake now and then: in one of many runs 6.12 panicked with
        // another register's value in its flags (QEMU 7.2, behind cmpxchg16b).
        let results = test().or_else(|error| {
            eprintln!("{}: once more, the first time {error:#}", kernel.version);
            test()
        });
        eprintln!("{}: {} s", kernel.version, start.elapsed().as_secs());
        results
    });
    let mut table = Table::default();
    for (kernel, results) in kernels.iter().zip(results) {
        let added = results.and_then(|results| table.add(&kernel.version, results.path()));
        // The other kernels are tried all the same.
        added.unwrap_or_else(|error| {
            table.add_broken(&kernel.version, tests, &format!("{error:#}"));
        });
        eprint!("{}:\n{}", kernel.version, table.last());
    }
    Ok(table)
}

/// Whether a test that is run wants the module; all are where none is named.
fn wanted(module: &TestModule, tests: &[String]) -> bool {
    tests.is_empty() || tests.iter().any(|test| module.tests.contains(&test.as_str()))
}

/// A module of the tests, or a file that says why there is none.
fn test_module(module: &TestModule, kernel: &Kernel, aside: &Path) -> Result<PathBuf> {
    let built = kernel::cache().and_then(|cache| packages::Packages::open(&cache));
    let built = built.and_then(|packages| scheduler_module::build(module, kernel, &packages));
    built.or_else(|error| {
        let reason = aside.join(module.file).with_extension("why");
        let message = format!("{error:#}");
        let telling =
            message.lines().find(|line| line.contains("rror:") || line.contains("not found"));
        let telling = telling.or(message.lines().next()).unwrap_or_default();
        let why = format!("the test module {} was not built: {telling}", module.file);
        std::fs::write(&reason, why).context("cannot write why there is no module")?;
        Ok(reason)
    })
}

/// Builds the program under test and the loads.
fn build() -> Result<[PathBuf; 2]> {
    output_of(Command::new("cargo").current_dir(root()).args([
        "build",
        "--quiet",
        "--release",
        "-p",
        "syscollect",
    ]))?;
    Ok([root().join("target/release/syscollect"), build_loads()?])
}

/// Named ones that are files are taken as they are, the others are brought.
fn kernels(releases: &[String]) -> Result<Vec<Kernel>> {
    let cache = kernel::cache()?;
    let mut files: Vec<PathBuf> =
        releases.iter().map(PathBuf::from).filter(|path| path.is_file()).collect();
    let mut packages = None;
    for release in releases.iter().filter(|release| !PathBuf::from(release).is_file()) {
        let packages = match &packages {
            Some(packages) => packages,
            None => packages.insert(packages::Packages::open(&cache)?),
        };
        files.extend(packages.bring(release)?);
    }
    files.sort();
    files.dedup();
    kernel::unpack(&files)
}
