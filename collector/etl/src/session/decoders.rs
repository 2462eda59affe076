//! What makes events of what records tell: a decoder for each kind of source, with its own state.
//! All share the [`Engine`].

use super::clr_stacks::{self, RUNTIME};
use super::engine::{Engine, TraceEngine};
use super::gpu::Gpu;
use super::interrupts::Interrupts;
use super::lifecycle::Lifecycle;
use super::providers::Providers;
use super::samples;
use super::scheduling::Scheduling;
use super::stacks::Stacks;
use super::transfers::Transfers;
use super::waiting::StackSubject;
use crate::payload::{self, Payload, width};
use crate::{Class, Guid, Record};

/// The decoders of a trace.
pub(super) struct Decoders<'a> {
    pub(super) lifecycle: Lifecycle<'a>,
    pub(super) scheduling: Scheduling<'a>,
    pub(super) stacks: Stacks<'a>,
    pub(super) interrupts: Interrupts,
    pub(super) transfers: Transfers<'a>,
    pub(super) providers: Providers<'a>,
    pub(super) gpu: Gpu,
    /// Payloads of the graphics kernel have 64 bits, whatever their headers say.
    pub(super) wide_graphics: bool,
}

impl Decoders<'_> {
    /// A record of the present.
    #[inline]
    pub(super) fn on(&mut self, engine: &mut Engine<'_>, record: &Record<'_>) {
        match record.is_64_bit {
            true => self.record(engine, record),
            false => self.with_32_bit_header(engine, record),
        }
    }

    /// The recording ends, and what is open with it.
    pub(super) fn close(&mut self, engine: &mut Engine<'_>) {
        self.lifecycle.close(engine);
        self.gpu.close(engine);
    }

    /// A record whose header says 32 bits, which its payload need not have.
    #[cold]
    fn with_32_bit_header(&mut self, engine: &mut Engine<'_>, record: &Record<'_>) {
        let mut record = width::of_payload(record);
        record.is_64_bit |= self.wide_graphics && width::is_of_graphics(&record);
        self.record(engine, &record);
    }

    #[inline]
    fn record(&mut self, engine: &mut Engine<'_>, record: &Record<'_>) {
        let subject = match record.class {
            Class::Kernel { .. } | Class::Classic { .. } => match self.kernel(engine, record) {
                Some(subject) => subject,
                None => return,
            },
            Class::Provider { provider, id, .. } => self.provider(engine, record, &provider, id),
            Class::Wpp => StackSubject::nothing(engine.writer(record)),
        };
        self.stacks.on_record(engine, record, subject);
    }

    /// A record of the kernel. Gives how stacks will name it; `None` for stacks themselves.
    #[inline]
    fn kernel(&mut self, engine: &mut Engine<'_>, record: &Record<'_>) -> Option<StackSubject> {
        Some(match payload::decode(record) {
            Payload::ContextSwitch(switch) => self.scheduling.on_switch(engine, record, &switch),
            Payload::ReadyThread(ready) => self.scheduling.on_ready(engine, record, &ready),
            Payload::Sample(sample) => samples::on(engine, record, &sample),
            Payload::Stack(stack) => {
                self.stacks.on_stack(engine, &stack);
                return None;
            }
            Payload::StackKeyReference(reference) => {
                self.stacks.on_key(engine, &reference);
                return None;
            }
            Payload::StackKeyDefinition(_) => return None,
            Payload::Dpc(dpc) => self.interrupts.on_dpc(engine, record, &dpc),
            Payload::Isr(isr) => self.interrupts.on_isr(engine, record, &isr),
            Payload::DiskIo(io) => self.transfers.on_disk_io(engine, record, &io),
            Payload::HardFault(fault) => self.transfers.on_hard_fault(engine, &fault),
            Payload::Malformed => {
                engine.source.undecodable += 1;
                StackSubject::nothing(engine.writer(record))
            }
            _ => StackSubject::nothing(engine.writer(record)),
        })
    }

    /// A record of a provider, which is another decoder's or shown as it is.
    fn provider(
        &mut self,
        engine: &mut Engine<'_>,
        record: &Record<'_>,
        provider: &Guid,
        id: u16,
    ) -> StackSubject {
        let tid = engine.writer(record);
        if clr_stacks::is_stack(provider, id) {
            self.stacks.on_runtime_stack(engine, record);
            return StackSubject::nothing(tid);
        }
        let task = record.task.filter(|task| task.tid != u32::MAX);
        let thread = task.map(|task| engine.thread(task.tid));
        if Gpu::wants(provider) {
            self.gpu.on(engine, record, thread);
            return StackSubject::nothing(tid);
        }
        let number = self.providers.on(engine, record, thread);
        if *provider == RUNTIME {
            self.stacks.runtime_wrote(tid, number);
        }
        number.map_or(StackSubject::nothing(tid), |number| StackSubject::waiting(tid, number))
    }
}
