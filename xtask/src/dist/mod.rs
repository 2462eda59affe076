//! `cargo xtask dist`: the packages that a release offers, a tar.gz and a .deb.
//!
//! Both hold one static program (musl), so they run on any x86-64 Linux and depend on nothing, and
//! with it its manual pages, completions, documents and licences, and the client for C and C++
//! (which programs link that have glibc). The .deb is made by dpkg-deb from
//! a folder and one control file: what cargo-deb would add, finding out dependencies, a static
//! program has no use for, and it takes minutes to build.
//!
//! The same commit and compiler give the same bytes: times are those of the commit, owners are
//! root, files are sorted, and no path of the machine is in the program.

mod check;
pub(crate) mod client;
mod licenses;
mod program;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process::{output_of, root, words};
use crate::report::{Outcome, Report};

use self::client::ClientLibraries;
use self::program::{Program, Purpose};
use self::tree::Layout;

/// Where the packages go.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder of the packages
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Do what CI does: make them, install them below an empty folder, run the program there
    #[arg(long, conflicts_with = "output")]
    check: bool,
}

/// The packages that were made.
struct Packages {
    archive: PathBuf,
    /// None where dpkg-deb is missing.
    deb: Option<PathBuf>,
}

/// Makes the packages and prints where they are.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.check {
        let mut report = Report::default();
        steps(&mut report);
        return report.finish("dist");
    }
    if let Some(missing) = program::missing_tools() {
        bail!("{missing}");
    }
    let output = arguments.output.clone().unwrap_or_else(|| target().join("dist"));
    let program = Program::build(Purpose::Release)?;
    let packages = make(&program, &ClientLibraries::build()?, &output)?;
    println!("{}", sized(&packages.archive)?);
    match &packages.deb {
        Some(deb) => println!("{}", sized(deb)?),
        None => println!("no .deb: dpkg-deb is missing"),
    }
    Ok(())
}

/// As steps of a larger check: the static program is built and records, the packages are made,
/// installed on an empty root, and run there.
pub(crate) fn steps(report: &mut Report) {
    let mut built = None;
    report.step("static program: build", || {
        if let Some(missing) = program::missing_tools() {
            return Ok(Outcome::Skipped(missing));
        }
        let program = Program::build(Purpose::Check)?;
        let size = sized(&program.path)?;
        built = Some(program);
        Ok(Outcome::Passed(size))
    });
    let Some(program) = built else { return };
    report.step("static program: run, record", || check::records(&program));
    report.step("packages: on an empty root", || check::packages(&program));
}

/// Makes both packages of a program.
fn make(program: &Program, client: &ClientLibraries, output: &Path) -> Result<Packages> {
    fs::create_dir_all(output).with_context(|| format!("cannot create {}", output.display()))?;
    let name = format!("syscollect-{}-x86_64-linux", program.version);
    let time = commit_time()?;
    Ok(Packages {
        archive: archive(program, client, &output.join(format!("{name}.tar.gz")), &time)?,
        deb: deb(program, client, output, &time)?,
    })
}

/// Makes the archive, in which all lies in a folder of its name.
fn archive(
    program: &Program,
    client: &ClientLibraries,
    file: &Path,
    time: &str,
) -> Result<PathBuf> {
    let stage = stage_folder()?;
    let name =
        file.file_name().and_then(|name| name.to_str()).context("the archive has no name")?;
    let name = name.trim_end_matches(".tar.gz");
    tree::fill(&stage.path().join(name), &Layout::ARCHIVE, program, client)?;
    let mut tar = Command::new("tar")
        .args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .args(["--format=gnu", &format!("--mtime=@{time}"), name])
        .current_dir(stage.path())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start tar")?;
    let packed = tar.stdout.take().context("tar has no output")?;
    let to = fs::File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
    // -n: neither a name nor a time of its own.
    let mut gzip = Command::new("gzip");
    gzip.args(["-9", "-n"]).stdin(packed).stdout(to);
    let line = words(&gzip);
    let zipped = gzip.status().with_context(|| format!("cannot start `{line}`"))?;
    if !zipped.success() || !tar.wait().context("tar is gone")?.success() {
        bail!("{} could not be packed", file.display());
    }
    Ok(file.to_path_buf())
}

fn deb(
    program: &Program,
    client: &ClientLibraries,
    output: &Path,
    time: &str,
) -> Result<Option<PathBuf>> {
    if !program::starts("dpkg-deb") {
        return Ok(None);
    }
    let stage = stage_folder()?;
    let installed = tree::fill(&stage.path().join("usr"), &Layout::DEBIAN, program, client)?;
    tree::write(&stage.path().join("DEBIAN/control"), &control(program, installed))?;
    let file = output.join(format!("syscollect_{}_amd64.deb", program.version));
    output_of(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Zxz", "--build"])
            .arg(stage.path())
            .arg(&file)
            .env("SOURCE_DATE_EPOCH", time),
    )?;
    Ok(Some(file))
}

/// The program is static, so it depends on no package.
fn control(program: &Program, installed_bytes: u64) -> String {
    format!(
        "Package: syscollect\n\
         Version: {}\n\
         Architecture: amd64\n\
         Maintainer: The syscollect authors\n\
         Installed-Size: {}\n\
         Section: devel\n\
         Priority: optional\n\
         Homepage: https://github.com/syscollect/syscollect\n\
         Description: kernel-assisted whole-system profiler\n \
         Records every context switch, wakeup and CPU sample of a machine through eBPF, and\n \
         writes it for Perfetto, Tracy and the Firefox Profiler.\n",
        program.version,
        installed_bytes.div_ceil(1024),
    )
}

/// The folder that a package is made of. Its own, because what lies there is packed; readable for
/// all, because it is the root of what is packed.
fn stage_folder() -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir().context("cannot create a folder")?;
    tree::set_mode(folder.path(), 0o755)?;
    Ok(folder)
}

/// Seconds since 1970 of the commit, which all files get as their time.
fn commit_time() -> Result<String> {
    if let Ok(time) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(time);
    }
    let mut git = Command::new("git");
    let output = output_of(git.args(["log", "-1", "--format=%ct"]).current_dir(root()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// `PATH has 12.3 MB`.
fn sized(file: &Path) -> Result<String> {
    let size = fs::metadata(file).with_context(|| format!("cannot find {}", file.display()))?;
    Ok(format!("{} has {:.1} MB", file.display(), size.len() as f64 / 1e6))
}
