//! Markers, and the schemas that tell the viewer how to show them.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Value, json};
use std::sync::Arc;
use syscollect_model::{Loss, LossOrigin};

/// When a marker was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timing {
    Instant(u64),
    Interval(u64, u64),
    /// It began and did not end.
    Start(u64),
}

impl Timing {
    /// Start, end, and the number of the phase in the format.
    pub(super) fn parts(self) -> (Option<u64>, Option<u64>, u8) {
        match self {
            Self::Instant(at) => (Some(at), None, 0),
            Self::Interval(from, to) => (Some(from), Some(to), 1),
            Self::Start(from) => (Some(from), None, 2),
        }
    }
}

/// A marker; numbers of strings and stacks are rows of the shared tables.
#[derive(Debug)]
pub(super) struct Marker {
    pub(super) name: u32,
    /// A row of the categories.
    pub(super) category: u16,
    pub(super) timing: Timing,
    pub(super) data: MarkerData,
}

/// The name of a kind or a field, shared by all that have it.
pub(super) type Key = Arc<str>;

/// What a marker says.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum MarkerData {
    /// Of a kind that is known here.
    Fixed(Data),
    /// Of a kind that a program brought, or with fields of its own.
    OfProgram(ProgramMarker),
}

impl From<Data> for MarkerData {
    fn from(data: Data) -> Self {
        Self::Fixed(data)
    }
}

impl From<ProgramMarker> for MarkerData {
    fn from(reported: ProgramMarker) -> Self {
        Self::OfProgram(reported)
    }
}

/// What a program says in a marker.
#[derive(Debug)]
pub(super) struct ProgramMarker {
    pub(super) kind: Key,
    /// By the keys of the kind's fields.
    pub(super) entries: Vec<(Key, FieldItem)>,
    pub(super) cause: Option<Cause>,
}

/// What a field says.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum FieldItem {
    Text(Box<str>),
    Word(&'static str),
    /// A row of the strings.
    Row(u32),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

impl Serialize for ProgramMarker {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", &*self.kind)?;
        for (key, item) in &self.entries {
            map.serialize_entry(&**key, item)?;
        }
        if let Some(cause) = &self.cause {
            map.serialize_entry("cause", cause)?;
        }
        map.end()
    }
}

/// A stack that led to a marker.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Cause {
    pub(super) stack: u32,
}

/// What a marker says, by its type. Strings are rows of the shared table.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(super) enum Data {
    /// A process and its program.
    Process { command: String, parent: Option<u32> },
    /// Events that are missing.
    Loss(LossData),
    /// A lock is waited for or held.
    Lock(LockData),
    /// A thread takes its process down.
    Crash(CrashData),
    /// A signal ended the process.
    SignalExit(SignalExitData),
    /// A job of a GPU, on its queue.
    GpuJob(GpuJobData),
    /// An event loop did not come back to its wait.
    LoopAway(LoopAwayData),
    /// A thread handed a job over.
    GpuSubmit(GpuSubmitData),
    /// A stay on a CPU.
    Running {
        cpu: u32,
        next: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        function: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cause: Option<Cause>,
    },
    /// The thread was made runnable.
    Wakeup {
        waker: u32,
        cpu: u32,
        target: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        cause: Option<Cause>,
    },
}

/// The fields of a loss.
#[derive(Debug, Serialize)]
pub(super) struct LossData {
    lane: LossOrigin,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<u32>,
    reason: &'static str,
    count: u64,
}

impl LossData {
    pub(super) fn new(loss: &Loss) -> Self {
        Self {
            lane: loss.origin.clone(),
            cpu: loss.cpu.map(|cpu| cpu.number),
            reason: loss.cause.name(),
            count: loss.count,
        }
    }
}

/// The fields of a lock.
#[derive(Debug, Serialize)]
pub(super) struct LockData {
    pub(super) lock: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) holder: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) obtained: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shared: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) place: Option<String>,
}

/// The fields of a crash.
#[derive(Debug, Serialize)]
pub(super) struct CrashData {
    pub(super) signal: String,
    pub(super) code: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<Cause>,
}

/// The fields of a process's end by a signal.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SignalExitData {
    pub(super) signal: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) core_dumped: Option<&'static str>,
}

/// The fields of a job of a GPU; times are milliseconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GpuJobData {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thread: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waited: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) submission: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) place: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) accepted: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queued: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ran: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fence: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waited_for: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) more: Option<String>,
}

/// The fields of a stretch of an event loop; times are milliseconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LoopAwayData {
    pub(super) what: String,
    pub(super) waits: &'static str,
    pub(super) running: f64,
    pub(super) waiting: f64,
    pub(super) asleep: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unseen: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) least: Option<&'static str>,
}

