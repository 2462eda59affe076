//! `syscollect probes list`: what there is to probe in a process, a file, or everywhere.

mod files;
mod listing;

use crate::escape::{print_json, printable, printable_lines};
use crate::owner::is_root;
use anyhow::{Context, Result, bail};
use listing::{FileReport, Listing, ListingScope};
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use syscollect_model::grouped;
use syscollect_probes::{did_you_mean, nearest};
use syscollect_untrusted_files::OpenedFile;

const EXAMPLES: &str = "\
Examples:
  syscollect probes list /usr/bin/python3.11         a file's USDT probes
  syscollect probes list /usr/bin/python3.11 'gc*'   ... of such names
  sudo syscollect probes list 1234 --functions       what process 1234 has mapped, functions too
  sudo syscollect probes list --all 'python:*'       what any process has mapped
  syscollect probes list ./server --functions 'Database::*' --json

A pattern has *, ? and [...]; with a colon it is PROVIDER:NAME, without one a name.
Each probe is shown with its arguments, as NAME: TYPE PLACE, where the place is a
register, [memory] or a constant. One with a semaphore costs almost nothing until it
is recorded. `syscollect record --usdt PROVIDER:NAME` records it.";

/// The sub-commands of `probes`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the USDT probes, and functions, of a process, a file, or of all that runs
    List(ListArgs),
}

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "syscollect probes list [OPTIONS] \
                                                   <PID|FILE|--all> [GLOB]")]
struct ListArgs {
    /// A process by its number, or a file; and a pattern of names
    #[arg(value_name = "PID|FILE] [GLOB", num_args = 0..=2, required_unless_present = "all", hide_possible_values = true)]
    what: Vec<String>,

    /// Look into the files of all processes; only a pattern may be given besides
    #[arg(long)]
    all: bool,

    /// List functions too
    #[arg(long)]
    functions: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Where to look.
#[derive(Debug, PartialEq, Eq)]
enum Target<'a> {
    Process(u32),
    File(&'a str),
    All,
}

/// The version of the JSON; it grows when a field changes its meaning.
const SCHEMA_VERSION: u32 = 1;
/// How many names are suggested where none matches.
const SUGGESTIONS: usize = 5;

/// What is told as JSON.
#[derive(Serialize)]
struct Report {
    schema_version: u32,
    files: Vec<FileReport>,
    /// Processes of other users, which were not looked into.
    refused_processes: usize,
}

/// Runs the sub-command.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Command::List(args) = &args.command;
    let (target, glob) = args.target()?;
    let wanted =
        ListingScope { glob: glob.map(str::parse).transpose()?, functions: args.functions };
    let mut output = BufWriter::new(io::stdout());
    let mut reports = Vec::new();
    let found = list(&target, wanted, &mut |report: FileReport| {
        if args.json {
            reports.push(report);
            return Ok(());
        }
        output.write_all(printable_lines(&report.text()).as_bytes())
    })?;
    if args.json {
        let report = Report {
            schema_version: SCHEMA_VERSION,
            files: reports,
            refused_processes: found.refused,
        };
        print_json(&serde_json::to_string_pretty(&report)?)?;
    }
    output.flush()?;
    found.finish(&target)
}

impl ListArgs {
    /// Tells the words apart.
    fn target(&self) -> Result<(Target<'_>, Option<&str>)> {
        match (self.all, &self.what[..]) {
            (true, []) => Ok((Target::All, None)),
            (true, [glob]) => Ok((Target::All, Some(glob))),
            (false, [what, glob @ ..]) => {
                let target = what.parse().map_or(Target::File(what), Target::Process);
                Ok((target, glob.first().map(String::as_str)))
            }
            _ => bail!(crate::usage::usage(
                "--all takes the place of a process or file; a pattern may follow".into()
            )),
        }
    }
}

/// What was looked through.
struct ProbeListing {
    wanted: ListingScope,
    files: usize,
    refused: usize,
    /// How many probes and functions were shown.
    shown: usize,
    /// Names that did not match, for suggestions.
    others: Vec<String>,
    /// Why what is so called is not listed.
    unsuitable: Option<String>,
}

