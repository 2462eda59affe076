//! Where the names of a capture's modules come from, beside what the machine itself has.

use crate::debuginfod;
use crate::escape::printable;
use anyhow::{Result, anyhow};
use std::collections::HashSet;
use std::path::PathBuf;
use syscollect_model::BuildId;
use syscollect_symbolize::debuginfod::DebuginfodOptions;
use syscollect_symbolize::{ModuleRequest, SearchLimits, SymbolFiles};

/// Options of the sub-commands that name code of captures.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Symbols of captures")]
pub(crate) struct SymbolFileOptions {
    /// Look for symbols in this directory and below it: in debug files and in programs that are not
    /// stripped, whatever they are called, by build id
    #[arg(long, value_name = "DIR")]
    symbols: Vec<PathBuf>,

    /// Then ask the debuginfod servers that DEBUGINFOD_URLS names for debug files of what still
    /// lacks names, and keep them in the cache that such programs share
    #[arg(long)]
    debuginfod: bool,
}

impl SymbolFileOptions {
    /// Whether the user named something that the recorder did not have.
    pub(crate) fn is_any(&self) -> bool {
        self.debuginfod || !self.symbols.is_empty()
    }

    /// Whether servers are asked, which another program does.
    pub(crate) fn asks_servers(&self) -> bool {
        self.debuginfod
    }

    /// Which servers are asked, if that was asked for.
    ///
    /// # Errors
    ///
    /// The environment does not say enough for it.
    pub(crate) fn servers(&self) -> Result<Option<DebuginfodOptions>> {
        self.debuginfod.then(debuginfod::options).transpose()
    }

    /// Whether all that was named can be looked at; asked before work begins.
    ///
    /// # Errors
    ///
    /// Something cannot.
    #[expect(clippy::disallowed_methods, reason = "folders that the user names")]
    pub(crate) fn check(&self) -> Result<()> {
        for path in &self.symbols {
            let is_folder = std::fs::metadata(path).map(|found| found.is_dir());
            let looked = match is_folder {
                Ok(true) => std::fs::read_dir(path).map(drop),
                found => found.map(drop),
            };
            looked.map_err(|error| {
                anyhow!(
                    "--symbols {}: it cannot be read: {error}; name a folder with debug files or \
                     unstripped programs, or one such file",
                    printable(&path.display().to_string())
                )
            })?;
        }
        Ok(())
    }

    /// The files that there are for the modules of `requests`; says what could not be looked at.
    pub(crate) fn find(
        &self,
        requests: &[ModuleRequest],
        unwanted: &dyn Fn() -> bool,
    ) -> SymbolFiles {
        let mut files = SymbolFiles::default();
        let builds = requests.iter().map(|request| request.build_id.clone());
        let wanted: HashSet<BuildId> = builds.filter(|build_id| !build_id.is_empty()).collect();
        let limits = SearchLimits::default();
        for path in &self.symbols {
            if let Err(error) = files.search(path, &wanted, &limits, unwanted) {
                let path = path.display().to_string();
                eprint_line!("syscollect: --symbols {}: {error}", printable(&path));
            }
        }
        // Debug files may have something in common, which lies in files of their own.
        let supplements = files.missing_supplements();
        if !supplements.is_empty() {
            for path in &self.symbols {
                // What cannot be looked at was told of.
                let _ = files.search(path, &supplements, &limits, unwanted);
            }
        }
        files
    }
}
