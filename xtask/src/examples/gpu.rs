//! Examples of GPU interfaces, on the driver that is there: Mesa's software drivers and pocl do.
//!
//! Each says what it marked, on which queue, and how long it waited for zones that the GPU had to
//! itself. The report, Tracy's file, Firefox's profile and, where its engine is there, Perfetto
//! have to say the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use syscollect_tests::tracy_reader::{self, GpuZone};

use super::{LIMIT, built};
use crate::engine::Engine;
use crate::process::{cargo, output_of, output_within, root};
use crate::report::{Outcome, Report};

/// The exit code of an example that finds no driver.
const NO_DRIVER: i32 = 77;
/// The integrations that are built in seconds. That of wgpu, which takes minutes, is built for its
/// example only.
const QUICK_FEATURES: &str = "ash,glow,opencl3";
/// What Tracy's zones say of their clocks.
const CLOCK_ERROR: &str = "error of its clock";

struct GpuExample {
    title: &'static str,
    /// Its name, and that of the process.
    name: &'static str,
    feature: &'static str,
    /// Debian's packages of a driver that needs no device.
    packages: &'static str,
}

const EXAMPLES: [GpuExample; 4] = [
    GpuExample {
        title: "Vulkan (ash)",
        name: "vulkan",
        feature: "ash",
        packages: "libvulkan1 mesa-vulkan-drivers",
    },
    GpuExample {
        title: "OpenGL (glow)",
        name: "opengl",
        feature: "glow",
        packages: "libegl1 libgl1-mesa-dri",
    },
    GpuExample {
        title: "OpenCL (opencl3)",
        name: "opencl",
        feature: "opencl3",
        packages: "ocl-icd-libopencl1 pocl-opencl-icd",
    },
    GpuExample {
        title: "wgpu",
        name: "wgpu",
        feature: "wgpu-example",
        packages: "libvulkan1 mesa-vulkan-drivers",
    },
];

/// Zones of a name, as somebody counts them.
type Counts = BTreeMap<String, u64>;

/// Builds, records and reads back each example.
pub(super) fn steps(report: &mut Report, syscollect: Option<&Path>) {
    for example in &EXAMPLES {
        report.step(example.title, || example.check(syscollect));
    }
}

/// Lints and tests of the integrations, for which no driver is needed.
pub(crate) fn without_drivers() -> Result<()> {
    output_of(&mut cargo_of_apis(&["fmt", "--check"]))?;
    let features = ["--quiet", "--features", QUICK_FEATURES];
    let clippy = ["--all-targets", "--", "-D", "warnings"];
    output_of(cargo_of_apis(&["clippy"]).args(features).args(clippy))?;
    output_of(cargo_of_apis(&["test"]).args(features).args(["--lib", "--tests"]))?;
    Ok(())
}

/// `cargo` in the workspace of the integrations.
fn cargo_of_apis(arguments: &[&str]) -> Command {
    let mut command = cargo();
    command.current_dir(root().join("usdt-client/gpu-apis")).args(arguments);
    command.env("CARGO_TARGET_DIR", folder());
    command
}

fn folder() -> PathBuf {
    root().join("target/gpu-apis")
}

impl GpuExample {
    fn check(&self, syscollect: Option<&Path>) -> Result<Outcome> {
        let build = ["build", "--quiet", "--release", "--features", self.feature, "--example"];
        output_of(cargo_of_apis(&build).arg(self.name))?;
        let program = folder().join("release/examples").join(self.name);
        let alone = Command::new(&program).output().context("the example does not start")?;
        let error = String::from_utf8_lossy(&alone.stderr);
        match alone.status.code() {
            Some(0) => {}
            Some(NO_DRIVER) => {
                let why = format!("{} is not installed: {}", self.packages, error.trim());
                return Ok(Outcome::NotOffered(why));
            }
            _ => bail!("it fails while nobody records: {}", error.trim()),
        }

        let syscollect = built(syscollect)?;
        let folder = tempfile::tempdir()?;
        let file = |ending: &str| folder.path().join(self.name).with_extension(ending);
        let capture = file("syscap");
        let mut record = Command::new(&syscollect);
        record.arg("record").arg("-o").arg(&capture).arg("--").arg(&program);
        let marked = MarkedGpuWork::of(&output_within(LIMIT, &mut record)?.stdout)?;

        let report = output_of(Command::new(&syscollect).args(["report", "--json"]).arg(&capture))?;
        let alone = self.compare_report(&marked, &serde_json::from_slice(&report.stdout)?)?;
        let export = |ending: &str, options: &[&str]| {
            let exported = file(ending);
            let mut export = Command::new(&syscollect);
            export.arg("export").args(options).arg(&capture).arg("-o").arg(&exported);
            output_of(&mut export).map(|_| exported)
        };
        // The layout that says how wrong clocks may be.
        let tracy = export("tracy", &["--tracy-layout", "0.13"])?;
        let [firefox, perfetto] = [export("json", &[])?, export("pftrace", &[])?];
        let clocks = marked.compare_tracy(&std::fs::read(&tracy)?)?;
        marked.compare_firefox(&serde_json::from_slice(&std::fs::read(&firefox)?)?)?;
        let mut seen = vec!["report", "Tracy's file", "Firefox's profile"];
        if let Ok(engine) = Engine::find() {
            marked.compare_perfetto(&engine, &perfetto)?;
            seen.push("Perfetto");
        }
        let counts: Vec<_> =
            marked.zones.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let (counts, seen) = (counts.join(", "), seen.join(", "));
        Ok(Outcome::Passed(format!("{}: {counts} in {seen}; {clocks}; {alone}", marked.device)))
    }

