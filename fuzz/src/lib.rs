//! What several fuzz targets need.

pub mod etl;
pub mod gpu;
