//! Which programs a kernel takes: BTF tracepoints where it has them, else raw
//! tracepoints; direct reads where the helpers are there, else probing ones.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use aya::maps::Map;
use aya::programs::{BtfTracePoint, PerfEvent, Program, ProgramError, RawTracePoint};
use aya::{Btf, Ebpf};
use syscollect_model::LaneKind;

use crate::bpf_calls::{self, ProgramCounts};
use crate::error::CaptureError;
use crate::mapped_map::MappedWords;
use crate::memory::MemoryPlan;
use crate::options::RecordOptions;
use crate::priority::PriorityBoost;
use crate::unwind::{InterpreterMaps, UnwindPrograms};

/// Tracepoints with a fast program and one for older kernels.
const SCHED: [(&str, &str, &str); 3] = [
    ("sched_switch", "sched_switch_btf", "sched_switch_raw"),
    ("sched_waking", "sched_waking_btf", "sched_waking_raw"),
    ("sched_wakeup_new", "sched_wakeup_new_btf", "sched_wakeup_new_raw"),
];

/// Rare tracepoints, always raw, and whether a recording is of use without.
const RARE: [(&str, &str); 6] = [
    ("sched_process_fork", "sched_process_fork_raw"),
    ("sched_process_exec", "sched_process_exec_raw"),
    ("sched_process_exit", "sched_process_exit_raw"),
    ("task_rename", "task_rename_raw"),
    ("sched_migrate_task", "sched_migrate_task_raw"),
    ("cpu_frequency", "cpu_frequency_raw"),
];

/// The programs among these that write the lane of tasks (`bpf/src/tasks.bpf.c`).
const TASKS: [&str; 4] = [
    "sched_process_fork_raw",
    "sched_process_exec_raw",
    "sched_process_exit_raw",
    "task_rename_raw",
];

/// Says what is mapped in this process at an address.
const IDENTIFY: &str = "unwind_identify";

const SAMPLERS: [&str; 2] = ["sample_direct", "sample_probing"];

/// The lane that the program writes.
pub(super) fn lane_of(program: &str) -> LaneKind {
    match program {
        sampler if SAMPLERS.contains(&sampler) => LaneKind::Sample,
        task if TASKS.contains(&task) => LaneKind::Task,
        _ => LaneKind::Sched,
    }
}

/// Loads the variants that the kernel takes; what it does not take is noted in `missing`. The error
/// is that of a program that unwinds by tables, or without which none does, where the kernel may
/// take others.
///
/// Most of a recording's start is the verifier's work on the programs that walk stacks, which it
/// does for several at once: each of them gets a thread. Where memory is short they take turns:
/// what the verifier needs meanwhile, several megabytes for each, is charged to the recorder's
/// control group.
pub(super) fn load(
    ebpf: &mut Ebpf,
    btf: &Btf,
    options: &RecordOptions,
    memory: &MemoryPlan,
    unwind_tables: bool,
    missing: &mut Vec<String>,
) -> Result<Option<CaptureError>, CaptureError> {
    let turns = memory.is_short().then(|| Mutex::new(()));
    let turns = turns.as_ref();
    let mut programs: Programs<'_> = ebpf.programs_mut().collect();
    let sched = SCHED.map(|names| (names, [names.1, names.2].map(|name| programs.remove(name))));
    let samplers = SAMPLERS.map(|name| programs.remove(name));
    let loaded = thread::scope(|scope| -> Result<_, CaptureError> {
        let sampler = spawned(scope, || {
            let _turn = wait_for_turn(turns);
            load_samplers(samplers, options)
        })?;
        let sched = sched.map(|(names, variants)| {
            spawned(scope, move || {
                let _turn = wait_for_turn(turns);
                load_tracepoint(names, variants, btf)
            })
        });
        let rare = RARE.iter().try_for_each(|(_, name)| load_raw(programs.remove(name), name));
        let identify = match unwind_tables {
            true => load_raw(programs.remove(IDENTIFY), IDENTIFY),
            false => Ok(()),
        };
        let mut refused = Vec::new();
        for thread in sched {
            refused.extend(joined(thread?)?);
        }
        joined(sampler).and(rare)?;
        Ok((refused, identify))
    });
    let (refused, identify) = match loaded {
        Err(error) if unwind_tables && is_refusal(&error) => return Ok(Some(error)),
        loaded => loaded?,
    };
    missing.extend(grouped_by_reason(&refused));
    Ok(identify.err())
}

