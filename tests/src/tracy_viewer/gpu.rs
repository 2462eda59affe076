//! Work of GPUs, as the viewer takes it in: contexts, jobs within each other by the thread that
//! handed them over, and answers to questions for times.

use super::history::History;
use super::{Result, Violation, require};
use std::collections::BTreeMap;

/// How far times of a context may go back before the viewer takes that for a clock that wrapped.
const LONGEST_BACK: i64 = 1 << 31;

/// A job of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedGpuJob {
    /// Where.
    pub context: u8,
    /// By whom.
    pub thread: u32,
    /// What.
    pub location: u64,
    /// As the program sees it.
    pub cpu: [i64; 2],
    /// As the GPU does.
    pub gpu: [i64; 2],
    /// In how many of the thread it lies.
    pub depth: usize,
}

/// A question for a time of the GPU.
#[derive(Clone, Copy)]
pub(super) struct GpuQuery {
    pub(super) context: u8,
    pub(super) thread: u32,
    pub(super) query: u16,
}

/// A time that was asked for.
#[derive(Clone, Copy)]
struct AskedTime {
    job: usize,
    /// 0 where it begins, 1 where it ends.
    part: usize,
}

/// What a thread handed over.
#[derive(Default)]
struct ThreadJobs {
    open: Vec<usize>,
    /// When the last began and ended in each depth.
    last: Vec<[i64; 2]>,
}

/// A context.
#[derive(Default)]
pub(super) struct GpuContext {
    threads: BTreeMap<u32, ThreadJobs>,
    queries: BTreeMap<u16, AskedTime>,
    last: i64,
}

impl GpuContext {
    pub(super) fn is_open(&self) -> bool {
        !self.queries.is_empty() || self.threads.values().any(|jobs| !jobs.open.is_empty())
    }

    fn asks(&mut self, query: u16, asked: AskedTime) -> Result<()> {
        let before = self.queries.insert(query, asked);
        require!(before.is_none(), "query {query} has no answer yet");
        Ok(())
    }
}

impl History {
    pub(super) fn gpu_context(&mut self, context: u8) -> Result<()> {
        require!(context < 255, "a context that is none");
        let before = self.contexts.insert(context, GpuContext::default());
        require!(before.is_none(), "context {context} is told of twice");
        Ok(())
    }

    pub(super) fn gpu_named(&mut self, context: u8) -> Result<()> {
        require!(self.contexts.contains_key(&context), "nobody told of context {context}");
        let name = self.pending.take_single()?;
        self.seen.contexts.insert(context, name);
        Ok(())
    }

    fn context(&mut self, context: u8) -> Result<&mut GpuContext> {
        let known = self.contexts.get_mut(&context);
        known.ok_or_else(|| Violation(format!("nobody told of context {context}")))
    }

    pub(super) fn gpu_begin(
        &mut self,
        time: i64,
        GpuQuery { context: id, thread, query }: GpuQuery,
        location: u64,
    ) -> Result<()> {
        let job = self.seen.jobs.len();
        let context = self.context(id)?;
        context.asks(query, AskedTime { job, part: 0 })?;
        let open = &mut context.threads.entry(thread).or_default().open;
        let depth = open.len();
        open.push(job);
        let (cpu, gpu) = ([time, -1], [-1; 2]);
        self.seen.jobs.push(ReceivedGpuJob { context: id, thread, location, cpu, gpu, depth });
        Ok(())
    }

    pub(super) fn gpu_end(&mut self, time: i64, asked: GpuQuery) -> Result<()> {
        let GpuQuery { context: id, thread, query } = asked;
        let context = self.context(id)?;
        let job = context.threads.get_mut(&thread).and_then(|jobs| jobs.open.pop());
        let job = job.ok_or_else(|| Violation("a job ends that is none".into()))?;
        context.asks(query, AskedTime { job, part: 1 })?;
        let cpu = &mut self.seen.jobs[job].cpu;
        cpu[1] = time;
        require!(cpu[0] <= cpu[1], "a job was handed over before that began: {cpu:?}");
        Ok(())
    }

    pub(super) fn gpu_time(&mut self, time: i64, id: u8, query: u16) -> Result<()> {
        require!(time > self.zero, "what is not after the zero is no time to the viewer");
        let context = self.context(id)?;
        require!(
            time > context.last - LONGEST_BACK,
            "the viewer takes the clock for one that wraps"
        );
        context.last = time;
        let asked = context.queries.remove(&query);
        let AskedTime { job, part } =
            asked.ok_or_else(|| Violation("a time that nobody asked for".into()))?;
        let job = &mut self.seen.jobs[job];
        job.gpu[part] = time;
        let (depth, thread, gpu) = (job.depth, job.thread, job.gpu);
        if part == 1 {
            require!(gpu[0] >= 0 && gpu[0] <= gpu[1], "a job ends before it begins: {gpu:?}");
            let context = self.context(id)?;
            let last = &mut context.threads.entry(thread).or_default().last;
            last.resize(last.len().max(depth + 1), [0; 2]);
            // It searches rows by both times.
            let before = std::mem::replace(&mut last[depth], gpu);
            require!(before[1] <= gpu[0], "jobs of a row overlap: {before:?} and {gpu:?}");
            // What lies in it was told before it ended.
            if let Some(inside) = last.get(depth + 1)
                && inside[0] >= gpu[0]
            {
                require!(inside[1] <= gpu[1], "{inside:?} lies in {gpu:?}");
            }
        }
        Ok(())
    }
}
