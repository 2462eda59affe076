//! `syscollect symbolize`: a capture gets the names that it lacks, on any machine.

use crate::confine;
use crate::convert::{self, CaptureEnd, FoundNames, NamingScope};
use crate::escape::printable;
use crate::output::Target;
use crate::owner::Owner;
use crate::signals::{self, Abandon};
use crate::source;
use crate::symbol_files::SymbolFileOptions;
use crate::terminal::Terminal;
use crate::usage::usage;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use syscollect_merge::Session;
use syscollect_model::{BuildId, SymbolTable, grouped};
use syscollect_playback::{Recording, UnresolvedModule};
use syscollect_store::{CaptureReader, Damage, Definition};
use syscollect_symbolize::PinnedFiles;

const EXAMPLES: &str = "\
Examples:
  syscollect symbolize x.syscap --symbols target/release     programs that were built here
  syscollect symbolize x.syscap --symbols /srv/debug -o named.syscap
  syscollect symbolize x.syscap --symbols app.debug          one debug file
  syscollect symbolize x.syscap --debuginfod                 what servers have (DEBUGINFOD_URLS)
  syscollect symbolize x.syscap                              what this machine itself has

A file gives names only to modules of its own build id. The capture is written
anew and takes the old one's place when it is whole; what was recorded stays as
it is, names are added. Where names were missing and none was found, the exit
code is 1.";

/// So many modules without names are told of one by one.
const TOLD_MAX: usize = 10;

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The capture (.syscap, or a .syscap.partial of a recording that was cut off)
    #[arg(value_name = "CAPTURE")]
    capture: PathBuf,

    /// Write to this file, and leave the capture as it is
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace the output if it exists
    #[arg(long, requires = "output")]
    force: bool,

    /// Tell of every module without names, not only of the ten that are missed most
    #[arg(long)]
    list_unnamed: bool,

    #[command(flatten)]
    files: SymbolFileOptions,
}

