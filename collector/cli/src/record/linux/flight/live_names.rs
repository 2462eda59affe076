//! Names of functions while a recording goes on: found on a thread of their own. It has the
//! priority of any program, since somebody waits for what it finds: behind all others it found
//! nothing in minutes on a machine that compiled.

use super::taking::Snapshots;
use crate::confine;
use crate::convert::naming_options;
use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use syscollect_activity::UnnamedAddresses;
use syscollect_model::SymbolTable;
use syscollect_symbolize::{ModuleRequest, Options, PinnedFiles, Symbolizer};

/// Finds names, one lot after the other.
pub(crate) struct LiveNames {
    asks: Sender<Vec<UnnamedAddresses>>,
    found: Receiver<Vec<SymbolTable>>,
    is_busy: bool,
}

impl LiveNames {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// There can be no thread.
    pub(super) fn start(snapshots: Arc<Snapshots>) -> Result<Self> {
        let (asks, asked) = channel::<Vec<UnnamedAddresses>>();
        let (finds, found) = channel();
        let thread = std::thread::Builder::new().name("names".into()).spawn(move || {
            // It shares threads that open files with the recorder, which goes first.
            confine::to_naming_a_part();
            let mut kernel = Symbolizer::with_options(PinnedFiles::default(), options());
            for places in asked {
                let tables = name(places, &mut kernel, &snapshots);
                if finds.send(tables).is_err() {
                    return;
                }
            }
        });
        thread.context("cannot start the thread that finds names of functions")?;
        Ok(Self { asks, found, is_busy: false })
    }

    /// Whether it looks for names.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Asks for the names of these.
    pub(crate) fn ask(&mut self, places: Vec<UnnamedAddresses>) {
        self.is_busy |= self.asks.send(places).is_ok();
    }

    /// The names that were found, once they are.
    pub(crate) fn take(&mut self) -> Option<Vec<SymbolTable>> {
        let found = self.found.try_recv();
        // Where the thread is gone there are none, and it is not waited for.
        self.is_busy &= matches!(found, Err(TryRecvError::Empty));
        found.ok()
    }
}

/// Lines and inlined functions are not shown, and would take most of the time.
fn options() -> Options {
    Options { lines: false, ..naming_options() }
}

fn name(
    places: Vec<UnnamedAddresses>,
    kernel: &mut Symbolizer,
    snapshots: &Snapshots,
) -> Vec<SymbolTable> {
    let unwanted = || snapshots.is_abandoned();
    let (of_kernel, of_files): (Vec<_>, Vec<_>) =
        places.into_iter().partition(|places| places.is_kernel);
    let request = |UnnamedAddresses { path, build_id, offsets, .. }| ModuleRequest {
        path,
        build_id,
        offsets,
        ..ModuleRequest::default()
    };
    let requests: Vec<ModuleRequest> = of_files.into_iter().map(request).collect();
    let mut tables: Vec<SymbolTable> = Vec::new();
    if !requests.is_empty() {
        let pinned = snapshots.pinned().unwrap_or_default();
        let mut files = Symbolizer::with_options(pinned, options());
        tables.extend(files.name_modules_unless(&requests, &unwanted).into_iter().flatten());
    }
    let named =
        of_kernel.iter().filter_map(|places| kernel.name_kernel_unless(&places.offsets, &unwanted));
    tables.extend(named);
    tables
}
