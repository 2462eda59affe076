//! Whether what a capture keeps has names: its events' processes and threads, and their stacks.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;

use anyhow::Result;
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, SleepState, StackCut, StackId, Tables, ThreadId, Time};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

/// Of so many programs it is said how many stacks they lack.
const SHOWN: usize = 5;

/// How many there are, and how many of them have what they should have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    pub(super) all: u64,
    pub(super) good: u64,
}

impl Share {
    fn count(&mut self, is_good: bool) {
        self.add(Self { all: 1, good: u64::from(is_good) });
    }

    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.good += other.good;
    }

    /// Between 0 and 1; 1 where there is none.
    pub(super) fn part(self) -> f64 {
        if self.all == 0 { 1.0 } else { self.good as f64 / self.all as f64 }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} % of {}", self.part() * 100.0, self.all)
    }
}

/// What of a capture's events has names.
#[derive(Debug, Default)]
pub(super) struct NamedEvents {
    /// Threads of events, and those of them that have a name.
    pub(super) threads: Share,
    /// Their processes.
    pub(super) processes: Share,
    /// Events that have a stack, and those of them of whose stack no part was lost.
    pub(super) stacks: Share,
    /// Frames of these stacks, and those that have a function's name.
    pub(super) frames: Share,
    /// Frames of each stack.
    of_stacks: HashMap<StackId, Share>,
    /// Events whose stack was lost, by the name of their program.
    lacking: BTreeMap<String, u64>,
}

impl NamedEvents {
    pub(super) fn read(capture: &Path) -> Result<Self> {
        let mut read = Self::default();
        Session::open(CaptureReader::open(capture)?)?.play(&mut read)?;
        Ok(read)
    }

    /// Whose stacks were lost most often.
    pub(super) fn lacking(&self) -> String {
        let mut lacking: Vec<_> = self.lacking.iter().collect();
        lacking.sort_by_key(|(_, events)| std::cmp::Reverse(**events));
        let shown = lacking.iter().take(SHOWN).map(|(name, events)| format!("{events} of {name}"));
        shown.collect::<Vec<_>>().join(", ")
    }

    fn thread(&mut self, thread: ThreadId, tables: &Tables) {
        let row = tables.thread(thread);
        self.threads.count(!tables.strings.get(row.name).is_empty());
        self.processes.count(!tables.strings.get(tables.process(row.process).name).is_empty());
    }

    fn stack(&mut self, thread: ThreadId, stack: Option<StackId>, tables: &Tables) {
        let frames = stack.map_or(&[][..], |stack| tables.stack(stack));
        let cut = frames.last().and_then(|frame| tables.truncated_by(*frame));
        let Some(stack) = stack.filter(|_| cut != Some(StackCut::Lost)) else {
            self.stacks.count(false);
            let process = tables.process(tables.thread(thread).process);
            let name = tables.strings.get(process.name).to_owned();
            *self.lacking.entry(name).or_default() += 1;
            return;
        };
        self.stacks.count(true);
        let of_stack = self.of_stacks.entry(stack).or_insert_with(|| {
            let mut of_stack = Share::default();
            let frames = frames.iter().filter(|frame| !tables.is_truncation(**frame));
            frames.for_each(|frame| of_stack.count(!tables.frame(*frame).is_unnamed()));
            of_stack
        });
        self.frames.add(*of_stack);
    }
}

impl fmt::Display for NamedEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { threads, processes, stacks, frames, .. } = self;
        write!(
            f,
            "of threads of events {threads} have names, of processes {processes}, of stacks \
             {stacks} are there, of their frames {frames} have names"
        )
    }
}

fn is_asleep(state: SleepState) -> bool {
    matches!(state, SleepState::Interruptible | SleepState::Uninterruptible | SleepState::Idle)
}

impl Exporter for NamedEvents {
    type Error = anyhow::Error;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<()> {
        match event {
            Event::Switch(switch) => {
                self.thread(switch.next, tables);
                switch.previous.into_iter().for_each(|previous| self.thread(previous, tables));
            }
            Event::Wakeup(wakeup) => {
                self.thread(wakeup.wakee, tables);
                wakeup.waker.into_iter().for_each(|waker| self.thread(waker, tables));
            }
            Event::Migration(migration) => self.thread(migration.thread, tables),
            Event::Sample(sample) => self.thread(sample.thread, tables),
            _ => {}
        }
        let (thread, stack) = match event {
            Event::Sample(sample) => (Some(sample.thread), sample.stack),
            // Who is preempted does not block, and has none; nor has who ends.
            Event::Switch(switch) if is_asleep(switch.off_cpu.state) => {
                (switch.previous, switch.off_cpu.stack)
            }
            Event::Wakeup(wakeup) if !wakeup.from_interrupt => (wakeup.waker, wakeup.stack),
            _ => return Ok(()),
        };
        // Idle has none.
        match thread {
            Some(thread) if thread != Tables::IDLE_THREAD => self.stack(thread, stack, tables),
            _ => {}
        }
        Ok(())
    }
}
