//! What the numbers in hits mean.

use crate::probes::hit::ArgumentLayout;
use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::{StringId, Tables};
use syscollect_store::{ProbeDefinition, ProbeRole};

/// An argument of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    pub(crate) name: StringId,
    pub(crate) layout: ArgumentLayout,
    /// The slice has said it already when it began.
    pub(crate) repeated: bool,
}

/// A probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) role: ProbeRole,
    pub(crate) pair: u32,
    /// `None` for the track that all probes share.
    pub(crate) track: Option<StringId>,
    pub(crate) name: StringId,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) named_by: Option<usize>,
    /// The set of frames of which each entry begins one.
    pub(crate) frames: Option<StringId>,
    /// One of several ends of its pair: the slice says which of them it was.
    pub(crate) is_one_of_ends: bool,
}

/// The probes of a capture by number.
#[derive(Debug, Default)]
pub(crate) struct ProbeTable {
    probes: FxHashMap<u32, Probe>,
    /// The sets of frames by the pairs of their functions.
    frames: FxHashMap<u32, StringId>,
    /// Whether a pair's zones nest, by pair, as far as that is known.
    nesting: FxHashMap<u32, bool>,
    /// Pairs of which neither the user nor anybody else knows it.
    undecided: FxHashSet<u32>,
}

impl ProbeTable {
    pub(crate) fn new(definitions: &[ProbeDefinition], tables: &mut Tables) -> Self {
        // What beginnings of a pair say, so that its ends need not say it again.
        let mut attributes = FxHashMap::<(u32, &str), ()>::default();
        for probe in definitions.iter().filter(|probe| begins(probe.role)) {
            attributes.extend(
                probe.arguments.iter().map(|argument| ((probe.pair, argument.name.as_str()), ())),
            );
        }
        let (mut probes, mut frames, mut nesting) =
            (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
        let mut begun = FxHashSet::default();
        let mut ends_of = FxHashMap::<u32, FxHashSet<&str>>::default();
        for probe in definitions.iter().filter(|probe| probe.role == ProbeRole::ZoneEnd) {
            ends_of.entry(probe.pair).or_default().insert(&probe.name);
        }
        for definition in definitions {
            let ends = matches!(
                definition.role,
                ProbeRole::ZoneEnd | ProbeRole::FunctionReturn | ProbeRole::FunctionExit
            );
            // A definition may be there twice; the number is what counts.
            let probe = probes.entry(definition.probe).or_insert_with(|| {
                probe(
                    definition,
                    |name| ends && attributes.contains_key(&(definition.pair, name)),
                    tables,
                )
            });
            let several = ends_of.get(&definition.pair).is_some_and(|ends| ends.len() > 1);
            probe.is_one_of_ends = probe.role == ProbeRole::ZoneEnd && several;
            frames.extend(probe.frames.map(|frames| (probe.pair, frames)));
            if definition.role == ProbeRole::ZoneBegin {
                begun.insert(definition.pair);
                if let Some(nests) = definition.nests {
                    nesting.entry(definition.pair).or_insert(nests);
                }
            }
        }
        let undecided = begun.into_iter().filter(|pair| !nesting.contains_key(pair)).collect();
        Self { probes, frames, nesting, undecided }
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Probe> {
        self.probes.get(&number)
    }

    /// Whether there are pairs of which it is not known whether they nest.
    #[inline]
    pub(crate) fn has_undecided(&self) -> bool {
        !self.undecided.is_empty()
    }

    /// Whether this pair is one of them.
    pub(crate) fn is_undecided(&self, pair: u32) -> bool {
        self.undecided.contains(&pair)
    }

    /// The pair was seen to nest, and nobody has said whether it does.
    pub(crate) fn set_nesting(&mut self, pair: u32) {
        self.undecided.remove(&pair);
        self.nesting.insert(pair, true);
    }

    /// All was seen: the pairs that were not seen to nest do not.
    pub(crate) fn decide(&mut self) {
        self.nesting.extend(self.undecided.drain().map(|pair| (pair, false)));
    }

    /// What was seen of the pairs of `before`, which has fewer.
    pub(crate) fn keep_nesting(&mut self, before: &Self) {
        self.undecided.retain(|pair| !before.nesting.contains_key(pair));
        before.nesting.iter().for_each(|(pair, nests)| {
            self.nesting.entry(*pair).or_insert(*nests);
        });
    }

    /// Whether a zone of the pair may begin while another is open; not as long as that was not
    /// seen.
    pub(crate) fn nests(&self, pair: u32) -> bool {
        self.nesting.get(&pair).copied().unwrap_or(!self.is_undecided(pair))
    }

    /// Whether a call of this pair's function makes a frame of the set.
    pub(crate) fn is_frame_of(&self, pair: u32, set: StringId) -> bool {
        self.frames.get(&pair) == Some(&set)
    }
}

fn begins(role: ProbeRole) -> bool {
    matches!(role, ProbeRole::ZoneBegin | ProbeRole::FunctionEntry)
}

fn probe(
    definition: &ProbeDefinition,
    repeated: impl Fn(&str) -> bool,
    tables: &mut Tables,
) -> Probe {
    let arguments = definition.arguments.iter().map(|argument| Argument {
        name: tables.strings.intern(&argument.name),
        layout: argument.into(),
        repeated: repeated(&argument.name),
    });
    let arguments = arguments.collect();
    Probe {
        role: definition.role,
        pair: definition.pair,
        track: (!definition.track.is_empty()).then(|| tables.strings.intern(&definition.track)),
        name: tables.strings.intern(&definition.name),
        arguments,
        named_by: definition.named_by.map(usize::from),
        frames: (!definition.frames.is_empty()).then(|| tables.strings.intern(&definition.frames)),
        is_one_of_ends: false,
    }
}
