//! Reads a Tracy file with the strict reader of the tests and says what it holds:
//! `cargo run --release -p syscollect-tests --example read_tracy -- FILE.tracy [THREADS]`

use std::collections::BTreeMap;
use syscollect_tests::tracy_reader::{self, TracyFile, Zone};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let path = arguments.get(1).ok_or("the file is missing")?;
    let threads = arguments.get(2).map_or(Ok(10), |text| text.parse())?;
    let trace = tracy_reader::read(&std::fs::read(path)?)?;
    print_counts(&trace);
    print_threads(&trace, threads);
    print_functions(&trace);
    Ok(())
}

fn print_counts(trace: &TracyFile) {
    let header = &trace.header;
    println!("{}\n{} / {}, {} streams", header.host, header.capture, header.program, trace.streams);
    println!("captured at {} s, {:.6} s long", header.capture_time, header.last_time as f64 / 1e9);
    let switches: usize = trace.switches.values().map(Vec::len).sum();
    let open = trace.switches.values().flatten().filter(|switch| switch.end < 0).count();
    println!("{switches} times on CPUs ({open} not ended) of {} threads", trace.switches.len());
    println!("{} samples of CPUs, {} of switches", trace.cpu_samples(), trace.switch_samples());
    println!(
        "{} call stacks, {} frames, {} symbols",
        trace.callstacks.len(),
        trace.frames.len(),
        trace.symbols.len()
    );
    let zones: usize = trace.threads.iter().map(|thread| count(&thread.zones)).sum();
    println!("{} threads, {} messages, {zones} zones", trace.threads.len(), trace.messages.len());
    for plot in &trace.plots {
        println!("plot {:?}: {} values", plot.name, plot.values.len());
    }
    trace.app_info.iter().for_each(|line| println!("| {line}"));
}

fn count(zones: &[Zone]) -> usize {
    zones.iter().map(|zone| 1 + count(&zone.children)).sum()
}

fn print_threads(trace: &TracyFile, limit: usize) {
    let mut threads: Vec<_> = trace.totals.iter().collect();
    threads.sort_by_key(|(_, totals)| std::cmp::Reverse(totals.running));
    for (id, totals) in threads.into_iter().take(limit) {
        let name = trace.thread_names.get(id).map_or("?", String::as_str);
        println!(
            "{id:>12} {name:<40} {:>12.3} ms in {} times, {} moves",
            totals.running as f64 / 1e6,
            totals.regions,
            totals.migrations
        );
    }
}

fn print_functions(trace: &TracyFile) {
    let mut functions: BTreeMap<&str, usize> = BTreeMap::new();
    for thread in &trace.threads {
        for sample in thread.samples.iter().filter(|sample| !thread.switch_samples.contains(sample))
        {
            *functions.entry(trace.stack_names(sample.callstack)[0]).or_default() += 1;
        }
    }
    let mut functions: Vec<_> = functions.into_iter().collect();
    functions.sort_by_key(|(name, samples)| (std::cmp::Reverse(*samples), *name));
    for (name, samples) in functions.into_iter().take(10) {
        println!("{samples:>8} {name}");
    }
}
