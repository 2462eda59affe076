//! Records of tracepoints on their way into the model.

use crate::play::Player;
use crate::record_cursor::RecordItem;
use syscollect_model::Exporter;
use syscollect_records::RecordKind;

impl<E: Exporter> Player<'_, E> {
    /// An item of a lane of tracepoints; `bytes` are those of a record.
    pub(crate) fn tracepoints(&mut self, lane: usize, item: RecordItem, _bytes: &[u8]) -> Result<(), E::Error> {
        match item {
            RecordItem::Missing(missing) => {
                self.missing(lane, if missing.records > 0 { missing.records } else { missing.chunks })?;
            }
            RecordItem::Record => self.count(RecordKind::Tracepoint),
        }
        self.lanes[lane].last = Some(self.now);
        Ok(())
    }
}
