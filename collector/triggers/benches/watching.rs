//! What watching scheduling costs, CPU time for each record: `cargo bench -p syscollect-triggers`.

use syscollect_tests::scheduling_load::{LoadStep, SchedulingLoad, cpu_time};
use syscollect_triggers::Watcher;

fn nanoseconds_per_record(triggers: &[&str]) -> f64 {
    let SchedulingLoad { beginning, steps, records } = SchedulingLoad::new();
    let triggers = triggers.iter().map(|text| text.parse().expect("it is one")).collect();
    let mut watcher = Watcher::new(triggers).expect("they may fire");
    beginning.into_iter().for_each(|chunk| watcher.feed(chunk));
    let began = cpu_time();
    for step in steps {
        match step {
            LoadStep::Chunk(chunk) => watcher.feed(chunk),
            LoadStep::NothingBefore(ticks) => watcher.nothing_before(ticks),
        }
    }
    let took = cpu_time() - began;
    assert_eq!(watcher.fired(), [], "nobody waited for long");
    took as f64 / records as f64
}

fn main() {
    for triggers in [
        &["waiting > 20ms"][..],
        &["waiting > 1ms", "blocked server > 100ms", "uninterruptible > 5s"],
    ] {
        let best = (0..5).map(|_| nanoseconds_per_record(triggers)).fold(f64::MAX, f64::min);
        println!("{best:.1} ns/record for {triggers:?}");
    }
}
