//! The loads of the benchmark, and which tracers each is run under.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::tracer::{
    FTRACE, PERF_SAMPLES, PERF_SCHED, PERF_SCHED_STACKS, SAMPLES, SCHED, SCHED_STACKS, Tracer,
};
use crate::privileged::context::{Context, finish, json_lines, number};

/// A fixed amount of work.
pub(super) struct Workload {
    pub(super) title: &'static str,
    arguments: &'static [&'static str],
    pub(super) tracers: &'static [Tracer],
}

/// Switching and computing.
pub(super) const WORKLOADS: [Workload; 3] = [
    Workload {
        title: "`perf bench sched pipe`, 200,000 switches on one CPU",
        // By perf itself, so that others can compare; left out where perf is not installed.
        arguments: &[
            "wrap",
            "/dev/stdout",
            "taskset",
            "-c",
            "1",
            "perf",
            "bench",
            "sched",
            "pipe",
            "-l",
            "100000",
        ],
        tracers: &[PERF_SCHED, FTRACE, SCHED, PERF_SCHED_STACKS, SCHED_STACKS],
    },
    Workload {
        title: "two processes and a pipe, no library between, 200,000 switches on one CPU",
        arguments: &["ping-pong", "100000", "1"],
        tracers: &[PERF_SCHED, FTRACE, SCHED, SCHED_STACKS],
    },
    Workload {
        title: "CPU-bound, two threads, stacks of 24 frames",
        arguments: &["stacks", "2", "400000"],
        tracers: &[PERF_SAMPLES, SAMPLES],
    },
];

/// For some seconds.
pub(super) const SWITCHING: Workload = Workload {
    title: "two processes and a pipe, no library between, a million switches on one CPU",
    arguments: &["ping-pong", "500000", "1"],
    tracers: &[],
};

/// Context switches a second of [`PACED`].
pub(super) const PACE: u64 = 300_000;

/// For five seconds.
pub(super) const PACED: Workload = Workload {
    title: "two processes and a pipe, 300,000 switches a second on one CPU",
    arguments: &["ping-pong", "750000", "1", "300000"],
    tracers: &[],
};

/// What a load says of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadFigures {
    /// CPU time, user and system.
    pub(super) cpu_seconds: f64,
    /// Context switches a second; 0 where it does not count them.
    pub(super) rate: f64,
}

impl Workload {
    /// Whether everything it runs is there.
    pub(super) fn is_installed(&self) -> bool {
        !self.arguments.contains(&"perf") || PERF_SCHED.is_installed()
    }

    /// Runs it; its own CPU time, user and system.
    pub(super) fn cpu_seconds(&self, context: &Context) -> Result<f64> {
        Ok(self.run(context)?.cpu_seconds)
    }

    /// Runs it.
    pub(super) fn run(&self, context: &Context) -> Result<LoadFigures> {
        let output = finish(Command::new(&context.load).args(self.arguments))?;
        ensure!(output.status.success(), "the load failed:\n{}", output.stderr);
        let lines = json_lines(&output.stdout)?;
        let line = lines
            .iter()
            .find(|line| line["cpu_ns"].is_u64())
            .context("the load told no CPU time")?;
        let switches: u64 = lines.iter().filter_map(|line| line["switches"].as_u64()).sum();
        let seconds = line["wall_ns"].as_u64().unwrap_or_default() as f64 / 1e9;
        let rate = if seconds > 0.0 { switches as f64 / seconds } else { 0.0 };
        Ok(LoadFigures { cpu_seconds: number(line, "cpu_ns")? as f64 / 1e9, rate })
    }
}
