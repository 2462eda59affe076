//! Naming kernel addresses.

use crate::Options;
use crate::elf::{Layout, build_id_in};
use crate::image::{Image, WantedParts};
use crate::kallsyms::{Kallsyms, KernelSymbol};
use crate::reader::{ElfFunction, ElfReader, linked_address};
use std::path::PathBuf;
use syscollect_model::{BuildId, ModuleKind, Symbol, SymbolFrame, SymbolTable};
use syscollect_untrusted_files::{FileLocation, FixedPath, open};

/// Path of the table of kernel symbols.
const PATH: &str = ModuleKind::KERNEL_PATH;

/// Where the kernel tells of itself, and what was read there.
#[derive(Debug)]
pub(crate) struct Kernel {
    options: Options,
    kallsyms_path: PathBuf,
    /// Its ELF notes, with its build id.
    notes_path: PathBuf,
    /// Where an image with debug information may lie.
    images: Vec<PathBuf>,
    loaded: Option<LoadedKernel>,
}

#[derive(Debug)]
struct LoadedKernel {
    kallsyms: Result<Kallsyms, String>,
    build_id: BuildId,
    image: Option<KernelImage>,
    note: String,
}

/// The kernel's image with debug information.
#[derive(Debug)]
struct KernelImage {
    path: PathBuf,
    image: Image,
    /// What address randomization added to its addresses.
    slide: u64,
}

