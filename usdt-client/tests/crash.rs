//! Programs that crash or are killed, seen by a collector that had taken their ring.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use syscollect_usdt_client::testing::{self, Drain};
use syscollect_usdt_client::{crash, zone};

/// The instrumented program: this test program again, which runs only the "test" of that name.
struct Program {
    child: Child,
    drain: Drain,
    ring: usize,
}

impl Program {
    /// Starts it and takes its arena as a collector does.
    fn start(ending: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_instrumented_program", "--nocapture", "--test-threads=1"])
            .env("SYSCOLLECT_TEST_ENDING", ending)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once("READY ")?.1.to_owned()));
        let numbers: Vec<i32> =
            line.expect("it says READY").split(' ').map(|word| word.parse().unwrap()).collect();
        let path = format!("/proc/{}/fd/{}", child.id(), numbers[0]);
        let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
        let drain = Drain::of(file.as_raw_fd()).expect("its arena");
        let ring = common::ring_of(&drain, numbers[1] as u32).expect("its ring");
        Self { child, drain, ring }
    }

    /// Lets it come to its end, and tells what its ring holds then.
    fn end(mut self) -> (ExitStatus, Vec<String>) {
        self.child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let status = self.child.wait().unwrap();
        let items = self.drain.take(self.ring);
        (status, common::shown(&items, self.drain.log()))
    }
}

#[test]
fn the_instrumented_program() {
    let Ok(ending) = std::env::var("SYSCOLLECT_TEST_ENDING") else { return };
    testing::raise();
    if ending == "ignored" {
        // SAFETY: plain numbers.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_IGN) };
    }
    crash::install();
    match ending.strip_prefix("on a thread: ").or(ending.strip_prefix("on a bare thread: ")) {
        Some(what) if ending.contains("bare") => on_bare_thread(what.to_owned()),
        Some(what) => {
            let what = what.to_owned();
            std::thread::spawn(move || end_by(&what)).join().unwrap();
        }
        None => end_by(&ending),
    }
}

/// Does so on a thread that has no stack for handlers, as C's have none.
fn on_bare_thread(mut ending: String) {
    extern "C" fn run(ending: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: it is what `on_bare_thread` gives, which waits for this.
        end_by(unsafe { &*ending.cast::<String>() });
        std::ptr::null_mut()
    }
    // SAFETY: the thread is waited for, so what it is given lives.
    unsafe {
        let mut thread = 0;
        let given = (&raw mut ending).cast();
        assert_eq!(libc::pthread_create(&raw mut thread, std::ptr::null(), run, given), 0);
        libc::pthread_join(thread, std::ptr::null_mut());
    }
}

/// Says that it is ready, and comes to its end when it is told to.
fn end_by(ending: &str) {
    let _zone = zone!("work");
    println!("READY {} {}", testing::arena_descriptor().unwrap(), common::thread_id());
    std::io::stdin().read_exact(&mut [0; 3]).unwrap();
    let _inner = zone!("last step");
    match ending {
        "overflow" => {
            std::hint::black_box(overflow(1));
        }
        "panic in a panic" => {
            let _panics = PanicsInPanics;
            panic!("the first");
        }
        // SAFETY: a breakpoint, at which nobody waits.
        "breakpoint" => unsafe { std::arch::asm!("int3") },
        "segv" | "ignored" => {
            // SAFETY: none: the crash is what is wanted. Nothing is mapped there.
            unsafe { (0x1230 as *mut u64).write_volatile(1) };
        }
        "abort" => std::process::abort(),
        "kill" => {
            // SAFETY: ends this process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
        _ => std::process::exit(3),
    }
}

struct PanicsInPanics;

impl Drop for PanicsInPanics {
    fn drop(&mut self) {
        panic!("the second");
    }
}

#[inline(never)]
fn overflow(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 512]);
    if depth == 0 { 0 } else { overflow(depth + 1) + frame[1] }
}

const BEFORE: [&str; 3] = ["attached 0", "begin work at 0", "begin last step at 1"];

#[test]
fn a_crash_leaves_its_signal_and_stack_and_the_program_dies_of_it_as_it_would_have() {
    let (status, lines) = Program::start("segv").end();
    assert_eq!(status.signal(), Some(libc::SIGSEGV));
    assert_eq!(lines[..3], BEFORE);
    assert_eq!(lines[3], "crash 11 address 0x1230");
    assert_eq!(lines[4], "Stack");
}

#[test]
fn an_abort_is_a_crash_too() {
    let (status, lines) = Program::start("abort").end();
    assert_eq!(status.signal(), Some(libc::SIGABRT));
    assert_eq!(lines[..3], BEFORE);
    assert_eq!(lines[3], "crash 6 address 0x0");
}

#[test]
fn the_overflow_of_a_threads_stack_is_a_crash_whoever_made_the_thread() {
    // The handler of Rust's library finds the overflow and aborts; of other threads it knows
    // nothing.
    let threads =
        [("on a thread: overflow", libc::SIGABRT), ("on a bare thread: overflow", libc::SIGSEGV)];
    for (ending, signal) in threads {
        let (status, lines) = Program::start(ending).end();
        assert_eq!(status.signal(), Some(signal), "{ending}");
        assert_eq!(lines[..3], BEFORE);
        assert!(lines[3].starts_with("crash 11 "), "{ending}: {lines:?}");
        assert_eq!(lines[4], "Stack");
    }
}

#[test]
fn a_panic_in_a_panic_on_a_thread_is_a_crash() {
    let (status, lines) = Program::start("on a thread: panic in a panic").end();
    assert_eq!(status.signal(), Some(libc::SIGABRT));
    assert!(lines.contains(&"crash 6 address 0x0".to_owned()), "{lines:?}");
}

#[test]
fn what_does_not_strike_again_ends_the_program_all_the_same() {
    for (ending, signal) in [("breakpoint", libc::SIGTRAP), ("ignored", libc::SIGSEGV)] {
        let (status, lines) = Program::start(ending).end();
        assert_eq!(status.signal(), Some(signal), "{ending}");
        assert!(lines[3].starts_with(&format!("crash {signal} ")), "{ending}: {lines:?}");
    }
}

#[test]
fn a_program_that_is_killed_loses_nothing_that_it_had_written() {
    let (status, lines) = Program::start("kill").end();
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    assert_eq!(lines, BEFORE);
}

#[test]
fn a_program_that_exits_without_a_warning_loses_nothing_either() {
    let (status, lines) = Program::start("exit").end();
    assert_eq!(status.code(), Some(3));
    assert_eq!(lines, BEFORE);
}
