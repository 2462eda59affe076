//! What a zone costs with syscollect and with other crates, in one run.
//!
//! ```sh
//! cd usdt-client/comparisons && cargo run --release
//! ```
//!
//! Each is measured while nobody looks (off) and while somebody does (on), in
//! rounds that take turns, in CPU time of the measuring thread. What consumes
//! the events gets time between the batches, so that none finds a full buffer.
//! A table with the least and the median of the rounds is printed; ratios are
//! of the medians, to syscollect's.

mod measure;
#[path = "../../benches/reader/mod.rs"]
mod reader;
mod subjects;
mod tracy;

use measure::{Subject, measure};

fn main() -> anyhow::Result<()> {
    let subjects_off = subjects::off();
    let off = measure(&subjects_off);
    let (reader, connection) = (reader::Reader::attach(), tracy::connect()?);
    let subjects_on = subjects::on(&reader);
    let on = measure(&subjects_on);
    println!("| what | by | state | ns, least | ns, median | ratio |\n|---|---|---|---|---|---|");
    for results in [off, on] {
        print(&results);
    }
    if reader.lost() != 0 {
        println!(
            "\n{} of syscollect's events found no room: its figures are not comparable.",
            reader.lost()
        );
    }
    anyhow::ensure!(
        tracy_client::Client::is_connected(),
        "Tracy's connection broke: its figures are of no use"
    );
    println!("\nTracy's server had read {} bytes, and is still connected.", connection.bytes());
    leave()
}

/// Ends without tracy-client's own end, which waits for a server to ask for all that was sent.
fn leave() -> ! {
    // SAFETY: nothing is left to do: the table is printed, line by line.
    unsafe { libc::_exit(0) }
}

/// Prints rows; ratios are to syscollect's row of the same kind, above.
fn print(results: &[(&Subject<'_>, measure::Times)]) {
    let mut own = f64::NAN;
    for (subject, times) in results {
        if subject.by == subjects::OWN {
            own = times.median;
        }
        let Subject { what, by, state, .. } = subject;
        let ratio = if own.is_nan() { String::new() } else { format!("{:.2}", times.median / own) };
        println!(
            "| {what} | {by} | {state} | {:.2} | {:.2} | {ratio} |",
            times.least, times.median
        );
    }
}
