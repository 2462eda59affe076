//! Profiles for pprof: gzip-compressed protobuf.
//!
//! Source of fact: `proto/profile.proto` of the pprof project.

use super::totals::{StackTotal, StackTotals, ThreadStack};
use crate::proto::{Message, push_varint};
use crate::{ExportError, ProcessFilter};
use flate2::Compression;
use flate2::write::GzEncoder;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::io::Write;
use syscollect_model::{
    Event, Exporter, FrameId, Loss, MachineId, ModuleId, RecorderSummary, SessionInfo, StackId,
    Tables, ThreadId, Time,
};

/// Field numbers of `Profile` and its messages.
mod field {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const MAPPING: u32 = 3;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const STRING: u32 = 6;
    pub(super) const TIME_NANOS: u32 = 9;
    pub(super) const DURATION_NANOS: u32 = 10;
    pub(super) const PERIOD_TYPE: u32 = 11;
    pub(super) const PERIOD: u32 = 12;
    pub(super) const DEFAULT_SAMPLE_TYPE: u32 = 14;

    pub(super) const TYPE: u32 = 1;
    pub(super) const UNIT: u32 = 2;

    pub(super) const SAMPLE_LOCATIONS: u32 = 1;
    pub(super) const SAMPLE_VALUES: u32 = 2;
    pub(super) const SAMPLE_LABEL: u32 = 3;
    pub(super) const LABEL_KEY: u32 = 1;
    pub(super) const LABEL_TEXT: u32 = 2;
    pub(super) const LABEL_NUMBER: u32 = 3;

    pub(super) const ID: u32 = 1;

    pub(super) const MAPPING_START: u32 = 2;
    pub(super) const MAPPING_LIMIT: u32 = 3;
    pub(super) const MAPPING_FILE: u32 = 5;
    pub(super) const MAPPING_BUILD_ID: u32 = 6;
    /// Functions, files, lines, inlined frames: all were looked up.
    pub(super) const MAPPING_HAS: [u32; 4] = [7, 8, 9, 10];

    pub(super) const LOCATION_MAPPING: u32 = 2;
    pub(super) const LOCATION_ADDRESS: u32 = 3;
    pub(super) const LOCATION_LINE: u32 = 4;
    pub(super) const LINE_FUNCTION: u32 = 1;
    pub(super) const LINE_NUMBER: u32 = 2;

    pub(super) const FUNCTION_NAME: u32 = 2;
    pub(super) const FUNCTION_SYSTEM_NAME: u32 = 3;
    pub(super) const FUNCTION_FILE: u32 = 4;
}

/// The name of a sample without a stack.
const NO_STACK: &str = "[no stack]";

/// Writes the session's CPU samples and off-CPU times as a pprof profile.
///
/// Sample types are `samples`, `cpu` (samples times their distance) and
/// `off-cpu` (from blocking until running again); processes and threads are labels. Samples of idle
/// CPUs and time of threads that had nothing to do are left out, as in flame graphs: they would be
/// the most of both.
///
/// ```
/// use syscollect_exporters::PprofExporter;
/// use syscollect_model::{Exporter, SessionInfo, Tables};
///
/// let tables = Tables::default();
/// let mut exporter = PprofExporter::new(Vec::new(), None);
/// exporter.begin(&tables)?;
/// exporter.end(&[], None, &tables)?;
/// assert!(exporter.finish()?.starts_with(&[0x1f, 0x8b]), "gzip");
/// # Ok::<(), syscollect_exporters::ExportError>(())
/// ```
pub struct PprofExporter<W> {
    out: W,
    totals: StackTotals,
    session: SessionInfo,
    profile: Vec<u8>,
    has_samples: bool,
}

impl<W: Write> PprofExporter<W> {
    /// A writer to `out`, limited to some processes if `process` says so.
    pub fn new(out: W, process: Option<ProcessFilter>) -> Self {
        let (session, profile) = Default::default();
        Self {
            out,
            totals: StackTotals::without_idle(process),
            session,
            profile,
            has_samples: false,
        }
    }

    /// Whether the session, which has ended, had no such stack: what is written is valid, and
    /// empty.
    pub fn is_empty(&self) -> bool {
        !self.has_samples
    }

    /// Writes the profile and gives the output back.
    ///
    /// # Errors
    ///
    /// [`ExportError::Write`] when the output refuses bytes.
    pub fn finish(self) -> Result<W, ExportError> {
        let mut encoder = GzEncoder::new(self.out, Compression::default());
        encoder.write_all(&self.profile)?;
        let mut out = encoder.finish()?;
        out.flush()?;
        Ok(out)
    }
}

impl<W: Write> Exporter for PprofExporter<W> {
    type Error = ExportError;

    fn begin(&mut self, tables: &Tables) -> Result<(), ExportError> {
        let session = tables.machine(MachineId::FIRST);
        self.session = session.clone();
        Ok(())
    }

