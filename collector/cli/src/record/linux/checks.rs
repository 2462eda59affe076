//! What is checked before anything is created: a recording that cannot work
//! says so in one message and leaves nothing behind.

use crate::escape::{Advice, printable};
use anyhow::{Result, bail};
use syscollect_capture::Machine;

/// Whether this process may record at all, and sees the machine's own process ids.
///
/// # Errors
///
/// A message that says what to run instead.
pub(crate) fn may_record(machine: &Machine) -> Result<()> {
    let missing = machine.missing_to_record();
    if !missing.is_empty() {
        let arguments: Vec<_> =
            std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
        let program =
            std::env::current_exe().map_or("syscollect".into(), |path| path.display().to_string());
        bail!(Advice(how_to_be_allowed(&missing, &program, &arguments)));
    }
    if let Some(namespace) = machine.foreign_pid_namespace() {
        bail!(
            "this is a PID namespace of its own ({namespace}), as in a container: the kernel \
             reports the host's process ids, which mean nothing here. Record on the host, or start \
             the container with --pid=host"
        );
    }
    Ok(())
}

fn how_to_be_allowed(missing: &[&str], program: &str, arguments: &[String]) -> String {
    let program = printable(program);
    let arguments: Vec<_> = arguments.iter().map(|argument| printable(argument)).collect();
    let command = [vec!["sudo".to_owned(), program.clone()], arguments].concat().join(" ");
    format!(
        "recording needs root, or the capabilities cap_bpf and cap_perfmon; {} not held by this \
         process.\n  Run:        {command}\n  \
         Or, once:   sudo setcap {}+ep {program}\n  \
         See also:   syscollect doctor",
        match missing {
            [one] => format!("{one} is"),
            several => format!("{} are", several.join(" and ")),
        },
        Machine::CAPABILITIES_FOR_SETCAP,
    )
}

/// Whether every process asked for is there.
///
/// # Errors
///
/// A message that names the one that is not.
pub(crate) fn processes_exist(machine: &Machine, pids: &[u32]) -> Result<()> {
    for &pid in pids {
        match machine.process_of(pid) {
            Some(process) if process == pid => {}
            Some(process) => bail!("{pid} is a thread of process {process}: use -p {process}"),
            None => {
                bail!("no process has PID {pid}: it has ended, or the number is wrong (see ps -e)")
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A /proc with one process of two threads, whose reader holds `capabilities`.
    fn machine(capabilities: &str, namespace: &str) -> (tempfile::TempDir, Machine) {
        let root = tempfile::tempdir().unwrap();
        for (pid, tgid) in [("self", "10"), ("10", "10"), ("11", "10")] {
            let folder = root.path().join("proc").join(pid);
            fs::create_dir_all(folder.join("ns")).unwrap();
            fs::write(
                folder.join("status"),
                format!("Name:\tx\nTgid:\t{tgid}\nCapEff:\t{capabilities}\n"),
            )
            .unwrap();
            symlink(namespace, folder.join("ns/pid")).unwrap();
        }
        let machine = Machine::at(root.path());
        (root, machine)
    }

    const ALL: &str = "000001ffffffffff";
    const INITIAL: &str = "pid:[4026531836]";

    #[test]
    fn root_may_record() {
        let (_root, machine) = machine(ALL, INITIAL);
        may_record(&machine).unwrap();
    }

    #[test]
    fn somebody_without_capabilities_learns_what_to_run() {
        let (_root, machine) = machine("0000000000000000", INITIAL);
        let message = may_record(&machine).unwrap_err().to_string();
        for part in [
            "cap_bpf and cap_perfmon are not held",
            "sudo ",
            "setcap cap_bpf,cap_perfmon",
            "doctor",
        ] {
            assert!(message.contains(part), "{part:?} is not in {message}");
        }
    }

    #[test]
    fn what_to_run_has_lines_of_ours_only() {
        let arguments = ["-o".to_owned(), "a\n  Run: b".to_owned()];
        let message = how_to_be_allowed(&["cap_bpf"], "/bin/syscollect", &arguments);
        assert_eq!(message.lines().count(), 4, "{message}");
        assert!(message.contains("sudo /bin/syscollect -o a\\n  Run: b\n"), "{message}");
    }

    #[test]
    fn one_capability_alone_is_not_enough() {
        let (_root, machine) = machine("0000004000000000", INITIAL);
        let message = may_record(&machine).unwrap_err().to_string();
        assert!(message.contains("cap_bpf is not held"), "{message}");
    }

    #[test]
    fn a_container_is_told_to_record_on_the_host() {
        let (_root, machine) = machine(ALL, "pid:[4026532177]");
        let message = may_record(&machine).unwrap_err().to_string();
        assert!(message.contains("4026532177") && message.contains("--pid=host"), "{message}");
    }

    #[test]
    fn an_unknown_process_is_named_and_a_thread_is_led_to_its_process() {
        let (_root, machine) = machine(ALL, INITIAL);
        processes_exist(&machine, &[10]).unwrap();
        assert!(processes_exist(&machine, &[10, 99]).unwrap_err().to_string().contains("PID 99"));
        assert!(processes_exist(&machine, &[11]).unwrap_err().to_string().contains("-p 10"));
    }
}
