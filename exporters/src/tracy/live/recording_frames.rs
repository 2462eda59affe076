//! Functions that recording itself puts on top of the stacks of who leaves its CPU.
//!
//! A file leaves them out by their names. Here names come later, and only of what is asked for: so
//! the first functions of such stacks are asked for before any viewer does. They are few, since
//! each of these stacks begins with the same.

use rustc_hash::FxHashMap;
use syscollect_tracy_protocol::Catalogue;

/// So many of the first functions of a stack may be the recording's.
const MOST_FIRST: usize = 8;
/// Places that are asked for.
const MOST_PLACES: usize = 256;

/// What is known of a place that stacks begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstPlace {
    /// It was asked for.
    Asked,
    /// It is of the recording.
    OfRecording,
    /// It has no name: programs of the kernel's, as recorders load them, have none.
    Nameless,
    /// It is of who leaves its CPU.
    Other,
}

/// All of them.
#[derive(Debug)]
pub(super) struct RecordingFrames {
    /// Whether a function of that name is the recording's.
    is_of_recording: fn(&str) -> bool,
    places: FxHashMap<u64, FirstPlace>,
    /// Places that somebody is to find the functions of.
    wanted: Vec<u64>,
}

impl RecordingFrames {
    pub(super) fn new(is_of_recording: fn(&str) -> bool) -> Self {
        Self { is_of_recording, places: FxHashMap::default(), wanted: Vec::new() }
    }

    /// How many of the first of these places are the recording's, as far as is known; those that
    /// may get a name are asked for.
    pub(super) fn count(&mut self, places: &[u64], catalogue: &Catalogue) -> usize {
        let mut count = 0;
        for (index, place) in places.iter().take(MOST_FIRST).enumerate() {
            match self.known(*place, catalogue) {
                FirstPlace::OfRecording => count = index + 1,
                FirstPlace::Nameless => {}
                FirstPlace::Asked | FirstPlace::Other => break,
            }
        }
        count
    }

    fn known(&mut self, place: u64, catalogue: &Catalogue) -> FirstPlace {
        if let Some(known) = self.places.get(&place) {
            return *known;
        }
        if self.places.len() >= MOST_PLACES {
            return FirstPlace::Other;
        }
        let known = match catalogue.is_unnamed(place) {
            true => FirstPlace::Asked,
            false => self.of_function(catalogue.function(place)),
        };
        if known == FirstPlace::Asked {
            self.wanted.push(place);
        }
        self.places.insert(place, known);
        known
    }

    fn of_function(&self, function: Option<&str>) -> FirstPlace {
        match function {
            None => FirstPlace::Nameless,
            Some(name) if (self.is_of_recording)(name) => FirstPlace::OfRecording,
            Some(_) => FirstPlace::Other,
        }
    }

    /// What is to be looked for.
    pub(super) fn take_wanted(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.wanted)
    }

    /// The function at a place was found, or it has none; whether stacks begin otherwise from now
    /// on.
    pub(super) fn found(&mut self, place: u64, function: Option<&str>) -> bool {
        if self.places.get(&place) != Some(&FirstPlace::Asked) {
            return false;
        }
        let known = self.of_function(function);
        self.places.insert(place, known);
        known != FirstPlace::Other
    }

    /// Places have other numbers from now on.
    pub(super) fn forget(&mut self) {
        self.places.clear();
        self.wanted.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_recording_puts_on_top_is_known_once_its_functions_are() {
        let mut frames = RecordingFrames::new(|name| name.starts_with("bpf_"));
        let mut catalogue = Catalogue::default();
        let stack = [10, 20, 30, 40, 50];
        stack.into_iter().for_each(|place| catalogue.may_be_named(place));
        let mut step = |function: Option<(u64, Option<&str>)>| {
            let is_other = function.map(|(place, name)| frames.found(place, name));
            (is_other, frames.count(&stack, &catalogue), frames.take_wanted())
        };
        assert_eq!(step(None), (None, 0, vec![10]));
        assert_eq!(step(None), (None, 0, vec![]), "each is asked for once");
        // A program without a name, and what called it.
        assert_eq!(step(Some((10, None))), (Some(true), 0, vec![20]));
        assert_eq!(step(Some((20, Some("bpf_trace_run4")))), (Some(true), 2, vec![30]));
        assert_eq!(step(Some((20, None))), (Some(false), 2, vec![]), "it was found before");
        assert_eq!(step(Some((30, Some("__schedule")))), (Some(false), 2, vec![]));
        assert_eq!(step(Some((40, Some("bpf_x")))), (Some(false), 2, vec![]), "nobody asked");
        frames.forget();
        assert_eq!((frames.count(&stack, &catalogue), frames.take_wanted()), (0, vec![10]));
    }
}
