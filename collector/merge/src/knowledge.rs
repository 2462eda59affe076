//! What is known of a recording before its events are played.

use crate::counters::CounterTable;
use crate::engine::{NewRows, no_added_rows};
use crate::gpu::record::TracepointTable;
use crate::losses::Losses;
use crate::probes::table::ProbeTable;
use crate::stacks::Resolver;
use crate::tasks::TaskHistory;
use crate::zones::InstrumentedPrograms;
use crate::zones::gpu::reading::GpuReading;
use std::sync::Arc;
use syscollect_model::{ClockMap, MachineId, Tables};
use syscollect_playback::AddedRows;
use syscollect_store::CaptureReader;

/// What is known before events are played: what they refer to.
#[derive(Debug)]
pub(crate) struct Knowledge {
    /// Whose recording it is; its row tells how it was recorded.
    pub(crate) machine: MachineId,
    pub(crate) clock: Arc<ClockMap>,
    pub(crate) tables: Tables,
    pub(crate) resolver: Resolver,
    pub(crate) history: TaskHistory,
    pub(crate) programs: InstrumentedPrograms,
    pub(crate) numbered: NumberedSources,
    /// What is known of losses without reading the events.
    pub(crate) losses: Losses,
    /// Records of definition lanes.
    pub(crate) definition_records: u64,
    pub(crate) earlier: RowsOfPlays,
}

impl Knowledge {
    /// Reads the zones of GPUs, which playing takes, and says whose could not be held.
    pub(crate) fn read_gpu_zones(&mut self, reader: &CaptureReader) {
        if !self.programs.prescan.has_gpu_work {
            return;
        }
        let Self { programs, clock, history, tables, .. } = self;
        let (programmed, logs) = (programs.of_lanes(clock), &programs.logs);
        let gpu = GpuReading { reader, programmed, logs, history, tables }.zones();
        let beyond_share = gpu.losses.notes("of GPUs", &programs.programs, tables, self.machine);
        let notes = &mut tables.machines[usize::from(self.machine.0)].notes;
        // An earlier play has said the same.
        notes.retain(|note| !beyond_share.contains(note));
        notes.extend(beyond_share);
        programs.prescan.gpu = gpu;
    }
}

/// What the numbers mean that records carry.
#[derive(Debug, Default)]
pub(crate) struct NumberedSources {
    pub(crate) probes: ProbeTable,
    pub(crate) tracepoints: TracepointTable,
    /// Tracks of counters.
    pub(crate) counters: CounterTable,
}

/// Rows that an earlier play added, so that the next one finds them.
#[derive(Debug)]
pub(crate) struct RowsOfPlays {
    pub(crate) added: AddedRows,
    pub(crate) new_rows: NewRows,
}

impl RowsOfPlays {
    /// Nothing was played yet.
    pub(crate) fn none() -> Self {
        Self { added: no_added_rows(), new_rows: NewRows::default() }
    }
}
