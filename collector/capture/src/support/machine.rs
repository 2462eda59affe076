//! What /proc and /sys tell of this process and its machine.

use std::fs;
use std::path::{Path, PathBuf};

use crate::hexadecimal::hexadecimal;

/// The inode of the initial PID namespace: `PROC_PID_INIT_INO` in
/// include/linux/proc_ns.h, unchanged from 3.8 on.
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Capabilities that matter here, by their numbers in include/uapi/linux/capability.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Privilege {
    pub(super) number: u32,
    pub(super) name: &'static str,
    pub(super) purpose: &'static str,
}

const fn privilege(number: u32, name: &'static str, purpose: &'static str) -> Privilege {
    Privilege { number, name, purpose }
}

pub(super) const CAP_BPF: Privilege = privilege(39, "cap_bpf", "loads the kernel programs");
pub(super) const CAP_PERFMON: Privilege =
    privilege(38, "cap_perfmon", "lets them see all tasks, and opens the clock");
pub(super) const CAP_SYS_PTRACE: Privilege =
    privilege(19, "cap_sys_ptrace", "reads the mappings of other processes");
pub(super) const CAP_SYSLOG: Privilege =
    privilege(34, "cap_syslog", "shows the addresses of kernel symbols");
pub(super) const CAP_SYS_ADMIN: Privilege =
    privilege(21, "cap_sys_admin", "stands for most of the others");
pub(super) const CAP_CHECKPOINT_RESTORE: Privilege =
    privilege(40, "cap_checkpoint_restore", "opens mapped files that were deleted or replaced");

/// A machine as its /proc and /sys show it.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
}

impl Machine {
    /// What a binary needs from `setcap` to record without root.
    pub const CAPABILITIES_FOR_SETCAP: &str =
        "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog,cap_checkpoint_restore,cap_dac_read_search";

    /// This machine.
    pub fn this() -> Self {
        Self::at(Path::new("/"))
    }

    /// A machine whose proc and sys folders lie below `root`.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The folder that its proc and sys lie in.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The capabilities that this process lacks for any recording; empty if it may record.
    pub fn missing_to_record(&self) -> Vec<&'static str> {
        let needed = [CAP_BPF, CAP_PERFMON];
        // Without /proc nothing is known, and the kernel will tell.
        let Some(held) = self.capabilities() else { return Vec::new() };
        needed.iter().filter(|needed| !held.holds(**needed)).map(|needed| needed.name).collect()
    }

    /// The PID namespace of this process, if it is not the machine's own.
    pub fn foreign_pid_namespace(&self) -> Option<String> {
        let namespace =
            fs::read_link(self.path("proc/self/ns/pid")).ok()?.to_string_lossy().into_owned();
        (namespace != INITIAL_PID_NAMESPACE).then_some(namespace)
    }

    /// The process that `pid` belongs to, if anything has that id: itself, or
    /// another one when it is the id of a thread.
    pub fn process_of(&self, pid: u32) -> Option<u32> {
        self.status_field(&pid.to_string(), "Tgid")?.parse().ok()
    }

    pub(super) fn capabilities(&self) -> Option<Capabilities> {
        let mask = hexadecimal(&self.status_field("self", "CapEff")?)?;
        Some(Capabilities(mask))
    }

    /// A whole file as text, trimmed.
    #[expect(clippy::disallowed_methods, reason = "files below /proc and /sys")]
    pub(super) fn read(&self, path: &str) -> Option<String> {
        Some(fs::read_to_string(self.path(path)).ok()?.trim().to_owned())
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn status_field(&self, pid: &str, field: &str) -> Option<String> {
        let status = self.read(&format!("proc/{pid}/status"))?;
        let mut fields = status.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(name, _)| *name == field).map(|(_, value)| value.trim().to_owned())
    }
}

/// A set of capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capabilities(u64);

impl Capabilities {
    /// Whether the kernel grants what `privilege` stands for. CAP_SYS_ADMIN
    /// includes CAP_BPF, CAP_PERFMON and CAP_CHECKPOINT_RESTORE
    /// (include/linux/capability.h: bpf_capable and its neighbours).
    pub(super) fn holds(self, privilege: Privilege) -> bool {
        let included =
            matches!(privilege, CAP_BPF | CAP_PERFMON | CAP_CHECKPOINT_RESTORE | CAP_SYSLOG);
        self.has(privilege) || (included && self.has(CAP_SYS_ADMIN))
    }

    fn has(self, privilege: Privilege) -> bool {
        self.0 >> privilege.number & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn machine(status: &str) -> (tempfile::TempDir, Machine) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self/ns")).unwrap();
        fs::write(root.path().join("proc/self/status"), status).unwrap();
        let machine = Machine::at(root.path());
        (root, machine)
    }

    #[test]
    fn the_old_all_embracing_capability_counts_for_the_new_ones() {
        let (_root, machine) = machine("Name:\tx\nCapEff:\t0000000000200000\n");
        assert!(machine.missing_to_record().is_empty());
        assert!(!machine.capabilities().unwrap().holds(CAP_SYS_PTRACE));
    }

    #[test]
    fn what_is_missing_is_named() {
        let (_root, machine) = machine("CapPrm:\t000001ffffffffff\nCapEff:\t0000000000000000\n");
        assert_eq!(machine.missing_to_record(), ["cap_bpf", "cap_perfmon"]);
        let (_root, nothing_known) = self::machine("");
        assert!(nothing_known.missing_to_record().is_empty());
    }

    #[test]
    fn only_another_namespace_is_foreign() {
        let (root, machine) = machine("");
        assert_eq!(machine.foreign_pid_namespace(), None, "without /proc nothing is known");
        let link = root.path().join("proc/self/ns/pid");
        symlink(INITIAL_PID_NAMESPACE, &link).unwrap();
        assert_eq!(machine.foreign_pid_namespace(), None);
        fs::remove_file(&link).unwrap();
        symlink("pid:[4026532999]", &link).unwrap();
        assert_eq!(machine.foreign_pid_namespace().as_deref(), Some("pid:[4026532999]"));
    }

    #[test]
    fn this_process_is_a_process_and_there_is_none_with_the_highest_number() {
        assert_eq!(Machine::this().process_of(std::process::id()), Some(std::process::id()));
        assert_eq!(Machine::this().process_of(u32::MAX), None);
    }
}
