//! Walks of this program's own stacks, compared with what is known of them and with framehop.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "tests")]

use gimli::{BaseAddresses, EhFrame, LittleEndian, UnwindSection};
use object::{Object, ObjectSection, ObjectSegment};
use std::arch::asm;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use syscollect_records::unwind::PAGE_BYTES;
use syscollect_tests::unwind_oracle::{OracleFile, OracleStep, OracleWalk};
use syscollect_untrusted_files::Reader;
use syscollect_unwind::{
    Caller, Registers, UnwindFile, UnwindRow, WalkEnd, lookup_address, row_at, step,
};

/// Levels of the chain of calls.
const DEPTH: usize = 40;
/// Frames of a walk at most.
const FRAMES_MAX: usize = 500;

/// A mapping of code.
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    path: PathBuf,
}

/// The mappings of code of this process, and the tables of their files.
struct Modules {
    mappings: Vec<Mapping>,
    files: HashMap<PathBuf, UnwindFile>,
    pages: RefCell<HashMap<(PathBuf, u32), Vec<UnwindRow>>>,
    memory: File,
}

impl Modules {
    fn read() -> Self {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mappings: Vec<Mapping> = maps.lines().filter_map(mapping).collect();
        let files = (mappings.iter())
            .map(|mapping| {
                let reader = Reader::of(&File::open(&mapping.path).unwrap()).unwrap();
                (mapping.path.clone(), UnwindFile::read(reader).unwrap())
            })
            .collect();
        let memory = File::open("/proc/self/mem").unwrap();
        Self { mappings, files, pages: RefCell::default(), memory }
    }

    fn row(&self, address: u64) -> Option<UnwindRow> {
        let mapping =
            self.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?;
        let offset = address - mapping.start + mapping.offset;
        let page = (offset / PAGE_BYTES) as u32;
        let mut pages = self.pages.borrow_mut();
        let rows = pages
            .entry((mapping.path.clone(), page))
            .or_insert_with(|| self.files[&mapping.path].pages(&[page]).unwrap().remove(0).1);
        row_at(rows, (offset % PAGE_BYTES) as u16)
    }

    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, address).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    /// Addresses of frames, innermost first, and how the walk ended.
    fn walk(&self, innermost: Registers) -> (Vec<u64>, Result<Caller, WalkEnd>) {
        let (mut registers, mut exact_ip, mut general) = (innermost, true, None);
        let mut addresses = vec![registers.ip];
        while addresses.len() < FRAMES_MAX {
            let Some(row) = self.row(lookup_address(registers.ip, exact_ip)) else { break };
            match step(&registers, row, general.as_ref(), |address| self.word(address)) {
                Ok(Caller { registers: caller, interrupted }) => {
                    (registers, exact_ip, general) = (caller, interrupted.is_some(), interrupted);
                    addresses.push(caller.ip);
                }
                end => return (addresses, end),
            }
        }
        (addresses, Err(WalkEnd::Unusable))
    }

    /// The same, by framehop.
    fn walk_by_framehop(&self, innermost: Registers) -> Vec<u64> {
        let mut walk = OracleWalk::new(innermost.ip, innermost.sp, innermost.bp);
        for Mapping { start, end, offset, path } in &self.mappings {
            let file = OracleFile::read(&std::fs::read(path).unwrap()).unwrap();
            walk.add(&file, *start..*end, *start, *offset);
        }
        let mut addresses = vec![innermost.ip];
        while let OracleStep::Caller(ip) = walk.step(|address| self.word(address)) {
            addresses.push(ip);
        }
        addresses
    }
}

/// `7f00-7f80 r-xp 00001000 08:01 123  /lib/libc.so.6`, if that is code of a file.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let is_code = words.next()?.contains('x');
    let offset = number(words.next()?)?;
    let path = PathBuf::from(words.nth(2)?);
    (is_code && path.is_absolute()).then_some(Mapping {
        start: number(start)?,
        end: number(end)?,
        offset,
        path,
    })
}

fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// The address at which the file's byte `offset` is meant to be loaded.
fn address_of(object: &object::File<'_>, offset: u64) -> u64 {
    let segments = object.segments();
    let before = segments.filter(|segment| segment.file_range().0 & !0xfff <= offset);
    let segment = before.max_by_key(|segment| segment.file_range().0).unwrap();
    segment.address() - segment.file_range().0 + offset
}

/// Registers where it is inlined.
macro_rules! registers {
    () => {{
        let (ip, sp, bp): (u64, u64, u64);
        // SAFETY: reads registers.
        unsafe {
            asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp",
                out(reg) ip, out(reg) sp, out(reg) bp);
        }
        Registers { ip, sp, bp }
    }};
}

/// What is done at the end of a chain of calls.
type Innermost = fn(&Modules) -> Walked;

/// What was found there.
struct Walked {
    addresses: Vec<u64>,
    ending: Result<Caller, WalkEnd>,
    by_framehop: Vec<u64>,
}

