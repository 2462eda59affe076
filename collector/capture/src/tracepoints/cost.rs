//! A tracepoint with nothing, with an empty program, or with the one that
//! records it, by turns: what an event costs is measured by whoever fires it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use syscollect_model::{ClockSource, LaneKind, Ticks};

use super::lanes::LaneRecords;
use super::object::{Attached, KIND, Settings, attach};
use super::offer::{Offer, offered};
use super::selector::TracepointSelector;
use super::source::{LANE_BYTES, absent_error};
use crate::bpf_calls;
use crate::ebpf::EbpfSource;
use crate::error::CaptureError;
use crate::host::Host;
use crate::memory::{BufferUse, MemoryRoom};
use crate::options::{RecordOptions, Tracepoints};
use crate::ring_buffers::{RingLane, bytes_of_each};
use crate::stage::Flush;

/// `r0 = 0; exit`.
const EMPTY: [u8; 16] = [0xb7, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];

/// What runs at a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtTracepoint {
    /// Nothing.
    Nothing,
    /// A program that returns at once, attached as the recording one is.
    EmptyProgram,
    /// The program that records.
    Recording,
}

/// A tracepoint, ready for [`Self::with`].
pub struct TracepointCost {
    /// Keeps the clocks of the CPUs running.
    _clocks: EbpfSource,
    attached: Attached,
    lanes: Vec<RingLane<LaneRecords>>,
    offer: Offer,
    empty: OwnedFd,
}

impl TracepointCost {
    /// Of the first that is meant by `tracepoint`.
    ///
    /// # Errors
    ///
    /// As of a recording.
    pub fn of(tracepoint: &Tracepoints) -> Result<Self, CaptureError> {
        let host = Host::at(Path::new("/"));
        let offers = offered(&[TracepointSelector::from(tracepoint)]).map_err(|error| {
            CaptureError::system("cannot read the descriptions of tracepoints", error)
        })?;
        let offer = offers.offers.into_iter().next().ok_or_else(|| absent_error(tracepoint))?;
        let options = RecordOptions::default();
        let memory = MemoryRoom::read(Path::new("/"));
        let memory =
            memory.plan(options.buffer_bytes, BufferUse::of(&options), host.possible_cpus())?;
        let clocks = EbpfSource::load(&options, &memory, &host)?;
        let possible_cpus = host.possible_cpus();
        let lane_bytes = bytes_of_each(LANE_BYTES, possible_cpus) as u64;
        let tsc = clocks.clock_source == ClockSource::Tsc;
        let attached =
            Attached::new(Settings { tsc, possible_cpus, lane_bytes }, &clocks.shared_maps()?)?;
        let lanes = host
            .online_cpus()
            .into_iter()
            .map(|cpu| Ok(RingLane::new(LaneKind::Tracepoint, cpu, attached.add_cpu(cpu)?)))
            .collect::<Result<Vec<_>, CaptureError>>()?;
        let empty = bpf_calls::load_program("empty", &EMPTY, c"GPL", KIND, None)
            .map_err(|(error, _)| CaptureError::system("loading an empty program", error))?;
        Ok(Self { _clocks: clocks, attached, lanes, offer, empty })
    }

    /// Does `work` while this is at the tracepoint; what it returned, and how many events were
    /// recorded.
    ///
    /// # Errors
    ///
    /// The program could not be attached.
    pub fn with<T>(
        &mut self,
        what: AtTracepoint,
        work: impl FnOnce() -> T,
    ) -> Result<(T, u64), CaptureError> {
        let before = self.recorded();
        let done = match what {
            AtTracepoint::Nothing => work(),
            AtTracepoint::EmptyProgram => {
                let _event = attach(&self.offer, self.empty.as_fd())?;
                work()
            }
            AtTracepoint::Recording => {
                let _event = self.attached.attach(0, &self.offer)?;
                work()
            }
        };
        Ok((done, self.recorded() - before))
    }

    /// Events that were recorded so far; they are thrown away.
    fn recorded(&mut self) -> u64 {
        self.lanes
            .iter_mut()
            .for_each(|lane| lane.drain(Ticks(0), Flush::All, &mut |_| (), &mut |_| ()));
        self.lanes.iter().map(RingLane::records).sum()
    }
}
