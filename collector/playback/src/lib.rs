//! What every source needs to be played.
