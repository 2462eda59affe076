//! What is asked for: code of a module, and how thorough naming is.

use crate::{KeptFiles, NamingMemory, SymbolFiles};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use syscollect_model::{BuildId, ClockMap, ProgramMemory};

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
    /// How times that programs write become the capture's; without it, of code that lay at one
    /// address one after the other the last has the name.
    pub clock: Option<Arc<ClockMap>>,
    /// What copies of files and their inflated parts may take together, of everybody who has a
    /// clone of it; by default a GiB. A quarter of the memory that is there is enough.
    pub memory: NamingMemory,
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
            clock: None,
            memory: NamingMemory::new(1 << 30),
            // Thousands of places in 360 MB of debug information take half of that.
            module_share: Duration::from_secs(5),
            owner_share: Duration::from_secs(10),
            asked_by: None,
            module_time: Duration::from_secs(60),
            all_time: Duration::from_secs(180),
        }
    }
}
