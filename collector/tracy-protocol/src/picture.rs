//! What is open at a time: who runs, which zones, who holds which lock.
//!
//! Of what was recorded it makes a history that can have happened, whatever was lost of it, and
//! tells each step to a viewer that has heard all so far. A viewer that joins later, or was told
//! nothing for a while, gets the difference between what it knows and what is.

use crate::catalogue::{EndedRow, LocationId, LockId, PlotId, SetId, StackId};
use crate::event::{Event, LockAction, Switch, ZoneWords};
use crate::viewer::{LockStep, LockStepKind, Moment, SwitchStep, Viewer};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};

/// The viewer counts in 8 bits how deep zones nest.
const MOST_DEEP: usize = 250;
/// The viewer counts in 8 bits how often a lock is held.
const MOST_HELD: u32 = 200;
/// A state that is not known.
const UNKNOWN: i8 = -1;

/// A zone that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpenZone {
    /// It is the one with this number since the recording began.
    number: u64,
    start: i64,
    location: LocationId,
    stack: Option<StackId>,
}

/// The zones of a thread that have not ended.
#[derive(Clone, Debug, Default, PartialEq)]
struct OpenZones {
    open: Vec<OpenZone>,
    /// Those inside that are too deep.
    deeper: u32,
}

/// What a thread does with a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct LockThread {
    waits: bool,
    waits_to_read: bool,
    reads: u32,
}

/// Who holds a lock alone, and how often; who waits, and who reads.
#[derive(Clone, Debug, Default, PartialEq)]
struct LockState {
    owner: Option<(u32, u32)>,
    threads: BTreeMap<u32, LockThread>,
}

/// All that is open.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Picture {
    /// When the latest event was.
    pub(crate) time: i64,
    cpus: Vec<u32>,
    /// Where a thread runs.
    runs: FxHashMap<u32, u8>,
    /// Threads that were woken since they left their CPU.
    woken: FxHashSet<u32>,
    zones: BTreeMap<u32, OpenZones>,
    zones_begun: u64,
    locks: BTreeMap<LockId, LockState>,
    plots: BTreeMap<PlotId, f64>,
    frames: BTreeSet<SetId>,
}

/// Who is told, if anybody.
type ConnectedViewer<'a> = Option<&'a mut Viewer>;

impl Picture {
    /// While nobody looks not all of scheduling is heard of: who was woken then may have run since.
    pub(crate) fn forget_woken(&mut self) {
        self.woken.clear();
    }

    /// Takes in an event, and tells it.
    pub(crate) fn apply(&mut self, event: &Event, at: Moment<'_>, mut viewer: ConnectedViewer<'_>) {
        self.time = self.time.max(at.time);
        match event {
            Event::Switch(switch) => self.switch(switch, at, viewer),
            Event::Gap(None) => {
                (0..self.cpus.len())
                    .for_each(|cpu| self.leave(cpu as u8, at, viewer.as_deref_mut()));
            }
            Event::Gap(Some(cpu)) => self.leave(*cpu, at, viewer),
            Event::Wakeup { cpu, thread } => {
                // Of a thread that is asleep the first counts; one that still runs is on its way to
                // sleep, and the last counts.
                if (self.woken.insert(*thread) || self.runs.contains_key(thread))
                    && let Some(viewer) = viewer
                {
                    viewer.wakeup(*cpu, *thread, at);
                }
            }
            Event::Sample { thread, stack } => {
                viewer.into_iter().for_each(|viewer| viewer.sample(*thread, *stack, false, at));
            }
            Event::ZoneBegin { thread, location, stack } => {
                let zones = self.zones.entry(*thread).or_default();
                if zones.open.len() >= MOST_DEEP || zones.deeper > 0 {
                    zones.deeper += 1;
                    return;
                }
                self.zones_begun += 1;
                let number = self.zones_begun;
                let (location, stack) = (*location, *stack);
                zones.open.push(OpenZone { number, start: at.time, location, stack });
                if let Some(viewer) = viewer {
                    viewer.zone_begin(*thread, location, stack, at);
                }
            }
            Event::ZoneEnd { thread, said } => {
                self.zone_end(*thread, said.as_deref(), at, viewer);
            }
            Event::Message(message) => {
                viewer.into_iter().for_each(|viewer| viewer.message(message, at));
            }
            Event::Plot(plot, value) => {
                self.plots.insert(*plot, *value);
                viewer.into_iter().for_each(|viewer| viewer.plot(*plot, *value, at));
            }
            Event::Load(percent) => {
                viewer.into_iter().for_each(|viewer| viewer.load(*percent, at));
            }
            Event::Lock { lock, thread, action, shared, location } => {
                let state = self.locks.entry(*lock).or_default();
                let mut location = *location;
                state.apply(*thread, *action, *shared, |thread, kind| {
                    if let Some(viewer) = &mut viewer {
                        let step = LockStep { lock: *lock, thread, kind };
                        viewer.lock_step(step, location.take(), at);
                    }
                });
            }
            Event::Memory(event) => {
                viewer.into_iter().for_each(|viewer| viewer.memory(event, at));
            }
            Event::FrameBegin(set) => self.frame_begin(*set, at, viewer),
            Event::FrameEnd(set) => {
                if self.frames.remove(set) {
                    viewer.into_iter().for_each(|viewer| viewer.frame(*set, false, at));
                }
            }
            Event::Job(context, job) => {
                viewer.into_iter().for_each(|viewer| viewer.job(*context, job, at));
            }
            Event::Ended(row) => self.ended(*row, at, viewer),
            Event::Crash { thread, text } => {
                viewer.into_iter().for_each(|viewer| viewer.crash(*thread, *text, at));
            }
        }
    }

