//! Scenarios of packets, told to a player without a file.

use super::*;
use crate::payload::dxgkrnl::{DmaKind, QueuePacket, QueuePacketKind, VSync};
use crate::payload::present::{PresentApi, PresentCall};
use crate::session::testing::KeptEvents;
use proptest::prelude::*;
use rustc_hash::FxHashMap;
use syscollect_model::{
    Event, GpuJob, GpuJobEnd, MachineId, Process, Scope, Tables, Thread, Time, TrackId,
};

const ADAPTER: u64 = 0xa;
const CONTEXT: u64 = 0xc;
/// The thread that hands packets over.
const GAME: ThreadId = ThreadId(1);

struct Player {
    gpu: Gpu,
    reported: KeptEvents,
}

impl Player {
    /// One context on engine 0, and one process with one thread.
    fn new() -> Self {
        let mut reported = KeptEvents::default();
        let tables = &mut reported.tables;
        let name = tables.strings.intern("game");
        let process = Process {
            machine: MachineId::FIRST,
            pid: 7,
            parent_pid: None,
            name,
            command_line: vec![],
            start: None,
            end: None,
            kernel: false,
        };
        let thread = Thread {
            tid: 8,
            process: syscollect_model::ProcessId(1),
            name,
            start: None,
            end: None,
        };
        tables.processes.push(process);
        tables.threads.push(thread);
        let mut player = Self { gpu: Gpu::default(), reported };
        player.at(0, GAME, Dxgkrnl::SelectContext { adapter: ADAPTER, context: CONTEXT, node: 0 });
        player
    }

    fn at(&mut self, now: u64, thread: ThreadId, event: Dxgkrnl) {
        let Self { gpu, reported } = self;
        reported.at(now, |engine| gpu.event(engine, Some(thread), event));
    }

    fn call(&mut self, now: u64, call: PresentCall) {
        let Self { gpu, reported } = self;
        reported.at(now, |engine| gpu.presents.call(engine, Some(GAME), call));
    }

    fn close(&mut self, now: u64) {
        let Self { gpu, reported } = self;
        reported.at(now, |engine| gpu.close(engine));
    }

    fn track(&self, id: TrackId) -> (&str, Scope) {
        let track = self.reported.tables.track(id);
        (self.reported.tables.strings.get(track.name), track.scope)
    }

    /// Jobs on tracks whose name begins so: name, beginning, end, how.
    fn jobs(&self, track: &str) -> Vec<(&str, Option<u64>, u64, GpuJobEnd)> {
        let jobs = self.reported.events.iter().filter_map(|(time, event)| match event {
            Event::GpuJob(on, job) if self.track(*on).0.starts_with(track) => Some((*time, job)),
            _ => None,
        });
        jobs.map(|(end, job)| {
            (
                self.reported.tables.strings.get(job.name),
                job.began().map(|began| began.0),
                end.0,
                job.end,
            )
        })
        .collect()
    }

    fn job(&self, track: &str) -> &GpuJob {
        let job = self.reported.events.iter().find_map(|(_, event)| match event {
            Event::GpuJob(on, job) if self.track(*on).0.starts_with(track) => Some(job),
            _ => None,
        });
        job.unwrap()
    }

    /// Slices and instants as text.
    fn slices(&self) -> Vec<String> {
        let messages = self.reported.events.iter().filter_map(|(time, event)| match event {
            Event::SliceBegin(_, slice) => {
                Some(format!("{} begin {}", time.0, self.reported.tables.strings.get(slice.name)))
            }
            Event::SliceUpdate(_, more) => {
                Some(format!("{} more unfinished={}", time.0, more.unfinished))
            }
            Event::SliceEnd(_) => Some(format!("{} end", time.0)),
            Event::Instant(track, slice) => Some(format!(
                "{} {} on {}",
                time.0,
                self.reported.tables.strings.get(slice.name),
                self.track(*track).0
            )),
            _ => None,
        });
        messages.collect()
    }
}

