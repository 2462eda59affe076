//! The interface: modules of a trace, many at once.

use super::find;
use super::identity::{PdbIdentity, file_name, image_key};
use super::room::ByteQuota;
use super::server::Servers;
use super::{Image, ImageRequest, Pdb, SymbolPath, SymbolSource};
use crate::download::Refusal;
use std::collections::HashSet;
use std::fs::{self, File};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use syscollect_model::{Symbol, SymbolTable};

/// Readers of types and demanglers go down a level for each one in their input, which is checked to
/// be no deeper than this takes.
pub(crate) const STACK_BYTES: usize = 64 << 20;

/// Files that servers are asked for at the same time.
const DOWNLOADS: usize = 8;

/// Files that are in memory at the same time have no more bytes than this, or there is only one.
const TOGETHER_BYTES: u64 = 1 << 30;

/// How naming goes about it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where symbol files are looked for. Servers in it are asked: leave out those that the user
    /// did not ask for.
    pub path: SymbolPath,
    /// The store that keeps what servers send, where the path names none; without any, no server is
    /// asked.
    pub cache: Option<PathBuf>,
    /// Longer files are not read, and not downloaded; bytes.
    pub file_bytes_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { path: SymbolPath::default(), cache: None, file_bytes_max: 2 << 30 }
    }
}

/// Names code of Windows modules.
#[derive(Debug)]
pub struct WindowsSymbolizer {
    options: Options,
    servers: Servers,
    room: ByteQuota,
}

impl WindowsSymbolizer {
    /// Looks for symbol files as the options say.
    pub fn new(options: Options) -> Self {
        Self { options, servers: Servers::default(), room: ByteQuota::new(TOGETHER_BYTES) }
    }

    /// Names several modules on all CPUs; the tables are in the order of the requests.
    ///
    /// Never fails: why something has no name is in the table's note.
    pub fn name_modules(&self, requests: &[ImageRequest]) -> Vec<SymbolTable> {
        // Who asks a server mostly waits for it.
        let waiting = if self.options.path.has_servers() { DOWNLOADS } else { 1 };
        let threads = thread::available_parallelism()
            .map_or(1, NonZero::get)
            .max(waiting)
            .min(requests.len());
        let tables: Vec<Mutex<SymbolTable>> =
            requests.iter().map(|request| Mutex::new(unseen(request))).collect();
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..threads {
                let thread = thread::Builder::new().name("symbols".into()).stack_size(STACK_BYTES);
                // Where one cannot be had, those that are there do it all.
                drop(thread.spawn_scoped(scope, || {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let (Some(request), Some(table)) = (requests.get(index), tables.get(index))
                        else {
                            break;
                        };
                        *table.lock().unwrap_or_else(PoisonError::into_inner) = self.name(request);
                    }
                }));
            }
        });
        tables
            .into_iter()
            .map(|table| table.into_inner().unwrap_or_else(PoisonError::into_inner))
            .collect()
    }

    fn name(&self, request: &ImageRequest) -> SymbolTable {
        let mut search = Search { symbolizer: self, request, notes: Vec::new() };
        let symbols = search.symbols();
        SymbolTable { symbols, note: search.notes.join("; "), ..unseen(request) }
    }
}

fn unseen(request: &ImageRequest) -> SymbolTable {
    SymbolTable {
        path: request.path.clone(),
        build_id: request.build_id.clone(),
        symbols: Vec::new(),
        note: "not named: no thread could be started".into(),
        ..SymbolTable::default()
    }
}

/// One module's way from place to place.
struct Search<'a> {
    symbolizer: &'a WindowsSymbolizer,
    request: &'a ImageRequest,
    notes: Vec<String>,
}

