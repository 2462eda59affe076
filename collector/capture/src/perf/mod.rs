//! perf_event: opening events, reading their rings, and the mappings that
//! only they report.

pub(crate) mod event;
pub(crate) mod mappings;
pub(crate) mod ring;
