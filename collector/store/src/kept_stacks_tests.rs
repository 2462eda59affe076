use super::*;
use syscollect_model::LaneKind;
use syscollect_records::{RecordKind, Stamp};

const LANE: Lane = Lane::new(LaneKind::SchedStack, 1);
const OTHER: Lane = Lane::new(LaneKind::SampleStack, 0);

/// A process's stack with this id, sent at these ticks.
fn stack(process: u32, id: u32, frames: u16) -> Vec<u8> {
    let stamp = Stamp::new(u64::from(id), RecordKind::Stack);
    let header = StackHeader { stamp, id, tgid: process, frames, ..StackHeader::default() };
    let addresses = (0..u64::from(frames)).map(|frame| frame + (u64::from(id) << 16));
    let addresses = addresses.flat_map(u64::to_ne_bytes);
    header.as_bytes().iter().copied().chain(addresses).collect()
}

/// Sends stacks on lanes as the collector does.
#[derive(Default)]
struct Sender {
    sent: BTreeMap<Lane, Sent>,
}

impl Sender {
    fn chunk(&mut self, lane: Lane, stacks: &[Vec<u8>]) -> Chunk {
        let sent = self.sent.entry(lane).or_default();
        let data = stacks.concat();
        let header = ChunkHeader {
            lane,
            sequence: sent.chunks,
            first: Ticks(0),
            last: Ticks(0),
            current_tid: u32::MAX,
            stride: 0,
            records_before: sent.records,
            records: stacks.len() as u32,
            length: data.len() as u32,
        };
        sent.chunks += 1;
        sent.records += stacks.len() as u64;
        Chunk { header, data }
    }
}

fn ids(chunks: &[Chunk], process: u32) -> Vec<u32> {
    let mut ids = Vec::new();
    for chunk in chunks {
        let mut data = &chunk.data[..];
        while let Some((of, length)) = next_record(data) {
            if of.tgid == process {
                ids.push(StackHeader::from_bytes(data).unwrap().id);
            }
            data = &data[length..];
        }
    }
    ids
}

fn all(kept: &mut KeptStacks) -> Vec<Chunk> {
    std::iter::from_fn(|| kept.next_chunk()).collect()
}

#[test]
fn what_is_kept_comes_out_lane_by_lane_in_order_of_time() {
    let (mut kept, mut sender) = (KeptStacks::default(), Sender::default());
    for id in (1..400).step_by(4) {
        let of_several = [stack(7, id, 3), stack(0, id + 1, 90), stack(8, id + 2, 0)];
        assert_eq!(kept.add(&sender.chunk(LANE, &of_several)), 0);
        assert_eq!(kept.add(&sender.chunk(OTHER, &[stack(7, id + 3, 127)])), 0);
    }
    let chunks = all(&mut kept);
    let lanes: Vec<Lane> = chunks.iter().map(|chunk| chunk.header.lane).collect();
    assert_eq!(lanes, [LANE, OTHER]);
    let of_lane = &chunks[0];
    assert_eq!((of_lane.header.sequence, of_lane.header.records_before), (99, 0));
    assert_eq!((of_lane.header.first, of_lane.header.last), (Ticks(1), Ticks(399)));
    let mut times = Vec::new();
    let mut data = &of_lane.data[..];
    while let Some((_, length)) = next_record(data) {
        times.push(StackHeader::from_bytes(data).unwrap().id);
        data = &data[length..];
    }
    assert_eq!(times.len(), 300);
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(ids(&chunks[1..], 7), (4..=400).step_by(4).collect::<Vec<_>>());
    assert_eq!(kept.bytes(), 0);
}

