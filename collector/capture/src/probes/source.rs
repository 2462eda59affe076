//! The source of probe hits: drains the ring buffers of all CPUs into chunks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;

use syscollect_model::{ClockSource, LaneKind, LossCause, SessionInfo, Ticks};
use syscollect_records::{ProbeRecord, RecordKind};
use syscollect_store::{LaneLoss, LostRecord};

use super::announcements::Announcements;
use super::dropped_announcements::{self, Announcers, OverShareCounts};
use super::hit_shares::HitShares;
use super::keeper::UprobeKeeper;
use super::lookups::{Lookups, OF_LOOKUP};
use super::manager::{AttachContext, Manager, ManagerInbox};
use super::mapping_tree::LoadingTree;
use super::object::{LoadedObject, Settings, WalkMethod};
use super::plan::OF_CLIENT;
use super::program::ArgumentPrograms;
use crate::attach_method::AttachMethod;
use crate::bpf_object::SharedMaps;
use crate::chunk_sink::ChunkSink;
use crate::error::CaptureError;
use crate::options::{RecordOptions, UnwindMethod};
use crate::ring_buffers::{Counters, Counts, RingLane, bytes_of_each};
use crate::source::{Drained, Source};
use crate::stage::Flush;
use crate::zones::ZoneNotice;

/// Bytes of each CPU's ring buffer: what a CPU writes in the longest sleep of
/// the collector where somebody asked for probes, which may be hit a million
/// times a second.
const RING_BYTES: usize = 4 << 20;
/// The same where only instrumented programs without shared memory hit them.
const SMALL_RING_BYTES: usize = 256 << 10;
/// Different lists of arguments that the kernel program can hold: of them each owner of files has a
/// share, also where nobody asked for probes but instrumented programs have theirs.
const ARGUMENT_PROGRAMS: u32 = 4096;

/// What the source is started with.
pub(crate) struct Setup<'a> {
    /// What was asked for.
    pub(crate) options: &'a RecordOptions,
    /// Where stamps come from.
    pub(crate) clock: ClockSource,
    /// CPUs that may come up.
    pub(crate) possible_cpus: u32,
    /// Maps of the other object.
    pub(crate) shared: &'a SharedMaps,
    /// Takes definitions.
    pub(crate) sink: Arc<ChunkSink>,
    /// Takes announcements, and processes of instrumented programs.
    pub(crate) zones: Sender<ZoneNotice>,
    /// What can be done without in memory is.
    pub(crate) memory_is_short: bool,
    /// Unwind tables are made.
    pub(crate) unwind_tables: bool,
}

/// Hits of probes.
pub(crate) struct ProbeSource {
    announcements: Option<Announcements>,
    manager: Manager,
    loaded: LoadedObject,
    counters: Counters,
    hit_shares: HitShares,
    announcers: Announcers,
    beyond_shares: OverShareCounts,
    lanes: Vec<RingLane>,
    lookups: Lookups,
    /// Whether an instrumented program without shared memory was among those that hit.
    of_clients: bool,
    missing: Vec<String>,
    clients_told: bool,
    stop_asked: Arc<AtomicBool>,
    is_launching: bool,
}

/// Said once, when the first such mark arrives.
const NO_SHARED_MEMORY: &str = "an instrumented program could not share memory (seccomp, or ulimit \
                                -f, -n or -v): its marks came through probes, which costs it more";