/// Lists every file of the target that has something to show.
fn list(
    target: &Target<'_>,
    wanted: ListingScope,
    show: &mut dyn FnMut(FileReport) -> io::Result<()>,
) -> Result<ProbeListing> {
    let proc = Path::new("/proc");
    let (mapped, refused) = match target {
        Target::File(path) => return list_file(path, wanted, show),
        Target::Process(pid) => (files::of_process(proc, *pid)?, 0),
        Target::All => {
            let everything = files::of_all(proc);
            (everything.files, everything.refused)
        }
    };
    let mut found = ProbeListing { files: mapped.len(), refused, ..ProbeListing::new(wanted) };
    // What is wrong with each file of a whole machine is too much to tell.
    let is_told = *target != Target::All;
    for file in &mapped {
        match file.open().and_then(|opened| {
            Ok(opened.map(|file| Listing::read(&file, &found.wanted)).transpose()?)
        }) {
            Ok(Some(listing)) => found.show(&file.path, listing, is_told, show)?,
            Ok(None) => {}
            // Of what nobody named, only what might have had probes is worth a word.
            Err(error) if listing::is_other_file(&error) => {}
            Err(error) => eprint_line!("syscollect: {}: {error:#}", printable(&file.path)),
        }
    }
    if is_told && found.needs_suggestions() {
        let opened = mapped.iter().filter_map(|file| file.open().ok()?);
        opened.for_each(|file| found.look_for_functions(&file));
    }
    Ok(found)
}

fn list_file(
    path: &str,
    wanted: ListingScope,
    show: &mut dyn FnMut(FileReport) -> io::Result<()>,
) -> Result<ProbeListing> {
    let mut found = ProbeListing { files: 1, ..ProbeListing::new(wanted) };
    let file = open_named(path)?;
    let listing = Listing::read(&file, &found.wanted).with_context(|| printable(path))?;
    found.show(path, listing, true, show)?;
    if found.needs_suggestions() {
        found.look_for_functions(&file);
    }
    Ok(found)
}

/// Opens a file that the user named.
fn open_named(path: &str) -> Result<OpenedFile> {
    let hint = if path.contains('/') {
        ""
    } else {
        "; a process is given by its number, a library by its path"
    };
    files::open(Path::new(path)).with_context(|| format!("cannot open {path}{hint}"))
}

impl ProbeListing {
    fn new(wanted: ListingScope) -> Self {
        Self { wanted, files: 0, refused: 0, shown: 0, others: Vec::new(), unsuitable: None }
    }

    fn show(
        &mut self,
        path: &str,
        listing: Listing,
        is_told: bool,
        show: &mut dyn FnMut(FileReport) -> io::Result<()>,
    ) -> Result<()> {
        self.others.extend(listing.others);
        for warning in listing.warnings.iter().chain(&listing.missing_functions).filter(|_| is_told)
        {
            eprint_line!("syscollect: {}: {}", printable(path), printable(warning));
        }
        self.shown += listing.probes.len() + listing.functions.len();
        if !listing.probes.is_empty() || !listing.functions.is_empty() {
            show(FileReport {
                path: path.to_owned(),
                probes: listing.probes,
                functions: listing.functions,
            })?;
        }
        Ok(())
    }

    fn needs_suggestions(&self) -> bool {
        self.shown == 0 && self.wanted.functions
    }

    fn look_for_functions(&mut self, file: &OpenedFile) {
        let Some(glob) = &self.wanted.glob else { return };
        let (unsuitable, nearest) = listing::nearest_functions(file, glob);
        self.unsuitable = self.unsuitable.take().or(unsuitable);
        self.others.extend(nearest);
    }

