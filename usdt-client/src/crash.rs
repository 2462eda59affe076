//! What is left of a crash: signal, thread, time and stack.
//!
//! Opt-in: [`install`] sets handlers for the signals by which programs crash.
//! A handler writes to the thread's ring, which outlives the process, and then
//! hands over to whoever handled the signal before, or to the default.
//!
//! The overflow of a thread's stack leaves no room for a handler: a thread that
//! has no other stack for handlers gets one when it gets its ring.

use crate::arch;
use crate::arch::registers::Registers;
use crate::emit;
use crate::handler_stack;
use crate::stack::{MAX_ADDRESSES, Stack};
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use syscollect_zone_protocol::Event;

/// The signals by which programs crash.
const SIGNALS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP];

/// Who handled each of [`SIGNALS`] before: written once, before the handler is set.
struct Previous([core::cell::UnsafeCell<MaybeUninit<libc::sigaction>>; SIGNALS.len()]);
// SAFETY: written by `install` alone, which runs once, before any handler reads it.
unsafe impl Sync for Previous {}

static PREVIOUS: Previous =
    Previous([const { core::cell::UnsafeCell::new(MaybeUninit::uninit()) }; SIGNALS.len()]);
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Has crashes recorded from now on. Call it after other handlers of crashes
/// are set: those set before are called afterwards, those set later come first.
pub fn install() {
    if cfg!(feature = "off") || INSTALLED.swap(true, Ordering::AcqRel) {
        return;
    }
    for (signal, previous) in SIGNALS.into_iter().zip(&PREVIOUS.0) {
        // SAFETY: `sigaction` is plain numbers, for which zero is valid; the handler has the type
        // that SA_SIGINFO asks for; `previous` is only written here.
        unsafe {
            let previous = previous.get().cast::<libc::sigaction>();
            libc::sigaction(signal, core::ptr::null(), previous);
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = on_crash as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            // Another handler would begin where this one's frames are: the kernel does not know
            // that these go on on a stack of their own.
            libc::sigfillset(&raw mut action.sa_mask);
            libc::sigaction(signal, &raw const action, core::ptr::null_mut());
        }
    }
    handler_stack::provide_from_now_on();
    crate::thread::provide_handler_stack();
}

/// Bytes of the stack on which a crash is written: a handler's own may have room for little more
/// than what the kernel keeps there.
const OWN_STACK: usize = 64 << 10;

/// That stack. Memory is what was touched of it.
#[repr(align(4096))]
struct OwnStack(core::cell::UnsafeCell<[u8; OWN_STACK]>);
// SAFETY: the thread that `WRITER` names has it.
unsafe impl Sync for OwnStack {}

static STACK: OwnStack = OwnStack(core::cell::UnsafeCell::new([0; OWN_STACK]));
/// The thread that writes its crash; 0: none does.
static WRITER: AtomicI32 = AtomicI32::new(0);

/// Threads that crash together write one after the other, and a full ring is emptied by a recorder
/// that lives: for that a crash waits so often, a millisecond each time, and then goes on without.
const PATIENCE: u32 = 200;

/// Waits until something is so, with patience: a crash must not hang.
fn wait_until(mut is_so: impl FnMut() -> bool) -> bool {
    let moment = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    for _ in 0..PATIENCE {
        if is_so() {
            return true;
        }
        // SAFETY: reads the time only.
        unsafe { libc::nanosleep(&raw const moment, core::ptr::null_mut()) };
    }
    is_so()
}

/// Whether the calling thread may write its crash now. One that crashes while it writes may not.
fn takes_turn() -> bool {
    // SAFETY: takes nothing and cannot fail.
    let own = unsafe { libc::gettid() };
    let mut writer = 0;
    wait_until(|| {
        let exchanged = WRITER.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed);
        writer = exchanged.err().unwrap_or(0);
        writer == 0 || writer == own
    }) && writer == 0
}

/// What the kernel hands to a handler of signals.
struct SignalArguments {
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
}

