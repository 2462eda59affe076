//! What events refer to: all that a viewer can ask for.
//!
//! Each row is told by a number that was never another's: there is no address in it that anybody
//! could read from. A row goes when [that is told](crate::Event::Ended), and texts that no row has
//! go where there are many.

use crate::wire::{MOST_TEXT, cut};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Texts that are kept. The last stands for all that find no room.
const MOST_TEXTS: usize = 1 << 20;
/// Call stacks that are kept, and places in code.
const MOST_STACKS: usize = 1 << 20;
/// Where numbers of texts begin, so that they look like what a program would send.
const TEXTS: u64 = 0x1000_0000;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
    };
}

id!(
    /// A text.
    TextId
);
id!(
    /// A source location.
    LocationId
);
id!(
    /// A call stack.
    StackId
);
id!(
    /// A plot.
    PlotId
);
id!(
    /// A set of frames.
    SetId
);
id!(
    /// A lock.
    LockId
);
id!(
    /// A context of a GPU.
    ContextId
);

impl TextId {
    /// What stands for it where the protocol has a pointer.
    pub(crate) fn pointer(self) -> u64 {
        TEXTS + u64::from(self.0)
    }

    fn of(pointer: u64) -> Option<Self> {
        u32::try_from(pointer.checked_sub(TEXTS)?).ok().map(Self)
    }
}

impl LocationId {
    /// The same.
    pub(crate) fn pointer(self) -> u64 {
        u64::from(self.0) + 1
    }
}

/// A row that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedRow {
    /// A thread's names.
    Thread(u32),
    /// A source location.
    Location(LocationId),
    /// A plot.
    Plot(PlotId),
    /// A set of frames.
    Set(SetId),
    /// A lock.
    Lock(LockId),
    /// A pool of memory.
    Pool(TextId),
    /// A context of a GPU.
    Context(ContextId),
}

/// A thread's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadRow {
    /// What the viewer calls it: its process and itself.
    pub label: Box<str>,
    /// Its own name.
    pub name: Box<str>,
    /// Its process's name.
    pub process: Box<str>,
    /// Its process; 0 where it has none.
    pub pid: u32,
    /// It has a row only if it says something.
    pub is_quiet: bool,
}

/// Where a zone or a lock comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocationRow {
    /// The name of zones there.
    pub name: Option<TextId>,
    /// The function.
    pub function: TextId,
    /// The file.
    pub file: TextId,
    /// The line; 0 where it is not known.
    pub line: u32,
    /// 0xRRGGBB; 0 is none.
    pub color: u32,
}

/// A function at an address. Many have the same texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineRow {
    /// The function.
    pub name: Arc<str>,
    /// Its source file.
    pub file: Arc<str>,
    /// Its line; 0 where it is not known.
    pub line: u32,
    /// What stands for the function.
    pub symbol: u64,
    /// Its length in bytes; 0 where it is not known.
    pub length: u32,
}

/// What an address stands for, the innermost function first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRow {
    /// The file of code.
    pub image: Arc<str>,
    /// Its functions, at least one.
    pub lines: Box<[LineRow]>,
}

/// A plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlotRow {
    /// Its name.
    pub name: TextId,
    /// How values are written: 0 numbers, 1 bytes, 2 percent, 3 watts.
    pub format: u8,
    /// A value holds until the next one.
    pub is_step: bool,
}

/// A set of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetRow {
    /// Its name; `None` for the viewer's main set.
    pub name: Option<TextId>,
    /// One frame ends where the next begins.
    pub continuous: bool,
}

/// A lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRow {
    /// Its name.
    pub name: Option<TextId>,
    /// Where it was made.
    pub location: LocationId,
    /// Several readers may hold it together.
    pub shared: bool,
}

/// A context of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextRow {
    /// Its name.
    pub name: TextId,
    /// Whose it is: a viewer has room for few, which owners share.
    pub owner: u32,
}

/// Where a CPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuRow {
    /// Its package.
    pub package: u32,
    /// Its core.
    pub core: u32,
    /// Its number.
    pub cpu: u32,
}

