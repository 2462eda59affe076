//! A capture named and exported: what `record` does at its end, and `export` on its own.

use crate::debuginfod;
use crate::format::Format;
use crate::kept_files;
use crate::lost::Lost;
use crate::output::{DraftFile, Target};
use crate::owner::Owner;
use crate::signals::Abandon;
use crate::symbol_files::SymbolFileOptions;
use crate::terminal::{ExportBar, Terminal};
use crate::time_range::TimeRange;
use anyhow::{Context, Result, bail};
use std::collections::HashSet;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::sync::{Arc, OnceLock};
use syscollect_exporters::{
    Family, FirefoxExporter, FirefoxOptions, FlamegraphExporter, FoldedExporter, LoopLimit,
    PerfettoExporter, PprofExporter, ProcessFilter, StackKind, StackOptions, TracyExporter,
    TracyOptions,
};
use syscollect_model::{
    BuildId, Event, Exporter, Loss, ProcessId, RecorderSummary, SessionInfo, StackOrigin,
    SymbolTable, Tables, Time, naming_shortage,
};
use syscollect_playback::{NullExporter, Played, Recording, UnresolvedModule};
use syscollect_store::{CaptureReader, CaptureWriter, Definition};
use syscollect_symbolize::{
    ModuleRequest, NamingMemory, Options, PinnedFiles, SymbolFiles, Symbolizer,
};
use syscollect_untrusted_files::FixedPath;

/// What naming may take at most, bytes.
const MOST_NAMING_MEMORY: u64 = 1 << 30;
/// Events between two looks at whether to go on.
const EVENTS_PER_LOOK: u64 = 8192;

/// The user gave up; what is there is kept.
#[derive(Debug, thiserror::Error)]
#[error("abandoned, as Ctrl-C asked")]
pub(crate) struct Abandoned;

/// What names may be given to.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamingScope {
    /// Addresses of the kernel mean today's kernel.
    pub(crate) same_kernel: bool,
    /// A file without a build id is still the one recorded.
    pub(crate) same_files: bool,
    /// Modules that have what names there are, by path and build id: they are not named again.
    pub(crate) named: HashSet<(String, BuildId)>,
    /// Paths of files without a build id of which the capture has what naming needs.
    pub(crate) kept: HashSet<String>,
    /// Only what no other machine can name: the kernel's code, and what programs made themselves.
    pub(crate) only_here: bool,
}

impl NamingScope {
    /// What is left of a capture that may have been named before, perhaps not to the end.
    pub(crate) fn later(info: &SessionInfo, reader: &CaptureReader) -> Self {
        let named = named(reader.definitions().filter_map(|definition| match definition {
            Ok(Definition::Symbols(table)) => Some(table),
            _ => None,
        }));
        Self { named, ..Self::anew(info, reader) }
    }

    /// Everything that has no name, whatever was tried before.
    pub(crate) fn anew(info: &SessionInfo, reader: &CaptureReader) -> Self {
        let kept = kept_files::without_build_id(reader);
        Self { same_kernel: is_this_boot(info), kept, ..Self::default() }
    }

    /// Everything, or `only_here` what no other machine can name: the recording has just ended.
    pub(crate) fn now(only_here: bool) -> Self {
        Self { same_kernel: true, same_files: true, only_here, ..Self::default() }
    }

    /// No name is better than a wrong one.
    fn is(&self, module: &UnresolvedModule) -> bool {
        let is_same = if module.kernel {
            self.same_kernel
        } else {
            self.same_files || !module.build_id.is_empty() || self.kept.contains(&module.path)
        };
        let is_wanted = !self.only_here || module.kernel || module.memory.is_some();
        is_same && is_wanted && !self.has_names(module)
    }

    fn has_names(&self, module: &UnresolvedModule) -> bool {
        // The kernel's tables carry its build id.
        let mut paths = self.named.iter();
        match module.kernel {
            true => paths.any(|(path, _)| *path == module.path),
            false => self.named.contains(&(module.path.clone(), module.build_id.clone())),
        }
    }
}