impl Kernel {
    /// The kernel that runs.
    pub(crate) fn running(options: Options) -> Self {
        let release =
            FixedPath::new("/proc/sys/kernel/osrelease").read_to_string().unwrap_or_default();
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

    /// A table without names.
    pub(crate) fn no_names() -> SymbolTable {
        SymbolTable { path: PATH.into(), ..SymbolTable::default() }
    }

    /// Names `addresses`, in any order.
    pub(crate) fn name(&mut self, addresses: &[u64]) -> SymbolTable {
        let options = self.options.clone();
        let loaded = self.load();
        let mut table = SymbolTable {
            path: PATH.into(),
            build_id: loaded.build_id.clone(),
            ..SymbolTable::default()
        };
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
        table.symbols =
            addresses.iter().filter_map(|at| Some(symbol(*at, &kallsyms.lookup(*at)?))).collect();
        if let Some(image) = loaded.image.as_ref().filter(|_| options.lines)
            && let Err(reason) = image.add_lines(&mut table.symbols)
        {
            table.note =
                format!("no inlined functions and lines from {}: {reason}", image.path.display());
        }
        table
    }

    fn load(&mut self) -> &LoadedKernel {
        let loaded = self.loaded.take().unwrap_or_else(|| self.read());
        self.loaded.insert(loaded)
    }

    #[expect(clippy::disallowed_methods, reason = "/proc/kallsyms and /sys/kernel/notes")]
    fn read(&self) -> LoadedKernel {
        let kallsyms = std::fs::read(&self.kallsyms_path)
            .map_err(|error| format!("{} cannot be read: {error}", self.kallsyms_path.display()))
            .and_then(|bytes| String::from_utf8(bytes).map_err(|error| error.to_string()))
            .and_then(|text| Kallsyms::parse(text).map_err(|error| error.to_string()));
        let build_id = std::fs::read(&self.notes_path)
            .ok()
            .and_then(|notes| syscollect_elf::build_id_in(&notes).map(BuildId::from_bytes));
        let build_id = build_id.unwrap_or_default();
        let (mut image, mut note) = (None, String::new());
        if let Ok(kallsyms) = &kallsyms {
            match self.find_image(kallsyms, &build_id) {
                Ok(found) => image = found,
                Err(reason) => note = reason,
            }
        }
        LoadedKernel { kallsyms, build_id, image, note }
    }

    /// The first image that is the running kernel's; the error says why one that is there is not
    /// used.
    fn find_image(
        &self,
        kallsyms: &Kallsyms,
        build_id: &BuildId,
    ) -> Result<Option<KernelImage>, String> {
        if build_id.is_empty() {
            return Ok(None);
        }
        for path in &self.images {
            let Ok(file) = open(&FileLocation::Named(path), None) else { continue };
            if build_id_in(file.reader()).as_ref() != Some(build_id) {
                continue;
            }
            let layout = Layout::read(file.reader())
                .map_err(|error| format!("{}: {error}", path.display()))?;
            if layout.debug_bytes > self.options.debug_bytes_max {
                let (size, limit) = (layout.debug_bytes, self.options.debug_bytes_max);
                return Err(format!(
                    "no inlined functions and lines: {} has {size} bytes of debug information, the \
                     limit is {limit}",
                    path.display()
                ));
            }
            let wanted = WantedParts { lines: true, supplement: None };
            let (image, linked) = Image::make(&file, &layout, wanted, &self.options.memory)
                .and_then(|image| linked_address(&image, "_stext").map(|linked| (image, linked)))
                .map_err(|error| format!("{}: {error}", path.display()))?;
            let loaded = kallsyms.address("_stext").ok_or("the kernel's list has no _stext")?;
            return Ok(Some(KernelImage {
                path: path.clone(),
                image,
                slide: loaded.wrapping_sub(linked),
            }));
        }
        Ok(None)
    }
}

impl KernelImage {
    /// Replaces the one frame of the kernel's own symbols by those that debug information has
    /// there.
    fn add_lines(&self, symbols: &mut [Symbol]) -> Result<(), String> {
        let own: Vec<&mut Symbol> =
            symbols.iter_mut().filter(|symbol| symbol.kernel_module.is_empty()).collect();
        let addresses: Vec<u64> =
            own.iter().map(|symbol| symbol.offset.wrapping_sub(self.slide)).collect();
        let names = ElfReader::new(&self.image).names(&addresses, true)?;
        for (symbol, named) in own.into_iter().zip(names) {
            if let Some(ElfFunction { frames, .. }) = named {
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
        ..Symbol::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::path::Path;

    /// Stands for the kernel's first function: this test program stands for its image.
    #[unsafe(no_mangle)]
    extern "C" fn _stext() -> u32 {
        line!()
    }

    fn kernel(folder: &Path, kallsyms: &str) -> Kernel {
        let (kallsyms_path, notes_path) = (folder.join("kallsyms"), folder.join("notes"));
        std::fs::write(&kallsyms_path, kallsyms).unwrap();
        let options = Options::default();
        Kernel { options, kallsyms_path, notes_path, images: Vec::new(), loaded: None }
    }

    #[test]
    fn names_come_in_order_of_addresses_with_start_and_size() {
        let folder = tempfile::tempdir().unwrap();
        let list = "ffffffff81000000 T first\nffffffff81000040 T second\nffffffff81000080 T end\n";
        let table =
            kernel(folder.path(), list).name(&[0xffff_ffff_8100_0041, 0xffff_ffff_8100_0001, 5]);
        let names: Vec<_> = table
            .symbols
            .iter()
            .map(|s| (s.frames[0].function.as_str(), s.start, s.size))
            .collect();
        assert_eq!(
            names,
            [("first", 0xffff_ffff_8100_0000, 0x40), ("second", 0xffff_ffff_8100_0040, 0x40)]
        );
        assert_eq!((table.path.as_str(), table.note.as_str()), (PATH, ""));
    }

    #[test]
    fn a_hidden_list_names_nothing_and_tells_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let table =
            kernel(folder.path(), "0000000000000000 T first\n").name(&[0xffff_ffff_8100_0001]);
        assert_eq!(table.symbols, []);
        assert!(table.note.contains("sysctl kernel.kptr_restrict=0"), "{}", table.note);
    }

    #[test]
    fn a_missing_list_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut kernel = kernel(folder.path(), "");
        kernel.kallsyms_path = folder.path().join("none");
        let table = kernel.name(&[1]);
        assert!(table.note.contains("none cannot be read"), "{}", table.note);
    }

    #[test]
    fn an_image_of_the_same_build_adds_lines_whatever_its_addresses_were_moved_by() {
        let folder = tempfile::tempdir().unwrap();
        let image = std::env::current_exe().unwrap();
        let file = open(&FileLocation::Named(&image), None).unwrap();
        let layout = Layout::read(file.reader()).unwrap();
        let wanted = WantedParts { lines: false, supplement: None };
        let made = Image::make(&file, &layout, wanted, &Options::default().memory).unwrap();
        let linked = linked_address(&made, "_stext").unwrap();
        let slide = 0xffff_ffff_8000_0000;
        let loaded = linked + slide;
        let list = format!(
            "{loaded:x} T _stext\n{:x} T _etext\n{:x} t _stext\t[module]\n",
            loaded + 64,
            loaded + 64
        );
        let mut kernel = kernel(folder.path(), &list);
        kernel.images = vec![folder.path().join("none"), image.clone()];
        let id = crate::build_id_of(&File::open(&image).unwrap())
            .unwrap_or_else(|| BuildId::from_bytes(&[9]));
        write_notes(&kernel.notes_path, &id);
        let has_id = id.as_bytes() != [9];
        let table = kernel.name(&[loaded]);
        assert_eq!(table.build_id, id);
        let frame = &table.symbols[0].frames[0];
        // A linker that writes no build id leaves nothing to know the image by.
        let near = if has_id { frame.line.abs_diff(_stext()) <= 1 } else { frame.line == 0 };
        assert!(near && frame.file.ends_with("kernel.rs") == has_id, "{table:?}");

        write_notes(&kernel.notes_path, &BuildId::from_bytes(&[1; 20]));
        kernel.loaded = None;
        let table = kernel.name(&[loaded]);
        assert_eq!(
            table.symbols[0].frames[0].line, 0,
            "another build's image is not asked: {table:?}"
        );
    }

    fn write_notes(path: &Path, id: &BuildId) {
        let other = note(b"Xen\0", 3, &[1, 2, 3, 4, 5]);
        std::fs::write(path, [other, note(b"GNU\0", 3, id.as_bytes())].concat()).unwrap();
    }

    fn note(name: &[u8; 4], kind: u32, description: &[u8]) -> Vec<u8> {
        let padding = vec![0; description.len().next_multiple_of(4) - description.len()];
        let sizes = [name.len() as u32, description.len() as u32, kind];
        [&sizes.map(u32::to_ne_bytes).concat(), name.as_slice(), description, &padding].concat()
    }
}