    /// A row is gone: of what is open nothing is of it.
    fn ended(&mut self, row: EndedRow, at: Moment<'_>, mut viewer: ConnectedViewer<'_>) {
        match row {
            EndedRow::Plot(plot) => drop(self.plots.remove(&plot)),
            EndedRow::Set(set) => drop(self.frames.remove(&set)),
            EndedRow::Lock(lock) => drop(self.locks.remove(&lock)),
            EndedRow::Thread(thread) => {
                self.woken.remove(&thread);
                let open = self.zones.remove(&thread).map_or(0, |zones| zones.open.len());
                if let Some(viewer) = &mut viewer {
                    (0..open).for_each(|_| viewer.zone_end(thread, None, at));
                }
            }
            EndedRow::Location(_) | EndedRow::Pool(_) | EndedRow::Context(_) => {}
        }
        viewer.into_iter().for_each(|viewer| viewer.forget(row));
    }

    fn frame_begin(&mut self, set: SetId, at: Moment<'_>, mut viewer: ConnectedViewer<'_>) {
        // Of a set that is not continuous one frame is open at a time; of the others the beginnings
        // are all that is told.
        if at.catalogue.set(set).is_some_and(|set| !set.continuous)
            && !self.frames.insert(set)
            && let Some(viewer) = &mut viewer
        {
            viewer.frame(set, false, at);
        }
        viewer.into_iter().for_each(|viewer| viewer.frame(set, true, at));
    }

    fn zone_end(
        &mut self,
        thread: u32,
        said: Option<&ZoneWords>,
        at: Moment<'_>,
        viewer: ConnectedViewer<'_>,
    ) {
        let Some(zones) = self.zones.get_mut(&thread) else { return };
        if zones.deeper > 0 {
            zones.deeper -= 1;
            return;
        }
        zones.open.pop();
        if zones.open.is_empty() {
            self.zones.remove(&thread);
        }
        viewer.into_iter().for_each(|viewer| viewer.zone_end(thread, said, at));
    }

    fn cpu(&mut self, cpu: u8) -> &mut u32 {
        let index = usize::from(cpu);
        if index >= self.cpus.len() {
            self.cpus.resize(index + 1, 0);
        }
        &mut self.cpus[index]
    }

    /// It is not known any more what a CPU runs.
    fn leave(&mut self, cpu: u8, at: Moment<'_>, viewer: ConnectedViewer<'_>) {
        let old = std::mem::take(self.cpu(cpu));
        if old == 0 {
            return;
        }
        self.runs.remove(&old);
        if let Some(viewer) = viewer {
            viewer.switch(SwitchStep::unknown(cpu, old, 0), at);
        }
    }

