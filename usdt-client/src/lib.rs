//! Marks zones, messages and plots in a program for syscollect.

pub mod protocol;
