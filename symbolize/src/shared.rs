//! What the threads that name share.

use crate::{Options, PinnedFiles};

/// What all threads share.
#[derive(Debug)]
pub(crate) struct NamingContext {
    pub(crate) pinned: PinnedFiles,
    pub(crate) options: Options,
}
