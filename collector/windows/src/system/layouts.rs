//! The offsets that [`crate::layouts`] writes at are those of the API, and the
//! structures are as large as the format page says: a compiler that disagrees
//! does not get past this file.

use std::mem::{offset_of, size_of};

use windows_sys::Win32::System::Diagnostics::Etw::{
    CLASSIC_EVENT_ID, EVENT_HEADER, EVENT_RECORD, EVENT_TRACE_LOGFILEW, EVENT_TRACE_PROPERTIES,
    TRACE_LOGFILE_HEADER, TRACE_PROFILE_INTERVAL, WNODE_HEADER,
};

use crate::layouts::{BUFFER_SIZE, PROPERTIES_SIZE, Properties, at};

const _: () = {
    assert!(size_of::<EVENT_RECORD>() == 112);
    assert!(size_of::<EVENT_HEADER>() == 80);
    assert!(size_of::<EVENT_TRACE_PROPERTIES>() == PROPERTIES_SIZE);
    assert!(size_of::<CLASSIC_EVENT_ID>() == 24);
    assert!(size_of::<TRACE_PROFILE_INTERVAL>() == 8);
    assert!(size_of::<Properties>() == BUFFER_SIZE);
    assert!(align_of::<Properties>() >= align_of::<EVENT_TRACE_PROPERTIES>());
};

const _: () = {
    assert!(size_of::<TRACE_LOGFILE_HEADER>() == 280);
    assert!(size_of::<EVENT_TRACE_LOGFILEW>() == 448);
};

const _: () = {
    assert!(offset_of!(WNODE_HEADER, BufferSize) == at::WNODE_BUFFER_SIZE);
    assert!(offset_of!(WNODE_HEADER, Anonymous1) == at::WNODE_HISTORICAL_CONTEXT);
    assert!(offset_of!(WNODE_HEADER, Guid) == at::WNODE_GUID);
    assert!(offset_of!(WNODE_HEADER, ClientContext) == at::WNODE_CLIENT_CONTEXT);
    assert!(offset_of!(WNODE_HEADER, Flags) == at::WNODE_FLAGS);
    assert!(offset_of!(EVENT_TRACE_PROPERTIES, Wnode) == 0);
    assert!(offset_of!(EVENT_TRACE_PROPERTIES, BufferSize) == at::BUFFER_SIZE);
    assert!(offset_of!(EVENT_TRACE_PROPERTIES, MinimumBuffers) == at::MINIMUM_BUFFERS);
    assert!(offset_of!(EVENT_TRACE_PROPERTIES, MaximumBuffers) == at::MAXIMUM_BUFFERS);
    assert!(offset_of!(EVENT_TRACE_PROPERTIES, LogFileMode) == at::LOG_FILE_MODE);
    assert!(offset_of!(EVENT_TRACE_PROPERTIES, FlushTimer) == at::FLUSH_TIMER);
    assert!(offset_of!(EVENT_TRACE_PROPERTIES, EnableFlags) == at::ENABLE_FLAGS);
    assert!(offset_of!(EVENT_TRACE_PROPERTIES, EventsLost) == at::EVENTS_LOST);
    assert!(offset_of!(EVENT_TRACE_PROPERTIES, BuffersWritten) == at::BUFFERS_WRITTEN);
    assert!(offset_of!(EVENT_TRACE_PROPERTIES, LogBuffersLost) == at::LOG_BUFFERS_LOST);
    assert!(offset_of!(EVENT_TRACE_PROPERTIES, RealTimeBuffersLost) == at::REAL_TIME_BUFFERS_LOST);
    assert!(offset_of!(EVENT_TRACE_PROPERTIES, LogFileNameOffset) == at::LOG_FILE_NAME_OFFSET);
    assert!(offset_of!(EVENT_TRACE_PROPERTIES, LoggerNameOffset) == at::LOGGER_NAME_OFFSET);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layouts::{classic_event_ids, profile_interval};
    use crate::plan::ClassicEvent;
    use syscollect_etl::Guid;

    #[test]
    fn the_structures_are_as_large_as_the_format_page_says() {
        assert_eq!(size_of::<EVENT_RECORD>(), 112);
        assert_eq!(size_of::<EVENT_HEADER>(), 80);
        assert_eq!(size_of::<TRACE_LOGFILE_HEADER>(), 280);
        assert_eq!(size_of::<EVENT_TRACE_PROPERTIES>(), 120);
        assert_eq!(size_of::<EVENT_TRACE_LOGFILEW>(), 448);
        assert_eq!(size_of::<CLASSIC_EVENT_ID>(), 24);
    }

    #[test]
    fn what_is_written_as_bytes_is_read_back_as_the_api_reads_it() {
        let class = Guid::from_u128(0xce1dbfb4_137e_4da6_87b0_3f59aa102cbc);
        let bytes = classic_event_ids(&[ClassicEvent { class, kind: 46 }]);
        // SAFETY: 24 bytes are a CLASSIC_EVENT_ID, in which any bytes are a value.
        let id: CLASSIC_EVENT_ID =
            unsafe { bytes.as_ptr().cast::<CLASSIC_EVENT_ID>().read_unaligned() };
        assert_eq!((id.EventGuid.data1, id.EventGuid.data3, id.Type), (0xce1dbfb4, 0x4da6, 46));
        let bytes = profile_interval(10_010);
        // SAFETY: 8 bytes are a TRACE_PROFILE_INTERVAL, in which any bytes are a value.
        let interval = unsafe { bytes.as_ptr().cast::<TRACE_PROFILE_INTERVAL>().read_unaligned() };
        assert_eq!((interval.Source, interval.Interval), (0, 10_010));
    }
}
