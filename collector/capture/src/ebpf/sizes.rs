//! How large the lanes of scheduling events and of their stacks are made. aya can set how many
//! values a map has, but not how large they are: that number is changed in the
//! object before it is loaded. The programs learn it from a constant.

use syscollect_records::{LANE_HEADER_SIZE, LANE_SLACK};

use crate::memory::LaneBytes;

/// What the object says of the values of `sched_lanes`: `SCHED_LANE_LEAST` of data with header and
/// slack, and `SCHED_LANE_MARK`, which makes it a number that occurs nowhere else.
const SCHED_VALUE: u32 = value_bytes(64 << 10) + 0x1000_ABC8;
/// The same of `sched_stack_lanes`.
const SCHED_STACK_VALUE: u32 = value_bytes(512 << 10) + 0x5_7AC8;

/// Bytes of a map's value that is a lane with so many bytes of data.
const fn value_bytes(data_bytes: u32) -> u32 {
    data_bytes + (LANE_HEADER_SIZE + LANE_SLACK) as u32
}

/// The object with lanes of these sizes. `None` where a number is not there exactly once: then it is
/// not our object.
pub(super) fn with_lanes(object: &[u8], bytes: LaneBytes) -> Option<Vec<u8>> {
    let mut object = object.to_vec();
    replace_once(&mut object, SCHED_VALUE, value_bytes(bytes.sched))?;
    replace_once(&mut object, SCHED_STACK_VALUE, value_bytes(bytes.sched_stack))?;
    Some(object)
}

fn replace_once(object: &mut [u8], mark: u32, value: u32) -> Option<()> {
    let mut marks = object.chunks_exact_mut(4).filter(|word| **word == mark.to_le_bytes());
    let (Some(word), None) = (marks.next(), marks.next()) else { return None };
    word.copy_from_slice(&value.to_le_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::committed_object;

    #[test]
    fn the_committed_objects_take_another_size() {
        for committed in [&committed_object::SYSCOLLECT, &committed_object::OLDER] {
            let committed = committed.bytes();
            let bytes = LaneBytes { sched: 8 << 20, sched_stack: 2 << 20 };
            let object = with_lanes(&committed, bytes).unwrap();
            assert_eq!(object.len(), committed.len());
            let parsed = aya_obj::Object::parse(&object).unwrap();
            for (map, bytes) in
                [("sched_lanes", bytes.sched), ("sched_stack_lanes", bytes.sched_stack)]
            {
                assert_eq!(parsed.maps[map].value_size(), value_bytes(bytes), "{map}");
            }
            assert!(with_lanes(&object, bytes).is_none(), "they are not there any more");
        }
    }
}
