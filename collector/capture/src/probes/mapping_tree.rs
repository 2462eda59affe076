//! Who has a file mapped, as the kernel itself knows it: by its tree of all mappings of the file,
//! the very one that it visits to attach.
//!
//! That takes a time that depends on those mappings alone, microseconds for most files: neither on
//! how many processes there are, nor on what these do to their mappings meanwhile. It sees through
//! file systems that lie over others, too, whose names and numbers lists of mappings show instead.
//! The tree is read while it changes (`bpf/src/mappers.bpf.c`), so it is walked until two walks
//! agree.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use rustc_hash::FxHashMap;
use syscollect_untrusted_files::payer;

use super::cost::Mapper;
use crate::bpf_calls::{self, PROG_TYPE_RAW_TRACEPOINT, ProgramKind};
use crate::bpf_object::KernelObject;
use crate::committed_object;
use crate::host::kernel_at_least;
use crate::kernel_types::kernel_types;
use crate::mapped_map::MappedWords;
use crate::priority::PriorityBoost;

/// As bpf/src/mappers.bpf.c has it: what is asked and answered, and words of each mapper.
const MAPPERS_MAX: usize = 16_384;
const ASKED_WORDS: usize = 8;
const ADDRESS: usize = 0;
const FD: usize = 1;
const FIRST: usize = 2;
const LAST: usize = 3;
const FOUND: usize = 4;
const ENDED: usize = 5;
const MAPPER_WORDS: usize = 4;
const NOT_BEGUN: u64 = 0;
const DONE: u64 = 1;
const FULL: u64 = 2;
const BROKEN: u64 = 3;

const PAGE: usize = 4096;
/// How often a walk is tried that cannot begin, and how long after.
const BEGINS_MAX: usize = 20;
const BEGINS_AGAIN: Duration = Duration::from_micros(200);
/// Walks until two agree; a tree that changes so fast is given up.
const WALKS_MAX: usize = 8;
/// They do if they found as many mappings but for so many, or for such a part.
const DIFFERENCE: u64 = 16;
const PART: u64 = 8;

/// Finds who has a file mapped.
pub(super) trait FindMappers {
    /// Who has these bytes of the file mapped so that the kernel would put breakpoints there.
    /// `None` where there are too many, or where the file is mapped and unmapped too fast.
    ///
    /// # Errors
    ///
    /// The kernel tells nobody.
    fn mappers(&self, file: &File, bytes: &Range<u64>) -> io::Result<Option<Vec<Mapper>>>;
}

/// The program while it is loaded: reading what the kernel says of its types takes a moment, in
/// which other programs are loaded.
pub(super) struct LoadingTree(JoinHandle<io::Result<MappingTree>>);

impl LoadingTree {
    /// Begins to load it; `None` where no thread can be had.
    pub(super) fn start() -> Option<Self> {
        let thread = std::thread::Builder::new().name("mapping-tree".into());
        let load = || {
            // Nothing is attached to before it is there. As an ordinary thread it took four seconds
            // beside busy sessions of others, in which no zones were found.
            let _boost = PriorityBoost::begin();
            MappingTree::load()
        };
        thread.spawn(load).ok().map(Self)
    }

    /// Waits for it; `None` where this kernel does not take it.
    pub(super) fn loaded(self) -> Option<MappingTree> {
        self.0.join().ok()?.ok()
    }
}

/// The program that walks the tree, and what is shared with it.
pub(super) struct MappingTree {
    program: OwnedFd,
    asked: MappedWords,
    mappers: MappedWords,
}

/// How a walk ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Walk {
    /// All these.
    Whole(Vec<Mapper>),
    TooMany,
    /// The tree changed under it.
    Broken,
}

