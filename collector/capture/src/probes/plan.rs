//! What to attach in a file: which of its probes and functions were asked for,
//! under which numbers, and what their arguments mean.

use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_probes::{
    Argument, ArgumentKind, ArgumentSpec, Function, ProbeSelector, Returns, Spec, UsdtProbe,
};
use syscollect_store::{ProbeArgument, ProbeDefinition, ProbeRole};
use syscollect_zone_protocol::{PROBE_RING, PROVIDER};

use super::files::FileKey;
use super::program::{ARGUMENTS_MAX, StringReading};

/// The pair of all functions: they nest among one another.
const FUNCTIONS_PAIR: u32 = 1;
/// The pair of the first spec of a zone; each has its own.
const FIRST_ZONE_PAIR: u32 = 2;

/// Places that are attached to in one file, and those of them where rings are announced.
const POINTS_MAX: usize = 65_536;
const RINGS_MAX: usize = 16;
/// Copies that the compiler makes of one of an instrumented program's probes: they are never
/// inlined.
const CLIENT_COPIES_MAX: usize = 16;

/// The probes by which an instrumented program reports without shared memory: name,
/// meaning, and which arguments are texts.
const CLIENT_PROBES: [(&str, ProbeRole, &[bool]); 5] = [
    ("zone_begin", ProbeRole::ClientZoneBegin, &[true, true, true, false, false]),
    ("zone_end", ProbeRole::ClientZoneEnd, &[false]),
    ("message", ProbeRole::ClientMessage, &[true, false]),
    ("plot", ProbeRole::ClientPlot, &[true, false]),
    ("frame", ProbeRole::ClientFrame, &[true]),
];

/// A place to attach to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Planned {
    pub(super) offset: u64,
    pub(super) semaphore: u64,
    /// The number of its definition.
    pub(super) probe: u32,
    pub(super) arguments: Vec<(Argument, StringReading)>,
    pub(super) at_return: bool,
}

/// What to attach in one file.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// What the numbers mean.
    pub(super) definitions: Vec<ProbeDefinition>,
    /// Where hits are recorded.
    pub(super) points: Vec<Planned>,
    /// Where rings are announced.
    pub(super) rings: Vec<Planned>,
    /// Places of functions for which there was no room.
    left_out: usize,
    /// The parts of specs that something here was asked for by.
    pub(super) matched: Vec<SpecPart>,
}

/// A part of a spec that has to match something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SpecPart {
    /// The spec's index.
    pub(super) spec: usize,
    /// 0 is the begin of a zone, or all there is; from 1 on its ends.
    pub(super) probe: usize,
}

impl Plan {
    /// Places where hits are recorded, as they are attached to: ends first, for attaching takes its
    /// time, and what seemed to begin without an end would last until the next begin.
    pub(super) fn ends_first(&self) -> impl Iterator<Item = &Planned> {
        let ends: FxHashSet<u32> =
            self.definitions.iter().filter(|one| one.role.is_end()).map(|one| one.probe).collect();
        let mut points: Vec<_> = self.points.iter().collect();
        points.sort_by_key(|point| !ends.contains(&point.probe));
        points.into_iter()
    }

    /// A part of a spec matches something here.
    pub(super) fn matches(&mut self, part: SpecPart) {
        if !self.matched.contains(&part) {
            self.matched.push(part);
        }
    }

    /// Leaves out what no real file has; what to say of it. Files belong to
    /// anybody, and each place costs the kernel memory and time.
    pub(super) fn limit(&mut self) -> Option<String> {
        let over = self.left_out
            + self.points.len().saturating_sub(POINTS_MAX)
            + self.rings.len().saturating_sub(RINGS_MAX);
        self.points.truncate(POINTS_MAX);
        self.rings.truncate(RINGS_MAX);
        (over > 0).then(|| {
            format!("{over} places are left out, more than {POINTS_MAX} in one file are not probed")
        })
    }
}