fn packet(sequence: u32, kind: QueuePacketKind) -> Dxgkrnl {
    Dxgkrnl::QueuePacketStart(QueuePacket {
        context: CONTEXT,
        sequence,
        kind,
        present: false,
        fences: vec![],
    })
}

fn packet_stop(sequence: u32) -> Dxgkrnl {
    let kind = QueuePacketKind::Render;
    Dxgkrnl::QueuePacketStop {
        context: CONTEXT,
        sequence,
        kind,
        preempted: false,
        timed_out: false,
    }
}

fn dma(id: u64, sequence: u32) -> Dxgkrnl {
    Dxgkrnl::DmaStart { context: CONTEXT, queue_context: 0, kind: DmaKind::Render, id, sequence }
}

fn dma_done(id: u64, sequence: u32, end: DmaEnd) -> Dxgkrnl {
    Dxgkrnl::DmaDone { context: CONTEXT, kind: DmaKind::Render, id, sequence, end }
}

fn dma_stop(id: u64, sequence: u32) -> Dxgkrnl {
    Dxgkrnl::DmaStop { context: CONTEXT, kind: DmaKind::Render, id, sequence, preempted: false }
}

const ENGINE: &str = "GPU 0 node 0";
const QUEUE: &str = "GPU 0 node 0 context";

#[test]
fn a_packet_runs_when_the_one_before_it_is_done() {
    let mut player = Player::new();
    for (time, event) in [
        (10, packet(1, QueuePacketKind::Render)),
        (20, dma(100, 1)),
        (21, packet(2, QueuePacketKind::Render)),
        (30, dma(101, 2)),
        (40, dma_done(100, 1, DmaEnd::Completed)),
        (41, dma_stop(100, 1)),
        (42, packet_stop(1)),
        (60, dma_done(101, 2, DmaEnd::Completed)),
        (62, packet_stop(2)),
    ] {
        player.at(time, GAME, event);
    }
    assert_eq!(
        player.jobs(ENGINE),
        [
            ("Render", Some(20), 40, GpuJobEnd::Finished),
            ("Render", Some(10), 42, GpuJobEnd::Finished),
            ("Render", Some(40), 60, GpuJobEnd::Finished),
            ("Render", Some(21), 62, GpuJobEnd::Finished),
        ]
    );
    let tracks: Vec<_> = (0..player.reported.tables.tracks.len())
        .map(|id| player.track(TrackId(id as u32)))
        .collect();
    let process = Scope::Process(syscollect_model::ProcessId(1));
    assert_eq!(
        tracks,
        [
            (ENGINE, Scope::Machine(MachineId::FIRST)),
            ("GPU 0 node 0 context 0xc", process),
            ("GPU 0 node 0 context 0xc", process)
        ]
    );
}

#[test]
fn a_dma_packet_belongs_to_the_thread_that_handed_its_queue_packet_over() {
    let mut player = Player::new();
    player.at(10, GAME, packet(1, QueuePacketKind::Render));
    player.at(20, Tables::IDLE_THREAD, dma(100, 1));
    player.at(30, Tables::IDLE_THREAD, dma_stop(100, 1));
    let job = player.job(ENGINE);
    assert_eq!(
        (job.thread, job.submitted, job.queued),
        (Some(GAME), Some(Time(10)), Some(Time(20)))
    );
    assert_eq!(job.context, Some(CONTEXT));
}

#[test]
fn a_preempted_packet_says_so_and_a_fault_is_a_failure() {
    let mut player = Player::new();
    for (id, end) in [(1, DmaEnd::Preempted), (2, DmaEnd::PageFaulted)] {
        player.at(id * 10, GAME, dma(id, 0));
        player.at(id * 10 + 5, GAME, dma_done(id, 0, end));
    }
    let ends: Vec<_> = player.jobs(ENGINE).into_iter().map(|(.., end)| end).collect();
    assert_eq!(ends, [GpuJobEnd::Finished, GpuJobEnd::Failed]);
    let interrupt = &player.job(ENGINE).fields[2];
    assert_eq!(player.reported.tables.strings.get(interrupt.name), "interrupt");
}

