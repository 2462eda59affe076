//! Stack definitions, and the stacks that events refer to.

mod forgetting;
mod resolver;

pub(crate) use self::forgetting::{ANEW_SECONDS, StacksLeft};
pub(crate) use self::resolver::{EventStacks, Resolved, Resolver, StackCache};
use crate::python::{RawFrame, SentCodes, machine_frames};
use crate::stack_shares::{STACK, StackShares};
use crate::unwinding::{ProcessCode, Unwinder, UnwoundStacks, UserStack};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use syscollect_model::{AddressSpaces, BuildId, Lane, StackCut, Ticks};
use syscollect_playback::{CodeAddress, CodeAddressId, CodeAddresses, Locator, ModuleKey};
use syscollect_records::{StackHeader, stack_ending, stack_space};
use syscollect_store::UnwoundStack;

/// Different parts of one file that are mapped for execution: linkers make one or two. Of a file
/// with more nothing is said.
const MAPPED_MAX: usize = 64;

/// Where a stack's code addresses lie in [`Stacks::pool`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackRange {
    start: u32,
    count: u32,
    /// Whose it is.
    pid: u32,
    /// When it was sent.
    sent: Ticks,
    kernel: bool,
    /// Why outer frames are missing, if they are.
    truncated: Option<StackCut>,
}

/// The stacks of one lane, by id.
type LaneStacks = FxHashMap<u32, StackRange>;

/// Every stack that was sent, as code addresses.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    lanes: FxHashMap<Lane, LaneStacks>,
    pool: Vec<CodeAddressId>,
    /// What was read so far, by the hash of its code addresses: a recording that runs for long has
    /// the same stacks many times.
    same: FxHashMap<u64, StackRange>,
    shares: StackShares,
    /// Frames of which only the module is known: the code address is beyond the process's share.
    coarse: u64,
    /// Parts of modules' files that were mapped for execution.
    mapped: FxHashMap<ModuleKey, Vec<Range<u64>>>,
    pub(crate) locator: Locator,
    /// Callers of stacks that were cut, as far as they were found later.
    pub(crate) unwound: UnwoundStacks,
    /// What functions of Python programs are called.
    python: SentCodes,
}

/// What of a module's file was mapped for execution.
#[derive(Debug, Default)]
struct MappedParts {
    /// Where stacks have been, sorted.
    offsets: Vec<u64>,
    ranges: FxHashSet<Range<u64>>,
}

impl MappedParts {
    fn add(&mut self, range: Range<u64>) {
        let first = self.offsets.partition_point(|offset| *offset < range.start);
        let has_code = self.offsets.get(first).is_some_and(|offset| *offset < range.end);
        if has_code && self.ranges.len() <= MAPPED_MAX {
            self.ranges.insert(range);
        }
    }

    fn sorted(self) -> Vec<Range<u64>> {
        let mut ranges: Vec<_> = self.ranges.into_iter().collect();
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        if ranges.len() > MAPPED_MAX { Vec::new() } else { ranges }
    }
}

/// What came of reading a chunk of stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadStacks {
    /// Records: stacks, and what Python functions in them are called.
    pub(crate) stacks: u64,
    /// Those of them that are not kept: they are beyond the process's share.
    pub(crate) beyond_share: u64,
    /// The chunk ended inside a record.
    pub(crate) cut: bool,
    /// Bytes of the records that were read.
    pub(crate) bytes: usize,
}

impl Stacks {
    /// With what was mapped where, and callers of stacks that were cut.
    pub(crate) fn new(spaces: AddressSpaces, unwound: Vec<UnwoundStack>) -> Self {
        let mut stacks = Self { locator: Locator::new(spaces), ..Self::default() };
        stacks.unwound.add(unwound);
        stacks
    }

    /// With a share for each of the processes that have so many frames.
    pub(crate) fn shared_by(self, frames: &FxHashMap<u32, u64>) -> Self {
        Self { shares: StackShares::new(frames), ..self }
    }

