//! How large the tables of files are, and how much CPU time making them takes:
//! `cargo run --release -p syscollect-unwind --example unwind_figures FILE...`
#![allow(clippy::unwrap_used, reason = "a program for whoever works on this")]

use std::fs::File;
use std::time::Duration;
use syscollect_records::unwind::{PAGE_BYTES, cfa_rule};
use syscollect_untrusted_files::Reader;
use syscollect_unwind::{UnwindFile, UnwindRow};

fn main() {
    println!(
        "file\tcode MB\tpages\trows\tMB\tno rule\tCPU ms\tof one page: median\tworst\trows: worst"
    );
    for path in std::env::args().skip(1) {
        let file = UnwindFile::read(Reader::of(&File::open(&path).unwrap()).unwrap()).unwrap();
        let mut pages: Vec<u32> = file
            .code()
            .iter()
            .flat_map(|code| code.start / PAGE_BYTES..=(code.end - 1) / PAGE_BYTES)
            .map(|page| page as u32)
            .collect();
        // Two segments may end and begin in one page.
        pages.dedup();
        let code: u64 = file.code().iter().map(|code| code.end - code.start).sum();
        let (mut whole, mut tables) = (Duration::MAX, Vec::new());
        for _ in 0..3 {
            let start = cpu_time();
            tables = file.pages(&pages).unwrap();
            whole = whole.min(cpu_time() - start);
        }
        let mut single: Vec<Duration> = (pages.iter().zip(&tables))
            .map(|(page, table)| {
                let start = cpu_time();
                let alone = file.pages(&[*page]).unwrap();
                assert!(alone[0] == *table, "page {page} alone has other rows");
                cpu_time() - start
            })
            .collect();
        single.sort();
        let rows: usize = tables.iter().map(|(_, rows)| rows.len()).sum();
        println!(
            "{}\t{:.1}\t{}\t{rows}\t{:.2}\t{:.1} %\t{:.1}\t{:.2}\t{:.2}\t{}",
            path.rsplit('/').next().unwrap(),
            code as f64 / 1e6,
            pages.len(),
            rows as f64 * UnwindRow::SIZE as f64 / 1e6,
            without_rule(&tables) as f64 / (pages.len() as f64 * PAGE_BYTES as f64) * 100.0,
            whole.as_secs_f64() * 1e3,
            single[single.len() / 2].as_secs_f64() * 1e3,
            single.last().unwrap().as_secs_f64() * 1e3,
            tables.iter().map(|(_, rows)| rows.len()).max().unwrap(),
        );
    }
}

/// Bytes of the pages for which there is no rule.
fn without_rule(tables: &[(u32, Vec<UnwindRow>)]) -> u64 {
    tables.iter().map(|(_, rows)| bytes_without_rule(rows)).sum()
}

fn bytes_without_rule(rows: &[UnwindRow]) -> u64 {
    let ends = rows.iter().skip(1).map(|row| u64::from(row.address)).chain([PAGE_BYTES]);
    let none = rows.iter().zip(ends).filter(|(row, _)| row.cfa == cfa_rule::NONE);
    none.map(|(row, end)| end - u64::from(row.address)).sum::<u64>()
}

/// CPU time of this program, which other programs do not make longer.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to what it is given.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
