//! Prints what exported files show, a line for each figure: to compare formats of one real
//! recording.

use std::error::Error;
use std::fs;
use syscollect_tests::shown;

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        let bytes = fs::read(&path)?;
        let figures = match path.split_once('.').map_or("", |(_, extension)| extension) {
            "tracy" => shown::tracy(&bytes)?,
            "json" => shown::firefox(&bytes)?,
            "report.json" => shown::report(&bytes)?,
            "folded" => shown::folded(&String::from_utf8(bytes)?)?,
            "pb.gz" => shown::pprof(&bytes)?,
            _ => {
                return Err(format!(
                    "{path} is none of .tracy, .json, .report.json, .folded, .pb.gz"
                )
                .into());
            }
        };
        for (figure, count) in figures {
            println!("{path}\t{}\t{count}", figure.escape_debug());
        }
    }
    Ok(())
}
