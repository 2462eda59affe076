//! Takes a trace as trace_processor does, and insists on what it would count as an error.

use crate::decode::{Fields, Value, packets};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The thread that stands for time without records.
pub(crate) const UNRECORDED: u64 = i32::MAX as u64;

/// A switch as a reader sees it: time, what leaves, what comes.
pub(crate) type Switch = (u64, u64, u64);

/// What a trace tells.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// Switches by CPU, in time order.
    pub(crate) switches: BTreeMap<u64, Vec<Switch>>,
    /// Wakeups: time, woken thread.
    pub(crate) wakeups: Vec<(u64, u64)>,
    /// Samples: time, sequence, names of the frames from the outermost on.
    pub(crate) samples: Vec<(u64, u64, Vec<String>)>,
    /// Lost records by CPU, and those of no CPU.
    pub(crate) lost: (BTreeMap<u64, u64>, u64),
    /// Full events by field number.
    pub(crate) events: BTreeMap<u32, usize>,
    /// Thread ids that became free, when.
    pub(crate) freed: Vec<(u64, u64)>,
    /// Slices that ended, in the order of their ends; instants end when they begin.
    pub(crate) slices: Vec<Slice>,
    /// Values of counters: track, time, value.
    pub(crate) counters: Vec<(String, u64, f64)>,
    /// Ends of flows by flow: the track, the time, and whether it ends there.
    pub(crate) flows: BTreeMap<u64, Vec<(String, u64, bool)>>,
    tracks: HashMap<u64, Track>,
}

/// A slice as a reader sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slice {
    /// The names of its track and those above it; of a thread or process, its id.
    pub(crate) track: String,
    pub(crate) name: String,
    /// How many of its track it lies in.
    pub(crate) depth: usize,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// Of the beginning, replaced and followed by those of the end.
    pub(crate) arguments: BTreeMap<String, String>,
}

/// A track as its descriptor tells it, and its open slices.
#[derive(Debug, Default)]
struct Track {
    path: String,
    open: Vec<Slice>,
}

/// What one sequence has interned.
#[derive(Default)]
struct Interned {
    strings: HashMap<(u32, u64), String>,
    mappings: BTreeSet<u64>,
    frames: HashMap<u64, u64>,
    stacks: HashMap<u64, Vec<u64>>,
    locations: HashMap<u64, String>,
}

impl Interned {
    fn add(&mut self, data: &Fields) {
        for field in [1, 2, 3, 5, 17, 18, 26, 29] {
            for string in data.messages(field) {
                let iid = string.number(1).unwrap();
                let known = self.strings.insert((field, iid), string.text(2).unwrap());
                assert!(known.is_none(), "string {field}/{iid} is interned twice");
            }
        }
        for location in data.messages(4) {
            let words = format!("{}:{}", location.text(2).unwrap(), location.number(4).unwrap());
            assert!(self.locations.insert(location.number(1).unwrap(), words).is_none());
        }
        for mapping in data.messages(19) {
            assert!(self.strings.contains_key(&(17, mapping.number(7).unwrap())));
            assert!(self.mappings.insert(mapping.number(1).unwrap()));
        }
        for frame in data.messages(6) {
            assert!(
                self.mappings.contains(&frame.number(3).unwrap()),
                "a frame's mapping comes before it"
            );
            assert!(frame.number(5).is_none_or(|path| self.strings.contains_key(&(18, path))));
            assert!(
                self.frames.insert(frame.number(1).unwrap(), frame.number(2).unwrap()).is_none()
            );
        }
        for stack in data.messages(7) {
            assert!(self.stacks.insert(stack.number(1).unwrap(), stack.numbers(2)).is_none());
        }
    }

    fn stack(&self, iid: u64) -> Vec<String> {
        self.stacks[&iid]
            .iter()
            .map(|frame| self.strings[&(5, self.frames[frame])].clone())
            .collect()
    }
}

