//! What is asked for.

use super::PdbIdentity;
use syscollect_model::BuildId;

/// What is to be named in one module of a Windows trace.
#[derive(Clone, Debug, Default)]
pub struct ImageRequest {
    /// The image's path as in the trace, with a drive letter or a device.
    pub path: String,
    /// What its mappings have as their build id; given back with the names.
    pub build_id: BuildId,
    /// Its symbol file; `None` where the trace does not say, and the image itself has to.
    pub pdb: Option<PdbIdentity>,
    /// `SizeOfImage`, bytes; 0 if unknown.
    pub image_size: u32,
    /// `TimeDateStamp`; 0 if unknown.
    pub image_timestamp: u32,
    /// Relative virtual addresses, those of return addresses reduced by one; in any order.
    pub offsets: Vec<u64>,
}
