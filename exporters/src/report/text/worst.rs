//! The longest waits in words.

use crate::report::columns::{duration, wrapped};
use crate::report::data::*;
use crate::report::text::{ReportText, blocked_in_label, count, shown, some_of};

/// Lines that what ran meanwhile may take.
const MEANWHILE_LINES: usize = 2;
/// Lines that who woke a thread may take, with a stack.
const WAKER_LINES: usize = 2;
/// Where the words below a wait begin.
const INDENT: usize = 24;

impl Report {
    /// The longest waits as text in lines of `width` characters.
    pub fn worst_text(&self, width: usize) -> String {
        let mut out = ReportText { text: String::new(), width };
        out.head(self);
        let WorstWaits { for_cpu, blocked, idle_left_out, locks } = &self.worst;
        out.waits_for_cpu(for_cpu, &self.recording);
        out.blocked_waits(blocked);
        out.idle_left_out(*idle_left_out);
        out.lock_waits(locks);
        out.fence_waits(&self.gpu_waits);
        let but = if *idle_left_out > 0 { " but idle ones" } else { "" };
        let asleep = self.off_cpu.asleep_throughout.pointer();
        let all = for_cpu.total + blocked.total + locks.total + self.gpu_waits.total;
        match asleep.filter(|_| blocked.total == 0) {
            Some(asleep) => {
                out.text.push('\n');
                out.paragraph(&format!("No thread{but} blocked and woke in this time; {asleep}"));
            }
            None if all == 0 => out.title(&format!(
                "No thread{but} waited for anything from its beginning to its end, as far as was \
                 recorded"
            )),
            None => {}
        }
        out.text
    }
}

impl ReportText {
    fn waits_for_cpu(&mut self, waits: &Table<CpuWaitRow>, recording: &Recording) {
        if waits.rows.is_empty() {
            return;
        }
        self.title(&some_of(
            "Longest waits for a CPU (runnable, not running)",
            waits.rows.len(),
            waits.total,
        ));
        for row in &waits.rows {
            let began = match &row.woken_by {
                _ if row.preempted => "preempted".to_owned(),
                Some(waker) => format!("woken by {}", waker_label(waker)),
                None => "woken".to_owned(),
            };
            self.waiter(&row.waiter, &began);
            let ran = row.meanwhile.iter().map(|ran| (thread(&ran.thread, ran.tid), ran.ran_ns));
            let others = (row.other_threads > 0)
                .then(|| (count(row.other_threads as u64, "other thread"), row.other_threads_ns));
            let mut ran = ran
                .chain(others)
                .map(|(who, ran)| format!("{who} {}", duration(ran)))
                .collect::<Vec<_>>();
            let part = if row.meanwhile_is_part { "at least " } else { "" };
            let is_filtered = recording.is_filtered_on(row.cpu.machine);
            let words = match ran.is_empty() {
                true if is_filtered => {
                    format!("{} ran meanwhile what was not recorded (-p)", row.cpu)
                }
                true => format!("{} ran meanwhile what was not recorded", row.cpu),
                false => {
                    ran.extend(unknown_label(row.meanwhile_unknown_ns, is_filtered));
                    format!("{} ran meanwhile: {part}{}", row.cpu, ran.join(", "))
                }
            };
            self.below(&[words]);
        }
    }

    fn blocked_waits(&mut self, waits: &Table<BlockedWaitRow>) {
        if waits.rows.is_empty() {
            return;
        }
        self.title(&some_of("Longest times blocked", waits.rows.len(), waits.total));
        for row in &waits.rows {
            let place = blocked_in_label(row.blocked_in.as_deref(), &row.state, row.io_wait);
            self.waiter(&row.waiter, &format!("{}: {place}", row.waits_for));
            if !row.stack.frames.is_empty() {
                self.frames_of_stack(&row.stack);
            }
            match &row.woken_by {
                Some(waker) => self.woken_by(waker),
                None => self.below(&["who woke it was not recorded".to_owned()]),
            }
        }
    }

    /// Who woke a thread, and where that was done, as far as there is a stack.
    fn woken_by(&mut self, waker: &WakerRow) {
        let words = format!("woken by {}", waker_label(waker));
        if waker.stack.frames.is_empty() {
            return self.below(&[words]);
        }
        let words: Vec<String> = format!("{words}, in").split(' ').map(str::to_owned).collect();
        self.stack_label(INDENT, WAKER_LINES, &words, &waker.stack);
    }

    fn idle_left_out(&mut self, times: usize) {
        if times > 0 {
            let times = count(times as u64, "time");
            self.title(&format!("Idle threads were asleep {times}: --idle shows them, too"));
        }
    }

    fn lock_waits(&mut self, waits: &Table<LockWaitRow>) {
        if waits.rows.is_empty() {
            return;
        }
        self.title(&some_of("Longest waits for locks", waits.rows.len(), waits.total));
        for row in &waits.rows {
            let holder = row
                .holder
                .as_deref()
                .map_or(String::new(), |holder| format!(", held by {}", shown(holder)));
            let end = if row.obtained { "" } else { ", given up" };
            self.waiter(&row.waiter, &format!("for {}{holder}{end}", shown(&row.lock)));
        }
    }

    fn waiter(&mut self, waiter: &Waiter, what: &str) {
        let who = waiter_label(waiter);
        let unknown = match waiter.unknown_ns {
            0 => String::new(),
            unknown => format!(" (and {} of which nothing is known)", duration(unknown)),
        };
        self.line(&format!(
            "  {:>7} at {}  {who}, {what}{unknown}",
            duration(waiter.waited_ns),
            moment(waiter.at_ns)
        ));
    }

    fn below(&mut self, words: &[String]) {
        let words: Vec<String> =
            words.iter().flat_map(|words| words.split(' ').map(str::to_owned)).collect();
        wrapped(&mut self.text, self.width, INDENT, MEANWHILE_LINES, &words);
    }
}

/// `209 ms not recorded (-p)`, where only some processes were recorded, and `209 ms unknown`.
fn unknown_label(nanoseconds: u64, is_filtered: bool) -> Option<String> {
    let why = if is_filtered { "not recorded (-p)" } else { "unknown" };
    (nanoseconds > 0).then(|| format!("{} {why}", duration(nanoseconds)))
}

/// `cc1 (71)`, and `worker (72) of cc1 (71)`.
pub(in crate::report) fn waiter_label(waiter: &Waiter) -> String {
    thread_label(&waiter.thread, waiter.tid, &waiter.process, waiter.pid)
}

pub(in crate::report) fn thread_label(name: &str, tid: u32, process: &str, pid: u32) -> String {
    let who = thread(name, tid);
    if tid == pid { who } else { format!("{who} of {} ({pid})", shown(process)) }
}

/// A time of the recording to the microsecond, as `--from` and `--to` take it.
pub(in crate::report) fn moment(nanoseconds: u64) -> String {
    format!("{}.{:06}s", nanoseconds / 1_000_000_000, nanoseconds / 1_000 % 1_000_000)
}

fn thread(name: &str, tid: u32) -> String {
    // The idle task of every CPU has the id 0.
    if tid == 0 { "idle".to_owned() } else { format!("{} ({tid})", shown(name)) }
}

fn waker_label(waker: &WakerRow) -> String {
    match waker.kind {
        WakerKind::Thread => format!("{} on {}", thread(&waker.thread, waker.tid), waker.cpu),
        WakerKind::Interrupt => format!("an interrupt on {}", waker.cpu),
        WakerKind::Unknown => format!("an unknown thread on {}", waker.cpu),
    }
}