/// Replays a whole trace.
pub(crate) fn replay(trace: &[u8]) -> Replay {
    let mut replay = Replay::default();
    let mut sequences: HashMap<u64, Interned> = HashMap::new();
    let mut track_events = Vec::new();
    for bytes in packets(trace) {
        let packet = Fields::parse(&bytes);
        let sequence = packet.number(10).expect("every packet has a sequence");
        let first = !sequences.contains_key(&sequence);
        assert_eq!(
            packet.number(13),
            Some(if first { 1 } else { 2 }),
            "the state is cleared once, then needed"
        );
        assert_eq!(packet.number(87), first.then_some(1));
        let interned = sequences.entry(sequence).or_default();
        interned.add(&packet.message(12));
        for bundle in packet.messages(1) {
            replay.bundle(&bundle, interned);
        }
        for sample in packet.messages(66) {
            match sample.number(17) {
                Some(count) => {
                    *replay.lost.0.entry(sample.number(1).unwrap()).or_default() += count;
                }
                None => {
                    let stack = sample.number(4).map(|iid| interned.stack(iid)).unwrap_or_default();
                    replay.samples.push((packet.number(8).unwrap(), sequence, stack));
                }
            }
        }
        for descriptor in packet.messages(60) {
            replay.track(&descriptor);
        }
        for event in packet.messages(11) {
            let track = event.number(11).unwrap();
            assert!(replay.tracks.contains_key(&track), "a track is described before its events");
            track_events.push((packet.number(8).unwrap(), sequence, event));
        }
        replay.lost.1 += packet
            .message(35)
            .messages(1)
            .iter()
            .filter_map(|buffer| buffer.number(19))
            .sum::<u64>();
    }
    // A reader sorts them by time, and those of one time stay as they are.
    track_events.sort_by_key(|(time, ..)| *time);
    for (time, sequence, event) in track_events {
        replay.track_event(time, &event, &sequences[&sequence]);
    }
    replay.check();
    replay
}

impl Replay {
    /// Full switches carry both sides; of compact ones the leaving side is filled in by
    /// [`Self::check`].
    fn bundle(&mut self, bundle: &Fields, interned: &Interned) {
        let cpu = bundle.number(1).unwrap();
        let compact = bundle.message(4);
        let names = compact.all(5).count() as u64;
        assert!(compact.packed(6).iter().chain(&compact.packed(11)).all(|index| *index < names));
        let switches = self.switches.entry(cpu).or_default();
        let times = absolute(&compact.packed(1));
        assert_eq!(times.len(), compact.packed(2).len());
        switches.extend(
            times.into_iter().zip(compact.packed(3)).map(|(time, next)| (time, u64::MAX, next)),
        );
        let times = absolute(&compact.packed(7));
        assert_eq!(times.len(), compact.packed(12).len());
        self.wakeups.extend(times.into_iter().zip(compact.packed(8)));
        for event in bundle.messages(2) {
            let time = event.number(1).unwrap();
            let kind = event.0.last().unwrap().0;
            let fields = event.message(kind);
            *self.events.entry(kind).or_default() += 1;
            match kind {
                4 => switches.push((time, fields.number(2).unwrap(), fields.number(6).unwrap())),
                18 => assert!(
                    fields.number(2).is_none_or(|iid| interned.strings.contains_key(&(26, iid)))
                ),
                240 => self.freed.push((time, fields.number(2).unwrap())),
                20 | 114 => self.wakeups.push((time, fields.number(2).unwrap())),
                _ => {}
            }
        }
    }

    /// A track is described once, after the one above it.
    fn track(&mut self, descriptor: &Fields) {
        let above = descriptor
            .number(5)
            .map(|uuid| self.tracks[&uuid].path.clone() + "/")
            .unwrap_or_default();
        let process = descriptor.message(3).number(1).map(|pid| format!("process {pid}"));
        let thread = descriptor.message(4).number(2).map(|tid| format!("thread {tid}"));
        let name = process.or(thread).or(descriptor.text(2)).unwrap();
        let known = self
            .tracks
            .insert(descriptor.number(1).unwrap(), Track { path: above + &name, open: Vec::new() });
        assert!(known.is_none(), "{name} is described twice");
    }

