//! Tables of small files that are made here, with unwind information written by hand.
#![allow(clippy::unwrap_used, reason = "tests")]

mod image;
mod pages;
mod rules;
