//! What the kernel offers to record from.

use syscollect_untrusted_files::FixedPath;

use super::machine::{CAP_SYSLOG, Machine};
use super::probe::Probe;
use super::{AS_ROOT, Capability, Try, describe, is_forbidden, tried};
use crate::arch::{COUNTER_PMU, INVARIANT_COUNTER};
use crate::hexadecimal::hexadecimal;
use std::io::{BufRead, BufReader, Read};

const NEWER_KERNEL: &str = "use a newer kernel";

/// Tracepoints without which there is no scheduling, and what the others are for.
const TRACEPOINTS: [(&str, bool); 9] = [
    ("sched_switch", true),
    ("sched_waking", true),
    ("sched_wakeup_new", true),
    ("sched_process_fork", true),
    ("sched_process_exec", true),
    ("sched_process_exit", true),
    ("task_rename", false),
    ("sched_migrate_task", false),
    ("cpu_frequency", false),
];

/// Helpers beyond those of 5.10: number in include/uapi/linux/bpf.h, name, since, without it.
const HELPERS: [(u32, &str, &str, &str); 3] = [
    (158, "bpf_get_current_task_btf", "5.11", "registers of tasks are read by slower ways"),
    (175, "bpf_task_pt_regs", "5.15", "registers of tasks are read by slower ways"),
    (181, "bpf_loop", "5.17", "stacks are walked by the kernel's slower helper"),
];

/// BTF, programs, tracepoints, the iterator and helpers.
pub(super) fn kernel_programs(machine: &Machine, attempt: Try<'_>) -> Vec<Capability> {
    let mut all = vec![
        btf(machine),
        tried(
            "tp_btf",
            attempt(&Probe::BtfTracepoint("sched_switch")),
            "tracepoints with typed arguments, the cheapest way",
            "raw tracepoints are used instead",
            Some(NEWER_KERNEL),
        ),
        tracepoints(attempt),
    ];
    all.push(tried(
        "iter_task_file",
        attempt(&Probe::Iterator("task_file")),
        "the kernel tells the clock's offsets exactly",
        "the clock's offsets are bracketed from user space instead",
        Some(NEWER_KERNEL),
    ));
    for (number, name, since, without) in HELPERS {
        let result = attempt(&Probe::Helper(number));
        all.push(tried(name, result, format!("helper of {since}"), without, Some(NEWER_KERNEL)));
    }
    all.push(tried(
        "unwind_tables",
        attempt(&Probe::UnwindTables),
        "user stacks are whole without frame pointers, too",
        "user stacks are walked by frame pointers and end where a program has none",
        Some(NEWER_KERNEL),
    ));
    all.push(tried(
        "sleeper_stacks",
        attempt(&Probe::SleeperStacks),
        "threads that sleep from the beginning of a recording to its end have stacks",
        "threads that sleep from the beginning of a recording to its end have no stacks",
        Some(NEWER_KERNEL),
    ));
    all
}

fn btf(machine: &Machine) -> Capability {
    const NAME: &str = "btf";
    let file = FixedPath::below(machine.root(), "sys/kernel/btf/vmlinux");
    let capability = match size_and_magic(&file) {
        Ok((size, magic)) if u16::from_ne_bytes(magic) == 0xeb9f => Capability::yes(
            NAME,
            format!("type information of the running kernel, {} KiB", size >> 10),
        ),
        Ok(_) => Capability::no(NAME, "/sys/kernel/btf/vmlinux is no BTF"),
        Err(error) => Capability::no(
            NAME,
            format!(
                "/sys/kernel/btf/vmlinux: {}; the programs cannot be fitted to this kernel",
                describe(&error)
            ),
        ),
    };
    capability
        .required()
        .fix("boot a kernel with CONFIG_DEBUG_INFO_BTF=y, as distributions ship since 2021")
}

fn size_and_magic(file: &FixedPath) -> std::io::Result<(u64, [u8; 2])> {
    let mut file = file.open()?;
    let mut magic = [0; 2];
    file.read_exact(&mut magic)?;
    Ok((file.metadata()?.len(), magic))
}

/// Attaches to each tracepoint in turn.
fn tracepoints(attempt: Try<'_>) -> Capability {
    const NAME: &str = "raw_tracepoints";
    let (mut missing, mut required) = (Vec::new(), false);
    for (tracepoint, needed) in TRACEPOINTS {
        if let Err(error) = attempt(&Probe::RawTracepoint(tracepoint)) {
            if is_forbidden(&error) {
                let why = format!("attaching is not permitted ({})", describe(&error));
                return Capability::no(NAME, why).required().fix(AS_ROOT);
            }
            missing.push(format!("{tracepoint} ({})", describe(&error)));
            required |= needed;
        }
    }
    if missing.is_empty() {
        return Capability::yes(
            NAME,
            format!("all {} that are used can be attached to", TRACEPOINTS.len()),
        )
        .required();
    }
    let why = format!("missing here, and so is what they report: {}", missing.join(", "));
    let capability =
        Capability::no(NAME, why).fix("boot a kernel with CONFIG_FTRACE and CONFIG_BPF_EVENTS");
    if required { capability.required() } else { capability }
}