impl ProbeSource {
    /// Loads the programs, makes the rings of these CPUs and begins to attach; the keeper holds
    /// what is attached.
    pub(crate) fn start(
        setup: Setup<'_>,
        keeper: UprobeKeeper,
        inbox: ManagerInbox,
        cpus: &[u32],
    ) -> Result<Self, CaptureError> {
        let walks = walk_method(&setup);
        let Setup { options, clock, possible_cpus, shared, sink, zones, memory_is_short, .. } =
            setup;
        let way = AttachMethod::of_this_kernel().map_err(|why| {
            CaptureError::system("cannot probe programs", std::io::Error::other(why))
        })?;
        let asked = options.gpu || !options.probes.is_empty();
        let settings = Settings {
            tsc: clock == ClockSource::Tsc,
            filter: !options.pids.is_empty(),
            possible_cpus,
            programs: ARGUMENT_PROGRAMS,
            ring_bytes: bytes_of_each(
                if asked { RING_BYTES } else { SMALL_RING_BYTES },
                possible_cpus,
            ),
            asked_by: options.asked_by,
            way,
            stacks: walks.filter(|_| asked),
        };
        // It takes megabytes while it is loaded; lists do, too.
        let tree = (!memory_is_short).then(LoadingTree::start).flatten();
        let mut missing = Vec::new();
        let loaded = load(&settings, shared, &mut missing)?;
        let (counters, hit_shares) = (loaded.counters()?, loaded.hit_shares()?);
        let (ring, ready) = loaded.announcements()?;
        let (announcers, beyond_shares) = (loaded.announcers()?, OverShareCounts::default());
        let announcements = Announcements::start(ring, ready, zones.clone(), beyond_shares.clone())
            .map_err(|error| {
                CaptureError::system("cannot wait for instrumented programs", error)
            })?;
        // Before anything is attached: a hit on a CPU that has no ring counts as lost.
        let lanes = cpus
            .iter()
            .map(|cpu| Ok(RingLane::new(LaneKind::Probe, *cpu, loaded.add_cpu(*cpu)?)))
            .collect::<Result<Vec<_>, CaptureError>>()?;
        let recorded = shared.get("recorded_processes").filter(|_| settings.filter);
        let work = AttachContext {
            way,
            on_probe: loaded.program(&loaded.on_probe, way)?,
            on_ring: loaded.program(&loaded.on_ring, way)?,
            tree,
            arguments: ArgumentPrograms::new(
                loaded.argument_programs()?,
                ARGUMENT_PROGRAMS,
                loaded.walks(),
            ),
            recorded: recorded
                .map(|fd| {
                    fd.try_clone()
                        .map_err(|error| CaptureError::system("cannot hold on to a map", error))
                })
                .transpose()?,
            specs: options.probes.clone(),
            gpu: options.gpu,
            launch: options.launch.clone(),
            asked_by: options.asked_by,
            sink,
            zones,
        };
        let manager = Manager::start(work, keeper, inbox)?;
        let announcements = Some(announcements);
        Ok(Self {
            announcements,
            manager,
            loaded,
            counters,
            hit_shares,
            announcers,
            beyond_shares,
            lanes,
            lookups: Lookups::default(),
            missing,
            of_clients: false,
            clients_told: false,
            stop_asked: Arc::clone(&options.stop_asked),
            is_launching: options.launch.is_some(),
        })
    }
}

/// How hits' stacks are walked, if they have any.
fn walk_method(setup: &Setup<'_>) -> Option<WalkMethod> {
    let wanted = setup.options.stacks.probes && setup.options.unwind != UnwindMethod::None;
    let method = if setup.unwind_tables { WalkMethod::Tables } else { WalkMethod::FramePointers };
    wanted.then_some(method)
}

/// Loads the programs; where the kernel refuses those that walk stacks, others, and says so.
fn load(
    settings: &Settings,
    shared: &SharedMaps,
    missing: &mut Vec<String>,
) -> Result<LoadedObject, CaptureError> {
    let ways = match settings.stacks {
        Some(WalkMethod::Tables) => {
            &[Some(WalkMethod::Tables), Some(WalkMethod::FramePointers)][..]
        }
        Some(WalkMethod::FramePointers) => &[Some(WalkMethod::FramePointers)][..],
        None => &[],
    };
    for stacks in ways {
        match LoadedObject::load(&Settings { stacks: *stacks, ..*settings }, shared) {
            Ok(loaded) => return Ok(loaded),
            Err(error) => {
                let what = match stacks {
                    Some(WalkMethod::Tables) => "stacks of probes are walked by frame pointers",
                    _ => "probes have no stacks",
                };
                missing.push(format!("{what}: {error}"));
            }
        }
    }
    LoadedObject::load(&Settings { stacks: None, ..*settings }, shared)
}

/// Adds the notes that are not there yet; those of the source itself stay.
fn add_new(missing: &mut Vec<String>, notes: Vec<String>) {
    for note in notes {
        if !missing.contains(&note) {
            missing.push(note);
        }
    }
}

impl Source for ProbeSource {
    fn attach(&mut self, cpus: &[u32]) -> Result<(), CaptureError> {
        cpus.iter().try_for_each(|cpu| self.add_cpu(*cpu))?;
        self.missing.extend(self.manager.attach_first(&self.stop_asked));
        match self.manager.never() {
            // What will be launched may load anything.
            Some(why) if !self.is_launching => Err(CaptureError::NothingToProbe(why)),
            _ => Ok(()),
        }
    }

    fn add_cpu(&mut self, cpu: u32) -> Result<(), CaptureError> {
        if self.lanes.iter().any(|lane| lane.cpu() == cpu) {
            return Ok(());
        }
        let ring = self.loaded.add_cpu(cpu)?;
        self.lanes.push(RingLane::new(LaneKind::Probe, cpu, ring));
        Ok(())
    }

