//! Crashes of programs, as their handlers of signals tell them.

use crate::engine::{Engine, Writer};
use crate::zones::references::ZoneReferences;
use crate::zones::stacks::WrittenStack;
use rustc_hash::FxHashMap;
use syscollect_model::{
    Crash, Event, LossCause, ProcessId, is_crash_signal, signal_code, signal_name,
};
use syscollect_playback::{EventType, Stopped};

/// Crashes that a process has. One ends it, but a runtime may handle what is none, and several
/// threads may crash together; who claims more makes it up.
const MOST_CRASHES: u32 = 32;

/// How many crashes each process has told of.
#[derive(Debug, Default)]
pub(crate) struct CrashShares {
    told: FxHashMap<ProcessId, u32>,
}

impl CrashShares {
    /// Whether the writer's process may tell of one more; what is beyond its share is counted.
    pub(crate) fn has_share(&mut self, engine: &mut Engine<'_>, writer: Writer) -> bool {
        let told = self.told.entry(writer.program.process).or_default();
        if *told >= MOST_CRASHES {
            let losses = &mut engine.source.losses;
            losses.of_program(writer.lane, writer.user, LossCause::BeyondShare, 1);
            return false;
        }
        *told += 1;
        true
    }
}

/// How a program crashed.
#[derive(Clone, Copy)]
pub(crate) struct CrashSite {
    /// The signal's number.
    pub(crate) signal: u32,
    /// Why it was sent.
    pub(crate) code: i32,
    /// What it could not reach.
    pub(crate) address: u64,
    /// Where its code was.
    pub(crate) instruction: u64,
}

impl CrashSite {
    /// Emits it; a signal by which no program crashes is refused.
    pub(crate) fn emit(
        self,
        engine: &mut Engine<'_>,
        writer: Writer,
        references: &mut ZoneReferences,
        callers: WrittenStack,
    ) -> Result<(), Stopped> {
        let Some(signal) = u8::try_from(self.signal).ok().filter(|it| is_crash_signal(*it)) else {
            writer.refuse(engine, 1);
            return Ok(());
        };
        engine.occurred(EventType::Crash);
        let strings = &mut engine.tables.strings;
        let code = strings.intern(&signal_code(signal, self.code));
        let signal = strings.intern(&signal_name(signal));
        let (client, now) = (writer.program.client, engine.present.ticks());
        let stack = callers.of_crash(self.instruction);
        let stack = references.stack(engine, client, now, &stack);
        let (thread, address) = (writer.thread, self.address);
        engine.emit(&Event::Crash(Crash { thread, signal, code, address, stack }))
    }
}
