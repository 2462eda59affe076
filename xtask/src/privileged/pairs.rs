//! Zones between probes with several ends, of a program that says how often it came to each.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, Tables, Time, TrackId, Value};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::context::{Context, number};
use super::probes::ways;
use crate::report::Outcome;

const ROUNDS: u64 = 500;
const TRANSACTIONS: &str = "database:transaction__start..transaction__commit|transaction__abort";
const QUERIES: &str = "database:query__start..query__done";
const CALLS: &str = "database:call__entry..call__return";

/// Each transaction is a zone that ends with what ended it, or with the next one where nothing was
/// told of its end; none lies within another, while calls do.
pub(crate) fn pairs(context: &Context) -> Result<Outcome> {
    let rounds = context.times(ROUNDS);
    for way in ways(context) {
        let capture = context.path(&format!("pairs-{way}.syscap"));
        let options = ["--zone", TRANSACTIONS, "--zone", QUERIES, "--zone", CALLS];
        let reported =
            context.record_by(way, &capture, &options, &["database", &rounds.to_string()])?;
        let reported = reported.last().context("the load printed nothing")?;
        let zones = Zones::of(&capture)?;
        let [transactions, queries, calls] = ["transaction__start", "query__start", "call__entry"]
            .map(|name| zones.of_name(&format!("database:{name}")));
        let expected = Named {
            begun: number(reported, "transactions")?,
            unfinished: number(reported, "left")?,
            depth: 1,
            ends: BTreeMap::from([
                ("database:transaction__commit".to_owned(), number(reported, "committed")?),
                ("database:transaction__abort".to_owned(), number(reported, "aborted")?),
            ]),
        };
        ensure!(
            transactions == expected,
            "{way}: transactions are {transactions:?}, not {expected:?}"
        );
        let expected = Named { ends: BTreeMap::new(), ..expected };
        ensure!(queries == expected, "{way}: queries are {queries:?}, not {expected:?}");
        let expected = Named { begun: number(reported, "calls")?, depth: 3, ..Named::default() };
        ensure!(calls == expected, "{way}: calls are {calls:?}, not {expected:?}");
        let info = context.info(&capture)?;
        ensure!(
            info.get("unmatched_ends").is_none(),
            "{way}: {} ends without a beginning",
            info["unmatched_ends"]
        );
    }
    Ok(Outcome::Passed(format!(
        "{} transactions, a third each committed, aborted and left open, {} ways to attach",
        3 * rounds,
        ways(context).len()
    )))
}

/// What was seen of the zones of one name.
#[derive(Clone, Debug, Default, PartialEq)]
struct Named {
    begun: u64,
    unfinished: u64,
    /// The most of them that were open at once on a track.
    depth: usize,
    /// How often each end was said to be the one.
    ends: BTreeMap<String, u64>,
}

/// A zone that is open.
struct OpenSlice {
    name: String,
    unfinished: bool,
}

/// Zones by name, and what is open by track.
#[derive(Default)]
struct Zones {
    named: BTreeMap<String, Named>,
    open: BTreeMap<TrackId, Vec<OpenSlice>>,
}

impl Zones {
    fn of(capture: &Path) -> Result<Self> {
        let mut zones = Self::default();
        Session::open(CaptureReader::open(capture)?)?.play(&mut zones)?;
        Ok(zones)
    }

    fn of_name(&self, name: &str) -> Named {
        self.named.get(name).cloned().unwrap_or_default()
    }
}

impl Exporter for Zones {
    type Error = anyhow::Error;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<()> {
        match event {
            Event::SliceBegin(track, slice) => {
                let name = tables.strings.get(slice.name).to_owned();
                let open = self.open.entry(*track).or_default();
                open.push(OpenSlice { name: name.clone(), unfinished: false });
                let named = self.named.entry(name).or_default();
                (named.begun, named.depth) = (named.begun + 1, named.depth.max(open.len()));
            }
            Event::SliceUpdate(track, more) => {
                let Some(open) = self.open.get_mut(track).and_then(|open| open.last_mut()) else {
                    return Ok(());
                };
                open.unfinished |= more.unfinished;
                let ends =
                    more.fields.iter().filter(|field| tables.strings.get(field.name) == "end");
                for end in ends {
                    let Value::String(end) = end.value else { continue };
                    let named = self.named.entry(open.name.clone()).or_default();
                    *named.ends.entry(tables.strings.get(end).to_owned()).or_default() += 1;
                }
            }
            Event::SliceEnd(track) => {
                if let Some(open) = self.open.get_mut(track).and_then(Vec::pop) {
                    self.named.entry(open.name).or_default().unfinished +=
                        u64::from(open.unfinished);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
