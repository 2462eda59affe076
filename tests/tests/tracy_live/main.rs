//! What is told to a Tracy viewer live, as a viewer takes it in that believes nothing.

mod connection;
mod expected;
mod gpu;
mod hostile;
mod late;
mod many;
mod named;
mod replayed;