/// Numbers of probes by which an instrumented program without shared memory is recorded
/// have this bit, so that the drain sees that there is one.
pub(super) const OF_CLIENT: u32 = 1 << 31;

/// Gives out numbers.
#[derive(Debug, Default)]
pub(super) struct Planner {
    next: u32,
    /// Where functions of GPU libraries begin.
    pub(super) presets: FxHashSet<(FileKey, u64)>,
}

/// What a probe is attached for.
struct ProbePurpose<'a> {
    role: ProbeRole,
    pair: u32,
    name: String,
    named_by: Option<u8>,
    nests: Option<bool>,
    arguments: Vec<ArgumentSpec>,
    path: &'a str,
}

/// What a spec asks for by one selector.
struct AskedPart<'a> {
    selector: &'a ProbeSelector,
    role: ProbeRole,
    pair: u32,
    named_by: Option<u8>,
    nests: Option<bool>,
}

impl<'a> AskedPart<'a> {
    /// The parts of a spec, in the order of their numbers ([`SpecPart::probe`]).
    fn all_of(spec: &'a Spec, zone_pair: u32) -> Vec<Self> {
        match spec {
            Spec::Usdt(selector) => vec![Self::of(selector, ProbeRole::Point, 0)],
            Spec::Zone(zone) => {
                let begin = Self {
                    named_by: zone.named_by,
                    nests: zone.nests,
                    ..Self::of(&zone.begin, ProbeRole::ZoneBegin, zone_pair)
                };
                let ends = zone.ends.iter().map(|end| Self::of(end, ProbeRole::ZoneEnd, zone_pair));
                std::iter::once(begin).chain(ends).collect()
            }
            Spec::Function(_) => Vec::new(),
        }
    }

    fn of(selector: &'a ProbeSelector, role: ProbeRole, pair: u32) -> Self {
        Self { selector, role, pair, named_by: None, nests: None }
    }
}

impl Planner {
    /// Adds the USDT probes of a file that `spec`, the one of this index, asks for.
    /// `is_file` tells whether a selector means the file.
    pub(super) fn usdt(
        &mut self,
        (index, spec): (usize, &Spec),
        path: &str,
        probes: &[UsdtProbe],
        is_file: &dyn Fn(&ProbeSelector) -> bool,
        plan: &mut Plan,
    ) {
        let zone_pair = FIRST_ZONE_PAIR + index as u32;
        for (part, asked) in AskedPart::all_of(spec, zone_pair).into_iter().enumerate() {
            if !is_file(asked.selector) {
                continue;
            }
            for sites in
                sites_of(probes, |probe| asked.selector.matches(&probe.provider, &probe.name))
            {
                let first = sites[0];
                let meaning = ProbePurpose {
                    role: asked.role,
                    pair: asked.pair,
                    name: format!("{}:{}", first.provider, first.name),
                    named_by: asked.named_by,
                    nests: asked.nests,
                    arguments: first.argument_specs(Some(asked.selector)),
                    path,
                };
                self.add_usdt(&sites, meaning, plan);
                plan.matches(SpecPart { spec: index, probe: part });
            }
        }
    }

    /// Adds what an instrumented program has for the collector.
    pub(super) fn client(&mut self, path: &str, probes: &[UsdtProbe], plan: &mut Plan) {
        for probe in
            probes.iter().filter(|probe| probe.provider == PROVIDER && probe.name == PROBE_RING)
        {
            let never =
                probe.arguments.iter().map(|argument| (argument.clone(), StringReading::Never));
            let arguments = never.collect();
            plan.rings.push(Planned {
                offset: probe.offset,
                semaphore: probe.semaphore.unwrap_or(0),
                probe: 0,
                arguments,
                at_return: false,
            });
        }
        for (name, role, readings) in CLIENT_PROBES {
            // A probe of one name has one list of types, but in a forged file.
            for sites in sites_of(probes, |probe| probe.provider == PROVIDER && probe.name == name)
                .into_iter()
                .take(1)
            {
                let arguments = readings
                    .iter()
                    .map(|text| ArgumentSpec { name: None, kind: argument_kind(text) })
                    .collect();
                let name = format!("{PROVIDER}:{name}");
                let sites = &sites[..sites.len().min(CLIENT_COPIES_MAX)];
                let meaning = ProbePurpose {
                    role,
                    pair: 0,
                    name,
                    named_by: None,
                    nests: None,
                    arguments,
                    path,
                };
                self.add_usdt(sites, meaning, plan);
            }
        }
    }

