//! Names offsets of a file: `name FILE (COUNT | 0xOFFSET...)`; a count spreads that many over its code.
//! `name kernel COUNT` spreads them over the kernel's code. Prints what it took.

use std::fs::File;
use std::time::Instant;
use syscollect_symbolize::{HeldFiles, ModuleRequest, Options, Symbolizer, build_id_of};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let lines = std::env::var_os("NO_LINES").is_none();
    let mut symbolizer = Symbolizer::with_options(HeldFiles::new(), Options { lines, ..Options::default() });
    let [path, what @ ..] = arguments.as_slice() else { panic!("name FILE (COUNT | 0xOFFSET...)") };
    let count: usize = what.first().and_then(|count| count.parse().ok()).unwrap_or(0);
    let begin = Instant::now();
    let table = if path == "kernel" {
        let addresses: Vec<u64> = (0..count as u64).map(|n| 0xffff_ffff_8100_0000 + n * 9973 % (16 << 20)).collect();
        symbolizer.name_kernel(&addresses)
    } else {
        let path = std::fs::canonicalize(path).expect("the path");
        let file = File::open(&path).expect("the file");
        let size = file.metadata().expect("its size").len();
        let mut offsets: Vec<u64> =
            what.iter().filter_map(|o| u64::from_str_radix(o.strip_prefix("0x")?, 16).ok()).collect();
        offsets.extend((0..count as u64).map(|n| n * (size / count as u64)));
        let build_id = build_id_of(&file).unwrap_or_default();
        let request = ModuleRequest { path: path.display().to_string(), build_id, offsets };
        symbolizer.name_modules(&[request]).remove(0)
    };
    let took = begin.elapsed();
    for symbol in table.symbols.iter().take(if count > 0 { 3 } else { 100 }) {
        println!(
            "{:#x} = {:#x}+{:#x} of {} [{}]",
            symbol.offset,
            symbol.start,
            symbol.offset - symbol.start,
            symbol.size,
            symbol.kernel_module
        );
        for frame in &symbol.frames {
            println!("    {} {}:{}", frame.function, frame.file, frame.line);
        }
    }
    let with_lines = table.symbols.iter().filter(|s| s.frames.iter().any(|f| f.line > 0)).count();
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let memory: Vec<&str> =
        status.lines().filter(|line| line.starts_with("VmHWM") || line.starts_with("Rss")).collect();
    println!("{} named, {with_lines} with lines, in {took:?}; {memory:?}; note: {:?}", table.symbols.len(), table.note);
}
