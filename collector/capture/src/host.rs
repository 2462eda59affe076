//! What is known of the machine before the recording begins.

use std::path::{Path, PathBuf};

use syscollect_model::{CpuInfo, KernelModule, SessionInfo};
use syscollect_untrusted_files::FixedPath;

use crate::arch::INVARIANT_COUNTER;
use crate::hexadecimal::hexadecimal;

/// Reads /proc and /sys; `root` is `/` but in tests.
pub(crate) struct Host {
    root: PathBuf,
}

impl Host {
    /// The machine whose files lie below `root`.
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The text of a file, without the white space around it; empty if it
    /// cannot be read: what is not known is left out of the session.
    fn text(&self, path: &'static str) -> String {
        text_of(&FixedPath::below(&self.root, path))
    }

    /// Everything of [`SessionInfo`] that these files tell.
    pub(crate) fn session(&self) -> SessionInfo {
        let cpuinfo = self.text("proc/cpuinfo");
        SessionInfo {
            recorder: format!("syscollect {}", env!("CARGO_PKG_VERSION")),
            recorder_pid: std::process::id(),
            os: self.text("proc/sys/kernel/ostype").into(),
            kernel_release: self.text("proc/sys/kernel/osrelease"),
            kernel_version: self.text("proc/sys/kernel/version"),
            machine: std::env::consts::ARCH.to_owned(),
            hostname: self.text("proc/sys/kernel/hostname"),
            boot_id: self.text("proc/sys/kernel/random/boot_id"),
            cpu_model: field(&cpuinfo, "model name"),
            cpus: self.online_cpus().into_iter().map(|cpu| self.cpu(cpu)).collect(),
            memory_bytes: kilobytes(&self.text("proc/meminfo"), "MemTotal") * 1024,
            kernel_modules: self.kernel_modules(),
            kernel_build_id: self.kernel_build_id(),
            ..SessionInfo::default()
        }
    }

    /// Whether user code can read a TSC that never changes its rate.
    pub(crate) fn has_invariant_tsc(&self) -> bool {
        let flags = field(&self.text("proc/cpuinfo"), "flags");
        INVARIANT_COUNTER.iter().all(|flag| flags.split(' ').any(|word| word == *flag))
    }

    /// The numbers of the CPUs that are there now.
    pub(crate) fn online_cpus(&self) -> Vec<u32> {
        parse_cpu_list(&self.text("sys/devices/system/cpu/online"))
    }

    /// One more than the highest CPU number that could ever be there.
    pub(crate) fn possible_cpus(&self) -> u32 {
        parse_cpu_list(&self.text("sys/devices/system/cpu/possible"))
            .last()
            .map_or(1, |last| last + 1)
    }

    fn cpu(&self, cpu: u32) -> CpuInfo {
        let folder = self.root.join(format!("sys/devices/system/cpu/cpu{cpu}"));
        let number = |file| text_of(&FixedPath::below(&folder, file)).parse().ok();
        CpuInfo {
            cpu,
            package: number("topology/physical_package_id").unwrap_or(0) as u32,
            core: number("topology/core_id").unwrap_or(0) as u32,
            max_frequency_khz: number("cpufreq/cpuinfo_max_freq"),
        }
    }

    fn kernel_modules(&self) -> Vec<KernelModule> {
        // A line that ends in taint flags has them in brackets behind the address.
        self.text("proc/modules")
            .lines()
            .filter_map(|line| kernel_module(line.split(" (").next()?))
            .collect()
    }

    /// The build id of the running kernel, from its ELF notes.
    fn kernel_build_id(&self) -> String {
        let notes = FixedPath::below(&self.root, "sys/kernel/notes").read().unwrap_or_default();
        build_id_note(&notes)
            .map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect())
            .unwrap_or_default()
    }
}

fn text_of(file: &FixedPath) -> String {
    String::from_utf8_lossy(&file.read().unwrap_or_default()).trim().to_owned()
}

/// A line of `/proc/modules`.
fn kernel_module(line: &str) -> Option<KernelModule> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, size, .., address] = words.as_slice() else { return None };
    let address = hexadecimal(address.trim_start_matches("0x"))?;
    Some(KernelModule { name: (*name).to_owned(), address, size: size.parse().ok()? })
}

/// Whether the running kernel's release is at least this.
pub(crate) fn kernel_at_least(major: u32, minor: u32) -> bool {
    let release = FixedPath::new("/proc/sys/kernel/osrelease").read_to_string().unwrap_or_default();
    release_at_least(&release, (major, minor))
}

