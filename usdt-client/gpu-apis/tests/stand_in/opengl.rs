//! A context of OpenGL, of the calling thread: queries of its clock.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};

#[derive(Debug, Default)]
struct StandIn {
    /// Values of queries, by name: those that were never called for have none.
    values: BTreeMap<u32, Option<u64>>,
    /// Names that were called for, in order, and not done yet.
    called: Vec<u32>,
    clock: u64,
}

thread_local! {
    static CONTEXT: RefCell<StandIn> = RefCell::default();
}

fn with<R>(then: impl FnOnce(&mut StandIn) -> R) -> R {
    CONTEXT.with_borrow_mut(then)
}

extern "system" fn get_string(_: u32) -> *const c_char {
    c"3.3 stand-in".as_ptr()
}

unsafe extern "system" fn get_integer(_: u32, value: *mut i32) {
    // SAFETY: the caller's place. No extensions, no length of labels.
    unsafe { value.write(0) };
}

unsafe extern "system" fn get_integer_64(what: u32, value: *mut i64) {
    assert_eq!(what, glow::TIMESTAMP);
    // SAFETY: the caller's place.
    unsafe { value.write(with(|context| context.clock) as i64) };
}

unsafe extern "system" fn gen_queries(count: i32, names: *mut u32) {
    assert_eq!(count, 1);
    let name = with(|context| {
        let name = context.values.len() as u32 + 1;
        context.values.insert(name, None);
        name
    });
    // SAFETY: the caller has room for one.
    unsafe { names.write(name) };
}

unsafe extern "system" fn delete_queries(count: i32, names: *const u32) {
    assert_eq!(count, 1);
    // SAFETY: the caller has one.
    let name = unsafe { names.read() };
    assert!(with(|context| context.values.remove(&name)).is_some(), "{name} was deleted before");
}

extern "system" fn query_counter(name: u32, target: u32) {
    assert_eq!(target, glow::TIMESTAMP);
    with(|context| context.called.push(name));
}

unsafe extern "system" fn get_query_object_64(name: u32, what: u32, value: *mut u64) {
    let answer = with(|context| {
        let pending = context.called.contains(&name);
        match what {
            // Of a query that was called for before, the old value is there.
            glow::QUERY_RESULT_AVAILABLE => u64::from(!pending && context.values[&name].is_some()),
            glow::QUERY_RESULT => {
                assert!(!pending, "whoever asks for {name} waits for it");
                context.values[&name].unwrap()
            }
            _ => panic!("nobody asks for {what:#x}"),
        }
    });
    // SAFETY: the caller's place.
    unsafe { value.write(answer) };
}

/// The functions of the context.
pub(crate) fn functions() -> glow::Context {
    // SAFETY: the functions have the types of their names.
    unsafe {
        glow::Context::from_loader_function(|name| match name {
            "glGetString" => get_string as *const c_void,
            "glGetIntegerv" => get_integer as *const c_void,
            "glGetInteger64v" => get_integer_64 as *const c_void,
            "glGenQueries" => gen_queries as *const c_void,
            "glDeleteQueries" => delete_queries as *const c_void,
            "glQueryCounter" => query_counter as *const c_void,
            "glGetQueryObjectui64v" => get_query_object_64 as *const c_void,
            // Calling these fails.
            _ => std::ptr::null(),
        })
    }
}

/// The GPU comes to so many of the queries that were called for: its clock is 10 more at each.
pub(crate) fn execute(count: usize) {
    with(|context| {
        for name in context.called.drain(..count).collect::<Vec<_>>() {
            context.clock += 10;
            context.values.insert(name, Some(context.clock));
        }
    });
}

/// Queries that were called for and not done.
pub(crate) fn pending() -> usize {
    with(|context| context.called.len())
}

/// Queries that are there.
pub(crate) fn queries() -> usize {
    with(|context| context.values.len())
}