/// The modules of `tables`, without those that a debug file which was not there before could still
/// name, if that was not too slow before.
fn named(tables: impl Iterator<Item = SymbolTable>) -> HashSet<(String, BuildId)> {
    let (mut named, mut nameable) = (HashSet::new(), HashSet::new());
    for table in tables {
        let is_nameable = table.has_ranges_only() && table.unfinished == 0;
        let module = (table.path, table.build_id);
        // A large table is stored in parts.
        if is_nameable {
            nameable.insert(module);
        } else {
            named.insert(module);
        }
    }
    &named - &nameable
}

/// Names that were found, and the files that the user named for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundNames {
    pub(crate) tables: Vec<SymbolTable>,
    pub(crate) files: SymbolFiles,
    /// Files, and the kernel, that were not looked at when the user gave up.
    pub(crate) left: usize,
}

/// Names of all places that have none yet and are `nameable`, also from `files` and from what
/// `capture` has of files; the modules that are left when the user gives up are not among them.
///
/// # Errors
///
/// Servers were asked for and cannot be asked.
pub(crate) fn name(
    session: &impl Recording,
    (pinned, capture): (PinnedFiles, Option<&CaptureReader>),
    nameable: &NamingScope,
    files: &SymbolFileOptions,
    abandon: &Abandon,
    terminal: &Terminal,
) -> Result<FoundNames> {
    files.check()?;
    let servers = files.servers()?;
    let mut unresolved = session.unresolved();
    unresolved.retain(|module| nameable.is(module));
    if unresolved.is_empty() {
        return Ok(FoundNames::default());
    }
    // A chroot may have none.
    if cfg!(target_os = "linux") && !std::path::Path::new("/proc/self/fd").exists() {
        eprint_line!(
            "syscollect: functions stay without names: files are read through /proc/self/fd, and \
             /proc is not mounted here: `mount -t proc proc /proc` mounts it"
        );
        return Ok(FoundNames::default());
    }
    let (kernel, user): (Vec<_>, Vec<_>) =
        unresolved.into_iter().partition(|module| module.kernel && module.windows.is_none());
    let requests: Vec<_> = user.into_iter().map(request).collect();
    let unwanted = || abandon.wanted();
    let busy = terminal.busy("naming functions");
    let mut files = files.find(&requests, &unwanted);
    // Copies of files that are here may take as much.
    let most = naming_memory().all() / 2;
    let kept = capture.map(|capture| kept_files::read(capture, &requests, most));
    let kept = kept.unwrap_or_default();
    let clock = Some(Arc::new(session.clock().clone()));
    let symbol_files = files.clone();
    let options = Options { symbol_files, kept_files: kept, clock, ..naming_options() };
    let mut symbolizer = Symbolizer::with_options(pinned, options.clone());
    // The kernel goes first: where there is no time for all, files can be named later.
    let kernel = kernel.iter();
    let tables = kernel.map(|module| symbolizer.name_kernel_unless(&module.offsets, &unwanted));
    let mut tables: Vec<Option<SymbolTable>> = tables.collect();
    tables.extend(symbolizer.name_modules_unless(&requests, &unwanted));
    let left = tables.iter().filter(|table| table.is_none()).count();
    let mut tables: Vec<SymbolTable> = tables.into_iter().flatten().collect();
    drop(busy);
    if let Some(servers) = servers {
        let mut missing = still_missing(&requests, &tables);
        let fetched = debuginfod::fetch(&missing, &mut files, servers, &unwanted, terminal);
        missing.retain(|request| fetched.contains(&request.build_id));
        let _busy = terminal.busy("naming functions");
        let options = Options { symbol_files: files.clone(), ..options };
        let mut symbolizer = Symbolizer::with_options(PinnedFiles::new(), options);
        tables.extend(symbolizer.name_modules_unless(&missing, &unwanted).into_iter().flatten());
    }
    if let Some(shortage) = naming_shortage(&tables) {
        eprint_line!("syscollect: {shortage}");
    }
    Ok(FoundNames { tables, files, left })
}

/// What of `requests` has no name in `tables`.
fn still_missing(requests: &[ModuleRequest], tables: &[SymbolTable]) -> Vec<ModuleRequest> {
    let mut names: HashSet<(&str, &BuildId, u64)> = HashSet::new();
    for table in tables {
        let named = table.symbols.iter().filter(|symbol| !symbol.range_only);
        names.extend(named.map(|symbol| (&*table.path, &table.build_id, symbol.offset)));
    }
    let mut missing = requests.to_vec();
    missing.retain_mut(|ModuleRequest { path, build_id, memory, offsets, .. }| {
        offsets.retain(|offset| !names.contains(&(path.as_str(), &*build_id, *offset)));
        memory.is_none() && !offsets.is_empty()
    });
    missing
}