impl Search<'_> {
    fn symbols(&mut self) -> Vec<Symbol> {
        let offsets = &self.request.offsets;
        let mut image = None;
        let identity = match &self.request.pdb {
            Some(pdb) => Some(pdb.clone()),
            None => {
                image = self.image();
                image.as_ref().and_then(Image::pdb).cloned()
            }
        };
        if let Some(named) = identity.as_ref().and_then(|identity| self.pdb(identity)) {
            return named;
        }
        if identity.is_none() && image.is_none() {
            self.notes.push(
                "the trace does not say which symbol file it has, and the image is not at hand"
                    .into(),
            );
        }
        match image.or_else(|| self.image()) {
            Some(image) => {
                self.notes.push("named by the exports of the image".into());
                image.name(offsets)
            }
            None => Vec::new(),
        }
    }

    /// The names in the PDB, if one can be found and read.
    fn pdb(&mut self, identity: &PdbIdentity) -> Option<Vec<Symbol>> {
        let Some(name) = identity.file_name() else {
            self.notes.push(format!("{:?} is no name of a symbol file", identity.name));
            return None;
        };
        let (path, pdb) =
            self.local_pdb(name, identity).or_else(|| self.served_pdb(name, identity))?;
        let length = fs::metadata(&path).map_or(u64::MAX, |data| data.len());
        let _room = self.symbolizer.room.take(length);
        match pdb.name(&self.request.offsets, self.request.image_size) {
            Ok(names) => {
                if !names.note.is_empty() {
                    self.notes.push(format!("{}: {}", path.display(), names.note));
                }
                if names.symbols.is_empty() {
                    self.notes.push(format!("{} has no symbols for this code", path.display()));
                }
                Some(names.symbols)
            }
            Err(error) => {
                self.notes.push(format!("{}: {error}", path.display()));
                None
            }
        }
    }

    fn local_pdb(&mut self, name: &str, identity: &PdbIdentity) -> Option<(PathBuf, Pdb<File>)> {
        let key = identity.store_key();
        let mut packed = None;
        for directory in self.directories() {
            for path in find::candidates(&directory, name, Some(&key), self.kind()) {
                match self.open_pdb(&path, identity) {
                    Ok(pdb) => return Some((path, pdb)),
                    Err(reason) => self.notes.push(format!("{}: {reason}", path.display())),
                }
            }
            packed = packed.or_else(|| find::compressed(&directory, name, &key));
        }
        match packed {
            Some(path) => self
                .notes
                .push(format!("{} is compressed: unpack it to {name} beside it", path.display())),
            None => {
                self.notes.push(format!("{name} {key} is not in any directory that was searched"));
            }
        }
        None
    }

    fn served_pdb(&mut self, name: &str, identity: &PdbIdentity) -> Option<(PathBuf, Pdb<File>)> {
        let symbolizer = self.symbolizer;
        let key = identity.store_key();
        for place in symbolizer.options.path.sources() {
            let SymbolSource::Server { url, cache } = place else { continue };
            let Some(store) = cache.as_ref().or(symbolizer.options.cache.as_ref()) else {
                self.notes
                    .push(format!("{url} was not asked: there is no directory for what it sends"));
                continue;
            };
            let limit = symbolizer.options.file_bytes_max;
            let fetched = symbolizer.servers.fetch((url, store), (name, &key), limit, |path| {
                self.open_pdb(path, identity).map(drop)
            });
            match fetched.map(|path| (self.open_pdb(&path, identity), path)) {
                Ok((Ok(pdb), path)) => {
                    // That it was nowhere else is no news any more.
                    self.notes.clear();
                    return Some((path, pdb));
                }
                Ok((Err(reason), path)) => self.notes.push(format!("{}: {reason}", path.display())),
                Err(Refusal::Absent) => self.notes.push(format!("{url} does not have it")),
                Err(Refusal::Failed(reason)) => self.notes.push(reason),
            }
        }
        None
    }

    /// A PDB that is the one asked for.
    fn open_pdb(&self, path: &Path, identity: &PdbIdentity) -> Result<Pdb<File>, String> {
        let file = find::open(path, self.symbolizer.options.file_bytes_max)?;
        let pdb = Pdb::open(file).map_err(|error| error.to_string())?;
        if *pdb.guid() != identity.guid || pdb.age() != identity.age {
            return Err(format!(
                "it is of another build, {}, not {}",
                pdb.store_key(),
                identity.store_key()
            ));
        }
        Ok(pdb)
    }

    /// The image itself, if it is at hand.
    fn image(&mut self) -> Option<Image> {
        let ImageRequest { path, image_size: size, image_timestamp: timestamp, .. } = self.request;
        let name = file_name(path).filter(|_| *size != 0)?;
        let key = image_key(*timestamp, *size);
        let own = find::own_path(path).filter(|path| path.is_file());
        let directories = self.directories();
        let stored =
            directories.iter().flat_map(|place| find::candidates(place, name, Some(&key), None));
        for path in own.into_iter().chain(stored) {
            match self.open_image(&path) {
                Ok(image) if (image.size(), image.timestamp()) == (*size, *timestamp) => {
                    return Some(image);
                }
                Ok(image) => {
                    let other = image_key(image.timestamp(), image.size());
                    self.notes.push(format!(
                        "{}: it is of another build, {other}, not {key}",
                        path.display()
                    ));
                }
                Err(reason) => self.notes.push(format!("{}: {reason}", path.display())),
            }
        }
        None
    }

    fn open_image(&self, path: &Path) -> Result<Image, String> {
        let limit = self.symbolizer.options.file_bytes_max;
        let file = find::open(path, limit)?;
        let _room = self.symbolizer.room.take(file.metadata().map_or(u64::MAX, |data| data.len()));
        Image::read(file, limit).map_err(|error| error.to_string())
    }

    /// All directories to look into, the image's own one last.
    fn directories(&self) -> Vec<PathBuf> {
        let options = &self.symbolizer.options;
        let mut directories = Vec::new();
        for place in options.path.sources() {
            directories.extend(match place {
                SymbolSource::Directory(directory) => Some(directory.clone()),
                SymbolSource::Server { cache, .. } => {
                    cache.clone().or_else(|| options.cache.clone())
                }
            });
        }
        directories.extend(
            find::own_path(&self.request.path).and_then(|path| Some(path.parent()?.to_path_buf())),
        );
        let mut seen = HashSet::new();
        directories.retain(|directory| seen.insert(directory.clone()));
        directories
    }

    /// The extension of the image, as folders of symbols are called.
    fn kind(&self) -> Option<&str> {
        let (_, extension) = file_name(&self.request.path)?.rsplit_once('.')?;
        Some(extension)
    }
}
