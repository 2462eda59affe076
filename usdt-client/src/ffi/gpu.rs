//! Zones of GPUs: `struct syscollect_gpu_context`.

use super::{CLocation, text};
use crate::arch::registers::Registers;
use crate::emit::StaticString;
use crate::gpu::{GpuApi, GpuContext, GpuTicks, GpuZoneDetails, GpuZoneId, GpuZoneTag, HostTime};
use core::ffi::c_char;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU64, Ordering};

/// What tells a context that was made from memory that holds none.
const MADE: u64 = 0x7379_7363_6770_7531;

/// `struct syscollect_gpu_context`.
#[repr(C)]
pub struct CGpuContext {
    /// [`MADE`], or anything.
    state: AtomicU64,
    context: MaybeUninit<GpuContext>,
}

const _: () = assert!(size_of::<CGpuContext>() <= 20 * 8 && align_of::<CGpuContext>() <= 8);

impl CGpuContext {
    pub(super) fn get(&self) -> Option<&GpuContext> {
        // SAFETY: who has set the state has made the context before, and it is not changed.
        (self.state.load(Ordering::Acquire) == MADE)
            .then(|| unsafe { self.context.assume_init_ref() })
    }
}

/// `struct syscollect_gpu_details`.
#[repr(C)]
pub struct CGpuDetails {
    name: *const c_char,
    text: *const c_char,
    tag: *const c_char,
    tag_number: u64,
    color: u32,
}

/// Makes a context. A kind of interface that is not known is a custom one.
///
/// # Safety
/// `context` is null, or memory of a `struct syscollect_gpu_context` that nobody else uses; the
/// name is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_gpu_context_init(
    context: *mut CGpuContext,
    api: u32,
    name: *const c_char,
    nanoseconds_per_tick: f64,
    tick_bits: u32,
    owner: u32,
) {
    if context.is_null() {
        return;
    }
    let api = GpuApi::from_number(api).unwrap_or(GpuApi::Custom);
    let ticks = GpuTicks { nanoseconds: nanoseconds_per_tick, bits: tick_bits };
    // SAFETY: as the caller says.
    let made = GpuContext::new(api, unsafe { text(name) }, ticks).owned_by(owner);
    let made = CGpuContext { state: AtomicU64::new(MADE), context: MaybeUninit::new(made) };
    // SAFETY: as the caller says.
    unsafe { context.write(made) };
}

/// The context, where one was made.
///
/// # Safety
/// Null, or memory of a `struct syscollect_gpu_context` that lasts as long as the result.
pub(super) unsafe fn made<'a>(context: *const CGpuContext) -> Option<&'a GpuContext> {
    // SAFETY: as the caller says.
    unsafe { context.as_ref() }.and_then(CGpuContext::get)
}

/// Begins a zone, of which more is said if there are details; 0 is none.
///
/// # Safety
/// Each is null or what its type says; the location, its texts and the tag's last as long as the
/// program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_gpu_zone_begin_recorded(
    context: *const CGpuContext,
    location: *const CLocation,
    details: *const CGpuDetails,
) -> u32 {
    // SAFETY: as the caller says.
    let (context, location, details) =
        unsafe { (made(context), location.as_ref(), details.as_ref()) };
    let (Some(context), Some(location)) = (context, location) else { return 0 };
    let Some(details) = details else {
        return context.begin_detailed(location, &GpuZoneDetails::default()).to_number();
    };
    // SAFETY: as the caller says.
    let (name, words, tag) = unsafe { (text(details.name), text(details.text), text(details.tag)) };
    let tag_text = StaticString::new(tag);
    let tag =
        (!tag.is_empty()).then_some(GpuZoneTag { text: &tag_text, number: details.tag_number });
    let details = GpuZoneDetails { name, text: words, color: details.color, tag };
    context.begin_detailed(location, &details).to_number()
}

/// Begins a zone and records from where this was called; 0 is none.
///
/// # Safety
/// As for the one above.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn syscollect_gpu_zone_begin_stack_recorded(
    context: *const CGpuContext,
    location: *const CLocation,
) -> u32 {
    // Here, in the function that is called, and in no other that it calls.
    let registers = Registers::here();
    // SAFETY: as the caller says.
    let (context, location) = unsafe { (made(context), location.as_ref()) };
    let (Some(context), Some(location)) = (context, location) else { return 0 };
    context.begin_stack_at(location, &registers).to_number()
}

/// All of a zone is submitted.
///
/// # Safety
/// Null, or memory of a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_gpu_zone_end_recorded(context: *const CGpuContext, zone: u32) {
    let zone = GpuZoneId::from_number(zone);
    // SAFETY: as the caller says.
    if let Some(context) = unsafe { made(context) }.filter(|_| zone.is_active()) {
        context.end_active(zone);
    }
}

/// Tells when the GPU did the work of a zone.
///
/// # Safety
/// As for the one above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_gpu_resolve_recorded(
    context: *const CGpuContext,
    zone: u32,
    began: u64,
    ended: u64,
) {
    // SAFETY: as the caller says.
    if let Some(context) = unsafe { made(context) } {
        context.resolve(GpuZoneId::from_number(zone), began, ended);
    }
}

/// Tells that a zone's times will never be known.
///
/// # Safety
/// As for the one above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_gpu_no_times_recorded(context: *const CGpuContext, zone: u32) {
    // SAFETY: as the caller says.
    if let Some(context) = unsafe { made(context) } {
        context.resolve_without_times(GpuZoneId::from_number(zone));
    }
}

/// Tells what the GPU's clock was when a clock of the host was that: now (0), ticks (1), or
/// CLOCK_MONOTONIC (2).
///
/// # Safety
/// As for the one above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_gpu_calibrate_recorded(
    context: *const CGpuContext,
    clock: u32,
    host: u64,
    gpu: u64,
    deviation: u64,
) {
    let host = match clock {
        0 => HostTime::Now,
        1 => HostTime::Ticks(host),
        2 => HostTime::Monotonic(host),
        _ => return,
    };
    // SAFETY: as the caller says.
    if let Some(context) = unsafe { made(context) } {
        context.calibrate(host, gpu, deviation);
    }
}
