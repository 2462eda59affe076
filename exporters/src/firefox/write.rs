//! The file itself.

use super::ended::{EndedCounter, EndedProfile, EndedThread};
use super::meta::{ProfileSpan, milliseconds};
use super::tables::{Lib, Shared};
use crate::ExportError;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::io::{BufWriter, Write};

/// Bytes handed on at a time.
const BUFFER_BYTES: usize = 1 << 18;

/// Writes everything, column by column.
pub(super) fn write<W: Write>(
    out: W,
    gzip: bool,
    shared: &Shared,
    ended: &EndedProfile,
) -> Result<W, ExportError> {
    let mut buffered = BufWriter::with_capacity(BUFFER_BYTES, out);
    if gzip {
        // The texts are repetitive: higher levels cost much and gain little.
        let encoder = GzEncoder::new(buffered, Compression::new(3));
        let mut json = BufWriter::with_capacity(BUFFER_BYTES, encoder);
        write_json(&mut json, shared, ended)?;
        buffered = json.into_inner().map_err(std::io::IntoInnerError::into_error)?.finish()?;
    } else {
        write_json(&mut buffered, shared, ended)?;
    }
    let mut out = buffered.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    out.flush()?;
    Ok(out)
}

fn write_json<W: Write>(
    out: &mut W,
    shared: &Shared,
    ended: &EndedProfile,
) -> Result<(), ExportError> {
    let span = ended.span;
    let profile = Profile {
        meta: &ended.meta,
        libs: &shared.libs.rows,
        pages: [],
        counters: Column(ended.counters.iter().map(|counter| counter_out(counter, span))),
        shared: shared_out(shared),
        threads: Column(ended.threads.iter().map(|thread| thread_out(thread, span))),
    };
    serde_json::to_writer(out, &profile).map_err(|error| ExportError::Write(error.into()))
}

/// A column of a table, or a list, made while it is written.
struct Column<I>(I);

impl<I> Serialize for Column<I>
where
    I: Iterator + Clone,
    I::Item: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

/// The same value in every row.
fn constant<T: Serialize + Clone>(value: T, length: usize) -> impl Serialize {
    Column(std::iter::repeat_n(value, length))
}

#[derive(Serialize)]
struct Profile<'a, C: Serialize, S: Serialize, T: Serialize> {
    meta: &'a Value,
    libs: &'a [Lib],
    pages: [u8; 0],
    counters: C,
    shared: S,
    threads: T,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SharedOut<
    T: Serialize,
    F: Serialize,
    U: Serialize,
    R: Serialize,
    N: Serialize,
    S: Serialize,
    X: Serialize,
> {
    stack_table: T,
    frame_table: F,
    func_table: U,
    resource_table: R,
    native_symbols: N,
    sources: S,
    string_array: X,
}

fn shared_out(shared: &Shared) -> impl Serialize + '_ {
    SharedOut {
        stack_table: stack_table(shared),
        frame_table: frame_table(shared),
        func_table: func_table(shared),
        resource_table: resource_table(shared),
        native_symbols: native_symbols(shared),
        sources: sources(shared),
        string_array: Column(shared.strings.iter()),
    }
}

/// A table as an object of columns: declares the structure and makes it.
macro_rules! table {
    ($length:expr, { $($name:literal: $column:expr),* $(,)? }) => {{
        Table { length: $length, columns: ($(Named($name, $column),)*) }
    }};
}

/// A column with its name.
struct Named<C>(&'static str, C);

/// A table: its length and its columns.
struct Table<C> {
    length: usize,
    columns: C,
}

macro_rules! serialize_tables {
    ($($($column:ident)+;)*) => {$(
        impl<$($column: Serialize),+> Serialize for Table<($(Named<$column>,)+)> {
            #[allow(non_snake_case, reason = "the columns are named like their types")]
            fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
                use serde::ser::SerializeMap;
                let ($($column,)+) = &self.columns;
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("length", &self.length)?;
                $(map.serialize_entry($column.0, &$column.1)?;)+
                map.end()
            }
        }
    )*};
}

serialize_tables! {
    A B;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H I;
}

fn stack_table(shared: &Shared) -> impl Serialize + '_ {
    let rows = shared.stacks.iter();
    table!(rows.len(), {
        "prefix": Column(rows.clone().map(|row| row.prefix)),
        "frame": Column(rows.map(|row| row.frame)),
    })
}

fn frame_table(shared: &Shared) -> impl Serialize + '_ {
    let rows = shared.frames.iter();
    let length = rows.len();
    table!(length, {
        "address": Column(rows.clone().map(|row| row.address)),
        "inlineDepth": Column(rows.clone().map(|row| row.inline_depth)),
        "category": Column(rows.clone().map(|row| row.category.index())),
        "subcategory": Column(rows.clone().map(|row| row.subcategory)),
        "func": Column(rows.clone().map(|row| row.func)),
        "nativeSymbol": Column(rows.clone().map(|row| row.native_symbol)),
        "innerWindowID": constant(0, length),
        "line": Column(rows.map(|row| row.line)),
        "column": constant((), length),
    })
}

