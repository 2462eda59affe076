//! Stacks of programs as distributions' packages have them: how many are whole, and how many frames
//! have a name of those for which the machine has a symbol anywhere.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;
use syscollect_merge::Session;
use syscollect_model::{
    Event, Exporter, FrameId, ModuleId, ModuleKind, StackCut, StackId, Tables, ThreadId, Time,
};
use syscollect_playback::Recording as _;
use syscollect_store::CaptureReader;

use super::figures::{ALL_KINDS, KINDS, Share, record, share};
use super::known_symbols::SymbolRanges;
use super::stacks::PROGRAMS;
use crate::privileged::chains::stacks::StackKind;
use crate::privileged::context::Context;
use crate::privileged::unwinding_oracle::servers::Server;
use crate::process::root;

/// Causes and modules that are shown at most.
const SHOWN: usize = 6;

/// A program of which little is known but that it is installed on many machines.
struct InstalledProgram {
    title: &'static str,
    /// What its process is called.
    process: &'static str,
    /// For `sh`, in this repository's folder; `$DIR` is one to write to.
    script: &'static str,
}

/// Besides those of [`PROGRAMS`] that are not built here.
const OTHERS: [InstalledProgram; 7] = [
    InstalledProgram {
        title: "Node, `--perf-basic-prof`",
        process: "node",
        script: "node --perf-basic-prof --interpreted-frames-native-stack -e 'let s = 0; \
                 for (let i = 0; i < 900; i++) \
                 { s += JSON.stringify(Array.from({length: 3000}, (_, n) => ({n}))).length }'",
    },
    InstalledProgram {
        title: "git",
        process: "git",
        script: "git log -p -n 400 | cat; git blame README.md",
    },
    InstalledProgram {
        title: "g++",
        process: "cc1plus",
        script: "c++ -O2 -c -o $DIR/deep.o xtask/src/bench/programs/deep.cpp",
    },
    InstalledProgram {
        title: "SQLite",
        process: "sqlite3",
        script: "sqlite3 :memory: 'with recursive n(i) as (select 1 union all select i + 1 from n \
                 where i < 500000) select i % 100, sum(i % 7), max(hex(i)) from n group by 1'",
    },
    InstalledProgram { title: "sort", process: "sort", script: "seq 400000 | sort -R | sort -n" },
    InstalledProgram {
        title: "PHP",
        process: "php",
        script: "php -r 'for ($n = 0; $n < 300; $n++) { $a = range(1, 3000); shuffle($a); \
                 usort($a, fn($x, $y) => $x <=> $y); json_encode($a); preg_replace(\"/1+/\", \"a\", \
                 implode(\",\", $a)); }'",
    },
    InstalledProgram {
        title: "Ruby",
        process: "ruby",
        script: "ruby -e '200.times { |n| a = (1..4000).map { |i| (i * n).to_s }; a.sort.join(\",\")\
                 .gsub(/1+/, \"a\"); a.group_by(&:size) }'",
    },
];

/// Servers, which run all the time, by what their processes are called.
const SERVERS: [(&str, &str); 3] =
    [("PostgreSQL", "postgres"), ("Redis", "redis-server"), ("nginx", "nginx")];

/// Records all that are installed, one after another, and prints what came of it as Markdown.
pub(super) fn run(context: &Context, folder: &Path) -> Result<String> {
    let capture = context.path("packages.syscap");
    let (servers, _) = Server::all()?;
    record(context, &capture, &ALL_KINDS, || {
        for program in PROGRAMS.iter().filter(|program| program.build.is_none()) {
            if program.is_there(folder)? {
                program.cpu_ns(folder)?;
            }
        }
        for program in &OTHERS {
            program.run(folder)?;
        }
        servers.iter().try_for_each(Server::load)
    })?;
    let mut packages = Packages::default();
    Session::open(CaptureReader::open(&capture)?)?.play(&mut packages)?;
    let table = packages.table(&context.path_of(""))?;
    packages.remove_perf_maps();
    Ok(table)
}

impl InstalledProgram {
    /// Runs it, if it is there: that others are is enough.
    fn run(&self, folder: &Path) -> Result<()> {
        let mut command = Command::new("sh");
        command.args(["-c", self.script]).env("DIR", folder).current_dir(root());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        Ok(())
    }
}

/// What processes of that name are called in tables; `None` for all others.
fn title_of(process: &str) -> Option<&'static str> {
    let known = PROGRAMS.iter().filter(|program| program.build.is_none());
    let known = known.map(|program| (program.title, program.comm));
    let known = known.chain(OTHERS.iter().map(|program| (program.title, program.process)));
    known.chain(SERVERS).find(|(_, comm)| *comm == process).map(|(title, _)| title)
}