    fn add_usdt(&mut self, sites: &[&UsdtProbe], meaning: ProbePurpose<'_>, plan: &mut Plan) {
        let Some(first) = sites.first() else { return };
        let of_client = CLIENT_PROBES.iter().any(|(_, role, _)| *role == meaning.role);
        let probe = self.number() | if of_client { OF_CLIENT } else { 0 };
        let named = &meaning.arguments;
        let arguments = first.arguments.iter().take(ARGUMENTS_MAX).enumerate();
        let arguments =
            arguments.map(|(index, argument)| defined(index, argument, named)).collect();
        plan.definitions.push(ProbeDefinition {
            probe,
            role: meaning.role,
            pair: meaning.pair,
            name: meaning.name,
            arguments,
            named_by: meaning.named_by,
            nests: meaning.nests,
            path: meaning.path.to_owned(),
            ..Default::default()
        });
        plan.points.extend(sites.iter().map(|site| {
            Planned {
                offset: site.offset,
                semaphore: site.semaphore.unwrap_or(0),
                probe,
                arguments: site
                    .arguments
                    .iter()
                    .enumerate()
                    .map(|(index, argument)| (argument.clone(), text(kind(named, index), argument)))
                    .collect(),
                at_return: false,
            }
        }));
    }

    /// Adds functions that the spec of this index asks for.
    pub(super) fn functions(
        &mut self,
        index: usize,
        path: &str,
        functions: &[(Function, Returns)],
        plan: &mut Plan,
    ) {
        // One place is probed once, whoever asks for it: functions may share their ends.
        let mut taken: FxHashSet<(u64, bool)> =
            plan.points.iter().map(|point| (point.offset, point.at_return)).collect();
        for (function, returns) in functions {
            let (role, exits, at_return) = match returns {
                Returns::At(exits) => (ProbeRole::FunctionExit, &exits[..], false),
                Returns::ByAddress => {
                    (ProbeRole::FunctionReturn, std::slice::from_ref(&function.offset), true)
                }
            };
            plan.matches(SpecPart { spec: index, probe: 0 });
            if !taken.insert((function.offset, false)) {
                continue;
            }
            // Without its ends it would be of no use.
            if plan.points.len() + 1 + exits.len() > POINTS_MAX {
                plan.left_out += 1 + exits.len();
                continue;
            }
            self.function(
                path,
                &function.name,
                ProbeRole::FunctionEntry,
                &[(function.offset, false)],
                plan,
            );
            let exits =
                exits.iter().map(|exit| (*exit, at_return)).filter(|exit| taken.insert(*exit));
            self.function(path, &function.name, role, &exits.collect::<Vec<_>>(), plan);
        }
    }

    /// Adds the entry or the ends of a function: places, and whether its return address is taken
    /// there.
    fn function(
        &mut self,
        path: &str,
        name: &str,
        role: ProbeRole,
        offsets: &[(u64, bool)],
        plan: &mut Plan,
    ) {
        if offsets.is_empty() {
            return;
        }
        let probe = self.number();
        plan.definitions.push(ProbeDefinition {
            probe,
            role,
            pair: FUNCTIONS_PAIR,
            name: name.to_owned(),
            path: path.to_owned(),
            ..Default::default()
        });
        plan.points.extend(offsets.iter().map(|(offset, at_return)| Planned {
            offset: *offset,
            semaphore: 0,
            probe,
            arguments: Vec::new(),
            at_return: *at_return,
        }));
    }

