//! One PDB asked for names: the only place that knows pdb-addr2line.

use super::demangle::demangled;
use super::identity::store_key;
use super::scopes::Scopes;
use super::sections::{SectionError, Sections};
use super::source::BoundedSource;
use super::types::TextLengths;
use pdb_addr2line::pdb::{
    self, AddressMap, DebugInformation, FallibleIterator, IdInformation, ImageSectionHeader,
    Module, ModuleInfo, PDB, StreamIndex, StringTable, SymbolData, SymbolTable, TypeInformation,
};
use pdb_addr2line::{Context, FunctionFrames, ModuleProvider, TypeFormatter, TypeFormatterFlags};
use std::io::{self, Read, Seek};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use syscollect_model::{Symbol, SymbolFrame};

/// The streams of types and ids, which are numbered so in every PDB.
const TYPES: StreamIndex = StreamIndex(2);
const IDS: StreamIndex = StreamIndex(4);
/// An intact PDB of a gigabyte is named in seconds.
const TIME_MAX: Duration = Duration::from_secs(60);
/// How often reading is begun anew behind a place that cannot be read.
const PANICS_MAX: usize = 8;
/// Kinds of symbols that say where they end: procedures, thunks, separated code and inlined calls.
const SCOPES: [u16; 13] = [
    0x0206, 0x100a, 0x100b, 0x1102, 0x110f, 0x1110, 0x1132, 0x1146, 0x1147, 0x114d, 0x1155, 0x1156,
    0x115d,
];

/// Why a PDB gives no names.
#[derive(Debug, thiserror::Error)]
pub enum PdbError {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It is no PDB, or not one that its reader understands.
    #[error("{0}")]
    Format(String),
    /// Its symbols have no addresses.
    #[error(transparent)]
    Sections(#[from] SectionError),
    /// Its streams contradict themselves, or its reader gave up on it.
    #[error("it is damaged")]
    Damaged,
}

impl From<pdb::Error> for PdbError {
    fn from(error: pdb::Error) -> Self {
        Self::Format(error.to_string())
    }
}

impl From<pdb_addr2line::Error> for PdbError {
    fn from(error: pdb_addr2line::Error) -> Self {
        Self::Format(error.to_string())
    }
}

/// What a PDB knows of the addresses asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PdbNames {
    /// The names, by ascending offset; those without a symbol are left out.
    pub symbols: Vec<Symbol>,
    /// Why not everything could be named as it should; empty if all was well.
    pub note: String,
}

/// A PDB, which may hold anything: what its reader takes for granted is checked before, reading is
/// bounded by the file's length and a time, and a panic in there is an error.
#[derive(Debug)]
pub struct Pdb<R: Read + Seek + Send + 'static> {
    pdb: PDB<'static, BoundedSource<R>>,
    debug: DebugInformation<'static>,
    guid: [u8; 16],
    age: u32,
}

impl<R: Read + Seek + Send + 'static> Pdb<R> {
    /// Reads what tells it from others.
    ///
    /// # Errors
    ///
    /// If that is not a PDB.
    pub fn open(reader: R) -> Result<Self, PdbError> {
        let source = BoundedSource::new(reader)?;
        caught(|| Self::read(source))?
    }

    fn read(source: BoundedSource<R>) -> Result<Self, PdbError> {
        let mut pdb = PDB::open(source)?;
        let information = pdb.pdb_information()?;
        let debug = pdb.debug_information()?;
        // The age of the debug information is the one that images have; the other one also
        // grows when something else in the file is written.
        let age = debug.age().unwrap_or(information.age);
        Ok(Self { pdb, debug, guid: information.guid.to_bytes_le(), age })
    }

    /// Its GUID, as the bytes lie in files.
    pub fn guid(&self) -> &[u8; 16] {
        &self.guid
    }

    /// How often it was written since it got that GUID.
    pub fn age(&self) -> u32 {
        self.age
    }

    /// GUID and age, as symbol stores write them.
    pub fn store_key(&self) -> String {
        store_key(&self.guid, self.age)
    }

    /// Names relative virtual addresses, those of return addresses reduced by one; in any order.
    /// `image_length` is the image's `SizeOfImage`, bytes, which tells where its sections lie if
    /// the PDB does not; 0 if unknown.
    ///
    /// Deep types and decorated names need up to some megabytes of stack, of which the threads of a
    /// [`WindowsSymbolizer`](super::WindowsSymbolizer) have enough.
    ///
    /// # Errors
    ///
    /// If nothing in it can be used.
    pub fn name(self, offsets: &[u64], image_length: u32) -> Result<PdbNames, PdbError> {
        caught(|| {
            PdbStreams::read(self, image_length)
                .and_then(|(parts, modules)| name(&parts, &modules, offsets))
        })?
    }
}

