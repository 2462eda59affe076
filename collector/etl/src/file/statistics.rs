//! What was read, and what was not.

use super::record::HeaderKind;

/// Counts of a pass over a trace. Nothing that could not be read goes uncounted.
///
/// [`super::Trace::scan`] and [`super::Merged`] count alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Records given, the logfile header and WPP messages included.
    pub records: u64,
    /// Of these, by their header on disk: index it with [`HeaderKind::index`].
    pub records_by_header: [u64; HeaderKind::COUNT],
    /// Records whose size is known but not their content: passed over, and not
    /// in [`Self::records`].
    pub other_records: u64,
    /// Buffers that were read, in whole or in part.
    pub buffers: u64,
    /// Of these, compressed.
    pub compressed_buffers: u64,
    /// Buffers that say that events were lost before them.
    pub buffers_after_lost_events: u64,
    /// Buffers that say that a buffer was lost before them.
    pub buffers_after_lost_buffers: u64,
    /// Buffers of which a part at least is damaged, or not there, or cannot be expanded.
    pub damaged_buffers: u64,
    /// Buffers compressed in a way that is not supported (LZNT1, XPRESS Huffman).
    pub unsupported_buffers: u64,
    /// Buffers that the files' headers say were written, and that are not there, see
    /// [`super::Extent::missing`].
    pub missing_buffers: u64,
    /// Buffers that a logger which did not come to its end had begun and not written, see
    /// [`super::Extent::unwritten`].
    pub unwritten_buffers: u64,
    /// Bytes of expanded data that could not be read as records.
    pub damaged_bytes: u64,
    /// Bytes of the files that belong to no buffer.
    pub stray_bytes: u64,
    /// Bytes of the files that were set aside for buffers and never written.
    pub unused_bytes: u64,
    /// Bytes between records that say that they are none.
    pub filler_bytes: u64,
}

impl Statistics {
    /// Records that had this header on disk.
    pub fn records_with(&self, header: HeaderKind) -> u64 {
        self.records_by_header[header.index()]
    }

    /// Everything was there, and everything was read.
    pub fn is_complete(&self) -> bool {
        let absent = self.missing_buffers + self.unwritten_buffers;
        absent
            + self.damaged_buffers
            + self.unsupported_buffers
            + self.damaged_bytes
            + self.stray_bytes
            == 0
    }

    /// Adds what another part of the same pass counted.
    pub(super) fn add(&mut self, other: &Self) {
        self.records += other.records;
        self.records_by_header
            .iter_mut()
            .zip(other.records_by_header)
            .for_each(|(count, more)| *count += more);
        self.other_records += other.other_records;
        self.buffers += other.buffers;
        self.compressed_buffers += other.compressed_buffers;
        self.buffers_after_lost_events += other.buffers_after_lost_events;
        self.buffers_after_lost_buffers += other.buffers_after_lost_buffers;
        self.damaged_buffers += other.damaged_buffers;
        self.unsupported_buffers += other.unsupported_buffers;
        self.missing_buffers += other.missing_buffers;
        self.unwritten_buffers += other.unwritten_buffers;
        self.damaged_bytes += other.damaged_bytes;
        self.stray_bytes += other.stray_bytes;
        self.unused_bytes += other.unused_bytes;
        self.filler_bytes += other.filler_bytes;
    }

    #[inline]
    pub(super) fn count(&mut self, header: HeaderKind) {
        self.records += 1;
        self.records_by_header[header.index()] += 1;
    }
}
