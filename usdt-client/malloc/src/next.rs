//! The functions that would have been called if this library were not there.
//!
//! They are looked up at the first call of any of them. The linker may want memory for that: who
//! asks on a thread that is just looking gets nothing here, and takes from `early`.

use core::cell::Cell;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

thread_local! {
    static LOOKING: Cell<bool> = const { Cell::new(false) };
}

/// The next library's function of that name, nothing where there is none or it is just looked up.
#[cold]
#[inline(never)]
fn look_up(known: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    if LOOKING.replace(true) {
        return core::ptr::null_mut();
    }
    // SAFETY: the name ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    LOOKING.set(false);
    known.store(found, Ordering::Relaxed);
    found
}

macro_rules! next {
    ($($name:ident: $function:ty,)*) => {$(
        #[inline(always)]
        pub(super) fn $name() -> Option<$function> {
            static KNOWN: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
            const NAME: &CStr = match CStr::from_bytes_with_nul(
                concat!(stringify!($name), "\0").as_bytes(),
            ) {
                Ok(name) => name,
                Err(_) => c"",
            };
            let mut next = KNOWN.load(Ordering::Relaxed);
            if next.is_null() {
                next = look_up(&KNOWN, NAME);
            }
            // SAFETY: null, or the C library's function of that name, which has this type.
            unsafe { core::mem::transmute::<*mut c_void, Option<$function>>(next) }
        }
    )*};
}

next! {
    malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    calloc: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    posix_memalign: unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int,
    aligned_alloc: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    memalign: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    valloc: unsafe extern "C" fn(usize) -> *mut c_void,
    pvalloc: unsafe extern "C" fn(usize) -> *mut c_void,
    malloc_usable_size: unsafe extern "C" fn(*mut c_void) -> usize,
}
