//! One virtual machine: an initial file system with the modules that reach the
//! host's files, and QEMU.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::INSTALL;
use super::kernel::Kernel;
use crate::process::{output_of, wait_at_most};

/// What leads to the host's files; what they need comes with them.
const MODULES: [&str; 3] = ["virtio_pci", "9pnet_virtio", "9p"];
/// All tests of a kernel take a few minutes on a quiet machine.
const LONGEST: Duration = Duration::from_secs(1800);

/// Boots the kernel and lets the guest test; what it wrote lies in the folder.
///
/// With `keep`, what the guest recorded and printed is copied there.
pub(crate) fn test(
    kernel: &Kernel,
    programs: &[PathBuf],
    tests: &[String],
    keep: Option<&Path>,
) -> Result<TempDir> {
    let work = tempfile::tempdir().context("cannot create a temporary folder")?;
    let initrd = initial_files(kernel, work.path())?;
    let exchange = tempfile::tempdir().context("cannot create a temporary folder")?;
    fs::write(exchange.path().join("guest.sh"), include_str!("guest.sh"))
        .context("cannot write guest.sh")?;
    fs::write(exchange.path().join("tests"), tests.join(" "))
        .context("cannot write the tests' names")?;
    // The guest sees the host's files, and so the kernel's own modules.
    fs::write(exchange.path().join("modules"), kernel.folder.as_os_str().as_encoded_bytes())
        .context("cannot write where the modules are")?;
    for program in programs {
        let name = program.file_name().context("a program without a name")?;
        fs::copy(program, exchange.path().join(name))
            .with_context(|| format!("cannot copy {}", program.display()))?;
    }
    if keep.is_some() {
        let captures = exchange.path().join("captures");
        fs::create_dir(&captures)
            .with_context(|| format!("cannot create {}", captures.display()))?;
    }
    let console = work.path().join("console.txt");
    boot(kernel, &initrd, exchange.path(), &console)?;
    if let Some(keep) = keep {
        let keep = keep.join(&kernel.version);
        fs::create_dir_all(&keep).with_context(|| format!("cannot create {}", keep.display()))?;
        output_of(
            Command::new("cp")
                .arg("-r")
                .arg(exchange.path().join("."))
                .arg(console.as_path())
                .arg(&keep),
        )?;
    }
    if !exchange.path().join("finished").exists() {
        let printed = String::from_utf8_lossy(&fs::read(&console).unwrap_or_default()).into_owned();
        let lines: Vec<&str> = printed.lines().collect();
        bail!(
            "the guest did not finish; its console ends with:\n{}",
            lines[lines.len().saturating_sub(20)..].join("\n")
        );
    }
    Ok(exchange)
}

/// Packs busybox, the modules in the order of their needs, and init.sh.
fn initial_files(kernel: &Kernel, work: &Path) -> Result<PathBuf> {
    let tree = work.join("tree");
    let (bin, modules) = (tree.join("bin"), tree.join("modules"));
    for folder in [&bin, &modules] {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let busybox =
        ["/bin/busybox", "/usr/bin/busybox"].iter().map(Path::new).find(|place| place.exists());
    let busybox = busybox.with_context(|| format!("busybox is missing ({INSTALL})"))?;
    fs::copy(busybox, bin.join("busybox")).context("cannot copy busybox")?;
    fs::write(tree.join("init"), include_str!("init.sh")).context("cannot write init")?;
    let mut order: Vec<String> = Vec::new();
    for file in needed_modules(kernel)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let plain = name.trim_end_matches(".xz").to_owned();
        if order.contains(&plain) {
            continue;
        }
        fs::copy(&file, modules.join(&name))
            .with_context(|| format!("cannot copy {}", file.display()))?;
        if plain != name {
            output_of(Command::new("xz").arg("-d").arg(modules.join(&name)))?;
        }
        order.push(plain);
    }
    fs::write(modules.join("order"), order.join("\n"))
        .context("cannot write the modules' order")?;
    let initrd = work.join("initrd");
    let pack = "chmod 755 init && find . | cpio --quiet -o -H newc > ../initrd";
    output_of(Command::new("sh").current_dir(&tree).args(["-c", pack]))?;
    Ok(initrd)
}

/// The modules' files in the order in which they can be loaded; built-in ones need none.
fn needed_modules(kernel: &Kernel) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for module in MODULES {
        let mut command = Command::new("modprobe");
        command.arg("-d").arg(&kernel.folder).args([
            "-S",
            &kernel.version,
            "--show-depends",
            module,
        ]);
        // Where the list of built-in modules is not packaged, they are not found.
        let Ok(output) = output_of(&mut command) else { continue };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        files.extend(
            text.lines()
                .filter_map(|line| Some(PathBuf::from(line.strip_prefix("insmod ")?.trim()))),
        );
    }
    Ok(files)
}

/// Runs QEMU until the guest powers off.
fn boot(kernel: &Kernel, initrd: &Path, exchange: &Path, console: &Path) -> Result<()> {
    let log = fs::File::create(console).context("cannot create the console's file")?;
    let mut qemu = Command::new("qemu-system-x86_64");
    // One emulating thread: with several, QEMU 7.2 now and then goes on executing
    // a breakpoint that the kernel has removed from its code, for ever.
    qemu.args(["-accel", "tcg,thread=single", "-cpu", "max", "-smp", "2", "-m", "2G"])
        .args(["-nographic", "-no-reboot", "-nic", "none", "-device", "virtio-gpu-pci"])
        .arg("-kernel")
        .arg(&kernel.image)
        .arg("-initrd")
        .arg(initrd)
        .args(["-append", "console=ttyS0 quiet panic=-1"])
        .args(shared_folder("host", Path::new("/"), ",readonly=on,multidevs=remap"))
        .args(shared_folder("exchange", exchange, ""))
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("cannot share the console's file")?)
        .stderr(log);
    let mut child =
        qemu.spawn().with_context(|| format!("cannot start qemu-system-x86_64 ({INSTALL})"))?;
    if wait_at_most(LONGEST, &mut child)?.is_none() {
        child.kill().context("cannot stop QEMU")?;
        child.wait().context("cannot wait for QEMU")?;
    }
    Ok(())
}

fn shared_folder(id: &str, path: &Path, options: &str) -> [String; 4] {
    let path = path.display().to_string().replace(',', ",,");
    let device = format!("virtio-9p-pci,fsdev={id},mount_tag={id}");
    let share = format!("local,id={id},path={path},security_model=none{options}");
    ["-fsdev".to_owned(), share, "-device".to_owned(), device]
}
