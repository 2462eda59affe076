//! Asking Java virtual machines (HotSpot) for the names of the methods that they compiled.
//!
//! From JDK 17 on such a machine writes its perf map when it is asked to, as `jcmd PID
//! Compiler.perfmap` does: a file in its `/tmp` and a signal have it open a socket, through which
//! it takes commands from its own user. Whose it is decides what lies there, when it answers and
//! what, and a signal ends a program that does not await it. So a [process of its own](serve) asks,
//! which was forked before the recorder had read anything, and for each machine one more, which
//! looks at it ([`target`]), gives up all rights but those of its user, asks ([`protocol`]), and is
//! killed where that takes too long. Nothing but one of a few [answers](Answer) comes back: what
//! the machine wrote is found where perf maps are looked for, and as those are.

mod answer;
mod protocol;
mod serve;
mod target;
mod watch;

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use syscollect_model::Mapping;
use syscollect_untrusted_files::FixedPath;

use self::answer::Answer;
use self::serve::{AskOne, GRACE, Request};
use self::watch::JvmWatch;
use crate::child_process::ChildProcess;
use crate::fair_queue::ProcessUser;
use crate::{bpf_calls, usage};

const NAME: &std::ffi::CStr = c"jvm-asker";
/// The process that asks decides nothing by time but the end of its children.
const BEYOND_GRACE: Duration = Duration::from_secs(1);

/// The process that asks. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct JvmAttacher {
    process: ChildProcess,
}

impl JvmAttacher {
    /// Starts it. To be called while this process is small and has few threads: the new one is its
    /// copy.
    ///
    /// # Errors
    ///
    /// No process or no socket can be had.
    pub(crate) fn start() -> io::Result<Self> {
        Self::that_asks(target::ask)
    }

    fn that_asks(ask: AskOne) -> io::Result<Self> {
        let process = ChildProcess::start(NAME, |socket| serve::run(socket, ask))?;
        Ok(Self { process })
    }

    /// Has all of these write their maps, side by side, and waits for it no longer than `limit`.
    ///
    /// # Errors
    ///
    /// The process that asks is gone.
    pub(crate) fn ask(&mut self, pids: &[u32], limit: Duration) -> io::Result<Vec<Answer>> {
        let socket = &mut self.process.socket;
        socket.set_read_timeout(Some(limit + GRACE + BEYOND_GRACE))?;
        socket.write_all(&Request { limit, pids: pids.to_vec() }.encode())?;
        let mut answers = vec![0; pids.len()];
        socket.read_exact(&mut answers)?;
        Ok(answers.into_iter().map(Answer::of_code).collect())
    }
}

impl Drop for JvmAttacher {
    fn drop(&mut self) {
        if let Some(cpu_ns) = self.process.end() {
            usage::add_other_process(cpu_ns);
        }
    }
}

/// The machines of a recording, and who asks them.
#[derive(Debug)]
pub(crate) struct JvmNames {
    asker: JvmAttacher,
    /// The map of processes that are recorded, where that is not all.
    recorded: Option<OwnedFd>,
    watch: JvmWatch,
    /// What came of asking last.
    notes: Vec<String>,
}

impl JvmNames {
    /// Nobody is known yet.
    pub(crate) fn new(asker: JvmAttacher, recorded: Option<OwnedFd>) -> Self {
        Self { asker, recorded, watch: JvmWatch::default(), notes: Vec::new() }
    }

    /// How long asking may take.
    pub(crate) fn longest(&self) -> Duration {
        limit_at(f64::MAX, 1) + GRACE + BEYOND_GRACE
    }

    /// A process has a file mapped.
    pub(crate) fn mapped(&mut self, mapping: &Mapping, at: u64, whose: ProcessUser) {
        if self::watch::is_hotspot(&mapping.path)
            && self
                .recorded
                .as_ref()
                .is_none_or(|recorded| bpf_calls::contains(recorded.as_fd(), mapping.pid))
        {
            self.watch.add(mapping.pid, at, whose);
        }
    }

    /// A process runs another program, since then.
    pub(crate) fn exec(&mut self, pid: u32, at: u64) {
        self.watch.exec(pid, at);
    }

    /// Has all that live write their maps.
    pub(crate) fn ask(&mut self) {
        let (pids, limit) = (self.watch.living(), limit());
        if pids.is_empty() {
            self.notes.clear();
            return;
        }
        match self.asker.ask(&pids, limit) {
            Ok(answers) => {
                let answers: Vec<_> = pids.into_iter().zip(answers).collect();
                let gone = answers.iter().filter(|(_, answer)| *answer == Answer::Gone).count();
                self.watch.found_ended(gone as u64);
                self.notes = answer::notes(&answers, limit);
            }
            Err(error) => {
                self.notes = vec![format!(
                    "--jvm: the process that asks Java virtual machines for names is gone: {error}"
                )];
            }
        }
    }

    /// What to say of those whose methods have no names.
    pub(crate) fn notes(&self) -> Vec<String> {
        [&self.notes[..], &self.watch.notes()].concat()
    }
}

/// How long is waited for answers: more where tasks wait for the CPUs.
fn limit() -> Duration {
    let load = FixedPath::new("/proc/loadavg").read_to_string().unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    limit_at(load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0), cpus)
}

fn limit_at(load: f64, cpus: usize) -> Duration {
    const IDLE: Duration = Duration::from_secs(2);
    IDLE.mul_f64((load / cpus as f64).clamp(1.0, 3.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Says of even numbers that they wrote it, of those that end in 1 nothing, and breaks off for
    /// the others.
    fn ask(pid: u32, _: Duration) -> Answer {
        match pid % 10 {
            0 | 2 | 4 | 6 | 8 => Answer::Written,
            1 => loop {
                std::thread::park();
            },
            // SAFETY: ends this child without anything of the test harness.
            _ => unsafe { libc::_exit(77) },
        }
    }

    #[test]
    fn who_never_answers_costs_the_limit_once_and_nobody_elses_answer() {
        let mut asker = JvmAttacher::that_asks(ask).unwrap();
        let (begin, limit) = (Instant::now(), Duration::from_millis(300));
        let answers = asker.ask(&[2, 1, 4, 11, 3, 6], limit).unwrap();
        let (written, silent) = (Answer::Written, Answer::Silent);
        let expected = [written, silent, written, silent, Answer::OutOfReach, written];
        assert_eq!(answers, expected);
        let took = begin.elapsed();
        assert!(took >= limit && took < limit + GRACE + BEYOND_GRACE, "{took:?}");
        assert_eq!(asker.ask(&[], limit).unwrap(), []);
        assert_eq!(asker.ask(&[8], Duration::from_secs(20)).unwrap(), [written]);
    }

    #[test]
    fn a_busy_machine_has_more_time_within_bounds() {
        assert_eq!(
            [limit_in_seconds(0.1, 2), limit_in_seconds(4.0, 2), limit_in_seconds(500.0, 2)],
            [2, 4, 6]
        );
    }

    fn limit_in_seconds(load: f64, cpus: usize) -> u64 {
        limit_at(load, cpus).as_secs()
    }
}
