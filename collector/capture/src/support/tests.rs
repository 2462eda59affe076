use super::*;
use crate::btf;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A /proc and /sys on disk. What a test changes is the scenario it tells.
pub(super) struct Fake {
    root: tempfile::TempDir,
}

impl Fake {
    /// Root on a bare machine with everything.
    pub(super) fn complete() -> Self {
        let fake = Self { root: tempfile::tempdir().unwrap() };
        fake.write("proc/self/status", "Name:\tsyscollect\nCapEff:\t000001ffffffffff\n");
        fake.write("proc/self/limits", LIMITS);
        fake.write("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu constant_tsc nonstop_tsc\n");
        fake.write("proc/sys/kernel/perf_event_paranoid", "2\n");
        fake.write("proc/sys/kernel/kptr_restrict", "1\n");
        fake.write(
            "proc/kallsyms",
            "0000000000000000 D fixed_percpu_data\nffffffff81000000 T _text\n",
        );
        fake.write("sys/bus/event_source/devices/msr/type", "9\n");
        fake.write("proc/sys/kernel/osrelease", "6.12.94+deb13-amd64\n");
        fake.write("sys/class/powercap/intel-rapl:0/energy_uj", "12345\n");
        fs::create_dir_all(fake.path("sys/kernel/btf")).unwrap();
        let fence = ("\0dma_fence\0error\0context\0seqno\0", [(11, 0), (17, 64), (25, 128)]);
        let btf = btf::tests::structure(fence.0, 1, false, &fence.1);
        fs::write(fake.path("sys/kernel/btf/vmlinux"), btf).unwrap();
        fake.write("sys/kernel/tracing/events/dma_fence/dma_fence_signaled/format", FORMAT);
        fs::create_dir_all(fake.path("proc/self/ns")).unwrap();
        symlink("pid:[4026531836]", fake.path("proc/self/ns/pid")).unwrap();
        super::gpu_tests::add_card(&fake);
        fake
    }

    pub(super) fn path(&self, path: &str) -> std::path::PathBuf {
        self.root.path().join(path)
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    fn remove(&self, path: &str) {
        fs::remove_file(self.path(path)).unwrap();
    }

    /// What a kernel that answers `attempt` supports, by name.
    pub(super) fn support(&self, attempt: Try<'_>) -> impl Fn(&str) -> Capability + use<> {
        let all = support_of(&Machine::at(self.root.path()), attempt);
        move |name| all.iter().find(|capability| capability.name == name).expect(name).clone()
    }
}

const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units
Max locked memory         8388608              unlimited            bytes
Max open files            1024                 524288               files
";

const FORMAT: &str = "ID: 7\n\tfield:unsigned int seqno;\toffset:8;\tsize:4;\tsigned:0;\n\
                      \tfield:unsigned int context;\toffset:12;\tsize:4;\tsigned:0;\n";

pub(super) fn works(_: &Probe) -> io::Result<()> {
    Ok(())
}

fn error(number: i32) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(number))
}

#[test]
fn a_complete_machine_has_everything_and_nothing_to_mend() {
    let fake = Fake::complete();
    let all = support_of(&Machine::at(fake.root.path()), &works).into_iter();
    // Few have every vendor's libraries.
    for capability in all.filter(|capability| !capability.name.starts_with("gpu_calls_")) {
        assert!(capability.available, "{capability:?}");
        assert_eq!(capability.remedy, None, "{capability:?}");
        assert!(!capability.reason.is_empty());
    }
}

#[test]
fn stacks_are_whole_without_frame_pointers_where_the_program_is_taken() {
    let fake = Fake::complete();
    // Whatever the release: distributions have older kernels with what newer ones have.
    fake.write("proc/sys/kernel/osrelease", "5.14.0-503.el9.x86_64\n");
    assert!(fake.support(&works)("unwind_tables").available);
    let capability = fake.support(&refuses_unwind_tables)("unwind_tables");
    assert!(!capability.available && capability.remedy.is_some());
    assert!(capability.reason.contains("frame pointers"), "{}", capability.reason);
    let of_sleepers = fake.support(&|probe| match probe {
        Probe::SleeperStacks => error(libc::EINVAL),
        probe => works(probe),
    });
    assert!(!of_sleepers("sleeper_stacks").available);
}

fn refuses_unwind_tables(probe: &Probe) -> Result<(), std::io::Error> {
    match probe {
        Probe::UnwindTables => error(libc::EINVAL),
        probe => works(probe),
    }
}

