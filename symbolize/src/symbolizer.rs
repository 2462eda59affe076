//! The interface: modules and the kernel, one by one or many at once.

use crate::kernel::Kernel;
use crate::memory::Memory;
use crate::naming::{Shared, name_all};
use crate::turn::Turn;
use crate::{KeptFiles, PinnedFiles, SymbolFiles, module};
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use syscollect_model::{BuildId, ProgramMemory, SymbolTable};

/// What is to be named in one module.
#[derive(Clone, Debug, Default)]
pub struct ModuleRequest {
    /// Its path as in its mappings.
    pub path: String,
    /// Its build id as in its mappings.
    pub build_id: BuildId,
    /// Whose memory it is, of code that a program made while it ran; `offsets` are addresses then.
    pub memory: Option<ProgramMemory>,
    /// Which parts of its file were mapped for execution, as offsets. A debug file of its build may
    /// need them, where the file itself is not there.
    pub mapped: Vec<Range<u64>>,
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
    /// Files that the user names; they go before others of the same build.
    pub symbol_files: SymbolFiles,
    /// What the capture has of files; it comes after these files themselves.
    pub kept_files: KeptFiles,
    /// Copies of files together are no larger than this, in bytes; by default a GiB. What is made
    /// of them while it is read may take two or three times as much, so a quarter of the memory
    /// that is there is enough.
    pub copied_bytes_max: u64,
    /// CPU time after which a module is named without inlined functions and lines; after a quarter
    /// more, what is left of it stays unnamed. Root's modules, and those of the user who asks, have
    /// eight times as much.
    pub module_share: Duration,
    /// The same for all modules of one user together.
    pub owner_share: Duration,
    /// The user who asks for the names; `None` is root, or nobody that is known.
    pub asked_by: Option<u32>,
    /// For how long one module is tried.
    pub module_time: Duration,
    /// For how long all of them are.
    pub all_time: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lines: true,
            debug_bytes_max: 512 << 20,
            debug_dirs: vec!["/usr/lib/debug".into(), "/lib/debug".into()],
            symbol_files: SymbolFiles::default(),
            kept_files: KeptFiles::default(),
            copied_bytes_max: 1 << 30,
            // Thousands of places in 360 MB of debug information take half of that.
            module_share: Duration::from_secs(5),
            owner_share: Duration::from_secs(10),
            asked_by: None,
            module_time: Duration::from_secs(60),
            all_time: Duration::from_secs(180),
        }
    }
}

/// Names code: of files by offset, of the kernel by address.
#[derive(Debug)]
pub struct Symbolizer {
    shared: Arc<Shared>,
    kernel: Arc<Mutex<Kernel>>,
}

impl Symbolizer {
    /// Prefers the files in `held` to those that paths lead to.
    pub fn new(held: PinnedFiles) -> Self {
        Self::with_options(held, Options::default())
    }

    /// As [`new`](Self::new), with choices.
    pub fn with_options(held: PinnedFiles, options: Options) -> Self {
        let memory = Memory::new(options.copied_bytes_max);
        let kernel = Arc::new(Mutex::new(Kernel::running(options.clone(), memory.clone())));
        Self { shared: Arc::new(Shared { held, options, memory }), kernel }
    }

    /// The files that are held.
    pub fn held(&self) -> &PinnedFiles {
        &self.shared.held
    }

    /// Names `offsets` in the file of one module; those without a symbol are left out.
    ///
    /// Never fails: why something has no name is in the table's note.
    pub fn name_module(&mut self, path: &str, build_id: &BuildId, offsets: &[u64]) -> SymbolTable {
        let request = ModuleRequest {
            path: path.into(),
            build_id: build_id.clone(),
            offsets: offsets.to_vec(),
            ..ModuleRequest::default()
        };
        self.name_modules(&[request]).pop().unwrap_or_default()
    }

    /// Names `offsets` in a file of this program's own, on this thread, however long it takes.
    pub fn name_file(&self, file: &File, offsets: &[u64]) -> SymbolTable {
        module::name_file(&self.shared, file, offsets, &Turn::default())
    }

    /// Names several modules on all CPUs; the tables are in the order of the requests.
    pub fn name_modules(&mut self, requests: &[ModuleRequest]) -> Vec<SymbolTable> {
        self.name_modules_unless(requests, &|| false).into_iter().flatten().collect()
    }

    /// As [`name_modules`](Self::name_modules), until `unwanted` says that nobody waits for it:
    /// `None` for modules that have no names by then. Who is asked often must answer at once.
    pub fn name_modules_unless(
        &mut self,
        requests: &[ModuleRequest],
        unwanted: &dyn Fn() -> bool,
    ) -> Vec<Option<SymbolTable>> {
        name_all(&self.shared, requests, unwanted)
    }

    /// Names addresses of the running kernel, its modules and BPF programs.
    ///
    /// The list of symbols is read at the first call; modules and BPF programs
    /// that are unloaded by then have no names.
    pub fn name_kernel(&mut self, addresses: &[u64]) -> SymbolTable {
        self.name_kernel_unless(addresses, &|| false).unwrap_or_else(Kernel::no_names)
    }

    /// As [`name_kernel`](Self::name_kernel), until `unwanted` says that nobody waits for it: `None`
    /// then.
    pub fn name_kernel_unless(
        &mut self,
        addresses: &[u64],
        unwanted: &dyn Fn() -> bool,
    ) -> Option<SymbolTable> {
        let (kernel, asked) = (self.kernel.clone(), addresses.to_vec());
        let (done, named) = channel();
        let name = move || {
            let table = kernel.lock().unwrap_or_else(PoisonError::into_inner).name(&asked);
            // Nobody may wait for it any more.
            let _ = done.send(table);
        };
        let started = thread::Builder::new().name("naming".into()).spawn(name);
        let unnamed = |note: &str| Some(SymbolTable { note: note.into(), ..Kernel::no_names() });
        if started.is_err() {
            return unnamed("not named: a thread could not be started");
        }
        loop {
            match named.recv_timeout(Duration::from_millis(50)) {
                Ok(table) => return Some(table),
                Err(RecvTimeoutError::Timeout) if unwanted() => return None,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return unnamed("not named: its reader gave up on it");
                }
            }
        }
    }
}
