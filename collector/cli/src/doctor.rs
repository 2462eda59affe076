//! `syscollect doctor`: what this machine can record.

use crate::terminal::{Style, Terminal};
use anyhow::Result;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use syscollect_capture::Capability;

const EXAMPLES: &str = "\
Examples:
  syscollect doctor              as the user you are
  sudo syscollect doctor         as root, as most recordings run
  syscollect doctor --json | jq '.capabilities[] | select(.available | not)'

Each line says yes or no, why, and the command that mends it. What is missing
and not required is done without: the line says what that means.

Exit codes: 0 if this process can record; 1 if something required is missing.";

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
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
    let text = match args.json {
        true => json(&capabilities)?,
        false => text(&capabilities, Terminal::stdout().style()),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if can_record(&capabilities) { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn can_record(capabilities: &[Capability]) -> bool {
    capabilities.iter().all(|capability| capability.available || !capability.required)
}

fn json(capabilities: &[Capability]) -> Result<String> {
    let report = Report { schema_version: SCHEMA_VERSION, can_record: can_record(capabilities), capabilities };
    Ok(serde_json::to_string_pretty(&report)? + "\n")
}

fn text(capabilities: &[Capability], style: Style) -> String {
    let width = capabilities.iter().map(|capability| capability.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Capability { name, available, required, reason, remedy } in capabilities {
        let answer = match (available, required) {
            (true, _) => style.good("yes "),
            (false, true) => style.alarm("NO  "),
            (false, false) => style.alarm("no  "),
        };
        // Writing to a String never fails.
        let _ = writeln!(text, "{answer}{name:width$}  {reason}");
        if let Some(remedy) = remedy {
            let _ = writeln!(text, "    {:width$}  to mend it: {remedy}", "");
        }
    }
    let missing = capabilities.iter().filter(|capability| !capability.available).count();
    let verdict = match (can_record(capabilities), missing) {
        (true, 0) => style.good("This machine can record everything."),
        (true, missing) => {
            style.good(&format!("This machine can record; what it does without is told above ({missing})."))
        }
        (false, _) => style.alarm("This process cannot record here: see each NO above."),
    };
    let _ = writeln!(text, "\n{verdict}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capability(name: &'static str, available: bool, required: bool) -> Capability {
        let remedy = (!available).then(|| format!("mend {name}"));
        Capability { name, available, required, reason: format!("about {name}"), remedy }
    }

    fn plain(capabilities: &[Capability]) -> String {
        text(capabilities, Terminal::hidden().style())
    }

    #[test]
    fn each_line_says_yes_or_no_why_and_what_mends_it() {
        let capabilities = [capability("btf", true, true), capability("cycles", false, false)];
        assert_eq!(
            plain(&capabilities),
            "yes btf     about btf\n\
             no  cycles  about cycles\n            \
             to mend it: mend cycles\n\
             \n\
             This machine can record; what it does without is told above (1).\n"
        );
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
        let json: serde_json::Value = serde_json::from_str(&json(&[capability("btf", false, true)]).unwrap()).unwrap();
        assert_eq!(json["schema_version"], 1);
        assert_eq!(json["can_record"], false);
        let expected = serde_json::json!(
            {"name": "btf", "available": false, "required": true, "reason": "about btf", "remedy": "mend btf"}
        );
        assert_eq!(json["capabilities"][0], expected);
    }
}