impl MappingTree {
    /// Loads the program.
    ///
    /// # Errors
    ///
    /// Why this kernel does not take it: it is older than 5.17, has no memory control groups, or
    /// does not permit it.
    fn load() -> io::Result<Self> {
        if !kernel_at_least(5, 17) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let btf = kernel_types().map_err(io::Error::other)?;
        let object = KernelObject::alone("mappers.bpf.o", &committed_object::MAPPERS.bytes(), &btf);
        let object = object.map_err(io::Error::other)?;
        let program = object.load("find_mappers", ProgramKind::of(PROG_TYPE_RAW_TRACEPOINT));
        let program = program.map_err(io::Error::other)?;
        let asked = words(&object, "mappers_asked", ASKED_WORDS)?;
        let mappers = words(&object, "mappers", MAPPERS_MAX * MAPPER_WORDS)?;
        let tree = Self { program, asked, mappers };
        // A file that nobody else can map, so that nobody decides whether the kernel is thought to
        // tell this.
        let file = file_of_nobody_else()?;
        let _mapped = MappedPage::of(&file)?;
        match tree.mappers(&file, &(0..u64::MAX))? {
            Some(mappers) if mappers.iter().any(|of| of.pid == std::process::id()) => Ok(tree),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn walk(&self, page: &MappedPage, file: &File, bytes: &Range<u64>) -> io::Result<Walk> {
        let (asked, page_of) = (self.asked.words(), |byte: u64| byte / PAGE as u64);
        let last = bytes.end.saturating_sub(1);
        let question = [
            (ADDRESS, page.0.as_ptr() as u64),
            (FD, file.as_raw_fd() as u64),
            (FIRST, page_of(bytes.start)),
            (LAST, page_of(last)),
        ];
        question.into_iter().for_each(|(at, word)| asked[at].store(word, Ordering::Relaxed));
        // Another thread of this program may be at its mappings just then.
        for _ in 0..BEGINS_MAX {
            bpf_calls::run_program(self.program.as_fd())?;
            if asked[ENDED].load(Ordering::Relaxed) != NOT_BEGUN {
                break;
            }
            std::thread::sleep(BEGINS_AGAIN);
        }
        match asked[ENDED].load(Ordering::Relaxed) {
            DONE => Ok(Walk::Whole(self.found(asked[FOUND].load(Ordering::Relaxed) as usize))),
            FULL => Ok(Walk::TooMany),
            NOT_BEGUN | BROKEN => Ok(Walk::Broken),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// What the last walk told, of each process once.
    fn found(&self, count: usize) -> Vec<Mapper> {
        let words = self.mappers.words().chunks_exact(MAPPER_WORDS).take(count);
        let records = words.map(|words| {
            MapperRecord::of(std::array::from_fn(|index| words[index].load(Ordering::Relaxed)))
        });
        by_process(records)
    }
}

impl FindMappers for MappingTree {
    fn mappers(&self, file: &File, bytes: &Range<u64>) -> io::Result<Option<Vec<Mapper>>> {
        let page = MappedPage::of(file)?;
        agreed(|| self.walk(&page, file, bytes))
    }
}

/// What two walks agree on, of those the one that found more.
fn agreed(mut walk: impl FnMut() -> io::Result<Walk>) -> io::Result<Option<Vec<Mapper>>> {
    let mut most: Option<Vec<Mapper>> = None;
    for _ in 0..WALKS_MAX {
        let found = match walk()? {
            Walk::Whole(found) => found,
            Walk::TooMany => return Ok(None),
            Walk::Broken => continue,
        };
        let Some(before) = most.take() else {
            most = Some(found);
            continue;
        };
        let (one, other) = (mappings(&before), mappings(&found));
        let larger = if other > one { found } else { before };
        if one.abs_diff(other) <= DIFFERENCE.max(one.max(other) / PART) {
            return Ok(Some(larger));
        }
        most = Some(larger);
    }
    Ok(None)
}

fn mappings(mappers: &[Mapper]) -> u64 {
    mappers.iter().map(|mapper| mapper.mappings).sum()
}

fn words(object: &KernelObject, name: &str, words: usize) -> io::Result<MappedWords> {
    MappedWords::new(object.map(name).map_err(io::Error::other)?, words)
}

/// What the program tells of a process.
struct MapperRecord {
    memory: u64,
    pid: u32,
    user: u32,
    maker: u32,
    mappings: u32,
    all: u32,
    runs_it: u32,
}

impl MapperRecord {
    /// `struct mapper`: the memory, then pairs of numbers of 32 bits.
    fn of([memory, pid_and_user, maker_and_mappings, all_and_runs]: [u64; MAPPER_WORDS]) -> Self {
        Self {
            memory,
            pid: low(pid_and_user),
            user: high(pid_and_user),
            maker: low(maker_and_mappings),
            mappings: high(maker_and_mappings),
            all: low(all_and_runs),
            runs_it: high(all_and_runs),
        }
    }

    /// Who pays for it. Whatever ids it has in a user namespace, those belong to whoever made that;
    /// but root makes them for others.
    fn payer(&self) -> u32 {
        payer(if self.maker == 0 { self.user } else { self.maker })
    }
}

fn low(word: u64) -> u32 {
    word as u32
}

fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

fn by_process(reported: impl Iterator<Item = MapperRecord>) -> Vec<Mapper> {
    let mut mappers = Vec::<Mapper>::new();
    let mut known = FxHashMap::<u64, usize>::default();
    for of in reported {
        let index = *known.entry(of.memory).or_insert(mappers.len());
        if let Some(mapper) = mappers.get_mut(index) {
            mapper.mappings += u64::from(of.mappings);
            continue;
        }
        let (user, runs_it) = (of.payer(), of.runs_it != 0);
        let (mappings, all) = (u64::from(of.mappings), u64::from(of.all));
        mappers.push(Mapper { pid: of.pid, user, runs_it, mappings, all });
    }
    mappers
}

/// A file in memory without contents.
fn file_of_nobody_else() -> io::Result<File> {
    // SAFETY: the name ends with a zero and outlives the call.
    let descriptor = unsafe { libc::memfd_create(c"mapping-tree".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// A mapping of a file that nobody reads or writes.
struct MappedPage(NonNull<u8>);

impl MappedPage {
    fn of(file: &File) -> io::Result<Self> {
        let (anywhere, kind) = (std::ptr::null_mut(), libc::MAP_PRIVATE);
        // SAFETY: a new mapping, which nobody reads or writes.
        let page =
            unsafe { libc::mmap(anywhere, PAGE, libc::PROT_READ, kind, file.as_raw_fd(), 0) };
        match NonNull::new(page.cast::<u8>()) {
            Some(page) if page.as_ptr().cast::<libc::c_void>() != libc::MAP_FAILED => {
                Ok(Self(page))
            }
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for MappedPage {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped.
        unsafe { libc::munmap(self.0.as_ptr().cast(), PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: u32 = 1001;

    fn mapper(pid: u32, mappings: u64) -> Mapper {
        Mapper { pid, user: HOSTILE, runs_it: false, mappings, all: mappings }
    }

    fn agreed_of(walks: Vec<Walk>) -> (Option<u64>, usize) {
        let (mut left, mut made) = (walks.into_iter(), 0);
        let found = agreed(|| {
            made += 1;
            Ok(left.next().unwrap_or(Walk::Broken))
        });
        (found.unwrap().as_deref().map(mappings), made)
    }

    #[test]
    fn a_tree_is_walked_until_two_walks_agree() {
        assert_eq!(agreed_of(vec![whole(3), whole(3)]), (Some(3), 2));
        assert_eq!(agreed_of(vec![whole(1_000), whole(1_100)]), (Some(1_100), 2));
        assert_eq!(
            agreed_of(vec![Walk::Broken, whole(10), Walk::Broken, whole(20_000), whole(19_000)]),
            (Some(20_000), 5),
            "who hides mappings from one walk is found by the next"
        );
        assert_eq!(agreed_of(vec![whole(3), Walk::TooMany]), (None, 2));
        assert_eq!(agreed_of(Vec::new()), (None, WALKS_MAX));
        let changing = (0..).map(|walk| whole(1_000 * walk)).take(WALKS_MAX).collect();
        assert_eq!(agreed_of(changing), (None, WALKS_MAX), "it grows too fast");
    }

    fn whole(count: u64) -> Walk {
        Walk::Whole(vec![mapper(7, count)])
    }

    #[test]
    fn each_process_is_told_of_once_and_who_made_its_namespace_pays_for_it() {
        let reported = [
            [0xff00, word(7, 1001), word(0, 3), word(200, 1)],
            [0xff80, word(8, 165_536), word(1002, 1), word(100, 0)],
            [0xff00, word(7, 1001), word(0, 2), word(200, 1)],
        ];
        let found = by_process(reported.into_iter().map(MapperRecord::of));
        let each: Vec<_> = found.iter().map(|of| (of.pid, of.user, of.mappings, of.all)).collect();
        assert_eq!(each, [(7, 1001, 5, 200), (8, 1002, 1, 100)]);
        assert!(found[0].runs_it && !found[1].runs_it);
    }

    fn word(low: u64, high: u64) -> u64 {
        low | high << 32
    }

    /// Who may not load programs, or has a kernel without what they take, is told nothing here.
    fn tree() -> Option<MappingTree> {
        match MappingTree::load() {
            Ok(tree) => Some(tree),
            Err(error) if error.kind() == io::ErrorKind::Other => panic!("{error:?}"),
            Err(_) => None,
        }
    }

    #[test]
    fn this_program_and_whoever_maps_a_file_are_found() {
        let Some(tree) = tree() else { return };
        let own = File::open("/proc/self/exe").unwrap();
        let program = of_this(&tree, &own, 0..u64::MAX).unwrap();
        assert!(program.runs_it && program.is_modest() && program.all > program.mappings);
        let mut other = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut other, &[0; 3 * PAGE]).unwrap();
        assert_eq!(of_this(&tree, &other, 0..u64::MAX), None);
        // Neighbours would be one mapping.
        let pages: Vec<MappedPage> = (0..1_000).map(|_| MappedPage::of(&other).unwrap()).collect();
        let mapped = of_this(&tree, &other, 0..1).unwrap();
        assert_eq!((mapped.mappings, mapped.runs_it), (1_000, false));
        assert_eq!(
            of_this(&tree, &other, PAGE as u64..u64::MAX),
            None,
            "nobody has that part mapped"
        );
        drop(pages);
        assert_eq!(of_this(&tree, &other, 0..1), None);
    }

    fn of_this(tree: &MappingTree, file: &File, bytes: Range<u64>) -> Option<Mapper> {
        let found = tree.mappers(file, &bytes).unwrap().unwrap();
        found.into_iter().find(|mapper| mapper.pid == std::process::id())
    }
}
