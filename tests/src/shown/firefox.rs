//! What a Firefox profile shows: its tables, read as the format's documentation
//! describes them.
//!
//! The Firefox Profiler opens broken tables, and functions silently vanish, so
//! an index that leads nowhere is an error here.

use super::{add, damage};
use crate::reference_capture::Figures;
use crate::tracy_reader::Damage;
use serde_json::Value;

/// A profile.
pub struct Profile {
    json: Value,
}

/// A frame of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its function.
    pub function: String,
    /// What kind of code it is, or of waiting.
    pub category: String,
}

/// A row of a thread's samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Milliseconds since the profile's zero.
    pub time: f64,
    /// Sampling intervals that it stands for.
    pub weight: u64,
    /// Innermost first; empty where nothing is known.
    pub stack: Vec<Frame>,
}

impl Row {
    /// Whether it was taken on a CPU.
    pub fn on_cpu(&self) -> bool {
        self.weight > 0 && self.stack.first().is_some_and(|frame| frame.category != "Off-CPU")
    }
}

/// A marker.
#[derive(Clone, Debug, PartialEq)]
pub struct Marker {
    /// Its name.
    pub name: String,
    /// Nanoseconds from its begin to its end, if it has both.
    pub duration: Option<u64>,
    /// What it carries; `type` is the name of its schema.
    pub data: Value,
}

impl Profile {
    /// Reads a profile that is not compressed.
    ///
    /// # Errors
    ///
    /// When it is no JSON.
    pub fn read(json: &[u8]) -> Result<Self, Damage> {
        let json =
            serde_json::from_slice(json).map_err(|error| damage(format!("no JSON: {error}")))?;
        Ok(Self { json })
    }

    /// The JSON itself.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The threads.
    pub fn threads(&self) -> &[Value] {
        list(&self.json["threads"])
    }

    /// The threads with that name.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Value> {
        self.threads().iter().filter(move |thread| thread["name"] == name)
    }

    /// A thread's samples.
    ///
    /// # Errors
    ///
    /// When a table lacks what it should have.
    pub fn rows(&self, thread: &Value) -> Result<Vec<Row>, Damage> {
        let samples = &thread["samples"];
        let mut time = 0.0;
        let mut rows = Vec::new();
        for row in 0..length(samples)? {
            time += cell(samples, "timeDeltas", row)?
                .as_f64()
                .ok_or_else(|| damage("a sample without a time"))?;
            let weight = number(cell(samples, "weight", row)?)?;
            rows.push(Row { time, weight, stack: self.stack(cell(samples, "stack", row)?)? });
        }
        Ok(rows)
    }

    fn stack(&self, row: &Value) -> Result<Vec<Frame>, Damage> {
        let stacks = &self.json["shared"]["stackTable"];
        let (mut frames, mut next) = (Vec::new(), row);
        while !next.is_null() {
            let row = number(next)? as usize;
            frames.push(self.frame(number(cell(stacks, "frame", row)?)? as usize)?);
            next = cell(stacks, "prefix", row)?;
            if frames.len() > length(stacks)? {
                return Err(damage("a stack calls itself"));
            }
        }
        Ok(frames)
    }

    fn frame(&self, row: usize) -> Result<Frame, Damage> {
        let shared = &self.json["shared"];
        let function = number(cell(&shared["frameTable"], "func", row)?)? as usize;
        let category = number(cell(&shared["frameTable"], "category", row)?)? as usize;
        let category = self.json["meta"]["categories"][category]["name"].as_str();
        let category = category.ok_or_else(|| damage("a frame without a category"))?.to_owned();
        Ok(Frame {
            function: self.string(cell(&shared["funcTable"], "name", function)?)?,
            category,
        })
    }

    fn string(&self, row: &Value) -> Result<String, Damage> {
        let text = self.json["shared"]["stringArray"][number(row)? as usize].as_str();
        text.map(str::to_owned).ok_or_else(|| damage(format!("there is no string {row}")))
    }

    /// A thread's markers.
    ///
    /// # Errors
    ///
    /// When a table lacks what it should have.
    pub fn markers(&self, thread: &Value) -> Result<Vec<Marker>, Damage> {
        let markers = &thread["markers"];
        (0..length(markers)?)
            .map(|row| {
                let name = self.string(cell(markers, "name", row)?)?;
                let [start, end] = ["startTime", "endTime"]
                    .map(|column| cell(markers, column, row).map(Value::as_f64));
                let duration = end?.zip(start?).map(|(end, start)| nanoseconds(end - start));
                Ok(Marker { name, duration, data: cell(markers, "data", row)?.clone() })
            })
            .collect()
    }

    /// The values of each counter that is called so: the viewer takes its first row for zero, and
    /// adds the others up.
    pub fn counters(&self, label: &str) -> Vec<Vec<f64>> {
        let counters = list(&self.json["counters"]).iter();
        counters.filter(|counter| counter["display"]["label"] == label).map(values).collect()
    }
}

