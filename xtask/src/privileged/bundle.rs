//! A capture that keeps symbols (`--bundle`) is named where none of the recorded files is, and as
//! it is named where all of them are.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use syscollect_model::Symbol;
use syscollect_store::{CaptureReader, Definition};

use super::context::{Context, finish, text};
use super::survival::{Portable, files_mapped_by};

/// Of the load's two seconds so many different places have a name at least.
const NAMED_LEAST: usize = 30;

/// Functions by the file and the place in it.
type Names = BTreeMap<(String, String, u64), Symbol>;

/// Recorded without names, then named twice: with the files, and with an empty one over each.
pub(crate) fn bundle(context: &Context) -> Result<String> {
    let capture = context.path("bundle.syscap");
    let options = ["--stacks", "samples,off-cpu,wakers", "--bundle", "--name-later"];
    context.record(&capture, &options, &["callers", "2"])?;
    ensure!(names_in(&capture)?.is_empty(), "--name-later has named files");
    let info = context.info(&capture)?;
    let kept = info["kept_files"].as_array().context("the capture keeps no files")?;
    let load = text(&context.load)?;
    let of_load = kept.iter().find(|file| file["path"] == load);
    let of_load = of_load.with_context(|| format!("nothing of {load} is kept: {kept:?}"))?;
    ensure!(of_load["chunks"].as_u64() > Some(0), "{load} is not kept: {of_load}");

    let here = context.path("bundle-here.syscap");
    context.succeed(&["symbolize", text(&capture)?, "-o", text(&here)?])?;
    let away = context.path("bundle-away.syscap");
    let portable = Portable::of(&context.syscollect, &context.path("bundle-portable"))?;
    let mut hidden = vec![context.load.clone(), context.syscollect.clone()];
    hidden.extend(portable.originals.iter().cloned());
    hidden.extend(files_mapped_by(&context.load)?);
    hidden.sort();
    hidden.dedup();
    let arguments = ["symbolize", text(&capture)?, "-o", text(&away)?];
    let output = finish(&mut portable.without(&hidden, &arguments)?)?;
    if !output.status.success() {
        bail!("without the files it ended with {}:\n{}", output.status, output.stderr);
    }
    let (here, away) = (names_in(&here)?, names_in(&away)?);
    let real: Vec<_> = hidden.iter().filter_map(|file| file.canonicalize().ok()).collect();
    let compared =
        here.iter().filter(|((path, ..), _)| real.iter().any(|file| file == Path::new(path)));
    let mut named = 0;
    for (place, symbol) in compared {
        let other =
            away.get(place).with_context(|| format!("{place:?} has no name: {symbol:?}"))?;
        // Debug information, which is not kept, calls some functions otherwise, and knows inlined
        // ones; where they begin it agrees.
        let with_lines = symbol.frames.iter().any(|frame| frame.line > 0 || !frame.file.is_empty());
        let is_same = match with_lines {
            true => other.start == symbol.start || symbol.start == 0,
            false => other == symbol,
        };
        ensure!(is_same && !other.range_only, "{place:?} is {symbol:?} here, {other:?} elsewhere");
        named += 1;
    }
    ensure!(named >= NAMED_LEAST, "only {named} places were compared");
    ensure!(away.values().any(is_caller), "the load's function has no name elsewhere");
    let bytes: u64 = kept.iter().filter_map(|file: &Value| file["stored"].as_u64()).sum();
    Ok(format!(
        "{named} places named alike with {} files hidden; {} files kept, {bytes} bytes",
        hidden.len(),
        kept.len()
    ))
}

fn is_caller(symbol: &Symbol) -> bool {
    symbol.frames.iter().any(|frame| frame.function.contains("caller_seventy"))
}

/// The names of files' functions that a capture has.
fn names_in(capture: &Path) -> Result<Names> {
    let reader = CaptureReader::open(capture)?;
    let mut names = Names::new();
    for definition in reader.definitions() {
        let Definition::Symbols(table) = definition? else { continue };
        if table.memory.is_some() || !table.path.starts_with('/') {
            continue;
        }
        for symbol in table.symbols {
            let place = (table.path.clone(), table.build_id.to_string(), symbol.offset);
            names.insert(place, symbol);
        }
    }
    Ok(names)
}
