//! A library with marks that is unloaded while its threads go on.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

mod common;

use std::ffi::{CString, c_void};
use std::sync::mpsc;
use syscollect_usdt_client::testing::Drain;

/// The example library, next to this program.
fn library() -> CString {
    let program = std::env::current_exe().unwrap();
    let path = program.parent().unwrap().parent().unwrap().join("examples/libplugin.so");
    CString::new(path.to_str().unwrap()).unwrap()
}

fn symbol(handle: *mut c_void, name: &str) -> *mut c_void {
    let name = CString::new(name).unwrap();
    // SAFETY: an open library and a name.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    assert!(!address.is_null());
    address
}

#[test]
fn threads_outlive_an_unloaded_library_in_which_they_were_recorded() {
    // SAFETY: the example's functions have these types.
    let (handle, raise, work) = unsafe {
        let handle = libc::dlopen(library().as_ptr(), libc::RTLD_NOW);
        assert!(
            !handle.is_null(),
            "run `cargo build -p syscollect-usdt-client --example plugin` first, or all tests"
        );
        let raise: extern "C" fn() = std::mem::transmute(symbol(handle, "plugin_raise"));
        let work: extern "C" fn() -> i32 = std::mem::transmute(symbol(handle, "plugin_work"));
        (handle, raise, work)
    };
    raise();
    let (worked, did_work) = mpsc::channel();
    let (go_on, may_end) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        worked.send((work(), common::thread_id())).unwrap();
        may_end.recv().unwrap();
    });
    let (descriptor, tid) = did_work.recv().unwrap();
    // SAFETY: nobody is in the library.
    let still_loaded = unsafe {
        libc::dlclose(handle);
        libc::dlopen(library().as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD)
    };
    assert!(still_loaded.is_null(), "it is gone");
    go_on.send(()).unwrap();
    thread.join().unwrap();
    assert!(common::in_child(|| true), "no handler of forks is left");
    let mut drain = Drain::of(descriptor).expect("its arena is still there");
    let number = common::ring_of(&drain, tid).expect("its ring");
    assert_eq!(
        common::shown(&drain.take(number), drain.log()),
        ["attached 0", "begin plugin at 0", "value 1", "end 0"]
    );
}
