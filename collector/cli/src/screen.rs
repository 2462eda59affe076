//! A terminal that is taken as a whole, and given back whatever ends the program: in order, by an
//! error, by a panic, or by a signal, a crash among them. One that is stopped gives it back where
//! the signal can be handled (SIGTSTP), and takes it again when it goes on.
//!
//! Giving it back is few system calls, so that a signal handler can do it, too.

mod crash;
#[cfg(test)]
mod tests;

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGABRT, SIGCONT, SIGQUIT, SIGTSTP};
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

/// The other screen, with no cursor; and back, with what may have been changed besides.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";

/// How the terminal was; null before it was ever taken.
static MODES: AtomicPtr<libc::termios> = AtomicPtr::new(std::ptr::null_mut());
/// The process that has taken it: a copy of that process, made by fork, has not. 0 is nobody.
static TAKEN_BY: AtomicI32 = AtomicI32::new(0);

/// The program was stopped, and gave the terminal back before.
static IS_SUSPENDED: AtomicBool = AtomicBool::new(false);
/// It goes on.
static IS_CONTINUED: AtomicBool = AtomicBool::new(false);

/// The terminal, taken as a whole until this is dropped: keys arrive one by one and unseen, Ctrl-C
/// among them, and what is written lies on a screen of its own.
#[derive(Debug)]
pub(crate) struct Screen(());

impl Screen {
    /// Takes it.
    ///
    /// # Errors
    ///
    /// Standard input or output is no terminal, or this program runs in its background.
    pub(crate) fn take() -> Result<Self> {
        check_foreground()?;
        leave_stopping_to_us();
        let modes = modes().context("cannot read keys: standard input is no terminal")?;
        // It is kept for good: a signal may look at any time.
        let before = MODES.swap(Box::into_raw(Box::new(modes)), Ordering::AcqRel);
        debug_assert!(before.is_null(), "it is taken once");
        give_back_at_sudden_ends()?;
        let screen = Self(());
        enter(&modes)?;
        Ok(screen)
    }
}

/// Refuses to run in the background of the terminal, where whoever takes it is stopped, and again
/// each time that it goes on: a signal that is to end it would end nothing.
///
/// # Errors
///
/// The terminal is another job's, in words.
pub(crate) fn check_foreground() -> Result<()> {
    // SAFETY: both take plain numbers or nothing.
    let (foreground, own) = unsafe { (libc::tcgetpgrp(libc::STDIN_FILENO), libc::getpgrp()) };
    // A terminal that is not this session's has no such group, and stops nobody.
    if foreground > 0 && foreground != own {
        bail!(
            "it runs in the background of its terminal, which belongs to another job: start it in \
             the foreground (`timeout` does with --foreground)"
        );
    }
    Ok(())
}

/// Where the terminal becomes another job's between two looks, reading keys and setting modes fail
/// or go on, and do not stop this program.
fn leave_stopping_to_us() {
    // SAFETY: nothing else handles these signals.
    unsafe {
        libc::signal(libc::SIGTTOU, libc::SIG_IGN);
        libc::signal(libc::SIGTTIN, libc::SIG_IGN);
    }
}

fn enter(modes: &libc::termios) -> Result<()> {
    let raw = raw(modes);
    TAKEN_BY.store(own_id(), Ordering::Release);
    // SAFETY: `raw` is initialised and outlives the call.
    if unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const raw) } != 0 {
        return Err(io::Error::last_os_error()).context("cannot read single keys");
    }
    let mut out = io::stdout();
    out.write_all(ENTER).and_then(|()| out.flush()).context("cannot write to the terminal")
}

impl Screen {
    /// Whether it still is: a panic of any thread gives it back.
    pub(crate) fn is_taken(&self) -> bool {
        TAKEN_BY.load(Ordering::Acquire) != 0 || IS_SUSPENDED.load(Ordering::Acquire)
    }

    /// Stops this program, and those that were started with it as one job, as Ctrl-Z does where a
    /// terminal looks at keys. It stays as it is, and `false` is said, where no shell waits that
    /// could let it go on: this is the first program of its session.
    pub(crate) fn suspend(&self) -> bool {
        // SAFETY: both take plain numbers, and 0 means the calling process, and its group.
        unsafe { libc::getsid(0) != libc::getpid() && libc::kill(0, SIGTSTP) == 0 }
    }

    /// Takes it again where the program was stopped and goes on: whoever had it meanwhile may have
    /// changed it. Whether that was so: then everything is to be drawn anew.
    ///
    /// # Errors
    ///
    /// The terminal takes nothing, or the program goes on in its background.
    pub(crate) fn take_again(&self) -> Result<bool> {
        if !IS_CONTINUED.swap(false, Ordering::AcqRel) {
            return Ok(false);
        }
        check_foreground()?;
        let modes = MODES.load(Ordering::Acquire);
        // SAFETY: the modes were set before the terminal was taken, and are never freed.
        enter(unsafe { &*modes })?;
        IS_SUSPENDED.store(false, Ordering::Release);
        Ok(true)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back, if this process has taken it. Async-signal-safe.
pub(crate) fn give_back() {
    let taken = TAKEN_BY.compare_exchange(own_id(), 0, Ordering::AcqRel, Ordering::Acquire);
    if taken.is_err() {
        return;
    }
    let modes = MODES.load(Ordering::Acquire);
    // SAFETY: tcsetattr and write are async-signal-safe. The modes are never freed, and were set
    // before the terminal was taken.
    unsafe {
        libc::write(libc::STDOUT_FILENO, LEAVE.as_ptr().cast(), LEAVE.len());
        libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, modes);
    }
}

/// Async-signal-safe.
fn own_id() -> libc::pid_t {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::getpid() }
}

fn modes() -> io::Result<libc::termios> {
    let mut modes = MaybeUninit::uninit();
    // SAFETY: the pointer is to a termios of ours, which the call fills where it succeeds.
    unsafe {
        match libc::tcgetattr(libc::STDIN_FILENO, modes.as_mut_ptr()) {
            0 => Ok(modes.assume_init()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn raw(modes: &libc::termios) -> libc::termios {
    let mut raw = *modes;
    // SAFETY: the pointer is to a termios of ours.
    unsafe { libc::cfmakeraw(&raw mut raw) };
    raw
}

/// A panic says what it says on the screen of before; signals that end the program where it stands
/// give the terminal back first.
fn give_back_at_sudden_ends() -> Result<()> {
    static ONCE: Once = Once::new();
    let mut result = Ok(());
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
        for signal in [SIGQUIT, SIGABRT] {
            let end = move || {
                give_back();
                // What the signal does without us; it is async-signal-safe.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            };
            // SAFETY: the handler makes async-signal-safe calls only, and does not panic.
            let registered = unsafe { signal_hook::low_level::register(signal, end) };
            if let Err(error) = registered {
                result = Err(error).context("cannot watch for signals");
            }
        }
        let stop = || {
            IS_SUSPENDED.store(true, Ordering::Release);
            give_back();
            let _ = signal_hook::low_level::emulate_default_handler(SIGTSTP);
        };
        let go_on = || IS_CONTINUED.store(true, Ordering::Release);
        // SAFETY: the handlers make async-signal-safe calls only, and do not panic.
        let registered = unsafe {
            signal_hook::low_level::register(SIGTSTP, stop)
                .and_then(|_| signal_hook::low_level::register(SIGCONT, go_on))
        };
        if let Err(error) = registered.and_then(|_| crash::handle()) {
            result = Err(error).context("cannot watch for signals");
        }
    });
    result
}
