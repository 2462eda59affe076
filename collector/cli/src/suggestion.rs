//! What somebody may have meant whose sub-command there is not.

use crate::args::Cli;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Changes of letters after which a word is still the same one, mistyped.
const MISTYPED: usize = 2;

/// The error, with the sub-command that was meant, if the first argument is nearly one. Without a
/// sub-command `record` is meant, so clap takes such a word for an argument of that one.
pub(crate) fn of_sub_command(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let first = arguments.get(1).and_then(|word| word.to_str());
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    if let Some(meant) = first.filter(|_| is_unknown).and_then(nearest) {
        // That it could be a command to launch is not what was meant.
        error.remove(ContextKind::Suggested);
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![meant]));
    }
    error
}

fn nearest(word: &str) -> Option<String> {
    let command = Cli::command();
    let names = command.get_subcommands().map(|command| command.get_name().to_owned());
    let distances = names.map(|name| (distance(word, &name), name));
    // Of a short word everything would be one that was mistyped.
    distances
        .filter(|(distance, name)| *distance <= MISTYPED.min(name.len() / 2))
        .min()
        // What is one was meant as one: something else is wrong with its arguments.
        .filter(|(distance, _)| *distance > 0)
        .map(|(_, name)| name)
}

/// How many letters have to be added, left out, changed, or swapped with the next.
fn distance(a: &str, b: &str) -> usize {
    let [a, b]: [Vec<char>; 2] = [a, b].map(|word| word.chars().collect());
    // Nobody mistypes that much, and what is longer only costs time.
    if a.len().abs_diff(b.len()) > MISTYPED {
        return usize::MAX;
    }
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, _) => j,
                (_, 0) => i,
                _ => {
                    let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let least = changed.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                    let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                    if swapped { least.min(rows[i - 2][j - 2] + 1) } else { least }
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearly_a_sub_command_is_taken_for_it() {
        for (word, meant) in [
            ("recrod", Some("record")),
            ("reprot", Some("report")),
            ("exprt", Some("export")),
            ("flame-graph", Some("flamegraph")),
            ("inf", Some("info")),
            ("export", None),
            ("make", None),
            ("python3", None),
            ("ls", None),
            ("", None),
        ] {
            assert_eq!(nearest(word).as_deref(), meant, "{word}");
        }
    }
}
