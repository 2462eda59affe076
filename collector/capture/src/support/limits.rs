//! What this process may do, and how much of it.

use super::machine::{
    CAP_BPF, CAP_CHECKPOINT_RESTORE, CAP_PERFMON, CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_SYSLOG,
    Machine,
};
use super::probe::Probe;
use super::{Capability, Try, is_forbidden};
use crate::error::megabytes;
use crate::host::Host;
use crate::memory::{BufferUse, MemoryRoom};
use crate::options::RecordOptions;

/// About what the lanes of a small machine take.
const MAP_PROBE_BYTES: u32 = 16 << 20;
/// A desktop has about 1,500 executable files mapped, and each is held open.
const ENOUGH_FILES: u64 = 2048;

/// The namespace and the capabilities of the process.
pub(super) fn privileges(machine: &Machine) -> Vec<Capability> {
    let namespace = match machine.foreign_pid_namespace() {
        None => Capability::yes("pid_namespace", "process ids are the machine's own"),
        Some(namespace) => Capability::no(
            "pid_namespace",
            format!(
                "a namespace of its own ({namespace}): the kernel reports ids that mean \
                     nothing here"
            ),
        )
        .fix("record on the host, or start the container with --pid=host"),
    };
    let mut all = vec![namespace.required()];
    let held = machine.capabilities();
    for (privilege, required) in [
        (CAP_BPF, true),
        (CAP_PERFMON, true),
        (CAP_SYS_PTRACE, false),
        (CAP_SYSLOG, false),
        (CAP_CHECKPOINT_RESTORE, false),
    ] {
        let holds = held.is_none_or(|held| held.holds(privilege));
        let mut capability = match holds {
            true => Capability::yes(privilege.name, privilege.purpose),
            false => Capability::no(privilege.name, format!("not held; it {}", privilege.purpose))
                .fix(format!(
                    "sudo, or once: sudo setcap {}+ep \"$(command -v syscollect)\"",
                    Machine::CAPABILITIES_FOR_SETCAP
                )),
        };
        capability.required = required;
        all.push(capability);
    }
    // It is only ever a stand-in for the others, never asked for by itself.
    if held.is_some_and(|held| held.holds(CAP_SYS_ADMIN)) {
        all.push(Capability::yes(CAP_SYS_ADMIN.name, CAP_SYS_ADMIN.purpose));
    }
    all
}

/// Settings that bound what the process may take.
pub(super) fn limits(machine: &Machine, attempt: Try<'_>) -> Vec<Capability> {
    vec![paranoid(machine), memory(machine, attempt), memory_room(machine), open_files(machine)]
}

/// What a recording takes of the memory that there is.
fn memory_room(machine: &Machine) -> Capability {
    const NAME: &str = "memory_room";
    let cpus = Host::at(machine.root()).possible_cpus();
    let options = RecordOptions::default();
    let room = MemoryRoom::read(machine.root());
    let plan = room
        .suffices_for(&options)
        .and_then(|()| room.plan(options.buffer_bytes, BufferUse::of(&options), cpus));
    match plan {
        Ok(plan) => {
            let [lanes, buffer] = [plan.lanes_bytes, plan.buffer_bytes as u64].map(megabytes);
            let why = plan.note.map_or_else(String::new, |note| format!("; {note}"));
            Capability::yes(
                NAME,
                format!("lanes of {cpus} CPUs take {lanes}, the trace buffer up to {buffer}{why}"),
            )
        }
        Err(error) => Capability::no(NAME, error.to_string())
            .required()
            .fix("give the control group more memory"),
    }
}

fn paranoid(machine: &Machine) -> Capability {
    const NAME: &str = "perf_event_paranoid";
    let Some(value) = machine
        .read("proc/sys/kernel/perf_event_paranoid")
        .and_then(|text| text.parse::<i32>().ok())
    else {
        return Capability::no(
            NAME,
            "this kernel has no perf events: no clock in hardware, no samples, no mappings",
        );
    };
    let privileged = machine.capabilities().is_some_and(|held| held.holds(CAP_PERFMON));
    match (privileged, value) {
        (true, _) => Capability::yes(NAME, format!("{value}, which cap_perfmon overrides")),
        (false, ..=-1) => Capability::yes(NAME, format!("{value}: everybody may use all events")),
        (false, _) => {
            Capability::no(NAME, format!("{value}: events of the whole machine need cap_perfmon"))
                .fix("sudo sysctl kernel.perf_event_paranoid=-1, or record with sudo")
        }
    }
}

fn memory(machine: &Machine, attempt: Try<'_>) -> Capability {
    const NAME: &str = "memory_limit";
    let limit =
        machine.limit("Max locked memory").map_or("unknown".into(), |(soft, _)| match soft {
            u64::MAX => "unlimited".into(),
            bytes => format!("{} KiB", bytes >> 10),
        });
    match attempt(&Probe::MapMemory(MAP_PROBE_BYTES)) {
        Ok(()) => {
            Capability::yes(NAME, format!("a map of 16 MiB can be made; locked memory: {limit}"))
        }
        Err(error) if is_forbidden(&error) && !machine.missing_to_record().is_empty() => {
            Capability::no(NAME, "maps need cap_bpf, so this cannot be tried").fix(super::AS_ROOT)
        }
        Err(error) => {
            let why = super::describe(&error);
            // The kernel's own word for this limit; later kernels charge the control group.
            let raises = if is_forbidden(&error) {
                ", which cap_sys_resource may raise (before 5.11)"
            } else {
                ""
            };
            Capability::no(
                NAME,
                format!(
                    "a map of 16 MiB was refused ({why}); locked memory: \
                                          {limit}{raises}"
                ),
            )
            .required()
            .fix(
                "before Linux 5.11: sudo, or ulimit -l unlimited; else give the control group \
                      more memory",
            )
        }
    }
}

fn open_files(machine: &Machine) -> Capability {
    const NAME: &str = "open_files";
    match machine.limit("Max open files") {
        Some((_, hard)) if hard < ENOUGH_FILES => Capability::no(
            NAME,
            format!("at most {hard}: files of ended processes may stay without names"),
        )
        .fix("ulimit -n 65536"),
        Some((soft, hard)) => {
            Capability::yes(NAME, format!("{soft}, raised up to {hard} while recording"))
        }
        None => Capability::yes(NAME, "no limit is known"),
    }
}

impl Machine {
    /// Soft and hard limit of this process, from /proc/self/limits.
    fn limit(&self, name: &str) -> Option<(u64, u64)> {
        let limits = self.read("proc/self/limits")?;
        let mut values =
            limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
        Some((limit_of(values.next()?)?, limit_of(values.next()?)?))
    }
}

/// A limit as the kernel writes it.
fn limit_of(text: &str) -> Option<u64> {
    match text {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}
