//! What all comparisons of a viewer with a file share.

use std::fmt::Debug;

use anyhow::{Result, ensure};

/// Threads of the viewer from here on are none of the machine's.
pub(super) const FIRST_ROW: u32 = 0xf000_0000;

/// The part of the time of which both know all.
#[derive(Clone, Copy)]
pub(super) struct KnownSpan {
    pub(super) joined: i64,
    pub(super) until: i64,
}

impl KnownSpan {
    pub(super) fn has(self, time: i64) -> bool {
        self.joined < time && time < self.until
    }
}

/// Both are the same but for their order, in which what has one time may differ; how many.
pub(super) fn same<T: Ord + Debug>(
    what: &str,
    mut told: Vec<T>,
    mut in_file: Vec<T>,
) -> Result<usize> {
    told.sort();
    in_file.sort();
    same_in_order(what, &told, &in_file)?;
    Ok(told.len())
}

pub(super) fn same_in_order<T: PartialEq + Debug>(
    what: &str,
    told: &[T],
    in_file: &[T],
) -> Result<()> {
    let differs = told.iter().zip(in_file).position(|(told, in_file)| told != in_file);
    let at = differs.unwrap_or(told.len().min(in_file.len()));
    ensure!(
        differs.is_none() && told.len() == in_file.len(),
        "{what} {at}: of {} told and {} in the snapshot the first that differs is {:?} and {:?}",
        told.len(),
        in_file.len(),
        told.get(at),
        in_file.get(at)
    );
    Ok(())
}
