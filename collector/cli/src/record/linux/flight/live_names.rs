//! Names of functions while a recording goes on: found on a thread of their own. It has the
//! priority of any program, since somebody waits for what it finds: behind all others it found
//! nothing in minutes on a machine that compiled.

use super::taking::Snapshots;
use crate::confine;
use crate::convert::naming_options;
use anyhow::{Context, Result};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;
use syscollect_activity::UnnamedAddresses;
use syscollect_model::{BuildId, SymbolTable};
use syscollect_symbolize::{ModuleRequest, Options, PinnedFiles, Symbolizer};

/// Finds names, one lot after the other.
pub(crate) struct LiveNames {
    asks: Sender<Vec<UnnamedAddresses>>,
    found: Receiver<FoundNames>,
    is_busy: bool,
}

impl LiveNames {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// There can be no thread.
    pub(super) fn start(snapshots: Arc<Snapshots>, detail: NameDetail) -> Result<Self> {
        let (asks, asked) = channel::<Vec<UnnamedAddresses>>();
        let (finds, found) = channel();
        let thread = std::thread::Builder::new().name("names".into()).spawn(move || {
            // It shares threads that open files with the recorder, which goes first.
            confine::to_naming_a_part();
            let mut namer = Namer::new(detail, snapshots);
            for places in asked {
                let (of_kernel, of_files): (Vec<_>, Vec<_>) =
                    places.into_iter().partition(|places| places.is_kernel);
                // The kernel's are found at once, and are not to wait for any file.
                let of_kernel = FoundNames::Some(namer.name_kernel(&of_kernel));
                let mut is_over = finds.send(of_kernel).is_err();
                is_over |= finds.send(FoundNames::Some(namer.name(of_files))).is_err();
                if is_over || finds.send(FoundNames::All).is_err() {
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

    /// Names that were found, once they are: of one lot they come in parts.
    pub(crate) fn take(&mut self) -> Option<Vec<SymbolTable>> {
        match self.found.try_recv() {
            Ok(FoundNames::Some(tables)) => return Some(tables),
            Err(TryRecvError::Empty) => {}
            // Where the thread is gone there are none, and it is not waited for.
            Ok(FoundNames::All) | Err(TryRecvError::Disconnected) => self.is_busy = false,
        }
        None
    }
}

/// What comes of a lot.
enum FoundNames {
    /// Those of some modules.
    Some(Vec<SymbolTable>),
    /// That was all.
    All,
}

/// What is found of a place in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameDetail {
    /// The function, by the symbols of its file.
    Function,
    /// Also what is inlined there, and lines, as in a file.
    Lines,
}

/// More debug information than this is not read, bytes: each lot of places reads it anew, and
/// somebody waits for the other places of the lot.
const MOST_DEBUG_BYTES: u64 = 128 << 20;
/// CPU time after which a module of a lot has its functions alone, and after which those of one
/// user have.
const LINES_OF_MODULE: Duration = Duration::from_millis(500);
const LINES_OF_OWNER: Duration = Duration::from_secs(1);

impl NameDetail {
    fn options(self) -> Options {
        let options = naming_options();
        match self {
            Self::Function => Options { lines: false, ..options },
            Self::Lines => Options {
                debug_bytes_max: MOST_DEBUG_BYTES,
                module_share: LINES_OF_MODULE,
                owner_share: LINES_OF_OWNER,
                ..options
            },
        }
    }
}

/// Files whose lines took too long that are remembered.
const MOST_SLOW: usize = 1024;

/// Finds names of one lot after the other.
struct Namer {
    detail: NameDetail,
    kernel: Symbolizer,
    snapshots: Arc<Snapshots>,
    /// Files whose lines took too long once, by path and build: they are not tried again.
    slow: HashSet<(String, BuildId)>,
}

impl Namer {
    fn new(detail: NameDetail, snapshots: Arc<Snapshots>) -> Self {
        let kernel = Symbolizer::with_options(PinnedFiles::default(), detail.options());
        Self { detail, kernel, snapshots, slow: HashSet::new() }
    }

    fn name_kernel(&mut self, places: &[UnnamedAddresses]) -> Vec<SymbolTable> {
        let unwanted = || self.snapshots.is_abandoned();
        let kernel = &mut self.kernel;
        let named =
            places.iter().filter_map(|code| kernel.name_kernel_unless(&code.offsets, &unwanted));
        named.collect()
    }

    /// Names code of files. Where lines take too long, functions are told all the same.
    fn name(&mut self, places: Vec<UnnamedAddresses>) -> Vec<SymbolTable> {
        let request = |UnnamedAddresses { path, build_id, offsets, .. }| ModuleRequest {
            path,
            build_id,
            offsets,
            ..ModuleRequest::default()
        };
        let requests: Vec<ModuleRequest> = places.into_iter().map(request).collect();
        let is_slow = |request: &ModuleRequest| {
            self.slow.contains(&(request.path.clone(), request.build_id.clone()))
        };
        let (mut without_lines, others): (Vec<_>, Vec<_>) = requests.into_iter().partition(is_slow);
        let mut tables = self.name_files(&others, self.detail);
        if self.detail == NameDetail::Lines {
            let unfinished = tables.extract_if(.., |table| table.unfinished > 0);
            let slow: HashSet<_> = unfinished.map(|table| (table.path, table.build_id)).collect();
            let is_slow = |request: &ModuleRequest| {
                slow.contains(&(request.path.clone(), request.build_id.clone()))
            };
            without_lines.extend(others.into_iter().filter(is_slow));
            if self.slow.len() + slow.len() <= MOST_SLOW {
                self.slow.extend(slow);
            }
        }
        tables.extend(self.name_files(&without_lines, NameDetail::Function));
        tables
    }

    fn name_files(&self, requests: &[ModuleRequest], detail: NameDetail) -> Vec<SymbolTable> {
        if requests.is_empty() {
            return Vec::new();
        }
        let unwanted = || self.snapshots.is_abandoned();
        let pinned = self.snapshots.pinned().unwrap_or_default();
        let mut files = Symbolizer::with_options(pinned, detail.options());
        files.name_modules_unless(requests, &unwanted).into_iter().flatten().collect()
    }
}
