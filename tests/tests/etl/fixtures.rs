//! Real traces: their totals, their stacks, their order.

use super::checked::Checked;
use super::{etl, open};
use syscollect_model::{LossCause, Scope, Tables, Time};
use syscollect_playback::{Played, Recording};

/// How many rows the tables have.
fn rows(tables: &Tables) -> [usize; 5] {
    let (threads, tracks, frames) =
        (tables.threads.len(), tables.tracks.len(), tables.frames.len());
    [threads, tracks, frames, tables.stack_count(), tables.strings.len()]
}

fn count(played: &Played, kind: &str) -> u64 {
    played.events_by_type.get(kind).copied().unwrap_or(0)
}

#[syscollect_fixtures::test]
fn every_fixture_plays_to_its_totals_without_an_error() {
    for (name, records) in etl::FIXTURES {
        let mut session = open(name);
        let Ok(played) = session.play(&mut Checked::default());
        assert_eq!(played.records, records, "{name}");
        let facts = session.facts();
        assert_eq!(
            facts.events.iter().map(|event| event.count).sum::<u64>(),
            records,
            "{name}: events by provider"
        );
        assert!(facts.statistics.is_complete(), "{name}: {:?}", facts.statistics);
        let errors = [LossCause::Damaged, LossCause::Undecodable];
        assert!(
            !session.losses().iter().any(|loss| errors.contains(&loss.cause)),
            "{name}: {:?}",
            session.losses()
        );
    }
}

#[syscollect_fixtures::test]
fn stacks_find_their_events() {
    for (name, stacks) in [(etl::PERFVIEW, 252 + 9_107 + 655 + 14_983), (etl::SYNTHETIC, 3_488)] {
        let mut session = open(name);
        let mut checked = Checked::default();
        let Ok(_) = session.play(&mut checked);
        let facts = session.facts().stacks;
        assert_eq!(facts.records, stacks, "{name}");
        assert!(facts.matched * 100 >= facts.records * 97, "{name}: {facts:?}");
        assert!(
            checked.with_stack >= checked.samples,
            "{name}: every sample shows at least its address"
        );
    }
}

#[syscollect_fixtures::test]
fn samples_lie_in_images() {
    let mut session = open(etl::PERFVIEW);
    let Ok(played) = session.play(&mut Checked::default());
    let stacks = session.facts().stacks;
    assert_eq!((stacks.samples, count(&played, "sample")), (79_528, 79_528));
    assert!(stacks.samples_in_images * 100 >= stacks.samples * 94, "{stacks:?}");
    let unresolved = session.unresolved();
    let kernel = unresolved.iter().filter(|module| module.kernel).count();
    assert!(kernel > 0 && kernel < unresolved.len(), "drivers and programs are told apart");
    let named = unresolved
        .iter()
        .filter(|module| module.windows.as_ref().is_some_and(|image| image.pdb.is_some()));
    assert!(named.clone().count() * 10 > unresolved.len() * 8, "most images say what their PDB is");
    assert!(named.into_iter().all(|module| module.build_id.as_bytes().len() == 20));
}

#[syscollect_fixtures::test]
fn methods_of_dotnet_have_the_names_that_the_trace_tells() {
    let mut session = open(etl::PERFVIEW);
    let mut checked = Checked::default();
    let Ok(_) = session.play(&mut checked);
    let (named, all) = (checked.named_user_frames, checked.user_frames);
    // No symbols were added: all names are those of methods.
    assert!(named * 100 >= all * 24, "{named} of {all} frames have names");
    let bare = checked.bare_user_frames;
    assert!(bare * 100 < all, "{bare} of {all} frames are bare addresses");
}

#[syscollect_fixtures::test]
fn the_chain_of_switches_is_whole() {
    let mut session = open(etl::SYNTHETIC);
    let mut checked = Checked::default();
    let Ok(played) = session.play(&mut checked);
    assert_eq!(
        ["switch", "waking", "sample"].map(|kind| count(&played, kind)),
        [3_847, 3_191, 1_924]
    );
    let stacks = session.facts().stacks;
    assert_eq!((stacks.linked_switches, stacks.following_switches), (3_843, 3_843));
    assert_eq!(played.lost, 7);
    assert_eq!(checked.slices, count(&played, "dpc") + count(&played, "isr"));
}