fn wait_for_turn(turns: Option<&Mutex<()>>) -> Option<MutexGuard<'_, ()>> {
    turns.map(|turns| turns.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Whether the verifier did not take a program: it may take one that walks in another way. Access
/// to memory that it does not allow is "permission denied", too.
fn is_refusal(error: &CaptureError) -> bool {
    match error {
        CaptureError::Program { .. } => true,
        CaptureError::NotPermitted { source, .. } => source.raw_os_error() == Some(libc::EACCES),
        _ => false,
    }
}

/// Loads the program that says what is mapped where.
pub(super) fn load_identify(ebpf: &mut Ebpf) -> Result<(), CaptureError> {
    load_raw(ebpf.program_mut(IDENTIFY), IDENTIFY)
}

/// Programs of an object by name.
type Programs<'a> = HashMap<&'a str, &'a mut Program>;

/// A thread of the scope, for work that the recording cannot begin without; an error where there
/// can be no more threads.
fn spawned<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<thread::ScopedJoinHandle<'scope, T>, CaptureError> {
    let boosted = || {
        let _boost = PriorityBoost::begin();
        work()
    };
    thread::Builder::new().spawn_scoped(scope, boosted).map_err(|error| {
        CaptureError::system("cannot begin a thread that loads kernel programs", error)
    })
}

/// What the thread came to; where it panics, so does this.
fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Loads the fast program of a tracepoint or, where the kernel refuses it, the other: then the
/// tracepoint and why.
fn load_tracepoint<'a>(
    (tracepoint, _, raw_name): (&'a str, &str, &str),
    [fast, raw]: [Option<&mut Program>; 2],
    btf: &Btf,
) -> Result<Option<(&'a str, String)>, CaptureError> {
    let why = match fast {
        None => "it has no bpf_task_pt_regs".to_owned(),
        Some(fast) => {
            match typed::<BtfTracePoint>(Some(fast)).and_then(|fast| fast.load(tracepoint, btf)) {
                Ok(()) => return Ok(None),
                Err(why) => short_reason(&why),
            }
        }
    };
    load_raw(raw, raw_name)?;
    Ok(Some((tracepoint, why)))
}

/// Loads the first of the sampling programs that the kernel takes.
fn load_samplers(
    [direct, probing]: [Option<&mut Program>; 2],
    options: &RecordOptions,
) -> Result<(), CaptureError> {
    if options.sample_rate_hz == 0 || load_sampler(direct).is_ok() {
        return Ok(());
    }
    load_sampler(probing).map_err(|error| load_error(SAMPLERS[1], &error))
}

/// Attaches what was loaded, switches last, so that the first switch finds all
/// else at work.
pub(super) fn attach(ebpf: &mut Ebpf, missing: &mut Vec<String>) -> Result<(), CaptureError> {
    for (tracepoint, program) in RARE {
        if let Err(error) = attach_raw(ebpf, program, tracepoint) {
            missing.push(format!("there is no tracepoint {tracepoint} ({})", short_reason(&error)));
        }
    }
    for (tracepoint, fast, raw) in SCHED.iter().rev() {
        let attached = if is_loaded(ebpf, fast) {
            attach_btf(ebpf, fast)
        } else {
            attach_raw(ebpf, raw, tracepoint)
        };
        attached.map_err(|error| load_error(tracepoint, &error))?;
    }
    Ok(())
}

/// Ends everything that is attached.
pub(super) fn detach(ebpf: &mut Ebpf) {
    for (_, program) in ebpf.programs_mut() {
        // What was not loaded cannot be unloaded; there is nothing to do about it.
        let _ = match program {
            Program::BtfTracePoint(program) => program.unload(),
            Program::RawTracePoint(program) => program.unload(),
            Program::PerfEvent(program) => program.unload(),
            _ => Ok(()),
        };
    }
}

/// The loaded sampling program.
pub(super) fn sampling_program(ebpf: &Ebpf) -> Option<OwnedFd> {
    SAMPLERS
        .iter()
        .find_map(|name| ebpf.program(name)?.fd().ok()?.as_fd().try_clone_to_owned().ok())
}

