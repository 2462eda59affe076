//! Modules of these tests, built for each kernel against Debian's headers: no
//! virtual device drives the DRM scheduler, or tells what processes have of it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::kernel::{self, Kernel};
use super::packages::Packages;
use crate::process::output_of;

/// A module of these tests.
pub(crate) struct TestModule {
    /// The tests that want it.
    pub(crate) tests: &'static [&'static str],
    /// Its file's name; beside it the guest finds why it is not there.
    pub(crate) file: &'static str,
    /// The folder that it is built in.
    folder: &'static str,
    sources: [(&'static str, &'static str); 2],
}

/// All of them.
pub(crate) const MODULES: [TestModule; 2] = [
    TestModule {
        tests: &["gpu-scheduler", "gpu-interrupts"],
        file: "syscollect_scheduler.ko",
        folder: "scheduler_module",
        sources: [
            ("Kbuild", include_str!("scheduler_module/Kbuild")),
            ("syscollect_scheduler.c", include_str!("scheduler_module/syscollect_scheduler.c")),
        ],
    },
    TestModule {
        tests: &["gpu-memory"],
        file: "syscollect_memory.ko",
        folder: "memory_module",
        sources: [
            ("Kbuild", include_str!("memory_module/Kbuild")),
            ("syscollect_memory.c", include_str!("memory_module/syscollect_memory.c")),
        ],
    },
];
/// What an older compiler does not know of what the kernel's own was told.
const COMPILER: &str = "#!/bin/sh
for argument; do
	shift
	case $argument in
	-fmin-function-alignment=*) argument=-falign-functions=${argument#*=} ;;
	esac
	set -- \"$@\" \"$argument\"
done
exec gcc \"$@\"
";

/// Builds a module; where it lies.
pub(crate) fn build(module: &TestModule, kernel: &Kernel, packages: &Packages) -> Result<PathBuf> {
    for tool in ["make", "gcc"] {
        if Command::new(tool).arg("--version").output().is_err() {
            bail!("{tool} is missing, so {} is not built", module.file);
        }
    }
    kernel::unpack_into(&kernel.folder, &packages.headers(&kernel.version)?)?;
    let headers = kernel.folder.join("usr/src").join(format!("linux-headers-{}", kernel.version));
    root_here(&headers.join("Makefile"), &kernel.folder)?;
    let strangers = strangers(&kernel.folder.join("usr/lib"))?;
    if !strangers.is_empty() {
        let libc = packages.libc()?;
        strangers.iter().try_for_each(|program| with_libc(program, &libc))?;
    }
    let work = kernel.folder.join(module.folder);
    fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
    for (name, text) in module.sources {
        fs::write(work.join(name), text).with_context(|| format!("cannot write {name}"))?;
    }
    let compiler = work.join("cc");
    write_program(&compiler, COMPILER)?;
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(&headers).arg("modules");
    // Nothing reads the module's type information.
    make.arg("CONFIG_DEBUG_INFO_BTF_MODULES=");
    make.arg(format!("M={}", work.display())).arg(format!("CC={}", compiler.display()));
    output_of(&mut make)
        .with_context(|| format!("the test module {} does not compile", module.file))?;
    Ok(work.join(module.file))
}

/// Debian's makefiles name each other by where they are installed.
fn root_here(makefile: &Path, folder: &Path) -> Result<()> {
    let text = fs::read_to_string(makefile)
        .with_context(|| format!("cannot read {}", makefile.display()))?;
    let here = folder.join("usr/src/").display().to_string();
    if !text.contains(&here) {
        let text = text.replace("/usr/src/", &here);
        fs::write(makefile, text)
            .with_context(|| format!("cannot write {}", makefile.display()))?;
    }
    Ok(())
}

/// The programs in a folder that want a newer C library than the host's.
fn strangers(tools: &Path) -> Result<Vec<PathBuf>> {
    let find = output_of(Command::new("find").arg(tools).args([
        "-type",
        "f",
        "-path",
        "*linux-kbuild*",
        "-perm",
        "-100",
    ]))?;
    let programs: Vec<PathBuf> =
        String::from_utf8_lossy(&find.stdout).lines().map(PathBuf::from).collect();
    Ok(programs.into_iter().filter(|program| is_stranger(program)).collect())
}

fn is_stranger(program: &Path) -> bool {
    let is_elf = fs::read(program).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"));
    if !is_elf || program.extension().is_some_and(|kind| kind == "real") {
        return false;
    }
    // Those that run end at once, with a message on how they are used.
    let output = Command::new(program).stdin(Stdio::null()).output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stderr).contains("GLIBC_"))
}

/// Puts a script in a program's place that runs it with the C library of a folder.
fn with_libc(program: &Path, libc: &Path) -> Result<()> {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let real = program.with_file_name(format!("{name}.real"));
    fs::rename(program, &real).with_context(|| format!("cannot rename {}", program.display()))?;
    let (libc, real) = (libc.display(), real.display());
    let loader = format!(
        "#!/bin/sh\nexec \"{libc}/ld-linux-x86-64.so.2\" --library-path \"{libc}\" \"{real}\" \
         \"$@\"\n"
    );
    write_program(program, &loader)
}

fn write_program(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} a program", path.display()))
}
