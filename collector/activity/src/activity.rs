//! Seconds, made of the chunks of a recording that goes on.

use crate::functions::Functions;
use crate::history::History;
use crate::interval::Interval;
use crate::machine::Machine;
use crate::names::{Named, Names, ThreadName};
use crate::rows;
use crate::zones::{ClosedZones, Zones};
use std::collections::VecDeque;
use std::sync::Arc;
use syscollect_merge::{LiveRecord, LiveRecords};
use syscollect_model::{Lane, LaneKind, Ticks};
use syscollect_records::{RecordKind, SampleRecord, SchedStackRecord, TaskRecord};
use syscollect_store::{Chunk, Definition, LeftOutChunks};

/// Clock readings without which no record comes.
const FIRST_READINGS: u64 = 2;
/// How long the first second waits for the list of who sleeps, seconds: without it, what began
/// before the recording counts from when it is first heard of.
const LONGEST_LISTING: u64 = 2;
/// How far behind a recording this may be, seconds: where it stood still for longer, as a machine
/// that sleeps does, it goes on from now.
const MOST_BEHIND: u64 = 60;
/// Definitions that are read, by their names in JSON.
const DEFINITIONS: [&str; 4] = ["session", "processes", "clients", "mappings"];

/// What a recording that goes on says of each second: see the [`crate`].
#[derive(Default)]
pub struct Activity {
    records: LiveRecords,
    machine: Machine,
    names: Names,
    zones: Zones,
    functions: Functions,
    history: History,
    /// Ticks of a second; 0 until that is known.
    second: u64,
    readings: u64,
    /// Threads were listed.
    is_listed: bool,
    /// When the first second begins at the latest.
    begins_by: Option<u64>,
    /// Where the present second ends, once there is one.
    end: Option<u64>,
    /// Seconds so far.
    number: u64,
    /// No record of before comes any more.
    now: u64,
    /// CPUs of which chunks were left out behind what is to be decided on next.
    left_out: Vec<u16>,
    /// Chunks that were left out so far.
    missed: u64,
}

impl Activity {
    /// Whether chunks of such lanes are to be fed.
    pub fn wants(kind: LaneKind) -> bool {
        use LaneKind::{Clock, Definition, Mapping, Sched, Task, Zone, ZoneLog};
        matches!(kind, Definition | Clock | Task | Sched | Zone | ZoneLog | Mapping)
    }

    /// Whether chunks of such lanes are to be fed, too, once [functions](Self::follow_functions)
    /// are followed.
    pub fn wants_for_functions(kind: LaneKind) -> bool {
        matches!(kind, LaneKind::Sample | LaneKind::SampleStack | LaneKind::SchedStack)
    }

    /// From now on each second has its functions, too.
    pub fn follow_functions(&mut self) {
        self.functions.follow();
    }

    /// What is known of functions.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The same, to ask for what has no names, and to add those.
    pub fn functions_mut(&mut self) -> &mut Functions {
        &mut self.functions
    }

    /// The next chunk of its lane.
    pub fn feed(&mut self, chunk: Chunk) {
        match chunk.header.lane.kind {
            LaneKind::Definition => self.define(&chunk.data),
            LaneKind::ZoneLog => self.zones.names.feed(&chunk.data),
            LaneKind::Mapping => self.functions.feed_mappings(chunk, self.records.clock()),
            kind if kind.is_stack() => self.functions.feed_stacks(&chunk),
            kind if Self::wants(kind) || Self::wants_for_functions(kind) => {
                if kind == LaneKind::Clock {
                    self.readings += u64::from(chunk.header.records);
                }
                self.records.feed(chunk);
            }
            _ => {}
        }
    }

    /// Chunks of a lane were left out behind those that were fed. Where a program wrote them, they
    /// are missing of that program alone.
    pub fn left_out(&mut self, left_out: &LeftOutChunks) {
        let LeftOutChunks { lane, producer, chunks } = *left_out;
        self.missed += chunks;
        match lane.kind {
            LaneKind::Sched => self.left_out.push(lane.index),
            // A log is only names: what lacks one is counted.
            LaneKind::ZoneLog => {}
            LaneKind::Zone => {
                let until = self.now.saturating_add(self.second);
                self.zones.left_out(producer.as_ref(), until);
            }
            LaneKind::Mapping => self.functions.mark_incomplete(),
            kind if Self::wants_for_functions(kind) => self.functions.mark_incomplete(),
            _ => self.machine.mark_incomplete(),
        }
    }

