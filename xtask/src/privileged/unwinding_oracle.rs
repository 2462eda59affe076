//! User stacks of real programs, walked once more by another unwinder over the memory in which they
//! lay.

pub(crate) mod servers;

use std::collections::HashMap;
use std::fs::File;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use syscollect_capture::{RecordOptions, Recorded, Recording, StackCopy, Stacks, StacksInMemory};
use syscollect_merge::{ProcessCode, Session, Unwinder, UserStack};
use syscollect_model::{ModuleKind, StopReason};
use syscollect_playback::ModuleKey;
use syscollect_records::unwind::cfa_rule;
use syscollect_store::{CaptureReader, UnwoundStack};
use syscollect_symbolize::PinnedFiles;
use syscollect_tests::unwind_oracle::{OracleFile, OracleStep, OracleWalk};
use syscollect_unwind::{Registers, RowCache, StackMemory, UnwindFile};

use self::servers::Server;
use super::context::{Context, finish};

/// Bytes of code that the oracle is told of at once.
const CODE_BYTES: u64 = 4096;

/// Real programs of which every machine that builds this has some: interpreted, compiled, with
/// frame pointers and without.
const PROGRAMS: [&str; 6] = [
    "python3 -c 'import re, json, hashlib\n\
     for n in range(60): re.sub(\"a+b\", str, json.dumps({\"a\" * n: list(range(3000))})); \
     hashlib.sha256(bytes(200000)).digest(); sorted(map(str, range(3000)))'",
    "perl -e 'for (1..60) { my %h = map { $_ => \"x\" x ($_ % 50) } 1..4000; my $t = join(\",\", \
     sort keys %h); $t =~ s/1+/a/g }'",
    "seq 300000 | sort -R | sort -n | tail -1",
    "seq 400000 | xz -2 | xz -d | sha256sum",
    "echo 'fn main() { let mut all: Vec<String> = (0..9).map(|n| format!(\"{n:?}\")).collect(); \
     all.sort(); println!(\"{all:?}\"); }' | rustc -O --crate-name oracle -o /dev/null -",
    "node -e 'let s = 0; for (let i = 0; i < 300; i++) \
     { s += JSON.stringify(Array.from({length: 3000}, (_, n) => ({n}))).length }'",
];

/// So many callers are compared where this is set; a short run compares what two recordings bring.
const CALLERS: &str = "SYSCOLLECT_ORACLE_CALLERS";
/// Differences that are shown.
const SHOWN: usize = 5;

/// Every second stack that a recording of real programs brings is what framehop finds in the same
/// memory, as far as that has unwind information.
pub(crate) fn unwinding_oracle(context: &Context) -> Result<String> {
    let wanted = match std::env::var(CALLERS) {
        Ok(wanted) => wanted.parse().with_context(|| format!("{CALLERS}={wanted} is no number"))?,
        Err(_) => 0,
    };
    let (servers, missing) = Server::all()?;
    let mut found = StackComparison::default();
    let mut rounds = 0;
    while rounds == 0 || found.frames < wanted {
        found.add(recorded(context, run_programs)?);
        found.add(recorded(context, || servers.iter().try_for_each(Server::load))?);
        rounds += 1;
        let StackComparison { stacks, different, .. } = &found;
        ensure!(
            different.is_empty(),
            "{} of {stacks} stacks differ, such as:\n{}",
            different.len(),
            different[..different.len().min(SHOWN)].join("\n")
        );
        // Root's share of memory for stacks has room for some 200 of the longest at once on each
        // CPU.
        let least = if context.is_emulated() { 20 } else { 250 };
        ensure!(*stacks >= least * rounds, "only {stacks} stacks could be compared");
    }
    let StackComparison { stacks, frames, ends, .. } = found;
    let missing = match missing.as_slice() {
        [] => String::new(),
        missing => format!("; not installed: {}", missing.join(", ")),
    };
    Ok(format!(
        "{frames} callers in {stacks} stacks, {ends} of which up to their end: none \
         differs{missing}"
    ))
}

fn run_programs() -> Result<()> {
    for program in PROGRAMS {
        // One that is not there is no failure: others are.
        finish(Command::new("sh").args(["-c", &format!("{{ {program}; }} > /dev/null 2>&1")]))?;
    }
    Ok(())
}

/// Records the machine while `work` is done, and compares.
fn recorded(context: &Context, work: impl FnOnce() -> Result<()>) -> Result<StackComparison> {
    let capture = context.path("oracle.syscap");
    let options = RecordOptions {
        sample_rate_hz: 999,
        stacks: Stacks { samples: true, offcpu: true, wakers: true, ..Stacks::default() },
        cross_check_every: 2,
        ..RecordOptions::default()
    };
    let recording = Recording::start(options, File::create(&capture)?)?;
    let worked = work();
    let Recorded { pinned, stacks, .. } = recording.stop(StopReason::Command)?;
    worked?;
    let mut oracle = Oracle {
        stacks,
        files: &pinned,
        modules: HashMap::new(),
        found: StackComparison::default(),
    };
    let reader = CaptureReader::open(&capture)?;
    Session::open_unwinding(reader, &|| false, &mut oracle).context("cannot read the capture")?;
    Ok(oracle.found)
}