    fn switch(&mut self, switch: &Switch, at: Moment<'_>, mut viewer: ConnectedViewer<'_>) {
        let Switch { cpu, previous, next, state, priorities, stack } = *switch;
        if let Some(other) = self.runs.get(&next).copied()
            && other != cpu
        {
            // How it left that CPU is lost.
            self.leave(other, at, viewer.as_deref_mut());
        }
        let old = std::mem::replace(self.cpu(cpu), next);
        let is_known = previous == Some(old);
        if old != 0 {
            self.runs.remove(&old);
        }
        if next != 0 {
            self.runs.insert(next, cpu);
            self.woken.remove(&next);
        }
        let Some(viewer) = viewer else { return };
        if (old, next) != (0, 0) {
            let state = if is_known { state } else { UNKNOWN };
            viewer.switch(SwitchStep { cpu, old, new: next, state, priorities }, at);
        }
        if let (Some(stack), Some(previous)) = (stack, previous.filter(|thread| *thread != 0)) {
            viewer.sample(previous, stack, true, at);
        }
    }

    /// Tells a viewer that knows `self` what is now, in `after`: since the first the viewer heard
    /// nothing. Of zones that ended meanwhile it says `of_ended`.
    pub(crate) fn tell_difference(
        &self,
        after: &Self,
        of_ended: Option<&ZoneWords>,
        at: Moment<'_>,
        viewer: &mut Viewer,
    ) {
        self.tell_cpus(after, at, viewer);
        self.tell_zones(after, of_ended, at, viewer);
        self.tell_locks(after, at, viewer);
        let is_new = |(plot, value): &(&PlotId, &f64)| self.plots.get(*plot) != Some(*value);
        for (plot, value) in after.plots.iter().filter(is_new) {
            viewer.plot(*plot, *value, at);
            viewer.cut();
        }
        for set in &self.frames {
            // Which frame it is that is open now is not known of each, so it is another one.
            viewer.frame(*set, false, at);
        }
        for set in &after.frames {
            viewer.frame(*set, true, at);
        }
    }

    fn tell_cpus(&self, after: &Self, at: Moment<'_>, viewer: &mut Viewer) {
        let now = |cpu: usize| after.cpus.get(cpu).copied().unwrap_or(0);
        // Before one comes to a CPU it has left its last one.
        for (cpu, old) in self.cpus.iter().enumerate() {
            if *old != 0 && now(cpu) != *old {
                viewer.switch(SwitchStep::unknown(cpu as u8, *old, 0), at);
            }
        }
        for (cpu, new) in after.cpus.iter().enumerate() {
            if *new != 0 && self.cpus.get(cpu) != Some(new) {
                viewer.switch(SwitchStep::unknown(cpu as u8, 0, *new), at);
                viewer.cut();
            }
        }
        let mut woken: Vec<u32> = after.woken.difference(&self.woken).copied().collect();
        woken.sort_unstable();
        for thread in woken {
            viewer.wakeup(0, thread, at);
            viewer.cut();
        }
    }

    fn tell_zones(
        &self,
        after: &Self,
        of_ended: Option<&ZoneWords>,
        at: Moment<'_>,
        viewer: &mut Viewer,
    ) {
        let nothing = OpenZones::default();
        for (thread, zones) in &self.zones {
            let now = after.zones.get(thread).unwrap_or(&nothing);
            let same = same_zones(zones, now);
            for _ in same..zones.open.len() {
                viewer.zone_end(*thread, of_ended, at);
            }
            viewer.cut();
        }
        for (thread, zones) in &after.zones {
            let before = self.zones.get(thread).unwrap_or(&nothing);
            // Behind zones that were ended above nothing begins before them.
            let has_ended = same_zones(before, zones) < before.open.len();
            let first = if has_ended { at.time } else { self.time };
            for zone in &zones.open[same_zones(before, zones)..] {
                // It may have begun before this viewer knows anything.
                let time = zone.start.max(first);
                let at = Moment { time, ..at };
                viewer.zone_begin(*thread, zone.location, zone.stack, at);
                viewer.cut();
            }
        }
    }

    fn tell_locks(&self, after: &Self, at: Moment<'_>, viewer: &mut Viewer) {
        let nothing = LockState::default();
        for (id, now) in &after.locks {
            let before = self.locks.get(id).unwrap_or(&nothing);
            let mut tell = |thread, kind| {
                viewer.lock_step(LockStep { lock: *id, thread, kind }, None, at);
                viewer.cut();
            };
            before.tell_difference(now, &mut tell);
        }
    }

    /// Nothing is open any more.
    pub(crate) fn without_open_zones(&self) -> Self {
        Self { zones: BTreeMap::new(), frames: BTreeSet::new(), ..self.clone() }
    }

    /// A viewer that knows nothing, from a time on.
    pub(crate) fn unknown(time: i64) -> Self {
        Self { time, ..Self::default() }
    }
}