    /// Chunks that were [left out](Self::left_out) so far.
    pub fn missed_chunks(&self) -> u64 {
        self.missed
    }

    /// The seconds that are over and still kept, the oldest first.
    pub fn history(&self) -> &VecDeque<Arc<Interval>> {
        self.history.intervals()
    }

    fn define(&mut self, json: &[u8]) {
        // Others are long, and not asked for.
        if !DEFINITIONS.iter().any(|name| Definition::is_named(json, name)) {
            return;
        }
        match Definition::from_json(json) {
            Ok(Some(Definition::Session(info))) => {
                self.records.describe(&info);
                if self.second == 0 && info.tick_rate_hz >= 1.0 {
                    self.second = info.tick_rate_hz.round() as u64;
                }
                let rate = u64::from(info.sample_rate_hz);
                self.functions.set_sample_ticks(self.second.checked_div(rate).unwrap_or(0));
                info.cpus.iter().for_each(|cpu| self.machine.add_cpu(cpu.cpu));
            }
            Ok(Some(Definition::Clients(list))) => {
                self.records.add_programs(&list);
                self.zones.names.add_programs(&list);
            }
            Ok(Some(Definition::Mappings(list))) => self.functions.list(list),
            Ok(Some(Definition::Processes(list))) => {
                self.is_listed = true;
                for process in &list {
                    self.names.add(process);
                    for thread in &process.threads {
                        if let Some(asleep) = &thread.asleep {
                            self.machine.listed_asleep(thread.tid, asleep.state);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// No record of before these ticks comes any more: the seconds that are over by then are made.
    pub fn nothing_before(&mut self, now: Ticks) {
        self.records.nothing_before(now);
        self.now = self.now.max(now.0);
        if self.second == 0 || self.readings < FIRST_READINGS {
            return;
        }
        let latest = now.0.saturating_add(self.second.saturating_mul(LONGEST_LISTING));
        let begins_by = *self.begins_by.get_or_insert(latest);
        let may_begin = self.is_listed || now.0 >= begins_by;
        let Self { records, machine, names, zones, functions, history, .. } = self;
        let Self { end, number, second, left_out, .. } = self;
        let second = *second;
        let mut seconds =
            Seconds { machine, names, zones, functions, history, end, number, second };
        records.take_each(|lane, at, record| seconds.on(*lane, at.0, &record));
        for cpu in left_out.drain(..) {
            let from = seconds.machine.left_out(cpu);
            seconds.history.mark_incomplete(from);
        }
        seconds.functions.locate(now.0);
        if may_begin || seconds.end.is_some() {
            seconds.until(now.0);
        }
    }
}

/// All but the records, while these are taken.
struct Seconds<'a> {
    machine: &'a mut Machine,
    names: &'a mut Names,
    zones: &'a mut Zones,
    functions: &'a mut Functions,
    history: &'a mut History,
    end: &'a mut Option<u64>,
    number: &'a mut u64,
    second: u64,
}

impl Seconds<'_> {
    /// Ends the seconds that are over by then.
    #[inline]
    fn until(&mut self, now: u64) {
        match *self.end {
            Some(end) if now < end => {}
            Some(end) => self.end_all(end, now),
            // What was before is no whole second.
            None => {
                self.machine.close(now, |_, _, _, _| {});
                self.zones.close([now, now], self.names);
                *self.end = Some(now.saturating_add(self.second));
            }
        }
    }

    fn end_all(&mut self, mut end: u64, now: u64) {
        let longest = MOST_BEHIND.saturating_mul(self.second);
        if now - end > longest {
            // Nothing is said of what it stood still for.
            self.machine.mark_incomplete();
            self.close(end);
            self.machine.close(now, |_, _, _, _| {});
            *self.end = Some(now.saturating_add(self.second));
            return;
        }
        while end <= now {
            self.close(end);
            end = end.saturating_add(self.second);
        }
        *self.end = Some(end);
    }

    fn close(&mut self, end: u64) {
        let Self { machine, names, zones, functions, history, number, second, .. } = self;
        let interval = machine.close(end, |threads, unfollowed, blocked, interval| {
            rows::keep(interval, threads, unfollowed, names);
            interval.functions = functions.close(blocked, rows::blocked(interval, threads));
        });
        if functions.begin_anew() {
            machine.forget_stacks();
        }
        let ClosedZones { rows, others, missing } = zones.close([interval.start.0, end], names);
        history.push(Interval {
            number: **number,
            zones: rows,
            other_zones: others,
            zones_incomplete: missing.is_any,
            zones_incomplete_users: missing.of_users,
            ..interval
        });
        **number += 1;
        names.forget_ended(end.saturating_sub(*second));
    }

    #[inline]
    fn on(&mut self, lane: Lane, at: u64, record: &LiveRecord<'_>) {
        if self.end.is_some() {
            self.until(at);
        }
        match record {
            LiveRecord::Sched(record) => self.on_sched(lane, at, record),
            LiveRecord::Sample(record) => self.on_sample(lane, record),
            LiveRecord::ChunkStart { current_tid, is_missing } => match lane.kind {
                LaneKind::Sched => {
                    let gap = self.machine.chunk(lane.index, at, *current_tid, *is_missing);
                    self.mark_incomplete(gap);
                }
                LaneKind::Zone => {}
                LaneKind::Sample if *is_missing => self.functions.mark_incomplete(),
                LaneKind::Sample => {}
                // Who ended, and who is called how by now, is not told again.
                _ if *is_missing => self.machine.mark_incomplete(),
                _ => {}
            },
            LiveRecord::Task(record) => self.on_task(at, record),
            LiveRecord::ZoneStart(chunk, is_missing) => {
                self.zones.chunk(lane, chunk, *is_missing);
            }
            LiveRecord::Zone(words) => self.zones.on(lane, at, words, self.second),
            _ => {}
        }
    }

    #[inline]
    fn on_sched(&mut self, lane: Lane, at: u64, record: &SchedStackRecord) {
        const SWITCH: u8 = RecordKind::Switch as u8;
        const WAKING: u8 = RecordKind::Waking as u8;
        const WAKEUP_NEW: u8 = RecordKind::WakeupNew as u8;
        const RESUME: u8 = RecordKind::Resume as u8;
        let cpu = lane.index;
        let SchedStackRecord { event: record, user_stack, kernel_stack } = record;
        match record.stamp.split().1 {
            SWITCH => {
                let Self { machine, names, functions, .. } = self;
                let stack = functions.stack(lane, [*user_stack, *kernel_stack], || {
                    names.get(machine.current_tid(cpu)).map_or(0, |named| named.pid)
                });
                machine.switch(cpu, at, record, stack);
            }
            WAKING => self.machine.waking(cpu, at, record, false),
            WAKEUP_NEW => {
                self.names.begins(record.tid);
                self.machine.waking(cpu, at, record, true);
            }
            RESUME => {
                let gap = self.machine.resume(cpu, at, record);
                self.mark_incomplete(gap);
            }
            _ => self.machine.heard(cpu, at),
        }
    }

    fn on_sample(&mut self, lane: Lane, record: &SampleRecord) {
        // Of a CPU that has nothing to do there is nothing to say.
        if record.tid == 0 {
            return;
        }
        let Self { names, functions, .. } = self;
        let pid_of = || names.get(record.tid).map_or(0, |named| named.pid);
        let stack = functions.stack(lane, [record.user_stack, record.kernel_stack], pid_of);
        functions.sample(stack);
    }

    fn on_task(&mut self, at: u64, record: &TaskRecord) {
        let Some(kind) = RecordKind::from_number(record.stamp.split().1) else { return };
        let TaskRecord { tid, tgid, parent_tid, parent_tgid, comm, .. } = *record;
        self.names.on(at, kind, record);
        match kind {
            RecordKind::Fork if tgid != parent_tgid => self.functions.forks(at, parent_tgid, tgid),
            RecordKind::Exec if parent_tid != 0 && parent_tid != tid => {
                self.machine.takes_number(parent_tid, tid);
            }
            RecordKind::Exit => {
                self.zones.thread_ended(tid, at);
                self.machine.exits(tid, Named { pid: tgid, name: ThreadName::new(&comm) });
                if tid == tgid {
                    self.functions.ends(at, tgid);
                    self.zones.ended(tgid);
                }
            }
            _ => {}
        }
    }

    fn mark_incomplete(&mut self, gap: Option<u64>) {
        if let Some(from) = gap {
            self.history.mark_incomplete(from);
        }
    }
}
