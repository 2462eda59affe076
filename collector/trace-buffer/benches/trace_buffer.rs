//! The work of Perfetto's benchmarks of its trace buffer, beside `memcpy` in the same run.
//!
//! A table: for each piece of work the median of [`ROUNDS`], in GB/s and as a part of what `memcpy`
//! did in the same round. Perfetto counts 4,096 bytes for each chunk of its writers' benchmarks,
//! though less is in them; that is the figure to compare with its own, and the bytes of fragments
//! are given beside it. `cargo bench -p syscollect-trace-buffer`.

use std::hint::black_box;
use std::time::{Duration, Instant};
use syscollect_trace_buffer::{
    BatchLimit, Chunk, ChunkFlags, Mode, Patch, SequenceId, TraceBuffer, push_fragment,
};

const ROUNDS: usize = 15;
const MIB: usize = 1 << 20;
/// What Perfetto counts for a chunk.
const CHUNK: usize = 4096;
const WRITERS: usize = 1000;

/// A small generator of numbers, the same in each run (`minstd_rand` of C++).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0 * 48_271 % 0x7fff_ffff;
        self.0 as usize % end
    }
}

struct Template {
    payload: Vec<u8>,
    fragments: u16,
}

/// A hundred chunks of 5 to 15 packets of 50 to 500 bytes, as far as they go into 4,080 bytes.
fn templates() -> Vec<Template> {
    let mut random = Random(42);
    let chunk = |random: &mut Random| {
        let mut template = Template { payload: Vec::new(), fragments: 0 };
        let packets = 5 + random.below(11);
        let mut used = 0;
        for _ in 0..packets {
            let size = (50 + random.below(451)).min(CHUNK - 16 - used);
            if used >= CHUNK - 16 - 50 || size < 10 {
                break;
            }
            // With its size in front a packet has as many bytes as were drawn.
            let prefix = if size <= 128 { 1 } else { 2 };
            push_fragment(&mut template.payload, &vec![b'a'; size - prefix]);
            template.fragments += 1;
            used += size;
        }
        template
    };
    (0..100).map(|_| chunk(&mut random)).collect()
}

/// Bytes as Perfetto counts them, and those that were really moved.
#[derive(Clone, Copy, Default)]
struct Work {
    counted: usize,
    moved: usize,
    took: Duration,
}

impl Work {
    fn gigabytes(self, bytes: usize) -> f64 {
        bytes as f64 / self.took.as_secs_f64() / 1e9
    }
}

struct Memcpy {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Memcpy {
    fn new() -> Self {
        Self { from: vec![1; 64 * MIB], to: vec![2; 64 * MIB] }
    }

    fn run(&mut self) -> Work {
        let begun = Instant::now();
        black_box(&mut self.to).copy_from_slice(black_box(&self.from));
        Work { counted: self.from.len(), moved: self.from.len(), took: begun.elapsed() }
    }
}

/// Writers that go on in one buffer from round to round.
struct Writing {
    buffer: TraceBuffer,
    templates: Vec<Template>,
    ids: Vec<u32>,
    next: usize,
    folds: bool,
}

impl Writing {
    fn new(writers: usize, folds: bool) -> Self {
        let buffer = TraceBuffer::new(64 * MIB, Mode::Ring).expect("a size that can be had");
        Self { buffer, templates: templates(), ids: vec![0; writers], next: 0, folds }
    }