    /// What lies where.
    pub(crate) fn code(&self) -> &CodeAddresses {
        &self.locator.code
    }

    /// Which parts of a module's file were mapped for execution, as offsets; empty where the file
    /// has no identity.
    pub(crate) fn mapped(&self, module: &ModuleKey) -> &[Range<u64>] {
        self.mapped.get(module).map_or(&[], Vec::as_slice)
    }

    /// Notes the parts that have code addresses: of other parts, such as those that the recorder
    /// itself maps for a look at them, nothing ran.
    fn note_mapped(&mut self) {
        let mut modules: FxHashMap<(&str, &BuildId), MappedParts> = FxHashMap::default();
        for CodeAddress { module, offset } in self.locator.code.rows() {
            let module = module.map(|index| self.locator.code.module(index));
            if let Some(module) = module.filter(|module| !module.build_id.is_empty()) {
                let parts = modules.entry((&module.path, &module.build_id)).or_default();
                parts.offsets.push(*offset);
            }
        }
        modules.values_mut().for_each(|parts| parts.offsets.sort_unstable());
        for mapping in self.locator.spaces.iter() {
            if let Some(parts) = modules.get_mut(&(mapping.path.as_str(), &mapping.build_id)) {
                let end = mapping.file_offset.saturating_add(mapping.end - mapping.start);
                parts.add(mapping.file_offset..end);
            }
        }
        let mapped = modules
            .into_iter()
            .map(|((path, build_id), parts)| (ModuleKey::mapped(path, build_id), parts.sorted()));
        self.mapped = mapped.collect();
    }

    /// No stack is added any more: forgets what helps with that.
    pub(crate) fn finish(&mut self) {
        self.note_mapped();
        self.same = FxHashMap::default();
        self.locator.forget();
    }

    /// How many frames show their module only, in words.
    pub(crate) fn coarse_frames(&self) -> Option<String> {
        (self.coarse > 0).then(|| {
            format!(
                "{} frames in stacks show their file only, without function or offset: their \
                 processes have more different places in code than their share",
                self.coarse
            )
        })
    }

    /// The code addresses of a stack, by its definition's lane and id.
    #[cfg(test)]
    pub(crate) fn code_at(&self, lane: Lane, id: u32) -> Option<&[CodeAddressId]> {
        Some(self.code_of(*self.lanes.get(&lane)?.get(&id)?))
    }

    fn code_of(&self, defined: StackRange) -> &[CodeAddressId] {
        &self.pool[defined.start as usize..][..defined.count as usize]
    }
}

/// The records of a chunk with their addresses; the last is `None` where the chunk ends inside of
/// it.
fn records(mut data: &[u8]) -> impl Iterator<Item = Option<(StackHeader, &[u8])>> {
    std::iter::from_fn(move || {
        if data.is_empty() {
            return None;
        }
        let record = StackHeader::from_bytes(data).and_then(|header| {
            let end = StackHeader::SIZE + usize::from(header.frames) * 8;
            Some((header, data.get(StackHeader::SIZE..end)?))
        });
        let length = record.as_ref().map(|(_, addresses)| StackHeader::SIZE + addresses.len());
        data = length.map_or(&[], |length| &data[length..]);
        Some(record)
    })
}

/// A stack as it was sent.
#[derive(Clone, Copy, Debug)]
pub struct SentStack<'a> {
    /// By which records of its lane refer to it.
    pub id: u32,
    /// Whose memory its addresses are of; 0 for stacks of the kernel.
    pub pid: u32,
    /// When it was sent: before the first record that refers to it.
    pub at: Ticks,
    /// It is of kernel code.
    pub is_kernel: bool,
    /// Words of 8 bytes.
    words: &'a [u8],
}

