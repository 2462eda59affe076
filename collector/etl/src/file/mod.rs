//! Buffers and records of the files of one recording.
