//! Where the names of Windows modules come from: options, and what the environment says.

use crate::escape::printable;
use crate::symbol_files::SymbolFileOptions;
use crate::terminal::Terminal;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use syscollect_model::SymbolTable;
use syscollect_playback::UnresolvedModule;
use syscollect_symbolize::windows::{
    ImageRequest, Options, PdbIdentity, SymbolPath, SymbolSource, WindowsSymbolizer, server_url,
};

/// So many modules without names are told of one by one.
const TOLD_MAX: usize = 5;
const PATH_VARIABLE: &str = "_NT_SYMBOL_PATH";

/// Options of the sub-commands that name code.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Symbols of Windows traces")]
pub(crate) struct SymbolOptions {
    /// Look for symbol files (.pdb) and images in these directories and stores, then in those of
    /// _NT_SYMBOL_PATH, whose syntax is the same
    #[arg(long, value_name = "DIR[;DIR..]")]
    symbol_path: Vec<String>,

    /// Then ask this symbol server (http or https), such as
    /// `https://msdl.microsoft.com/download/symbols`
    #[arg(long, value_name = "URL", value_parser = parse_server)]
    symbol_server: Vec<String>,

    /// Also ask the servers that the symbol path names
    #[arg(long)]
    download_symbols: bool,

    /// Keep what servers send in this store
    #[arg(long, value_name = "DIR")]
    symbol_cache: Option<PathBuf>,

    /// Say of every module without names why it has none, not only of the five whose names are
    /// missed most
    #[arg(long)]
    list_unnamed: bool,

    // The last one: its heading is the one of all options behind it.
    #[command(flatten)]
    files: SymbolFileOptions,
}

impl SymbolOptions {
    /// Where names of captures are looked for.
    pub(crate) fn files(&self) -> &SymbolFileOptions {
        &self.files
    }

    /// Whether servers are asked, which another program does.
    pub(crate) fn asks_servers(&self) -> bool {
        self.download_symbols || !self.symbol_server.is_empty() || self.files.asks_servers()
    }

    /// What the symbolizer is told, and whether the symbol path has servers that are not asked.
    fn options(&self, variable: impl Fn(&str) -> Option<OsString>) -> (Options, bool) {
        let inherited = variable(PATH_VARIABLE).unwrap_or_default();
        let inherited = inherited.to_string_lossy();
        let elements = self.symbol_path.iter().map(String::as_str).chain([&*inherited]);
        let mut path = SymbolPath::parse(&elements.collect::<Vec<_>>().join(";"));
        let unasked = path.has_servers() && !self.download_symbols;
        if unasked {
            path = path.without_servers();
        }
        let cache = self.symbol_cache.clone().or_else(|| default_cache(variable));
        // What was fetched once needs no server.
        path.extend(cache.clone().map(SymbolSource::Directory));
        path.extend(
            self.symbol_server
                .iter()
                .map(|url| SymbolSource::Server { url: url.clone(), cache: cache.clone() }),
        );
        (Options { path, cache, ..Options::default() }, unasked)
    }
}

fn parse_server(text: &str) -> Result<String, String> {
    server_url(text).ok_or_else(|| {
        format!("{text:?} is not the address of a server: it begins with https:// or http://")
    })
}

/// Where downloads are kept unless somebody says where.
fn default_cache(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder =
        |name: &str| variable(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| folder("LOCALAPPDATA"));
    let caches = caches.or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(caches.join("syscollect").join("symbols"))
}

/// Names the Windows modules among `modules`, and says of which no names were found.
pub(crate) fn name(
    modules: Vec<UnresolvedModule>,
    args: &SymbolOptions,
    terminal: &Terminal,
) -> Vec<SymbolTable> {
    let requests: Vec<ImageRequest> = modules.into_iter().filter_map(request).collect();
    if requests.is_empty() {
        return Vec::new();
    }
    for folder in missing_folders(&args.symbol_path) {
        eprint_line!("syscollect: the symbol path {} does not exist", printable(folder));
    }
    let (options, unasked) = args.options(|name| std::env::var_os(name));
    let tables = {
        let _busy = terminal.busy("naming functions");
        WindowsSymbolizer::new(options).name_modules(&requests)
    };
    for line in unnamed(&requests, &tables, unasked, args.list_unnamed) {
        // A trace may name its modules anything.
        eprint_line!("syscollect: {}", printable(&line));
    }
    tables
}

/// Directories that the user asked for and that are not there, as they were named.
fn missing_folders(symbol_path: &[String]) -> Vec<&str> {
    let elements = symbol_path.iter().flat_map(|path| path.split(';')).map(str::trim);
    // What has a `*` names stores and servers, whose first place may be made later.
    let folders = elements.filter(|element| {
        !element.is_empty() && !element.contains('*') && !element.contains("://")
    });
    folders.filter(|folder| !Path::new(folder).exists()).collect()
}

fn request(module: UnresolvedModule) -> Option<ImageRequest> {
    let UnresolvedModule { path, build_id, offsets, windows, .. } = module;
    let image = windows?;
    let pdb = image.pdb.map(|pdb| PdbIdentity { name: pdb.name, guid: pdb.guid, age: pdb.age });
    Some(ImageRequest {
        path,
        build_id,
        pdb,
        image_size: image.size,
        image_timestamp: image.timestamp,
        offsets,
    })
}

/// What is said of modules without names: the most asked for, and what to do.
fn unnamed(
    requests: &[ImageRequest],
    tables: &[SymbolTable],
    unasked: bool,
    all: bool,
) -> Vec<String> {
    let mut without: Vec<_> =
        requests.iter().zip(tables).filter(|(_, table)| !table.has_names()).collect();
    if without.is_empty() {
        return Vec::new();
    }
    without.sort_by_key(|(request, _)| std::cmp::Reverse(request.offsets.len()));
    let total = requests.len();
    let mut lines =
        vec![format!("no names for the code of {} of {total} Windows modules:", without.len())];
    let reported = if all { without.len() } else { TOLD_MAX };
    lines.extend(
        without
            .iter()
            .take(reported)
            .map(|(_, table)| format!("  {}: {}", short(&table.path), table.note)),
    );
    if let Some(more) = without.len().checked_sub(reported).filter(|more| *more > 0) {
        lines.push(format!("  and {more} more: --list-unnamed lists them all"));
    }
    lines.push(if unasked {
        "the servers of the symbol path were not asked: --download-symbols asks them".into()
    } else {
        "--symbol-path names directories with symbol files, --symbol-server a server to ask".into()
    });
    lines
}

fn short(path: &str) -> &str {
    path.rsplit('\\').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

#[cfg(test)]
#[path = "symbols_tests.rs"]
mod tests;
