//! `syscollect-load NAME ARGS`: programs whose behaviour is known.
//!
//! **Duties.** Each load does a counted amount of work and prints, as lines of
//! JSON on standard output, what really happened, by means that have nothing
//! to do with tracing: TSC brackets, `/proc/PID/status`, `wait4`, the thread's
//! CPU clock. The privileged tests and the benchmark compare recordings with it.
//!
//! **Non-goals.** No comparison here, and nothing that knows syscollect but the marks of
//! `marks`. It is a program of its own because it is built with frame pointers.

mod alone;
mod bracket;
mod callers;
mod crashes;
mod database;
mod descriptors;
mod event_loops;
mod executions;
mod fake_jvm;
mod fences;
mod frames;
mod fuse;
mod gpu;
mod hang;
mod hits;
mod hostile;
mod hostile_claims;
mod hostile_code;
mod hostile_files;
mod hostile_mappings;
mod hostile_mount;
mod hostile_paths;
mod hostile_tasks;
mod instrumented;
mod jit;
mod large_frame;
mod leaderless;
mod leaves;
mod library;
mod new_stacks;
mod ping_pong;
mod probed;
mod renames;
mod shares;
mod socket_flood;
mod stacks;
mod stall;
mod system;
mod timers;
mod trigger_storm;
mod unwound;
mod usdt;
mod visiting;
mod waits;
mod wrap;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};

