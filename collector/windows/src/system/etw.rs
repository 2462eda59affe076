//! The tracing API behind [`Control`].

use std::ptr::{null, null_mut};

use syscollect_etl::Guid;
use windows_sys::Win32::System::Com::CoCreateGuid;
use windows_sys::Win32::System::Diagnostics::Etw::{
    CONTROLTRACE_HANDLE, ControlTraceW, ENABLE_TRACE_PARAMETERS, ENABLE_TRACE_PARAMETERS_VERSION_2,
    EVENT_CONTROL_CODE_CAPTURE_STATE, EVENT_CONTROL_CODE_ENABLE_PROVIDER, EVENT_FILTER_DESCRIPTOR,
    EVENT_FILTER_TYPE_EVENT_ID, EVENT_TRACE_CONTROL_QUERY, EVENT_TRACE_CONTROL_STOP,
    EVENT_TRACE_PROPERTIES, EnableTraceEx2, QueryAllTracesW, StartTraceW, TraceQueryInformation,
    TraceSetInformation,
};
use windows_sys::core::GUID;

use super::{done, processes, terminated};
use crate::error::Status;
use crate::layouts::{self, Counts, Properties};
use crate::plan::Provider;
use crate::session::{Control, Handle, Information};

/// Sessions that one query can list; Windows has 64, or as many as a registry value says.
const SESSIONS_MAX: usize = 256;
/// ERROR_MORE_DATA: there are more sessions than were asked for; those that were are there.
const MORE_DATA: u32 = 234;

/// The tracing API of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Etw;

impl Control for Etw {
    fn sessions(&self) -> Result<Vec<String>, Status> {
        let mut answers: Vec<Box<Properties>> =
            (0..SESSIONS_MAX).map(|_| Properties::empty()).collect();
        let mut pointers: Vec<*mut EVENT_TRACE_PROPERTIES> =
            answers.iter_mut().map(|each| pointer(each)).collect();
        let mut count = 0;
        // SAFETY: `pointers` holds SESSIONS_MAX pointers, each to a buffer of `answers` that
        // outlives the call and says its own size and where its names may go.
        let status =
            unsafe { QueryAllTracesW(pointers.as_mut_ptr(), SESSIONS_MAX as u32, &mut count) };
        done(if status == MORE_DATA { 0 } else { status })?;
        Ok(answers.iter().take(count as usize).map(|each| each.name()).collect())
    }

    fn records(&self, pid: u32) -> bool {
        processes::runs_this_program(pid)
    }

    fn start(&self, name: &str, properties: &mut Properties) -> Result<Handle, Status> {
        let name = terminated(name);
        let mut handle = CONTROLTRACE_HANDLE::default();
        // SAFETY: the name ends with a 0; the properties say their size and where their names go.
        done(unsafe { StartTraceW(&mut handle, name.as_ptr(), pointer(properties)) })?;
        Ok(Handle(handle.Value))
    }

    fn set(&self, session: Option<Handle>, what: Information, bytes: &[u8]) -> Result<(), Status> {
        let length = u32::try_from(bytes.len()).map_err(|_| Status(87))?;
        // SAFETY: the call reads `length` bytes.
        done(unsafe {
            TraceSetInformation(native(session), what as i32, bytes.as_ptr().cast(), length)
        })
    }

    fn interval(&self) -> Result<u32, Status> {
        let mut answer = [0; 8];
        let mut length = 0;
        let class = Information::SampleInterval as i32;
        // SAFETY: the call writes 8 bytes at most, and how many into `length`.
        done(unsafe {
            TraceQueryInformation(native(None), class, answer.as_mut_ptr().cast(), 8, &mut length)
        })?;
        Ok(layouts::interval_of(answer))
    }

    fn enable(&self, session: Handle, provider: &Provider) -> Result<(), Status> {
        let ids = layouts::event_id_filter(provider.ids);
        let mut filter = EVENT_FILTER_DESCRIPTOR {
            Ptr: ids.as_ptr() as u64,
            Size: ids.len() as u32,
            Type: EVENT_FILTER_TYPE_EVENT_ID,
        };
        let filtered = !provider.ids.is_empty();
        let parameters = ENABLE_TRACE_PARAMETERS {
            Version: ENABLE_TRACE_PARAMETERS_VERSION_2,
            EnableFilterDesc: if filtered { &mut filter } else { null_mut() },
            FilterDescCount: u32::from(filtered),
            ..ENABLE_TRACE_PARAMETERS::default()
        };
        control_provider(session, provider, EVENT_CONTROL_CODE_ENABLE_PROVIDER, &parameters)
    }