/// Call stacks. Each address is there once, and stacks have numbers of them: there are many stacks
/// of few addresses.
#[derive(Debug, Default)]
struct Stacks {
    numbers: Vec<u32>,
    /// Where each ends.
    ends: Vec<u32>,
    addresses: Vec<u64>,
    number_of: FxHashMap<u64, u32>,
}

impl Stacks {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn push(&mut self, stack: &[u64]) {
        for address in stack {
            let number = *self.number_of.entry(*address).or_insert_with(|| {
                self.addresses.push(*address);
                self.addresses.len() as u32 - 1
            });
            self.numbers.push(number);
        }
        self.ends.push(self.numbers.len() as u32);
    }

    /// Those of a stack, none where that is none.
    fn addresses(&self, stack: Option<usize>) -> impl ExactSizeIterator<Item = u64> {
        let range = stack.map_or(0..0, |stack| {
            let start = stack.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
            start..self.ends[stack] as usize
        });
        self.numbers[range].iter().map(|number| self.addresses[*number as usize])
    }
}

/// All of it.
#[derive(Debug, Default)]
pub struct Catalogue {
    texts: FxHashMap<TextId, Box<str>>,
    text_ids: FxHashMap<Box<str>, TextId>,
    pub(crate) threads: FxHashMap<u32, ThreadRow>,
    locations: FxHashMap<LocationId, LocationRow>,
    location_ids: FxHashMap<LocationRow, LocationId>,
    stacks: Stacks,
    /// The number of the first of them.
    first_stack: u32,
    pub(crate) frames: FxHashMap<u64, FrameRow>,
    /// Addresses whose functions somebody may still find.
    unnamed: FxHashSet<u64>,
    /// File and line of functions.
    pub(crate) symbols: FxHashMap<u64, (Arc<str>, u32)>,
    plots: FxHashMap<PlotId, PlotRow>,
    sets: FxHashMap<SetId, SetRow>,
    locks: FxHashMap<LockId, LockRow>,
    pools: FxHashSet<TextId>,
    pub(crate) contexts: BTreeMap<ContextId, ContextRow>,
    /// The number of the next text, location, plot, set, lock and context.
    next: u32,
    /// CPUs of the machine.
    pub cpus: Vec<CpuRow>,
    /// Lines about the recording.
    pub notes: Vec<String>,
}

impl Catalogue {
    /// The number of a text.
    pub fn text(&mut self, text: &str) -> TextId {
        let text = cut(text, MOST_TEXT);
        if let Some(id) = self.text_ids.get(text) {
            return *id;
        }
        if self.texts.len() >= MOST_TEXTS {
            self.forget_texts();
        }
        let text = if self.texts.len() < MOST_TEXTS { text } else { "[too many texts]" };
        if let Some(id) = self.text_ids.get(text) {
            return *id;
        }
        let id = TextId(self.number());
        self.texts.insert(id, text.into());
        self.text_ids.insert(text.into(), id);
        id
    }

