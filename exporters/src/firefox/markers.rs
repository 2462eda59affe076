//! Markers, and the schemas that tell the viewer how to show them.

use super::tables::Category;
use serde::Serialize;
use serde_json::{Value, json};
use syscollect_model::Loss;

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
    pub(super) category: Category,
    pub(super) timing: Timing,
    pub(super) data: Data,
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
    /// A slice or an instant of a track.
    Slice { track: u32 },
    /// A process and its program.
    Process { command: String, parent: Option<u32> },
    /// Events that are missing.
    Loss(LossData),
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
    lane: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<u32>,
    reason: &'static str,
    count: u64,
}

impl LossData {
    pub(super) fn new(loss: &Loss) -> Self {
        Self { lane: loss.lane.clone(), cpu: loss.cpu, reason: loss.cause.name(), count: loss.count }
    }
}

/// How the viewer shows each type of [`Data`].
pub(super) fn schemas() -> Value {
    let everywhere = json!(["marker-chart", "marker-table", "timeline-overview"]);
    let tables = json!(["marker-chart", "marker-table"]);
    let field = |key: &str, label: &str, format: &str| json!({"key": key, "label": label, "format": format});
    json!([
        {
            "name": "slice", "display": everywhere, "tableLabel": "{marker.data.track}", "isStackBased": true,
            "fields": [field("track", "Track", "unique-string")],
        },
        {
            "name": "process", "display": tables, "tableLabel": "{marker.data.command}",
            "fields": [field("command", "Command line", "string"), field("parent", "Parent process id", "integer")],
        },
        {
            "name": "loss", "display": everywhere,
            "tableLabel": "{marker.data.count} from {marker.data.lane}: {marker.data.reason}",
            "description": "Events happened here that are not in the recording.",
            "fields": [
                field("lane", "Lost from", "string"), field("cpu", "CPU", "integer"),
                field("reason", "Cause", "string"), field("count", "Records", "integer"),
            ],
        },
        {
            "name": "running", "display": tables, "tableLabel": "on CPU {marker.data.cpu}, then {marker.data.next}",
            "chartLabel": "CPU {marker.data.cpu}", "description": "The thread ran; the stack is where it left off.",
            "fields": [
                field("cpu", "CPU", "integer"), field("next", "Then", "unique-string"),
                field("function", "Waits in", "unique-string"),
            ],
        },
        {
            "name": "wakeup", "display": tables, "tableLabel": "by {marker.data.waker}",
            "description": "The thread may run again; the stack is the waker's.",
            "fields": [
                field("waker", "By", "unique-string"), field("cpu", "Waker's CPU", "integer"),
                field("target", "CPU it last ran on", "integer"),
            ],
        },
    ])
}
