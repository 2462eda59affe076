//! How large the lanes of scheduling events are made. aya can set how many
//! values a map has, but not how large they are: that number is changed in the
//! object before it is loaded. The programs learn it from a constant.

use syscollect_records::{LANE_HEADER_SIZE, LANE_SLACK};

/// What the object says of the lanes' values: `SCHED_LANE_LEAST` of data with header and slack, and
/// `SCHED_LANE_MARK`, which makes it a number that occurs nowhere else.
const SCHED_VALUE: u32 = (64 << 10) + (LANE_HEADER_SIZE + LANE_SLACK) as u32 + 0xABC8;

/// The object with lanes of scheduling events of so many bytes of data, a power of two. `None`
/// where the number is not there exactly once: then it is not our object.
pub(super) fn with_sched_lanes(object: &[u8], data_bytes: u32) -> Option<Vec<u8>> {
    let marks =
        object.chunks_exact(4).enumerate().filter(|(_, word)| *word == SCHED_VALUE.to_le_bytes());
    let mut marks = marks.map(|(index, _)| index * 4);
    let (Some(mark), None) = (marks.next(), marks.next()) else { return None };
    let value = data_bytes + (LANE_HEADER_SIZE + LANE_SLACK) as u32;
    let mut object = object.to_vec();
    object[mark..mark + 4].copy_from_slice(&value.to_le_bytes());
    Some(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::committed_object;

    #[test]
    fn the_committed_objects_take_another_size() {
        for committed in [&committed_object::SYSCOLLECT, &committed_object::OLDER] {
            let committed = committed.bytes();
            let object = with_sched_lanes(&committed, 8 << 20).unwrap();
            assert_eq!(object.len(), committed.len());
            let parsed = aya_obj::Object::parse(&object).unwrap();
            assert_eq!(
                parsed.maps["sched_lanes"].value_size() as usize,
                (8 << 20) + LANE_HEADER_SIZE + LANE_SLACK
            );
            assert!(with_sched_lanes(&object, 1 << 20).is_none(), "it is not there any more");
        }
    }
}
