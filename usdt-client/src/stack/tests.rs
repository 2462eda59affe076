use super::*;
use core::ffi::c_void;
use proptest::prelude::*;
use std::hint::black_box;

unsafe extern "C" {
    fn _Unwind_Backtrace(
        trace: extern "C" fn(*mut c_void, *mut c_void) -> i32,
        data: *mut c_void,
    ) -> i32;
    fn _Unwind_GetIPInfo(context: *mut c_void, is_exact: *mut i32) -> usize;
}

extern "C" fn note(context: *mut c_void, data: *mut c_void) -> i32 {
    // SAFETY: the unwinder's context, and what `compilers` gave it.
    let (address, exact, addresses) = unsafe {
        let mut exact = 0;
        let address = _Unwind_GetIPInfo(context, &raw mut exact) as u64;
        (address, exact, &mut *data.cast::<Vec<u64>>())
    };
    if address != 0 {
        addresses.push(address + u64::from(exact != 0));
    }
    0
}

/// The stack as the compiler's own unwinder walks it.
fn compilers() -> Vec<u64> {
    let mut addresses: Vec<u64> = Vec::new();
    // SAFETY: `note` gets what it expects.
    unsafe { _Unwind_Backtrace(note, (&raw mut addresses).cast()) };
    addresses
}

/// A walk's addresses and its ending.
#[derive(Debug)]
struct Walked {
    addresses: Vec<u64>,
    ending: StackEnding,
}

/// The callers of the function that has these registers.
fn of_callers(registers: &Registers) -> Walked {
    let mut addresses = [0; MAX_ADDRESSES];
    let stack = Stack::of_callers(registers, &mut addresses);
    Walked { addresses: stack.addresses().into(), ending: stack.ending() }
}

/// The callers of the function that calls this, and what the compiler's unwinder says of them.
#[inline(always)]
fn both() -> (Walked, Vec<u64>) {
    let stack = of_callers(&Registers::here());
    (stack, compilers())
}

/// The walk is the compiler's, as far as that goes.
#[track_caller]
fn assert_same((stack, other): &(Walked, Vec<u64>)) {
    let own = &stack.addresses;
    let first = other.iter().position(|address| Some(address) == own.first());
    let other = &other[first.expect("the direct caller is in both")..];
    assert_eq!(own[..], other[..other.len().min(MAX_ADDRESSES)]);
    let ending =
        if other.len() > MAX_ADDRESSES { StackEnding::TooDeep } else { StackEnding::Start };
    assert_eq!(stack.ending, ending);
}

/// Calls itself so often, in frames that are not of one size.
#[inline(never)]
fn nested<T>(depth: u32, innermost: &mut dyn FnMut() -> T) -> T {
    let mut array = [depth; 32];
    black_box(&mut array);
    let result = match depth {
        0 => innermost(),
        1..10 => large(depth, innermost),
        _ => nested(depth - 1, innermost),
    };
    black_box(&mut array);
    result
}

#[inline(never)]
fn large<T>(depth: u32, innermost: &mut dyn FnMut() -> T) -> T {
    let mut array = [0_u64; 2000];
    black_box(&mut array);
    let result = nested(depth - 1, innermost);
    black_box(&mut array);
    result
}

#[test]
fn a_walk_finds_every_caller_up_to_the_threads_start() {
    for depth in [0, 1, 20, 90] {
        let found = nested(depth, &mut || both());
        assert_same(&found);
        assert!(found.0.addresses.len() > depth as usize);
    }
    assert_same(&std::thread::spawn(|| nested(3, &mut || both())).join().expect("a thread"));
}

#[test]
fn a_stack_of_more_functions_is_cut_and_says_so() {
    let found = nested(1000, &mut || both());
    assert_eq!(found.0.addresses.len(), MAX_ADDRESSES);
    assert_same(&found);
}

#[test]
fn what_a_function_of_the_c_library_calls_has_its_callers() {
    thread_local!(static FOUND: std::cell::RefCell<Option<(Walked, Vec<u64>)>> = const {
        std::cell::RefCell::new(None)
    });
    extern "C" fn compare(_: *const c_void, _: *const c_void) -> i32 {
        FOUND.set(Some(both()));
        0
    }
    let mut numbers = [2_u32, 1];
    nested(5, &mut || {
        // SAFETY: two numbers of four bytes.
        unsafe { libc::qsort(numbers.as_mut_ptr().cast(), 2, 4, Some(compare)) };
    });
    assert_same(&FOUND.take().expect("it was called"));
}

