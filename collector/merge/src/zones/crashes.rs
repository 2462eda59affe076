//! Crashes of programs, as their handlers of signals tell them.

use crate::engine::{Engine, Writer};
use crate::zones::references::ZoneReferences;
use crate::zones::stacks::WrittenStack;
use syscollect_model::{Crash, Event};
use syscollect_playback::{EventType, Stopped};

/// How a program crashed.
#[derive(Clone, Copy)]
pub(crate) struct CrashSite {
    /// The signal's number.
    pub(crate) signal: u32,
    /// What it could not reach.
    pub(crate) address: u64,
    /// Where its code was.
    pub(crate) instruction: u64,
}

impl CrashSite {
    /// Emits it.
    pub(crate) fn emit(
        self,
        engine: &mut Engine<'_>,
        writer: Writer,
        references: &mut ZoneReferences,
        callers: WrittenStack,
    ) -> Result<(), Stopped> {
        engine.occurred(EventType::Crash);
        let signal = engine.tables.strings.intern(&signal_name(self.signal));
        let (client, now) = (writer.program.client, engine.present.ticks());
        let stack = callers.of_crash(self.instruction);
        let stack = references.stack(engine, client, now, &stack);
        let (thread, address) = (writer.thread, self.address);
        engine.emit(&Event::Crash(Crash { thread, signal, address, stack }))
    }
}

/// The signal's name as `kill -l` has it, on x86-64.
fn signal_name(number: u32) -> String {
    match number {
        3 => "SIGQUIT".into(),
        4 => "SIGILL".into(),
        5 => "SIGTRAP".into(),
        6 => "SIGABRT".into(),
        7 => "SIGBUS".into(),
        8 => "SIGFPE".into(),
        11 => "SIGSEGV".into(),
        13 => "SIGPIPE".into(),
        15 => "SIGTERM".into(),
        31 => "SIGSYS".into(),
        other => format!("signal {other}"),
    }
}
