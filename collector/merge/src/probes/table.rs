//! What the numbers in hits mean.

use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::{StringId, Tables};
use syscollect_store::{ProbeArgument, ProbeDefinition, ProbeRole};

/// An argument of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    pub(crate) name: StringId,
    /// Bytes: 1, 2, 4 or 8.
    pub(crate) size: u8,
    pub(crate) signed: bool,
    pub(crate) float: bool,
    pub(crate) text: Option<bool>,
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
    /// Whether a pair's zones nest, by pair.
    nesting: FxHashMap<u32, Option<bool>>,
}

impl ProbeTable {
    pub(crate) fn new(definitions: &[ProbeDefinition], tables: &mut Tables) -> Self {
        let begins = |role| matches!(role, ProbeRole::ZoneBegin | ProbeRole::FunctionEntry);
        // What beginnings of a pair say, so that its ends need not say it again.
        let mut attributes = FxHashMap::<(u32, &str), ()>::default();
        for probe in definitions.iter().filter(|probe| begins(probe.role)) {
            attributes.extend(
                probe.arguments.iter().map(|argument| ((probe.pair, argument.name.as_str()), ())),
            );
        }
        let (mut probes, mut frames, mut nesting) =
            (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
        let mut ends_of = FxHashMap::<u32, FxHashSet<&str>>::default();
        for probe in definitions.iter().filter(|probe| probe.role == ProbeRole::ZoneEnd) {
            ends_of.entry(probe.pair).or_default().insert(&probe.name);
        }
        for definition in definitions {
            let ends = matches!(
                definition.role,
                ProbeRole::ZoneEnd | ProbeRole::FunctionReturn | ProbeRole::FunctionExit
            );
            let repeated = |name: &str| ends && attributes.contains_key(&(definition.pair, name));
            // A definition may be there twice; the number is what counts.
            let probe = probes
                .entry(definition.probe)
                .or_insert_with(|| probe(definition, repeated, tables));
            let several = ends_of.get(&definition.pair).is_some_and(|ends| ends.len() > 1);
            probe.is_one_of_ends = probe.role == ProbeRole::ZoneEnd && several;
            frames.extend(probe.frames.map(|frames| (probe.pair, frames)));
            if definition.role == ProbeRole::ZoneBegin {
                let known = nesting.entry(definition.pair).or_insert(definition.nests);
                *known = known.or(definition.nests);
            }
        }
        Self { probes, frames, nesting }
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Probe> {
        self.probes.get(&number)
    }

    /// Pairs of which neither the user nor anybody else knows whether they nest.
    pub(crate) fn undecided_pairs(&self) -> FxHashSet<u32> {
        self.nesting.iter().filter(|(_, nests)| nests.is_none()).map(|(pair, _)| *pair).collect()
    }

    /// Pairs were seen to nest; those that were not seen to, and of which nobody said it, do not.
    pub(crate) fn seen_to_nest(&mut self, pairs: &FxHashSet<u32>) {
        for (pair, nests) in self.nesting.iter_mut().filter(|(_, nests)| nests.is_none()) {
            *nests = Some(pairs.contains(pair));
        }
    }

    /// Whether a zone of the pair may begin while another is open.
    pub(crate) fn nests(&self, pair: u32) -> bool {
        self.nesting.get(&pair).copied().flatten().unwrap_or(true)
    }

    /// Whether a call of this pair's function makes a frame of the set.
    pub(crate) fn is_frame_of(&self, pair: u32, set: StringId) -> bool {
        self.frames.get(&pair) == Some(&set)
    }
}

fn probe(
    definition: &ProbeDefinition,
    repeated: impl Fn(&str) -> bool,
    tables: &mut Tables,
) -> Probe {
    let mut argument = |argument: &ProbeArgument| Argument {
        name: tables.strings.intern(&argument.name),
        size: argument.size,
        signed: argument.signed,
        float: argument.float,
        text: argument.text,
        repeated: repeated(&argument.name),
    };
    let arguments = definition.arguments.iter().map(&mut argument).collect();
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
