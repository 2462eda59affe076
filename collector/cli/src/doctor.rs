//! `syscollect doctor`: what this machine can record.

use crate::escape::{print, print_json};
use crate::terminal::{Style, Terminal};
use anyhow::Result;
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;
use syscollect_capture::Capability;

const EXAMPLES: &str = "\
Examples:
  syscollect doctor              as the user you are
  sudo syscollect doctor         as root, as most recordings run
  syscollect doctor --gpu        what `record --gpu` can show, line by line
  syscollect doctor --json | jq '.capabilities[] | select(.available | not)'

Each line says yes or no, why, and the command that fixes it; what recording
cannot do without comes first. What else is missing is done without: the line
says what that means. JSON has all lines.

Exit codes: 0 if this process can record; 1 if something required is missing.";

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Show all lines about GPUs, too
    #[arg(long)]
    gpu: bool,
}

/// The version of the JSON; it grows when a field changes its meaning.
const SCHEMA_VERSION: u32 = 1;

#[derive(Serialize)]
struct Report<'a> {
    schema_version: u32,
    can_record: bool,
    capabilities: &'a [Capability],
}

/// Runs the sub-command.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let capabilities = syscollect_capture::support();
    let style = Terminal::stdout().style();
    match args.json {
        true => print_json(&json(&capabilities)?)?,
        false => print(&text(&capabilities, args.gpu, style), style)?,
    }
    Ok(if can_record(&capabilities) { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn can_record(capabilities: &[Capability]) -> bool {
    capabilities.iter().all(|capability| capability.available || !capability.required)
}

fn json(capabilities: &[Capability]) -> Result<String> {
    let report = Report {
        schema_version: SCHEMA_VERSION,
        can_record: can_record(capabilities),
        capabilities,
    };
    Ok(serde_json::to_string_pretty(&report)?)
}

fn text(capabilities: &[Capability], gpus: bool, style: Style) -> String {
    let (of_gpus, general): (Vec<_>, Vec<_>) =
        capabilities.iter().partition(|capability| capability.is_of_gpus());
    let (required, others): (Vec<_>, Vec<_>) =
        general.into_iter().partition(|capability| capability.required);
    let mut rows: Vec<&Capability> = required.into_iter().chain(others).collect();
    let summary = (!gpus && !of_gpus.is_empty()).then(|| gpu_summary(&of_gpus));
    if gpus {
        rows.extend(&of_gpus);
    }
    rows.extend(&summary);
    let width = rows.iter().map(|capability| capability.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut last_remedy = None;
    for Capability { name, available, required, reason, remedy } in &rows {
        let answer = match (available, required) {
            (true, _) => style.good("yes "),
            (false, true) => style.alarm("NO  "),
            (false, false) => style.alarm("no  "),
        };
        // Writing to a String never fails.
        let _ = writeln!(text, "{answer}{name:width$}  {reason}");
        // One remedy often fixes all in a row.
        if let Some(remedy) = remedy.as_ref().filter(|remedy| last_remedy != Some(*remedy)) {
            let _ = writeln!(text, "    {:width$}  to fix it: {remedy}", "");
            last_remedy = Some(remedy);
        }
    }
    let missing = rows.iter().filter(|capability| !capability.available).count();
    let verdict = match (can_record(capabilities), missing) {
        (true, 0) => style.good("This machine can record everything."),
        (true, missing) => style.good(&format!(
            "This machine can record; what it does without is told above ({missing})."
        )),
        (false, _) => style.alarm("This process cannot record here: see each NO above."),
    };
    let _ = writeln!(text, "\n{verdict}");
    text
}

/// All that is known of GPUs in one line.
fn gpu_summary(rows: &[&Capability]) -> Capability {
    let libraries: Vec<_> = rows.iter().filter(|row| row.is_of_gpu_calls()).collect();
    let (all, found) =
        (libraries.len(), libraries.iter().filter(|library| library.available).count());
    let driver = rows.iter().find(|row| row.name == Capability::GPU_DRIVERS);
    let reported = driver.map_or("", |row| row.reason.as_str());
    // Libraries may be installed where no driver is; the answer is that of what is told first.
    let available = driver.map_or(found > 0, |row| row.available);
    let reason = format!(
        "{reported}; libraries with calls for --gpu: {found} of {all} kinds (doctor --gpu tells each)"
    );
    Capability { name: "gpus", available, required: false, reason, remedy: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capability(name: &'static str, available: bool, required: bool) -> Capability {
        let remedy = (!available).then(|| format!("fix {name}"));
        Capability { name, available, required, reason: format!("about {name}"), remedy }
    }

    fn plain(capabilities: &[Capability]) -> String {
        text(capabilities, false, Terminal::hidden().style())
    }

    #[test]
    fn each_line_says_yes_or_no_why_and_what_fixes_it() {
        let capabilities = [capability("btf", true, true), capability("cycles", false, false)];
        assert_eq!(
            plain(&capabilities),
            "yes btf     about btf\n\
             no  cycles  about cycles\n            \
             to fix it: fix cycles\n\
             \n\
             This machine can record; what it does without is told above (1).\n"
        );
    }

    #[test]
    fn what_is_required_comes_first_and_gpus_in_one_line_unless_they_are_asked_for() {
        let capabilities = [
            capability("rapl", true, false),
            capability("gpu_drivers", false, false),
            capability("gpu_calls_egl", true, false),
            capability("gpu_calls_cuda", false, false),
            capability("btf", true, true),
        ];
        let short = plain(&capabilities);
        assert!(
            short.contains("about gpu_drivers; libraries with calls for --gpu: 1 of 2 kinds"),
            "{short}"
        );
        assert!(short.contains("no  gpus"), "libraries alone are no driver: {short}");
        assert!(short.ends_with("is told above (1).\n"), "the verdict is the last line: {short}");
        assert_eq!(names(short), ["btf", "rapl", "gpus"]);
        let long = text(&capabilities, true, Terminal::hidden().style());
        assert_eq!(names(long), ["btf", "rapl", "gpu_drivers", "gpu_calls_egl", "gpu_calls_cuda"]);
    }

    fn names(text: String) -> Vec<String> {
        let rows = text.lines().filter(|line| line.starts_with("yes") || line.starts_with("no"));
        rows.map(|row| row.split_whitespace().nth(1).unwrap().to_owned()).collect()
    }

    #[test]
    fn a_remedy_for_several_lines_in_a_row_is_told_once() {
        let one = Capability { remedy: Some("sudo".into()), ..capability("a", false, false) };
        let text = plain(&[one.clone(), Capability { name: "b", ..one }]);
        assert_eq!(text.matches("to fix it: sudo").count(), 1, "{text}");
    }

    #[test]
    fn only_what_is_required_keeps_from_recording() {
        assert!(can_record(&[capability("a", false, false), capability("b", true, true)]));
        let broken = [capability("btf", false, true)];
        assert!(!can_record(&broken));
        assert!(plain(&broken).contains("NO  btf") && plain(&broken).contains("cannot record"));
    }

    #[test]
    fn the_json_has_a_version_and_every_field() {
        let json: serde_json::Value =
            serde_json::from_str(&json(&[capability("btf", false, true)]).unwrap()).unwrap();
        assert_eq!(json["schema_version"], 1);
        assert_eq!(json["can_record"], false);
        let expected = serde_json::json!(
            {"name": "btf", "available": false, "required": true, "reason": "about btf", "remedy": "fix btf"}
        );
        assert_eq!(json["capabilities"][0], expected);
    }
}
