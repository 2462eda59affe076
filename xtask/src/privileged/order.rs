//! The bracket test the other way round: what the kernel stamps lies between
//! two marks of the program, on the timeline that all exporters get.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, Scope, Tables, ThreadId, Time, TrackId};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::clock::online_cpus;
use super::context::{Context, number};

/// Renames on each CPU.
const COUNT: u64 = 20_000;

/// A zone begins, the thread is renamed by a system call, the zone ends: in
/// this order, every time, on every CPU.
pub(crate) fn order(context: &Context) -> Result<String> {
    let capture = context.path("order.syscap");
    let cpus = online_cpus()?;
    let times = context.times(COUNT);
    let count = times.to_string();
    let mut load = vec!["ordered", &count];
    load.extend(cpus.iter().map(String::as_str));
    let reported = context.record(&capture, &[], &load)?;
    let tid = number(reported.last().context("the load printed nothing")?, "tid")? as u32;
    let order = Order::of(&capture, tid)?;
    let wanted = times * cpus.len() as u64;
    ensure!(
        order.wrong.is_empty(),
        "{} of {wanted} are out of order:\n{}",
        order.wrong.len(),
        first(&order.wrong)
    );
    ensure!(order.right == wanted, "{} of {wanted} were found", order.right);
    Ok(format!("{wanted} of {wanted}: begin, system call, end, on {} CPUs", cpus.len()))
}

fn first(wrong: &[String]) -> String {
    wrong[..wrong.len().min(5)].join("\n")
}

/// What was seen of one thread, in the order of the timeline.
struct Order {
    tid: u32,
    /// Names that the thread got since its zone began; `None` outside of it.
    inside: Option<Vec<String>>,
    right: u64,
    wrong: Vec<String>,
}

impl Order {
    fn of(capture: &Path, tid: u32) -> Result<Self> {
        let reader = CaptureReader::open(capture)?;
        let mut order = Self { tid, inside: None, right: 0, wrong: Vec::new() };
        Session::open(reader)?.play(&mut order)?;
        Ok(order)
    }

    fn is_ours(&self, thread: ThreadId, tables: &Tables) -> bool {
        tables.thread(thread).tid == self.tid
    }

    fn is_our_track(&self, track: TrackId, tables: &Tables) -> bool {
        matches!(tables.track(track).scope, Scope::Thread(thread) if self.is_ours(thread, tables))
    }

    fn zone_ends(&mut self, time: Time) {
        match self.inside.take().as_deref() {
            Some([_]) => self.right += 1,
            inside => {
                self.wrong.push(format!("the zone that ends at {} ns holds {inside:?}", time.0));
            }
        }
    }
}

impl Exporter for Order {
    type Error = anyhow::Error;

    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<()> {
        match event {
            Event::SliceBegin(track, _) if self.is_our_track(*track, tables) => {
                self.inside = Some(Vec::new());
            }
            Event::SliceEnd(track) if self.is_our_track(*track, tables) => self.zone_ends(time),
            Event::ThreadName(thread, name) if self.is_ours(*thread, tables) => {
                let name = tables.strings.get(*name);
                match &mut self.inside {
                    Some(names) => names.push(name.to_owned()),
                    None if name.starts_with("z-") => {
                        self.wrong.push(format!("{name} lies in no zone"));
                    }
                    None => {}
                }
            }
            _ => {}
        }
        Ok(())
    }
}
