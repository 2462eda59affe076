//! Format files: how the kernel says what lies where in a tracepoint's record
//! (`events/SYSTEM/NAME/format` in tracefs; Documentation/trace/events.rst).

use syscollect_store::{TracepointField, TracepointFieldKind};

/// What a format file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Format {
    /// The number by which perf_event_open knows the tracepoint.
    pub(crate) id: u64,
    /// Its own fields; those that all tracepoints have are left out.
    pub(crate) fields: Vec<TracepointField>,
}

impl Format {
    /// Reads a format file's text; `None` if it has no number or a field that cannot be understood.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("field:"));
        let fields = lines.map(field).collect::<Option<Vec<_>>>()?;
        let own = fields.into_iter().filter(|field| !field.name.starts_with("common_")).collect();
        Some(Self { id, fields: own })
    }

    /// Bytes of the record that are there whatever its texts are.
    pub(crate) fn fixed_bytes(&self) -> usize {
        self.fields
            .iter()
            .map(|field| usize::from(field.offset) + usize::from(field.size))
            .max()
            .unwrap_or(0)
    }

    /// The field that tells of the last text behind that part: the kernel puts them there in the
    /// fields' order.
    pub(crate) fn last_text(&self) -> Option<&TracepointField> {
        let elsewhere = [TracepointFieldKind::TextElsewhere, TracepointFieldKind::TextRelative];
        self.fields
            .iter()
            .filter(|field| elsewhere.contains(&field.kind))
            .max_by_key(|field| field.offset)
    }
}

/// A line like `__data_loc char[] driver;\toffset:8;\tsize:4;\tsigned:0;`.
fn field(line: &str) -> Option<TracepointField> {
    let (declaration, layout) = line.split_once(';')?;
    let (size, signed) =
        (number_behind(layout, "size:")?, number_behind(layout, "signed:").unwrap_or(0) == 1);
    let (declared, name) = declaration.rsplit_once(|c: char| c.is_whitespace() || c == '*')?;
    let (name, is_array) = match name.split_once('[') {
        Some((name, _)) => (name, true),
        None => (name, false),
    };
    let kind = match (declared.trim(), is_array) {
        (declared, _) if declared.starts_with("__data_loc") && is_text(declared) => {
            TracepointFieldKind::TextElsewhere
        }
        (declared, _) if declared.starts_with("__rel_loc") && is_text(declared) => {
            TracepointFieldKind::TextRelative
        }
        (declared, _)
            if declared.starts_with("__data_loc") || declared.starts_with("__rel_loc") =>
        {
            TracepointFieldKind::Bytes
        }
        (declared, true) if is_text(declared) => TracepointFieldKind::Text,
        (_, is_array) if is_array || !matches!(size, 1 | 2 | 4 | 8) => TracepointFieldKind::Bytes,
        _ => TracepointFieldKind::Number,
    };
    Some(TracepointField {
        name: name.to_owned(),
        offset: number_behind(layout, "offset:")?,
        size,
        signed,
        kind,
    })
}

fn number_behind(layout: &str, key: &str) -> Option<u16> {
    let place = layout.split(';').find_map(|place| place.trim().strip_prefix(key));
    place.and_then(|value| value.trim().parse::<u16>().ok())
}

/// Of what a declared type has elements: `char[]`, `const char`.
fn is_text(declared: &str) -> bool {
    let words = declared.trim_end_matches("[]");
    words.split_whitespace().next_back() == Some("char") && !words.contains("unsigned")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMIT: &str = "name: dma_fence_emit
ID: 2194
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:__data_loc char[] driver;\toffset:8;\tsize:4;\tsigned:0;
\tfield:unsigned int context;\toffset:16;\tsize:4;\tsigned:0;
\tfield:const struct drm_sched_job * job;\toffset:24;\tsize:8;\tsigned:0;
\tfield:char comm[16];\toffset:32;\tsize:16;\tsigned:0;
\tfield:__rel_loc char[] name;\toffset:48;\tsize:4;\tsigned:0;
\tfield:u64 pair[2];\toffset:56;\tsize:16;\tsigned:0;

print fmt: \"driver=%s\", __get_str(driver)
";

    #[test]
    fn a_format_file_says_where_each_field_lies_and_what_it_is() {
        let format = Format::parse(EMIT).unwrap();
        let fields: Vec<_> =
            format.fields.iter().map(|f| (f.name.as_str(), f.offset, f.size, f.kind)).collect();
        let expected = [
            ("driver", 8, 4, TracepointFieldKind::TextElsewhere),
            ("context", 16, 4, TracepointFieldKind::Number),
            ("job", 24, 8, TracepointFieldKind::Number),
            ("comm", 32, 16, TracepointFieldKind::Text),
            ("name", 48, 4, TracepointFieldKind::TextRelative),
            ("pair", 56, 16, TracepointFieldKind::Bytes),
        ];
        assert_eq!((format.id, fields.as_slice()), (2194, &expected[..]));
        assert_eq!(format.fixed_bytes(), 72);
        assert_eq!(format.last_text().map(|field| field.name.as_str()), Some("name"));
    }

    #[test]
    fn what_is_no_format_file_is_none() {
        for text in ["", "ID: x", "name: a\nID: 7\nformat:\n\tfield:int a;\toffset:8;\n"] {
            assert_eq!(Format::parse(text), None, "{text:?}");
        }
    }
}
