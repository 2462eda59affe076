//! What events refer to: all that a viewer can ask for.
//!
//! Rows are only added. Each is told by a number that is a row's and nothing else: there is no
//! address in it that anybody could read from.

use crate::wire::{MOST_TEXT, cut};
use rustc_hash::{FxHashMap, FxHashSet};

/// Texts that are kept. The last stands for all that find no room.
const MOST_TEXTS: usize = 1 << 20;
/// Source locations of a viewer, whose index has 16 bits and a sign.
const MOST_LOCATIONS: usize = 32_000;
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

/// A function at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineRow {
    /// The function.
    pub name: Box<str>,
    /// Its source file.
    pub file: Box<str>,
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
    pub image: Box<str>,
    /// Its functions, at least one.
    pub lines: Vec<LineRow>,
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

/// All of it.
#[derive(Debug, Default)]
pub struct Catalogue {
    texts: Vec<Box<str>>,
    text_ids: FxHashMap<Box<str>, TextId>,
    pub(crate) threads: FxHashMap<u32, ThreadRow>,
    locations: Vec<LocationRow>,
    location_ids: FxHashMap<LocationRow, LocationId>,
    stacks: Vec<Box<[u64]>>,
    pub(crate) frames: FxHashMap<u64, FrameRow>,
    /// Addresses whose functions somebody may still find.
    unnamed: FxHashSet<u64>,
    /// File and line of functions.
    pub(crate) symbols: FxHashMap<u64, (Box<str>, u32)>,
    plots: Vec<PlotRow>,
    sets: Vec<SetRow>,
    locks: Vec<LockRow>,
    pub(crate) contexts: Vec<TextId>,
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
        let text = if self.texts.len() < MOST_TEXTS { text } else { "[too many texts]" };
        if let Some(id) = self.text_ids.get(text) {
            return *id;
        }
        let id = TextId(self.texts.len() as u32);
        self.texts.push(text.into());
        self.text_ids.insert(text.into(), id);
        id
    }

    /// The text that a pointer stands for.
    pub(crate) fn find_text(&self, pointer: u64) -> Option<&str> {
        TextId::of(pointer).and_then(|id| self.texts.get(id.0 as usize)).map(|text| &**text)
    }

    /// A text.
    pub fn get_text(&self, id: TextId) -> &str {
        &self.texts[id.0 as usize]
    }

    /// What a thread is called from now on.
    pub fn name_thread(&mut self, thread: u32, row: ThreadRow) {
        self.threads.insert(thread, row);
    }

    /// Whether a thread has names.
    pub fn knows_thread(&self, thread: u32) -> bool {
        self.threads.contains_key(&thread)
    }

    /// The number of a source location; all that find no room have one.
    pub fn location(&mut self, row: LocationRow) -> LocationId {
        if let Some(id) = self.location_ids.get(&row) {
            return *id;
        }
        let row = match self.locations.len() {
            0..MOST_LOCATIONS => row,
            _ => {
                let (name, nothing) = (Some(self.text("[other zones]")), self.text(""));
                LocationRow { name, function: nothing, file: nothing, line: 0, color: 0 }
            }
        };
        let (locations, next) = (&mut self.locations, LocationId(self.location_ids.len() as u32));
        *self.location_ids.entry(row).or_insert_with(|| {
            locations.push(row);
            next
        })
    }

    /// The source location that a pointer stands for.
    pub(crate) fn find_location(&self, pointer: u64) -> Option<&LocationRow> {
        self.locations.get(usize::try_from(pointer.checked_sub(1)?).ok()?)
    }

    /// Adds a call stack of these addresses, innermost first; `None` where there is no room, or no
    /// address.
    pub fn stack(&mut self, addresses: Box<[u64]>) -> Option<StackId> {
        if self.stacks.len() >= MOST_STACKS || addresses.is_empty() {
            return None;
        }
        self.stacks.push(addresses);
        Some(StackId(self.stacks.len() as u32 - 1))
    }

    /// The addresses of a call stack.
    pub fn addresses(&self, stack: StackId) -> &[u64] {
        &self.stacks[stack.0 as usize]
    }

    /// Says what an address stands for.
    pub fn frame(&mut self, address: u64, row: FrameRow) {
        for line in &row.lines {
            let symbol = || (line.file.clone(), line.line);
            self.symbols.entry(line.symbol).or_insert_with(symbol);
        }
        self.frames.insert(address, row);
    }

    /// The file of code at an address.
    pub fn image(&self, address: u64) -> Option<Box<str>> {
        self.frames.get(&address).map(|row| row.image.clone())
    }

    /// The functions of an address may still be found: whoever asks for them waits for that.
    pub fn may_be_named(&mut self, address: u64) {
        self.unnamed.insert(address);
    }

    /// Nobody looks for the functions of an address any more.
    pub(crate) fn is_named(&mut self, address: u64) {
        self.unnamed.remove(&address);
    }

    pub(crate) fn is_unnamed(&self, address: u64) -> bool {
        self.unnamed.contains(&address)
    }

    /// Adds a plot.
    pub fn add_plot(&mut self, row: PlotRow) -> PlotId {
        self.plots.push(row);
        PlotId(self.plots.len() as u32 - 1)
    }

    /// A plot.
    pub fn plot(&self, id: PlotId) -> &PlotRow {
        &self.plots[id.0 as usize]
    }

    /// Adds a set of frames.
    pub fn add_set(&mut self, row: SetRow) -> SetId {
        self.sets.push(row);
        SetId(self.sets.len() as u32 - 1)
    }

    /// A set of frames.
    pub fn set(&self, id: SetId) -> &SetRow {
        &self.sets[id.0 as usize]
    }

    /// Adds a lock.
    pub fn add_lock(&mut self, row: LockRow) -> LockId {
        self.locks.push(row);
        LockId(self.locks.len() as u32 - 1)
    }

    /// A lock.
    pub fn lock(&self, id: LockId) -> &LockRow {
        &self.locks[id.0 as usize]
    }

    /// Adds a context of a GPU; `None` where there is no room.
    pub fn add_context(&mut self, name: TextId) -> Option<u8> {
        // The last number means none.
        let context =
            u8::try_from(self.contexts.len()).ok().filter(|context| *context < u8::MAX)?;
        self.contexts.push(name);
        Some(context)
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
    fn locations_that_find_no_room_share_one() {
        let mut catalogue = Catalogue::default();
        let nothing = catalogue.text("");
        let row =
            |line| LocationRow { name: None, function: nothing, file: nothing, line, color: 0 };
        let many: Vec<_> = (0..40_000).map(|line| catalogue.location(row(line))).collect();
        assert_eq!(catalogue.locations.len(), MOST_LOCATIONS + 1);
        assert_eq!(many[35_000], many[39_999]);
        assert_eq!(catalogue.location(row(5)), many[5]);
    }
}
