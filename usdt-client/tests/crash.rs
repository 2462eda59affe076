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
    crash::install();
    let _zone = zone!("work");
    println!("READY {} {}", testing::arena_descriptor().unwrap(), common::thread_id());
    std::io::stdin().read_exact(&mut [0; 3]).unwrap();
    let _inner = zone!("last step");
    match ending.as_str() {
        "segv" => {
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