pub(crate) fn naming_options() -> Options {
    Options { asked_by: Owner::user_asking(), memory: naming_memory(), ..Options::default() }
}

/// What naming may take, of all that this program names at one time.
static NAMING_MEMORY: OnceLock<NamingMemory> = OnceLock::new();

/// A small control group must not end what has been recorded, nor what a flight recorder goes on to
/// record.
fn naming_memory() -> NamingMemory {
    NAMING_MEMORY.get_or_init(|| NamingMemory::new(most_naming_memory())).clone()
}

fn most_naming_memory() -> u64 {
    #[cfg(target_os = "linux")]
    let free = syscollect_capture::available_memory();
    #[cfg(not(target_os = "linux"))]
    let free = u64::MAX;
    MOST_NAMING_MEMORY.min(free / 4)
}

/// This program may have `bytes` of memory in all, of which naming has an eighth; to be said before
/// anything is named.
#[cfg(target_os = "linux")]
pub(crate) fn limit_naming(bytes: u64) {
    NAMING_MEMORY.get_or_init(|| NamingMemory::new(most_naming_memory().min(bytes / 8)));
}

pub(crate) fn request(module: UnresolvedModule) -> ModuleRequest {
    let UnresolvedModule { path, build_id, memory, offsets, mapped, .. } = module;
    ModuleRequest { path, build_id, memory, mapped, offsets }
}

/// Whether the capture's kernel addresses are those of the kernel that runs
/// now: it moves to other addresses with every boot.
fn is_this_boot(info: &SessionInfo) -> bool {
    let boot_id =
        FixedPath::new("/proc/sys/kernel/random/boot_id").read_to_string().unwrap_or_default();
    !info.boot_id.is_empty() && info.boot_id == boot_id.trim()
}

/// Where a capture file ends, for adding to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CaptureEnd {
    /// Behind the last whole chunk, bytes.
    length: u64,
    next_definition: u64,
}

impl CaptureEnd {
    /// Where this capture ends.
    pub(crate) fn of(reader: &CaptureReader) -> Self {
        Self { length: reader.valid_length(), next_definition: reader.next_definition_sequence() }
    }

    /// Bytes of the file up to there.
    #[cfg(target_os = "linux")]
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// It ends there now: chunks were added that are no definitions.
    #[cfg(target_os = "linux")]
    pub(crate) fn move_to(&mut self, length: u64) {
        self.length = length;
    }

    /// Adds definitions to the end of the capture file, and moves on to the new end.
    ///
    /// # Errors
    ///
    /// When the file refuses them; it is whole up to the end that was.
    pub(crate) fn append(
        &mut self,
        mut file: File,
        definitions: impl Iterator<Item = Definition>,
    ) -> Result<()> {
        file.set_len(self.length).context("cannot cut the capture behind its last chunk")?;
        file.seek(SeekFrom::Start(self.length)).context("cannot go to the end of the capture")?;
        let mut writer = CaptureWriter::append(file, self.next_definition);
        for definition in definitions {
            writer.define(&definition).context("cannot add to the capture")?;
        }
        let next_definition = writer.next_definition_sequence();
        let mut file = writer.finish().context("cannot add to the capture")?;
        *self = Self { length: file.stream_position()?, next_definition };
        Ok(())
    }
}

/// A larger profile is more than browsers take: their longest text has half a gigabyte.
const LARGEST_JSON: u64 = 500_000_000;

/// Which part of a session is exported, and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// This part of the recording.
    pub(crate) range: TimeRange,
    /// Only these processes.
    pub(crate) process: Option<ProcessFilter>,
    /// All processes, also where the recording was of some.
    pub(crate) all: bool,
    /// In Firefox profiles, each switch and wakeup as a marker.
    pub(crate) sched_markers: bool,
    /// The stacks of a picture.
    pub(crate) stacks: StackKind,
    /// Also what idle CPUs and threads without work have of them.
    pub(crate) idle: bool,
    /// Event loops that are away for longer are told.
    pub(crate) loop_limit: LoopLimit,
    /// How a Tracy file is written.
    pub(crate) tracy: TracyOptions,
}

