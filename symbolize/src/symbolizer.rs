//! The interface: modules and the kernel, one by one or many at once.

use crate::kernel::Kernel;
use crate::naming::name_all;
use crate::os::ThreadClock;
use crate::request::{ModuleRequest, Options};
use crate::shared::NamingContext;
use crate::turn::NamingTurn;
use crate::{PinnedFiles, module};
use std::fs::File;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;
use syscollect_model::{BuildId, SymbolTable};

/// Names code: of files by offset, of the kernel by address.
#[derive(Debug)]
pub struct Symbolizer {
    shared: Arc<NamingContext>,
    kernel: Arc<Mutex<Kernel>>,
}

impl Symbolizer {
    /// Prefers the files in `pinned` to those that paths lead to.
    pub fn new(pinned: PinnedFiles) -> Self {
        Self::with_options(pinned, Options::default())
    }

    /// As [`new`](Self::new), with choices.
    pub fn with_options(pinned: PinnedFiles, options: Options) -> Self {
        let kernel = Arc::new(Mutex::new(Kernel::running(options.clone())));
        Self { shared: Arc::new(NamingContext { pinned, options }), kernel }
    }

    /// The files that are pinned.
    pub fn pinned(&self) -> &PinnedFiles {
        &self.shared.pinned
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
        module::name_file(&self.shared, file, offsets, &NamingTurn::default())
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

    /// As [`name_kernel`](Self::name_kernel), until `unwanted` says that nobody waits for it:
    /// `None` then.
    pub fn name_kernel_unless(
        &mut self,
        addresses: &[u64],
        unwanted: &dyn Fn() -> bool,
    ) -> Option<SymbolTable> {
        let (kernel, asked) = (self.kernel.clone(), addresses.to_vec());
        let (done, named) = channel();
        let clock = Arc::new(OnceLock::new());
        let its_clock = clock.clone();
        let started = thread::Builder::new().name("naming".into()).spawn(move || {
            its_clock.get_or_init(ThreadClock::of_this_thread);
            let table = kernel.lock().unwrap_or_else(PoisonError::into_inner).name(&asked);
            // Nobody may wait for it any more.
            let _ = done.send(table);
        });
        if started.is_err() {
            return without_names("not named: a thread could not be started");
        }
        loop {
            // Whoever waits for the names may be in more of a hurry by now.
            clock.get().inspect(|clock: &&ThreadClock| clock.is_as_urgent_as_this());
            match named.recv_timeout(Duration::from_millis(50)) {
                Ok(table) => return Some(table),
                Err(RecvTimeoutError::Timeout) if unwanted() => return None,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return without_names("not named: its reader gave up on it");
                }
            }
        }
    }
}

fn without_names(note: &str) -> Option<SymbolTable> {
    Some(SymbolTable { note: note.into(), ..Kernel::no_names() })
}