    /// Compares counts, and what the GPU worked on zones that it had to itself with how long the
    /// program waited for them, which is returned in words.
    fn compare_report(&self, marked: &MarkedGpuWork, report: &Value) -> Result<String> {
        let rows = report["gpu_zones"]["rows"].as_array().context("the report has no zones")?;
        let own = || {
            rows.iter().filter(|row| row["queue"] == *marked.queue && row["process"] == self.name)
        };
        let named = |row: &Value| row["name"].as_str().unwrap_or_default().to_owned();
        let number = |row: &Value, path: &str| row.pointer(path).and_then(Value::as_u64);
        let zones = own().map(|row| (named(row), number(row, "/zones").unwrap_or(0)));
        marked.same("the report", zones.collect())?;
        let untimed: u64 = own().filter_map(|row| number(row, "/untimed")).sum();
        ensure!(
            untimed == marked.without_times,
            "{untimed} zones without times, {} of the example",
            marked.without_times
        );
        let alone = own().find(|row| row["name"] == "alone").context("no zone alone")?;
        let ran = number(alone, "/ran/total_ns").context("alone took no time")?;
        let began = number(alone, "/waited/total_ns").unwrap_or(0);
        let waited = marked.waited_ns;
        let words = format!(
            "of {waited} ns that the program waited, the GPU worked {ran} and had not begun {began}"
        );
        // Waiting for a thing takes longer than the thing, and waking up not that much.
        ensure!(ran <= waited && ran >= waited / 20, "{words}");
        Ok(words)
    }
}

/// What an example says of itself.
struct MarkedGpuWork {
    device: String,
    queue: String,
    zones: Counts,
    without_times: u64,
    waited_ns: u64,
}

impl MarkedGpuWork {
    fn of(printed: &[u8]) -> Result<Self> {
        let printed = String::from_utf8_lossy(printed);
        let line = printed.lines().find(|line| line.starts_with('{'));
        let said: Value = serde_json::from_str(line.context("it marked nothing")?)?;
        let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
        let number = |key: &str| said[key].as_u64().with_context(|| format!("{key} is no number"));
        let zones = said["zones"].as_object().context("it has no zones")?;
        let zones = zones.iter().map(|(name, count)| (name.clone(), count.as_u64().unwrap_or(0)));
        let (without_times, waited_ns) = (number("without_times")?, number("waited_ns")?);
        let (device, queue, zones) = (text("device"), text("queue"), zones.collect());
        Ok(Self { device, queue, zones, without_times, waited_ns })
    }

    fn same(&self, place: &str, counted: Counts) -> Result<()> {
        ensure!(counted == self.zones, "marked {:?}, in {place} {counted:?}", self.zones);
        Ok(())
    }

    /// Counts Tracy's zones; none begins before it was submitted, but for the error of its clock.
    /// Returns what is to be said of the clocks.
    fn compare_tracy(&self, file: &[u8]) -> Result<String> {
        let trace = tracy_reader::read(file)
            .map_err(|damage| anyhow::anyhow!("Tracy's file cannot be read: {}", damage.0))?;
        let queues = trace.gpus.iter().filter(|queue| queue.name.contains(&self.queue));
        let zones: Vec<&GpuZone> =
            queues.flat_map(|queue| queue.threads.values().flatten()).collect();
        let mut counted = Counts::new();
        let (mut error, mut earliest) = (0.0_f64, i64::MAX);
        for zone in zones {
            *counted.entry(zone.name().to_owned()).or_default() += 1;
            let own = *zone.notes.get(CLOCK_ERROR).context("a zone says nothing of its clock")?;
            let waited = zone.gpu.0 - zone.cpu.0;
            ensure!(
                waited as f64 >= -own,
                "{} began {} ns before its submission, its clock is {own} ns off",
                zone.name(),
                -waited
            );
            error = error.max(own);
            earliest = earliest.min(waited);
        }
        self.same("Tracy's file", counted)?;
        Ok(format!("clocks within {error} ns, work begins {earliest} ns or more behind submission"))
    }

    /// Counts the markers of the queue in a profile for Firefox.
    fn compare_firefox(&self, profile: &Value) -> Result<()> {
        let texts = profile.pointer("/shared/stringArray").context("it has no texts")?;
        let threads = profile["threads"].as_array().context("it has no threads")?;
        let name = format!("GPU: {}", self.queue);
        let mut counted = Counts::new();
        for thread in threads.iter().filter(|thread| thread["name"] == *name) {
            let names = thread.pointer("/markers/name").and_then(Value::as_array);
            for index in names.into_iter().flatten().filter_map(Value::as_u64) {
                let text = texts[index as usize].as_str().unwrap_or_default();
                *counted.entry(text.to_owned()).or_default() += 1;
            }
        }
        self.same("Firefox's profile", counted)
    }

    /// Counts Perfetto's slices on the queue's tracks, and arrows to them.
    fn compare_perfetto(&self, engine: &Engine, trace: &Path) -> Result<()> {
        let queue = self.queue.replace('\'', "''");
        let zones = format!(
            "with zone as (select slice.* from slice join track on track.id = track_id join track \
             above on above.id = track.parent_id where above.name = 'GPU' and track.name glob \
             '{queue}*') "
        );
        let by_name = format!("{zones} select name, count(*) from zone group by name");
        let arrows = format!(
            "{zones} select z.name, count(*) from flow join zone z on z.id = slice_in group by 1"
        );
        let tables = engine.query(trace, &[&by_name, &arrows])?;
        for (what, rows) in ["Perfetto", "Perfetto's arrows"].into_iter().zip(tables) {
            let mut counted = Counts::new();
            for row in rows {
                let [name, count] = row.as_slice() else { bail!("a row of {} values", row.len()) };
                counted.insert(name.clone(), count.parse()?);
            }
            self.same(what, counted)?;
        }
        Ok(())
    }
}