/// The same of a release as the kernel writes it: `6.12.3-amd64`.
fn release_at_least(release: &str, least: (u32, u32)) -> bool {
    let mut parts =
        release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= least
}

/// The descriptor of the NT_GNU_BUILD_ID note among ELF notes.
fn build_id_note(mut notes: &[u8]) -> Option<&[u8]> {
    const NT_GNU_BUILD_ID: u32 = 3;
    loop {
        let (name_size, size, kind) =
            (word(notes, 0)? as usize, word(notes, 4)? as usize, word(notes, 8)?);
        let start = 12 + name_size.checked_next_multiple_of(4)?;
        let descriptor = notes.get(start..start.checked_add(size)?)?;
        if kind == NT_GNU_BUILD_ID && notes.get(12..15) == Some(b"GNU") {
            return Some(descriptor);
        }
        notes = notes.get(start + size.checked_next_multiple_of(4)?..)?;
    }
}

fn word(notes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(notes.get(at..at + 4)?.try_into().ok()?))
}

/// `name : value` of /proc/cpuinfo; empty if there is none.
fn field(text: &str, name: &str) -> String {
    text.lines()
        .find_map(|line| {
            line.split_once(':')
                .filter(|(key, _)| key.trim() == name)
                .map(|(_, v)| v.trim().to_owned())
        })
        .unwrap_or_default()
}

/// `Name: 123 kB` of /proc/meminfo; 0 if there is none.
pub(crate) fn kilobytes(text: &str, name: &str) -> u64 {
    field(text, name).trim_end_matches(" kB").parse().unwrap_or(0)
}

/// `0-3,8,10-11` as numbers. What cannot be read is left out.
pub(crate) fn parse_cpu_list(text: &str) -> Vec<u32> {
    // A list of CPUs cannot be longer than the kernel's largest NR_CPUS.
    const MOST: u32 = 8192;
    text.split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.trim().parse().ok()?..=last.trim().parse::<u32>().ok()?.min(MOST))
        })
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpu_list("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
        assert_eq!(parse_cpu_list(""), [] as [u32; 0]);
        assert_eq!(parse_cpu_list("x,1"), [1]);
    }

    #[test]
    fn the_build_id_is_found_behind_other_notes() {
        let mut notes = Vec::new();
        for (kind, name, value) in [(1u32, b"Xen\0", vec![9; 6]), (3, b"GNU\0", vec![0xab; 20])] {
            notes.extend(4u32.to_le_bytes());
            notes.extend((value.len() as u32).to_le_bytes());
            notes.extend(kind.to_le_bytes());
            notes.extend(name);
            notes.extend(&value);
            notes.resize(notes.len().next_multiple_of(4), 0);
        }
        assert_eq!(build_id_note(&notes), Some([0xab; 20].as_slice()));
        assert_eq!(build_id_note(&notes[..30]), None);
    }

    #[test]
    fn a_machine_is_described_from_its_files() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            "proc/cpuinfo",
            "processor : 0\nmodel name\t: Quick CPU\nflags\t\t: fpu constant_tsc nonstop_tsc\n",
        );
        write(root.path(), "proc/meminfo", "MemTotal:        1000 kB\nMemAvailable:     400 kB\n");
        write(
            root.path(),
            "proc/modules",
            "ext4 999424 1 - Live 0xffffffffc0400000\nnv 8 0 - Live 0xffffffffc0000000 (OE)\n",
        );
        write(root.path(), "sys/devices/system/cpu/online", "0,2\n");
        write(root.path(), "sys/devices/system/cpu/possible", "0-3\n");
        write(root.path(), "sys/devices/system/cpu/cpu2/topology/core_id", "1\n");
        let host = Host::at(root.path());
        let session = host.session();
        assert_eq!(session.cpu_model, "Quick CPU");
        assert_eq!(session.memory_bytes, 1_024_000);
        assert_eq!(
            session.cpus.iter().map(|c| (c.cpu, c.core)).collect::<Vec<_>>(),
            [(0, 0), (2, 1)]
        );
        assert_eq!(
            session.kernel_modules[1],
            KernelModule { name: "nv".into(), address: 0xffff_ffff_c000_0000, size: 8 }
        );
        assert!(host.has_invariant_tsc());
        assert_eq!(host.possible_cpus(), 4);
    }

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}
