//! What the API takes and gives as bytes, built and read without it.
//!
//! The offsets are those of 64-bit Windows; where there is a Windows target they
//! are compared with the structures of its API (`system/layouts.rs`).

use crate::plan::{ClassicEvent, Plan};

/// EVENT_TRACE_PROPERTIES.
pub(crate) const PROPERTIES_SIZE: usize = 120;
/// Characters for each of the two names behind the properties, the last one 0.
pub(crate) const NAME_CHARACTERS: usize = 1024;
/// The properties and both names.
pub(crate) const BUFFER_SIZE: usize = PROPERTIES_SIZE + 2 * 2 * NAME_CHARACTERS;
const LOGGER_NAME: usize = PROPERTIES_SIZE;
const FILE_NAME: usize = PROPERTIES_SIZE + 2 * NAME_CHARACTERS;

/// Offsets in EVENT_TRACE_PROPERTIES, by the names of its fields.
pub(crate) mod at {
    pub(crate) const WNODE_BUFFER_SIZE: usize = 0;
    pub(crate) const WNODE_HISTORICAL_CONTEXT: usize = 8;
    pub(crate) const WNODE_GUID: usize = 24;
    pub(crate) const WNODE_CLIENT_CONTEXT: usize = 40;
    pub(crate) const WNODE_FLAGS: usize = 44;
    pub(crate) const BUFFER_SIZE: usize = 48;
    pub(crate) const MINIMUM_BUFFERS: usize = 52;
    pub(crate) const MAXIMUM_BUFFERS: usize = 56;
    pub(crate) const LOG_FILE_MODE: usize = 64;
    pub(crate) const FLUSH_TIMER: usize = 68;
    pub(crate) const ENABLE_FLAGS: usize = 72;
    pub(crate) const EVENTS_LOST: usize = 88;
    pub(crate) const BUFFERS_WRITTEN: usize = 92;
    pub(crate) const LOG_BUFFERS_LOST: usize = 96;
    pub(crate) const REAL_TIME_BUFFERS_LOST: usize = 100;
    pub(crate) const LOG_FILE_NAME_OFFSET: usize = 112;
    pub(crate) const LOGGER_NAME_OFFSET: usize = 116;
}

/// WNODE_FLAG_TRACED_GUID: the structure is about a trace session.
const TRACED_GUID: u32 = 0x0002_0000;
/// ClientContext: the performance counter.
const CLOCK_QPC: u32 = 1;
/// Seconds after which a buffer is written though it is not full.
const FLUSH_SECONDS: u32 = 1;

/// The properties of a session with room for its names behind them: what
/// StartTrace, ControlTrace and QueryAllTraces take.
#[repr(C, align(8))]
#[derive(Clone)]
pub struct Properties {
    bytes: [u8; BUFFER_SIZE],
}

/// What a session says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events for which no buffer was free.
    pub events_lost: u32,
    /// Buffers that are in the file.
    pub buffers_written: u32,
    /// Buffers that could not be written to the file.
    pub buffers_lost: u32,
    /// Buffers that a consumer did not take in time; a recorder has none.
    pub real_time_buffers_lost: u32,
}

/// A file name with its length, where it is longer than a session can take.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong(pub(crate) usize);

impl Properties {
    /// Room for an answer.
    pub(crate) fn empty() -> Box<Self> {
        let mut properties = Box::new(Self { bytes: [0; BUFFER_SIZE] });
        properties.set(at::WNODE_BUFFER_SIZE, BUFFER_SIZE as u32);
        properties.set(at::WNODE_FLAGS, TRACED_GUID);
        properties.set(at::LOGGER_NAME_OFFSET, LOGGER_NAME as u32);
        properties.set(at::LOG_FILE_NAME_OFFSET, FILE_NAME as u32);
        properties
    }

    /// What StartTrace is told.
    pub(crate) fn of(plan: &Plan) -> Result<Box<Self>, TooLong> {
        let mut properties = Self::empty();
        properties.bytes[at::WNODE_GUID..][..16].copy_from_slice(&plan.guid.0);
        properties.set(at::WNODE_CLIENT_CONTEXT, CLOCK_QPC);
        properties.set(at::BUFFER_SIZE, plan.buffer_kib);
        properties.set(at::MINIMUM_BUFFERS, plan.buffers.0);
        properties.set(at::MAXIMUM_BUFFERS, plan.buffers.1);
        properties.set(at::LOG_FILE_MODE, plan.mode);
        properties.set(at::FLUSH_TIMER, FLUSH_SECONDS);
        properties.set(at::ENABLE_FLAGS, plan.flags);
        properties.write_name(FILE_NAME, &wide(&plan.file().to_string_lossy()))?;
        // StartTrace copies the session's name into its place.
        Ok(properties)
    }

    /// The session's name in an answer.
    pub(crate) fn name(&self) -> String {
        let offset = self.get(at::LOGGER_NAME_OFFSET) as usize;
        let units = self.bytes.get(offset..).unwrap_or_default().chunks_exact(2);
        let name: Vec<u16> = units
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
            .take_while(|u| *u != 0)
            .collect();
        String::from_utf16_lossy(&name)
    }

