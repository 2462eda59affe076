//! Signals of a program that crashes: the terminal is given back, and then they do what they did
//! before.
//!
//! Rust's own handler of SIGSEGV and SIGBUS, which says that a stack overflowed, is called after
//! this one, so that what it says stands on the screen of before. The stacks on which handlers run
//! are those that Rust's standard library gives to each of its threads for that handler.

use libc::{c_int, c_void, siginfo_t};
use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

const SIGNALS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];

/// What each of [`SIGNALS`] did before.
struct PreviousActions([UnsafeCell<MaybeUninit<libc::sigaction>>; SIGNALS.len()]);
// SAFETY: an element is written by `handle` alone, which is called once, before the handler is set
// that reads it.
unsafe impl Sync for PreviousActions {}

static PREVIOUS: PreviousActions =
    PreviousActions([const { UnsafeCell::new(MaybeUninit::uninit()) }; SIGNALS.len()]);

/// Handles them from now on. To be called once.
pub(super) fn handle() -> io::Result<()> {
    for (signal, previous) in SIGNALS.into_iter().zip(&PREVIOUS.0) {
        let previous = previous.get().cast::<libc::sigaction>();
        // SAFETY: sigaction is plain numbers, for which zero is valid; `previous` has room for one,
        // and nobody reads it yet; the handler has the type that SA_SIGINFO asks for.
        let failed = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_crash as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(signal, std::ptr::null(), previous) != 0
                || libc::sigaction(signal, &raw const action, null_mut()) != 0
        };
        if failed {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The handler: async-signal-safe as far as the one before is.
extern "C" fn on_crash(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    super::give_back();
    let Some(index) = SIGNALS.iter().position(|known| *known == signal) else { return };
    // SAFETY: it was filled before this handler was set.
    let previous = unsafe { &*PREVIOUS.0[index].get().cast::<libc::sigaction>() };
    // SAFETY: the kernel gives a valid one to handlers with SA_SIGINFO.
    let is_fault = unsafe { (*info).si_code > 0 };
    let has_handler = !matches!(previous.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
    // SAFETY: a handler of before is called with what it was set for: its flags say its type. Else
    // the default is set, and all zeroes is that; what failed then fails again when this returns,
    // and what was only sent is sent again, and comes when this returns.
    unsafe {
        if is_fault && has_handler && previous.sa_flags & libc::SA_SIGINFO != 0 {
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                std::mem::transmute(previous.sa_sigaction);
            // Rust's aborts. The terminal is back by now, and where registers are wide (AVX-512) a
            // second signal's frame of 3 kB has no room on the 8 kB that handlers have: it would
            // end by SIGSEGV, and not as Rust says.
            libc::signal(libc::SIGABRT, libc::SIG_DFL);
            // What it leaves to the default it sets that for.
            return handler(signal, info, context);
        }
        let default: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &raw const default, null_mut());
        if !is_fault {
            libc::raise(signal);
        }
    }
}