#[test]
fn a_request_for_preemption_takes_no_time_of_the_engine() {
    let mut player = Player::new();
    let start = Dxgkrnl::DmaStart {
        context: CONTEXT,
        queue_context: 0,
        kind: DmaKind::Preemption,
        id: 9,
        sequence: 0,
    };
    let done = Dxgkrnl::DmaDone {
        context: CONTEXT,
        kind: DmaKind::Preemption,
        id: 9,
        sequence: 0,
        end: DmaEnd::Completed,
    };
    for (time, event) in
        [(10, dma(1, 0)), (20, start), (30, done), (31, dma_done(1, 0, DmaEnd::Preempted))]
    {
        player.at(time, GAME, event);
    }
    assert_eq!(
        player.jobs(ENGINE),
        [
            ("Preemption", Some(20), 30, GpuJobEnd::Finished),
            ("Render", Some(10), 31, GpuJobEnd::Finished)
        ]
    );
}

#[test]
fn what_began_before_the_recording_or_never_ends_is_told_as_that() {
    let mut player = Player::new();
    player.at(10, GAME, dma_done(1, 0, DmaEnd::Completed));
    player.at(11, GAME, packet_stop(1));
    player.at(20, GAME, packet(2, QueuePacketKind::Render));
    player.at(21, GAME, dma(2, 2));
    player.at(22, GAME, dma(3, 0));
    player.close(50);
    assert_eq!(
        player.jobs(ENGINE),
        [
            ("Render", None, 10, GpuJobEnd::WithoutBeginning),
            ("Render", None, 11, GpuJobEnd::WithoutBeginning),
            ("Render", Some(20), 50, GpuJobEnd::Unfinished),
            ("Render", Some(21), 50, GpuJobEnd::Unfinished),
            ("Render", None, 50, GpuJobEnd::Unfinished),
        ]
    );
    assert_eq!(player.gpu.queues.open(), 0);
}

#[test]
fn a_packet_from_before_the_recording_goes_where_the_later_ones_of_its_context_do() {
    let mut player = Player::new();
    player.gpu.topology.learn_user(CONTEXT, 7);
    player.at(11, GAME, packet_stop(1));
    player.at(20, GAME, packet(2, QueuePacketKind::Render));
    player.at(30, GAME, packet_stop(2));
    let process = Scope::Process(syscollect_model::ProcessId(1));
    assert_eq!(player.reported.tables.tracks.len(), 1);
    assert_eq!(player.track(TrackId(0)), ("GPU 0 node 0 context 0xc", process));
}

#[test]
fn packets_of_a_context_that_is_gone_end_with_it() {
    let mut player = Player::new();
    player.at(10, GAME, packet(1, QueuePacketKind::Render));
    player.at(11, GAME, dma(1, 1));
    player.at(
        30,
        GAME,
        Dxgkrnl::Context { change: Change::Stop, context: CONTEXT, device: 0, node: 0 },
    );
    assert_eq!(player.jobs(QUEUE), [("Render", Some(10), 30, GpuJobEnd::Unfinished)]);
    player.at(40, GAME, packet_stop(1));
    assert_eq!(player.jobs("GPU context").len(), 1, "the handle means another context now");
}

#[test]
fn a_packet_of_a_queue_that_the_gpu_schedules_runs_on_its_engine() {
    let mut player = Player::new();
    let queue = Dxgkrnl::HardwareQueue { change: Change::Rundown, queue: CONTEXT, context: 0xcc };
    player.at(1, GAME, queue);
    player.at(1, GAME, Dxgkrnl::SelectContext { adapter: ADAPTER, context: 0xcc, node: 2 });
    player.at(10, GAME, packet(1, QueuePacketKind::Render));
    player.at(11, GAME, packet(2, QueuePacketKind::Signal));
    player.at(30, GAME, packet_stop(1));
    player.at(31, GAME, packet_stop(2));
    let on_engine = player.jobs("GPU 0 node 2").len() - player.jobs("GPU 0 node 2 context").len();
    assert_eq!((on_engine, player.jobs("GPU 0 node 2 context").len()), (1, 2));
}