    /// What was lost, in an answer.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            events_lost: self.get(at::EVENTS_LOST),
            buffers_written: self.get(at::BUFFERS_WRITTEN),
            buffers_lost: self.get(at::LOG_BUFFERS_LOST),
            real_time_buffers_lost: self.get(at::REAL_TIME_BUFFERS_LOST),
        }
    }

    /// The bytes, for the API.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    fn write_name(&mut self, offset: usize, name: &[u16]) -> Result<(), TooLong> {
        if name.len() >= NAME_CHARACTERS {
            return Err(TooLong(name.len()));
        }
        let units = self.bytes[offset..].chunks_exact_mut(2);
        units.zip(name).for_each(|(bytes, unit)| bytes.copy_from_slice(&unit.to_le_bytes()));
        Ok(())
    }

    fn set(&mut self, offset: usize, value: u32) {
        self.bytes[offset..][..4].copy_from_slice(&value.to_le_bytes());
    }

    fn get(&self, offset: usize) -> u32 {
        self.bytes[offset..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }
}

/// UTF-16 without a 0 at its end.
pub(crate) fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

/// An array of CLASSIC_EVENT_ID, 24 bytes each: which events carry stacks.
pub(crate) fn classic_event_ids(events: &[ClassicEvent]) -> Vec<u8> {
    events
        .iter()
        .flat_map(|event| {
            let mut bytes = [0; 24];
            bytes[..16].copy_from_slice(&event.class.0);
            bytes[16] = event.kind;
            bytes
        })
        .collect()
}

/// TRACE_PROFILE_INTERVAL of the timer's samples (source 0), in 100 ns.
pub(crate) fn profile_interval(interval: u32) -> [u8; 8] {
    let [a, b, c, d] = interval.to_le_bytes();
    [0, 0, 0, 0, a, b, c, d]
}

/// The interval in a TRACE_PROFILE_INTERVAL.
pub(crate) fn interval_of(bytes: [u8; 8]) -> u32 {
    let [.., a, b, c, d] = bytes;
    u32::from_le_bytes([a, b, c, d])
}

/// EVENT_FILTER_EVENT_ID: only these ids pass.
pub(crate) fn event_id_filter(ids: &[u16]) -> Vec<u8> {
    let count = u16::try_from(ids.len()).unwrap_or(u16::MAX);
    let head = [1, 0].into_iter().chain(count.to_le_bytes());
    head.chain(ids.iter().take(count.into()).flat_map(|id| id.to_le_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Options, RecordingContext, Stacks};
    use syscollect_etl::Guid;

    fn plan(file: &str) -> Plan {
        let options = Options {
            file: file.into(),
            frequency: 1000,
            stacks: Stacks { samples: true, ..Stacks::default() },
            gpu: false,
            buffer_bytes: 64 << 20,
        };
        Plan::new(&options, RecordingContext { pid: 5, fresh: Guid([9; 16]), cpus: 4 })
    }

    #[test]
    fn a_session_is_asked_for_with_the_performance_counter_as_its_clock() {
        let properties = Properties::of(&plan("x.etl")).unwrap();
        assert_eq!(properties.get(40), 1);
        assert_eq!(properties.bytes[24..40], [9; 16]);
        assert_eq!(properties.get(0) as usize, BUFFER_SIZE);
        assert_eq!(properties.get(64), 0x0A00_0001);
        assert_eq!(properties.get(72), 0x0100_2977);
    }

    #[test]
    fn the_file_name_lies_behind_the_properties_and_ends_with_a_zero() {
        let properties = Properties::of(&plan("C:\\\u{fc}.etl")).unwrap();
        let at = properties.get(112) as usize;
        assert_eq!(properties.bytes[at..][..8], [b'C', 0, b':', 0, b'\\', 0, 0xfc, 0]);
        let end = at + 2 * "C:\\u.etl".len();
        assert_eq!(properties.bytes[end..][..2], [0, 0]);
    }

    #[test]
    fn a_file_name_that_does_not_fit_is_refused_rather_than_cut() {
        let longest = "x".repeat(NAME_CHARACTERS - 1);
        assert!(Properties::of(&plan(&longest)).is_ok());
        assert_eq!(
            Properties::of(&plan(&"x".repeat(NAME_CHARACTERS))).err(),
            Some(TooLong(NAME_CHARACTERS))
        );
    }

    #[test]
    fn an_answer_tells_the_name_and_what_was_lost() {
        let mut answer = Properties::empty();
        answer.write_name(LOGGER_NAME, &wide("syscollect-77")).unwrap();
        answer.set(88, 3);
        answer.set(92, 120);
        answer.set(96, 1);
        assert_eq!(answer.name(), "syscollect-77");
        let counts = Counts {
            events_lost: 3,
            buffers_written: 120,
            buffers_lost: 1,
            real_time_buffers_lost: 0,
        };
        assert_eq!(answer.counts(), counts);
    }

    #[test]
    fn an_answer_whose_name_lies_nowhere_has_none() {
        let mut answer = Properties::empty();
        answer.set(at::LOGGER_NAME_OFFSET, u32::MAX);
        assert_eq!(answer.name(), "");
    }

    #[test]
    fn classic_event_ids_are_24_bytes_each() {
        let bytes = classic_event_ids(&plan("x").stacks);
        assert_eq!(bytes.len(), 24);
        assert_eq!(bytes[..4], [0xb4, 0xbf, 0x1d, 0xce]);
        assert_eq!(bytes[16..], [46, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn an_interval_reads_as_it_was_written() {
        assert_eq!(interval_of(profile_interval(10_010)), 10_010);
    }

    #[test]
    fn a_filter_lets_the_listed_ids_pass() {
        assert_eq!(event_id_filter(&[42, 43]), [1, 0, 2, 0, 42, 0, 43, 0]);
    }
}
