//! Perfetto's own engine, trace_processor, as the judge of exported files.
//!
//! The engine is not part of this repository: `perfetto-sql` lies in the folder
//! that `SYSCOLLECT_VIEWERS` names, or `PERFETTO_SQL` names another program
//! that takes a trace and queries and prints tab-separated rows with a header,
//! an empty line after each result.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::output_within;

/// How long the engines may take to come from the network, and one of them for an answer. What
/// takes longer has hung: answers take seconds.
const LONGEST_FETCH: Duration = Duration::from_secs(600);
pub(crate) const LONGEST_ANSWER: Duration = Duration::from_secs(120);

/// The viewers' engines, as the tool in the folder of `SYSCOLLECT_VIEWERS` fetched them.
pub(crate) struct Fetched {
    /// The folder of the tools that run them.
    pub(crate) folder: PathBuf,
    /// The folder of their own programs.
    pub(crate) programs: PathBuf,
    /// A PATH with these, and the Node.js that they need.
    pub(crate) path: OsString,
}

/// Fetches the engines at the first use, or says why there are none.
pub(crate) fn fetched() -> Result<Fetched, String> {
    let folder = syscollect_fixtures::viewers();
    let folder = folder.ok_or_else(|| syscollect_fixtures::HOW_TO_HAVE_VIEWERS.to_owned())?;
    let fetcher = folder.join("get-viewers");
    if !fetcher.is_file() {
        return Err(syscollect_fixtures::HOW_TO_HAVE_VIEWERS.to_owned());
    }
    let output = output_within(LONGEST_FETCH, &mut Command::new(&fetcher)).map_err(|error| {
        let why = format!("{error:#}").replace('\n', " ");
        format!("the viewers' engines cannot be fetched: {why}")
    })?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let programs =
        Path::new(printed.lines().last().unwrap_or_default()).join("node_modules").join(".bin");
    let mut path = programs.clone().into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    Ok(Fetched { folder, programs, path })
}

/// A way to run SQL over a trace.
pub(crate) struct Engine {
    program: PathBuf,
    path: OsString,
}

impl Engine {
    /// The engine, or why there is none.
    pub(crate) fn find() -> Result<Self, String> {
        if let Some(program) = std::env::var_os("PERFETTO_SQL") {
            let program = PathBuf::from(program);
            if !program.is_file() {
                return Err(format!("PERFETTO_SQL: {} is not there", program.display()));
            }
            return Ok(Self { program, path: std::env::var_os("PATH").unwrap_or_default() });
        }
        let Fetched { path, folder, .. } = fetched()?;
        let program = folder.join("perfetto-sql");
        if !program.is_file() {
            return Err(format!("{} is not there", program.display()));
        }
        Ok(Self { program, path })
    }

    /// The rows of each query.
    pub(crate) fn query(&self, trace: &Path, queries: &[&str]) -> Result<Vec<Vec<Vec<String>>>> {
        // Through a file: the engine ends without waiting until a pipe has taken what it printed.
        let output = output_within(
            LONGEST_ANSWER,
            Command::new(&self.program).env("PATH", &self.path).arg(trace).args(queries),
        )
        .context("trace_processor")?;
        let text = String::from_utf8_lossy(&output.stdout);
        if let Some(error) = text.lines().find(|line| line.starts_with("ERROR")) {
            bail!("trace_processor refuses a query: {error}");
        }
        let tables: Vec<_> = text.split_terminator("\n\n").map(rows).collect();
        if tables.len() != queries.len() {
            bail!(
                "trace_processor answered {} of {} queries:\n{text}",
                tables.len(),
                queries.len()
            );
        }
        Ok(tables)
    }

    /// The single number that each query gives.
    pub(crate) fn numbers<const N: usize>(
        &self,
        trace: &Path,
        queries: [&str; N],
    ) -> Result<[i64; N]> {
        let tables = self.query(trace, &queries)?;
        let mut numbers = [0; N];
        for ((number, table), query) in numbers.iter_mut().zip(tables).zip(queries) {
            let cell = table
                .first()
                .and_then(|row| row.first())
                .with_context(|| format!("no row from `{query}`"))?;
            *number = cell.parse().with_context(|| format!("`{query}` gave {cell:?}"))?;
        }
        Ok(numbers)
    }

    /// What the engine itself found wrong with a trace: its stats of severity `error`.
    pub(crate) fn errors(&self, trace: &Path) -> Result<Vec<String>> {
        let query = "select name, value from stats where severity = 'error' and value > 0";
        let tables = self.query(trace, &[query])?;
        Ok(tables.iter().flatten().map(|row| row.join(" = ")).collect())
    }
}

fn rows(table: &str) -> Vec<Vec<String>> {
    let table = table.trim_start_matches('\n');
    table.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn rows_come_without_their_header() {
        assert_eq!(rows("a\tb\n1\t2\n3\t4"), [["1", "2"], ["3", "4"]]);
        assert_eq!(rows("a"), Vec::<Vec<String>>::new());
    }
}