/// The processes to show: those asked for; else, unless it is to be all, those
/// that the recording is of (`-p`). Of others it has only what concerns these.
pub(crate) fn focus(
    process: Option<ProcessFilter>,
    all: bool,
    session: &impl Recording,
) -> Option<ProcessFilter> {
    let info = session.info();
    process.or_else(|| {
        (!all && session.machines() == 1 && !info.filter_pids.is_empty())
            .then(|| ProcessFilter::Family(Family::new(info.filter_pids.clone())))
    })
}

impl Selection {
    fn stack_options(&self) -> StackOptions {
        StackOptions { kind: self.stacks, process: self.process.clone(), idle: self.idle }
    }

    /// Which part it is, in words with a space before; nothing for all.
    fn words(&self) -> String {
        let process = self
            .process
            .as_ref()
            .map_or_else(String::new, |process| format!(" of process {process}"));
        process + &self.range.words()
    }
}

/// Writes the session in a viewer's format.
///
/// # Errors
///
/// [`Abandoned`], or what the output says.
pub(crate) fn export<R: Recording>(
    session: &mut R,
    (format, out): (Format, &mut dyn Write),
    selection: &Selection,
    abandon: &Abandon,
    terminal: &Terminal,
) -> Result<Played> {
    let process = focus(selection.process.clone(), selection.all, session);
    let selection = &Selection { process, ..selection.clone() };
    match format {
        Format::Syscap => bail!("a capture is exported from, not to"),
        Format::Pftrace => {
            let exporter = PerfettoExporter::new(out)
                .only(selection.process.clone())
                .with_loop_limit(selection.loop_limit);
            let (played, exporter) = play(session, exporter, selection, abandon, terminal)?;
            exporter.finish()?;
            Ok(played)
        }
        Format::JsonGz | Format::Json => {
            let Selection { sched_markers, process, loop_limit, .. } = selection.clone();
            let gzip = format == Format::JsonGz;
            let options = FirefoxOptions { gzip, sched_markers, process, loop_limit };
            let (played, exporter) =
                play(session, FirefoxExporter::new(out, options), selection, abandon, terminal)?;
            announce_size(exporter.expected_bytes(), selection);
            exporter.finish()?;
            Ok(played)
        }
        Format::PbGz => {
            let exporter = PprofExporter::new(out, selection.process.clone());
            let (played, exporter) = play(session, exporter, selection, abandon, terminal)?;
            check_drawn(exporter.is_empty(), session.info(), selection)?;
            exporter.finish()?;
            Ok(played)
        }
        Format::Svg => {
            let exporter = FlamegraphExporter::new(out, selection.stack_options());
            let (played, exporter) = play(session, exporter, selection, abandon, terminal)?;
            check_drawn(exporter.is_empty(), session.info(), selection)?;
            exporter.finish()?;
            Ok(played)
        }
        Format::Folded => {
            let exporter = FoldedExporter::new(out, selection.stack_options());
            let (played, exporter) = play(session, exporter, selection, abandon, terminal)?;
            check_drawn(exporter.is_empty(), session.info(), selection)?;
            exporter.finish()?;
            Ok(played)
        }
        Format::Tracy => {
            let exporter =
                TracyExporter::new(out).only(selection.process.clone()).with(selection.tracy);
            let (played, exporter) = play(session, exporter, selection, abandon, terminal)?;
            for cut in exporter.cuts() {
                eprint_line!("syscollect: not in the file: {cut}");
            }
            exporter.finish()?;
            Ok(played)
        }
    }
}

/// A file that was exported and does not have its name yet.
pub(crate) struct ExportedDraft {
    pub(crate) draft: DraftFile,
    pub(crate) bytes: u64,
    pub(crate) played: Played,
    pub(crate) lost: Lost,
}

