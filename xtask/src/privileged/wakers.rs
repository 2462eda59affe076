//! Who is said to wake a thread: the thread that does it, and nobody where an
//! interrupt does, also one that comes while a program computes and so runs on
//! the stack of a thread that has nothing to do with it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, Tables, Time};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::context::{Context, kernel_at_least, number};

const ROUNDS: u64 = 1000;

/// Threads that a timer wakes while another one computes on the same CPU have no waker; those that
/// this one wakes by a system call have it.
pub(crate) fn wakers(context: &Context) -> Result<String> {
    let rounds = context.times(ROUNDS);
    let capture = context.path("wakers.syscap");
    let options = ["--stacks", "wakers"];
    let reported = context.record(&capture, &options, &["timers", &rounds.to_string(), "0"])?;
    let reported = reported.last().context("the load printed nothing")?;
    let (timed, called, calling) =
        (tid(reported, "timed")?, tid(reported, "called")?, tid(reported, "calling")?);
    let wakers = Wakers::of(&capture)?;

    let by_interrupts = wakers.count(timed, None);
    let by_threads = wakers.of_thread(timed) - by_interrupts;
    // One who makes the thread, and those who wait for the same lock of its memory. On a busy
    // machine a timer may find the thread awake, before it waits again.
    ensure!(
        by_interrupts >= rounds - rounds / 100 && by_threads <= 3,
        "of the {rounds} times that a timer woke the thread, interrupts are said to have done \
         {by_interrupts}, threads {by_threads}: {wakers:?}"
    );
    // A call finds the thread awake where this was preempted before it read again.
    let calls = number(reported, "calls")?;
    let by_calls = wakers.count(called, Some(calling));
    ensure!(
        by_calls >= calls / 2,
        "of {calls} calls of thread {calling}, {by_calls} are said to have woken the thread: \
         {wakers:?}"
    );
    let by_interrupts_too = wakers.count(called, None);
    ensure!(
        by_interrupts_too == 0,
        "{by_interrupts_too} interrupts are said to have woken the thread that is only called: \
         {wakers:?}"
    );
    Ok(format!(
        "{by_interrupts} wakeups by timers over a busy thread without a waker, {by_calls} of \
         {calls} calls with"
    ))
}

/// A thread's number as the load printed it.
fn tid(reported: &Value, name: &str) -> Result<u32> {
    number(reported, name).map(|tid| tid as u32)
}

/// Threads that wake each other through a socket are each other's wakers, though the kernel wakes
/// from a software interrupt then; a timer that comes while the kernel is at work is nobody's.
pub(crate) fn softirqs(context: &Context) -> Result<String> {
    let rounds = context.times(ROUNDS);
    let (reported, wakers) = recorded(context, "send", rounds)?;
    let (asking, answering) = (tid(&reported, "asking")?, tid(&reported, "answering")?);
    let sent = wakers.count(answering, Some(asking)) + wakers.count(asking, Some(answering));
    let by_interrupts = wakers.count(answering, None) + wakers.count(asking, None);
    // Who was preempted before it waits needs nobody to wake it. Before 5.12 the kernel does not
    // keep where it left the task's stack. A hardware interrupt may send what waits.
    let known = kernel_at_least(5, 12)?;
    ensure!(
        sent + by_interrupts >= rounds && (!known || by_interrupts <= sent / 4),
        "of {} times that two threads woke each other by TCP, {sent} are theirs and \
         {by_interrupts} interrupts': {wakers:?}",
        rounds * 2
    );

    let (reported, wakers) = recorded(context, "timers-in-kernel", rounds)?;
    let timed = tid(&reported, "timed")?;
    let by_timers = wakers.count(timed, None);
    let by_threads = wakers.of_thread(timed) - by_timers;
    // Threads make the thread, and wait with it for a lock.
    ensure!(
        by_timers >= rounds - rounds / 50 && by_threads <= 3 + rounds / 100,
        "of {rounds} times that a timer woke the thread, interrupts are said to have done \
         {by_timers}, threads {by_threads}: {wakers:?}"
    );
    Ok(format!(
        "{sent} of {} wakeups by TCP have the sender as waker, {by_threads} of {rounds} by timers \
         over the kernel's work have one",
        sent + by_interrupts
    ))
}

/// What the load printed last, and what was recorded of it.
fn recorded(context: &Context, load: &str, rounds: u64) -> Result<(Value, Wakers)> {
    let capture = context.path(&format!("wakers-{load}.syscap"));
    let options = ["--stacks", "wakers"];
    let reported = context.record(&capture, &options, &[load, &rounds.to_string(), "0"])?;
    let reported = reported.last().context("the load printed nothing")?.clone();
    Ok((reported, Wakers::of(&capture)?))
}

/// Wakeups by the thread that is woken, and the one said to do it; `None` is an interrupt.
#[derive(Debug, Default)]
struct Wakers(BTreeMap<(u32, Option<u32>), u64>);

impl Wakers {
    fn of(capture: &Path) -> Result<Self> {
        let mut wakers = Self::default();
        Session::open(CaptureReader::open(capture)?)?.play(&mut wakers)?;
        Ok(wakers)
    }

    fn count(&self, woken: u32, waker: Option<u32>) -> u64 {
        self.0.get(&(woken, waker)).copied().unwrap_or(0)
    }

    fn of_thread(&self, thread: u32) -> u64 {
        self.0.iter().filter(|((woken, _), _)| *woken == thread).map(|(_, count)| count).sum()
    }
}

impl Exporter for Wakers {
    type Error = anyhow::Error;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<()> {
        if let Event::Wakeup(wakeup) = event {
            let wakee = tables.thread(wakeup.wakee).tid;
            let waker = wakeup.waker.filter(|_| !wakeup.from_interrupt);
            let waker = waker.map(|waker| tables.thread(waker).tid);
            *self.0.entry((wakee, waker)).or_default() += 1;
        }
        Ok(())
    }
}
