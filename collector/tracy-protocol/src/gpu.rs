//! Work of GPUs, as a viewer is told.
//!
//! Both clocks are one: times of GPUs are told in the session's nanoseconds, with a period of one
//! and no calibration. Per context they never go back, since the viewer takes two seconds back for
//! a clock that has wrapped. So what lies in a job is told between its beginning and its end,
//! whoever handed it over; the viewer makes rows of that by threads.

use crate::catalogue::{ContextId, ContextRow};
use crate::event::Job;
use crate::version::Kind;
use crate::viewer::{Moment, Viewer};
use crate::wire::Family;

/// The type of contexts that are none of its programming interfaces.
const CUSTOM: u8 = 7;
/// Numbers of questions that have no answer yet: of where a job begins and ends. Each is answered
/// at once.
const BEGIN: u16 = 0;
const END: u16 = 1;

impl Viewer {
    /// Tells of a context, before anything that is of it; `None` where there is no room for it.
    pub(crate) fn context(&mut self, context: ContextId, at: Moment<'_>) -> Option<u8> {
        if let Some(number) = self.contexts.get(context) {
            return number;
        }
        let ContextRow { name, owner } = *at.catalogue.contexts.get(&context)?;
        let Some(number) = self.contexts.add(context, owner) else {
            self.tell_refused(at);
            return None;
        };
        // Thread 0: jobs of a context are of any thread.
        let made = self.writer.begin(Kind::GpuNewContext).i64(at.time).i64(at.time).u32(0);
        drop(made.f32(1.0).u8(number).u8(0).u8(CUSTOM));
        self.writer.single(at.catalogue.get_text(name));
        drop(self.writer.begin(Kind::GpuContextName).u8(number));
        self.cut();
        Some(number)
    }

    /// Says now and then how many contexts found no room.
    fn tell_refused(&mut self, at: Moment<'_>) {
        let refused = self.contexts.refused();
        if refused.is_power_of_two() {
            let text =
                format!("{refused} contexts of GPUs find no room, and their zones are missing");
            self.warn(text, at);
        }
    }

    /// A job, with what lies in it.
    pub(crate) fn job(&mut self, context: ContextId, job: &Job, at: Moment<'_>) {
        if let Some(number) = self.context(context, at) {
            self.numbered_job(number, job, at);
        }
    }

    fn numbered_job(&mut self, context: u8, job: &Job, at: Moment<'_>) {
        let Job { thread, location, cpu, gpu, ref inside } = *job;
        self.thread(thread, at);
        let location = self.place(location);
        let began = self.writer.difference(Family::Serial, cpu[0]);
        let begin = self.writer.begin(Kind::GpuZoneBeginSerial).i64(began).u32(thread);
        drop(begin.u16(BEGIN).u8(context).u64(location));
        self.gpu_time(context, BEGIN, gpu[0]);
        self.cut();
        inside.iter().for_each(|inside| self.numbered_job(context, inside, at));
        let ended = self.writer.difference(Family::Serial, cpu[1]);
        let end = self.writer.begin(Kind::GpuZoneEndSerial).i64(ended).u32(thread);
        drop(end.u16(END).u8(context));
        self.gpu_time(context, END, gpu[1]);
        self.cut();
    }

    fn gpu_time(&mut self, context: u8, query: u16, time: i64) {
        // What is before the viewer's first time it would take for no time.
        let time = time.max(self.own.zero + 1);
        let time = self.writer.difference(Family::Gpu, time);
        drop(self.writer.begin(Kind::GpuTime).i64(time).u16(query).u8(context));
    }
}