    /// Says what was not found or not seen.
    fn finish(self, target: &Target<'_>) -> Result<ExitCode> {
        if self.refused > 0 {
            let count = grouped(self.refused as u64);
            let who_may = if is_root() { "" } else { "; root may, with sudo" };
            eprint_line!(
                "syscollect: processes that may not be looked into were left out ({count}){who_may}"
            );
        }
        let place = match target {
            Target::File(path) => printable(path),
            Target::Process(pid) => format!("the {} files of code of process {pid}", self.files),
            Target::All => {
                format!("the {} files of code that are mapped", grouped(self.files as u64))
            }
        };
        let what = if self.wanted.functions { "probe or function" } else { "USDT probe" };
        match &self.wanted.glob {
            _ if self.shown > 0 => Ok(ExitCode::SUCCESS),
            Some(_) if self.unsuitable.is_some() => {
                bail!(printable(&self.unsuitable.unwrap_or_default()))
            }
            Some(glob) => {
                let near =
                    nearest(glob.as_str(), candidates(glob.as_str(), &self.others), SUGGESTIONS);
                bail!(
                    "no {what} in {place} matches {:?}{}",
                    glob.as_str(),
                    printable(&did_you_mean(&near))
                )
            }
            None => {
                eprint_line!("syscollect: there is no {what} in {place}");
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

impl ListingScope {
    /// Whether a probe is asked for.
    fn probe(&self, provider: &str, name: &str) -> bool {
        self.glob
            .as_ref()
            .is_none_or(|glob| glob.matches(name) || glob.matches(&format!("{provider}:{name}")))
    }
}

/// The names to compare a pattern with: one without a provider is near to names, not to
/// PROVIDER:NAME.
fn candidates<'a>(wanted: &str, others: &'a [String]) -> Vec<&'a str> {
    others
        .iter()
        .map(|other| match other.split_once(':') {
            // `::` is of a function's name.
            Some((_, name)) if !wanted.contains(':') && !name.contains(':') => name,
            _ => other.as_str(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;

    fn arguments(words: &[&str]) -> Result<ListArgs, clap::Error> {
        let cli = Cli::try_parse_from(["syscollect", "probes", "list"].iter().chain(words))?;
        let Some(crate::args::Command::Probes(Args { command: Command::List(args) })) = cli.command
        else {
            panic!()
        };
        Ok(args)
    }

    #[test]
    fn a_number_is_a_process_and_everything_else_a_file() {
        let args = arguments(&["1234", "gc*"]).unwrap();
        assert_eq!(args.target().unwrap(), (Target::Process(1234), Some("gc*")));
        let args = arguments(&["./1234"]).unwrap();
        assert_eq!(args.target().unwrap(), (Target::File("./1234"), None));
    }

    #[test]
    fn all_takes_the_place_of_a_process() {
        assert_eq!(arguments(&["--all"]).unwrap().target().unwrap(), (Target::All, None));
        assert_eq!(
            arguments(&["--all", "a:*"]).unwrap().target().unwrap(),
            (Target::All, Some("a:*"))
        );
        let error = arguments(&["--all", "12", "a:*"]).unwrap().target().unwrap_err();
        assert!(error.downcast_ref::<clap::Error>().is_some_and(|usage| usage.exit_code() == 2));
        assert!(arguments(&[]).is_err() && arguments(&["a", "b", "c"]).is_err());
    }

    #[test]
    fn a_pattern_is_of_a_name_or_of_provider_and_name() {
        assert!(
            wanted("gc*").probe("python", "gc__start")
                && wanted("python:*").probe("python", "line")
        );
        assert!(
            !wanted("python").probe("python", "line") && !wanted("py:line").probe("python", "line")
        );
    }

    fn wanted(glob: &str) -> ListingScope {
        ListingScope { glob: Some(glob.parse().unwrap()), functions: false }
    }

    #[test]
    fn a_file_that_is_not_there_or_is_none_says_so() {
        assert!(
            reason("/nowhere/x").contains("cannot open /nowhere/x: No such file"),
            "{}",
            reason("/nowhere/x")
        );
        assert!(reason("firefox").contains("a process is given by its number"));
        assert!(
            reason("/etc/passwd").contains("/etc/passwd: it is not an ELF file"),
            "{}",
            reason("/etc/passwd")
        );
        assert!(reason("/dev/null").contains("no regular file"));
    }

    fn reason(path: &str) -> String {
        let wanted = ListingScope { glob: None, functions: false };
        let error = list(&Target::File(path), wanted, &mut |_| Ok(())).err().unwrap();
        format!("{error:#}")
    }

    #[test]
    fn a_function_of_this_very_process_is_listed_and_a_misspelt_one_finds_it() {
        let mut shown = Vec::new();
        let target = Target::Process(std::process::id());
        let found = list(&target, wanted_functions("main"), &mut |report| {
            shown.push(report.text());
            Ok(())
        });
        assert!(found.unwrap().shown > 0);
        assert!(shown.iter().any(|text| text.contains("function  main\n")), "{shown:?}");
        let error = list(&target, wanted_functions("no_such_functoin_at_all"), &mut |_| Ok(()))
            .unwrap()
            .finish(&target);
        assert!(error.unwrap_err().to_string().contains("no probe or function in the"));
    }

    fn wanted_functions(glob: &str) -> ListingScope {
        ListingScope { glob: Some(glob.parse().unwrap()), functions: true }
    }

    #[test]
    fn a_name_without_its_provider_is_near_to_names() {
        let others =
            ["python:line".to_owned(), "python:gc__start".to_owned(), "frames::physics".to_owned()];
        for (wanted, near) in [
            ("lien", "line"),
            ("python:lien", "python:line"),
            ("frames::phisics", "frames::physics"),
        ] {
            assert_eq!(nearest(wanted, candidates(wanted, &others), SUGGESTIONS), [near]);
        }
    }
}
