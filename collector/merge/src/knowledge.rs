//! What is known of a recording before its events are played.

use crate::counters::CounterTable;
use crate::engine::NewRows;
use crate::gpu::record::TracepointTable;
use crate::losses::Losses;
use crate::probes::table::ProbeTable;
use crate::stacks::Resolver;
use crate::tasks::TaskHistory;
use crate::zones::InstrumentedPrograms;
use std::sync::Arc;
use syscollect_model::{ClockMap, MachineId, Tables};
use syscollect_playback::AddedRows;

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
    pub(crate) probes: ProbeTable,
    pub(crate) tracepoints: TracepointTable,
    /// Counter tracks by the number that records carry.
    pub(crate) counters: CounterTable,
    /// What is known of losses without reading the events.
    pub(crate) losses: Losses,
    /// Records of definition lanes.
    pub(crate) definition_records: u64,
    /// Rows that an earlier play added, so that the next one finds them.
    pub(crate) added: AddedRows,
    pub(crate) new_rows: NewRows,
}