/// Writes the whole session into a new file in a viewer's format.
///
/// # Errors
///
/// [`Abandoned`], or what the output says.
pub(crate) fn export_file<R: Recording>(
    session: &mut R,
    (target, format): (&Target, Format),
    abandon: &Abandon,
    terminal: &Terminal,
) -> Result<ExportedDraft> {
    let draft = target.draft()?;
    let out = (format, &mut draft.file() as &mut dyn Write);
    let played = export(session, out, &Selection::default(), abandon, terminal)
        .with_context(|| format!("cannot export to {}", target.path().display()))?;
    let bytes = draft.file().metadata()?.len();
    let lost = Lost::read(session, &played);
    Ok(ExportedDraft { draft, bytes, played, lost })
}

/// Reads every event once and writes nothing: afterwards the session knows what it lost.
///
/// # Errors
///
/// [`Abandoned`].
pub(crate) fn read<R: Recording>(
    session: &mut R,
    abandon: &Abandon,
    terminal: &Terminal,
) -> Result<Played> {
    let bar = terminal.work("reading", session.expected_events());
    session.play(&mut WatchedExporter {
        inner: NullExporter::new(),
        events: 0,
        process: None,
        bar,
        abandon,
    })
}

/// Says how long a Firefox profile will be, before one is written that no browser opens.
fn announce_size(bytes: u64, selection: &Selection) {
    if bytes > LARGEST_JSON {
        let markers = if selection.sched_markers { "leave out --sched-markers, or " } else { "" };
        eprint_line!(
            "syscollect: the profile will have about {} of JSON, and browsers open no more than \
             about {}: {markers}cut it with --from, --to or --process",
            syscollect_model::bytes(bytes),
            syscollect_model::bytes(LARGEST_JSON)
        );
    }
}

/// A picture of nothing is no result: says why it would be empty, and what to do.
fn check_drawn(is_empty: bool, info: &SessionInfo, selection: &Selection) -> Result<()> {
    if !is_empty {
        return Ok(());
    }
    let (what, stacks) = match selection.stacks {
        StackKind::OnCpu => ("CPU samples with stacks", StackOrigin::Samples),
        StackKind::OffCpu => ("stacks of threads that blocked", StackOrigin::OffCpu),
        StackKind::Wakers => ("stacks of who woke others", StackOrigin::Wakers),
        StackKind::Probes => ("stacks of probes, functions and zones", StackOrigin::Probes),
    };
    let part = selection.words();
    let taken = stacks != StackOrigin::Samples || info.sample_rate_hz > 0;
    let way = match (info.stacks.contains(&stacks), taken, part.is_empty()) {
        (false, ..) => format!("record with --stacks {stacks}"),
        (_, false, _) => "record with --freq above 0".to_owned(),
        (_, _, false) => "choose another part, or all of it".to_owned(),
        (_, _, true) => {
            let others = info.stacks.iter().filter(|asked| **asked != stacks);
            let others: Vec<&str> = others.map(StackOrigin::name).collect();
            match others.is_empty() {
                true => "record for longer, while programs run".to_owned(),
                false => format!("what there may be is of --stacks {}", others.join(" or ")),
            }
        }
    };
    bail!("the recording has no {what}{part}, so the result would be empty: {way}")
}

/// Plays the session into an exporter, as far as the user wants.
fn play<E, R: Recording>(
    session: &mut R,
    inner: E,
    selection: &Selection,
    abandon: &Abandon,
    terminal: &Terminal,
) -> Result<(Played, E)>
where
    E: Exporter,
    E::Error: std::error::Error + Send + Sync + 'static,
{
    let (from, to) = selection.range.of(session)?;
    let process = selection.process.clone();
    let bar = terminal.work("exporting", session.expected_events());
    let mut watched = WatchedExporter { inner, events: 0, process, bar, abandon };
    let played = session.play_range(&mut watched, from, to)?;
    if played.events == 0 && selection.range.is_part() {
        let length = session.summary().map_or_else(String::new, |summary| {
            format!(": the recording has {}", syscollect_model::duration(summary.duration_ns))
        });
        bail!("nothing was recorded{}{length}", selection.range.words());
    }
    Ok((played, watched.inner))
}

/// Events that a capture holds, as its chunks count them: with the records that
/// restate the current task, so a few more than playing it finds.
pub(crate) fn stored_events(reader: &CaptureReader) -> u64 {
    let lanes = reader.lanes().into_iter().filter(|lane| lane.kind.traits().events);
    lanes.flat_map(|lane| reader.chunks(lane)).map(|chunk| u64::from(chunk.records)).sum()
}

