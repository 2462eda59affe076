//! A thread's markers until they are written: there may be millions, and what each says is most of
//! it.

use serde::ser::{Error as _, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::markers::{Marker, MarkerData, Timing};
use crate::compressed_list::CompressedList;

/// Bytes of the other columns of a row, as measured on recordings.
const ROW_BYTES: usize = 40;

/// Where a marker stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct MarkerRow {
    /// A row of the strings.
    pub(super) name: u32,
    /// A row of the categories.
    pub(super) category: u16,
    pub(super) timing: Timing,
}

/// Markers in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct MarkerTable {
    rows: Vec<MarkerRow>,
    /// What each says, as JSON.
    data: CompressedList,
    of_programs: usize,
}

impl MarkerTable {
    pub(super) fn push(&mut self, marker: &Marker) {
        let Marker { name, category, timing, ref data } = *marker;
        self.of_programs += usize::from(matches!(data, MarkerData::OfProgram(_)));
        self.rows.push(MarkerRow { name, category, timing });
        self.data.push_with(|out| {
            let begin = out.len();
            // It has names for keys and goes to memory, so it cannot fail.
            if serde_json::to_writer(&mut *out, data).is_err() {
                out.truncate(begin);
                out.extend(b"null");
            }
        });
    }

    pub(super) fn rows(&self) -> &[MarkerRow] {
        &self.rows
    }

    /// How many say something of a program's own.
    pub(super) fn of_programs(&self) -> usize {
        self.of_programs
    }

    /// About how long they are in the file.
    pub(super) fn expected_bytes(&self) -> usize {
        self.rows.len() * ROW_BYTES + self.data.bytes()
    }

    /// The column of what they say.
    pub(super) fn data(&self) -> impl Serialize + '_ {
        DataColumn(self)
    }
}

struct DataColumn<'a>(&'a MarkerTable);

impl Serialize for DataColumn<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut column = serializer.serialize_seq(Some(self.0.rows.len()))?;
        let each = |json: &[u8]| {
            let json: &RawValue = serde_json::from_slice(json).map_err(S::Error::custom)?;
            column.serialize_element(json)
        };
        self.0.data.try_for_each(each, S::Error::custom)?;
        column.end()
    }
}
