//! The figures in the Firefox Profiler's own engine, through its command line `profiler-cli`.
//!
//! It is not part of this repository: the tool `get-viewers`, in the folder that
//! `SYSCOLLECT_VIEWERS` names, fetches it, or `PROFILER_CLI` names it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use syscollect_tests::reference_capture::Figures;

use super::text;
use crate::engine::{Fetched, LONGEST_ANSWER, fetched};
use crate::process::output_within;

/// Reasons for which threads are off the CPU, which the profile has as functions.
const OFF_CPU: [&str; 6] =
    ["sleeps", "waits for I/O", "blocked", "waits for a CPU", "stopped", "ends"];

/// A session of the engine with one profile.
pub(crate) struct ProfilerCli {
    program: PathBuf,
    path: OsString,
    session: String,
}

impl ProfilerCli {
    /// Loads a profile, or says why there is no engine to load it.
    pub(crate) fn load(profile: &Path) -> Result<Self, String> {
        let (program, path) = find()?;
        let mut cli = Self { program, path, session: String::new() };
        let profile = text(profile).map_err(|error| format!("{error:#}"))?;
        let output = output_within(LONGEST_ANSWER, &mut cli.command(&["load", profile]))
            .map_err(|error| format!("{error:#}"))?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let session = printed.lines().find_map(|line| line.strip_prefix("Session started: "));
        cli.session = session
            .ok_or_else(|| format!("profiler-cli started no session: {printed}"))?
            .trim()
            .to_owned();
        Ok(cli)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.env("PATH", &self.path).args(arguments);
        if !self.session.is_empty() {
            command.args(["--session", &self.session]);
        }
        command
    }

