//! Debug files of debuginfod servers, for the modules that still lack names.

use crate::escape::printable;
use crate::owner::Owner;
use crate::terminal::Terminal;
use anyhow::{Context, Result, bail};
use std::collections::HashSet;
use syscollect_model::{BuildId, bytes, grouped};
use syscollect_symbolize::debuginfod::{
    Debuginfod, DebuginfodError, DebuginfodOptions, FetchedFile,
};
use syscollect_symbolize::{ModuleRequest, SearchLimits, SymbolFiles};

/// A capture may name as many modules as it likes; servers are asked for those that are missed
/// most.
const MODULES_MAX: usize = 500;
/// What all files together may have, bytes.
const BYTES_MAX: u64 = 8 << 30;

/// What the environment says of servers and of the place for their files.
///
/// # Errors
///
/// It says too little, or the files would become root's in a place of somebody else's.
pub(crate) fn options() -> Result<DebuginfodOptions> {
    if Owner::behind_sudo().is_some() {
        bail!(
            "--debuginfod: root does not fetch files on behalf of another user: run this without \
             sudo, which it does not need"
        );
    }
    let options = DebuginfodOptions::from_variables(|name| std::env::var_os(name));
    let options = options.context("--debuginfod")?;
    if Owner::is_root_in_anothers(&options.cache) {
        bail!(
            "--debuginfod: root does not write into {}, which is another user's: set \
             DEBUGINFOD_CACHE_PATH",
            options.cache.display()
        );
    }
    Ok(options)
}

/// Fetches the debug files of `missing`, and says what came of it; the builds that `files` has more
/// of now.
pub(crate) fn fetch(
    missing: &[ModuleRequest],
    files: &mut SymbolFiles,
    options: DebuginfodOptions,
    unwanted: &dyn Fn() -> bool,
    terminal: &Terminal,
) -> HashSet<BuildId> {
    let mut asked: Vec<&ModuleRequest> = missing.iter().collect();
    asked.retain(|request| !request.build_id.is_empty());
    asked.sort_by_key(|request| std::cmp::Reverse(request.offsets.len()));
    let left = asked.len().saturating_sub(MODULES_MAX);
    asked.truncate(MODULES_MAX);
    let mut outcome = QueryOutcome { left, ..QueryOutcome::default() };
    let bar = terminal.work("fetching debug files", asked.len() as u64);
    let mut client = Debuginfod::new(options);
    for (number, request) in asked.iter().enumerate() {
        bar.position(number as u64);
        outcome.asked += 1;
        match client.fetch(&request.build_id, unwanted) {
            Ok(file) => {
                outcome.take(file, (request, &request.build_id), files);
                // What it has in common with others is a file of its own; it has names without.
                if let Some(supplement) = files.missing_supplement_of(&request.build_id)
                    && let Ok(file) = client.fetch(&supplement, unwanted)
                {
                    outcome.take(file, (request, &supplement), files);
                }
            }
            Err(DebuginfodError::Absent) => {}
            Err(error) => {
                eprint_line!("syscollect: debuginfod: {}", printable(&error.to_string()));
                // A server may be left, and the others go on.
                if !matches!(error, DebuginfodError::Failed(_)) {
                    outcome.asked -= 1;
                    outcome.left += asked.len() - number;
                    break;
                }
            }
        }
        if outcome.bytes >= BYTES_MAX || unwanted() {
            outcome.left += asked.len() - number - 1;
            break;
        }
    }
    drop(bar);
    if !asked.is_empty() {
        eprint_line!("syscollect: {}", outcome.text());
    }
    outcome.builds
}

/// What came of asking.
#[derive(Debug, Default)]
struct QueryOutcome {
    asked: usize,
    left: usize,
    bytes: u64,
    builds: HashSet<BuildId>,
}

impl QueryOutcome {
    /// Takes a file with this build id that helps to name a module.
    fn take(
        &mut self,
        file: FetchedFile,
        (request, build_id): (&ModuleRequest, &BuildId),
        files: &mut SymbolFiles,
    ) {
        let FetchedFile { path, fetched } = file;
        let wanted = HashSet::from([build_id.clone()]);
        let limits = SearchLimits::default();
        if files.search(&path, &wanted, &limits, &|| false).is_ok() {
            self.builds.insert(request.build_id.clone());
        }
        self.bytes += fetched;
        if fetched > 0 {
            let module = printable(&request.path);
            eprint_line!(
                "syscollect: debuginfod: fetched the debug file of {module}, {}",
                bytes(fetched)
            );
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "debuginfod: debug files of {} of {} modules without names, {} fetched",
            number(self.builds.len()),
            number(self.asked),
            bytes(self.bytes)
        );
        if self.left > 0 {
            text += &format!("; {} more were not asked for", number(self.left));
        }
        text
    }
}

fn number(count: usize) -> String {
    grouped(count as u64)
}
