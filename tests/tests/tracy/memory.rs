//! Memory.

use crate::scenario::Scenario;
use proptest::prelude::*;
use syscollect_model::{Event, MemoryEvent, ThreadId};
use syscollect_tests::tracy_reader::{Piece, Pool};

fn piece(address: u64, size: u64, (allocated, freed): (i64, i64), threads: [u64; 2]) -> Piece {
    Piece { address, size, allocated, freed, threads, callstacks: [0, 0] }
}

#[test]
fn the_heap_of_the_only_program_is_the_viewers_own_pool() {
    let mut scenario = Scenario::new(1);
    let process = scenario.process(5, "app");
    let [one, two] = [5, 6].map(|tid| scenario.thread(process, tid, "t"));
    scenario.memory(1, one, 0x1000, Some(64));
    scenario.memory(2, one, 0x2000, Some(16));
    scenario.memory(5, two, 0x1000, None);
    scenario.memory(6, two, 0x1000, Some(8));
    scenario.memory(6, two, 0x1000, None);
    let pools = scenario.read().pools;
    let pieces = vec![
        piece(0x1000, 64, (1, 5), [5, 6]),
        piece(0x2000, 16, (2, -1), [5, 0]),
        piece(0x1000, 8, (6, 7), [6, 6]),
    ];
    assert_eq!(pools, [Pool { name: None, pieces, usage: 16 }]);
}

#[test]
fn pools_and_programs_are_told_apart_and_pieces_keep_their_call_stacks() {
    let mut scenario = Scenario::new(1);
    let [one, two] = [(5, "app"), (6, "other")].map(|(pid, name)| scenario.task(pid, name));
    let (pool, stack) =
        (Some(scenario.name("textures")), Some(scenario.stack(&["malloc", "main"])));
    scenario.memory(1, one, 0x1000, Some(1));
    scenario.memory(2, two, 0x1000, Some(2));
    for (at, allocated) in [(3, Some(4)), (4, None)] {
        scenario.at(
            at,
            Event::Memory(MemoryEvent { thread: one, pool, address: 0x1000, allocated, stack }),
        );
    }
    let trace = scenario.read();
    let pools: Vec<_> = trace.pools.iter().map(|pool| (pool.name.as_deref(), pool.usage)).collect();
    // The viewer wants a pool of its own to be there.
    let expected =
        [(Some("app (5)"), 1), (Some("app (5) textures"), 0), (Some("other (6)"), 2), (None, 0)];
    assert_eq!(pools, expected);
    let piece = trace.pools[1].pieces[0];
    assert!(piece.callstacks.iter().all(|index| trace.stack_names(*index) == ["malloc", "main"]));
}

#[test]
fn what_is_freed_and_was_never_seen_allocated_is_told() {
    let mut scenario = Scenario::new(1);
    let thread = scenario.task(5, "app");
    scenario.memory(1, thread, 0x1000, None);
    scenario.memory(2, thread, 0x2000, Some(5));
    scenario.memory(9, thread, 0x2000, Some(7));
    let (trace, cuts) = scenario.read_cut();
    let pieces = [piece(0x2000, 5, (2, 9), [5, 5]), piece(0x2000, 7, (9, -1), [5, 0])];
    assert_eq!(trace.pools[0].pieces, pieces, "it must have been freed in between");
    assert!(cuts[0].starts_with("1 times memory was freed that was allocated before"), "{cuts:?}");
}

#[test]
fn programs_of_one_name_and_id_have_heaps_of_their_own() {
    let mut scenario = Scenario::new(1);
    for at in [1, 2] {
        let thread = scenario.task(5, "app");
        scenario.memory(at, thread, 0x1000, Some(8));
    }
    let trace = scenario.read();
    let names: Vec<_> = trace.pools.iter().map(|pool| pool.name.as_deref()).collect();
    assert_eq!(names, [Some("app (5)"), Some("app (5) #2"), None]);
}

proptest! {
    /// The reader checks that no address is allocated twice at a time.
    #[test]
    fn whatever_is_allocated_and_freed_every_allocation_is_in_the_file(
        steps in prop::collection::vec((0u64..3, 1u32..3, 1u64..5, prop::option::of(0u64..100)), 0..80),
    ) {
        let mut scenario = Scenario::new(1);
        scenario.task(5, "one");
        scenario.task(6, "two");
        let (mut at, mut bytes) = (1, 0);
        for (delay, thread, address, allocated) in steps {
            at += delay;
            bytes += allocated.unwrap_or(0);
            scenario.memory(at, ThreadId(thread), address * 0x100, allocated);
        }
        let (trace, _) = scenario.read_cut();
        let sizes: u64 =
            trace.pools.iter().flat_map(|pool| &pool.pieces).map(|piece| piece.size).sum();
        prop_assert_eq!(sizes, bytes);
    }
}