#[test]
fn a_wait_names_its_fence_and_a_signal_too() {
    let mut player = Player::new();
    let fence = syscollect_model::Fence { context: 0xf, sequence: 3 };
    for (sequence, kind) in [(1, QueuePacketKind::Wait), (2, QueuePacketKind::Signal)] {
        let packet =
            QueuePacket { context: CONTEXT, sequence, kind, present: false, fences: vec![fence] };
        player.at(10, GAME, Dxgkrnl::QueuePacketStart(packet));
        player.at(12, GAME, Dxgkrnl::QueuePacketTaken { context: CONTEXT, sequence });
        player.at(20, GAME, packet_stop(sequence));
    }
    let jobs = player.reported.events.iter().filter_map(|(_, event)| match event {
        Event::GpuJob(_, job) => Some((job.waited_for.clone(), job.fence)),
        _ => None,
    });
    let jobs: Vec<_> = jobs.collect();
    assert_eq!(jobs, [(vec![fence], None), (vec![], Some(fence))]);
}

#[test]
fn a_sync_that_two_events_tell_of_is_one() {
    let mut player = Player::new();
    for (time, frame, multi_plane) in
        [(1, 7, false), (2, 7, true), (17, 8, true), (33, 9, false), (34, 9, true)]
    {
        player.at(time, GAME, vsync(frame, multi_plane));
    }
    let name = "VSync on GPU 0 display 0 VSync";
    assert_eq!(player.slices(), [format!("1 {name}"), format!("17 {name}"), format!("33 {name}")]);
}

fn vsync(frame: u32, multi_plane: bool) -> Dxgkrnl {
    Dxgkrnl::VSync(VSync { adapter: ADAPTER, source: 0, frame, address: Some(0x1000), multi_plane })
}

#[test]
fn a_call_whose_return_is_lost_ends_with_the_one_around_it_or_the_recording() {
    let mut player = Player::new();
    player.call(1, stop(PresentApi::Dxgi));
    player.call(2, start(PresentApi::Dxgi));
    player.call(3, start(PresentApi::D3d9));
    player.call(4, stop(PresentApi::Dxgi));
    player.call(5, start(PresentApi::Dxgi));
    player.close(9);
    assert_eq!(
        player.slices(),
        [
            "2 begin DXGI Present",
            "3 begin D3D9 Present",
            "4 more unfinished=true",
            "4 end",
            "4 end",
            "5 begin DXGI Present",
            "9 more unfinished=true",
            "9 end"
        ]
    );
}

fn start(api: PresentApi) -> PresentCall {
    PresentCall::Start { api, swap_chain: 1, flags: 0, interval: Some(1) }
}

fn stop(api: PresentApi) -> PresentCall {
    PresentCall::Stop { api, result: 0 }
}

#[test]
fn how_a_frame_gets_to_the_screen_is_in_its_name() {
    let mut player = Player::new();
    for flags in [1, 4, 0x1_0001, 0x8004, 0] {
        player.at(1, GAME, Dxgkrnl::Present { window: 1, source: u32::MAX, flags, status: 0 });
    }
    let names = ["(blit)", "(flip)", "(redirected blit)", "(redirected flip)", ""];
    let names = names.map(|name| format!("1 {} on Presents", format!("Present {name}").trim_end()));
    assert_eq!(player.slices(), names);
}

#[test]
fn what_opens_without_end_is_bounded() {
    let mut player = Player::new();
    for number in 0..80_000_u32 {
        let packet = QueuePacket {
            context: u64::from(number % 1_000),
            sequence: number,
            kind: QueuePacketKind::Render,
            present: false,
            fences: vec![],
        };
        player.at(u64::from(number), GAME, Dxgkrnl::QueuePacketStart(packet));
        player.reported.events.clear();
    }
    assert!(player.gpu.queues.open() <= 1 << 16);
    assert!(player.gpu.left_out() > 0);
    player.close(80_000);
    assert_eq!(player.gpu.queues.open(), 0);
}

