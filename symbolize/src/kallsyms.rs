//! The kernel's own list of its symbols.

/// Functions of the kernel by address.
#[derive(Debug, Default)]
pub(crate) struct Kallsyms {
    text: String,
    symbols: Vec<KallsymsEntry>,
}

/// A symbol; its strings lie in the text that was parsed, which is smaller than copies of them.
#[derive(Clone, Copy, Debug)]
struct KallsymsEntry {
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
    #[error(
        "/proc/kallsyms shows all addresses as 0; run as root, or: sysctl kernel.kptr_restrict=0"
    )]
    Hidden,
    #[error("/proc/kallsyms lists no symbols (a kernel without CONFIG_KALLSYMS?)")]
    Empty,
}

impl Kallsyms {
    /// Parses lines such as `ffffffff81000000 T _stext` or `ffffffffc0001000 t ext4_sync\t[ext4]`.
    ///
    /// Lines of another shape are skipped.
    pub(crate) fn parse(text: String) -> Result<Self, KallsymsError> {
        let mut symbols: Vec<KallsymsEntry> = Vec::with_capacity(text.len() / 45);
        let (mut lines, mut sorted) = (0u64, true);
        for line in text.split('\n').filter(|line| !line.is_empty()) {
            lines += 1;
            let Some((address, kind, name, module)) =
                fields(line).filter(|(address, ..)| *address != 0)
            else {
                continue;
            };
            sorted &= symbols.last().is_none_or(|last| last.address <= address);
            symbols.push(KallsymsEntry {
                address,
                name: position(name, &text),
                module: position(module, &text),
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
        let best =
            same.iter().find(|s| s.code && s.global).or_else(|| same.iter().find(|s| s.code))?;
        let end = self.symbols.get(after).map_or(u64::MAX, |next| next.address);
        if address - start >= FUNCTION_MAX {
            return None;
        }
        let size = Some(end - start).filter(|size| *size <= FUNCTION_MAX).unwrap_or(0);
        Some(KernelSymbol {
            name: self.part(best.name),
            module: self.part(best.module),
            start,
            size,
        })
    }

    /// The address of the symbol with this name, in the kernel itself.
    pub(crate) fn address(&self, name: &str) -> Option<u64> {
        let symbol = self.symbols.iter().find(|s| s.module.1 == 0 && self.part(s.name) == name)?;
        Some(symbol.address)
    }

    fn part(&self, (start, length): (u32, u32)) -> &str {
        self.text
            .get(start as usize..(start as usize).saturating_add(length as usize))
            .unwrap_or_default()
    }
}

/// Reads a text as `/proc/kallsyms` and looks everything up that it lists; how many symbols there
/// are.
#[doc(hidden)]
pub fn read_kallsyms(text: &str) -> usize {
    let Ok(list) = Kallsyms::parse(text.to_owned()) else { return 0 };
    for entry in &list.symbols {
        for address in [entry.address, entry.address.wrapping_sub(1), entry.address.wrapping_add(1)]
        {
            if let Some(found) = list.lookup(address) {
                assert!(
                    found.start <= address && !found.name.is_empty() && found.size <= FUNCTION_MAX
                );
            }
        }
    }
    list.symbols.len()
}

/// Where a part of the text lies in it, and how long it is.
fn position(part: &str, text: &str) -> (u32, u32) {
    ((part.as_ptr() as usize - text.as_ptr() as usize) as u32, part.len() as u32)
}

/// Address, kind, name, and module or an empty part at the line's end.
fn fields(line: &str) -> Option<(u64, u8, &str, &str)> {
    let (address, rest) = line.split_once(' ')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let (kind, rest) = rest.split_once(' ')?;
    let (name, module) = rest.split_once('\t').unwrap_or((rest, &rest[rest.len()..]));
    let module = module
        .strip_prefix('[')
        .and_then(|module| module.strip_suffix(']'))
        .unwrap_or(&module[..0]);
    let kind = *kind.as_bytes().first()?;
    (!name.is_empty()).then_some((address, kind, name, module))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 t local_name
ffffffff81000100 T global_name
ffffffff81000100 W weak_name
ffffffff81000180 d some_data
ffffffff81000200 T schedule
ffffffff81000340 T _etext
not a line
ffffffff8100034g T bad
ffffffffc0200000 t ext4_sync_file\t[ext4]
ffffffffc0200080 t ext4_end\t[ext4]
ffffffffc0100000 t bpf_prog_6deef7357e7b4530_count\t[bpf]
ffffffffc0100040 t bpf_prog_0123456789abcdef_next\t[bpf]
";

    fn list() -> Kallsyms {
        Kallsyms::parse(LIST.into()).unwrap()
    }

    fn name_at(address: u64) -> Option<(String, u64, u64)> {
        list().lookup(address).map(|found| (found.name.to_owned(), found.start, found.size))
    }

    #[test]
    fn a_function_reaches_to_the_next_symbol() {
        assert_eq!(
            name_at(0xffff_ffff_8100_0200),
            Some(("schedule".into(), 0xffff_ffff_8100_0200, 0x140))
        );
        assert_eq!(
            name_at(0xffff_ffff_8100_033f),
            Some(("schedule".into(), 0xffff_ffff_8100_0200, 0x140))
        );
    }

    #[test]
    fn of_several_names_the_global_one_is_taken_and_data_is_no_function() {
        assert_eq!(
            name_at(0xffff_ffff_8100_0110),
            Some(("global_name".into(), 0xffff_ffff_8100_0100, 0x80))
        );
        assert_eq!(name_at(0xffff_ffff_8100_0190), None);
    }

    #[test]
    fn modules_and_bpf_programs_are_told_though_the_list_is_not_in_order() {
        let list = list();
        let found = list.lookup(0xffff_ffff_c020_0010).unwrap();
        assert_eq!((found.name, found.module, found.size), ("ext4_sync_file", "ext4", 0x80));
        let found = list.lookup(0xffff_ffff_c010_0001).unwrap();
        assert_eq!(
            (found.name, found.module, found.size),
            ("bpf_prog_6deef7357e7b4530_count", "bpf", 0x40)
        );
    }

    #[test]
    fn addresses_beyond_any_function_have_no_name() {
        assert_eq!(name_at(0), None);
        assert_eq!(name_at(0xffff_ffff_80ff_ffff), None);
        assert_eq!(name_at(0xffff_ffff_8100_0340 + FUNCTION_MAX), None);
        assert_eq!(name_at(u64::MAX), None);
        // The last function of a region: it is near, but where it ends cannot be known.
        assert_eq!(
            name_at(0xffff_ffff_8100_0350),
            Some(("_etext".into(), 0xffff_ffff_8100_0340, 0))
        );
    }

    #[test]
    fn hidden_addresses_are_told_from_a_missing_list() {
        let hidden = "0000000000000000 T _stext\n0000000000000000 t foo\t[bar]\n";
        assert_eq!(Kallsyms::parse(hidden.into()).unwrap_err(), KallsymsError::Hidden);
        assert_eq!(Kallsyms::parse(String::new()).unwrap_err(), KallsymsError::Empty);
    }

    #[test]
    fn nonsense_is_skipped() {
        for text in [
            "\n\n",
            "ffff",
            "ffff T",
            "ffff  x",
            "ffff T \t[",
            "1 T é\t[é",
            "1 é é\t]",
            "ffffffffffffffffff T x",
        ] {
            if let Ok(list) = Kallsyms::parse(text.into()) {
                let _ = list.lookup(u64::MAX);
            }
        }
    }
}
