//! After a recording: every image of the file gets its PDB's identity.

use std::path::Path;

use syscollect_etl::file::Trace;

use crate::append::append;
use crate::error::Error;
use crate::identity::Identity;
use crate::images::{Image, Images};

/// Reads the file, asks for the identity of each image, and adds records that
/// tell them to the end of the file. Gives how many were added.
///
/// # Errors
///
/// Where the file cannot be read, or not be added to; it is as it was then.
pub fn identify(
    path: &Path,
    known: impl FnMut(&Image) -> Option<Identity>,
) -> Result<usize, Error> {
    let trace = Trace::open(&[path.to_path_buf()])?;
    let records = Images::of(&trace).records(known);
    if let Some(header) = trace.headers().first() {
        append(path, header, &records).map_err(|error| Error::File { path: path.into(), error })?;
    }
    Ok(records.len())
}
