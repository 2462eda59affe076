//! What was recorded, how much of it there is, and what is missing.

use crate::report::data::*;
use crate::report::durations::sum_ns;
use crate::report::filter::shown_pids;
use crate::report::text::missing::lost_text;
use crate::report::text::printer::Printer;
use crate::report::text::words::{count, duration, grouped, percent, shown};
use syscollect_model::{CalendarTime, SnapshotMark};

pub(super) fn print_head(report: &Report, out: &mut Printer) {
    let Recording { recorder, .. } = &report.recording;
    out.line(&format!(
        "{:<10} {}; {}",
        "Recorded",
        machine(&report.recording.machine()),
        shown(recorder)
    ));
    if let Some(began) = report.recording.began_unix_ns {
        let began = CalendarTime::of_unix(began / 1_000_000_000);
        out.line(&format!("{:<10} {began} UTC", "Began"));
    }
    for (number, other) in (1..).zip(&report.recording.other_machines) {
        out.line(&format!("{:<10} {}", format!("Machine {number}"), machine(other)));
    }
    if let Some(SnapshotMark { reason, trigger, .. }) = &report.recording.snapshot {
        let by = if trigger.is_empty() { String::new() } else { format!("trigger {trigger}: ") };
        let why = shown(&format!("{by}{reason}"));
        let why = if why.is_empty() { "of a recording that went on".to_owned() } else { why };
        out.line(&format!("{:<10} {why}", "Snapshot"));
        // A part of one says how long it is, and not how long the recording was.
        if report.recorded_ns.is_some() && !trigger.is_empty() {
            let hint = "--around 2s tells of the moment for which it was taken alone";
            out.line(&format!("{:<10} {hint}", ""));
        }
    }
    let Recording { complete, reached_max_size, .. } = report.recording;
    let cut = match (complete, reached_max_size) {
        (false, _) => ", of a recording that was cut off",
        (true, true) => ", of a recording that stopped at --max-size",
        (true, false) => "",
    };
    let length = report.shown_length();
    let all = report.recorded_ns.unwrap_or(report.overwritten_ns + report.duration_ns);
    let of = match report.overwritten_ns {
        0 if all == length || all <= report.duration_ns => String::new(),
        0 => format!(", of a recording of {}", duration(all)),
        _ => format!(", the end of {}", duration(all)),
    };
    out.line(&format!("{:<10} {}{of}{cut}", "Duration", duration(length)));
    print_events(&report.events, out);
    if let Some(process) = &report.process {
        out.line(&format!(
            "{:<10} only {}{}, but for CPUs and losses",
            "Process",
            shown(process),
            if report.process_children { "" } else { ", without its children" }
        ));
        print_others(report, out);
    }
    let others = &report.recording.other_machines;
    let machines = std::iter::once(report.recording.machine()).chain(others.iter().cloned());
    for machine in machines.filter(|machine| !machine.filter_pids.is_empty()) {
        let (pids, hostname) = (shown_pids(&machine.filter_pids), shown(&machine.hostname));
        let on = if others.is_empty() { String::new() } else { format!(" on {hostname}") };
        out.line(&format!(
            "{:<10} only of process {pids}{on} everything was recorded: others are partial",
            "Note"
        ));
    }
    if report.overwritten > 0 {
        let overwritten = grouped(report.overwritten);
        out.line(&format!("{:<10} {overwritten} older records, as asked", "Not kept"));
    }
    let shortfall = report.shortfall();
    let lost = match report.lost {
        0 => shortfall.instead_of_losses(),
        lost if report.lost_of_own_programs == 0 => format!("*** {} ***", grouped(lost)),
        _ => format!("*** {} ***", lost_text(report)),
    };
    out.line(&format!("{:<10} {lost}", "Lost"));
    for line in shortfall.beside_losses().filter(|_| report.lost > 0) {
        out.line(&format!("{:<10} {line}", ""));
    }
}

/// Who else did something.
fn print_others(report: &Report, out: &mut Printer) {
    let OtherProcesses { processes, on_cpu_ns } = report.others;
    if processes == 0 {
        return;
    }
    let others = if processes == 1 {
        "1 other process".into()
    } else {
        format!("{} other processes", grouped(processes as u64))
    };
    // What they did while none of these ran is not known.
    if report.recording.is_filtered() {
        let words = format!("{others}, as far as they concern these: --all shows that");
        return out.line(&format!("{:<10} {words}", ""));
    }
    let whole = sum_ns(report.cpus.iter().map(CpuRow::whole_ns));
    let share = format!("{} % of the CPUs' time", percent(on_cpu_ns, whole));
    out.line(&format!("{:<10} {others}, {share}", ""));
}

fn print_events(events: &EventCounts, out: &mut Printer) {
    let EventCounts { switches, wakeups, migrations, samples, slices, instants, counters, .. } =
        *events;
    let EventCounts { messages, locks, memory, gpu_jobs, .. } = *events;
    let of_the_machine = [
        (switches, "switch", "switches"),
        (wakeups, "wakeup", "wakeups"),
        (migrations, "migration", "migrations"),
        (samples, "sample", "samples"),
        (counters, "counter value", "counter values"),
    ];
    let of_programs = [
        (slices, "slice", "slices"),
        (instants - messages, "instant", "instants"),
        (messages, "message", "messages"),
        (locks, "lock event", "lock events"),
        (memory, "allocation or free", "allocations and frees"),
        (gpu_jobs, "GPU job", "GPU jobs"),
    ];
    let mut head = "Events";
    for counts in [&of_the_machine[..], &of_programs[..]] {
        let counts = counts.iter().filter(|(count, ..)| *count > 0);
        let words: Vec<_> = counts
            .map(|(count, one, many)| match count {
                1 => format!("1 {one}"),
                _ => format!("{} {many}", grouped(*count)),
            })
            .collect();
        if !words.is_empty() {
            out.line(&format!("{head:<10} {}", words.join(", ")));
            head = "";
        }
    }
}

/// The machine, as far as it is known: Windows traces name no host.
fn machine(of: &RecordedMachine) -> String {
    let RecordedMachine { hostname, os, kernel_release, cpus, .. } = of;
    let parts = [
        shown(hostname),
        format!("{} {}", shown(os.name()), shown(kernel_release)),
        count(*cpus as u64, "CPU"),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}