/// Runs the sub-command.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    confine::to_reading(args.files.asks_servers());
    let capture = &args.capture;
    args.files.check()?;
    if args.output.as_ref().is_some_and(|output| source::is_same_file(capture, output)) {
        return Err(usage("leave out -o to add names to the capture itself".into()).into());
    }
    let abandon = signals::watch_writing()?;
    source::check_no_pipe(capture)?;
    #[expect(clippy::disallowed_methods, reason = "the capture, which the user names")]
    let file = File::open(capture).with_context(|| format!("cannot open {}", capture.display()))?;
    let target = target(args, &file)?;
    // By its path, so that messages have it.
    let reader = CaptureReader::open(capture)?;
    let session = Session::open(reader)
        .with_context(|| format!("nothing in {} can be read", capture.display()))?;
    if args.output.is_none()
        && session.reader().damage().iter().any(|damage| matches!(damage, Damage::Another { .. }))
    {
        bail!(
            "{} holds another capture behind its own, which names would take the place of: write \
             to another file (-o)",
            capture.display()
        );
    }
    let missing = session.unresolved();
    let named = name(&session, &args.files, &abandon)?;
    let additions = additions(named.tables.clone(), session.reader());
    let end = CaptureEnd::of(session.reader());
    drop(session);
    if args.output.is_some() || !additions.is_empty() {
        confine::to_exporting(target.owner_of_folder());
        write(&file, end, additions, &target, args.output.is_none())
            .with_context(|| format!("cannot write {}", target.path().display()))?;
    }
    let outcome = NamingOutcome::of(&missing, &named);
    for line in outcome.lines(&target.path(), args.list_unnamed, args.output.is_some()) {
        // A capture may name its modules anything.
        eprint_line!("syscollect: {}", printable(&line));
    }
    // What was asked for are names.
    Ok(match outcome.missing > 0 && outcome.named == 0 {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// Where it is written: over the capture, unless somewhere else was asked for.
fn target(args: &Args, capture: &File) -> Result<Target> {
    match &args.output {
        Some(output) => Target::new(output, args.force, Owner::behind_sudo()),
        None => Target::new(&args.capture, true, Owner::to_keep(capture)),
    }
}

fn name(session: &Session, files: &SymbolFileOptions, abandon: &Abandon) -> Result<FoundNames> {
    let nameable = NamingScope::anew(session.info(), session.reader());
    let from = (PinnedFiles::new(), Some(session.reader()));
    convert::name(session, from, &nameable, files, abandon, &Terminal::stderr())
}

/// What of `tables` the capture does not have yet.
fn additions(mut tables: Vec<SymbolTable>, reader: &CaptureReader) -> Vec<SymbolTable> {
    if tables.iter().any(SymbolTable::has_ranges_only) {
        let known: HashSet<_> = reader
            .definitions()
            .filter_map(|definition| match definition {
                Ok(Definition::Symbols(table)) => Some(ranges_of(&table)),
                _ => None,
            })
            .flatten()
            .collect();
        for table in &mut tables {
            let module = (table.path.clone(), table.build_id.clone());
            table.symbols.retain(|symbol| {
                !symbol.range_only || !known.contains(&(module.clone(), symbol.offset))
            });
        }
    }
    tables.retain(|table| !table.symbols.is_empty());
    tables
}

/// The module and the place of each function of which only the range is known.
fn ranges_of(table: &SymbolTable) -> Vec<((String, BuildId), u64)> {
    let module = (table.path.clone(), table.build_id.clone());
    let ranges = table.symbols.iter().filter(|symbol| symbol.range_only);
    ranges.map(|symbol| (module.clone(), symbol.offset)).collect()
}

/// Writes the capture up to its end and the names behind it, under another name until it is whole.
fn write(
    mut capture: &File,
    mut end: CaptureEnd,
    names: Vec<SymbolTable>,
    target: &Target,
    in_place: bool,
) -> Result<()> {
    let draft = target.draft()?;
    capture.seek(SeekFrom::Start(0))?;
    std::io::copy(&mut capture.take(end.length()), &mut draft.file())?;
    end.append(draft.file().try_clone()?, names.into_iter().map(Definition::Symbols))?;
    if in_place {
        draft.file().set_permissions(capture.metadata()?.permissions())?;
    }
    // The old one goes when this one would outlast a power cut.
    draft.file().sync_all()?;
    draft.publish(target)?;
    Ok(())
}

/// What was named, and what was not.
#[derive(Debug, Default)]
struct NamingOutcome {
    /// Distinct frames that had no names.
    missing: usize,
    named: usize,
    /// Modules with a name that they had not.
    modules_named: usize,
    /// Frames that are left, by what they lie in; the most missed first.
    left: Vec<UnnamedFrames>,
}

/// Frames of a module that are still without a name.
#[derive(Debug)]
struct UnnamedFrames {
    what: String,
    frames: usize,
    why: String,
    help: Help,
}

/// What would give names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Help {
    SymbolFile,
    Relink,
    SameBoot,
    Recording,
    Nothing,
}

impl NamingOutcome {
    fn of(missing: &[UnresolvedModule], named: &FoundNames) -> Self {
        let mut outcome = Self::default();
        let mut tables: BTreeMap<(&str, &BuildId), Vec<&SymbolTable>> = BTreeMap::new();
        let none = BuildId::default();
        for table in &named.tables {
            let is_kernel = missing.iter().any(|m| m.kernel && m.path == table.path);
            let build_id = if is_kernel { &none } else { &table.build_id };
            tables.entry((table.path.as_str(), build_id)).or_default().push(table);
        }
        // One row for all memory in which programs made code.
        let mut generated = 0;
        for module in missing {
            let of_module = tables.get(&(module.path.as_str(), &module.build_id));
            let of_module = of_module.filter(|_| module.memory.is_none());
            let symbols = of_module.into_iter().flatten().flat_map(|table| &table.symbols);
            let names: HashSet<u64> =
                symbols.filter(|s| !s.range_only).map(|symbol| symbol.offset).collect();
            outcome.missing += module.offsets.len();
            outcome.named += names.len();
            outcome.modules_named += usize::from(!names.is_empty());
            let frames = module.offsets.len().saturating_sub(names.len());
            if module.memory.is_some() {
                generated += frames;
            } else if frames > 0 {
                let note = of_module.and_then(|tables| tables.last()).map(|table| &*table.note);
                let (why, help) = why(module, named, !names.is_empty(), note);
                outcome.left.push(UnnamedFrames { what: module.path.clone(), frames, why, help });
            }
        }
        if generated > 0 {
            let (what, why) = ("code that programs made while they ran", "no program listed it");
            let (what, why, help) = (what.into(), why.into(), Help::Recording);
            outcome.left.push(UnnamedFrames { what, frames: generated, why, help });
        }
        outcome.left.sort_by_key(|left| std::cmp::Reverse(left.frames));
        outcome
    }

    fn lines(&self, path: &Path, all: bool, is_copy: bool) -> Vec<String> {
        let Self { missing, named, modules_named, left } = self;
        let path = path.display();
        if *missing == 0 {
            return vec![format!("every frame of {path} has a name already")];
        }
        let mut lines = vec![match (*named, is_copy) {
            (0, false) => format!("nothing was named: {path} is as it was"),
            (0, true) => format!("nothing was named: {path} has what the capture has"),
            _ => format!(
                "named {} of {} frames without names, in {}: {path}",
                number(*named),
                number(*missing),
                files(*modules_named)
            ),
        }];
        if left.is_empty() {
            return lines;
        }
        let frames: usize = left.iter().map(|left| left.frames).sum();
        lines.push(format!("still without a name: {} of {}", frames_of(frames), files(left.len())));
        let reported = if all { left.len() } else { TOLD_MAX };
        lines.extend(left.iter().take(reported).map(
            |UnnamedFrames { what, frames, why, .. }| {
                format!("  {what}, {}: {why}", frames_of(*frames))
            },
        ));
        if let Some(more) = left.len().checked_sub(reported).filter(|more| *more > 0) {
            lines.push(format!("  and {more} more: --list-unnamed lists them all"));
        }
        let mut helps: Vec<Help> = left.iter().map(|left| left.help).collect();
        helps.sort_unstable();
        helps.dedup();
        lines.extend(helps.into_iter().filter_map(Help::sentence).map(str::to_owned));
        lines
    }
}

fn number(count: usize) -> String {
    grouped(count as u64)
}

fn files(count: usize) -> String {
    if count == 1 { "1 file".into() } else { format!("{} files", grouped(count as u64)) }
}

fn frames_of(count: usize) -> String {
    if count == 1 { "1 frame".into() } else { format!("{} frames", grouped(count as u64)) }
}

/// Why a module's frames have no names, and what would give them some.
fn why(
    module: &UnresolvedModule,
    named: &FoundNames,
    in_part: bool,
    note: Option<&str>,
) -> (String, Help) {
    let UnresolvedModule { build_id, .. } = module;
    if module.kernel {
        match note {
            // Its names were not even looked for.
            None => {
                let why = "this is not the machine that recorded, since its last start";
                (why.into(), Help::SameBoot)
            }
            Some(note) if !in_part && !note.is_empty() => (note.into(), Help::Nothing),
            Some(_) => {
                let why = "modules or programs (BPF) that the kernel has no more, such as a killed \
                           recorder's";
                (why.into(), Help::Nothing)
            }
        }
    } else if build_id.is_empty() {
        ("it has no build id, by which files are told apart".into(), Help::Relink)
    } else if in_part {
        ("its symbols do not cover this code".into(), Help::Nothing)
    } else if named.files.has_symbols_of(build_id) {
        let note = note.filter(|note| !note.is_empty());
        (note.unwrap_or("its symbols do not cover this code").into(), Help::Nothing)
    } else {
        (format!("no symbols with its build id {build_id} were found"), Help::SymbolFile)
    }
}

impl Help {
    fn sentence(self) -> Option<&'static str> {
        match self {
            Self::SymbolFile => Some(
                "--symbols DIR looks for these in DIR: debug files, which distributions have in \
                 packages whose names end in -dbgsym, -dbg or -debuginfo, or programs before they \
                 were stripped; --debuginfod asks servers",
            ),
            Self::Relink => Some("linking a program with --build-id gives it one"),
            Self::SameBoot => Some(
                "the kernel's functions are named on the machine that recorded, before it starts \
                 again",
            ),
            Self::Recording => Some(
                "what programs make while they run is named by the recording alone, where they \
                 list it",
            ),
            Self::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::{ProgramMemory, Symbol, Ticks};

    fn module(path: &str, build_id: &[u8], frames: u64) -> UnresolvedModule {
        UnresolvedModule {
            path: path.into(),
            build_id: BuildId::from_bytes(build_id),
            offsets: (0..frames).collect(),
            ..UnresolvedModule::default()
        }
    }

    fn table(path: &str, build_id: &[u8], named: u64, ranges: u64) -> SymbolTable {
        SymbolTable {
            path: path.into(),
            build_id: BuildId::from_bytes(build_id),
            symbols: (0..named + ranges)
                .map(|offset| Symbol { offset, range_only: offset >= named, ..Symbol::default() })
                .collect(),
            ..SymbolTable::default()
        }
    }

    #[test]
    fn what_is_left_is_told_with_what_would_help() {
        let memory = Some(ProgramMemory { pid: 7, since: Ticks(0), until: None });
        let missing = [
            module("/bin/a", &[1], 1200),
            module("/bin/b", &[2], 30),
            module("/bin/c", &[], 2),
            UnresolvedModule { kernel: true, ..module("[kernel.kallsyms]", &[], 1) },
            UnresolvedModule { memory, ..module("[anonymous]", &[], 5) },
            UnresolvedModule { memory, ..module("[anonymous]", &[], 6) },
        ];
        let tables = vec![table("/bin/a", &[1], 1100, 100), table("/bin/b", &[2], 0, 30)];
        let named = FoundNames { tables, ..FoundNames::default() };
        let lines = NamingOutcome::of(&missing, &named).lines(Path::new("x.syscap"), false, false);
        let expected = [
            "named 1,100 of 1,244 frames without names, in 1 file: x.syscap",
            "still without a name: 144 frames of 5 files",
            "  /bin/a, 100 frames: its symbols do not cover this code",
            "  /bin/b, 30 frames: no symbols with its build id 02 were found",
            "  code that programs made while they ran, 11 frames: no program listed it",
            "  /bin/c, 2 frames: it has no build id, by which files are told apart",
            "  [kernel.kallsyms], 1 frame: this is not the machine that recorded, since its last \
             start",
        ];
        assert_eq!(lines[..7], expected);
        assert!(lines[7].starts_with("--symbols DIR") && lines.len() == 11, "{lines:?}");
    }

    #[test]
    fn what_the_kernel_that_recorded_has_no_more_is_no_other_machines() {
        let kernel = UnresolvedModule { kernel: true, ..module("[kernel.kallsyms]", &[], 3) };
        let other = lines_of(&kernel, Vec::new());
        assert!(other.contains("not the machine that recorded"), "{other}");
        // The kernel's tables carry its build id.
        for named in [0, 2] {
            let gone = lines_of(&kernel, vec![table("[kernel.kallsyms]", &[9], named, 0)]);
            assert!(gone.contains("the kernel has no more") && !gone.contains("machine"), "{gone}");
        }
        let note = "addresses are hidden: sysctl kernel.kptr_restrict=0".to_owned();
        let hidden = SymbolTable { note, ..table("[kernel.kallsyms]", &[9], 0, 0) };
        let hidden = lines_of(&kernel, vec![hidden]);
        assert!(hidden.contains("kptr_restrict=0") && !hidden.contains("machine"), "{hidden}");
    }

    #[test]
    fn a_capture_without_gaps_is_told_so_and_many_modules_are_not_all_listed() {
        let none =
            NamingOutcome::of(&[], &FoundNames::default()).lines(Path::new("x"), false, false);
        assert_eq!(none, ["every frame of x has a name already"]);
        let many: Vec<_> = (1..=12).map(|n| module(&format!("/{n}"), &[n], n.into())).collect();
        let outcome = NamingOutcome::of(&many, &FoundNames::default());
        let lines = outcome.lines(Path::new("x"), false, false);
        assert_eq!(lines[0], "nothing was named: x is as it was");
        assert_eq!(lines[2], "  /12, 12 frames: no symbols with its build id 0c were found");
        assert_eq!(lines[12], "  and 2 more: --list-unnamed lists them all");
        assert_eq!(outcome.lines(Path::new("x"), true, false).len(), 15);
    }

    fn lines_of(module: &UnresolvedModule, tables: Vec<SymbolTable>) -> String {
        let named = FoundNames { tables, ..FoundNames::default() };
        let outcome = NamingOutcome::of(std::slice::from_ref(module), &named);
        outcome.lines(Path::new("x.syscap.partial"), false, false).join("\n")
    }
}