/// The program that says what is mapped where, and the maps of unwind tables; `None` where the
/// kernel did not take the program, for then it takes none that unwinds by tables.
pub(super) fn unwind_programs(ebpf: &Ebpf) -> Option<io::Result<UnwindPrograms>> {
    let identify = ebpf.program(IDENTIFY)?.fd().ok()?.as_fd();
    Some(with_unwind_maps(ebpf, identify))
}

fn with_unwind_maps(ebpf: &Ebpf, identify: BorrowedFd<'_>) -> io::Result<UnwindPrograms> {
    Ok(UnwindPrograms {
        rows: words_of(ebpf, "unwind_rows")?,
        pages: words_of(ebpf, "unwind_pages")?,
        files: words_of(ebpf, "unwind_files")?,
        words: words_of(ebpf, "unwind_words")?,
        inodes: hash_map(ebpf, "unwind_inodes")?,
        interpreters: InterpreterMaps {
            python: hash_map(ebpf, "python_files")?,
            jvm: hash_map(ebpf, "hotspot_files")?,
        },
        identify: identify.try_clone_to_owned()?,
    })
}

fn words_of(ebpf: &Ebpf, name: &str) -> io::Result<MappedWords> {
    let Some(Map::Array(map)) = ebpf.map(name) else { return Err(no_such_map(name)) };
    let words = map.info().map_err(io::Error::other)?.max_entries() as usize;
    MappedWords::new(map.fd().as_fd(), words)
}

fn hash_map(ebpf: &Ebpf, name: &str) -> io::Result<OwnedFd> {
    match ebpf.map(name) {
        Some(Map::HashMap(map)) => map.fd().as_fd().try_clone_to_owned(),
        _ => Err(no_such_map(name)),
    }
}

fn no_such_map(name: &str) -> io::Error {
    io::Error::other(format!("there is no map {name}"))
}

/// The kernel's counts of all loaded programs, by name.
pub(super) fn counts(ebpf: &Ebpf) -> Vec<(String, ProgramCounts)> {
    ebpf.programs()
        .filter_map(|(name, program)| {
            Some((name.to_owned(), bpf_calls::program_counts(program.fd().ok()?.as_fd()).ok()?))
        })
        .collect()
}

fn is_loaded(ebpf: &Ebpf, name: &str) -> bool {
    ebpf.program(name).is_some_and(|program| program.fd().is_ok())
}

/// A program as its type; the object is ours, so it is there.
fn typed<'a, T>(program: Option<&'a mut Program>) -> Result<&'a mut T, ProgramError>
where
    &'a mut T: TryFrom<&'a mut Program, Error = ProgramError>,
{
    program.ok_or(ProgramError::NotLoaded)?.try_into()
}

fn load_raw(program: Option<&mut Program>, name: &str) -> Result<(), CaptureError> {
    typed::<RawTracePoint>(program)
        .and_then(RawTracePoint::load)
        .map_err(|error| load_error(name, &error))
}

fn load_sampler(program: Option<&mut Program>) -> Result<(), ProgramError> {
    typed::<PerfEvent>(program).and_then(PerfEvent::load)
}

fn attach_btf(ebpf: &mut Ebpf, name: &str) -> Result<(), ProgramError> {
    typed::<BtfTracePoint>(ebpf.program_mut(name))?.attach().map(drop)
}

fn attach_raw(ebpf: &mut Ebpf, name: &str, tracepoint: &str) -> Result<(), ProgramError> {
    typed::<RawTracePoint>(ebpf.program_mut(name))?.attach(tracepoint).map(drop)
}

/// What is not the program's fault.
fn limit_error(program: &str, number: i32) -> Option<CaptureError> {
    let source = io::Error::from_raw_os_error(number);
    match number {
        libc::EPERM | libc::EACCES => {
            Some(CaptureError::NotPermitted { what: format!("loading {program}"), source })
        }
        libc::EMFILE => {
            let what = format!(
                "cannot load {program}, too few files may be open (`ulimit -n 2048` raises the \
                 limit)"
            );
            Some(CaptureError::System { what, source })
        }
        _ => None,
    }
}

