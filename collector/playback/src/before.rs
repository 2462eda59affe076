//! What must be told when a range of time begins, of what happened before it.

use std::collections::{BTreeMap, BTreeSet};
use syscollect_model::{
    Event, Field, LockAction, LockEvent, LockId, Nesting, Slice, StringId, Tables, ThreadId, Time,
    TrackId, Value,
};

/// Slices inside each other that are remembered.
const MAX_DEPTH: usize = 1 << 16;

/// What a slice is called that says how long before the range it began, where the source knows the
/// word.
const BEGAN_BEFORE: &str = "began_before";

/// What holds when the range begins: names, slices that are open, values, and who has which lock.
#[derive(Default)]
pub(crate) struct BeforeRange {
    /// Names that threads got.
    names: BTreeMap<ThreadId, StringId>,
    /// The outermost first.
    slices: BTreeMap<TrackId, Nesting<OpenSlice, MAX_DEPTH>>,
    values: BTreeMap<TrackId, f64>,
    /// Who has each lock, or waits for it.
    locks: BTreeMap<LockId, BTreeMap<ThreadId, LockEvent>>,
    /// Threads that have ended, and have nothing any more.
    ended: BTreeSet<ThreadId>,
}

struct OpenSlice {
    began: Time,
    slice: Slice,
}

impl BeforeRange {
    /// Takes in what happened; whether it is something that may have to be told.
    pub(crate) fn note(&mut self, now: Time, event: &Event) -> bool {
        match event {
            Event::ThreadName(thread, name) => {
                self.names.insert(*thread, *name);
            }
            Event::SliceBegin(track, slice) => {
                let open = self.slices.entry(*track).or_default();
                if open.begin() {
                    open.push(OpenSlice { began: now, slice: slice.clone() });
                }
            }
            Event::SliceUpdate(track, more) => {
                if let Some(open) = self.slices.get_mut(track).and_then(Nesting::innermost) {
                    open.slice.apply(more);
                }
            }
            Event::SliceEnd(track) => {
                let open = self.slices.entry(*track).or_default();
                open.end();
                if open.is_empty() {
                    self.slices.remove(track);
                }
            }
            Event::Counter(track, value) => {
                self.values.insert(*track, *value);
            }
            Event::Lock(event) => self.lock(*event),
            Event::ThreadEnd(thread) => {
                self.ended.insert(*thread);
            }
            _ => return false,
        }
        true
    }

    fn lock(&mut self, event: LockEvent) {
        let users = self.locks.entry(event.lock).or_default();
        match event.action {
            LockAction::Wait | LockAction::Obtain => {
                users.insert(event.thread, event);
            }
            LockAction::Release | LockAction::GiveUp => {
                // What one thread obtained another may release.
                let holder = || users.values().find(|user| user.action == LockAction::Obtain);
                let is_own =
                    event.action == LockAction::GiveUp || users.contains_key(&event.thread);
                let user = if is_own { Some(event.thread) } else { holder().map(|of| of.thread) };
                user.map(|user| users.remove(&user));
                if users.is_empty() {
                    self.locks.remove(&event.lock);
                }
            }
        }
    }

    /// Whether there is something that holds from the range's beginning on, and not only names.
    pub(crate) fn has_state(&self) -> bool {
        !(self.slices.is_empty() && self.values.is_empty() && self.locks.is_empty())
    }

    /// The events that tell it when the range begins.
    pub(crate) fn into_events(self, start: Time, tables: &Tables) -> impl Iterator<Item = Event> {
        let Self { names, slices, values, locks, ended } = self;
        let began_before = tables.strings.find(BEGAN_BEFORE);
        let names = names.into_iter().map(|(thread, name)| Event::ThreadName(thread, name));
        let values = values.into_iter().map(|(track, value)| Event::Counter(track, value));
        let locks = locks.into_values().flat_map(BTreeMap::into_values);
        let locks = locks.filter(move |event| !ended.contains(&event.thread)).map(Event::Lock);
        let slices = slices.into_iter().flat_map(move |(track, open)| {
            let open = open.into_open();
            open.map(move |open| Event::SliceBegin(track, open.at(start, began_before)))
        });
        names.chain(values).chain(locks).chain(slices)
    }
}

impl OpenSlice {
    /// As a slice that begins with the range, and says for how long it was open before.
    fn at(self, start: Time, began_before: Option<StringId>) -> Slice {
        let Self { began, mut slice } = self;
        let Some(name) = began_before else { return slice };
        let mut nanoseconds = start.0.saturating_sub(began.0);
        // It may have been open when the recorder came.
        slice.fields.retain(|field| match field.value {
            Value::Duration(before) if field.name == name => {
                nanoseconds = nanoseconds.saturating_add(before);
                false
            }
            _ => true,
        });
        slice.fields.push(Field::named(name, Value::Duration(nanoseconds)));
        slice
    }
}
