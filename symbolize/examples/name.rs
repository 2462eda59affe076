//! Names offsets spread over the code of files, and prints what that took:
//! `name COUNT FILE...`, with `kernel` for the running kernel. `NO_LINES=1` leaves DWARF aside;
//! `LIST=1` prints what each offset is.

use std::fs::File;
use std::time::Instant;
use syscollect_model::SymbolTable;
use syscollect_symbolize::{ModuleRequest, Options, PinnedFiles, Symbolizer, build_id_of};

fn request(path: &str, count: u64) -> std::io::Result<ModuleRequest> {
    let path = std::fs::canonicalize(path)?;
    let file = File::open(&path)?;
    let step = file.metadata()?.len() / count.max(1);
    let build_id = build_id_of(&file).unwrap_or_default();
    Ok(ModuleRequest {
        path: path.display().to_string(),
        build_id,
        offsets: (0..count).map(|n| n * step).collect(),
        ..ModuleRequest::default()
    })
}

fn print(table: &SymbolTable) {
    let with_lines =
        table.symbols.iter().filter(|s| s.frames.iter().any(|frame| frame.line > 0)).count();
    println!(
        "{}: {} named, {with_lines} with lines {}",
        table.path,
        table.symbols.len(),
        table.note
    );
    let ranges = table.symbols.iter().filter(|symbol| symbol.range_only).count();
    println!("  {ranges} of these known by their ranges alone");
    if std::env::var_os("LIST").is_some() {
        for symbol in &table.symbols {
            let function = symbol.frames.last().map_or("", |frame| &frame.function);
            let how = if symbol.range_only { "range" } else { "name" };
            println!(
                "  {:#x} {how} {:#x} {:#x} {function}",
                symbol.offset, symbol.start, symbol.size
            );
        }
    }
    if let Some(symbol) = table.symbols.get(table.symbols.len() / 2) {
        println!(
            "  {:#x} is {:#x}+{:#x}",
            symbol.offset,
            symbol.start,
            symbol.offset - symbol.start
        );
        symbol
            .frames
            .iter()
            .for_each(|frame| println!("    {} {}:{}", frame.function, frame.file, frame.line));
    }
}

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let count: u64 = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(2000);
    let options = Options { lines: std::env::var_os("NO_LINES").is_none(), ..Options::default() };
    let (paths, kernel): (Vec<String>, Vec<String>) = arguments.partition(|path| path != "kernel");
    let requests = paths.iter().map(|path| request(path, count)).collect::<Result<Vec<_>, _>>()?;
    let mut symbolizer = Symbolizer::with_options(PinnedFiles::new(), options);
    let begin = Instant::now();
    let mut tables = symbolizer.name_modules(&requests);
    if !kernel.is_empty() {
        let addresses: Vec<u64> =
            (0..count).map(|n| 0xffff_ffff_8100_0000 + n * 9973 % (16 << 20)).collect();
        tables.push(symbolizer.name_kernel(&addresses));
    }
    let took = begin.elapsed();
    tables.iter().for_each(print);
    let status = std::fs::read_to_string("/proc/self/status")?;
    let memory: Vec<&str> = status
        .lines()
        .filter(|line| line.starts_with("VmHWM") || line.starts_with("Rss"))
        .collect();
    println!("{took:?}; {}", memory.join(" "));
    Ok(())
}
