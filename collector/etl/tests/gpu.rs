//! A real trace of the graphics kernel, counted as its page counts it.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use syscollect_etl::Class;
use syscollect_etl::file::Trace;
use syscollect_etl::payload::dxgkrnl::{self, Dxgkrnl};
use syscollect_etl::session::Session;
use syscollect_model::{
    Event, Exporter, GpuJob, GpuJobEnd, MachineId, Scope, Tables, Time, TrackId,
};
use syscollect_playback::Recording;
use syscollect_tests::etl::{GPUVIS, fixture};

/// Jobs and instants, with the names of their tracks.
#[derive(Default)]
struct KeptEvents {
    jobs: Vec<(TrackId, String, Scope, String, Time, GpuJob)>,
    instants: BTreeMap<String, u64>,
}

impl Exporter for KeptEvents {
    type Error = Infallible;

    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        match event {
            Event::GpuJob(id, job) => {
                let track = tables.track(*id);
                let [queue, name] =
                    [track.name, job.name].map(|name| tables.strings.get(name).to_owned());
                self.jobs.push((*id, queue, track.scope, name, time, GpuJob::clone(job)));
            }
            Event::Instant(id, _) => {
                let track = tables.strings.get(tables.track(*id).name).to_owned();
                *self.instants.entry(track).or_default() += 1;
            }
            _ => {}
        }
        Ok(())
    }
}

impl KeptEvents {
    fn of(bytes: Vec<u8>) -> Self {
        let mut reported = Self::default();
        Session::from_bytes(vec![bytes])
            .expect("a trace")
            .play(&mut reported)
            .unwrap_or_else(|never| match never {});
        reported
    }

    /// How many jobs ended in each way: of engines, or of contexts.
    fn ends(&self, of_engines: bool) -> [usize; 3] {
        let jobs = self.jobs.iter().filter(|(_, _, scope, _, _, _)| {
            (*scope == Scope::Machine(MachineId::FIRST)) == of_engines
        });
        [GpuJobEnd::Finished, GpuJobEnd::WithoutBeginning, GpuJobEnd::Unfinished]
            .map(|end| jobs.clone().filter(|(.., job)| job.end == end).count())
    }
}

#[syscollect_fixtures::test]
fn the_counter_does_not_run_at_ten_megahertz() {
    let bytes = fixture(GPUVIS);
    let trace = Trace::from_bytes(vec![bytes]).unwrap();
    assert_eq!(trace.headers()[0].perf_freq, 3_119_142);
}

#[syscollect_fixtures::test]
fn every_event_of_the_graphics_kernel_that_is_of_interest_decodes() {
    let bytes = fixture(GPUVIS);
    let trace = Trace::from_bytes(vec![bytes]).unwrap();
    let mut counts = BTreeMap::<u16, [u64; 2]>::new();
    let mut syncs = BTreeSet::new();
    let (mut starts, mut stops) = (BTreeSet::new(), 0);
    trace.scan(|_, record| {
        let Class::Provider { provider: dxgkrnl::PROVIDER, id, .. } = record.class else { return };
        let event = dxgkrnl::decode(id, record.version, record.payload, record.is_64_bit);
        counts.entry(id).or_default()[usize::from(event.is_some())] += 1;
        match event {
            Some(Dxgkrnl::VSync(sync)) => drop(syncs.insert((sync.source, sync.frame))),
            Some(Dxgkrnl::DmaStart { context, id, .. }) => assert!(starts.insert((context, id))),
            Some(Dxgkrnl::DmaDone { .. }) => stops += 1,
            _ => {}
        }
    });
    let of_interest = [17, 23, 166, 175, 176, 177, 178, 179, 180, 184, 244, 245, 252, 259, 273];
    let undecoded: Vec<_> = of_interest.iter().filter(|id| counts[id][0] > 0).collect();
    assert!(undecoded.is_empty(), "{undecoded:?}");
    assert_eq!((counts[&17][1] + counts[&273][1], syncs.len()), (876, 438));
    assert_eq!((starts.len(), stops), (2_404, 2_405));
    assert_eq!(
        (counts[&178][1] + counts[&244][1] + counts[&245][1], counts[&180][1]),
        (6_977, 6_979)
    );
}

#[syscollect_fixtures::test]
fn packets_find_their_beginnings() {
    let bytes = fixture(GPUVIS);
    let reported = KeptEvents::of(bytes);
    assert_eq!(reported.ends(true), [2_404, 1, 0], "DMA packets");
    assert_eq!(reported.ends(false), [6_969, 10, 8], "queue packets");
}

#[syscollect_fixtures::test]
fn dma_packets_belong_to_the_threads_that_submitted_them() {
    let bytes = fixture(GPUVIS);
    let reported = KeptEvents::of(bytes);
    let of_engines = || {
        reported.jobs.iter().filter(|(_, _, scope, ..)| *scope == Scope::Machine(MachineId::FIRST))
    };
    let own = of_engines().filter(|(.., name, _, _)| name != "Preemption");
    let (known, all) = own.fold((0, 0), |(known, all), (.., job)| {
        (known + usize::from(job.thread.is_some()), all + 1)
    });
    assert!(all > 2_300 && known * 100 >= all * 99, "{known} of {all}");
    let engines: BTreeSet<&str> = of_engines().map(|(_, track, ..)| track.as_str()).collect();
    assert_eq!(
        engines.into_iter().collect::<Vec<_>>(),
        ["GPU 0 node 0", "GPU 0 node 1", "GPU 0 node 9", "GPU preemption requests"]
    );
}

#[syscollect_fixtures::test]
fn jobs_of_a_track_follow_each_other() {
    let bytes = fixture(GPUVIS);
    let mut ends = BTreeMap::new();
    for (track, .., end, job) in KeptEvents::of(bytes).jobs {
        let Some(began) = job.began() else { continue };
        let last = ends.insert(track, end).unwrap_or(Time(0));
        assert!(last <= began && began <= end, "{job:?}");
    }
}

#[syscollect_fixtures::test]
fn each_sync_is_told_once() {
    let bytes = fixture(GPUVIS);
    let reported = KeptEvents::of(bytes);
    let syncs = reported.instants.iter().filter(|(track, _)| track.ends_with("VSync"));
    assert_eq!(syncs.map(|(_, count)| count).sum::<u64>(), 438);
    assert_eq!(
        reported.instants["GPU 0 display 0 flips"] + reported.instants["GPU 0 display 1 flips"],
        332
    );
    assert!(reported.instants["Presents"] >= 517, "{:?}", reported.instants);
}
