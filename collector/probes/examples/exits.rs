//! Tells of each file for how many functions it is known where they return:
//! `cargo run --release -p syscollect-probes --example exits -- /lib/x86_64-linux-gnu/libc.so.6`.

use std::collections::BTreeMap;
use syscollect_probes::{Functions, Returns};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let list = std::env::var_os("LIST").is_some();
    for path in std::env::args().skip(1) {
        let file = std::fs::read(&path)?;
        let functions = Functions::read(&file[..])?;
        let (mut outcomes, mut exits, mut bytes) = (BTreeMap::<_, u64>::new(), 0, 0);
        let begin = std::time::Instant::now();
        for function in functions.all() {
            bytes += function.size;
            let outcome = match functions.returns(&file[..], &function) {
                Ok(Returns::At(at)) if at.is_empty() => "never returns",
                Ok(Returns::At(at)) => {
                    exits += at.len();
                    "known"
                }
                Ok(Returns::ByAddress) => "by its return address",
                Err(why) => why,
            };
            if list {
                println!("{outcome}: {} {:#x} {}", function.name, function.offset, function.size);
            }
            *outcomes.entry(outcome).or_default() += 1;
        }
        println!("{path}: {bytes} bytes of code, {exits} places, {:?}", begin.elapsed());
        outcomes.iter().for_each(|(outcome, count)| println!("  {count} {outcome}"));
    }
    Ok(())
}
