//! What slices, instants and messages say, in words: for formats whose markers are texts.

use std::borrow::Cow;
use syscollect_model::{
    Crash, Fence, Field, FieldRole, Fields, GpuJob, GpuJobEnd, Message, MessageText, SignalExit,
    Slice, StringId, Tables, Time, Value,
};

/// Bytes of the longest error of a job that is shown.
const LONGEST_ERROR: usize = 64;

/// A name and the number that belongs to it.
pub(crate) fn numbered(name: StringId, number: Option<u64>, tables: &Tables) -> Cow<'_, str> {
    let name = tables.strings.get(name);
    match number {
        Some(number) => format!("{name} {number}").into(),
        None => name.into(),
    }
}

/// A value as people read it, with its unit.
pub(crate) fn value<'a>(value: &'a Value, tables: &'a Tables) -> Cow<'a, str> {
    match value {
        Value::Text(text) => (&**text).into(),
        Value::String(text) => tables.strings.get(*text).into(),
        Value::Unsigned(number) => number.to_string().into(),
        Value::Signed(number) => number.to_string().into(),
        Value::Float(number) => number.to_string().into(),
        Value::Address(address) => format!("{address:#x}").into(),
        Value::Duration(nanoseconds) => duration(*nanoseconds).into(),
        Value::Bytes(bytes) => format!("{bytes} bytes").into(),
        Value::Percentage(share) => format!("{} %", share * 100.0).into(),
    }
}

/// Nanoseconds in the largest unit that leaves a whole part; no digit is lost.
pub(crate) fn duration(nanoseconds: u64) -> String {
    let (scale, unit) = match nanoseconds {
        0..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let (whole, rest) = (nanoseconds / scale, nanoseconds % scale);
    if rest == 0 {
        return format!("{whole} {unit}");
    }
    let digits = scale.ilog10() as usize;
    let fraction = format!("{rest:0digits$}");
    format!("{whole}.{} {unit}", fraction.trim_end_matches('0'))
}

/// A line for each field: the text first, as it is, then the others with their names.
pub(crate) fn lines(fields: &Fields, tables: &Tables) -> String {
    let lines = fields.iter().filter(|field| is_text(field));
    let lines = lines.map(|field| value(&field.value, tables));
    let others = fields.iter().filter(|field| !is_text(field));
    let others = others.map(|field| named_value(field, tables).into());
    lines.chain(others).collect::<Vec<_>>().join("\n")
}

fn is_text(field: &Field) -> bool {
    field.role == FieldRole::Text
}

/// A field with its name.
pub(crate) fn named_value(field: &Field, tables: &Tables) -> String {
    format!("{}: {}", tables.strings.get(field.name), value(&field.value, tables))
}

/// An instant in one line: its name, its text, and what else is said.
pub(crate) fn instant(slice: &Slice, tables: &Tables) -> String {
    let mut line = numbered(slice.name, slice.number, tables).into_owned();
    if let Some(text) = slice.fields.iter().find(|field| is_text(field)) {
        line += &format!(": {}", value(&text.value, tables));
    }
    line + &others(&slice.fields, tables)
}

/// A message in one line: its text, and what else is said.
pub(crate) fn message(message: &Message, tables: &Tables) -> String {
    message_text(message, tables).into_owned() + &others(&message.fields, tables)
}

/// The text of a message; its category where it has none.
pub(crate) fn message_text<'a>(message: &'a Message, tables: &'a Tables) -> Cow<'a, str> {
    match &message.text {
        Some(MessageText::Written(text)) => (&**text).into(),
        Some(MessageText::Interned { string, number }) => numbered(*string, *number, tables),
        None => tables.strings.get(message.category).into(),
    }
}

/// What a message goes by where there is room for few names: its text if that occurs often, else
/// its category.
pub(crate) fn message_name(message: &Message) -> StringId {
    match message.text {
        Some(MessageText::Interned { string, .. }) => string,
        Some(MessageText::Written(_)) | None => message.category,
    }
}

/// A crash in one line: the signal, why it was sent, and which address it is about.
pub(crate) fn crash(crash: &Crash, tables: &Tables) -> String {
    let [signal, code] = [crash.signal, crash.code].map(|string| tables.strings.get(string));
    let mut line = format!("{signal} ({code})");
    if crash.address != 0 {
        line += &format!(" at {:#x}", crash.address);
    }
    line
}

/// How a signal ended a process.
pub(crate) fn signal_exit(exit: &SignalExit, tables: &Tables) -> String {
    let dumped = if exit.has_core_dump { ", core dumped" } else { "" };
    format!("ended by {}{dumped}", tables.strings.get(exit.signal))
}

/// All fields but the text, in parentheses.
fn others(fields: &Fields, tables: &Tables) -> String {
    let others = fields.iter().filter(|field| !is_text(field));
    let others: Vec<_> = others.map(|field| named_value(field, tables)).collect();
    if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) }
}

