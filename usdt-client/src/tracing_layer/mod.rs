//! Spans and events of `tracing` as zones and messages.
//!
//! ```
//! use syscollect_usdt_client::tracing_layer::ZoneLayer;
//! use tracing_subscriber::prelude::*;
//!
//! tracing_subscriber::registry().with(ZoneLayer::new()).init();
//! ```
//!
//! - A span is a zone each time it is entered, on the thread that enters it:
//!   its name, target, file and line; numeric fields as fields, others as text.
//! - A span that is entered again (that of a future that is polled again, say)
//!   is also an async zone, from then until it is closed; see [`AsyncSpans`].
//!   Async zones of one root span are of one task.
//! - An event is a message, with its level's colour.
//!
//! While nobody records, a span costs what the registry costs, and a load and a
//! branch here; [`ZoneLayer::alone`] spares the registry's part, too.
//!
//! Unlike the rest of this crate the layer uses the application's heap, as the
//! registry does: for the fields of spans that were made during a recording.

mod entered;
mod fields;

use crate::arena::Arena;
use crate::emit;
use crate::identity::Identity;
use crate::location::{DynamicLocation, ZoneLocation};
use crate::text::TextBuffer;
use crate::{message, recording, task, zone};
use fields::{EventText, Fields};
use syscollect_zone_protocol::{Attribute, Event as Mark, TextRole};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

/// Which spans are async zones, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AsyncSpans {
    /// None.
    Never,
    /// Those that are entered more than once, from the second time on.
    #[default]
    Reentered,
    /// All, from the first time on.
    Always,
}

/// Makes zones of spans and messages of events.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZoneLayer {
    async_spans: AsyncSpans,
    alone: bool,
}

impl ZoneLayer {
    /// A layer that makes async zones of spans that are entered again.
    pub const fn new() -> Self {
        Self { async_spans: AsyncSpans::Reentered, alone: false }
    }

    /// Says which spans are async zones, too.
    #[must_use]
    pub const fn async_spans(mut self, which: AsyncSpans) -> Self {
        self.async_spans = which;
        self
    }

    /// For a program in which no other layer listens: while nobody records,
    /// spans and events do not exist for any layer. Spans that are open when a
    /// recording begins are then never seen.
    #[must_use]
    pub const fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    fn is_async(self, times_entered: u32) -> bool {
        match self.async_spans {
            AsyncSpans::Never => false,
            AsyncSpans::Reentered => times_entered > 1,
            AsyncSpans::Always => true,
        }
    }
}

/// What is kept with a span.
#[derive(Default)]
struct SpanState {
    fields: Option<Box<Fields>>,
    /// Times it was entered while somebody recorded.
    entered: u32,
    /// The number of the task that async zones below this root span belong to; 0 is none yet.
    task: u64,
    /// The number of its async zone, and the recording that was told of it; 0 is none.
    async_zone: u64,
    reported: u64,
}

/// The place of a span.
struct SpanLocation(&'static Metadata<'static>);

impl ZoneLocation for SpanLocation {
    fn definition(&self) -> DynamicLocation<'_> {
        DynamicLocation {
            name: self.0.name(),
            function: self.0.target(),
            file: self.0.file().unwrap_or_default(),
            line: self.0.line().unwrap_or_default(),
            color: 0,
        }
    }

    fn number(&self, arena: &Arena) -> u32 {
        let (name, place) = (self.0.name(), core::ptr::from_ref(self.0) as usize);
        let words =
            [place, name.as_ptr() as usize, name.len(), self.0.line().unwrap_or_default() as usize];
        Identity::of(words).number(arena, || self.definition().number(arena))
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ZoneLayer {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        if self.alone { Interest::sometimes() } else { Interest::always() }
    }

    fn enabled(&self, _: &Metadata<'_>, _: Context<'_, S>) -> bool {
        !self.alone || crate::enabled()
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if !crate::enabled() || attributes.is_empty() {
            return;
        }
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            change(&span, |state| state.fields = Some(Box::new(fields)));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if !crate::enabled() {
            return;
        }
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(token) = entered::token(id) {
            fields.write_to(token);
        }
        if let Some(span) = context.span(id) {
            change(&span, |state| state.fields.get_or_insert_default().append(&fields));
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if crate::enabled()
            && let Some(span) = context.span(id)
        {
            self.enter(&span);
        }
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        if let Some(token) = entered::remove(id) {
            zone::end(token);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if crate::enabled()
            && let Some(span) = context.span(&id)
        {
            end_async(&span);
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if crate::enabled() {
            let text = TextBuffer::format(format_args!("{}", EventText(event)));
            message::message(text.text(), color(*event.metadata().level()));
        }
    }
}

impl ZoneLayer {
    #[cold]
    fn enter<'a, S: LookupSpan<'a>>(self, span: &SpanRef<'a, S>) {
        if !entered::has_room() {
            return;
        }
        let entered = change(span, |state| {
            state.entered = state.entered.saturating_add(1);
            state.entered
        });
        if self.is_async(entered) {
            begin_async(span);
        }
        let token = zone::begin_at(&SpanLocation(span.metadata()));
        entered::push(&span.id(), token);
        change(span, |state| {
            if let Some(fields) = &state.fields {
                fields.write_to(token);
            }
        });
    }
}

/// Looks at what is kept with a span, or changes it.
fn change<'a, S: LookupSpan<'a>, R>(
    span: &SpanRef<'a, S>,
    with: impl FnOnce(&mut SpanState) -> R,
) -> R {
    let mut extensions = span.extensions_mut();
    if let Some(state) = extensions.get_mut::<SpanState>() {
        return with(state);
    }
    let mut state = SpanState::default();
    let result = with(&mut state);
    extensions.insert(state);
    result
}

/// Begins the span's async zone if the recording that runs has not been told of it.
fn begin_async<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>) {
    let reported = change(span, |state| state.reported);
    if reported != 0 && recording::is_of(reported, recording::now()) {
        return;
    }
    let Some(root) = span.scope().last() else { return };
    let task = change(&root, |state| {
        if state.task == 0 {
            state.task = task::next_number();
        }
        state.task
    });
    let Ok(mut group) = emit::group(32 + 16) else { return };
    let arena = group.arena();
    let number = task::next_number();
    let place = SpanLocation(span.metadata()).number(arena);
    group.event(Mark::AsyncBegin { location: place, zone: number, task });
    let name = root.metadata().name();
    let name = Identity::of_text(name).number(arena, || emit::string(arena, name));
    group.attribute(Attribute::TaskName { string: name, task });
    drop(group);
    change(span, |state| (state.async_zone, state.reported) = (number, recording::now()));
}

fn end_async<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>) {
    let (number, reported) = match span.extensions().get::<SpanState>() {
        Some(state) if state.async_zone != 0 => (state.async_zone, state.reported),
        _ => return,
    };
    if recording::is_of(reported, recording::now())
        && let Ok(mut group) = emit::group(16)
    {
        group.event(Mark::AsyncEnd { zone: number });
    }
}

/// 0xRRGGBB of a level.
fn color(level: Level) -> u32 {
    match level {
        Level::ERROR => 0xe0_3131,
        Level::WARN => 0xf0_8c00,
        Level::INFO => 0x1c_7ed6,
        Level::DEBUG => 0x86_8e96,
        Level::TRACE => 0xad_b5bd,
    }
}

/// The role of a span's fields that are not numbers.
const FIELDS: TextRole = TextRole::ZoneText;