#[syscollect_fixtures::test]
fn a_live_loggers_file_tells_who_lived_when() {
    let mut session = open(etl::AIRBUS);
    let Ok(played) = session.play(&mut Checked::default());
    assert_eq!(
        ["thread-start", "thread-end", "process-end"].map(|kind| count(&played, kind)),
        [350, 1_032, 60]
    );
    let tables = session.tables();
    let named = tables
        .processes
        .iter()
        .filter(|process| !tables.strings.get(process.name).starts_with('<'))
        .count();
    assert_eq!(named, tables.processes.len(), "every process is named");
    let began: Vec<_> = tables.threads.iter().filter(|thread| thread.start.is_some()).collect();
    assert_eq!(began.len(), 350);
    assert!(began.iter().all(|thread| thread.end.is_none_or(|end| Some(end) >= thread.start)));
}

#[syscollect_fixtures::test]
fn the_counter_that_is_a_fraction_of_the_tsc_is_told_of() {
    let mut session = open(etl::GPUVIS);
    let Ok(played) = session.play(&mut Checked::default());
    assert!(session.facts().qpc_is_tsc && session.facts().ticks_per_second == 3_119_142);
    assert!(session.info().notes.iter().any(|note| note.contains("divided by 1024")));
    let span = played.last.unwrap().0 - played.first.unwrap().0;
    assert!((2_000_000_000..3_000_000_000).contains(&span), "{span} ns");
    assert_eq!(count(&played, "vsync"), 438);
}

#[syscollect_fixtures::test]
fn playing_again_is_the_same_and_adds_no_rows() {
    for name in [etl::SYNTHETIC, etl::TRACELOGGING, etl::GPUVIS] {
        let mut session = open(name);
        let Ok(first) = session.play(&mut Checked::default());
        let before = rows(session.tables());
        let Ok(second) = session.play(&mut Checked::default());
        assert_eq!(first, second, "{name}");
        assert_eq!(before, rows(session.tables()), "{name}");
    }
}

#[syscollect_fixtures::test]
fn two_parts_of_the_time_have_all_events_between_them() {
    let mut session = open(etl::SYNTHETIC);
    let Ok(whole) = session.play(&mut Checked::default());
    let middle = Time(whole.first.unwrap().0.midpoint(whole.last.unwrap().0));
    let Ok(first) = session.play_range(&mut Checked::default(), None, Some(middle));
    let Ok(second) = session.play_range(&mut Checked::default(), Some(middle), None);
    assert_eq!(first.events + second.events, whole.events);
    assert!(first.last < second.first);
}

#[syscollect_fixtures::test]
fn dpcs_and_interrupts_lie_on_tracks_of_their_cpus() {
    let mut session = open(etl::SYNTHETIC);
    let Ok(_) = session.play(&mut Checked::default());
    let tables = session.tables();
    for name in ["DPC", "ISR"] {
        let tracks = tables.tracks.iter().filter(|track| tables.strings.get(track.name) == name);
        assert!(tracks.filter(|track| matches!(track.scope, Scope::Cpu(_))).count() >= 4, "{name}");
    }
}

#[syscollect_fixtures::test]
fn manifests_in_the_file_name_the_events_of_providers() {
    let mut session = open(etl::PERFVIEW);
    let mut checked = Checked::default();
    let Ok(played) = session.play(&mut checked);
    // Of 68,143 events, 14,983 are stacks, 33,011 say which code there was, and 4 are manifests.
    // Two processes are there of whose threads nothing is told.
    assert_eq!((count(&played, "provider-event"), checked.instants), (20_145, 20_145 + 2));
    let facts = session.facts();
    let runtime = facts.events.iter();
    let runtime = runtime.filter(|event| event.provider == "Microsoft-Windows-DotNETRuntime");
    for (id, name) in [(1, "GarbageCollection/Start"), (10, "GarbageCollection/GCAllocationTick")] {
        let found = runtime.clone().find(|event| event.id == id);
        assert_eq!(found.and_then(|event| event.name.as_deref()), Some(name));
    }
    let tables = session.tables();
    let known = tables.strings.len();
    let mut strings = tables.strings.clone();
    ["GarbageCollection/Start", "AllocationAmount", "TypeName"].into_iter().for_each(|name| {
        strings.intern(name);
    });
    assert_eq!(strings.len(), known, "names of events and of their fields are there");
}

#[syscollect_fixtures::test]
fn events_that_describe_themselves_are_instants_of_their_thread() {
    let mut session = open(etl::TRACELOGGING);
    let mut checked = Checked::default();
    let Ok(_) = session.play(&mut checked);
    assert_eq!(checked.instants, 5);
    let tables = session.tables();
    assert!(tables.tracks.iter().all(|track| matches!(track.scope, Scope::Thread(_))));
}