    /// A number that nothing had.
    fn number(&mut self) -> u32 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        number
    }

    /// Texts go that no row has.
    fn forget_texts(&mut self) {
        let of_locations =
            self.locations.values().flat_map(|row| [Some(row.function), Some(row.file), row.name]);
        let of_plots = self.plots.values().map(|row| Some(row.name));
        let of_sets = self.sets.values().map(|row| row.name);
        let of_locks = self.locks.values().map(|row| row.name);
        let of_contexts = self.contexts.values().map(|row| &row.name);
        let others = of_contexts.chain(&self.pools).map(|text| Some(*text));
        let used = of_locations.chain(of_plots).chain(of_sets).chain(of_locks).chain(others);
        let used: FxHashSet<TextId> = used.flatten().collect();
        self.texts.retain(|id, _| used.contains(id));
        self.text_ids.retain(|_, id| used.contains(id));
    }

    /// The text that a pointer stands for.
    pub(crate) fn find_text(&self, pointer: u64) -> Option<&str> {
        TextId::of(pointer).and_then(|id| self.texts.get(&id)).map(|text| &**text)
    }

    /// A text; nothing where it is gone.
    pub fn get_text(&self, id: TextId) -> &str {
        self.texts.get(&id).map_or("", |text| text)
    }

    /// What a thread is called from now on.
    pub fn name_thread(&mut self, thread: u32, row: ThreadRow) {
        self.threads.insert(thread, row);
    }

    /// Whether a thread has names.
    pub fn knows_thread(&self, thread: u32) -> bool {
        self.threads.contains_key(&thread)
    }

    /// The number of a source location.
    pub fn location(&mut self, row: LocationRow) -> LocationId {
        if let Some(id) = self.location_ids.get(&row) {
            return *id;
        }
        let id = LocationId(self.number());
        self.locations.insert(id, row);
        self.location_ids.insert(row, id);
        id
    }

    /// The source location that a pointer stands for.
    pub(crate) fn find_location(&self, pointer: u64) -> Option<&LocationRow> {
        let id = u32::try_from(pointer.checked_sub(1)?).ok()?;
        self.locations.get(&LocationId(id))
    }

    /// Adds a call stack of these addresses, innermost first; `None` where there is no room, or no
    /// address.
    pub fn stack(&mut self, addresses: &[u64]) -> Option<StackId> {
        if self.stacks.len() >= MOST_STACKS || addresses.is_empty() {
            return None;
        }
        let number = self.first_stack.checked_add(self.stacks.len() as u32)?;
        self.stacks.push(addresses);
        Some(StackId(number))
    }

    /// The addresses of a call stack; none where it is gone.
    pub fn addresses(&self, stack: StackId) -> impl ExactSizeIterator<Item = u64> {
        let index = stack.0.checked_sub(self.first_stack);
        self.stacks.addresses(index.map(|index| index as usize))
    }

    /// Where there are many call stacks, all go: whoever had numbers of them has to add them anew.
    /// Whether that is so.
    pub fn forget_stacks(&mut self) -> bool {
        let has_many = self.stacks.len() > MOST_STACKS / 2;
        if has_many {
            self.first_stack = self.first_stack.saturating_add(self.stacks.len() as u32);
            self.stacks = Stacks::default();
        }
        has_many
    }

    /// All that addresses stand for goes: no stack that comes has any of them.
    pub fn forget_frames(&mut self) {
        self.frames = FxHashMap::default();
        self.symbols = FxHashMap::default();
        self.unnamed = FxHashSet::default();
    }

    /// Says what an address stands for.
    pub fn frame(&mut self, address: u64, row: FrameRow) {
        for line in &*row.lines {
            let symbol = || (line.file.clone(), line.line);
            self.symbols.entry(line.symbol).or_insert_with(symbol);
        }
        self.frames.insert(address, row);
    }

    /// The file of code at an address.
    pub fn image(&self, address: u64) -> Option<Arc<str>> {
        self.frames.get(&address).map(|row| row.image.clone())
    }

    /// The function at an address that the others are inlined in.
    pub fn function(&self, address: u64) -> Option<&str> {
        let lines = &self.frames.get(&address)?.lines;
        lines.last().map(|line| &*line.name)
    }

    /// The functions of an address may still be found: whoever asks for them waits for that.
    pub fn may_be_named(&mut self, address: u64) {
        self.unnamed.insert(address);
    }

    /// Nobody looks for the functions of an address any more.
    pub(crate) fn is_named(&mut self, address: u64) {
        self.unnamed.remove(&address);
    }

    /// Whether the functions of an address [may still be found](Self::may_be_named).
    pub fn is_unnamed(&self, address: u64) -> bool {
        self.unnamed.contains(&address)
    }

    /// Adds a plot.
    pub fn add_plot(&mut self, row: PlotRow) -> PlotId {
        let id = PlotId(self.number());
        self.plots.insert(id, row);
        id
    }

    /// A plot, if it is not gone.
    pub fn plot(&self, id: PlotId) -> Option<&PlotRow> {
        self.plots.get(&id)
    }

    /// Adds a set of frames.
    pub fn add_set(&mut self, row: SetRow) -> SetId {
        let id = SetId(self.number());
        self.sets.insert(id, row);
        id
    }

    /// A set of frames, if it is not gone.
    pub fn set(&self, id: SetId) -> Option<&SetRow> {
        self.sets.get(&id)
    }

    /// Adds a lock.
    pub fn add_lock(&mut self, row: LockRow) -> LockId {
        let id = LockId(self.number());
        self.locks.insert(id, row);
        id
    }

    /// A lock, if it is not gone.
    pub fn lock(&self, id: LockId) -> Option<&LockRow> {
        self.locks.get(&id)
    }

    /// Adds a pool of memory.
    pub fn add_pool(&mut self, name: TextId) {
        self.pools.insert(name);
    }

    /// A row is gone.
    pub(crate) fn forget(&mut self, row: EndedRow) {
        match row {
            EndedRow::Thread(thread) => drop(self.threads.remove(&thread)),
            EndedRow::Plot(plot) => drop(self.plots.remove(&plot)),
            EndedRow::Set(set) => drop(self.sets.remove(&set)),
            EndedRow::Lock(lock) => drop(self.locks.remove(&lock)),
            EndedRow::Pool(name) => drop(self.pools.remove(&name)),
            EndedRow::Context(context) => drop(self.contexts.remove(&context)),
            EndedRow::Location(location) => {
                if let Some(row) = self.locations.remove(&location) {
                    self.location_ids.remove(&row);
                }
            }
        }
    }

    /// Adds a context of a GPU.
    pub fn add_context(&mut self, row: ContextRow) -> ContextId {
        let id = ContextId(self.number());
        self.contexts.insert(id, row);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_that_is_none_of_ours_leads_nowhere() {
        let mut catalogue = Catalogue::default();
        let text = catalogue.text("a");
        assert_eq!(catalogue.find_text(text.pointer()), Some("a"));
        for pointer in [0, 1, TEXTS - 1, TEXTS + 1, 1 << 47, u64::MAX] {
            assert_eq!(catalogue.find_text(pointer), None, "{pointer:#x}");
            assert_eq!(catalogue.find_location(pointer), None, "{pointer:#x}");
        }
    }

    #[test]
    fn a_row_that_is_gone_takes_its_texts_along_where_there_are_many() {
        let mut catalogue = Catalogue::default();
        let name = catalogue.text("kept");
        let plot = catalogue.add_plot(PlotRow { name, format: 0, is_step: true });
        for number in 0..MOST_TEXTS {
            catalogue.text(&format!("{number}"));
        }
        assert!(catalogue.texts.len() < 3, "nothing has the others");
        assert_eq!(catalogue.get_text(name), "kept");
        catalogue.forget(EndedRow::Plot(plot));
        assert_eq!(catalogue.plot(plot), None);
        catalogue.forget_texts();
        assert_eq!((catalogue.get_text(name), catalogue.texts.len()), ("", 0));
        let again = catalogue.text("kept");
        assert_ne!(again, name, "a viewer may still ask for the first");
    }

    #[test]
    fn a_call_stack_that_is_gone_has_no_addresses_and_its_number_is_nobody_elses() {
        let mut catalogue = Catalogue::default();
        let first = catalogue.stack(&[16]).unwrap();
        assert!(!catalogue.forget_stacks(), "there are few");
        (0..=MOST_STACKS as u64 / 2).for_each(|at| _ = catalogue.stack(&[at]));
        assert!(catalogue.forget_stacks());
        let next = catalogue.stack(&[32]).unwrap();
        assert_ne!(first, next);
        assert_eq!(
            [first, next].map(|stack| catalogue.addresses(stack).collect::<Vec<_>>()),
            [vec![], vec![32]]
        );
    }

    #[test]
    fn a_location_has_another_number_once_it_was_gone() {
        let mut catalogue = Catalogue::default();
        let nothing = catalogue.text("");
        let row = LocationRow { name: None, function: nothing, file: nothing, line: 1, color: 0 };
        let first = catalogue.location(row);
        assert_eq!(catalogue.location(row), first);
        catalogue.forget(EndedRow::Location(first));
        assert_eq!(catalogue.find_location(first.pointer()), None);
        let second = catalogue.location(row);
        assert_ne!(first, second);
        assert_eq!(catalogue.find_location(second.pointer()), Some(&row));
    }
}