fn func_table(shared: &Shared) -> impl Serialize + '_ {
    let rows = shared.funcs.iter();
    let length = rows.len();
    table!(length, {
        "name": Column(rows.clone().map(|row| row.name)),
        // What the viewer calls JavaScript is what an interpreter runs.
        "isJS": Column(rows.clone().map(|row| row.interpreted)),
        "relevantForJS": constant(false, length),
        // Resources are the libraries, row by row.
        "resource": Column(rows.clone().map(|row| row.lib.map_or(-1, i64::from))),
        "source": Column(rows.map(|row| row.source)),
        "lineNumber": constant((), length),
        "columnNumber": constant((), length),
    })
}

fn resource_table(shared: &Shared) -> impl Serialize + '_ {
    let length = shared.libs.rows.len();
    table!(length, {
        "lib": Column(0..length),
        "name": Column(shared.libs.names.iter()),
        "host": constant((), length),
        // Libraries.
        "type": constant(1, length),
    })
}

fn native_symbols(shared: &Shared) -> impl Serialize + '_ {
    let rows = shared.natives.iter();
    table!(rows.len(), {
        "libIndex": Column(rows.clone().map(|row| row.lib)),
        "address": Column(rows.clone().map(|row| row.address)),
        "name": Column(rows.clone().map(|row| row.name)),
        "functionSize": Column(rows.map(|row| row.size)),
    })
}

fn sources(shared: &Shared) -> impl Serialize + '_ {
    let length = shared.sources.len();
    table!(length, {
        "id": constant((), length),
        "filename": Column(shared.sources.iter()),
        "startLine": constant(1, length),
        "startColumn": constant(1, length),
        "sourceMapURL": constant((), length),
    })
}

/// Times as the distance from the row before, which is what packs best.
fn time_deltas<'a>(
    times: impl Iterator<Item = u64> + Clone + 'a,
    span: ProfileSpan,
) -> impl Serialize + 'a {
    let mut last = span.origin;
    Column(times.map(move |time| {
        let delta = time.saturating_sub(last);
        last = last.max(time);
        milliseconds(delta)
    }))
}

fn counter_out(counter: &EndedCounter, span: ProfileSpan) -> impl Serialize + '_ {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Out<'a, S: Serialize> {
        name: &'a str,
        category: &'a str,
        description: &'a str,
        pid: &'a str,
        main_thread_index: usize,
        display: &'a Value,
        samples: S,
    }
    let rows = counter.rows.iter();
    Out {
        name: &counter.name,
        category: counter.category,
        description: &counter.name,
        pid: &counter.pid,
        main_thread_index: counter.main_thread,
        display: &counter.display,
        samples: table!(rows.len(), {
            "timeDeltas": time_deltas(rows.clone().map(|(time, _)| *time), span),
            "count": Column(rows.map(|(_, growth)| *growth)),
        }),
    }
}

/// A thread with the fields that the format gives it: plain data on its way out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThreadOut<'a, S: Serialize, M: Serialize> {
    #[serde(flatten)]
    lifetime: LifetimeOut,
    #[serde(flatten)]
    identity: IdentityOut<'a>,
    samples: S,
    markers: M,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LifetimeOut {
    process_type: &'static str,
    process_startup_time: f64,
    process_shutdown_time: Option<f64>,
    register_time: f64,
    unregister_time: Option<f64>,
    paused_ranges: [u8; 0],
    show_markers_in_timeline: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct IdentityOut<'a> {
    name: &'a str,
    is_main_thread: bool,
    process_name: &'a str,
    pid: &'a str,
    tid: &'a str,
}

fn thread_out(thread: &EndedThread, span: ProfileSpan) -> impl Serialize + '_ {
    ThreadOut {
        lifetime: LifetimeOut {
            // The viewer puts processes of this type first.
            process_type: if thread.is_of_machine() { "default" } else { "process" },
            process_startup_time: milliseconds(thread.process_lifetime.0),
            process_shutdown_time: thread.process_lifetime.1.map(milliseconds),
            register_time: milliseconds(thread.lifetime.0),
            unregister_time: thread.lifetime.1.map(milliseconds),
            paused_ranges: [],
            show_markers_in_timeline: true,
        },
        identity: IdentityOut {
            name: &thread.name,
            is_main_thread: thread.main,
            process_name: &thread.process_name,
            pid: &thread.pid,
            tid: &thread.tid,
        },
        samples: samples(thread, span),
        markers: markers(thread, span),
    }
}

fn samples(thread: &EndedThread, span: ProfileSpan) -> impl Serialize + '_ {
    let rows = thread.state.samples.iter();
    table!(rows.len(), {
        "stack": Column(rows.clone().map(|row| row.stack)),
        "timeDeltas": time_deltas(rows.clone().map(|row| row.time), span),
        "weight": Column(rows.clone().map(|row| row.weight)),
        "weightType": "samples",
        "threadCPUDelta": Column(rows.map(|row| row.cpu_ns)),
    })
}

fn markers(thread: &EndedThread, span: ProfileSpan) -> impl Serialize + '_ {
    let rows = thread.state.markers.rows().iter();
    let at =
        move |time: Option<u64>| time.map(|time| milliseconds(time.saturating_sub(span.origin)));
    table!(rows.len(), {
        "data": thread.state.markers.data(),
        "name": Column(rows.clone().map(|row| row.name)),
        "startTime": Column(rows.clone().map(move |row| at(row.timing.parts().0))),
        "endTime": Column(rows.clone().map(move |row| at(row.timing.parts().1))),
        "phase": Column(rows.clone().map(|row| row.timing.parts().2)),
        "category": Column(rows.map(|row| row.category)),
    })
}