    fn capture_state(&self, session: Handle, provider: &Provider) -> Result<(), Status> {
        control_provider(session, provider, EVENT_CONTROL_CODE_CAPTURE_STATE, null())
    }

    fn counts(&self, session: Handle) -> Result<Counts, Status> {
        control(Some(session), None, EVENT_TRACE_CONTROL_QUERY)
    }

    fn stop(&self, session: Handle) -> Result<Counts, Status> {
        control(Some(session), None, EVENT_TRACE_CONTROL_STOP)
    }

    fn stop_named(&self, name: &str) -> Result<(), Status> {
        control(None, Some(name), EVENT_TRACE_CONTROL_STOP).map(|_| ())
    }
}

/// ControlTrace by handle or by name; what it answers.
fn control(session: Option<Handle>, name: Option<&str>, code: u32) -> Result<Counts, Status> {
    let name = name.map(terminated);
    let name = name.as_ref().map_or(null(), Vec::as_ptr);
    let mut answer = Properties::empty();
    // SAFETY: the name is null or ends with a 0, and lives in this function; the answer says its
    // size.
    done(unsafe { ControlTraceW(native(session), name, pointer(&mut answer), code) })?;
    Ok(answer.counts())
}

/// EnableTraceEx2; `parameters` is null or points to parameters whose filter outlives the call.
fn control_provider(
    session: Handle,
    provider: &Provider,
    code: u32,
    parameters: *const ENABLE_TRACE_PARAMETERS,
) -> Result<(), Status> {
    let guid = guid(provider.guid);
    let (level, any) = (provider.level, provider.keywords);
    // SAFETY: the GUID and what `parameters` points to live longer than the call; a time-out
    // of 0 does not wait for the provider.
    done(unsafe {
        EnableTraceEx2(native(Some(session)), &guid, code, level, any, 0, 0, parameters)
    })
}

/// The properties as the API takes them. They are 8-byte aligned, all bytes are
/// initialised, and the names lie behind them in the same allocation.
fn pointer(properties: &mut Properties) -> *mut EVENT_TRACE_PROPERTIES {
    properties.as_mut_ptr().cast()
}

fn native(session: Option<Handle>) -> CONTROLTRACE_HANDLE {
    CONTROLTRACE_HANDLE { Value: session.map_or(0, |handle| handle.0) }
}

fn guid(guid: Guid) -> GUID {
    let [a, b, c, d, e, f, g, h, rest @ ..] = guid.0;
    GUID {
        data1: u32::from_le_bytes([a, b, c, d]),
        data2: u16::from_le_bytes([e, f]),
        data3: u16::from_le_bytes([g, h]),
        data4: rest,
    }
}

/// A GUID that nothing has had.
pub(super) fn fresh_guid() -> Guid {
    let mut fresh = GUID::default();
    // SAFETY: writes one GUID. Where it fails, zeros stay, for which StartTrace makes a GUID
    // itself.
    unsafe { CoCreateGuid(&mut fresh) };
    ours(fresh)
}

fn ours(guid: GUID) -> Guid {
    let [a, b, c, d] = guid.data1.to_le_bytes();
    let ([e, f], [g, h]) = (guid.data2.to_le_bytes(), guid.data3.to_le_bytes());
    let [i, j, k, l, m, n, o, p] = guid.data4;
    Guid([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids_are_the_same_on_both_sides() {
        let theirs = GUID::from_u128(0x802ec45a_1e99_4b83_9920_87c98277ba9d);
        assert_eq!(ours(theirs), Guid::from_u128(0x802ec45a_1e99_4b83_9920_87c98277ba9d));
        assert_eq!(ours(guid(ours(theirs))), ours(theirs));
        assert_ne!(fresh_guid(), fresh_guid());
    }
}