/// What stamps the records.
pub(super) fn clocks(machine: &Machine, attempt: Try<'_>) -> Vec<Capability> {
    let without = "stamps come from the kernel's monotonic clock, with a larger error";
    let flags = machine.read("proc/cpuinfo").unwrap_or_default();
    let flags: Vec<_> = flags
        .lines()
        .find(|line| line.starts_with("flags"))
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let invariant = INVARIANT_COUNTER.iter().all(|flag| flags.contains(flag));
    let invariant = match invariant {
        true => Capability::yes(
            "invariant_tsc",
            "the counter runs at one rate on all CPUs, in \
                                                  every sleep state",
        ),
        false => Capability::no("invariant_tsc", format!("the CPU does not promise it; {without}"))
            .fix(
                "in a virtual machine, let the host pass the flag invtsc on (QEMU: -cpu \
                  host,+invtsc)",
            ),
    };
    let pmu = machine.read(&format!("{COUNTER_PMU}/type")).and_then(|text| text.parse().ok());
    let event = match pmu {
        Some(pmu) => tried(
            "msr_tsc",
            attempt(&Probe::TscEvent(pmu)),
            "kernel programs read the time stamp counter",
            without,
            Some("sudo modprobe msr"),
        ),
        None => Capability::no("msr_tsc", format!("there is no msr PMU; {without}"))
            .fix("boot a kernel with CONFIG_PERF_EVENTS and the msr PMU (x86)"),
    };
    vec![invariant, event]
}

/// What takes CPU samples.
pub(super) fn sampling(machine: &Machine, attempt: Try<'_>) -> Vec<Capability> {
    let in_vm = machine.read("proc/cpuinfo").is_some_and(|text| text.contains(" hypervisor"));
    let remedy = in_vm
        .then_some("in a virtual machine, let the host pass its PMU on (QEMU: -cpu host,pmu=on)");
    vec![
        tried(
            "hardware_cycles",
            attempt(&Probe::CycleSampling),
            "samples follow the CPU's cycles",
            "samples follow a timer instead, which cannot look into code with interrupts off",
            remedy,
        ),
        tried(
            "cpu_clock",
            attempt(&Probe::ClockSampling),
            "samples can follow a timer",
            "without it and without hardware cycles there are no samples",
            None,
        ),
    ]
}

/// What turns addresses into names.
pub(super) fn names(machine: &Machine, attempt: Try<'_>) -> Vec<Capability> {
    let found = tried(
        "found_files",
        attempt(&Probe::FindFile),
        "files of code can be found",
        "openat2 is refused: code has no names, and user stacks follow frame pointers",
        None,
    );
    // Sandboxes alone refuse it, root's too.
    let found = found.fix(
        "let the sandbox permit openat2 (systemd: no RestrictSUIDSGID; docker: 20.10.0 or newer)",
    );
    let files = tried(
        "mapped_files",
        attempt(&Probe::MappedFile),
        "mapped files can be opened even when they are deleted or replaced",
        "files are opened by their path, so code of deleted or replaced ones may stay without \
         names; cap_checkpoint_restore opens them",
        None,
    );
    vec![kernel_symbols(machine), found, files]
}

fn kernel_symbols(machine: &Machine) -> Capability {
    const NAME: &str = "kernel_symbols";
    let setting = machine.read("proc/sys/kernel/kptr_restrict").unwrap_or_else(|| "unknown".into());
    let Ok(file) = FixedPath::below(machine.root(), "proc/kallsyms").open() else {
        return Capability::no(NAME, "/proc/kallsyms cannot be read; kernel frames show addresses")
            .fix("boot a kernel with CONFIG_KALLSYMS=y");
    };
    // The first symbols of per-CPU data may really lie at 0; code never does.
    let shown = BufReader::new(file).lines().map_while(Result::ok).take(4096).any(|line| {
        let mut parts = line.split_whitespace();
        let address = parts.next().and_then(hexadecimal);
        matches!(parts.next(), Some("t" | "T")) && address.is_some_and(|address| address != 0)
    });
    if shown {
        return Capability::yes(NAME, format!("addresses are shown (kptr_restrict {setting})"));
    }
    let without =
        format!("addresses are hidden (kptr_restrict {setting}); kernel frames show numbers");
    let allowed = machine.capabilities().is_some_and(|held| held.holds(CAP_SYSLOG));
    match allowed {
        // 2 hides them from root too.
        true => Capability::no(NAME, without).fix("sudo sysctl kernel.kptr_restrict=1"),
        // Even 0 shows them to cap_syslog only, where perf is restricted, too.
        false => Capability::no(NAME, format!("{without}; cap_syslog shows them")).fix(AS_ROOT),
    }
}

/// Energy counters.
pub(super) fn power(machine: &Machine) -> Capability {
    const NAME: &str = "rapl";
    let zones = FixedPath::below(machine.root(), "sys/class/powercap")
        .entries()
        .into_iter()
        .flatten()
        .flatten();
    let energy: Vec<_> = zones
        .map(|zone| zone.path())
        .filter(|zone| std::fs::symlink_metadata(zone.join("energy_uj")).is_ok())
        .collect();
    let reads = |zone| FixedPath::below(zone, "energy_uj").read().is_ok();
    let readable = energy.iter().filter(|zone| reads(zone)).count();
    match (energy.len(), readable) {
        (0, _) => {
            Capability::no(NAME, "this machine shows no energy counters; there is no power track")
        }
        (all, 0) => Capability::no(
            NAME,
            format!("none of {all} energy counters may be read; there is no power track"),
        )
        .fix("sudo syscollect, or sudo chmod a+r /sys/class/powercap/*/energy_uj"),
        (_, readable) => Capability::yes(NAME, format!("{readable} energy counters")),
    }
}
