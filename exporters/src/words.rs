//! What slices and instants say, in words: for formats whose markers are texts.

use std::borrow::Cow;
use syscollect_model::{
    Fence, Field, Fields, GpuJob, GpuJobEnd, Slice, StringId, Tables, Time, Value,
};

/// The name of the field that needs no name: what a zone or a message says.
pub(crate) const TEXT: &str = "text";
/// The field of a job of a GPU that failed that says why.
const JOB_ERROR: &str = "error";
/// Bytes of the longest of these that is shown.
const LONGEST_ERROR: usize = 64;
/// The category of instants that are their text.
const MESSAGE: &str = "message";

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
        1_000..1_000_000 => (1_000, "µs"),
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
    let is_text = |name| tables.strings.get(name) == TEXT;
    let texts =
        fields.iter().filter(|field| is_text(field.name)).map(|field| value(&field.value, tables));
    let others = fields.iter().filter(|field| !is_text(field.name));
    let others = others.map(|field| {
        format!("{}: {}", tables.strings.get(field.name), value(&field.value, tables))
    });
    texts.chain(others.map(Cow::from)).collect::<Vec<_>>().join("\n")
}

/// An instant in one line: a message is its text; others have their name
/// before it; what else is said follows.
pub(crate) fn instant(slice: &Slice, tables: &Tables) -> String {
    let is_text = |name| tables.strings.get(name) == TEXT;
    let text = slice
        .fields
        .iter()
        .find(|field| is_text(field.name))
        .map(|field| value(&field.value, tables));
    let message = slice.category.is_some_and(|category| tables.strings.get(category) == MESSAGE);
    let mut line = match text {
        Some(text) if message => text.into_owned(),
        Some(text) => format!("{}: {text}", numbered(slice.name, slice.number, tables)),
        None => numbered(slice.name, slice.number, tables).into_owned(),
    };
    let others = slice.fields.iter().filter(|field| !is_text(field.name));
    let others = others.map(|field| {
        format!("{}: {}", tables.strings.get(field.name), value(&field.value, tables))
    });
    let others = others.collect::<Vec<_>>().join(", ");
    if !others.is_empty() {
        line += &format!(" ({others})");
    }
    line
}

/// Takes in what becomes known later: it replaces what was said under the same name.
pub(crate) fn amend(fields: &mut Fields, more: &Fields) {
    for new in more {
        match fields.iter_mut().find(|field| field.name == new.name) {
            Some(field) => field.value.clone_from(&new.value),
            None => fields.push(new.clone()),
        }
    }
}

/// Whether an instant is a message.
pub(crate) fn is_message(slice: &Slice, tables: &Tables) -> bool {
    slice.category.is_some_and(|category| tables.strings.get(category) == MESSAGE)
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
        GpuJobEnd::WithoutBeginning => "ended before it began, or its beginning was lost",
    }
}

/// Why a job of a GPU failed, where that is told.
pub(crate) fn job_error<'a>(job: &'a GpuJob, tables: &Tables) -> Option<&'a str> {
    let is_error = |field: &&Field| tables.strings.get(field.name) == JOB_ERROR;
    match &job.fields.iter().filter(|_| job.end == GpuJobEnd::Failed).find(is_error)?.value {
        Value::Text(text) => {
            Some(text).filter(|text| text.len() <= LONGEST_ERROR).map(|text| &**text)
        }
        _ => None,
    }
}

/// The stages of a job that ended then, as far as they are known, with their nanoseconds.
pub(crate) fn stages(job: &GpuJob, end: Time) -> impl Iterator<Item = (&'static str, u64)> {
    let time = |from: Option<Time>, to: Option<Time>| Some(to?.0.saturating_sub(from?.0));
    let end = Some(end);
    let stages = [
        ("submitted to queued", time(job.submitted, job.queued)),
        ("queued to started", time(job.queued, job.started)),
        ("submitted to started", time(job.submitted, job.started)),
        ("ran", time(job.started, end)),
    ];
    stages.into_iter().filter_map(|(name, time)| Some((name, time?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_keeps_all_its_digits() {
        let said = [0, 999, 1_000, 1_500, 2_000_001, 3_000_000_000, u64::MAX].map(duration);
        assert_eq!(
            said,
            ["0 ns", "999 ns", "1 µs", "1.5 µs", "2.000001 ms", "3 s", "18446744073.709551615 s"]
        );
    }

    #[test]
    fn an_instant_says_its_text_and_then_the_rest() {
        let mut tables = Tables::default();
        let [name, text, size, category] =
            ["read", TEXT, "size", MESSAGE].map(|word| tables.strings.intern(word));
        let field = |name, value| Field { name, value };
        let mut slice = Slice { number: Some(7), ..Slice::named(name) };
        assert_eq!(instant(&slice, &tables), "read 7");
        slice.fields.push(field(size, Value::Bytes(3)));
        assert_eq!(instant(&slice, &tables), "read 7 (size: 3 bytes)");
        slice.fields.push(field(text, Value::Text("a file".into())));
        assert_eq!(instant(&slice, &tables), "read 7: a file (size: 3 bytes)");
        assert_eq!(lines(&slice.fields, &tables), "a file\nsize: 3 bytes");
        slice.category = Some(category);
        assert_eq!(instant(&slice, &tables), "a file (size: 3 bytes)");
    }

    #[test]
    fn what_is_said_again_replaces_what_was_said() {
        let mut tables = Tables::default();
        let [a, b] = ["a", "b"].map(|word| tables.strings.intern(word));
        let field = |name, value| Field { name, value: Value::Unsigned(value) };
        let mut fields = vec![field(a, 1)];
        amend(&mut fields, &vec![field(b, 2), field(a, 3)]);
        assert_eq!(fields, [field(a, 3), field(b, 2)]);
    }
}