    fn json(&self, arguments: &[&str]) -> Result<Value> {
        let output = output_within(LONGEST_ANSWER, self.command(arguments).arg("--json"))?;
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("profiler-cli {arguments:?} printed no JSON"))
    }

    /// What the engine says of the profile.
    pub(super) fn figures(&self) -> Result<Figures> {
        let mut figures = Figures::new();
        for thread in list(&self.json(&["thread", "list"])?["threads"])? {
            let handle = thread["threadHandle"].as_str().context("a thread without a handle")?;
            let [process, name] =
                ["processName", "name"].map(|key| thread[key].as_str().unwrap_or_default());
            let whose = format!("{process} / {name}");
            self.functions(handle, &whose, &mut figures)?;
            match name.strip_prefix("GPU: ") {
                Some(queue) => self.gpu_jobs(handle, queue, &mut figures)?,
                None => self.markers(handle, &whose, &mut figures)?,
            }
        }
        for counter in list(&self.json(&["counter", "list"])?["counters"])? {
            if counter["name"] == "queue (jobs)" {
                // The first row is the zero from which the others grow.
                add(&mut figures, "values of queue", number(counter, "rangeSampleCount")? - 1);
            }
        }
        Ok(figures)
    }

    /// Samples of all threads together.
    pub(super) fn samples(&self) -> Result<u64> {
        let mut figures = Figures::new();
        for thread in self.threads()? {
            self.functions(&thread, "all", &mut figures)?;
        }
        Ok(figures.get("samples").copied().unwrap_or(0))
    }

    /// Wakeups of all threads together.
    pub(super) fn wakeups(&self) -> Result<u64> {
        let mut figures = Figures::new();
        for thread in self.threads()? {
            self.markers(&thread, "all", &mut figures)?;
        }
        Ok(figures.get("wakeups").copied().unwrap_or(0))
    }

    /// Handles of all threads.
    pub(crate) fn threads(&self) -> Result<Vec<String>> {
        let threads = self.json(&["thread", "list"])?;
        list(&threads["threads"])?
            .iter()
            .map(|thread| Some(thread["threadHandle"].as_str()?.to_owned()))
            .collect::<Option<_>>()
            .context("a thread without a handle")
    }

    fn functions(&self, thread: &str, whose: &str, figures: &mut Figures) -> Result<()> {
        let reported = self.json(&[
            "thread",
            "functions",
            "--thread",
            thread,
            "--limit",
            "0",
            "--include-idle",
        ])?;
        for row in list(&reported["functions"])? {
            let (name, samples) =
                (row["name"].as_str().unwrap_or_default(), number(row, "selfSamples")?);
            if !OFF_CPU.contains(&name) {
                add(figures, "samples", samples);
                add(figures, &format!("samples of {whose}"), samples);
                add(figures, &format!("self {name}"), samples);
            }
        }
        Ok(())
    }

    /// The markers of a thread that a search finds.
    fn found(&self, thread: &str, search: &str) -> Result<Value> {
        self.json(&["thread", "markers", "--thread", thread, "--limit", "0", "--search", search])
    }

    /// The thread that stands for a queue.
    fn gpu_jobs(&self, thread: &str, queue: &str, figures: &mut Figures) -> Result<()> {
        for (name, search) in [
            (&*format!("GPU jobs of {queue}"), "type:gpuJob"),
            ("GPU jobs that failed", "end:failed"),
            ("GPU jobs that never ended", "end:not ended"),
            ("GPU jobs without a beginning", "end:ended before"),
        ] {
            add(figures, name, number(&self.found(thread, search)?, "filteredMarkerCount")?);
        }
        let ended = self.found(thread, "-end:not ended,-end:ended before")?;
        for row in list(&ended["byType"])? {
            add(figures, &format!("GPU time of {queue}"), time(row)?);
        }
        Ok(())
    }

    fn markers(&self, thread: &str, whose: &str, figures: &mut Figures) -> Result<()> {
        let all = ["thread", "markers", "--thread", thread, "--limit", "0"];
        let reported = self.json(&all)?;
        for row in list(&reported["byType"])? {
            let (name, count) =
                (row["markerName"].as_str().unwrap_or_default(), number(row, "count")?);
            match name {
                "Running" => {
                    add(figures, "runs", count);
                    add(figures, &format!("runs of {whose}"), count);
                }
                "Wakeup" => add(figures, "wakeups", count),
                "Submit to GPU" => add(figures, &format!("GPU jobs by {whose}"), count),
                "Crash" => add(figures, "crashes", count),
                "Lock held" => add(figures, "times that cache was held", count),
                "Lock wait" => add(figures, "waits for cache", count),
                "Render" | "CRTC 0" => add(figures, &format!("frames {name}"), count),
                "Read" | "python:line" => add(figures, &format!("marker {name}"), count),
                _ => add(figures, &format!("zone {name}"), count),
            }
            if name == "waits for a fence" {
                add(figures, "time of waits for a fence", time(row)?);
            }
        }
        let messages = self.json(&[&all[..], &["--search", "type:message"]].concat())?;
        add(figures, "messages", number(&messages, "filteredMarkerCount")?);
        Ok(())
    }
}

/// Nanoseconds that all markers of a row took, from their mean in milliseconds.
fn time(row: &Value) -> Result<u64> {
    let mean =
        row["durationStats"]["avg"].as_f64().with_context(|| format!("no durations in {row}"))?;
    Ok((mean * number(row, "count")? as f64 * 1e6).round() as u64)
}

impl Drop for ProfilerCli {
    fn drop(&mut self) {
        // A daemon keeps the profile until it is told to stop.
        if !self.session.is_empty() {
            let mut stop = Command::new(&self.program);
            stop.env("PATH", &self.path).args(["stop", &self.session]);
            let _ = output_within(LONGEST_ANSWER, &mut stop);
        }
    }
}

/// The program, and the PATH with the Node.js that it needs.
fn find() -> Result<(PathBuf, OsString), String> {
    if let Some(program) = std::env::var_os("PROFILER_CLI") {
        return Ok((program.into(), std::env::var_os("PATH").unwrap_or_default()));
    }
    let Fetched { programs, path, .. } = fetched()?;
    Ok((programs.join("profiler-cli"), path))
}

fn add(figures: &mut Figures, name: &str, count: u64) {
    *figures.entry(name.to_owned()).or_default() += count;
}

fn list(value: &Value) -> Result<&Vec<Value>> {
    match value.as_array() {
        Some(list) => Ok(list),
        None => bail!("profiler-cli told {value} where a list belongs"),
    }
}

fn number(row: &Value, key: &str) -> Result<u64> {
    row[key].as_u64().with_context(|| format!("profiler-cli told no {key} in {row}"))
}
