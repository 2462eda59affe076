//! What matters of a report, in a few plain sentences.

use crate::report::data::*;
use crate::report::durations::sum_ns;
use crate::report::text::missing::lost_text;
use crate::report::text::sleepers::hanging;
use crate::report::text::words::{count, duration, grouped, percent, shown};
use crate::report::text::worst::{moment, waiter_label};
use crate::report::wait_for::WaitFor;
use syscollect_model::Shortfall;

/// What part of the time a program was blocked for that is told at once: a tenth.
const CONSIDERABLE: u64 = 10;

/// How long, how busy, who used most, who was blocked longest, the longest wait for a CPU, who
/// may hang, and what was lost.
pub(super) fn verdict(report: &Report) -> String {
    let may_hang = hanging(&report.off_cpu.asleep_throughout, report.process.is_some());
    let sentences = [
        load(report),
        busiest(report),
        blocked_sentence(report),
        longest_wait_sentence(report),
        may_hang,
        whole(report),
    ];
    sentences.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn load(report: &Report) -> Option<String> {
    if report.shown_length() == 0 {
        return Some("No time was recorded.".to_owned());
    }
    let length = duration(report.shown_length());
    if report.recording.cpus == 0 && report.cpus.is_empty() {
        return Some(format!("This is {length} of a recording."));
    }
    let number = report.recording.cpus.max(report.cpus.len()) as u64;
    let (cpus, were) = (count(number, "CPU"), if number == 1 { "was" } else { "were" });
    let [busy, idle, unknown] = [
        sum_ns(report.cpus.iter().map(|row| row.busy_ns)),
        sum_ns(report.cpus.iter().map(|row| row.idle_ns)),
        sum_ns(report.cpus.iter().map(|row| row.unknown_ns)),
    ];
    // Of a recording of some processes only these are known, and without switches nobody is;
    // who asks for one does not ask what others did.
    let of_some = report.recording.is_filtered() || report.process.is_some();
    if busy == 0 && idle == 0 || of_some {
        return Some(format!("This is {length} on {cpus}."));
    }
    let whole = sum_ns([busy, idle, unknown]);
    let doubt = match percent(unknown, whole).as_str() {
        "0.0" => String::new(),
        share => format!(" ({share} % of their time is unknown)"),
    };
    // As in the table of CPUs.
    let share = percent(busy, whole);
    Some(format!("In {length}, {cpus} {were} {share} % busy{doubt}."))
}

/// The process, or all of one name if these did more together: a build, a shell's loop.
fn busiest(report: &Report) -> Option<String> {
    let row = report.processes.rows.first()?;
    let alone = (format!("{} ({})", shown(&row.name), row.pid), &row.activity);
    let together = report.processes_by_name.rows.first().map(|row| {
        let processes = grouped(row.processes as u64);
        (format!("{} ({processes} processes)", shown(&row.name)), &row.activity)
    });
    let (who, Activity { times, counts, .. }) = together
        .filter(|(_, together)| together.busiest_first() < alone.1.busiest_first())
        .unwrap_or(alone);
    let (ran, samples) = (times.on_cpu_ns, counts.samples);
    if ran > 0 {
        let share = percent(ran, report.duration_ns);
        let ran = duration(ran);
        return Some(format!("Most CPU time, {ran} ({share} % of one CPU), went to {who}."));
    }
    (samples > 0).then(|| {
        let all = grouped(report.functions.samples);
        format!("Most samples, {} of {all}, hit {who}.", grouped(samples))
    })
}

/// Where a program was blocked for a considerable part of the time: what is to be looked into.
fn blocked_sentence(report: &Report) -> Option<String> {
    let LongestBlocked { pid, processes, process, waits_for, function, called, .. } =
        report.off_cpu.longest_blocked.as_ref()?;
    let blocked = report.off_cpu.longest_blocked.as_ref()?.blocked_ns;
    if blocked < report.duration_ns / CONSIDERABLE {
        return None;
    }
    let which = if *processes > 1 { format!("{processes} processes") } else { pid.to_string() };
    let called = called.as_ref().map(|called| format!(" ({})", shown(called)));
    let function = function.as_ref().map(|function| format!(" in {}", shown(function)));
    let place = function.map(|function| function + &called.unwrap_or_default());
    Some(format!(
        "Blocked longest: {} ({which}), {} for {}{}.",
        shown(process),
        duration(blocked),
        wanted(*waits_for),
        place.unwrap_or_default()
    ))
}

fn longest_wait_sentence(report: &Report) -> Option<String> {
    let wait = report.longest_program_wait.as_ref().or(report.longest_wait.as_ref())?;
    let (waited, who) = (duration(wait.waited_ns), waiter_label(wait));
    let at = moment(wait.at_ns);
    Some(format!("The longest wait for a CPU was {waited}, of {who}, at {at}."))
}

fn whole(report: &Report) -> Option<String> {
    let cut = if report.recording.complete { "" } else { " The recording was cut off." };
    let overwritten = match report.overwritten_ns {
        0 => String::new(),
        first => {
            format!("The first {} were not kept, as asked. ", duration(first))
        }
    };
    let lost = match report.lost {
        0 if report.shortfall() == Shortfall::default() => "Nothing was lost.".to_owned(),
        0 => format!("Lost: {}.", report.shortfall().instead_of_losses()),
        lost => match (lost.saturating_sub(report.lost_of_own_programs), lost_text(report)) {
            (0, own) => format!("Nothing was lost but {own}."),
            (1, text) if lost == 1 => format!("*** {text} was lost. ***"),
            (_, text) => format!("*** {text} were lost. ***"),
        },
    };
    Some(overwritten + &lost + cut)
}

/// What is waited for, as a part of a sentence.
fn wanted(waits_for: WaitFor) -> String {
    match waits_for {
        WaitFor::PipeRoom => "room in a pipe".to_owned(),
        WaitFor::ChannelRoom => "room in a channel".to_owned(),
        WaitFor::Uninterruptible => "something of the kernel (uninterruptible)".to_owned(),
        WaitFor::Connect => "a connection".to_owned(),
        WaitFor::Stopped => "a signal to go on".to_owned(),
        WaitFor::Gil | WaitFor::Io => waits_for.name().to_owned(),
        _ => format!("a {}", waits_for.name()),
    }
}
