//! What is left of a crash: signal, thread, time and stack.
//!
//! Opt-in: [`install`] sets handlers for the signals by which programs crash.
//! A handler writes to the thread's ring, which outlives the process, and then
//! hands over to whoever handled the signal before, or to the default.

use crate::arch;
use crate::arch::registers::Registers;
use crate::emit;
use crate::stack::{MAX_ADDRESSES, Stack};
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};
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
            action.sa_flags =
                libc::SA_SIGINFO | libc::SA_ONSTACK | ((*previous).sa_flags & libc::SA_NODEFER);
            libc::sigaction(signal, &raw const action, core::ptr::null_mut());
        }
    }
}

/// Bytes of the stack on which a crash is written: a handler's own may have room for little more than
/// what the kernel keeps there.
const OWN_STACK: usize = 64 << 10;

/// That stack. Memory is what was touched of it.
#[repr(align(4096))]
struct OwnStack(core::cell::UnsafeCell<[u8; OWN_STACK]>);
// SAFETY: who has set `TAKEN` has it.
unsafe impl Sync for OwnStack {}

static STACK: OwnStack = OwnStack(core::cell::UnsafeCell::new([0; OWN_STACK]));
static TAKEN: AtomicBool = AtomicBool::new(false);

/// What the kernel hands to a handler of signals.
struct SignalArguments {
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
}

unsafe extern "C" fn on_crash(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // Of threads that crash together one is written, and of a crash within this none.
    if crate::enabled() && !TAKEN.swap(true, Ordering::Acquire) {
        let mut arguments = SignalArguments { signal, info, context };
        let top = STACK.0.get().cast::<u8>().wrapping_add(OWN_STACK);
        // SAFETY: the stack was nobody's, and `record` gets what it expects.
        unsafe { arch::call_on_stack(top, record, (&raw mut arguments).cast()) };
        TAKEN.store(false, Ordering::Release);
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
    let Ok(mut group) = emit::group(32 + emit::stack_bytes(stack.addresses().len())) else {
        return;
    };
    // SAFETY: for signals of faults the address is there; for others it is some number.
    let address = unsafe { info.si_addr() } as u64;
    let address = if is_fault(info) { address } else { 0 };
    let (signal, code) = (signal as u32, info.si_code as u32);
    let instruction = registers.instruction();
    group.event(Event::Crash { signal, code, address, instruction });
    group.stack(stack.addresses(), stack.ending());
}

/// Whether the kernel sent it because an instruction failed, which will fail again.
fn is_fault(info: &libc::siginfo_t) -> bool {
    info.si_code > 0 && info.si_signo != libc::SIGABRT
}

/// Calls the handler that was there before; where there was none, lets the signal do what it does
/// by default.
unsafe fn hand_over(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(index) = SIGNALS.iter().position(|known| *known == signal) else { return };
    // SAFETY: written before this handler was set.
    let previous = unsafe { &*PREVIOUS.0[index].get().cast::<libc::sigaction>() };
    match previous.sa_sigaction {
        libc::SIG_DFL => {
            // SAFETY: puts back what was there. A fault strikes again when this returns; any other
            // signal is sent again, and comes when this returns.
            unsafe {
                libc::sigaction(signal, previous, core::ptr::null_mut());
                if !is_fault(&*info) {
                    libc::raise(signal);
                }
            }
        }
        libc::SIG_IGN => {}
        // SAFETY: the handler that the program set, of the type that its flags say.
        handler => unsafe {
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