fn has_process(process: &ProcessFilter, tables: &Tables) -> bool {
    let mut processes = (0..tables.processes.len() as u32).map(ProcessId);
    processes.any(|id| process.matches(id, tables))
}

/// An exporter that shows how far it is and may be abandoned.
struct WatchedExporter<'a, E> {
    inner: E,
    events: u64,
    /// The processes that were asked for.
    process: Option<ProcessFilter>,
    bar: ExportBar,
    abandon: &'a Abandon,
}

impl<E> Exporter for WatchedExporter<'_, E>
where
    E: Exporter,
    E::Error: std::error::Error + Send + Sync + 'static,
{
    type Error = anyhow::Error;

    fn begin(&mut self, tables: &Tables) -> Result<()> {
        Ok(self.inner.begin(tables)?)
    }

    #[inline]
    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<()> {
        if self.events.is_multiple_of(EVENTS_PER_LOOK) {
            if self.abandon.wanted() {
                bail!(Abandoned);
            }
            self.bar.position(self.events);
        }
        self.events += 1;
        Ok(self.inner.event(time, event, tables)?)
    }

    #[inline]
    fn before(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<()> {
        Ok(self.inner.before(time, event, tables)?)
    }

    #[inline]
    fn after(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<()> {
        Ok(self.inner.after(time, event, tables)?)
    }

    fn end(
        &mut self,
        losses: &[Loss],
        recorder: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Result<()> {
        if let Some(process) = self.process.as_ref().filter(|process| !has_process(process, tables))
        {
            bail!(
                "no process {process} is in the recording: `syscollect report` lists the busiest"
            );
        }
        Ok(self.inner.end(losses, recorder, tables)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::Symbol;

    #[test]
    fn what_is_known_by_ranges_alone_is_named_again_unless_that_takes_too_long() {
        assert_eq!(named_paths(&[table("/a", false, 0), table("/b", true, 0)]), ["/a"]);
        assert_eq!(named_paths(&[table("/a", true, 1), SymbolTable::default()]), ["", "/a"]);
        let parts = [table("/a", false, 0), table("/a", true, 0), table("/a", false, 0)];
        assert!(named_paths(&parts).is_empty(), "one part of a table speaks for the module");
    }

    fn table(path: &str, range_only: bool, unfinished: u64) -> SymbolTable {
        SymbolTable {
            path: path.into(),
            unfinished,
            symbols: vec![Symbol { range_only, ..Symbol::default() }],
            ..SymbolTable::default()
        }
    }

    fn named_paths(tables: &[SymbolTable]) -> Vec<String> {
        let named = named(tables.iter().cloned());
        let mut paths: Vec<_> = named.into_iter().map(|(path, _)| path).collect();
        paths.sort();
        paths
    }

    #[test]
    fn what_has_names_is_not_named_again_and_what_was_abandoned_is() {
        let kernel = "[kernel.kallsyms]";
        let named = [("/a".into(), id(1)), (kernel.into(), id(9))].into_iter().collect();
        let later = NamingScope { same_kernel: true, named, ..NamingScope::default() };
        assert!(!later.is(&module("/a", id(1), false)));
        assert!(later.is(&module("/a", id(2), false)) && later.is(&module("/b", id(1), false)));
        assert!(!later.is(&module("/c", BuildId::default(), false)), "it may be another file");
        assert!(!later.is(&module(kernel, BuildId::default(), true)));
        let first = NamingScope::now(false);
        assert!(first.is(&module(kernel, BuildId::default(), true)));
        assert!(first.is(&module("/c", BuildId::default(), false)));
        let elsewhere = NamingScope { same_kernel: false, ..first };
        assert!(!elsewhere.is(&module(kernel, BuildId::default(), true)));
    }

    fn id(byte: u8) -> BuildId {
        BuildId::from_bytes(&[byte; 20])
    }

    fn module(path: &str, build_id: BuildId, kernel: bool) -> UnresolvedModule {
        UnresolvedModule { path: path.into(), build_id, kernel, ..UnresolvedModule::default() }
    }
}