impl SentStack<'_> {
    /// Its addresses, innermost first, each within the code that it stands for: functions of Python
    /// are not among them.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        let words = self.words.as_chunks::<8>().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
        let addresses = words.take_while(|word| machine_frames(&[*word]) == 1);
        let is_there = |address: &u64| *address != 0;
        // All but the innermost are return addresses.
        let within = |(index, address)| if index == 0 { address } else { address - 1 };
        addresses.filter(is_there).enumerate().map(within)
    }
}

/// Gives the stacks of a chunk, whose first ticks are `first`, as far as they can be read.
pub fn each_stack(data: &[u8], first: Ticks, mut on: impl FnMut(SentStack<'_>)) {
    for (header, words) in records(data).flatten() {
        if header.space != stack_space::PYTHON_CODE {
            on(SentStack {
                id: header.id,
                pid: header.tgid,
                at: Ticks(header.stamp.ticks_near(first.0)),
                is_kernel: header.space == stack_space::KERNEL,
                words,
            });
        }
    }
}

/// Adds the frames of a chunk's stacks to those of their processes.
pub(crate) fn count_frames(data: &[u8], frames: &mut FxHashMap<u32, u64>) {
    for (header, _) in records(data).flatten() {
        *frames.entry(header.tgid).or_default() += u64::from(header.frames) + STACK;
    }
}

impl Stacks {
    /// Reads a chunk's records of before `until`; `first` are its first ticks. Stacks that were cut
    /// are walked on by `unwinder`.
    pub(crate) fn read(
        &mut self,
        lane: Lane,
        first: Ticks,
        data: &[u8],
        until: Ticks,
        mut unwinder: Option<&mut dyn Unwinder>,
    ) -> ReadStacks {
        let mut result = ReadStacks::default();
        let (mut addresses, mut python) = (Vec::new(), Vec::new());
        for record in records(data) {
            let Some((mut header, words)) = record else {
                result.cut = true;
                break;
            };
            let at = Ticks(header.stamp.ticks_near(first.0));
            if at >= until {
                break;
            }
            result.bytes += StackHeader::SIZE + words.len();
            result.stacks += 1;
            if header.space == stack_space::PYTHON_CODE {
                self.read_python_code(lane, header.tgid, words);
                continue;
            }
            let (words, _) = words.as_chunks::<8>();
            addresses.clear();
            addresses.extend(words.iter().map(|bytes| u64::from_ne_bytes(*bytes)));
            let kernel = header.space == stack_space::KERNEL;
            python.clear();
            if !kernel {
                python.extend(addresses.drain(machine_frames(&addresses)..));
                let (id, truncated) = (header.id, header.truncated);
                let stack = UserStack { lane, id, addresses: &addresses, truncated };
                let (locator, pid) = (&mut self.locator, header.tgid);
                let code = ProcessCode { epoch: locator.epoch(pid, at), locator, pid, at };
                // Reborrowed: the same one for each.
                let unwinder =
                    unwinder.as_mut().map(|unwinder| &mut **unwinder as &mut dyn Unwinder);
                if let Some(found) = self.unwound.callers(stack, unwinder, code) {
                    addresses.extend_from_slice(&found.addresses);
                    header.truncated = found.truncated;
                }
            }
            let frames = match python.is_empty() {
                true => addresses.iter().map(|address| RawFrame::Address(*address)).collect(),
                false => {
                    let codes = &self.locator.code.python;
                    self.python.interleave((lane, header.tgid), &addresses, &python, codes)
                }
            };
            match self.define((header.tgid, at), kernel, true, &frames) {
                Some(defined) => {
                    let truncated = defined.truncated.or(cut_of(header.truncated));
                    // An id is given out once; a second definition could only be damage.
                    let lane = self.lanes.entry(lane).or_default();
                    lane.entry(header.id).or_insert(StackRange { truncated, ..defined });
                }
                None => result.beyond_share += 1,
            }
        }
        result
    }

    /// Adds what a Python function is called, if the process has not had its share.
    fn read_python_code(&mut self, lane: Lane, pid: u32, bytes: &[u8]) {
        let size = bytes.len() as u64 / 8 + STACK;
        if self.shares.frames.has_room(pid, size) {
            self.shares.frames.take(pid, size);
            self.python.add((lane, pid), bytes, &mut self.locator.code.python);
        }
    }

    /// Locates the addresses; `None` if the process has had its share. All but the innermost are
    /// return addresses, which may already lie behind the end of the calling function or line: they
    /// are looked up one byte earlier, inside the call. The innermost is where
    /// the CPU stood, or, of user code below a system call, where it entered
    /// the kernel: both `exact`.
    ///
    /// A walk by frame pointers that meets a function which uses that register
    /// for something else takes data for a return address, and all further ones
    /// from there: the stack ends before its first frame outside of all code. The innermost frame
    /// is where the CPU stood: where even that lies in no known mapping, the mappings are what is
    /// missing.
    fn define(
        &mut self,
        (pid, at): (u32, Ticks),
        kernel: bool,
        exact: bool,
        frames: &[RawFrame],
    ) -> Option<StackRange> {
        let room = self.shares.frames.has_room(pid, frames.len() as u64 + STACK);
        if !room || !self.shares.sent.take(pid, 1) {
            return None;
        }
        let start = self.pool.len();
        let epoch = self.locator.epoch(pid, at);
        let (mut truncated, mut begins_in_code) = (None, false);
        let mut is_first = true;
        for frame in frames {
            let address = match *frame {
                RawFrame::Address(0) => continue,
                RawFrame::Address(address) => address,
                RawFrame::Python(offset) => {
                    let located = self.locator.python(offset);
                    let id = self.intern(pid, located);
                    self.pool.push(id);
                    continue;
                }
            };
            let innermost = std::mem::take(&mut is_first);
            let address = if innermost && exact { address } else { address - 1 };
            let located = match kernel {
                true => self.locator.kernel(address),
                false => self.locator.user(pid, at, epoch, address),
            };
            let in_code = located.module.is_some();
            begins_in_code |= innermost && in_code;
            if !in_code && begins_in_code && self.locator.knows_all(pid, at) {
                truncated = Some(StackCut::NoCode);
                break;
            }
            let id = self.intern(pid, located);
            self.pool.push(id);
        }
        let code = &self.pool[start..];
        let mut hasher = FxHasher::default();
        (code, kernel, truncated).hash(&mut hasher);
        let same = self.same.get(&hasher.finish()).filter(|same| {
            let code = &self.pool[same.start as usize..][..same.count as usize];
            (same.kernel, same.truncated) == (kernel, truncated) && code == &self.pool[start..]
        });
        if let Some(same) = same.copied() {
            self.pool.truncate(start);
            return Some(StackRange { pid, sent: at, ..same });
        }
        let count = code.len() as u32;
        for located in code {
            self.locator.code.count_use(*located);
        }
        self.shares.frames.take(pid, u64::from(count) + STACK);
        let defined = StackRange { start: start as u32, count, pid, sent: at, kernel, truncated };
        self.same.insert(hasher.finish(), defined);
        Some(defined)
    }

    /// The row of a code address; of one beyond the process's share, that of its module.
    fn intern(&mut self, pid: u32, located: CodeAddress) -> CodeAddressId {
        let code = &mut self.locator.code;
        if let Some(known) = code.find(located) {
            return known;
        }
        if self.shares.code.take(pid, 1) {
            return code.intern(located);
        }
        self.coarse += 1;
        // No code lies where a file begins.
        code.intern(CodeAddress { module: located.module, offset: 0 })
    }

    /// Locates return addresses of a process, innermost first, of a stack that was cut or not;
    /// `None` if it has had its share.
    pub(crate) fn return_addresses(
        &mut self,
        pid: u32,
        at: Ticks,
        addresses: &[u64],
        cut: Option<StackCut>,
    ) -> Option<StackRange> {
        let frames: Vec<RawFrame> =
            addresses.iter().map(|address| RawFrame::Address(*address)).collect();
        let defined = self.define((pid, at), false, false, &frames)?;
        Some(StackRange { truncated: defined.truncated.or(cut), ..defined })
    }
}

/// Why a recorded stack lacks its outer frames.
fn cut_of(truncated: u32) -> Option<StackCut> {
    match truncated {
        0 => None,
        stack_ending::TOO_DEEP => Some(StackCut::TooDeep),
        stack_ending::NO_UNWIND_INFORMATION => Some(StackCut::NoUnwindInformation),
        stack_ending::UNREADABLE => Some(StackCut::Unreadable),
        stack_ending::NO_TABLE_YET => Some(StackCut::NoTableYet),
        stack_ending::UNUSABLE_INFORMATION => Some(StackCut::UnusableInformation),
        stack_ending::FRAME_POINTERS => Some(StackCut::FramePointers),
        stack_ending::MEMORY_GONE => Some(StackCut::MemoryGone),
        stack_ending::BEYOND_MEMORY => Some(StackCut::BeyondMemory),
        _ => Some(StackCut::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::{
        BuildId, LaneKind, Mapping, SessionInfo, Symbol, SymbolFrame, SymbolTable, Tables,
    };
    use syscollect_records::stack_id;

    /// Processes 1 and 2 with a file of code each.
    fn spaces() -> AddressSpaces {
        let mut spaces = AddressSpaces::default();
        for pid in [1, 2] {
            spaces.map(Mapping {
                pid,
                start: 0x1000,
                end: 0x10_0000,
                file_offset: 0x1000,
                path: format!("/bin/{pid}"),
                build_id: BuildId::default(),
                since: Ticks(0),
            });
        }
        spaces.seal();
        spaces
    }

    fn bounded(frames: u64, code: u64) -> Stacks {
        let wanted = [(1, 1000), (2, 20)].into_iter().collect();
        let (shares, locator) =
            (StackShares::bounded(frames, code, &wanted), Locator::new(spaces()));
        Stacks { shares, locator, ..Stacks::default() }
    }

    fn define(reader: &mut Stacks, pid: u32, addresses: &[u64]) -> Option<StackRange> {
        let frames: Vec<RawFrame> =
            addresses.iter().map(|address| RawFrame::Address(*address)).collect();
        reader.define((pid, Ticks(1)), false, true, &frames)
    }

    #[test]
    fn a_process_with_endless_stacks_loses_its_own_and_nobody_elses() {
        let mut reader = bounded(400, 1 << 20);
        let flood =
            (0..100).filter(|n| define(&mut reader, 1, &[0x1000 + n, 0x5000 + n]).is_some());
        assert_eq!(flood.count(), 20);
        assert!(define(&mut reader, 2, &[0x1000, 0x2000]).is_some());
        assert!(reader.pool.len() < 50);
    }

    #[test]
    fn a_stack_without_one_of_its_parts_keeps_the_other() {
        let (sched, definitions) =
            (Lane::new(LaneKind::Sched, 0), Lane::new(LaneKind::SchedStack, 0));
        let mut stacks = bounded(1 << 20, 1 << 20);
        let user = define(&mut stacks, 1, &[0x1234]).unwrap();
        let kernel = StackRange { kernel: true, ..define(&mut stacks, 1, &[0x2345]).unwrap() };
        stacks.lanes.entry(definitions).or_default().extend([(7, user), (8, kernel)]);
        let mut resolver = Resolver::new(&SessionInfo::default(), stacks);
        let mut tables = Tables::default();
        // The kernel's part is the inner one.
        for (user, kernel, missing, lost) in [
            (7, 8, false, &[false, false][..]),
            (7, stack_id::NONE, false, &[false]),
            (7, 99, true, &[true, false]),
            (99, 8, true, &[false, true]),
            (98, 99, true, &[]),
        ] {
            let cache = &mut StackCache::default();
            let stacks = EventStacks { user, kernel, at: Ticks(0) };
            let resolved = resolver.resolve(cache, sched, stacks, &mut tables);
            let frames = resolved.stack.map_or(&[][..], |stack| tables.stack(stack)).iter();
            let cuts = frames.map(|frame| tables.truncated_by(*frame) == Some(StackCut::Lost));
            assert_eq!((resolved.missing, cuts.collect::<Vec<_>>()), (missing, lost.to_vec()));
        }
    }

    #[test]
    fn what_go_called_its_scheduler_from_is_no_caller_and_its_first_functions_have_none() {
        let mut stacks = bounded(1 << 20, 1 << 20);
        // Where a frame was called is before where it goes on.
        let found = define(&mut stacks, 1, &[0x1101, 0x1201, 0x1301, 0x1401]).unwrap();
        let cut = Some(StackCut::NoUnwindInformation);
        let begun =
            StackRange { truncated: cut, ..define(&mut stacks, 1, &[0x1101, 0x1501]).unwrap() };
        let unknown = StackRange { truncated: cut, ..define(&mut stacks, 1, &[0x1101]).unwrap() };
        let mut resolver = Resolver::new(&SessionInfo::default(), stacks);
        let names = [
            (0x1101, "runtime.schedule"),
            (0x1200, "runtime.park_m"),
            (0x1300, "runtime.mcall"),
            (0x1400, "main.elsewhere"),
            (0x1500, "runtime.mstart"),
        ];
        let symbols = names.map(|(offset, name)| {
            let frame = SymbolFrame { function: name.into(), ..SymbolFrame::default() };
            Symbol { offset, start: offset, size: 0x100, frames: vec![frame], ..Symbol::default() }
        });
        resolver.add_names(vec![SymbolTable {
            path: "/bin/1".into(),
            symbols: symbols.into(),
            ..SymbolTable::default()
        }]);
        let mut tables = Tables::default();
        let [found, begun, unknown] = [found, begun, unknown].map(|stack| {
            let stack = resolver.stack_at(stack, Ticks(0), &mut tables).0.unwrap();
            let labels = tables.stack(stack).iter().map(|frame| tables.frame_label(*frame));
            labels.collect::<Vec<_>>()
        });
        assert_eq!(found, ["runtime.schedule", "runtime.park_m", "runtime.mcall"]);
        assert_eq!(begun, ["runtime.schedule", "runtime.mstart"]);
        assert_eq!(unknown.len(), 2, "the mark that it is cut");
    }

    #[test]
    fn a_stack_that_comes_again_takes_no_frames() {
        let mut reader = bounded(1 << 20, 1 << 20);
        let first = define(&mut reader, 1, &[0x1000, 0x2000, 0x3000]).unwrap();
        let again = define(&mut reader, 1, &[0x1000, 0x2000, 0x3000]).unwrap();
        let other = define(&mut reader, 1, &[0x1000, 0x2000]).unwrap();
        assert_eq!((first.start, first.count, other.start), (again.start, again.count, 3));
        assert_eq!(reader.pool.len(), 5);
    }

    #[test]
    fn frames_beyond_the_share_of_places_show_their_file() {
        let mut stacks = bounded(1 << 20, 40);
        for n in 0..50 {
            define(&mut stacks, 1, &[0x1000 + n]);
        }
        let honest = define(&mut stacks, 2, &[0x1234]).unwrap();
        assert_eq!(first_code(&stacks, honest).offset, 0x1234);
        let late = define(&mut stacks, 1, &[0x7777]).unwrap();
        let late = first_code(&stacks, late);
        assert_eq!(stacks.code().module(late.module.unwrap()).path, "/bin/1");
        assert_eq!((late.offset, stacks.coarse), (0, 31));
        let reported = stacks.coarse_frames().unwrap();
        assert!(reported.starts_with("31 frames in stacks show their file only"), "{reported}");
    }

    fn first_code(stacks: &Stacks, of: StackRange) -> CodeAddress {
        stacks.code().get(stacks.code_of(of)[0])
    }
}
