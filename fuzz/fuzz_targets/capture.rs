//! Whatever a file holds, reading and playing it ends, in bounded memory and
//! without a panic; time never goes back, and every slice that begins ends.
//!
//! Every input is read three times: as it is, with all checksums made to fit, so
//! that the search gets past them to lengths, decompression and JSON, and the
//! same behind definitions and clock readings, without which nothing is played.
//! That is played as if it were being recorded, too, and watched for triggers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::LazyLock;
use syscollect_fuzz::captures::{CHUNK_HEADER, file_header, preamble, sealed};
use syscollect_merge::{Session, play_live};
use syscollect_model::{Event, Exporter, Loss, RecorderSummary, Tables, Ticks, Time, TrackId};
use syscollect_playback::Recording;
use syscollect_store::{CaptureReader, Chunk, MAX_CHUNK, ReadBuffer};
use syscollect_triggers::{Trigger, Watcher, read_triggers};

fuzz_target!(|bytes: &[u8]| {
    read(bytes.to_vec());
    read(sealed(file_header(), bytes));
    static PREAMBLE: LazyLock<Vec<u8>> = LazyLock::new(preamble);
    let file = sealed(PREAMBLE.clone(), bytes);
    play_live_of(&file);
    watch(&file);
    play(file);
});

/// Reads all that a file offers, of whatever lane.
fn read(file: Vec<u8>) {
    let length = file.len();
    let Ok(reader) = CaptureReader::from_bytes(file) else { return };
    let (mut data, mut buffer) = (Vec::new(), ReadBuffer::default());
    let mut entries = 0;
    for lane in reader.lanes() {
        let mut next = 0;
        for entry in reader.chunks(lane) {
            assert!(entry.sequence >= next && entry.lane == lane, "chunks come in order");
            next = entry.sequence.saturating_add(1);
            entries += 1;
            if let Ok(header) = reader.read_into(entry, &mut data, &mut buffer) {
                assert_eq!(header.length as usize, data.len());
                assert_eq!((header.lane, header.sequence), (lane, entry.sequence));
            }
        }
    }
    assert!(data.capacity() <= 2 * MAX_CHUNK);
    assert!(entries <= length / CHUNK_HEADER && reader.valid_length() <= length as u64);
    let _ = (reader.definitions().count(), reader.is_complete(), reader.next_definition_sequence());
}

/// Plays all of it, if it can be opened.
fn play(file: Vec<u8>) {
    let Ok(reader) = CaptureReader::from_bytes(file) else { return };
    let Ok(mut session) = Session::open(reader) else { return };
    let mut counter = Counter::default();
    let Ok(played) = session.play(&mut counter);
    assert!(counter.open.values().all(|count| *count == 0), "a slice does not end");
    assert!(counter.ended && (played.events == 0) == played.events_by_type.is_empty());
}

/// Chunks that can be read, the first of all lanes first.
fn chunks_as_they_come(reader: &CaptureReader) -> impl Iterator<Item = Chunk> + '_ {
    let mut entries: Vec<_> =
        reader.lanes().into_iter().flat_map(|lane| reader.chunks(lane)).collect();
    entries.sort_by_key(|entry| entry.sequence);
    entries.into_iter().filter_map(|entry| reader.read(entry).ok())
}

/// Plays its chunks, the first of all lanes first, each as soon as it is there.
fn play_live_of(file: &[u8]) {
    let Ok(reader) = CaptureReader::from_bytes(file.to_vec()) else { return };
    let mut counter = Counter::default();
    let played = play_live(&mut counter, |live| {
        for chunk in chunks_as_they_come(&reader) {
            let first = chunk.header.first;
            live.feed(chunk)?;
            // What comes later may be of before that all the same.
            live.advance(first)?;
        }
        Ok(())
    });
    let Ok(_) = played;
    assert!(counter.open.values().all(|count| *count == 0), "a slice does not end");
}

/// Watches its chunks for all kinds of triggers, as they would come of a recording that goes on.
fn watch(file: &[u8]) {
    static TRIGGERS: LazyLock<Vec<Trigger>> = LazyLock::new(|| {
        let texts = "a: zone * > 0ns\nb: frame > 1x p50\nc: hit * if 0 > 3\nd: tracepoint a:b\n\
                     e: waiting > 0ns\nf: exit\ng: message \"\"\nh: counter * > 0\n\
                     i: plot * > 0\nj: pair * > 0ns\nk: function * > 0ns\nl: blocked > 0ns";
        read_triggers(texts).expect("they are triggers")
    });
    let Ok(reader) = CaptureReader::from_bytes(file.to_vec()) else { return };
    let mut watcher = Watcher::new(TRIGGERS.clone()).expect("each may fire");
    for chunk in chunks_as_they_come(&reader) {
        let first = chunk.header.first;
        watcher.feed(chunk);
        watcher.nothing_before(first);
    }
    watcher.nothing_before(Ticks(u64::MAX));
    let fired = watcher.fired();
    assert!(fired.is_sorted_by_key(|firing| firing.at));
}

/// An exporter that counts.
#[derive(Default)]
struct Counter {
    now: Time,
    /// Slices that are open, by track.
    open: HashMap<TrackId, u64>,
    ended: bool,
}

impl Exporter for Counter {
    type Error = Infallible;

    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        assert!(time >= self.now, "time goes back");
        self.now = time;
        match event {
            Event::SliceBegin(track, slice) => {
                assert!(
                    track.index() < tables.tracks.len()
                        && slice.name.index() < tables.strings.len()
                );
                *self.open.entry(*track).or_default() += 1;
            }
            Event::SliceEnd(track) => {
                let open = self.open.entry(*track).or_default();
                *open = open.checked_sub(1).expect("no more ends than beginnings");
            }
            Event::SliceUpdate(track, _) => {
                assert!(self.open.get(track).is_some_and(|open| *open > 0))
            }
            _ => {}
        }
        Ok(())
    }

    fn end(
        &mut self,
        _: &[Loss],
        _: Option<&RecorderSummary>,
        _: &Tables,
    ) -> Result<(), Infallible> {
        self.ended = true;
        Ok(())
    }
}
