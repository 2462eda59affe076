//! The terminal behind programs that end in every way: this test program runs itself on one.

use super::*;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::ptr::null_mut;

/// In which way the started test is to end.
const WAY: &str = "SYSCOLLECT_TEST_END";

/// What was written to a terminal, and how whoever had it ended.
struct OnTerminal {
    text: String,
    status: ExitStatus,
    /// The terminal is in the modes of before.
    is_as_before: bool,
}

fn terminal() -> (File, OwnedFd) {
    let (mut master, mut side) = (-1, -1);
    // SAFETY: the pointers are to numbers of ours, or null.
    let opened = unsafe {
        libc::openpty(&raw mut master, &raw mut side, null_mut(), null_mut(), null_mut())
    };
    assert_eq!(opened, 0, "{}", io::Error::last_os_error());
    // What is started would hold its own terminal open.
    for descriptor in [master, side] {
        // SAFETY: it takes plain numbers.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    // SAFETY: both were opened here, for nobody else.
    unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(side)) }
}

fn flags(side: &OwnedFd) -> [libc::tcflag_t; 4] {
    let mut modes = MaybeUninit::<libc::termios>::uninit();
    // SAFETY: the pointer is to a termios of ours, which the call fills where it succeeds.
    let modes = unsafe {
        assert_eq!(libc::tcgetattr(side.as_raw_fd(), modes.as_mut_ptr()), 0);
        modes.assume_init()
    };
    [modes.c_iflag, modes.c_oflag, modes.c_cflag, modes.c_lflag]
}

/// Runs the test below, to end in that way.
fn ends(way: &str) -> OnTerminal {
    ends_as(Command::new(std::env::current_exe().unwrap()), way)
}

/// The same as a job of a shell that has the terminal, by a script of which it is the arguments.
fn ends_as_job(script: &str, way: &str) -> OnTerminal {
    let mut shell = Command::new("bash");
    shell.args(["-mc", script, "bash"]).arg(std::env::current_exe().unwrap());
    // SAFETY: between fork and exec two system calls are made; nothing is allocated.
    unsafe {
        shell.pre_exec(|| {
            libc::setsid();
            libc::ioctl(0, libc::TIOCSCTTY, 0);
            Ok(())
        });
    }
    ends_as(shell, way)
}