unsafe extern "C" fn on_crash(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    if crate::enabled() && takes_turn() {
        let mut arguments = SignalArguments { signal, info, context };
        let top = STACK.0.get().cast::<u8>().wrapping_add(OWN_STACK);
        // SAFETY: the stack was nobody's, and `record` gets what it expects.
        unsafe { arch::call_on_stack(top, record, (&raw mut arguments).cast()) };
        WRITER.store(0, Ordering::Release);
    }
    // SAFETY: as above.
    unsafe { hand_over(signal, info, context) };
}

/// Writes the crash; the stack begins where the signal struck, so the handler's frames are not in
/// it.
#[cold]
unsafe extern "C" fn record(arguments: *mut c_void) {
    // SAFETY: `on_crash` gives what the kernel gave it: with SA_SIGINFO both are there.
    let (signal, info, context) = unsafe {
        let arguments = &*arguments.cast::<SignalArguments>();
        (arguments.signal, &*arguments.info, &*arguments.context.cast::<libc::ucontext_t>())
    };
    let registers = Registers::interrupted(context);
    let mut addresses = [0; MAX_ADDRESSES];
    let stack = Stack::of_callers(&registers, &mut addresses);
    let bytes = 32 + emit::stack_bytes(stack.addresses().len());
    // What led to a crash may have filled the ring.
    wait_until(|| emit::has_room(bytes));
    let Ok(mut group) = emit::group(bytes) else { return };
    // SAFETY: for signals of faults the address is there; for others it is some number.
    let address = unsafe { info.si_addr() } as u64;
    let address = if strikes_again(info) { address } else { 0 };
    let (signal, code) = (signal as u32, info.si_code as u32);
    let instruction = registers.instruction();
    group.event(Event::Crash { signal, code, address, instruction });
    group.stack(stack.addresses(), stack.ending());
}

/// Whether the kernel sent it because an instruction failed, which will fail again. A breakpoint
/// lies behind the program when its signal comes, and what memory found wrong by itself is past.
fn strikes_again(info: &libc::siginfo_t) -> bool {
    let is_past = info.si_signo == libc::SIGBUS && info.si_code == libc::BUS_MCEERR_AO;
    is_forced(info) && info.si_signo != libc::SIGTRAP && !is_past
}

/// Whether the kernel sent it for what the thread did.
fn is_forced(info: &libc::siginfo_t) -> bool {
    info.si_code > 0 && info.si_signo != libc::SIGABRT
}

/// Calls the handler that was there before; where there was none, lets the signal do what it does
/// by default.
unsafe fn hand_over(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(index) = SIGNALS.iter().position(|known| *known == signal) else { return };
    // SAFETY: written before this handler was set.
    let previous = unsafe { &*PREVIOUS.0[index].get().cast::<libc::sigaction>() };
    match previous.sa_sigaction {
        // SAFETY: `info` is the kernel's. What the kernel forces is not ignored.
        libc::SIG_IGN if unsafe { !is_forced(&*info) } => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: all zeros is the default, with no flags. A fault strikes again when this
            // returns; any other signal is sent again, and comes when this returns.
            unsafe {
                let default: libc::sigaction = core::mem::zeroed();
                libc::sigaction(signal, &raw const default, core::ptr::null_mut());
                if !strikes_again(&*info) {
                    libc::raise(signal);
                }
            }
        }
        // SAFETY: the handler that the program set, of the type that its flags say.
        handler => unsafe {
            block_for(previous, signal, &*context.cast::<libc::ucontext_t>());
            if previous.sa_flags & libc::SA_SIGINFO != 0 {
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    core::mem::transmute(handler);
                handler(signal, info, context);
            } else {
                let handler: extern "C" fn(c_int) = core::mem::transmute(handler);
                handler(signal);
            }
        },
    }
}

/// Blocks the signals that the kernel would have blocked for that handler.
fn block_for(handler: &libc::sigaction, signal: c_int, context: &libc::ucontext_t) {
    let mut blocked = context.uc_sigmask;
    // SAFETY: all are sets of signals that are initialised; the numbers are of signals.
    unsafe {
        for number in (1..=64).filter(|it| libc::sigismember(&raw const handler.sa_mask, *it) == 1)
        {
            libc::sigaddset(&raw mut blocked, number);
        }
        if handler.sa_flags & libc::SA_NODEFER == 0 {
            libc::sigaddset(&raw mut blocked, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, core::ptr::null_mut());
    }
}
