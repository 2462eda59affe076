//! Naming kernel addresses.

use crate::Options;
use crate::elf::Layout;
use crate::held::open_regular;
use crate::kallsyms::{Kallsyms, KernelSymbol};
use crate::source::{ElfSource, Named};
use blazesym::inspect;
use std::path::{Path, PathBuf};
use syscollect_model::{BuildId, Symbol, SymbolFrame, SymbolTable};

/// Path of the table of kernel symbols.
const PATH: &str = "[kernel.kallsyms]";

/// Where the kernel tells of itself, and what was read there.
#[derive(Debug)]
pub(crate) struct Kernel {
    options: Options,
    kallsyms_path: PathBuf,
    /// Its ELF notes, with its build id.
    notes_path: PathBuf,
    /// Where an image with debug information may lie.
    images: Vec<PathBuf>,
    loaded: Option<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    kallsyms: Result<Kallsyms, String>,
    build_id: BuildId,
    image: Option<Image>,
    note: String,
}

/// The kernel's image with debug information.
#[derive(Debug)]
struct Image {
    path: PathBuf,
    /// What address randomization added to its addresses.
    slide: u64,
}

impl Kernel {
    /// The kernel that runs.
    pub(crate) fn running(options: Options) -> Self {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let release = release.trim();
        let images = ["/usr/lib/debug/boot/vmlinux-", "/boot/vmlinux-", "/usr/lib/debug/vmlinux-"];
        let in_modules = ["/usr/lib/debug/lib/modules/", "/lib/modules/"];
        Self {
            options,
            kallsyms_path: "/proc/kallsyms".into(),
            notes_path: "/sys/kernel/notes".into(),
            images: (images.iter().map(|place| format!("{place}{release}").into()))
                .chain(in_modules.iter().map(|place| format!("{place}{release}/vmlinux").into()))
                .collect(),
            loaded: None,
        }
    }

    /// Names `addresses`, in any order.
    pub(crate) fn name(&mut self, addresses: &[u64]) -> SymbolTable {
        let options = self.options.clone();
        let loaded = self.load();
        let mut table = SymbolTable { path: PATH.into(), build_id: loaded.build_id.clone(), ..SymbolTable::default() };
        table.note.clone_from(&loaded.note);
        let kallsyms = match &loaded.kallsyms {
            Ok(kallsyms) => kallsyms,
            Err(reason) => {
                table.note.clone_from(reason);
                return table;
            }
        };
        let mut addresses = addresses.to_vec();
        addresses.sort_unstable();
        addresses.dedup();
        table.symbols = addresses.iter().filter_map(|at| Some(symbol(*at, &kallsyms.lookup(*at)?))).collect();
        if let Some(image) = loaded.image.as_ref().filter(|_| options.lines)
            && let Err(reason) = image.add_lines(&mut table.symbols)
        {
            table.note = format!("no inlined functions and lines from {}: {reason}", image.path.display());
        }
        table
    }

    fn load(&mut self) -> &Loaded {
        let loaded = self.loaded.take().unwrap_or_else(|| self.read());
        self.loaded.insert(loaded)
    }

    fn read(&self) -> Loaded {
        let kallsyms = std::fs::read(&self.kallsyms_path)
            .map_err(|error| format!("{} cannot be read: {error}", self.kallsyms_path.display()))
            .and_then(|bytes| String::from_utf8(bytes).map_err(|error| error.to_string()))
            .and_then(|text| Kallsyms::parse(text).map_err(|error| error.to_string()));
        let build_id = std::fs::read(&self.notes_path).ok().and_then(|notes| crate::elf::build_id_in_notes(&notes));
        let build_id = build_id.unwrap_or_default();
        let (mut image, mut note) = (None, String::new());
        if let Ok(kallsyms) = &kallsyms {
            match self.find_image(kallsyms, &build_id) {
                Ok(found) => image = found,
                Err(reason) => note = reason,
            }
        }
        Loaded { kallsyms, build_id, image, note }
    }

    /// The first image that is the running kernel's; the error says why one that is there is not used.
    fn find_image(&self, kallsyms: &Kallsyms, build_id: &BuildId) -> Result<Option<Image>, String> {
        if build_id.is_empty() {
            return Ok(None);
        }
        for path in &self.images {
            let Ok(file) = open_regular(path) else { continue };
            if crate::build_id_of(&file).as_ref() != Some(build_id) {
                continue;
            }
            let layout = Layout::read(&file).map_err(|error| format!("{}: {error}", path.display()))?;
            if layout.debug_bytes > self.options.debug_bytes_max {
                let (size, limit) = (layout.debug_bytes, self.options.debug_bytes_max);
                return Err(format!(
                    "no inlined functions and lines: {} has {size} bytes of debug information, the limit is {limit}",
                    path.display()
                ));
            }
            let linked = linked_address(path, "_stext")?;
            let loaded = kallsyms.address("_stext").ok_or("the kernel's list has no _stext")?;
            return Ok(Some(Image { path: path.clone(), slide: loaded.wrapping_sub(linked) }));
        }
        Ok(None)
    }
}

impl Image {
    /// Replaces the one frame of the kernel's own symbols by those that debug information has there.
    fn add_lines(&self, symbols: &mut [Symbol]) -> Result<(), String> {
        let own: Vec<&mut Symbol> = symbols.iter_mut().filter(|symbol| symbol.kernel_module.is_empty()).collect();
        let addresses: Vec<u64> = own.iter().map(|symbol| symbol.offset.wrapping_sub(self.slide)).collect();
        let names = ElfSource::new(&self.path, &[]).names(&addresses, true)?;
        for (symbol, named) in own.into_iter().zip(names) {
            if let Some(Named { frames, .. }) = named {
                symbol.frames = frames;
            }
        }
        Ok(())
    }
}

fn symbol(address: u64, found: &KernelSymbol<'_>) -> Symbol {
    Symbol {
        offset: address,
        start: found.start,
        size: found.size,
        kernel_module: found.module.into(),
        frames: vec![SymbolFrame { function: found.name.into(), ..SymbolFrame::default() }],
    }
}

/// Where the image's linker put `name`.
fn linked_address(path: &Path, name: &str) -> Result<u64, String> {
    let mut elf = inspect::source::Elf::new(path);
    elf.debug_syms = false;
    let inspector = inspect::Inspector::new();
    let found = inspector
        .lookup(&inspect::source::Source::Elf(elf), &[name])
        .map_err(|error| format!("{}: {error:#}", path.display()))?;
    let symbol = found.first().and_then(|symbols| symbols.first());
    symbol.map(|symbol| symbol.addr).ok_or_else(|| format!("{} has no symbol {name}", path.display()))
}