    /// One that no other probe has.
    pub(super) fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }
}

fn argument_kind(text: &bool) -> ArgumentKind {
    if *text { ArgumentKind::Text } else { ArgumentKind::Integer }
}

fn kind(named: &[ArgumentSpec], index: usize) -> ArgumentKind {
    named.get(index).map_or(ArgumentKind::Auto, |named| named.kind)
}

/// What to tell of the argument of this index, given what was said of all of the probe's.
fn defined(index: usize, argument: &Argument, named: &[ArgumentSpec]) -> ProbeArgument {
    let name = named.get(index).and_then(|named| named.name.clone());
    ProbeArgument {
        name: name.unwrap_or_else(|| format!("arg{index}")),
        size: argument.size,
        signed: argument.signed,
        float: argument.float,
        text: kind(named, index).text(),
    }
}

/// Whether to read an argument as a text. Only 8 bytes can point to one.
fn text(kind: ArgumentKind, argument: &Argument) -> StringReading {
    match kind {
        ArgumentKind::Text => StringReading::Always,
        ArgumentKind::Auto if argument.size == 8 && !argument.float => StringReading::Likely,
        ArgumentKind::Auto | ArgumentKind::Integer => StringReading::Never,
    }
}

/// The probes that are wanted, those that are one probe at several places
/// together: of one name, and with arguments of the same types.
fn sites_of(probes: &[UsdtProbe], wanted: impl Fn(&UsdtProbe) -> bool) -> Vec<Vec<&UsdtProbe>> {
    let mut sites: Vec<Vec<&UsdtProbe>> = Vec::new();
    // A file may have a hundred thousand of them, no two alike.
    let mut indices = FxHashMap::default();
    for probe in probes.iter().filter(|probe| wanted(probe)) {
        let types = probe.arguments.iter();
        let types: Vec<_> = types.map(|one| (one.size, one.signed, one.float)).collect();
        let place = indices.entry((&probe.provider, &probe.name, types)).or_insert(sites.len());
        match sites.get_mut(*place) {
            Some(group) => group.push(probe),
            None => sites.push(vec![probe]),
        }
    }
    sites
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_thousand_kinds_of_one_probe_are_told_apart_at_once() {
        // A user's file with so many notes kept whoever attaches probes from all other files.
        let sizes = ["1", "-1", "2", "-2", "4", "-4", "8", "-8"];
        let probes: Vec<_> = (0..100_000)
            .map(|number| {
                let sizes = (0..6).map(|digit| sizes[number >> (3 * digit) & 7]);
                let arguments: Vec<_> = sizes.map(|size| format!("{size}@%rax")).collect();
                probe("a", "b", number as u64, &arguments.join(" "))
            })
            .collect();
        let begin = std::time::Instant::now();
        assert_eq!(sites_of(&probes, |_| true).len(), 100_000);
        assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
    }

    fn probe(provider: &str, name: &str, offset: u64, arguments: &str) -> UsdtProbe {
        UsdtProbe {
            provider: provider.to_owned(),
            name: name.to_owned(),
            offset,
            semaphore: Some(0x4000),
            arguments: arguments
                .split_whitespace()
                .map(|argument| argument.parse().unwrap())
                .collect(),
        }
    }

    fn planned(spec: &str, probes: &[UsdtProbe]) -> Plan {
        let mut plan = Plan::default();
        Planner::default().usdt(
            (0, &Spec::usdt(spec).unwrap()),
            "/bin/x",
            probes,
            &|_| true,
            &mut plan,
        );
        plan
    }

    #[test]
    fn a_probe_at_several_places_is_one_probe_unless_its_types_differ() {
        let probes = [("8@%rdi", 1), ("8@%rsi", 2), ("4@%eax", 3)]
            .map(|(arguments, at)| probe("a", "b", at, arguments));
        let plan = planned("a:b", &probes);
        assert_eq!(
            plan.definitions.iter().map(|one| one.arguments[0].size).collect::<Vec<_>>(),
            [8, 4]
        );
        let numbers: Vec<_> = plan.points.iter().map(|point| (point.offset, point.probe)).collect();
        assert_eq!(numbers, [(1, 1), (2, 1), (3, 2)]);
    }

    #[test]
    fn python_functions_become_zones_named_by_the_function() {
        let probes = [
            probe("python", "function__entry", 1, "8@%r12 8@%r13 -4@%eax"),
            probe("python", "function__return", 2, "8@%r12 8@%r13 -4@%eax"),
            probe("python", "line", 3, "8@%r12 8@%r13 -4@%eax"),
        ];
        let spec = Spec::zone("python:function__entry..function__return").unwrap();
        let mut plan = Plan::default();
        Planner::default().usdt((3, &spec), "/bin/python", &probes, &|_| true, &mut plan);
        let roles: Vec<_> =
            plan.definitions.iter().map(|one| (one.role, one.pair, one.named_by)).collect();
        assert_eq!(roles, [(ProbeRole::ZoneBegin, 5, Some(1)), (ProbeRole::ZoneEnd, 5, None)]);
        let readings: Vec<_> = plan.points[0].arguments.iter().map(|(_, text)| *text).collect();
        assert_eq!(readings, [StringReading::Always, StringReading::Always, StringReading::Never]);
        assert_eq!(plan.matched, [0, 1].map(|probe| SpecPart { spec: 3, probe }));
        assert_eq!(plan.definitions[0].nests, Some(true));
    }

    #[test]
    fn every_end_of_a_zone_is_attached_as_an_end_of_the_same_pair() {
        let probes = [
            probe("postgresql", "transaction__start", 1, "4@%eax"),
            probe("postgresql", "transaction__commit", 2, "4@%eax"),
            probe("postgresql", "transaction__abort", 3, "4@%eax"),
        ];
        let spec = Spec::zone(
            "postgresql:transaction__start..transaction__commit|transaction__abort|other",
        )
        .unwrap();
        let mut plan = Plan::default();
        Planner::default().usdt((0, &spec), "/bin/postgres", &probes, &|_| true, &mut plan);
        let roles: Vec<_> =
            plan.definitions.iter().map(|one| (one.role, one.pair, one.nests)).collect();
        let (begin, end) = ((ProbeRole::ZoneBegin, 2, Some(false)), (ProbeRole::ZoneEnd, 2, None));
        assert_eq!(roles, [begin, end, end]);
        assert_eq!(
            plan.matched,
            [0, 1, 2].map(|probe| SpecPart { spec: 0, probe }),
            "the third end is nowhere"
        );
    }

    #[test]
    fn only_eight_bytes_may_turn_out_to_be_a_text() {
        let plan = planned("a:*", &[probe("a", "b", 1, "8@%rdi 4@%esi 8f@%xmm0")]);
        let readings: Vec<_> = plan.points[0].arguments.iter().map(|(_, text)| *text).collect();
        assert_eq!(readings, [StringReading::Likely, StringReading::Never, StringReading::Never]);
    }

    #[test]
    fn an_instrumented_program_is_attached_to_without_being_asked_for() {
        let probes = [
            probe("syscollect", "ring", 1, "8@%rdi 8@%rsi 8@%rdx"),
            probe("syscollect", "zone_begin", 2, "8@%rdi 8@%rsi 8@%rdx 8@%rcx 8@%r8"),
            probe("other", "ring", 3, ""),
        ];
        let mut plan = Plan::default();
        Planner::default().client("/bin/x", &probes, &mut plan);
        assert_eq!(
            plan.rings.iter().map(|ring| (ring.offset, ring.semaphore)).collect::<Vec<_>>(),
            [(1, 0x4000)]
        );
        assert_eq!(
            plan.definitions.iter().map(|one| one.role).collect::<Vec<_>>(),
            [ProbeRole::ClientZoneBegin]
        );
        assert_eq!(
            plan.definitions[0].arguments.iter().filter(|one| one.text == Some(true)).count(),
            3
        );
    }

    #[test]
    fn a_file_that_pretends_to_be_full_of_probes_is_attached_to_in_part() {
        let rings: Vec<_> =
            (1..1000).map(|offset| probe("syscollect", "ring", offset, "8@%rdi")).collect();
        let frames = (1..1000).map(|offset| probe("syscollect", "frame", offset, "8@%rdi"));
        let probes: Vec<_> = rings.into_iter().chain(frames).collect();
        let mut plan = Plan::default();
        Planner::default().client("/bin/x", &probes, &mut plan);
        assert!(plan.limit().unwrap().starts_with("983 places"));
        assert_eq!((plan.rings.len(), plan.points.len()), (RINGS_MAX, CLIENT_COPIES_MAX));
    }

    fn function(name: &str, offset: u64) -> Function {
        Function { name: name.into(), symbol: name.into(), offset, size: 16 }
    }

    fn plan_of(functions: &[(Function, Returns)]) -> Plan {
        let mut plan = Plan::default();
        Planner::default().functions(0, "/bin/x", functions, &mut plan);
        plan
    }

    #[test]
    fn a_function_is_two_probes_of_one_pair() {
        let plan = plan_of(&[(function("work", 64), Returns::At(vec![70, 79]))]);
        let points: Vec<_> =
            plan.points.iter().map(|point| (point.offset, point.probe, point.at_return)).collect();
        assert_eq!(points, [(64, 1, false), (70, 2, false), (79, 2, false)]);
        let roles: Vec<_> = plan.definitions.iter().map(|one| one.role).collect();
        assert_eq!(roles, [ProbeRole::FunctionEntry, ProbeRole::FunctionExit]);
        assert!(
            plan.definitions.iter().all(|one| one.pair == FUNCTIONS_PAIR && one.name == "work")
        );
    }

    #[test]
    fn a_function_is_attached_to_at_its_ends_first() {
        let functions = [
            (function("work", 64), Returns::At(vec![70, 79])),
            (function("rest", 96), Returns::ByAddress),
        ];
        let plan = plan_of(&functions);
        let points: Vec<_> =
            plan.ends_first().map(|point| (point.offset, point.at_return)).collect();
        assert_eq!(points, [(70, false), (79, false), (96, true), (64, false), (96, false)]);
    }

    #[test]
    fn a_function_whose_ends_are_unknown_is_probed_at_its_return_address() {
        let plan = plan_of(&[(function("work", 64), Returns::ByAddress)]);
        let points: Vec<_> =
            plan.points.iter().map(|point| (point.offset, point.at_return)).collect();
        assert_eq!(points, [(64, false), (64, true)]);
        assert_eq!(plan.definitions[1].role, ProbeRole::FunctionReturn);
    }

    #[test]
    fn a_function_that_never_returns_is_probed_at_its_entry() {
        let plan = plan_of(&[(function("abort", 64), Returns::At(Vec::new()))]);
        assert_eq!((plan.points.len(), plan.definitions.len()), (1, 1));
    }

    #[test]
    fn a_place_that_functions_share_or_that_is_asked_for_twice_is_probed_once() {
        let functions = [("one", 64), ("other", 80), ("one", 64)];
        let plan = plan_of(
            &functions.map(|(name, offset)| (function(name, offset), Returns::At(vec![95]))),
        );
        assert_eq!(plan.points.iter().map(|point| point.offset).collect::<Vec<_>>(), [64, 95, 80]);
    }

    #[test]
    fn a_function_for_whose_ends_there_is_no_room_is_left_out_wholly() {
        let many = Returns::At((100..100 + POINTS_MAX as u64).collect());
        let mut plan =
            plan_of(&[(function("huge", 64), many), (function("work", 80), Returns::At(vec![90]))]);
        assert_eq!(plan.points.iter().map(|point| point.offset).collect::<Vec<_>>(), [80, 90]);
        assert!(plan.limit().unwrap().starts_with("65537 places"));
    }
}