fn ends_as(mut command: Command, way: &str) -> OnTerminal {
    let (mut master, side) = terminal();
    let before = flags(&side);
    command.args(["--exact", "screen::tests::end_in_some_way", "--nocapture", "--test-threads=1"]);
    let end = || Stdio::from(side.try_clone().unwrap());
    command.env(WAY, way).env("RUST_BACKTRACE", "0").stdin(end()).stdout(end()).stderr(end());
    let mut child = command.spawn().unwrap();
    drop(command);
    let reader = std::thread::spawn(move || {
        let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
        // Nobody has the other side any more: that is an error here.
        while let Ok(length @ 1..) = master.read(&mut part) {
            bytes.extend(&part[..length]);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let status = child.wait().unwrap();
    let is_as_before = flags(&side) == before;
    drop(side);
    OnTerminal { text: reader.join().unwrap(), status, is_as_before }
}

/// What is written before the terminal is given back, and behind that.
fn parts(text: &str) -> [&str; 2] {
    let [enter, leave] = [ENTER, LEAVE].map(|bytes| str::from_utf8(bytes).unwrap());
    let (_, taken) = text.split_once(enter).unwrap_or_else(|| panic!("{text:?}"));
    let (before, behind) = taken.split_once(leave).unwrap_or_else(|| panic!("{text:?}"));
    assert!(!behind.contains(leave), "twice: {text:?}");
    [before, behind]
}

#[test]
fn end_in_some_way() {
    let Ok(way) = std::env::var(WAY) else { return };
    if way == "background" {
        return println!("{:#}", Screen::take().unwrap_err());
    }
    let screen = Screen::take().unwrap();
    match way.as_str() {
        "stopped" => {
            // SAFETY: it takes a number.
            unsafe { libc::raise(SIGTSTP) };
            let goes_on = (0..500).find_map(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                screen.take_again().err()
            });
            println!("{:#}", goes_on.expect("it goes on in the background"));
        }
        "panic" => panic!("it failed"),
        "fault" => {
            let nowhere = std::ptr::without_provenance_mut::<u8>(64);
            // SAFETY: nothing is there, which is what this is for: the process ends.
            unsafe { nowhere.write_volatile(1) };
        }
        "overflow" => assert_ne!(overflow(1), 0),
        "forked" => {
            // SAFETY: the child calls what is async-signal-safe.
            let child = unsafe { libc::fork() };
            if child == 0 {
                give_back();
                // SAFETY: as above.
                unsafe { libc::raise(libc::SIGFPE) };
            }
            let mut status = 0;
            // SAFETY: the status outlives the call.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            print!("still there, {}", libc::WTERMSIG(status) == libc::SIGFPE);
            io::stdout().flush().unwrap();
        }
        signal => {
            // SAFETY: it takes a number.
            unsafe { libc::raise(signal.parse().unwrap()) };
        }
    }
}

#[expect(unconditional_recursion, reason = "its stack is to overflow")]
fn overflow(depth: u64) -> u64 {
    let room = std::hint::black_box([depth; 512]);
    overflow(depth + 1) + room[depth as usize % 512]
}

#[test]
fn a_panic_gives_the_terminal_back_and_then_says_what_it_says() {
    let ended = ends("panic");
    assert_eq!(ended.status.code(), Some(101), "{:?}", ended.text);
    assert!(ended.is_as_before);
    let [before, behind] = parts(&ended.text);
    assert!(behind.contains("it failed") && !before.contains("it failed"), "{:?}", ended.text);
}

#[test]
fn signals_of_a_crash_give_the_terminal_back_and_end_the_program() {
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT] {
        let ended = ends(&signal.to_string());
        assert_eq!(ended.status.signal(), Some(signal), "{:?}", ended.text);
        assert!(ended.is_as_before, "{signal}");
        parts(&ended.text);
    }
    let ended = ends("fault");
    assert_eq!(ended.status.signal(), Some(libc::SIGSEGV), "{:?}", ended.text);
    assert!(ended.is_as_before);
    parts(&ended.text);
}

#[test]
fn a_stack_that_overflows_gives_the_terminal_back_and_then_rust_says_so() {
    let ended = ends("overflow");
    assert_eq!(ended.status.signal(), Some(libc::SIGABRT), "{:?}", ended.text);
    assert!(ended.is_as_before);
    let [before, behind] = parts(&ended.text);
    let says = "has overflowed its stack";
    assert!(behind.contains(says) && !before.contains(says), "{:?}", ended.text);
}

#[test]
fn a_copy_of_the_process_leaves_the_terminal_as_it_is() {
    let ended = ends("forked");
    assert_eq!(ended.status.code(), Some(0), "{:?}", ended.text);
    assert!(ended.is_as_before);
    assert!(parts(&ended.text)[0].contains("still there, true"), "{:?}", ended.text);
}

#[test]
fn in_the_background_of_a_terminal_it_is_not_taken_and_nothing_stops() {
    let ended = ends_as_job(r#""$@" & wait $!"#, "background");
    assert_eq!(ended.status.code(), Some(0), "{:?}", ended.text);
    assert!(ended.is_as_before);
    assert!(ended.text.contains("in the background of its terminal"), "{:?}", ended.text);
    assert!(!ended.text.contains(str::from_utf8(ENTER).unwrap()), "{:?}", ended.text);
}

#[test]
fn who_was_stopped_and_goes_on_in_the_background_does_not_take_it_again() {
    let ended = ends_as_job(r#""$@"; bg %1; wait %1"#, "stopped");
    assert_eq!(ended.status.code(), Some(0), "{:?}", ended.text);
    assert!(ended.is_as_before);
    assert!(parts(&ended.text)[1].contains("in the background of its terminal"));
}