#[test]
fn names_are_used_once() {
    let fake = Fake::complete();
    let mut names: Vec<_> =
        support_of(&Machine::at(fake.root.path()), &works).iter().map(|c| c.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn a_kernel_without_btf_cannot_record_and_the_remedy_names_the_option() {
    let fake = Fake::complete();
    fake.remove("sys/kernel/btf/vmlinux");
    let btf = fake.support(&works)("btf");
    assert!(!btf.available && btf.required);
    assert!(btf.remedy.unwrap().contains("CONFIG_DEBUG_INFO_BTF"));
}

#[test]
fn a_virtual_machine_without_a_pmu_samples_by_a_timer() {
    let fake = Fake::complete();
    fake.write("proc/cpuinfo", "flags\t\t: fpu constant_tsc hypervisor nonstop_tsc\n");
    let support = fake.support(&|probe| match probe {
        Probe::CycleSampling => error(libc::ENOENT),
        _ => Ok(()),
    });
    let cycles = support("hardware_cycles");
    assert!(!cycles.available && !cycles.required);
    assert!(cycles.reason.contains("timer instead"), "{}", cycles.reason);
    assert!(cycles.remedy.unwrap().contains("pmu=on"));
    assert!(support("cpu_clock").available && support("invariant_tsc").available);
}

#[test]
fn a_plain_user_is_led_to_sudo_wherever_the_kernel_forbids() {
    let fake = Fake::complete();
    fake.write("proc/self/status", "CapEff:\t0000000000000000\n");
    let support = fake.support(&|_| error(libc::EPERM));
    for name in ["cap_bpf", "cap_perfmon"] {
        let capability = support(name);
        assert!(!capability.available && capability.required);
        assert!(capability.remedy.unwrap().contains("setcap"));
    }
    for name in ["tp_btf", "raw_tracepoints", "msr_tsc", "cpu_clock", "bpf_loop", "memory_limit"] {
        assert!(support(name).remedy.unwrap().contains("sudo"), "{name}");
    }
    assert!(support("perf_event_paranoid").remedy.unwrap().contains("paranoid=-1"));
}

#[test]
fn an_old_kernel_lacks_helpers_and_iterators_but_records() {
    let fake = Fake::complete();
    let support = fake.support(&|probe| match probe {
        Probe::Helper(175 | 181) | Probe::UprobeMulti => error(libc::EOPNOTSUPP),
        Probe::Iterator("task_file") => error(libc::ENOENT),
        _ => Ok(()),
    });
    assert!(support("bpf_get_current_task_btf").available);
    for name in ["bpf_loop", "bpf_task_pt_regs", "uprobe_multi", "iter_task_file"] {
        let capability = support(name);
        assert!(!capability.available && !capability.required, "{capability:?}");
        assert!(capability.remedy.unwrap().contains("kernel"));
    }
}

#[test]
fn a_missing_tracepoint_is_named_and_only_scheduling_is_indispensable() {
    let fake = Fake::complete();
    let frequency = without(&fake, "cpu_frequency");
    assert!(!frequency.available && !frequency.required);
    assert!(frequency.reason.contains("cpu_frequency"), "{}", frequency.reason);
    assert!(without(&fake, "sched_switch").required);
}

/// What is said of tracepoints where one is missing.
fn without(fake: &Fake, name: &'static str) -> Capability {
    fake.support(&move |probe| match probe {
        Probe::RawTracepoint(tracepoint) if *tracepoint == name => error(libc::ENOENT),
        _ => Ok(()),
    })("raw_tracepoints")
}

#[test]
fn hidden_kernel_symbols_name_the_setting() {
    let fake = Fake::complete();
    fake.write("proc/sys/kernel/kptr_restrict", "2\n");
    fake.write("proc/kallsyms", "0000000000000000 T _text\n0000000000000000 t start\n");
    let symbols = fake.support(&works)("kernel_symbols");
    assert!(!symbols.available && symbols.reason.contains("kptr_restrict 2"), "{}", symbols.reason);
    assert!(symbols.remedy.unwrap().contains("kptr_restrict=1"));
}

#[test]
fn limits_are_told_with_their_figures() {
    let fake = Fake::complete();
    let support = fake.support(&|probe| match probe {
        Probe::MapMemory(_) => error(libc::EPERM),
        _ => Ok(()),
    });
    let memory = support("memory_limit");
    assert!(
        !memory.available && memory.required && memory.reason.contains("8192 KiB"),
        "{}",
        memory.reason
    );
    assert!(memory.remedy.unwrap().contains("ulimit -l"));
    assert!(support("open_files").reason.contains("524288"));

    fake.write("proc/self/limits", &LIMITS.replace("524288", "1024"));
    let files = fake.support(&works)("open_files");
    assert!(!files.available && files.remedy.unwrap().contains("ulimit -n"));
}

#[test]
fn a_sandbox_in_which_no_file_of_code_is_found_is_named() {
    let fake = Fake::complete();
    for number in [libc::EPERM, libc::ENOSYS] {
        let found = fake.support(&|probe| match probe {
            Probe::FindFile => error(number),
            probe => works(probe),
        })("found_files");
        assert!(!found.available && found.reason.contains("openat2"), "{found:?}");
        assert!(found.remedy.unwrap().contains("RestrictSUIDSGID"));
    }
}

#[test]
fn a_container_is_sent_to_the_host() {
    let fake = Fake::complete();
    fake.remove("proc/self/ns/pid");
    symlink("pid:[4026532500]", fake.path("proc/self/ns/pid")).unwrap();
    let namespace = fake.support(&works)("pid_namespace");
    assert!(!namespace.available && namespace.required);
    assert!(namespace.remedy.unwrap().contains("--pid=host"));
}

#[test]
fn a_machine_without_energy_counters_or_msr_pmu_says_what_it_does_without() {
    let fake = Fake::complete();
    fake.remove("sys/class/powercap/intel-rapl:0/energy_uj");
    fake.remove("sys/bus/event_source/devices/msr/type");
    let support = fake.support(&works);
    assert!(support("rapl").reason.contains("no power track"));
    assert!(support("msr_tsc").reason.contains("monotonic clock"));
}

#[test]
fn this_machine_answers_without_a_panic_whoever_asks() {
    let all = support();
    let btf = all.iter().find(|capability| capability.name == "btf").unwrap();
    assert_eq!(btf.available, Path::new("/sys/kernel/btf/vmlinux").exists());
}

#[test]
fn without_links_to_many_places_the_uprobe_pmu_is_used() {
    let fake = Fake::complete();
    fake.write("sys/bus/event_source/devices/uprobe/type", "7\n");
    fake.write("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
    let support = fake.support(&|probe| match probe {
        Probe::UprobeMulti => error(libc::EINVAL),
        Probe::UprobeEvent(number) => {
            assert_eq!(*number, 7);
            Ok(())
        }
        _ => Ok(()),
    });
    assert!(!support("uprobe_multi").available);
    let probes = support("user_probes");
    assert!(probes.available && probes.reason.contains("uprobe PMU"), "{probes:?}");
    assert!(!probes.reason.contains("cookies"), "{probes:?}");
    fake.write("proc/sys/kernel/osrelease", "5.10.0-28-amd64\n");
    let probes = fake
        .support(&|probe| if *probe == Probe::UprobeMulti { error(libc::EINVAL) } else { Ok(()) });
    assert!(
        probes("user_probes").reason.contains("no cookies (5.15)"),
        "an older kernel is met in its own way"
    );
}

#[test]
fn a_kernel_without_any_way_to_probe_programs_says_what_is_missing() {
    let fake = Fake::complete();
    let probes = fake.support(&no_link)("user_probes");
    assert!(!probes.available && probes.reason.contains("no uprobe PMU"), "{probes:?}");
    assert!(probes.remedy.unwrap().contains("6.6"));
}

fn no_link(probe: &Probe) -> Result<(), std::io::Error> {
    if *probe == Probe::UprobeMulti { error(libc::EINVAL) } else { Ok(()) }
}

#[test]
fn a_user_who_may_not_probe_is_led_to_sudo() {
    let fake = Fake::complete();
    fake.write("sys/bus/event_source/devices/uprobe/type", "7\n");
    let probes = fake.support(&|_| error(libc::EACCES))("user_probes");
    assert!(probes.remedy.unwrap().contains("sudo"), "{}", probes.reason);
}

#[test]
fn where_failed_jobs_of_gpus_look_finished_that_is_said() {
    let fake = Fake::complete();
    let row = fake.support(&works)("gpu_failures");
    assert!(row.available && !row.reason.contains("scheduler"), "{}", row.reason);
    fake.write("sys/kernel/tracing/events/gpu_scheduler/drm_sched_process_job/format", FORMAT);
    let row = fake.support(&works)("gpu_failures");
    assert!(!row.available && !row.required && row.reason.contains("gpu_sched"), "{}", row.reason);
    let job = btf::tests::structure(
        "drm_sched_fence\0finished\0parent\0",
        31,
        false,
        &[(47, 512), (56, 1024)],
    );
    fs::write(fake.path("sys/kernel/btf/gpu_sched"), job).unwrap();
    let row = fake.support(&works)("gpu_failures");
    assert!(row.available && row.reason.contains("scheduler"), "{}", row.reason);
    fs::write(fake.path("sys/kernel/btf/vmlinux"), 0xeb9f_u16.to_ne_bytes()).unwrap();
    let row = fake.support(&works)("gpu_failures");
    assert!(!row.available && row.reason.contains("shown as finished"), "{}", row.reason);
}

#[test]
fn the_way_to_the_count_of_interrupts_is_told() {
    let fake = Fake::complete();
    assert!(fake.support(&|_| Ok(()))("interrupts").reason.contains("variable __preempt_count"));
    fake.write(
        "proc/kallsyms",
        "0000000000000000 A __preempt_count\n0000000000000000 D __per_cpu_offset\n",
    );
    let hidden = fake.support(&no_variable)("interrupts");
    assert!(
        !hidden.available && hidden.remedy.as_ref().is_some_and(|way| way.contains("cap_syslog")),
        "{hidden:?}"
    );
    fake.write(
        "proc/kallsyms",
        "000000000001a0c0 A __preempt_count\nffffffff82b0 D __per_cpu_offset\n",
    );
    let shown = fake.support(&no_variable)("interrupts");
    assert!(shown.available && shown.reason.contains("kallsyms"), "{shown:?}");
}

fn no_variable(probe: &Probe) -> Result<(), std::io::Error> {
    if matches!(probe, Probe::Variable(_)) { error(libc::ENOENT) } else { Ok(()) }
}
