use super::*;
use proptest::prelude::*;
use syscollect_zone_protocol::GpuZoneNumber;

fn group(user: u32, client: u32, ticks: u64) -> GpuGroup<'static> {
    let owner = ZoneChunk { client, tid: client, ..ZoneChunk::default() };
    GpuGroup { ticks, owner, producer: Producer { user, program: client }, attribute_words: &[] }
}

fn begin(number: u32) -> GpuEvent {
    GpuEvent::ZoneBegin { zone: GpuZoneNumber { context: 1, number }, location: 1 }
}

fn times(number: u32) -> GpuEvent {
    GpuEvent::Times { zone: GpuZoneNumber { context: 1, number }, began: 5, ended: 9 }
}

fn end(number: u32) -> GpuEvent {
    GpuEvent::ZoneEnd { zone: GpuZoneNumber { context: 1, number } }
}

/// How many zones each program has, and how many items of each are not held.
fn held(mut work: WrittenGpuWork) -> (Vec<(u32, usize)>, FxHashMap<u32, u64>) {
    let zones = work.take().iter().map(|of| (of.client, of.written.zones.len())).collect();
    (zones, work.into_losses().beyond_share)
}

#[test]
fn four_contexts_of_a_hundred_thousand_zones_are_whole() {
    let mut work = WrittenGpuWork::default();
    for number in 0..100_000 {
        for context in 1..=4 {
            let zone = GpuZoneNumber { context, number };
            let ticks = u64::from(number) * 100;
            work.add(group(0, 1, ticks), GpuEvent::ZoneBegin { zone, location: 1 });
            work.add(group(0, 1, ticks + 1), GpuEvent::ZoneEnd { zone });
            let times = GpuEvent::Times { zone, began: ticks + 10, ended: ticks + 20 };
            work.add(group(0, 1, ticks + 300), times);
        }
    }
    let contexts = work.take();
    assert_eq!(contexts.len(), 4);
    assert!(contexts.iter().all(|of| of.written.joined().all(|zone| zone.times.is_some())));
    assert_eq!(work.into_losses(), OwnLosses::default());
}

#[test]
fn a_flood_takes_what_is_free_and_gives_way_to_those_who_come_later() {
    let mut work = WrittenGpuWork::bounded(1000 * ZONE_BYTES + 10 * CONTEXT_BYTES);
    // Three programs of one user, and after all of theirs an honest one of another and of the same.
    for client in 1..=3 {
        (0..5000).for_each(|number| work.add(group(65_534, client, 0), begin(number)));
    }
    for (user, client) in [(1000, 4), (65_534, 5)] {
        for number in 0..100 {
            work.add(group(user, client, 10), begin(number));
            work.add(group(user, client, 11), end(number));
            work.add(group(user, client, 90), times(number));
        }
    }
    assert!(work.shares.of_all() <= 1000 * ZONE_BYTES + 10 * CONTEXT_BYTES);
    let (zones, losses) = held(work);
    assert_eq!(zones[3..], [(4, 100), (5, 100)], "{zones:?}");
    assert!(zones[..3].iter().all(|(_, zones)| *zones > 150), "{zones:?}");
    let of_flood: usize = zones[..3].iter().map(|(_, zones)| zones).sum();
    let lost: u64 = losses.values().sum();
    assert_eq!(of_flood as u64 + lost, 15_000, "each is held or counted");
    assert!([4, 5].iter().all(|client| !losses.contains_key(client)), "{losses:?}");
}

#[test]
fn readings_of_clocks_and_words_have_the_same_bound() {
    let mut work = WrittenGpuWork::bounded(100_000);
    let words = [0u64; 100];
    for number in 0..10_000 {
        let calibration = GpuEvent::Calibration {
            context: 1,
            clock: HostClock::Ticks,
            deviation: 0,
            host: 1,
            gpu: 1,
        };
        work.add(group(1, 1, 0), calibration);
        work.add(GpuGroup { attribute_words: &words, ..group(2, 2, 0) }, begin(number));
    }
    assert!(work.shares.of_all() <= 100_000);
    let contexts = work.take();
    let bytes = |written: &WrittenContext| {
        let words = written.zones.iter().map(|zone| size_of_val(&*zone.attribute_words));
        words.sum::<usize>() + size_of_val(&*written.calibrations)
    };
    assert!(contexts.iter().map(|of| bytes(&of.written)).sum::<usize>() <= 100_000);
    assert!(contexts.iter().all(|of| bytes(&of.written) > 5_000));
}

proptest! {
    #[test]
    fn what_is_held_is_bounded_and_all_else_is_counted(
        events in prop::collection::vec((0..4u32, 0..3u32, 0..4u32, 0..5u32), 0..2000),
        most in 4096..40_000usize,
    ) {
        let mut work = WrittenGpuWork::bounded(most);
        let written = events.len();
        for (user, program, kind, context) in events {
            let zone = GpuZoneNumber { context, number: 7 };
            let event = match kind {
                0 => GpuEvent::ZoneBegin { zone, location: 1 },
                1 => GpuEvent::ZoneEnd { zone },
                2 => GpuEvent::NoTimes { zone },
                _ => GpuEvent::Calibration {
                    context,
                    clock: HostClock::Ticks,
                    deviation: 0,
                    host: 1,
                    gpu: 1,
                },
            };
            work.add(group(user, user * 10 + program, 0), event);
            prop_assert!(work.shares.of_all() <= most);
        }
        let held: usize = work
            .take()
            .iter()
            .map(|NumberedContext { written: of, .. }| {
                of.zones.len() + of.ends.len() + of.times.len() + of.calibrations.len()
            })
            .sum();
        let lost: u64 = work.into_losses().beyond_share.values().sum();
        prop_assert_eq!(held as u64 + lost, written as u64);
    }
}
