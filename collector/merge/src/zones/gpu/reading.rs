//! What programs wrote of their GPUs' work, read from a file.
//!
//! It is held only while a recording is played: who opens one for its names needs none of it.

use super::placed::{GpuPlacing, PlacedGpuZones, find_threads};
use super::written::{GpuGroup, WrittenGpuWork};
use crate::chunk_queue::FromFile;
use crate::tasks::TaskHistory;
use crate::zones::cursor::{Programmed, ZoneCursor, ZoneRecord};
use crate::zones::log::Logs;
use crate::zones::parts::own_attributes;
use syscollect_model::{Lane, LaneKind, Tables};
use syscollect_playback::order::Cursor;
use syscollect_records::ZoneChunk;
use syscollect_store::CaptureReader;
use syscollect_zone_protocol::{Event, Item};

/// What has to be known to read zones of GPUs.
pub(crate) struct GpuReading<'a> {
    pub(crate) reader: &'a CaptureReader,
    pub(crate) programmed: Programmed<'a>,
    pub(crate) logs: &'a Logs,
    pub(crate) history: &'a TaskHistory,
    pub(crate) tables: &'a Tables,
}

impl GpuReading<'_> {
    /// All zones, with who submitted them.
    pub(crate) fn zones(&self) -> PlacedGpuZones {
        let Programmed { programs, map: clock, .. } = self.programmed;
        let mut written = WrittenGpuWork::default();
        let lanes = self.reader.lanes().into_iter().filter(|lane| lane.kind == LaneKind::Zone);
        lanes.for_each(|lane| self.lane(lane, &mut written));
        let mut placed = GpuPlacing { programs, logs: self.logs, clock }.place(written);
        if !placed.zones.is_empty() {
            find_threads(&mut placed.zones, programs, self.history, self.tables);
        }
        placed
    }

    fn lane(&self, lane: Lane, written: &mut WrittenGpuWork) {
        let mut lane = FromFile::new(self.reader, ZoneCursor::new(lane), self.programmed);
        let mut owner = ZoneChunk::default();
        while let Some(ticks) = lane.key() {
            match lane.take() {
                ZoneRecord::Chunk(start) => owner = start.0,
                ZoneRecord::Group(_) => {
                    let words = lane.cursor.group();
                    let Some(Item::Stamped { event: Event::Gpu(event), .. }) = Item::decode(words)
                    else {
                        continue;
                    };
                    let producer = self.programmed.programs.producer(owner.client);
                    let attribute_words = own_attributes(words);
                    written.add(GpuGroup { ticks, owner, producer, attribute_words }, event);
                }
            }
        }
    }
}