    fn run(&mut self) -> Work {
        let mut work = Work::default();
        let begun = Instant::now();
        while work.counted < self.buffer.size() {
            let template = &self.templates[self.next % self.templates.len()];
            let writer = self.next % self.ids.len();
            let chunk = Chunk {
                sequence: SequenceId::new(writer as u16 + 1, writer as u16 + 1),
                id: self.ids[writer],
                fragments: template.fragments,
                flags: ChunkFlags::NONE,
                is_complete: true,
                payload: black_box(&template.payload),
            };
            if self.folds {
                self.buffer.commit_folding(&chunk, |packet| {
                    black_box(packet.len());
                });
            } else {
                self.buffer.commit(&chunk);
            }
            self.ids[writer] = self.ids[writer].wrapping_add(1);
            self.next += 1;
            work.counted += CHUNK;
            work.moved += template.payload.len();
        }
        work.took = begun.elapsed();
        work
    }
}

/// A buffer that is filled again for each round, by one writer; every `fragmented`th chunk goes on
/// in the next.
struct Reading {
    templates: Vec<Template>,
    fragmented: usize,
}

impl Reading {
    fn run(&self) -> Work {
        let mut buffer = TraceBuffer::new(128 * MIB, Mode::Ring).expect("a size that can be had");
        let mut counted = 0;
        let mut id = 0;
        while counted < buffer.size() - CHUNK {
            let template = &self.templates[id as usize % self.templates.len()];
            let mut flags = ChunkFlags::NONE;
            if self.fragmented > 0 && (id as usize).is_multiple_of(self.fragmented) {
                flags |= ChunkFlags::ON_NEXT;
            }
            if self.fragmented > 0 && id as usize % self.fragmented == 1 {
                flags |= ChunkFlags::FROM_PREVIOUS;
            }
            buffer.commit(&Chunk {
                sequence: SequenceId::new(1, 1),
                id,
                fragments: template.fragments,
                flags,
                is_complete: true,
                payload: &template.payload,
            });
            counted += CHUNK;
            id += 1;
        }
        let begun = Instant::now();
        let mut bytes = 0;
        let mut batch = buffer.read(BatchLimit::NONE);
        while let Some(packet) = batch.next_packet() {
            bytes += packet.fragments().map(|fragment| black_box(fragment).len()).sum::<usize>();
        }
        Work { counted: bytes, moved: bytes, took: begun.elapsed() }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Nanoseconds that a patch takes of the chunk that is so many before the last; none: of no chunk.
fn patch_nanoseconds(distance: Option<u32>) -> f64 {
    const PATCHES: u32 = 1_000_000;
    let mut writing = Writing::new(1, false);
    writing.run();
    let last = writing.ids[0] - 1;
    let id = distance.map_or(last + 1, |distance| last - distance);
    let begun = Instant::now();
    for _ in 0..PATCHES {
        let offset = writing.templates[0].payload.len() as u32;
        let patch = Patch { offset, bytes: &[1, 2, 3, 4] };
        let _ = black_box(writing.buffer.patch(SequenceId::new(1, 1), id, &[patch], false));
    }
    begun.elapsed().as_nanos() as f64 / f64::from(PATCHES)
}

fn main() {
    let mut memcpy = Memcpy::new();
    let mut single = Writing::new(1, false);
    let mut several = Writing::new(WRITERS, false);
    let mut folding = Writing::new(1, true);
    let whole = Reading { templates: templates(), fragmented: 0 };
    let mixed = Reading { templates: templates(), fragmented: 4 };
    let names = [
        "memcpy of 64 MiB",
        "write, single writer",
        "write, 1,000 writers",
        "write, single writer, folding",
        "read",
        "read, mixed with fragmented",
    ];
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        let works =
            [memcpy.run(), single.run(), several.run(), folding.run(), whole.run(), mixed.run()];
        // The first is for memory that nobody has touched yet.
        if round > 0 {
            rounds.push(works);
        }
    }
    println!("{:32} {:>8} {:>8} {:>8}", "", "GB/s", "moved", "/memcpy");
    for (index, name) in names.into_iter().enumerate() {
        let of = |value: fn(&Work, &Work) -> f64| {
            median(rounds.iter().map(|works| value(&works[index], &works[0])).collect())
        };
        let counted = of(|work, _| work.gigabytes(work.counted));
        let moved = of(|work, _| work.gigabytes(work.moved));
        let ratio =
            of(|work, memcpy| work.gigabytes(work.counted) / memcpy.gigabytes(memcpy.counted));
        println!("{name:32} {counted:8.2} {moved:8.2} {ratio:8.2}");
    }
    for (name, distance) in [("last", Some(0)), ("tenth before", Some(10)), ("no", None)] {
        println!("patch of the {name} chunk: {:.0} ns", patch_nanoseconds(distance));
    }
}
