//! Prints what each kind of lane takes of a capture file:
//! `cargo run --release -p syscollect-store --example lanes -- FILE.syscap`.

use std::collections::BTreeMap;
use std::path::Path;

use syscollect_store::CaptureReader;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which capture? give a path that ends in .syscap")?;
    let capture = CaptureReader::open(Path::new(&path))?;
    let mut kinds: BTreeMap<_, [u64; 4]> = BTreeMap::new();
    for lane in capture.lanes() {
        for entry in capture.chunks(lane) {
            let sums = kinds.entry(lane.kind).or_default();
            let parts =
                [1, u64::from(entry.records), u64::from(entry.length), u64::from(entry.stored)];
            sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        }
    }
    println!(
        "{:<14} {:>8} {:>10} {:>12} {:>12}",
        "lane", "chunks", "records", "bytes", "stored once"
    );
    for (kind, [chunks, records, length, stored]) in kinds {
        println!("{:<14} {chunks:>8} {records:>10} {length:>12} {stored:>12}", kind.name());
    }
    Ok(())
}