/// A fence as drivers' own tools write it.
pub(crate) fn fence(fence: Fence) -> String {
    format!("{}:{}", fence.context, fence.sequence)
}

/// Fences, in the order of the model.
pub(crate) fn fences(list: &[Fence]) -> String {
    list.iter().map(|one| fence(*one)).collect::<Vec<_>>().join(", ")
}

/// How a job of a GPU ended.
pub(crate) fn job_end(end: GpuJobEnd) -> &'static str {
    match end {
        GpuJobEnd::Finished => "finished",
        GpuJobEnd::Failed => "failed",
        GpuJobEnd::Unfinished => "not ended when the recording did, or its end was lost",
        GpuJobEnd::Untimed => "nobody told when the GPU did it",
        GpuJobEnd::WithoutBeginning => "ended before it began, or its beginning was lost",
    }
}

/// Why a job of a GPU failed, where that is told.
pub(crate) fn job_error(job: &GpuJob) -> Option<&str> {
    if job.end != GpuJobEnd::Failed {
        return None;
    }
    match &job.fields.iter().find(|field| field.role == FieldRole::JobError)?.value {
        Value::Text(text) => {
            Some(text).filter(|text| text.len() <= LONGEST_ERROR).map(|text| &**text)
        }
        _ => None,
    }
}

/// The nanoseconds that a thread took to submit a zone.
pub(crate) fn submission(job: &GpuJob) -> Option<u64> {
    passed(job.submitted, job.zone?.submission_ended)
}

/// The stages of a job that ended then, as far as they are known, with their nanoseconds.
pub(crate) fn stages(job: &GpuJob, end: Time) -> impl Iterator<Item = (&'static str, u64)> {
    let end = Some(end).filter(|_| job.end != GpuJobEnd::Untimed);
    let stages = [
        ("submitted to queued", passed(job.submitted, job.queued)),
        ("queued to started", passed(job.queued, job.started)),
        ("submitted to started", passed(job.submitted, job.started)),
        ("ran", passed(job.started, end)),
    ];
    stages.into_iter().filter_map(|(name, time)| Some((name, time?)))
}

fn passed(from: Option<Time>, to: Option<Time>) -> Option<u64> {
    Some(to?.0.saturating_sub(from?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_keeps_all_its_digits() {
        let shown = [0, 999, 1_000, 1_500, 2_000_001, 3_000_000_000, u64::MAX].map(duration);
        assert_eq!(
            shown,
            ["0 ns", "999 ns", "1 us", "1.5 us", "2.000001 ms", "3 s", "18446744073.709551615 s"]
        );
    }

    #[test]
    fn an_instant_says_its_text_and_then_the_rest() {
        let mut tables = Tables::default();
        let [name, text, size] = ["read", "text", "size"].map(|word| tables.strings.intern(word));
        let mut slice = Slice { number: Some(7), ..Slice::named(name) };
        assert_eq!(instant(&slice, &tables), "read 7");
        slice.fields.push(Field::named(size, Value::Bytes(3)));
        assert_eq!(instant(&slice, &tables), "read 7 (size: 3 bytes)");
        slice.fields.push(Field::new(FieldRole::Text, text, Value::Text("a file".into())));
        assert_eq!(instant(&slice, &tables), "read 7: a file (size: 3 bytes)");
        assert_eq!(lines(&slice.fields, &tables), "a file\nsize: 3 bytes");
    }

    #[test]
    fn a_message_is_its_text_and_then_the_rest() {
        let mut tables = Tables::default();
        let [category, string, size] =
            ["message", "level", "size"].map(|word| tables.strings.intern(word));
        let fields = vec![Field::named(size, Value::Bytes(3))];
        let mut named = Message { category, text: None, color: None, stack: None, fields };
        assert_eq!(message(&named, &tables), "message (size: 3 bytes)");
        named.text = Some(MessageText::Interned { string, number: Some(7) });
        assert_eq!((message_name(&named), &*message_text(&named, &tables)), (string, "level 7"));
        named.text = Some(MessageText::Written("a file".into()));
        assert_eq!(message(&named, &tables), "a file (size: 3 bytes)");
        assert_eq!(message_name(&named), category);
    }

    #[test]
    fn a_field_that_a_program_calls_text_is_none() {
        let mut tables = Tables::default();
        let [name, text] = ["read", "text"].map(|word| tables.strings.intern(word));
        let fields = vec![Field::named(text, Value::Unsigned(1))];
        assert_eq!(instant(&Slice { fields, ..Slice::named(name) }, &tables), "read (text: 1)");
    }
}