fn caught<T>(work: impl FnOnce() -> T) -> Result<T, PdbError> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| PdbError::Damaged)
}

/// The streams that are needed whatever is asked.
struct PdbStreams {
    debug: DebugInformation<'static>,
    types: TypeInformation<'static>,
    ids: IdInformation<'static>,
    addresses: AddressMap<'static>,
    globals: SymbolTable<'static>,
    strings: Option<StringTable<'static>>,
    sections: Vec<ImageSectionHeader>,
    /// Where these lie in the image.
    layout: Sections,
}

impl PdbStreams {
    fn read<R: Read + Seek + Send>(
        file: Pdb<R>,
        image_length: u32,
    ) -> Result<(Self, Modules<BoundedSource<R>>), PdbError> {
        let Pdb { mut pdb, debug, .. } = file;
        let sections = pdb.sections()?.unwrap_or_default();
        let lengths = {
            let types = pdb.raw_stream(TYPES).ok().flatten();
            let ids = pdb.raw_stream(IDS).ok().flatten();
            TextLengths::read(types.as_deref().unwrap_or(&[]), ids.as_deref().unwrap_or(&[]))
        };
        let lengths = lengths.map_err(|_| PdbError::Damaged)?;
        let parts = Self {
            debug,
            types: pdb.type_information()?,
            ids: pdb.id_information()?,
            addresses: pdb.address_map()?,
            globals: pdb.global_symbols()?,
            strings: pdb.string_table().ok(),
            layout: Sections::new(&sections, image_length)?,
            sections,
        };
        let count = parts.debug.modules()?.count()?;
        let loaded = (0..count).map(|_| OnceLock::new()).collect();
        Ok((parts, Modules { pdb: Mutex::new(pdb), loaded, lengths }))
    }

    fn context<'a>(
        &'a self,
        modules: &'a (dyn ModuleProvider<'static> + Sync),
    ) -> Result<Context<'a, 'static>, PdbError> {
        let list: Vec<Module<'a>> = self.debug.modules()?.collect()?;
        let flags = TypeFormatterFlags::default();
        let strings = self.strings.as_ref();
        let formatter = TypeFormatter::new_from_parts(
            modules,
            list,
            &self.debug,
            &self.types,
            &self.ids,
            strings,
            flags,
        )?;
        let formatter = formatter.into();
        let Self { addresses, globals, debug, sections, .. } = self;
        Ok(Context::new_from_parts(
            modules, sections, addresses, globals, strings, debug, formatter,
        )?)
    }
}

/// The compilation units of a PDB, each read and checked when it is asked for first.
struct Modules<S> {
    pdb: Mutex<PDB<'static, S>>,
    loaded: Vec<OnceLock<LoadedModule>>,
    lengths: TextLengths,
}

enum LoadedModule {
    /// There is nothing to read.
    Absent,
    /// What is there would lead a reader astray.
    Damaged,
    Module(Box<ModuleInfo<'static>>),
}

impl<S: pdb::Source<'static> + 'static> ModuleProvider<'static> for Modules<S> {
    fn get_module_info(
        &self,
        index: usize,
        module: &Module<'_>,
    ) -> pdb::Result<Option<&ModuleInfo<'static>>> {
        let Some(slot) = self.loaded.get(index) else { return Ok(None) };
        match slot.get_or_init(|| self.load(module)) {
            LoadedModule::Module(module) => Ok(Some(module)),
            LoadedModule::Absent | LoadedModule::Damaged => Ok(None),
        }
    }
}

impl<S: pdb::Source<'static> + 'static> Modules<S> {
    fn load(&self, module: &Module<'_>) -> LoadedModule {
        let read = self.pdb.lock().unwrap_or_else(PoisonError::into_inner).module_info(module);
        match read {
            Ok(None) => LoadedModule::Absent,
            Ok(Some(module)) if self.is_sound(&module).unwrap_or(false) => {
                LoadedModule::Module(Box::new(module))
            }
            Ok(Some(_)) | Err(_) => LoadedModule::Damaged,
        }
    }