/// How many of the outermost zones are the same.
fn same_zones(before: &OpenZones, after: &OpenZones) -> usize {
    let both = before.open.iter().zip(&after.open);
    both.take_while(|(before, after)| before.number == after.number).count()
}

impl SwitchStep {
    fn unknown(cpu: u8, old: u32, new: u32) -> Self {
        Self { cpu, old, new, state: UNKNOWN, priorities: [0; 2] }
    }
}

impl LockState {
    /// Takes in what a thread does: nobody obtains without waiting, or releases what nobody holds.
    fn apply(
        &mut self,
        thread: u32,
        action: LockAction,
        shared: bool,
        mut tell: impl FnMut(u32, LockStepKind),
    ) {
        match (action, shared) {
            (LockAction::Wait, false) => self.wait(thread, &mut tell),
            (LockAction::Wait, true) => self.wait_to_read(thread, &mut tell),
            (LockAction::Obtain, false) => {
                if let Some((owner, times)) = self.owner
                    && owner != thread
                {
                    // How that one let go is lost.
                    (0..times.min(MOST_HELD)).for_each(|_| tell(owner, LockStepKind::Release));
                    self.owner = None;
                }
                let before = self.owner.map_or(0, |(_, times)| times);
                self.owner = Some((thread, before.saturating_add(1)));
                if before < MOST_HELD {
                    self.wait(thread, &mut tell);
                    tell(thread, LockStepKind::Obtain);
                }
                self.threads.entry(thread).or_default().waits = false;
            }
            (LockAction::Obtain, true) => {
                self.wait_to_read(thread, &mut tell);
                let state = self.threads.entry(thread).or_default();
                state.waits_to_read = false;
                state.reads = state.reads.saturating_add(1);
                if state.reads == 1 {
                    tell(thread, LockStepKind::ObtainShared);
                }
            }
            (LockAction::Release, false) => {
                let Some((owner, times)) = self.owner else { return };
                self.owner = (times > 1).then(|| (owner, times - 1));
                if times <= MOST_HELD {
                    tell(owner, LockStepKind::Release);
                }
            }
            (LockAction::Release, true) => {
                let state = self.threads.entry(thread).or_default();
                let before = state.reads;
                state.reads = before.saturating_sub(1);
                if before == 1 {
                    tell(thread, LockStepKind::ReleaseShared);
                }
            }
        }
        if self.threads.get(&thread) == Some(&LockThread::default()) {
            self.threads.remove(&thread);
        }
    }

    fn wait(&mut self, thread: u32, tell: &mut impl FnMut(u32, LockStepKind)) {
        let state = self.threads.entry(thread).or_default();
        if !std::mem::replace(&mut state.waits, true) {
            tell(thread, LockStepKind::Wait);
        }
    }

    fn wait_to_read(&mut self, thread: u32, tell: &mut impl FnMut(u32, LockStepKind)) {
        let state = self.threads.entry(thread).or_default();
        // Who reads already does not wait to read.
        if state.reads == 0 && !std::mem::replace(&mut state.waits_to_read, true) {
            tell(thread, LockStepKind::WaitShared);
        }
    }

    /// Tells what is now to whom knows `self`.
    fn tell_difference(&self, now: &Self, tell: &mut impl FnMut(u32, LockStepKind)) {
        if self.owner != now.owner {
            if let Some((owner, times)) = self.owner {
                (0..times.min(MOST_HELD)).for_each(|_| tell(owner, LockStepKind::Release));
            }
            if let Some((owner, times)) = now.owner {
                for _ in 0..times.min(MOST_HELD) {
                    tell(owner, LockStepKind::Wait);
                    tell(owner, LockStepKind::Obtain);
                }
            }
        }
        for (thread, before) in &self.threads {
            let reads = now.threads.get(thread).map_or(0, |state| state.reads);
            if before.reads > 0 && reads == 0 {
                tell(*thread, LockStepKind::ReleaseShared);
            }
        }
        for (thread, state) in &now.threads {
            let before = self.threads.get(thread).copied().unwrap_or_default();
            if state.reads > 0 && before.reads == 0 {
                tell(*thread, LockStepKind::WaitShared);
                tell(*thread, LockStepKind::ObtainShared);
            }
            if state.waits && !before.waits {
                tell(*thread, LockStepKind::Wait);
            }
            if state.waits_to_read && !before.waits_to_read {
                tell(*thread, LockStepKind::WaitShared);
            }
        }
    }
}