#[test]
fn a_handler_of_a_signal_has_what_it_interrupted_as_its_caller() {
    static FOUND: std::sync::Mutex<Option<(Walked, Vec<u64>)>> = std::sync::Mutex::new(None);
    static INTERRUPTED: std::sync::Mutex<Option<Walked>> = std::sync::Mutex::new(None);
    extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
        *FOUND.lock().expect("no panic") = Some(both());
        // SAFETY: the kernel gives a handler with SA_SIGINFO that.
        let registers = Registers::interrupted(unsafe { &*context.cast::<libc::ucontext_t>() });
        *INTERRUPTED.lock().expect("no panic") = Some(of_callers(&registers));
    }
    // SAFETY: `sigaction` is plain numbers, for which zero is valid; nobody else uses the signal.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGUSR2, &raw const action, core::ptr::null_mut());
    }
    nested(8, &mut || {
        // SAFETY: the handler is there.
        unsafe { libc::raise(libc::SIGUSR2) };
    });
    let found = FOUND.lock().expect("no panic").take().expect("it was called");
    assert_same(&found);
    // The handler's stack is that of what it interrupted, below two frames more: where the
    // handler returns to, and the instruction.
    let interrupted = INTERRUPTED.lock().expect("no panic").take().expect("it was called");
    assert_eq!(interrupted.addresses[..], found.0.addresses[2..]);
    assert_eq!(interrupted.ending, StackEnding::Start);
}

/// Code that no table describes: it calls its first argument with its second.
fn made_code(bytes: &[u8]) -> extern "C" fn(extern "C" fn(*mut c_void), *mut c_void) {
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: new memory, which is code of that type once the bytes are in it, and stays.
    unsafe {
        let page = libc::mmap(core::ptr::null_mut(), 4096, protection, flags, -1, 0).cast::<u8>();
        assert_ne!(page.cast(), libc::MAP_FAILED);
        page.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        core::mem::transmute(page)
    }
}

extern "C" fn walk_into(found: *mut c_void) {
    // SAFETY: what `through` gave.
    unsafe { *found.cast::<Option<Walked>>() = Some(of_callers(&Registers::here())) };
}

fn through(code: extern "C" fn(extern "C" fn(*mut c_void), *mut c_void)) -> Walked {
    let mut found: Option<Walked> = None;
    nested(3, &mut || code(walk_into, (&raw mut found).cast()));
    found.expect("it was called")
}

#[test]
fn code_without_a_table_is_walked_by_its_frame_pointer_and_its_callers_by_their_tables() {
    // push rbp; mov rbp, rsp; mov rax, rdi; mov rdi, rsi; call rax; pop rbp; ret
    let code = made_code(&[
        0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3,
    ]);
    let stack = through(code);
    assert_eq!(stack.ending, StackEnding::Start);
    assert_eq!(stack.addresses[0], code as *const () as u64 + 12);
    assert!(stack.addresses.len() > 10);
}

#[test]
fn code_with_neither_a_table_nor_a_frame_pointer_ends_the_walk() {
    // push rbp; mov ebp, 1; mov rax, rdi; mov rdi, rsi; call rax; pop rbp; ret
    let code = made_code(&[
        0x55, 0xbd, 1, 0, 0, 0, 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3,
    ]);
    let stack = through(code);
    assert_eq!(stack.addresses, [code as *const () as u64 + 14]);
    assert_eq!(stack.ending, StackEnding::NoUnwindInformation);
}

#[test]
fn a_call_of_a_wrong_pointer_has_its_caller() {
    let mut found = nested(2, &mut || compilers());
    let behind_a_call = found.remove(1);
    let words = [behind_a_call, 0];
    let wrong = Registers::of_caller(0x10, &raw const words as u64, 7);
    let stack = of_callers(&wrong);
    assert_eq!(stack.addresses.first(), Some(&behind_a_call));
}

#[test]
fn a_stack_that_is_not_there_is_no_crash() {
    let here = Registers::here();
    for stack in [0, 8, 0x10_0000, 0xffff_ffff_ffff_fff8, 0x8000_0000_0000_0000] {
        let lost = Registers::of_caller(here.instruction(), stack, 0xdead_beef_0000);
        let walked = of_callers(&lost);
        assert_eq!(walked.addresses, [0; 0]);
        assert_ne!(walked.ending, StackEnding::Start);
    }
}

proptest! {
    /// What a damaged stack says is followed as far as it goes.
    #[test]
    fn words_of_any_content_are_walked(
        words in prop::collection::vec(any::<u64>(), 64..256),
        code in prop::collection::vec((any::<usize>(), 0_u64..4096), 0..64),
        offset in 0_u64..4096,
    ) {
        let mut words = words;
        let places: Vec<u64> = [
            compilers as *const () as u64,
            libc::qsort as *const () as u64,
            libc::printf as *const () as u64,
        ].into();
        let length = words.len();
        for (index, offset) in code {
            words[index % length] = places[index % places.len()] + offset;
        }
        let start = words.as_ptr() as u64;
        let registers = Registers::of_caller(places[offset as usize % 3] + offset, start, start + 64);
        let stack = of_callers(&registers);
        prop_assert!(stack.addresses.len() <= MAX_ADDRESSES);
    }
}