    fn track_event(&mut self, time: u64, event: &Fields, interned: &Interned) {
        let track = self.tracks.get_mut(&event.number(11).unwrap()).unwrap();
        for (number, value) in &event.0 {
            if let (47 | 48, Value::Fixed64(flow)) = (number, value) {
                self.flows.entry(*flow).or_default().push((
                    track.path.clone(),
                    time,
                    *number == 48,
                ));
            }
        }
        let arguments = arguments(event, interned);
        match event.number(9).unwrap() {
            kind @ (1 | 3) => {
                let name = event
                    .text(23)
                    .unwrap_or_else(|| interned.strings[&(2, event.number(10).unwrap())].clone());
                let (path, depth) = (track.path.clone(), track.open.len());
                let slice = Slice { track: path, name, depth, begin: time, end: time, arguments };
                let slices = if kind == 1 { &mut track.open } else { &mut self.slices };
                slices.push(slice);
            }
            2 => {
                let mut slice = track.open.pop().expect("what ends has begun");
                slice.end = time;
                slice.arguments.extend(arguments);
                self.slices.push(slice);
            }
            4 => {
                let value = event.0.iter().find_map(|(number, value)| match value {
                    Value::Fixed64(bits) if *number == 44 => Some(f64::from_bits(*bits)),
                    _ => None,
                });
                self.counters.push((track.path.clone(), time, value.unwrap()));
            }
            other => panic!("an event of type {other}"),
        }
    }

    /// What leaves a CPU is what came to it.
    fn check(&mut self) {
        for (cpu, switches) in &mut self.switches {
            switches.sort_by_key(|(time, ..)| *time);
            let mixed = switches.windows(2).find(|two| {
                two[0].0 == two[1].0 && (two[0].1 == u64::MAX) != (two[1].1 == u64::MAX)
            });
            assert_eq!(
                mixed, None,
                "the order of compact and full switches of one time is not defined"
            );
            let mut current = None;
            for (time, previous, next) in switches {
                if *previous == u64::MAX {
                    *previous =
                        current.unwrap_or_else(|| panic!("CPU {cpu} begins with a compact switch"));
                }
                assert_eq!(*previous, current.unwrap_or(*previous), "CPU {cpu} at {time}");
                current = Some(*next);
            }
        }
    }
}

/// What an event says beside its name; everything interned is known.
fn arguments(event: &Fields, interned: &Interned) -> BTreeMap<String, String> {
    let mut arguments = BTreeMap::new();
    for category in event.numbers(3) {
        arguments.insert("category".to_owned(), interned.strings[&(1, category)].clone());
    }
    if let Some(location) = event.number(34) {
        arguments.insert("location".to_owned(), interned.locations[&location].clone());
    }
    if let Some(stack) = event.number(56) {
        arguments.insert("callstack".to_owned(), interned.stack(stack).join(" > "));
    }
    for annotation in event.messages(4) {
        let name = annotation
            .text(10)
            .unwrap_or_else(|| interned.strings[&(3, annotation.number(1).unwrap())].clone());
        let (kind, value) =
            annotation.0.iter().find(|(number, _)| ![1, 10].contains(number)).unwrap();
        let value = match value {
            Value::Varint(iid) if *kind == 17 => interned.strings[&(29, *iid)].clone(),
            Value::Varint(number) if *kind == 4 => (*number as i64).to_string(),
            Value::Varint(number) => number.to_string(),
            Value::Fixed64(bits) => f64::from_bits(*bits).to_string(),
            Value::Bytes(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        };
        arguments.insert(name, value);
    }
    arguments
}

fn absolute(distances: &[u64]) -> Vec<u64> {
    distances
        .iter()
        .scan(0, |time, distance| {
            *time += distance;
            Some(*time)
        })
        .collect()
}