const USAGE: &str = "usage: syscollect-load bracket COUNT CPU... | ping-pong ROUNDS [CPU [RATE]] | \
                     callers SECONDS | timers|timers-in-kernel|send ROUNDS CPU | \
                     stacks THREADS UNITS | ordered COUNT CPU... | marks THREADS COUNT | \
                     database ROUNDS | \
                     alone memfd|files THREADS COUNT | hostile-files FOLDER SECONDS | serve FOLDER \
                     | map-served FOLDER | map-often FILE TIMES | \
                     executions RATE MAPPINGS SECONDS | mapped-code MAPPINGS | \
                     map-by-many FILE PROCESSES | hold-mappings PROCESSES | serve-code FOLDER \
                     SECONDS | use-cpu SECONDS | fences COUNT | hang THREADS | leaderless | \
                     event-loops | crash HOW | claim-crashes VICTIM SECONDS | \
                     numbered FILE SECONDS | silent SECONDS | gpu SECONDS | \
                     renames SECONDS | shares SECONDS | waits SECONDS | \
                     jit FOLDER ROUNDS | \
                     fake-jvm silent|deaf|endless|fifo|link FOLDER SECONDS | \
                     new-stacks PROCESSES SECONDS | same-stack SECONDS | stall WHAT SIZE NAME | \
                     trigger-storm RATE SECONDS | flood-socket SOCKET WHAT SECONDS | \
                     wrap LOG CMD ARGS... | from-memory LOAD ARGS... | \
                     unwound SECONDS | large-frame TIMES | probed CALLS | hits-long|hits-short SECONDS | leaves SECONDS | \
                     visiting FOLDER SECONDS | hostile \
                     mappings|memory|discovery|flood|texts|announcements|announced-files|looks \
                     SECONDS | hostile-code tables|interpreters|mapped|probed|rights|debug|deleted \
                     FOLDER SECONDS | map-long-paths FOLDER SECONDS | start-programs FOLDER COUNT \
                     | hostile-tasks threads|timers SECONDS | hostile-claims VICTIM | \
                     serve-descriptors SOCKET FILE SECONDS | send-arenas SOCKET PID | \
                     as UID LOAD ARGS...";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("syscollect-load: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<ExitCode> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["bracket", count, cpus @ ..] if !cpus.is_empty() => {
            bracket::run(number(count)?, &numbers(cpus)?)?;
        }
        ["ping-pong", rounds] => ping_pong::run(number(rounds)?, None, None)?,
        ["ping-pong", rounds, cpu] => {
            ping_pong::run(number(rounds)?, Some(number(cpu)? as usize), None)?;
        }
        ["ping-pong", rounds, cpu, rate] => {
            ping_pong::run(number(rounds)?, Some(number(cpu)? as usize), Some(number(rate)?))?;
        }
        ["shares", seconds] => shares::run(number(seconds)?)?,
        ["waits", seconds] => waits::run(number(seconds)?)?,
        ["callers", seconds] => callers::run(number(seconds)?)?,
        ["timers", rounds, cpu] => timers::run(number(rounds)?, number(cpu)? as usize)?,
        ["timers-in-kernel", rounds, cpu] => {
            timers::run_in_kernel(number(rounds)?, number(cpu)? as usize)?;
        }
        ["send", rounds, cpu] => timers::send(number(rounds)?, number(cpu)? as usize)?,
        ["stacks", threads, units] => stacks::run(number(threads)?, number(units)?)?,
        ["ordered", count, cpus @ ..] if !cpus.is_empty() => {
            instrumented::ordered(number(count)?, &numbers(cpus)?)?;
        }
        ["everything", seconds] => instrumented::everything(number(seconds)?)?,
        ["marks", threads, count] => instrumented::many(number(threads)?, number(count)?)?,
        ["alone", refused, threads, count] => {
            alone::run(refused, number(threads)?, number(count)?)?;
        }
        ["hostile-files", folder, seconds] => hostile_files::run(folder, number(seconds)?)?,
        ["map-served", folder] => hostile_mount::map(folder)?,
        ["executions", rate, mappings, seconds] => {
            executions::run(number(rate)?, number(mappings)?, number(seconds)?)?;
        }
        ["mapped-code", mappings] => executions::map_code(number(mappings)?)?,
        ["map-often", file, times] => hostile_mount::map_often(file, number(times)?)?,
        ["map-by-many", file, processes] => {
            hostile_mappings::map_by_many(file, number(processes)?)?;
        }
        ["hold-mappings", processes] => hostile_mappings::hold(number(processes)?)?,
        ["serve-code", folder, seconds] => hostile_mount::serve(folder, number(seconds)?)?,
        ["serve", folder] => hostile_files::serve(folder)?,
        ["use-cpu", seconds] => hostile_files::use_cpu(number(seconds)?),
        ["database", rounds] => database::run(number(rounds)?)?,
        ["hang", threads] => hang::run(number(threads)?)?,
        ["event-loops"] => event_loops::run()?,
        ["crash", how] => crashes::run(how)?,
        ["claim-crashes", victim, seconds] => {
            crashes::claim(number(victim)? as u32, Duration::from_secs(number(seconds)?))?;
        }
        ["leaderless"] => leaderless::run()?,
        ["fake-jvm", part, folder, seconds] => fake_jvm::run(part, folder, number(seconds)?)?,
        ["jit", folder, rounds] => jit::run(folder, number(rounds)?)?,
        ["fences", count] => fences::run(number(count)?)?,
        ["gpu", seconds] => gpu::run(number(seconds)?)?,
        ["silent", seconds] => instrumented::silent(number(seconds)?)?,
        ["numbered", file, seconds] => instrumented::numbered(file, number(seconds)?)?,
        ["hostile-code", attack, folder, seconds] => {
            hostile_code::run(attack, folder, number(seconds)?)?;
        }
        ["map-long-paths", folder, seconds] => hostile_paths::map(folder, number(seconds)?)?,
        ["start-programs", folder, programs] => {
            hostile_paths::start_programs(folder, number(programs)?)?;
        }
        ["hostile-tasks", attack, seconds] => hostile_tasks::run(attack, number(seconds)?)?,
        ["hostile-claims", victim] => hostile_claims::run(number(victim)? as u32)?,
        ["serve-descriptors", socket, file, seconds] => {
            descriptors::serve(socket, file, number(seconds)?)?;
        }
        ["send-arenas", socket, service] => {
            descriptors::send_arenas(socket, number(service)? as u32)?;
        }
        ["hostile", attack, seconds] => hostile::run(attack, number(seconds)?)?,
        ["as", user, ..] => {
            system::become_user(number(user)? as libc::uid_t)?;
            return run(&arguments[2..]);
        }
        ["from-memory", ..] => {
            system::run_from_memory(&arguments[1..])?;
        }
        ["visiting", folder, seconds] => visiting::run(folder, number(seconds)?)?,
        ["new-stacks", processes, seconds] => {
            new_stacks::run(number(processes)?, number(seconds)?)?;
        }
        ["stall", what, size, name] => stall::run(what, number(size)?, name)?,
        ["flood-socket", socket, what, seconds] => {
            socket_flood::run(socket, what, number(seconds)?)?;
        }
        ["trigger-storm", rate, seconds] => {
            trigger_storm::run(number(rate)?, number(seconds)?)?;
        }
        ["same-stack", seconds] => new_stacks::run_same(number(seconds)?)?,
        ["hits-long", seconds] => hits::run_long(number(seconds)?)?,
        ["hits-short", seconds] => hits::run_short(number(seconds)?)?,
        ["probed", calls] => probed::run(number(calls)?)?,
        ["unwound", seconds] => unwound::run(number(seconds)?)?,
        ["large-frame", times] => large_frame::run(number(times)?)?,
        ["leaves", seconds] => leaves::run(number(seconds)?)?,
        ["renames", seconds] => renames::run(number(seconds)?)?,
        ["wrap", log, program, rest @ ..] => return wrap::run(log, program, rest),
        _ => bail!("{USAGE}"),
    }
    Ok(ExitCode::SUCCESS)
}

fn number(word: &str) -> Result<u64> {
    word.parse().with_context(|| format!("`{word}` is not a number; {USAGE}"))
}

fn numbers(words: &[&str]) -> Result<Vec<usize>> {
    words.iter().map(|word| Ok(number(word)? as usize)).collect()
}