/// The stacks of all of them.
#[derive(Debug, Default)]
struct Packages {
    programs: BTreeMap<&'static str, PackageStacks>,
    /// Processes whose lists of what they made may be there.
    processes: BTreeSet<u32>,
}

/// Those of one program.
#[derive(Debug, Default)]
struct PackageStacks {
    /// By kind: whole ones, of how many.
    whole: BTreeMap<StackKind, Share>,
    /// By cause, and the last function that there is, or its module.
    cut: BTreeMap<(&'static str, String), u64>,
    /// Places in code, and how often each was in a stack.
    places: HashMap<CodePlace, u64>,
}

/// A place in code, and whether the recording has a name for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CodePlace {
    code: CodeSource,
    offset: u64,
    is_named: bool,
}

/// Where code is that symbols are looked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum CodeSource {
    File(PathBuf),
    Kernel,
    /// Made by this process, or of no mapping that is known.
    Generated(u32),
    /// What Linux maps into every process, and files in memory.
    Other(String),
}

/// Frames of which the machine has symbols: how many have a name, and what lacks one.
#[derive(Debug, Default)]
struct NamedFrames {
    /// Of those for which there is a symbol.
    with_symbol: Share,
    all: Share,
    missed: BTreeMap<CodeSource, Share>,
}

impl NamedFrames {
    fn add(&mut self, place: &CodePlace, count: u64, has_symbol: bool) {
        let named = if place.is_named { count } else { 0 };
        self.all = (self.all.0 + named, self.all.1 + count);
        if !has_symbol {
            return;
        }
        self.with_symbol = (self.with_symbol.0 + named, self.with_symbol.1 + count);
        let missed = self.missed.entry(place.code.clone()).or_default();
        *missed = (missed.0 + count - named, missed.1 + count);
    }

    fn join(&mut self, other: &Self) {
        for (all, one) in [(&mut self.with_symbol, other.with_symbol), (&mut self.all, other.all)] {
            *all = (all.0 + one.0, all.1 + one.1);
        }
        for (code, (missed, count)) in &other.missed {
            let all = self.missed.entry(code.clone()).or_default();
            *all = (all.0 + missed, all.1 + count);
        }
    }
}

impl Packages {
    fn add(&mut self, kind: StackKind, thread: ThreadId, stack: StackId, tables: &Tables) {
        let process = tables.process(tables.thread(thread).process);
        let Some(title) = title_of(tables.strings.get(process.name)) else { return };
        self.processes.insert(process.pid);
        let program = self.programs.entry(title).or_default();
        let frames = tables.stack(stack);
        let cut = frames.last().and_then(|frame| tables.truncated_by(*frame));
        let (whole, all) = program.whole.entry(kind).or_default();
        *whole += u64::from(cut.is_none());
        *all += 1;
        if let Some(cut) = cut {
            let place = place_of_cut(cut, frames, tables);
            *program.cut.entry((cut.reason(), place)).or_default() += 1;
        }
        for frame in frames.iter().filter(|frame| !tables.is_truncation(**frame)) {
            if let Some(place) = CodePlace::of(*frame, process.pid, tables) {
                *program.places.entry(place).or_default() += 1;
            }
        }
    }

    fn table(&self, scratch: &Path) -> Result<String> {
        let mut symbols = Symbols { scratch, known: HashMap::new() };
        let mut out = String::from(
            "| package | samples, whole | off-CPU stacks, whole | wakers' stacks, whole | frames \
             with a name, of those for which the machine has a symbol | of all |\n\
             |---|---|---|---|---|---|\n",
        );
        let mut all = (BTreeMap::<StackKind, Share>::new(), NamedFrames::default());
        for (title, stacks) in &self.programs {
            let mut named = NamedFrames::default();
            for (place, count) in &stacks.places {
                named.add(place, *count, symbols.has(place)?);
            }
            out += &row(title, &stacks.whole, &named);
            all.1.join(&named);
            for (kind, (whole, of)) in &stacks.whole {
                let total = all.0.entry(*kind).or_default();
                *total = (total.0 + whole, total.1 + of);
            }
        }
        out += &row("all", &all.0, &all.1);
        writeln!(out, "\nWithout a name though there is a symbol: {}", missed(&all.1))?;
        writeln!(out, "\nCut: {}", self.cut())?;
        Ok(out)
    }

