//! A trace opened for playing: records in, the model's events out.
//!
//! A first pass reads what events refer to and what may come later than they do:
//! who lived when ([`lives`]), what lay where, stacks and their keys. The second
//! merges the records by time and plays them.
//!
//! [`gpu`](self) gets a hook: `Gpu::record(&mut self, &mut Context, &Record)` is called
//! for every record of the providers that it says are its own (`Gpu::wants(&Guid)`),
//! and `Gpu::finish(&mut self, &mut Context)` once behind the last record. It tells events with
//! `Context::tell`; what it keeps lives for one play, tracks come from `Context::track`.
