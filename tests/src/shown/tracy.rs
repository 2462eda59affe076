//! What a Tracy file shows.

use super::add;
use crate::reference_capture::Figures;
use crate::tracy_reader::{self, Damage, GpuContext, LockChange, TracyFile, Zone};
use std::collections::BTreeMap;

/// The figures of a Tracy file.
///
/// # Errors
///
/// What the strict reader finds wrong with it.
pub fn tracy(file: &[u8]) -> Result<Figures, Damage> {
    let trace = tracy_reader::read(file)?;
    let mut figures = Figures::new();
    let f = &mut figures;
    runs(&trace, f);
    samples(&trace, f);
    for thread in &trace.threads {
        zones(&thread.zones, f);
    }
    for message in &trace.messages {
        instant(&message.text, f);
    }
    for plot in trace.plots.iter().filter(|plot| plot.name.contains("queue")) {
        add(f, "values of queue", plot.values.len() as u64);
        add(f, "sum of queue", plot.values.iter().map(|(_, value)| *value).sum::<f64>() as u64);
    }
    for set in &trace.frame_sets {
        let name = set.name.as_deref().and_then(|context| {
            ["Render", "CRTC 0"].into_iter().find(|name| context.contains(name))
        });
        add(
            f,
            name.map_or("frames".to_owned(), |name| format!("frames {name}")),
            set.frames.len() as u64,
        );
    }
    locks(&trace, f);
    trace.gpus.iter().for_each(|context| gpu_jobs(context, &trace, f));
    for pool in &trace.pools {
        add(f, "allocations", pool.pieces.len() as u64);
        add(f, "bytes held", pool.usage);
    }
    add(f, "crashes", trace.crash.iter().count() as u64);
    Ok(figures)
}

fn runs(trace: &TracyFile, f: &mut Figures) {
    for (thread, runs) in &trace.switches {
        add(f, "runs", runs.len() as u64);
        add(f, format!("runs of {}", trace.thread_names[thread]), runs.len() as u64);
        add(f, "wakeups", runs.iter().filter(|run| run.wakeup < run.start).count() as u64);
    }
}

fn samples(trace: &TracyFile, f: &mut Figures) {
    for thread in &trace.threads {
        let mut of_switches: BTreeMap<_, u64> = BTreeMap::new();
        thread
            .switch_samples
            .iter()
            .for_each(|sample| *of_switches.entry(*sample).or_default() += 1);
        for sample in &thread.samples {
            if let Some(left) = of_switches.get_mut(sample).filter(|left| **left > 0) {
                *left -= 1;
                continue;
            }
            add(f, "samples", 1);
            add(f, format!("samples of {}", trace.thread_names[&thread.id]), 1);
            if let Some(innermost) = trace.stack_names(sample.callstack).first() {
                add(f, format!("self {innermost}"), 1);
            }
        }
    }
}

fn zones(list: &[Zone], f: &mut Figures) {
    for zone in list {
        add(f, format!("zone {}", zone.name), 1);
        if zone.name == "waits for a fence" {
            add(f, "time of waits for a fence", (zone.end - zone.start) as u64);
            let signaled = zone.text.lines().filter_map(|line| line.strip_prefix("signaled by: "));
            signaled.for_each(|by| add(f, format!("fences signaled by {by}"), 1));
        }
        zones(&zone.children, f);
    }
}

/// A queue that has several jobs at once is several contexts.
fn gpu_jobs(context: &GpuContext, trace: &TracyFile, f: &mut Figures) {
    let queue = context.name.split(" #").next().unwrap_or_default();
    for (thread, jobs) in &context.threads {
        if let Some(name) = trace.thread_names.get(thread) {
            add(f, format!("GPU jobs by {name}"), jobs.len() as u64);
        }
        for job in jobs {
            add(f, format!("GPU jobs of {queue}"), 1);
            let unfinished = job.name().ends_with("[unfinished]");
            add(f, "GPU jobs that never ended", unfinished.into());
            add(f, "GPU jobs that failed", job.name().contains("[failed").into());
            let error =
                job.name().split("[failed: ").nth(1).and_then(|error| error.strip_suffix(']'));
            error.into_iter().for_each(|error| add(f, format!("GPU errors {error}"), 1));
            add(
                f,
                "GPU jobs without a beginning",
                job.name().ends_with("[without beginning]").into(),
            );
            if !unfinished {
                add(f, format!("GPU time of {queue}"), (job.gpu.1 - job.gpu.0) as u64);
                add(f, format!("GPU latency of {queue}"), (job.gpu.1 - job.cpu.0) as u64);
            }
            add(f, format!("GPU delay of {queue}"), (job.gpu.0 - job.cpu.0) as u64);
        }
    }
}

/// Messages and instants are the same there; what is said beside the name follows it.
fn instant(text: &str, f: &mut Figures) {
    add(f, format!("message {text}"), 1);
    match text {
        "started" | "a slow one" | "job 5" => add(f, "messages", 1),
        _ => add(f, format!("marker {}", text.split(" (").next().unwrap_or_default()), 1),
    }
}

fn locks(trace: &TracyFile, f: &mut Figures) {
    for lock in trace
        .locks
        .iter()
        .filter(|lock| lock.name.as_deref().is_some_and(|name| name.contains("cache")))
    {
        let mut waits = BTreeMap::new();
        for event in &lock.events {
            match event.change {
                LockChange::Wait => drop(waits.insert(event.thread, event.time)),
                LockChange::Obtain => {
                    add(f, "times that cache was held", 1);
                    // Who had it at once waited for no time.
                    let waited =
                        waits.remove(&event.thread).is_some_and(|since| since < event.time);
                    add(f, "waits for cache", u64::from(waited));
                }
                _ => {}
            }
        }
    }
}