/// Calls itself, with frames of different sizes.
#[inline(never)]
fn chain(depth: usize, modules: &Modules, innermost: Innermost) -> Walked {
    if depth == 0 {
        return innermost(modules);
    }
    let walked = match depth % 3 {
        0 => chain_with_locals(depth - 1, modules, innermost),
        _ => chain(depth - 1, modules, innermost),
    };
    black_box(depth);
    walked
}

#[inline(never)]
fn chain_with_locals(depth: usize, modules: &Modules, innermost: Innermost) -> Walked {
    let locals = black_box([depth; 100]);
    let walked = chain(depth, modules, innermost);
    black_box(locals);
    walked
}

/// How often a function of the chain is in a walk.
fn count(addresses: &[u64], function: fn(usize, &Modules, Innermost) -> Walked) -> usize {
    let start = function as usize as u64;
    let code = start..start + length_of(start);
    addresses.iter().filter(|address| code.contains(&(*address - 1))).count()
}

/// Bytes of the function of this program that begins at `start`.
fn length_of(start: u64) -> u64 {
    let modules = Modules::read();
    let mapping = modules
        .mappings
        .iter()
        .find(|mapping| (mapping.start..mapping.end).contains(&start))
        .unwrap();
    let bytes = std::fs::read(&mapping.path).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let address = start - mapping.start + address_of(&object, mapping.offset);
    let section = object.section_by_name(".eh_frame").unwrap();
    let frames = EhFrame::new(section.data().unwrap(), LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    frames.fde_for_address(&bases, address, EhFrame::cie_from_offset).unwrap().len()
}

fn walk_here(modules: &Modules) -> Walked {
    let registers = registers!();
    let (addresses, ending) = modules.walk(registers);
    Walked { addresses, ending, by_framehop: modules.walk_by_framehop(registers) }
}

/// Walks a chain of calls in a thread of its own.
fn walk_in_thread(innermost: Innermost) -> Walked {
    let modules = Modules::read();
    std::thread::Builder::new()
        .spawn(move || chain(DEPTH, &modules, innermost))
        .unwrap()
        .join()
        .unwrap()
}

fn check(walked: &Walked) {
    let Walked { addresses, ending, .. } = walked;
    assert_eq!(*ending, Err(WalkEnd::End), "{addresses:x?}");
    // Levels whose number is a multiple of three call the second function, but for the last.
    let levels = (count(addresses, chain), count(addresses, chain_with_locals));
    assert_eq!(levels, (DEPTH + 1, DEPTH / 3), "{addresses:x?}");
}

#[test]
fn a_walk_finds_the_whole_chain_and_the_threads_beginning() {
    let walked = walk_in_thread(walk_here);
    check(&walked);
    assert_eq!(walked.by_framehop, walked.addresses);
}

thread_local! {
    /// What a callback of C works with, and what it found.
    static MODULES: Cell<*const Modules> = const { Cell::new(std::ptr::null()) };
    static WALKED: RefCell<Option<Walked>> = const { RefCell::new(None) };
}

/// Walks in a callback, once.
fn walk_in_callback() {
    // SAFETY: set by whoever has the callback called, for as long as that takes.
    let modules = unsafe { MODULES.get().as_ref() }.unwrap();
    WALKED.with_borrow_mut(|walked| {
        walked.get_or_insert_with(|| walk_here(modules));
    });
}

extern "C" fn compare(_: *const c_void, _: *const c_void) -> c_int {
    walk_in_callback();
    0
}

fn through_qsort(modules: &Modules) -> Walked {
    MODULES.set(modules);
    let mut numbers: Vec<u64> = (0..100).collect();
    // SAFETY: that many numbers of that size.
    unsafe { libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), 8, Some(compare)) };
    WALKED.take().unwrap()
}

#[test]
fn a_walk_leads_through_the_c_library() {
    let walked = walk_in_thread(through_qsort);
    check(&walked);
    assert_eq!(walked.by_framehop, walked.addresses);
}

extern "C" fn handle(_: c_int) {
    walk_in_callback();
}

/// Has a signal handled on a stack of its own.
fn through_signal(modules: &Modules) -> Walked {
    MODULES.set(modules);
    let mut stack = vec![0u8; 1 << 20];
    let alternative =
        libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
    let none = libc::stack_t {
        ss_sp: std::ptr::null_mut(),
        ss_flags: libc::SS_DISABLE,
        ss_size: stack.len(),
    };
    // SAFETY: all zeros is an action; the stack lives until it is no longer the thread's. The
    // handler allocates, but no allocation is interrupted: the signal comes where it is raised.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(c_int) as usize;
        action.sa_flags = libc::SA_ONSTACK;
        assert_eq!(libc::sigaltstack(&raw const alternative, std::ptr::null_mut()), 0);
        assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
        assert_eq!(libc::raise(libc::SIGUSR2), 0);
        assert_eq!(libc::sigaltstack(&raw const none, std::ptr::null_mut()), 0);
    }
    WALKED.take().unwrap()
}

#[test]
fn a_walk_leads_from_a_signal_handler_to_what_was_interrupted() {
    let walked = walk_in_thread(through_signal);
    check(&walked);
}