    /// What cuts most, of each program.
    fn cut(&self) -> String {
        let programs = self.programs.iter().filter(|(_, stacks)| !stacks.cut.is_empty());
        let programs = programs.map(|(title, stacks)| {
            let mut cut: Vec<_> = stacks.cut.iter().collect();
            cut.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let cut = cut.into_iter().take(SHOWN);
            let cut = cut.map(|((why, place), count)| format!("{count} {why}: {place}"));
            format!("{title}: {}", cut.collect::<Vec<_>>().join("; "))
        });
        programs.collect::<Vec<_>>().join(". ")
    }

    fn remove_perf_maps(&self) {
        for process in &self.processes {
            // Most have none.
            let _ = fs::remove_file(perf_map(*process));
        }
    }
}

fn row(title: &str, whole: &BTreeMap<StackKind, Share>, named: &NamedFrames) -> String {
    let whole = KINDS.map(|kind| share(whole.get(&kind).copied().unwrap_or_default()));
    let (with_symbol, all) = (share(named.with_symbol), share(named.all));
    format!("| {title} | {} | {with_symbol} | {all} |\n", whole.join(" | "))
}

/// The code with most such frames.
fn missed(named: &NamedFrames) -> String {
    let mut missed: Vec<_> = named.missed.iter().filter(|(_, (missed, _))| *missed > 0).collect();
    missed.sort_by_key(|(_, (missed, _))| std::cmp::Reverse(*missed));
    let each = missed.into_iter().take(SHOWN);
    let each = each.map(|(code, (missed, all))| format!("{missed} of {all} in {code:?}"));
    let each: Vec<_> = each.collect();
    if each.is_empty() { "none".to_owned() } else { each.join("; ") }
}

/// Where a stack is cut: the last function, or the file that it is a matter of.
fn place_of_cut(cut: StackCut, frames: &[FrameId], tables: &Tables) -> String {
    let is_of_files = matches!(cut, StackCut::NoTableYet | StackCut::BeyondMemory);
    let path = |module: ModuleId| tables.strings.get(tables.module(module).path).to_owned();
    let last = frames.iter().rev().nth(1).map(|frame| (frame, tables.frame(*frame)));
    last.map_or_else(String::new, |(id, frame)| match frame.module {
        Some(module) if frame.is_unnamed() || is_of_files => path(module),
        _ => tables.frame_label(*id),
    })
}

impl CodePlace {
    /// `None` for what is no machine code of its own: functions of Python, and what is inlined.
    fn of(frame: FrameId, pid: u32, tables: &Tables) -> Option<Self> {
        let frame = tables.frame(frame);
        let module = frame.module.map(|module| tables.module(module));
        let path = module.map_or("", |module| tables.strings.get(module.path));
        let code = match module.map(|module| module.kind) {
            Some(ModuleKind::Python | ModuleKind::DotNet) => return None,
            Some(ModuleKind::File) => CodeSource::File(path.into()),
            Some(ModuleKind::Kernel | ModuleKind::KernelModule) => CodeSource::Kernel,
            Some(ModuleKind::Vdso | ModuleKind::MemoryFile) => CodeSource::Other(path.to_owned()),
            Some(ModuleKind::Generated) | None => CodeSource::Generated(pid),
        };
        (!frame.inlined).then(|| Self { code, offset: frame.offset, is_named: !frame.is_unnamed() })
    }
}

/// Symbols by where they are, read when they are asked for.
struct Symbols<'a> {
    scratch: &'a Path,
    known: HashMap<CodeSource, SymbolRanges>,
}

impl Symbols<'_> {
    fn has(&mut self, place: &CodePlace) -> Result<bool> {
        if !self.known.contains_key(&place.code) {
            self.known.insert(place.code.clone(), self.read(&place.code)?);
        }
        Ok(self.known.get(&place.code).is_some_and(|symbols| symbols.has(place.offset)))
    }

    fn read(&self, code: &CodeSource) -> Result<SymbolRanges> {
        match code {
            CodeSource::File(path) if path.exists() => SymbolRanges::of_file(path, self.scratch),
            CodeSource::Kernel => SymbolRanges::of_kernel(),
            CodeSource::Generated(pid) => Ok(SymbolRanges::of_perf_map(&perf_map(*pid))),
            CodeSource::File(_) | CodeSource::Other(_) => Ok(SymbolRanges::default()),
        }
    }
}

/// Where a process lists what it made.
fn perf_map(pid: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/perf-{pid}.map"))
}

impl Exporter for Packages {
    type Error = Infallible;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        if let Some((kind, thread, stack)) = StackKind::of(event) {
            self.add(kind, thread, stack, tables);
        }
        Ok(())
    }
}
