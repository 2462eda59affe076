//! Windows has no sudo: files belong to whoever records.

/// Nobody: there is no such value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {}

impl std::fmt::Display for Owner {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {}
    }
}

impl Owner {
    /// Never called.
    pub(crate) fn give(&self, _: &std::fs::File) -> std::io::Result<()> {
        match *self {}
    }

    /// Nobody.
    pub(crate) fn behind_sudo() -> Option<Self> {
        None
    }

    /// There is no root.
    pub(crate) fn is_root_in_anothers(_: &std::path::Path) -> bool {
        false
    }

    /// Nobody by a number.
    pub(crate) fn user_asking() -> Option<u32> {
        None
    }
}