#[test]
fn a_packet_that_gives_way_to_others_keeps_its_sequence() {
    let mut player = Player::new();
    for sequence in 1..=pending::LIMIT as u32 + 1 {
        player.at(u64::from(sequence), GAME, packet(sequence, QueuePacketKind::Render));
    }
    let job = player.job(QUEUE);
    assert_eq!((job.submitted, job.end), (Some(Time(1)), GpuJobEnd::Unfinished));
    let sequence = &job.fields[0];
    assert_eq!(player.reported.tables.strings.get(sequence.name), "sequence");
    assert_eq!(sequence.value, syscollect_model::Value::Unsigned(1));
}

fn events() -> impl Strategy<Value = Dxgkrnl> {
    let contexts = 1_u64..4;
    let kinds = prop_oneof![
        Just(QueuePacketKind::Render),
        Just(QueuePacketKind::Wait),
        Just(QueuePacketKind::Paging)
    ];
    let dma_kinds = prop_oneof![Just(DmaKind::Render), Just(DmaKind::Preemption)];
    let changes = prop_oneof![Just(Change::Start), Just(Change::Stop), Just(Change::Rundown)];
    prop_oneof![
        (contexts.clone(), 0_u32..6, kinds, any::<bool>()).prop_map(
            |(context, sequence, kind, present)| {
                Dxgkrnl::QueuePacketStart(QueuePacket {
                    context,
                    sequence,
                    kind,
                    present,
                    fences: vec![],
                })
            }
        ),
        (contexts.clone(), 0_u32..6, any::<bool>()).prop_map(|(context, sequence, timed_out)| {
            let kind = QueuePacketKind::Render;
            Dxgkrnl::QueuePacketStop { context, sequence, kind, preempted: false, timed_out }
        }),
        (contexts.clone(), 0_u32..6)
            .prop_map(|(context, sequence)| Dxgkrnl::QueuePacketTaken { context, sequence }),
        (contexts.clone(), 0_u64..4, dma_kinds.clone(), 0_u64..6, 0_u32..6).prop_map(
            |(context, queue_context, kind, id, sequence)| Dxgkrnl::DmaStart {
                context,
                queue_context,
                kind,
                id,
                sequence
            }
        ),
        (contexts.clone(), dma_kinds.clone(), 0_u64..6).prop_map(|(context, kind, id)| {
            Dxgkrnl::DmaDone { context, kind, id, sequence: 0, end: DmaEnd::Completed }
        }),
        (contexts.clone(), dma_kinds, 0_u64..6, any::<bool>()).prop_map(
            |(context, kind, id, preempted)| {
                Dxgkrnl::DmaStop { context, kind, id, sequence: 0, preempted }
            }
        ),
        (contexts.clone(), 0_u32..3).prop_map(|(context, node)| Dxgkrnl::SelectContext {
            adapter: ADAPTER,
            context,
            node
        }),
        (changes.clone(), contexts.clone(), 0_u32..3).prop_map(|(change, context, node)| {
            Dxgkrnl::Context { change, context, device: 1, node }
        }),
        (changes, contexts.clone(), contexts)
            .prop_map(|(change, queue, context)| Dxgkrnl::HardwareQueue { change, queue, context }),
    ]
}

proptest! {
    #[test]
    fn jobs_of_a_track_never_overlap(
        events in proptest::collection::vec((events(), 0_u64..5), 0..300),
    ) {
        let mut player = Player::new();
        let mut now = 0;
        for (event, passes) in events {
            now += passes;
            player.at(now, GAME, event);
        }
        player.close(now + 1);
        prop_assert_eq!(player.gpu.queues.open(), 0);
        let mut ends: FxHashMap<TrackId, Time> = FxHashMap::default();
        for (end, event) in &player.reported.events {
            let Event::GpuJob(track, job) = event else { continue };
            if let Some(began) = job.began() {
                let last = ends.insert(*track, *end).unwrap_or(Time(0));
                prop_assert!(
                    last <= began && began <= *end,
                    "{job:?} begins before {last:?} or \
                                                              after {end:?}"
                );
            }
        }
    }
}
