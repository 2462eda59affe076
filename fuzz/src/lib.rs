//! What several fuzz targets need.

pub mod captures;
pub mod etl;
pub mod gpu;
