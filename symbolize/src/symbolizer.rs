//! The interface: modules and the kernel, one by one or many at once.

use crate::kernel::Kernel;
use crate::{HeldFiles, module};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use syscollect_model::{BuildId, SymbolTable};

/// What is to be named in one module.
#[derive(Clone, Debug, Default)]
pub struct ModuleRequest {
    /// Its path as in its mappings.
    pub path: String,
    /// Its build id as in its mappings.
    pub build_id: BuildId,
    /// Offsets in its file, those of return addresses reduced by one; in any order.
    pub offsets: Vec<u64>,
}

/// How thorough naming is.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to add inlined functions, files and lines where there is DWARF.
    pub lines: bool,
    /// Modules with more DWARF than this, in bytes, are named without lines; compressed sections
    /// count four times their inflated size, for they are copied to memory.
    pub debug_bytes_max: u64,
    /// Where separate debug files are looked for.
    pub debug_dirs: Vec<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self { lines: true, debug_bytes_max: 512 << 20, debug_dirs: vec!["/usr/lib/debug".into(), "/lib/debug".into()] }
    }
}

/// Names code: of files by offset, of the kernel by address.
#[derive(Debug)]
pub struct Symbolizer {
    held: HeldFiles,
    options: Options,
    kernel: Kernel,
}

impl Symbolizer {
    /// Prefers the files in `held` to those that paths lead to.
    pub fn new(held: HeldFiles) -> Self {
        Self::with_options(held, Options::default())
    }

    /// As [`new`](Self::new), with choices.
    pub fn with_options(held: HeldFiles, options: Options) -> Self {
        let kernel = Kernel::running(options.clone());
        Self { held, options, kernel }
    }

    /// The files that are held.
    pub fn held(&self) -> &HeldFiles {
        &self.held
    }

    /// Names `offsets` in the file of one module; those without a symbol are left out.
    ///
    /// Never fails: why something has no name is in the table's note.
    pub fn name_module(&mut self, path: &str, build_id: &BuildId, offsets: &[u64]) -> SymbolTable {
        let request = ModuleRequest { path: path.into(), build_id: build_id.clone(), offsets: offsets.to_vec() };
        module::name(&self.held, &self.options, &request)
    }

    /// Names several modules on all CPUs; the tables are in the order of the requests.
    pub fn name_modules(&mut self, requests: &[ModuleRequest]) -> Vec<SymbolTable> {
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(requests.len());
        let tables: Vec<Mutex<SymbolTable>> = requests.iter().map(|_| Mutex::default()).collect();
        // The most asked for first, so that no thread begins the longest work last.
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(requests[*index].offsets.len()));
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                let table = module::name(&self.held, &self.options, &requests[*index]);
                *tables[*index].lock().unwrap_or_else(std::sync::PoisonError::into_inner) = table;
            }
        };
        thread::scope(|scope| {
            (1..threads).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        tables.into_iter().map(|table| table.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)).collect()
    }

    /// Names addresses of the running kernel, its modules and BPF programs.
    ///
    /// The list of symbols is read at the first call; modules and BPF programs
    /// that are unloaded by then have no names.
    pub fn name_kernel(&mut self, addresses: &[u64]) -> SymbolTable {
        self.kernel.name(addresses)
    }
}