/// An error of aya with permission told apart and the verifier's log cut to its end.
pub(super) fn load_error(program: &str, error: &(dyn Error + 'static)) -> CaptureError {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(number) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error)
            && let Some(error) = limit_error(program, number)
        {
            return error;
        }
        cause = error.source();
    }
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().collect();
    let end = lines.len().saturating_sub(8);
    CaptureError::Program { program: program.to_owned(), reason: lines[end..].join("\n") }
}

/// aya's error without the verifier's log, and of the log the line that says why: the last one that
/// is not of its figures.
pub(crate) fn short_reason(error: &(dyn Error + 'static)) -> String {
    short_text(&error.to_string())
}

/// What the refusals of the quicker programs mean; those with one reason in one line.
fn grouped_by_reason(refused: &[(&str, String)]) -> Vec<String> {
    let mut lines: Vec<(Vec<&str>, &str)> = Vec::new();
    for (tracepoint, reason) in refused {
        match lines.iter_mut().find(|(_, said)| said == reason) {
            Some((tracepoints, _)) => tracepoints.push(tracepoint),
            None => lines.push((vec![tracepoint], reason)),
        }
    }
    let lines = lines.into_iter().map(|(tracepoints, reason)| {
        let tracepoints = tracepoints.join(", ");
        format!(
            "{tracepoints}: raw tracepoints and slower stack walks, Linux 5.17 has what the \
             quicker ones need: {reason}"
        )
    });
    lines.collect()
}

fn short_text(text: &str) -> String {
    const FIGURES: [&str; 3] = ["processed ", "verification time ", "stack depth "];
    let (error, log) = text.split_once(" Verifier output: ").unwrap_or((text, ""));
    let mut last_lines = log.lines().rev().filter(|line| !line.trim().is_empty());
    let why = last_lines
        .find(|line| !FIGURES.iter().any(|figure| line.starts_with(figure)))
        .unwrap_or_default();
    let line = error.lines().next().unwrap_or_default();
    format!("{line} {why}").trim().chars().take(160).collect()
}

#[cfg(test)]
mod tests {
    use syscollect_model::LaneKind;

    use super::{
        RARE, SAMPLERS, SCHED, grouped_by_reason, is_refusal, lane_of, load_error, short_text,
    };

    #[test]
    fn every_program_writes_the_lane_of_its_records() {
        assert!(
            SCHED.iter().all(|(_, fast, raw)| lane_of(fast) == LaneKind::Sched
                && lane_of(raw) == LaneKind::Sched)
        );
        assert!(SAMPLERS.iter().all(|sampler| lane_of(sampler) == LaneKind::Sample));
        let of_tasks =
            RARE.iter().filter(|(_, program)| lane_of(program) == LaneKind::Task).count();
        assert_eq!((of_tasks, RARE.len()), (4, 6), "migrations and frequencies are scheduling");
    }

    #[test]
    fn another_way_is_tried_where_the_verifier_refuses_and_not_where_rights_are_missing() {
        assert!(is_refused(libc::E2BIG) && is_refused(libc::EACCES));
        assert!(!is_refused(libc::EPERM) && !is_refused(libc::EMFILE));
    }

    fn is_refused(number: i32) -> bool {
        let error = std::io::Error::from_raw_os_error(number);
        is_refusal(&load_error("sched_switch_raw", &error))
    }

    #[test]
    fn of_the_verifiers_log_only_the_reason_is_kept() {
        let text = "the BPF_PROG_LOAD syscall returned Permission denied (os error 13). Verifier \
                    output: reg type unsupported for arg#0\n0: (79) r2 = *(u64 *)(r2 +0)\n\
                    R2 unbounded memory access\nverification time 3 usec\nstack depth 0+208\n\
                    processed 711 insns (limit 1000000)\n";
        let reason = "the BPF_PROG_LOAD syscall returned Permission denied (os error 13). R2 \
                      unbounded memory access";
        assert_eq!(short_text(text), reason);
        assert_eq!(short_text("the program is not loaded"), "the program is not loaded");
    }

    #[test]
    fn refusals_with_one_reason_are_one_line() {
        let refused =
            [("sched_switch", "no helper"), ("sched_waking", "no helper"), ("other", "no type")];
        let lines =
            grouped_by_reason(&refused.map(|(tracepoint, reason)| (tracepoint, reason.to_owned())));
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].starts_with("sched_switch, sched_waking: ")
                && lines[0].ends_with(": no helper")
        );
    }
}