#[test]
fn chunks_of_much_are_numbered_to_the_end_of_the_lane() {
    let (mut kept, mut sender) = (KeptStacks::default(), Sender::default());
    for id in 1..=20_000 {
        kept.add(&sender.chunk(LANE, &[stack(1, id, 100)]));
    }
    let gone = (0..5).filter_map(|_| kept.give_way()).flatten();
    let gone: u32 = gone.map(|gone| gone.records).sum();
    let chunks = all(&mut kept);
    assert!(chunks.len() > 25 && chunks.len() < 70, "{} chunks of 8 to 16 MB", chunks.len());
    let (mut sequence, mut records) = (20_000 - chunks.len() as u64, u64::from(gone));
    for chunk in &chunks {
        assert_eq!((chunk.header.sequence, chunk.header.records_before), (sequence, records));
        sequence += 1;
        records += u64::from(chunk.header.records);
    }
    assert_eq!((sequence, records), (20_000, 20_000));
    assert_eq!(ids(&chunks, 1), (gone + 1..=20_000).collect::<Vec<_>>(), "the oldest went");
}

#[test]
fn who_makes_stacks_without_end_overwrites_their_own() {
    let (mut kept, mut sender) = (KeptStacks::default(), Sender::default());
    let limit = 1 << 20;
    for id in 1..=300 {
        // Sixty processes of one user, and one of another.
        let flood = (0..60).map(|process| stack(100 + process, id, 127)).collect::<Vec<_>>();
        kept.add(&sender.chunk(LANE, &flood));
        kept.add(&sender.chunk(LANE, &[stack(7, id, 20), stack(0, id, 20)]));
        (0..60).for_each(|process| kept.settle(100 + process, Some(1001)));
        kept.settle(7, Some(1002));
        while kept.bytes() > limit {
            kept.give_way().unwrap();
        }
        assert!(kept.lacks_some() || id < 20);
    }
    let chunks = all(&mut kept);
    let every = (1..=300).collect::<Vec<_>>();
    assert_eq!((ids(&chunks, 7), ids(&chunks, 0)), (every.clone(), every));
    let newest = ids(&chunks, 130);
    assert_eq!(newest.last(), Some(&300), "of the flood, too, the newest stay");
    assert!(newest.len() > 5 && newest.len() < 40, "{} of 300", newest.len());
}

#[test]
fn processes_of_which_nobody_knows_whose_they_are_are_one_users() {
    let (mut kept, mut sender) = (KeptStacks::default(), Sender::default());
    for id in 1..=100 {
        kept.add(&sender.chunk(LANE, &[stack(7, id, 20)]));
    }
    assert_eq!(kept.unsettled(), [7]);
    kept.settle(7, Some(1002));
    for process in 1_000..5_000 {
        kept.add(&sender.chunk(LANE, &[stack(process, process, 20)]));
        kept.settle(process, None);
        while kept.bytes() > 256 << 10 {
            kept.give_way().unwrap();
        }
    }
    assert!(kept.unsettled().is_empty());
    assert_eq!(ids(&all(&mut kept), 7).len(), 100);
}

#[test]
fn a_generation_goes_when_no_event_needs_it() {
    let (mut kept, mut sender) = (KeptStacks::default(), Sender::default());
    kept.add(&sender.chunk(LANE, &[stack(7, 1, 20), stack(8, 2, 20)]));
    kept.begin_generation();
    assert_eq!((kept.generation(), kept.came()), (1, 0));
    kept.add(&sender.chunk(LANE, &[stack(7, 3, 20)]));
    assert!(kept.came() > 160);
    assert_eq!(kept.drop_before(0), []);
    let gone = kept.drop_before(1);
    assert_eq!(gone.iter().map(|gone| gone.records).sum::<u32>(), 2);
    let chunks = all(&mut kept);
    assert_eq!((ids(&chunks, 7), ids(&chunks, 8)), (vec![3], vec![]));
}

#[test]
fn a_number_that_another_user_has_by_now_is_theirs() {
    let (mut kept, mut sender) = (KeptStacks::default(), Sender::default());
    kept.add(&sender.chunk(LANE, &[stack(7, 1, 20), stack(8, 2, 90), stack(8, 3, 90)]));
    kept.settle(7, Some(1001));
    kept.settle(8, Some(1002));
    kept.begin_generation();
    assert_eq!(kept.unsettled(), [7, 8]);
    kept.settle(7, None);
    kept.settle(8, Some(1001));
    kept.give_way().unwrap();
    assert_eq!(ids(&all(&mut kept), 7), [1], "8 has more, and both are the same user's");
}

