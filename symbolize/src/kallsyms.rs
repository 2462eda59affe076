//! The kernel's own list of its symbols.

/// Functions of the kernel by address.
#[derive(Debug, Default)]
pub(crate) struct Kallsyms {
    text: String,
    symbols: Vec<Entry>,
}

/// A symbol; its strings lie in the text that was parsed, which is smaller than copies of them.
#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    name: (u32, u32),
    module: (u32, u32),
    code: bool,
    global: bool,
}

/// What lies at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KernelSymbol<'k> {
    pub(crate) name: &'k str,
    /// Empty for the kernel itself; `bpf` for BPF programs.
    pub(crate) module: &'k str,
    pub(crate) start: u64,
    /// 0 if unknown.
    pub(crate) size: u64,
}

/// No function is larger; an address further from the symbol before it lies in no symbol.
const FUNCTION_MAX: u64 = 1 << 20;

/// The list has no usable address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KallsymsError {
    #[error("/proc/kallsyms shows all addresses as 0; run as root, or: sysctl kernel.kptr_restrict=0")]
    Hidden,
    #[error("/proc/kallsyms lists no symbols (a kernel without CONFIG_KALLSYMS?)")]
    Empty,
}

impl Kallsyms {
    /// Parses lines such as `ffffffff81000000 T _stext` or `ffffffffc0001000 t ext4_sync\t[ext4]`.
    ///
    /// Lines of another shape are skipped.
    pub(crate) fn parse(text: String) -> Result<Self, KallsymsError> {
        let base = text.as_ptr() as usize;
        let position = |part: &str| ((part.as_ptr() as usize - base) as u32, part.len() as u32);
        let mut symbols: Vec<Entry> = Vec::with_capacity(text.len() / 45);
        let (mut lines, mut sorted) = (0u64, true);
        for line in text.split('\n').filter(|line| !line.is_empty()) {
            lines += 1;
            let Some((address, kind, name, module)) = fields(line).filter(|(address, ..)| *address != 0) else {
                continue;
            };
            sorted &= symbols.last().is_none_or(|last| last.address <= address);
            symbols.push(Entry {
                address,
                name: position(name),
                module: position(module),
                code: matches!(kind, b't' | b'T' | b'w' | b'W'),
                global: kind == b'T',
            });
        }
        if symbols.is_empty() {
            return Err(if lines > 0 { KallsymsError::Hidden } else { KallsymsError::Empty });
        }
        if !sorted {
            // Stable: of several names for one address the list's order decides.
            symbols.sort_by_key(|symbol| symbol.address);
        }
        symbols.shrink_to_fit();
        Ok(Self { text, symbols })
    }

    /// The function at `address`.
    pub(crate) fn lookup(&self, address: u64) -> Option<KernelSymbol<'_>> {
        let after = self.symbols.partition_point(|symbol| symbol.address <= address);
        let start = self.symbols.get(after.checked_sub(1)?)?.address;
        let first = self.symbols.partition_point(|symbol| symbol.address < start);
        let same = &self.symbols[first..after];
        let best = same.iter().find(|s| s.code && s.global).or_else(|| same.iter().find(|s| s.code))?;
        let end = self.symbols.get(after).map_or(u64::MAX, |next| next.address);
        if address - start >= FUNCTION_MAX {
            return None;
        }
        let size = Some(end - start).filter(|size| *size <= FUNCTION_MAX).unwrap_or(0);
        Some(KernelSymbol { name: self.part(best.name), module: self.part(best.module), start, size })
    }

    /// The address of the symbol with this name, in the kernel itself.
    pub(crate) fn address(&self, name: &str) -> Option<u64> {
        let symbol = self.symbols.iter().find(|s| s.module.1 == 0 && self.part(s.name) == name)?;
        Some(symbol.address)
    }

    fn part(&self, (start, length): (u32, u32)) -> &str {
        self.text.get(start as usize..(start as usize).saturating_add(length as usize)).unwrap_or_default()
    }
}

/// Address, kind, name, and module or an empty part at the line's end.
fn fields(line: &str) -> Option<(u64, u8, &str, &str)> {
    let (address, rest) = line.split_once(' ')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let (kind, rest) = rest.split_once(' ')?;
    let (name, module) = rest.split_once('\t').unwrap_or((rest, &rest[rest.len()..]));
    let module = module.strip_prefix('[').and_then(|module| module.strip_suffix(']')).unwrap_or(&module[..0]);
    let kind = *kind.as_bytes().first()?;
    (!name.is_empty()).then_some((address, kind, name, module))
}
