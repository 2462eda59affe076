//! The report in words, for a terminal.
//!
//! Each section is a function of what it shows; which there are, and in which order, is said here.
//! Names come from the recorded machine: control characters in them are escaped, so that they
//! cannot do anything to the terminal.

mod activity;
mod callers;
mod event_loops;
mod functions;
mod gpu;
mod head;
mod missing;
mod off_cpu;
mod printer;
mod programs;
mod scheduling;
mod sleepers;
mod stack;
mod tree;
mod verdict;
pub(super) mod words;
mod worst;

use super::data::*;
use activity::{TaskTables, print_cpus};
use callers::print_callers;
use event_loops::print_event_loops;
use functions::print_functions;
use gpu::{print_fence_waits, print_gpu_jobs, print_gpu_zones};
use head::print_head;
use missing::{print_losses, print_unresolved};
use off_cpu::print_off_cpu;
use printer::Printer;
use programs::{
    print_counters, print_crashes, print_frames, print_instants, print_locks, print_memory,
    print_signal_exits, print_slices,
};
use scheduling::{print_migrations, print_run_queue, print_wakeups};
use sleepers::print_sleepers;
use syscollect_model::{OperatingSystem, Shortfall};
use tree::{CPU_SAMPLES, OFF_CPU_TIME, print_tree, print_who_slept_instead};
use verdict::verdict;
use worst::{
    print_blocked_waits, print_cpu_waits, print_idle_left_out, print_lock_waits,
    print_what_was_instead,
};

impl Report {
    /// The report as text in lines of `width` characters, as far as that is
    /// possible without cutting figures.
    pub fn text(&self, width: usize) -> String {
        let mut printer = Printer::new(width);
        let out = &mut printer;
        out.paragraph(&verdict(self));
        out.empty_line();
        print_head(self, out);
        print_cpus(&self.cpus, out);
        let tasks = TaskTables::of(self);
        tasks.print("Processes", &self.processes, out);
        tasks.print("Processes of one name together,", &self.processes_by_name, out);
        tasks.print("Threads", &self.threads, out);
        print_functions(&self.functions, &self.recording.sample_event, out);
        print_off_cpu(&self.off_cpu, out);
        print_sleepers(&self.off_cpu.asleep_throughout, out);
        print_wakeups(&self.wakeups, out);
        print_run_queue(&self.run_queue, out);
        print_migrations(&self.migrations, out);
        print_event_loops(&self.event_loops, out);
        print_crashes(&self.crashes, out);
        print_signal_exits(&self.signal_exits, out);
        print_frames(&self.frames, out);
        print_slices(&self.slices, out);
        print_callers(&self.callers, out);
        print_instants(&self.instants, out);
        print_locks(&self.locks, out);
        print_memory(&self.memory, out);
        // The same twice where each queue has jobs of one process.
        if self.gpu_queues.total < self.gpu.total {
            print_gpu_jobs("GPU jobs by queue", &self.gpu_queues, self.duration_ns, out);
        }
        print_gpu_jobs("GPU jobs by queue and process", &self.gpu, self.duration_ns, out);
        print_gpu_zones(&self.gpu_zones, out);
        print_fence_waits(&self.gpu_waits, out);
        print_counters(&self.counters, out);
        print_unresolved(&self.unresolved, &self.recording, out);
        print_losses(self, out);
        printer.finish()
    }

    /// The call trees as text in lines of `width` characters.
    pub fn tree_text(&self, width: usize) -> String {
        let mut printer = Printer::new(width);
        let out = &mut printer;
        print_head(self, out);
        let trees = self.trees.clone().unwrap_or_default();
        let linux = self.recording.os != OperatingSystem::Windows;
        print_tree(&trees.cpu, &CPU_SAMPLES, linux, out);
        print_tree(&trees.off_cpu, &OFF_CPU_TIME, linux, out);
        print_who_slept_instead(&trees.off_cpu, &self.off_cpu.asleep_throughout, out);
        printer.finish()
    }

    /// The longest waits as text in lines of `width` characters.
    pub fn worst_text(&self, width: usize) -> String {
        let mut printer = Printer::new(width);
        let out = &mut printer;
        print_head(self, out);
        let WorstWaits { for_cpu, blocked, idle_left_out, locks } = &self.worst;
        print_cpu_waits(for_cpu, &self.recording, out);
        print_blocked_waits(blocked, out);
        print_idle_left_out(*idle_left_out, out);
        print_lock_waits(locks, out);
        print_fence_waits(&self.gpu_waits, out);
        print_what_was_instead(self, out);
        printer.finish()
    }

    /// What is missing and was not counted as lost.
    fn shortfall(&self) -> Shortfall {
        Shortfall { gaps: self.unreported_gaps, stacks: self.missing_stacks }
    }

    /// How long it is: as the recorder says, so that all say the same, if events are of all of it.
    fn shown_length(&self) -> u64 {
        self.recorded_ns
            .filter(|recorded| self.duration_ns >= recorded - recorded / 100)
            .unwrap_or(self.duration_ns)
    }
}