/// The fields of a job where it is handed over.
#[derive(Debug, Serialize)]
pub(super) struct GpuSubmitData {
    pub(super) job: u32,
    pub(super) queue: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waited: Option<f64>,
}

/// How the viewer shows each type of [`Data`].
pub(super) fn schemas() -> Vec<Value> {
    let everywhere = json!(["marker-chart", "marker-table", "timeline-overview"]);
    let tables = json!(["marker-chart", "marker-table"]);
    vec![
        json!({
            "name": "process", "display": tables, "tableLabel": "{marker.data.command}",
            "fields": [field("command", "Command line", "string"), field("parent", "Parent process id", "integer")],
        }),
        json!({
            "name": "loss", "display": everywhere,
            "tableLabel": "{marker.data.count} from {marker.data.lane}: {marker.data.reason}",
            "description": "Events happened here that are not in the recording.",
            "fields": [
                field("lane", "Lost from", "string"), field("cpu", "CPU", "integer"),
                field("reason", "Cause", "string"), field("count", "Records", "integer"),
            ],
        }),
        json!({
            "name": "running", "display": tables, "tableLabel": "on CPU {marker.data.cpu}, then \
                                                                 {marker.data.next}",
            "chartLabel": "CPU {marker.data.cpu}", "description": "The thread ran; the stack is \
                                                                   where it left off.",
            "fields": [
                field("cpu", "CPU", "integer"), field("next", "Then", "unique-string"),
                field("function", "Waits in", "unique-string"),
            ],
        }),
        json!({
            "name": "wakeup", "display": tables, "tableLabel": "by {marker.data.waker}",
            "description": "The thread may run again; the stack is the waker's.",
            "fields": [
                field("waker", "By", "unique-string"), field("cpu", "Waker's CPU", "integer"),
                field("target", "CPU it last ran on", "integer"),
            ],
        }),
        json!({
            "name": "lock", "display": everywhere, "tableLabel": "{marker.data.lock} \
                                                                  {marker.data.place}",
            "chartLabel": "{marker.data.lock}",
            "fields": [
                field("lock", "Lock", "unique-string"), field("holder", "Held by", "unique-string"),
                field("obtained", "Obtained", "string"), field("shared", "With others", "string"),
                field("place", "Source", "string"),
            ],
        }),
        json!({
            "name": "crash", "display": everywhere, "tableLabel": "{marker.data.signal} \
                                                                   {marker.data.address}",
            "chartLabel": "{marker.data.signal}",
            "fields": [
                field("signal", "Signal", "string"), field("code", "Why it was sent", "string"),
                field("address", "Address", "string"),
            ],
        }),
        json!({
            "name": "signalExit", "display": everywhere, "tableLabel": "{marker.data.signal}",
            "chartLabel": "{marker.data.signal}", "description": "A signal ended the process.",
            "fields": [
                field("signal", "Signal", "string"), field("coreDumped", "Core dumped", "string"),
            ],
        }),
        json!({
            "name": "gpuJob", "display": everywhere, "chartLabel": "{marker.name} \
                                                                    {marker.data.thread}",
            "tableLabel": "{marker.data.thread}, waited {marker.data.waited}",
            "description": "The GPU worked on it, or had it in its queue where it is not known \
                            when it began.",
            "fields": [
                field("thread", "Submitted by", "unique-string"), field("context", "Context", "string"),
                field("waited", "From submission to start", "duration"),
                field("submission", "Submission took", "duration"),
                field("place", "Source", "string"),
                field("accepted", "From submission into the queue", "duration"),
                field("queued", "In the queue", "duration"), field("ran", "Ran", "duration"),
                field("fence", "Fence", "string"), field("waitedFor", "Waited for fences", "string"),
                field("end", "End", "string"), field("more", "More", "string"),
            ],
        }),
        json!({
            "name": "loopAway", "display": everywhere, "tableLabel": "{marker.data.what}",
            "chartLabel": "{marker.data.what}",
            "description": "The event loop did not come back to its wait.",
            "fields": [
                field("what", "What it did", "string"), field("waits", "It waits in", "string"),
                field("running", "On CPU", "duration"),
                field("waiting", "Waiting for a CPU", "duration"),
                field("asleep", "Asleep elsewhere", "duration"),
                field("unseen", "May have come back without sleeping", "string"),
                field("least", "At least as long", "string"),
            ],
        }),
        json!({
            "name": "gpuSubmit", "display": tables, "tableLabel": "{marker.data.job} to \
                                                                   {marker.data.queue}",
            "chartLabel": "{marker.data.job}",
            "fields": [
                field("job", "Job", "unique-string"), field("queue", "Queue", "unique-string"),
                field("waited", "Waited until the GPU began", "duration"),
            ],
        }),
    ]
}

fn field(key: &str, label: &str, format: &str) -> Value {
    json!({"key": key, "label": label, "format": format})
}