    #[inline]
    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), ExportError> {
        self.totals.event(time, event, tables);
        Ok(())
    }

    fn end(
        &mut self,
        _: &[Loss],
        _: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Result<(), ExportError> {
        let period = period(&self.session).unwrap_or(0);
        let totals = self.totals.finish(tables);
        let mut encoder = Encoder::new(tables, period);
        encoder.head();
        for (key, total) in totals {
            if total.samples > 0 || total.off_cpu_ns > 0 {
                encoder.sample(key, &total);
                self.has_samples = true;
            }
        }
        let first = self.totals.first.unwrap_or_default().0;
        let duration = self.totals.last.0.saturating_sub(first);
        self.profile = encoder.finish(real_time(&self.session, first), duration);
        Ok(())
    }
}

/// Nanoseconds since 1970 at a time of the session; 0 where the clocks were not read.
fn real_time(session: &SessionInfo, time: u64) -> u64 {
    session.wall_clock(Time(time)).unwrap_or(0)
}

/// The addresses of a mapping that were seen.
#[derive(Clone, Copy, Debug)]
struct Range {
    module: ModuleId,
    first: u64,
    last: u64,
}

/// Ids of mappings, locations and functions begin at 1: 0 stands for none.
struct Encoder<'a> {
    tables: &'a Tables,
    period: u64,
    out: Vec<u8>,
    strings: Vec<Cow<'a, str>>,
    string_ids: FxHashMap<&'a str, u64>,
    mappings: Vec<Range>,
    mapping_ids: FxHashMap<ModuleId, u64>,
    locations: FxHashMap<&'a [FrameId], u64>,
    functions: FxHashMap<(u64, u64), u64>,
    packed: Vec<u8>,
}

/// Nanoseconds that a sample stands for.
fn period(session: &SessionInfo) -> Option<u64> {
    1_000_000_000u64.checked_div(u64::from(session.sample_rate_hz))
}

impl<'a> Encoder<'a> {
    fn new(tables: &'a Tables, period: u64) -> Self {
        Self {
            tables,
            period,
            out: Vec::new(),
            // String 0 must be empty.
            strings: vec!["".into()],
            string_ids: FxHashMap::from_iter([("", 0)]),
            mappings: Vec::new(),
            mapping_ids: FxHashMap::default(),
            locations: FxHashMap::default(),
            functions: FxHashMap::default(),
            packed: Vec::new(),
        }
    }

    fn string(&mut self, text: &'a str) -> u64 {
        let strings = &mut self.strings;
        *self.string_ids.entry(text).or_insert_with(|| {
            strings.push(text.into());
            strings.len() as u64 - 1
        })
    }

    /// A `ValueType`.
    fn value_type(&mut self, field: u32, kind: &'static str, unit: &'static str) {
        let (kind, unit) = (self.string(kind), self.string(unit));
        Message::new(&mut self.out).message(field, |message| {
            message.uint(field::TYPE, kind);
            message.uint(field::UNIT, unit);
        });
    }

    fn head(&mut self) {
        self.value_type(field::SAMPLE_TYPE, "samples", "count");
        self.value_type(field::SAMPLE_TYPE, "cpu", "nanoseconds");
        self.value_type(field::SAMPLE_TYPE, "off-cpu", "nanoseconds");
        self.value_type(field::PERIOD_TYPE, "cpu", "nanoseconds");
        let default = self.string("cpu");
        let mut message = Message::new(&mut self.out);
        message.uint(field::PERIOD, self.period);
        message.uint(field::DEFAULT_SAMPLE_TYPE, default);
    }

    fn sample(&mut self, (thread, stack): ThreadStack, total: &StackTotal) {
        let locations = self.stack(stack);
        let labels = self.labels(thread);
        let session = self.tables.machine(self.tables.machine_of(thread));
        let period = period(session).unwrap_or(self.period);
        let values = [total.samples, total.samples.saturating_mul(period), total.off_cpu_ns];
        let Self { out, packed, .. } = self;
        Message::new(out).message(field::SAMPLE, |sample| {
            for (number, list) in
                [(field::SAMPLE_LOCATIONS, &locations[..]), (field::SAMPLE_VALUES, &values)]
            {
                packed.clear();
                list.iter().for_each(|value| push_varint(packed, *value));
                sample.bytes(number, packed);
            }
            for (key, field, value) in labels {
                sample.message(field::SAMPLE_LABEL, |label| {
                    label.uint(field::LABEL_KEY, key);
                    label.uint(field, value);
                });
            }
        });
    }