    fn drain(&mut self, now: Ticks, flush: Flush, out: &mut Drained<'_>) -> f64 {
        let mut fullest: f64 = 0.0;
        let Self { lanes, of_clients, lookups, manager, .. } = self;
        for lane in lanes {
            // What has no room stays where users have shares.
            if !flush.is_all() && !out.of_programs.has_room_for_hits() {
                continue;
            }
            fullest = fullest.max(lane.fill());
            lane.drain(
                now,
                flush,
                &mut |record| {
                    let Some(hit) = ProbeRecord::from_bytes(record) else { return };
                    *of_clients |= hit.probe & OF_CLIENT != 0;
                    if hit.probe & (OF_CLIENT | OF_LOOKUP) == OF_LOOKUP
                        && let Some(found) = lookups.hit(&hit, record)
                    {
                        manager.found(found);
                    }
                },
                out.chunk,
            );
        }
        if !self.clients_told && self.of_clients {
            self.clients_told = true;
            self.missing.push(NO_SHARED_MEMORY.to_owned());
        }
        fullest
    }

    fn restate(&mut self) {
        if let Err(error) = self.loaded.forget_stacks() {
            let why =
                format!("a probe's stack is sent but once, and missing where it was lost: {error}");
            add_new(&mut self.missing, vec![why]);
        }
    }

    /// Hits end at once. Taking the breakpoints out of every process takes its
    /// time, which the end of the recording need not wait for.
    fn detach(&mut self, cpus: &[u32]) {
        self.counters.stop();
        self.manager.stop();
        self.manager.wait_for_accounts();
        // First what is summed up, of which few are told: users can make many of the others.
        let taken_back = self.manager.taken_back();
        self.missing.retain(|note| !taken_back.contains(note));
        add_new(&mut self.missing, self.manager.unattached());
        add_new(&mut self.missing, self.manager.notes());
        let unmatched = self.manager.unmatched().into_iter();
        add_new(&mut self.missing, unmatched.map(matched_nothing).collect());
        // What was announced has been told when this returns.
        self.announcements = None;
        let dropped = dropped_announcements::by_user(&self.announcers, &self.beyond_shares);
        add_new(&mut self.missing, dropped_announcements::notes(&dropped));
        // A program that runs now does not leave its CPU; where the kernel does
        // not preempt it, it has ended when its CPU was visited. What one that
        // was preempted writes comes too late for the last drain.
        for &cpu in cpus {
            drop(crate::affinity::run_on(cpu));
        }
    }

    fn wait_until_gone(&mut self) -> Option<String> {
        self.manager.wait_until_gone()
    }

    fn losses(&self) -> Vec<LaneLoss> {
        let mut losses: Vec<_> =
            self.counters.all().flat_map(|(cpu, counts)| losses_of(cpu, counts)).collect();
        for (record, count) in self.loaded.skipped() {
            losses.push(LaneLoss {
                origin: LaneKind::Probe.into(),
                cpu: None,
                record: LostRecord::Kind(record),
                cause: LossCause::Nested,
                user: None,
                count,
            });
        }
        losses.extend(self.hit_shares.losses());
        losses.extend(dropped_announcements::losses(&dropped_announcements::by_user(
            &self.announcers,
            &self.beyond_shares,
        )));
        losses.retain(|loss| loss.count > 0);
        losses
    }

    fn statistics(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for (_, counts) in self.counters.all() {
            *sums.entry("probe_hits_written".to_owned()).or_default() += counts.written;
            *sums.entry("rings_announced".to_owned()).or_default() += counts.announced;
        }
        sums.extend(self.manager.statistics());
        sums
    }

    fn describe(&self, _session: &mut SessionInfo) {}

    fn missing(&self) -> &[String] {
        &self.missing
    }

    fn taken_back(&self) -> Vec<String> {
        self.manager.taken_back()
    }
}

fn matched_nothing(what: String) -> String {
    format!(
        "{what} matched nothing until the end: `syscollect probes list PID --functions` shows \
         how a program's files and functions are called"
    )
}

fn losses_of(cpu: u32, counts: Counts) -> impl Iterator<Item = LaneLoss> {
    let causes = [
        (LossCause::LaneFull, RecordKind::Probe, counts.full),
        (LossCause::Nested, RecordKind::Probe, counts.nested),
        (LossCause::ClockUnreadable, RecordKind::Probe, counts.unclocked),
        (LossCause::LaneFull, RecordKind::Ring, counts.announcements_lost),
    ];
    let of_stacks =
        (LaneKind::ProbeStack, LossCause::LaneFull, RecordKind::Stack, counts.stacks_full);
    let of_hits = causes.map(|(cause, record, count)| (LaneKind::Probe, cause, record, count));
    of_hits.into_iter().chain([of_stacks]).map(move |(lane, cause, record, count)| LaneLoss {
        origin: lane.into(),
        cpu: Some(cpu),
        record: LostRecord::Kind(record),
        cause,
        user: None,
        count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_before_the_end_stays_said_and_nothing_twice() {
        let mut missing = vec!["attached at first".to_owned(), NO_SHARED_MEMORY.to_owned()];
        add_new(&mut missing, vec!["attached at first".to_owned(), "attached later".to_owned()]);
        assert_eq!(missing, ["attached at first", NO_SHARED_MEMORY, "attached later"]);
    }
}