    /// Whether walking the module's scopes ends, and so do the texts of the functions in it.
    fn is_sound(&self, module: &ModuleInfo<'_>) -> pdb::Result<bool> {
        let mut scopes = Scopes::default();
        let mut symbols = module.symbols()?;
        while let Some(symbol) = symbols.next()? {
            let (end, ends) = match SCOPES.contains(&symbol.raw_kind()).then(|| symbol.parse()) {
                Some(Ok(SymbolData::Procedure(it))) => {
                    (Some(it.end), self.lengths.type_ends(it.type_index.0))
                }
                Some(Ok(SymbolData::InlineSite(it))) => {
                    (Some(it.end), self.lengths.id_ends(it.inlinee.0))
                }
                Some(Ok(SymbolData::Thunk(it))) => (Some(it.end), true),
                Some(Ok(SymbolData::SeparatedCode(it))) => (Some(it.end), true),
                _ => (None, true),
            };
            if !ends || scopes.symbol(symbol.index().0, end.map(|end| end.0)).is_err() {
                return Ok(false);
            }
        }
        Ok(scopes.finish().is_ok())
    }

    fn damaged(&self) -> usize {
        self.loaded
            .iter()
            .filter(|module| matches!(module.get(), Some(LoadedModule::Damaged)))
            .count()
    }
}

fn name<S: pdb::Source<'static> + Send + 'static>(
    parts: &PdbStreams,
    modules: &Modules<S>,
    offsets: &[u64],
) -> Result<PdbNames, PdbError> {
    let mut offsets = offsets.to_vec();
    offsets.sort_unstable();
    offsets.dedup();
    let deadline = Instant::now() + TIME_MAX;
    let (mut symbols, mut notes) = (Vec::with_capacity(offsets.len()), Vec::new());
    let mut rest = offsets.as_slice();
    for panics in 0.. {
        let context = parts.context(modules)?;
        let done = name_until_panic((&context, &parts.layout), rest, deadline, &mut symbols);
        rest = &rest[done..];
        if rest.is_empty() {
            break;
        }
        if Instant::now() >= deadline || panics == PANICS_MAX {
            notes.push(format!("{} places not named: its reader gave up on it", rest.len()));
            break;
        }
        rest = &rest[1..];
        notes.push(format!("{:#x} is damaged", offsets[offsets.len() - rest.len() - 1]));
    }
    match modules.damaged() {
        0 => {}
        count => {
            notes.push(format!(
                "{count} of its compilation units are damaged: no lines and inlined functions there"
            ));
        }
    }
    Ok(PdbNames { symbols, note: notes.join("; ") })
}

/// Names offsets as far as that goes; how many were seen to. What comes next is the one it panics
/// at, unless the time is over.
fn name_until_panic(
    (context, layout): (&Context<'_, '_>, &Sections),
    offsets: &[u64],
    deadline: Instant,
    symbols: &mut Vec<Symbol>,
) -> usize {
    for (done, offset) in offsets.iter().enumerate() {
        if Instant::now() >= deadline {
            return done;
        }
        match catch_unwind(AssertUnwindSafe(|| symbol(context, layout, *offset))) {
            Ok(symbol) => symbols.extend(symbol),
            Err(_) => return done,
        }
    }
    offsets.len()
}

fn symbol(context: &Context<'_, '_>, layout: &Sections, offset: u64) -> Option<Symbol> {
    let address = layout.to_reader(u32::try_from(offset).ok()?)?;
    let (start, end, frames) = match context.find_frames(address) {
        Ok(Some(found)) => (found.start_rva, found.end_rva, frames(found)?),
        Ok(None) => return None,
        // Lines may be damaged where the function itself is not.
        Err(_) => {
            let found = context.find_function(address).ok()??;
            let frame = SymbolFrame {
                function: demangled(&found.name?).into_owned(),
                ..SymbolFrame::default()
            };
            (found.start_rva, found.end_rva, vec![frame])
        }
    };
    // The table of functions may contradict that of their places.
    let size = end.and_then(|end| end.checked_sub(start)).unwrap_or(0);
    let inside = start <= address && (size == 0 || address - start < size);
    let start = layout.to_image(start).filter(|_| inside)?;
    Some(Symbol { offset, start: start.into(), size: size.into(), frames, ..Symbol::default() })
}

/// Innermost first; `None` if the function itself has no name.
fn frames(found: FunctionFrames<'_>) -> Option<Vec<SymbolFrame>> {
    found.frames.last()?.function.as_ref()?;
    Some(found.frames.into_iter().filter_map(symbol_frame).collect())
}

fn symbol_frame(frame: pdb_addr2line::Frame<'_>) -> Option<SymbolFrame> {
    Some(SymbolFrame {
        function: demangled(&frame.function?).into_owned(),
        file: frame.file.map(std::borrow::Cow::into_owned).unwrap_or_default(),
        line: frame.line.unwrap_or(0),
    })
}