#[test]
fn what_is_no_stack_is_said() {
    let (mut kept, mut sender) = (KeptStacks::default(), Sender::default());
    let mut chunk = sender.chunk(LANE, &[stack(7, 1, 20), stack(7, 2, 20)]);
    chunk.data.truncate(200);
    assert_eq!(kept.add(&chunk), 1);
    assert_eq!(ids(&all(&mut kept), 7), [1]);
}

#[test]
fn what_is_sent_again_is_kept_once_and_comes_out_each_time() {
    let (mut kept, mut sender) = (KeptStacks::default(), Sender::default());
    let again = |id: u32, ticks: u64| {
        let mut record = stack(7, 1, 60);
        let stamp = Stamp::new(ticks, RecordKind::Stack);
        let header = StackHeader { stamp, id, ..StackHeader::from_bytes(&record).unwrap() };
        record[..StackHeader::SIZE].copy_from_slice(header.as_bytes());
        record
    };
    kept.add(&sender.chunk(LANE, &[again(1, 1)]));
    let once = kept.bytes();
    for id in 2..=20 {
        kept.add(
            &sender.chunk(if id % 2 == 0 { OTHER } else { LANE }, &[again(id, u64::from(id))]),
        );
    }
    assert!(kept.bytes() < once + 20 * 40, "{} bytes instead of {once}", kept.bytes());
    let mut copy = kept.clone();
    copy.add(&sender.chunk(LANE, &[again(21, 21)]));
    let chunks = all(&mut kept);
    assert_eq!(ids(&chunks[..1], 7), (1..=19).step_by(2).collect::<Vec<_>>());
    assert_eq!(ids(&chunks[1..], 7), (2..=20).step_by(2).collect::<Vec<_>>());
    assert_eq!(
        chunks[0].data[..],
        (1..=19).step_by(2).flat_map(|id| again(id, u64::from(id))).collect::<Vec<u8>>()
    );
    assert_eq!(ids(&all(&mut copy), 7).len(), 21, "what a copy gets is its own");
}

#[test]
fn of_a_process_those_give_way_that_were_not_sent_for_long() {
    let (mut kept, mut sender) = (KeptStacks::default(), Sender::default());
    let mut used = stack(7, 1, 60);
    for id in 1..=2_000 {
        let stamp = Stamp::new(10_000 + u64::from(id), RecordKind::Stack);
        let header = StackHeader { stamp, id, ..StackHeader::from_bytes(&used).unwrap() };
        used[..StackHeader::SIZE].copy_from_slice(header.as_bytes());
        if id % 4 == 0 {
            kept.add(&sender.chunk(LANE, &[used.clone()]));
        }
        kept.add(&sender.chunk(LANE, &[stack(7, 10_000 + id, 60)]));
        while kept.bytes() > 256 << 10 {
            kept.give_way().unwrap();
        }
    }
    let ids = ids(&all(&mut kept), 7);
    let of_used = ids.iter().filter(|id| **id < 10_000).count();
    assert_eq!(of_used, 500, "it is used all the time");
    assert!(ids.len() < 1_500, "{} others", ids.len() - of_used);
}

#[test]
fn of_many_what_is_left_out_is_told_and_the_rest_stays() {
    let (mut kept, mut sender) = (KeptStacks::default(), Sender::default());
    for id in 1..=50 {
        kept.add(&sender.chunk(LANE, &[stack(7, id, 9)]));
        kept.begin_generation();
    }
    let mut copy = kept.clone();
    let left_out = copy.leave_out_before(40);
    assert_eq!(left_out, [DroppedStacks { lane: LANE, records: 40 }]);
    assert_eq!(ids(&all(&mut copy), 7), (41..=50).collect::<Vec<_>>());
    assert_eq!(kept.drop_before(40), left_out);
    kept.add(&sender.chunk(LANE, &[stack(7, 51, 9)]));
    assert_eq!(ids(&all(&mut kept), 7), (41..=51).collect::<Vec<_>>());
}