fn values(counter: &Value) -> Vec<f64> {
    let growth = list(&counter["samples"]["count"])
        .iter()
        .skip(1)
        .map(|value| value.as_f64().unwrap_or(f64::NAN));
    growth
        .scan(0.0, |sum, growth| {
            *sum += growth;
            Some(*sum)
        })
        .collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn length(table: &Value) -> Result<usize, Damage> {
    Ok(number(&table["length"])? as usize)
}

fn number(value: &Value) -> Result<u64, Damage> {
    value.as_u64().ok_or_else(|| damage(format!("{value} is no number")))
}

fn cell<'a>(table: &'a Value, column: &str, row: usize) -> Result<&'a Value, Damage> {
    let cell = table[column].get(row);
    cell.ok_or_else(|| damage(format!("column {column} has no row {row}")))
}

/// Of milliseconds.
fn nanoseconds(milliseconds: f64) -> u64 {
    (milliseconds * 1e6).round() as u64
}

/// The figures of a profile that was written with each switch and wakeup as a marker.
///
/// # Errors
///
/// When a table lacks what it should have.
pub fn firefox(json: &[u8]) -> Result<Figures, Damage> {
    let profile = Profile::read(json)?;
    let mut figures = Figures::new();
    let f = &mut figures;
    for thread in profile.threads() {
        let [process, name] =
            ["processName", "name"].map(|key| thread[key].as_str().unwrap_or_default());
        let whose = format!("{process} / {name}");
        for row in profile.rows(thread)?.iter().filter(|row| row.on_cpu()) {
            add(f, "samples", row.weight);
            add(f, format!("samples of {whose}"), row.weight);
            add(f, format!("self {}", row.stack[0].function), row.weight);
        }
        for marker in profile.markers(thread)? {
            match marker.data["type"].as_str() {
                Some("gpuJob") => gpu_job(&marker, name.trim_start_matches("GPU: "), f),
                _ => count(&marker, &whose, f),
            }
        }
    }
    for queue in profile.counters("queue (jobs)") {
        add(f, "values of queue", queue.len() as u64);
        add(f, "sum of queue", queue.iter().sum::<f64>() as u64);
    }
    for memory in profile.counters("Memory") {
        add(f, "bytes held", memory.last().copied().unwrap_or_default() as u64);
    }
    Ok(figures)
}

/// A job on the thread that stands for its queue.
fn gpu_job(job: &Marker, queue: &str, f: &mut Figures) {
    add(f, format!("GPU jobs of {queue}"), 1);
    let end = job.data["end"].as_str().unwrap_or_default();
    let unfinished = end.starts_with("not ended");
    add(f, "GPU jobs that failed", end.starts_with("failed").into());
    let more = job.data["more"].as_str().unwrap_or_default();
    let errors = more.split(", ").filter_map(|field| field.strip_prefix("error: "));
    errors.for_each(|error| add(f, format!("GPU errors {error}"), 1));
    add(f, "GPU jobs that never ended", unfinished.into());
    add(f, "GPU jobs without a beginning", end.starts_with("ended before").into());
    if let (Some(_), Some(duration), false) = (job.data["ran"].as_f64(), job.duration, unfinished) {
        add(f, format!("GPU time of {queue}"), duration);
    }
    let waited = nanoseconds(job.data["waited"].as_f64().unwrap_or_default());
    add(f, format!("GPU delay of {queue}"), waited);
    if let (Some(duration), false) = (job.duration, unfinished) {
        add(f, format!("GPU latency of {queue}"), waited + duration);
    }
}

fn count(marker: &Marker, whose: &str, f: &mut Figures) {
    let Marker { name, data, duration } = marker;
    if let ("waits for a fence", Some(duration)) = (&**name, duration) {
        add(f, "time of waits for a fence", *duration);
        if let Some(by) = data["signaled by"].as_str() {
            add(f, format!("fences signaled by {by}"), 1);
        }
    }
    match data["type"].as_str().unwrap_or_default() {
        "running" => {
            add(f, "runs", 1);
            add(f, format!("runs of {whose}"), 1);
        }
        "wakeup" => add(f, "wakeups", 1),
        "gpuSubmit" => add(f, format!("GPU jobs by {whose}"), 1),
        "crash" => add(f, "crashes", 1),
        "lock" if name == "Lock held" => add(f, "times that cache was held", 1),
        "lock" => add(f, "waits for cache", 1),
        "frame" => add(f, format!("frames {name}"), 1),
        "message" => {
            let content = match (data["text"].as_str(), data["number"].as_u64()) {
                (Some(text), _) => text.to_owned(),
                (None, Some(number)) => format!("{name} {number}"),
                (None, None) => name.clone(),
            };
            add(f, format!("message {content}"), 1);
            add(f, "messages", 1);
        }
        "mark" | "Read" => add(f, format!("marker {name}"), 1),
        _ => add(f, format!("zone {name}"), 1),
    }
}
