//! Which file's code an address belongs to, and where in its unwind table the address is.

use super::cursor::{Cursor, encoding};
use core::ffi::{c_int, c_void};

/// Code of one file, and its table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Module {
    start: u64,
    end: u64,
    /// `.eh_frame_hdr`: null where the file has none.
    table: *const u8,
}

/// Of the table's head: version 1, where `.eh_frame` is (relative, four bytes), how many entries
/// there are (four bytes), and entries that are relative to the table.
const HEAD: [u8; 4] = [
    1,
    encoding::RELATIVE | encoding::SIGNED_4,
    encoding::UNSIGNED_4,
    encoding::DATA_RELATIVE | encoding::SIGNED_4,
];

/// The C library's struct dl_find_object.
#[repr(C)]
#[derive(Default)]
struct FoundObject {
    flags: u64,
    start: usize,
    end: usize,
    link_map: usize,
    table: usize,
    reserved: [u64; 7],
}

type FindObject = unsafe extern "C" fn(address: *mut c_void, found: *mut FoundObject) -> c_int;

// Not in every C library: where it is not, its address is null.
core::arch::global_asm!(".weak _dl_find_object");

/// glibc's function from 2.35 on, which takes no lock and may be called in a handler of signals.
fn find_object() -> Option<FindObject> {
    let function: usize;
    // SAFETY: reads an address.
    unsafe {
        core::arch::asm!(
            "mov {}, qword ptr [rip + _dl_find_object@GOTPCREL]",
            out(reg) function,
            options(nostack, preserves_flags, pure, readonly),
        );
    }
    // SAFETY: null, or a function of that type, of which 0 is none.
    unsafe { core::mem::transmute::<usize, Option<FindObject>>(function) }
}

impl Module {
    /// Whether the address is in its code.
    pub(crate) fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Where it begins.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// The file with code at that address.
    pub(crate) fn at(address: u64) -> Option<Self> {
        let Some(find) = find_object() else { return Self::iterated(address) };
        let mut found = FoundObject::default();
        // SAFETY: as the C library declares it.
        let is_found = unsafe { find(address as *mut c_void, &raw mut found) } == 0;
        is_found.then_some(Self {
            start: found.start as u64,
            end: found.end as u64,
            table: found.table as *const u8,
        })
    }

    /// The same with any C library. Some take a lock; a thread that has it may take it again.
    fn iterated(address: u64) -> Option<Self> {
        let mut search = (address, None);
        // SAFETY: the callback gets what it expects.
        unsafe { libc::dl_iterate_phdr(Some(compare), (&raw mut search).cast::<c_void>()) };
        search.1
    }

    /// Where the description of the function is to which this address belongs.
    pub(crate) fn description(&self, address: u64) -> Option<Cursor> {
        if self.table.is_null() {
            return None;
        }
        let base = self.table as u64;
        // SAFETY: the loader mapped the table, and it has at least a head.
        let mut head = unsafe { Cursor::new(self.table, 12) };
        if head.bytes()? != HEAD {
            return None;
        }
        head.u32()?;
        let count = head.u32()? as usize;
        let entries = head.address() as *const [i32; 2];
        let wanted = address.wrapping_sub(base) as i64;
        // The last entry that begins at or before the address.
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            // SAFETY: below the count that the table says it has.
            let [start, _] = unsafe { entries.add(middle).read_unaligned() };
            if i64::from(start) <= wanted { low = middle + 1 } else { high = middle }
        }
        let index = low.checked_sub(1)?;
        // SAFETY: as above.
        let [_, place] = unsafe { entries.add(index).read_unaligned() };
        self.record(base.wrapping_add(place as u64))
    }

    /// How far behind the file's start an address is.
    pub(crate) fn offset(&self, address: u64) -> Option<u64> {
        self.contains(address).then(|| address - self.start)
    }

    /// The expression so far behind the file's start, where its length is.
    pub(crate) fn expression(&self, offset: u32) -> Option<Cursor> {
        let address = self.start.wrapping_add(offset.into());
        let left = self.end.checked_sub(address)?;
        // SAFETY: a table that was read has its expression there; its length keeps to the table.
        let mut place = unsafe { Cursor::new(address as *const u8, left as usize) };
        let length = place.unsigned()?;
        place.part(length)
    }

    /// A record of `.eh_frame`, behind its length.
    pub(crate) fn record(&self, address: u64) -> Option<Cursor> {
        if !self.contains(address) || !self.contains(address.wrapping_add(4)) {
            return None;
        }
        // SAFETY: within the file's mapping, as a table of the loader's says.
        let length = unsafe { Cursor::new(address as *const u8, 4) }.u32()?;
        // 0 ends the table, and large ones are of another format.
        let is_record = (4..0xffff_fff0).contains(&length);
        let end = address.wrapping_add(4 + u64::from(length));
        // SAFETY: as above.
        (is_record && end <= self.end)
            .then(|| unsafe { Cursor::new((address + 4) as *const u8, length as usize) })
    }
}

/// Notes the file whose code has the address that is searched.
unsafe extern "C" fn compare(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    search: *mut c_void,
) -> c_int {
    // SAFETY: the C library gives a file's headers, and hands on what `iterated` gave it.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<(u64, Option<Module>)>()) };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: there are so many.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let mut module = Module { start: u64::MAX, end: 0, table: core::ptr::null() };
    let mut is_found = false;
    for header in headers {
        let start = info.dlpi_addr.wrapping_add(header.p_vaddr);
        let end = start.wrapping_add(header.p_memsz);
        match header.p_type {
            libc::PT_LOAD => {
                (module.start, module.end) = (module.start.min(start), module.end.max(end));
                is_found |= (start..end).contains(&search.0);
            }
            libc::PT_GNU_EH_FRAME => module.table = start as *const u8,
            _ => {}
        }
    }
    if is_found {
        search.1 = Some(module);
    }
    is_found.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_find_the_same_file_and_its_table() {
        let own = both_ways_find_the_same_file_and_its_table as *const () as u64;
        for address in [own, libc::getpid as *const () as u64] {
            let (found, iterated) = (Module::at(address), Module::iterated(address));
            let (found, iterated) = (found.expect("a file"), iterated.expect("a file"));
            assert_eq!(found.table, iterated.table);
            assert!(found.contains(address) && iterated.contains(address));
            assert!(found.description(address).is_some());
        }
        assert!(Module::at(0x1234).is_none() && Module::iterated(0x1234).is_none());
    }
}