/// Walks stacks again by framehop.
#[derive(Debug)]
struct Oracle<'a> {
    stacks: StacksInMemory,
    files: &'a PinnedFiles,
    /// `None` for files that have nothing to unwind by.
    modules: HashMap<ModuleKey, Option<OracleModule>>,
    found: StackComparison,
}

#[derive(Debug)]
struct OracleModule {
    oracle: OracleFile,
    /// What the recorder makes of the file: where it has no rows, framehop guesses.
    tables: RowCache,
}

#[derive(Debug, Default)]
struct StackComparison {
    stacks: u64,
    frames: u64,
    /// Stacks that were compared up to the thread's first function.
    ends: u64,
    /// What differs, in words.
    different: Vec<String>,
}

impl StackComparison {
    fn add(&mut self, other: Self) {
        self.stacks += other.stacks;
        self.frames += other.frames;
        self.ends += other.ends;
        self.different.extend(other.different);
    }
}

/// How a comparison ends.
enum Verdict {
    /// Both went to the thread's first function.
    SameEnd,
    /// From here on nothing can be compared.
    Unknown,
    Different(String),
}

impl Unwinder for Oracle<'_> {
    fn callers(&mut self, _: UserStack<'_>, _: ProcessCode<'_>) -> Option<UnwoundStack> {
        None
    }

    fn check(&mut self, stack: UserStack<'_>, mut code: ProcessCode<'_>) {
        let copy = self.stacks.remove(&(stack.lane, stack.id));
        let Some(memory) = copy.as_deref().map(StackCopy::memory) else { return };
        let mut frames = 0;
        let verdict = self.compare(stack, &memory, &mut code, &mut frames);
        self.found.frames += frames;
        self.found.stacks += u64::from(frames > 0);
        match verdict {
            Verdict::SameEnd => self.found.ends += 1,
            Verdict::Unknown => {}
            Verdict::Different(what) => {
                let frames = stack.addresses.iter().map(|address| {
                    let (module, offset) = code.at(*address)?;
                    Some(format!("{}+{offset:#x}", module.path))
                });
                let frames: Vec<_> = frames.map(Option::unwrap_or_default).collect();
                self.found.different.push(format!("{what}\n    {}", frames.join("\n    ")));
            }
        }
    }
}

impl Oracle<'_> {
    fn compare(
        &mut self,
        stack: UserStack<'_>,
        memory: &StackMemory,
        code: &mut ProcessCode<'_>,
        frames: &mut u64,
    ) -> Verdict {
        let Registers { ip, sp, bp } = memory.registers;
        let mut walk = OracleWalk::new(ip, sp, bp);
        for (index, here) in stack.addresses.iter().enumerate() {
            let address = here - u64::from(index > 0);
            let Some((key, offset)) = code.at(address) else { return Verdict::Unknown };
            if key.kind == ModuleKind::Generated {
                return Verdict::Unknown;
            }
            let key = key.clone();
            let Some(module) = self.module(&key) else { return Verdict::Unknown };
            let rule = module.tables.row(offset).cfa;
            // What is interrupted by a signal is no caller, which framehop takes it for.
            let is_guessed =
                [cfa_rule::NONE, cfa_rule::INEXPRESSIBLE, cfa_rule::SIGNAL].contains(&rule);
            if is_guessed || rule >= cfa_rule::REGISTER || !module.oracle.describes(offset) {
                return Verdict::Unknown;
            }
            let page = address / CODE_BYTES * CODE_BYTES;
            walk.add(&module.oracle, page..page + CODE_BYTES, address, offset);
            let mut is_beyond = false;
            let step = walk.step(|address| {
                let word = memory.word(address);
                is_beyond |= word.is_none();
                word
            });
            let next = stack.addresses.get(index + 1);
            match (step, next) {
                (_, _) if is_beyond => return Verdict::Unknown,
                (OracleStep::Caller(found), Some(next)) if found == *next => *frames += 1,
                (OracleStep::End, None) if stack.truncated == 0 => return Verdict::SameEnd,
                // It was cut for a reason that framehop does not have.
                (_, None) if stack.truncated != 0 => return Verdict::Unknown,
                (OracleStep::Unknown, _) => return Verdict::Unknown,
                (step, next) => {
                    return Verdict::Different(format!(
                        "frame {index}: {step:x?}, recorded {next:x?}, of {} frames",
                        stack.addresses.len()
                    ));
                }
            }
        }
        Verdict::Unknown
    }

    fn module(&mut self, key: &ModuleKey) -> Option<&mut OracleModule> {
        if !self.modules.contains_key(key) {
            let module = OracleModule::open(self.files, key);
            self.modules.insert(key.clone(), module);
        }
        self.modules.get_mut(key)?.as_mut()
    }
}

impl OracleModule {
    fn open(files: &PinnedFiles, key: &ModuleKey) -> Option<Self> {
        let opened = files.opened(&key.path, &key.build_id)?;
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut opened.reader(), &mut bytes).ok()?;
        let oracle = OracleFile::read(&bytes)?;
        Some(Self { oracle, tables: RowCache::new(UnwindFile::from_bytes(bytes).ok()?) })
    }
}