    fn labels(&mut self, thread: ThreadId) -> [(u64, u32, u64); 4] {
        let tables = self.tables;
        let row = tables.thread(thread);
        let process = tables.process(row.process);
        let (name, process_name) =
            (self.string(tables.strings.get(row.name)), tables.strings.get(process.name));
        [
            (self.string("process"), field::LABEL_TEXT, self.string(process_name)),
            (self.string("pid"), field::LABEL_NUMBER, u64::from(process.pid)),
            (self.string("thread"), field::LABEL_TEXT, name),
            (self.string("tid"), field::LABEL_NUMBER, u64::from(row.tid)),
        ]
    }

    /// The locations of a stack, innermost first.
    fn stack(&mut self, stack: Option<StackId>) -> Vec<u64> {
        let tables = self.tables;
        let frames = stack.map_or(&[][..], |id| tables.stack(id));
        if frames.is_empty() {
            return vec![self.location(&[])];
        }
        // Inlined frames share the location of the function that they are part of.
        frames
            .chunk_by(|inner, _| tables.frame(*inner).inlined)
            .map(|frames| self.location(frames))
            .collect()
    }

    /// A place in code with all frames there, innermost first; none stands for a missing stack.
    fn location(&mut self, frames: &'a [FrameId]) -> u64 {
        if let Some(id) = self.locations.get(frames) {
            return *id;
        }
        let outermost = frames.last().map(|id| self.tables.frame(*id));
        let mapping = outermost
            .and_then(|frame| Some(self.mapping(frame.module?, frame.offset)))
            .unwrap_or(0);
        let mut lines: Vec<(u64, u32)> = frames.iter().map(|id| self.line(*id)).collect();
        if frames.is_empty() {
            let name = self.string(NO_STACK);
            lines.push((self.function(name, 0), 0));
        }
        // Without a name, pprof shows mapping and address.
        lines.retain(|(function, _)| *function > 0);
        let id = self.locations.len() as u64 + 1;
        Message::new(&mut self.out).message(field::LOCATION, |location| {
            location.uint(field::ID, id);
            location.uint(field::LOCATION_MAPPING, mapping);
            location.uint(field::LOCATION_ADDRESS, outermost.map_or(0, |frame| frame.offset));
            for (function, number) in lines {
                location.message(field::LOCATION_LINE, |line| {
                    line.uint(field::LINE_FUNCTION, function);
                    line.uint(field::LINE_NUMBER, u64::from(number));
                });
            }
        });
        self.locations.insert(frames, id);
        id
    }

    /// Function (0 without a name) and line of a frame.
    fn line(&mut self, id: FrameId) -> (u64, u32) {
        let tables = self.tables;
        let frame = tables.frame(id);
        let Some(name) = frame.function else { return (0, 0) };
        let name = self.string(tables.strings.get(name));
        let file = frame.file.map_or(0, |file| self.string(tables.strings.get(file)));
        (self.function(name, file), frame.line)
    }

    fn function(&mut self, name: u64, file: u64) -> u64 {
        if let Some(id) = self.functions.get(&(name, file)) {
            return *id;
        }
        let id = self.functions.len() as u64 + 1;
        Message::new(&mut self.out).message(field::FUNCTION, |function| {
            function.uint(field::ID, id);
            function.uint(field::FUNCTION_NAME, name);
            function.uint(field::FUNCTION_SYSTEM_NAME, name);
            function.uint(field::FUNCTION_FILE, file);
        });
        self.functions.insert((name, file), id);
        id
    }

    fn mapping(&mut self, module: ModuleId, address: u64) -> u64 {
        let mappings = &mut self.mappings;
        let id = *self.mapping_ids.entry(module).or_insert_with(|| {
            mappings.push(Range { module, first: address, last: address });
            mappings.len() as u64
        });
        let range = &mut mappings[id as usize - 1];
        (range.first, range.last) = (range.first.min(address), range.last.max(address));
        id
    }

    /// Mappings and strings are known only now.
    fn finish(mut self, time: u64, duration: u64) -> Vec<u8> {
        let tables = self.tables;
        for (id, range) in (1u64..).zip(std::mem::take(&mut self.mappings)) {
            let module = tables.module(range.module);
            let file = self.string(tables.strings.get(module.path));
            let build_id = self.strings.len() as u64;
            self.strings.push(module.build_id.to_string().into());
            Message::new(&mut self.out).message(field::MAPPING, |mapping| {
                mapping.uint(field::ID, id);
                mapping.uint(field::MAPPING_START, range.first);
                mapping.uint(field::MAPPING_LIMIT, range.last.saturating_add(1));
                mapping.uint(field::MAPPING_FILE, file);
                mapping.uint(field::MAPPING_BUILD_ID, build_id);
                field::MAPPING_HAS.iter().for_each(|has| mapping.uint(*has, 1));
            });
        }
        let mut message = Message::new(&mut self.out);
        message.uint(field::TIME_NANOS, time);
        message.uint(field::DURATION_NANOS, duration);
        self.strings.iter().for_each(|text| message.string(field::STRING, text));
        self.out
    }
}
