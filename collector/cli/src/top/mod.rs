//! `syscollect top`: what the machine does, each second, in a terminal or as lines.
//!
//! A flight recorder runs in this process. Its chunks are taken some times a second and made
//! seconds of, which the view shows; nothing wakes it for an event, and what it is too slow for is
//! left out, counted and shown. What is held is written where somebody asks for it.

mod cost;
mod draw;
#[cfg(test)]
mod function_tests;
mod functions;
mod keys;
mod lines;
mod rows;
#[cfg(test)]
mod tests;
mod view;

use crate::escape::HeldLines;
use crate::record::flight::{Connections, LiveNames, NameDetail, ViewedArgs, ViewedFlight};
use crate::screen::{Screen, check_foreground};
use crate::signals::{self, Stop, StopEvent};
use crate::terminal::Terminal;
use crate::usage::usage;
use anyhow::{Context, Result, bail};
use cost::OwnCost;
use draw::{Shown, draw};
use keys::{Keys, Typed};
use ratatui_core::layout::{Position, Rect};
use ratatui_crossterm::CrosstermBackend;
use rows::{Column, Selection, Subject};
use std::io::{IsTerminal, stdin, stdout};
use std::mem::ManuallyDrop;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use syscollect_activity::Activity;
use syscollect_capture::Teed;
use syscollect_model::{LaneKind, StopReason};
use view::{Recorded, Request, View};

/// How often it is looked what came: nothing wakes this view.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Places in code for whose names is asked at a time, and how often that is done.
const MOST_ASKED: usize = 1 << 14;
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long a second that is printed waits for names.
const LONGEST_NAMING: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  sudo syscollect top                           the machine, each second, until q
  sudo syscollect top --sort wait               who waits longest for a CPU first
  sudo syscollect top --folder /var/tmp         where the key s writes snapshots
  sudo syscollect top --once                    one second as text, for scripts
  sudo syscollect top --seconds 10 --json       ten seconds, a JSON object on a line each
  sudo syscollect top --once --by processes --filter postgres
  sudo syscollect top --once --by functions     where threads run and are blocked

h shows the keys. Times are exact: each context switch counts. Of one second, the times that all
threads were on a CPU and the time that it was idle are one second; where records are missing, the
rest is \"not known\" and the second is marked as incomplete.";

/// The arguments as they are written.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopArgs {
    /// Print one second and end: no terminal is needed
    #[arg(long, conflicts_with = "seconds")]
    once: bool,

    /// Print so many seconds, one after the other, and end
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,

    /// Print a JSON object for each second, with all rows; times in nanoseconds
    #[arg(long)]
    json: bool,

    /// Threads, processes, zones, or functions
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    by: Subject,

    /// Which rows come first
    #[arg(long, value_name = "COLUMN", value_enum, default_value_t)]
    sort: Column,

    /// Only names that contain this, whatever the case, or this number
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,

    /// How many rows are printed of each second
    #[arg(long, value_name = "N", default_value_t = 20)]
    rows: usize,

    #[command(flatten)]
    recording: ViewedArgs,
}

/// Shows the machine until it is stopped.
pub(crate) fn run(args: TopArgs, program_start: Instant) -> Result<ExitCode> {
    let TopArgs { once, seconds, json, by, sort, filter, rows, recording } = args;
    let seconds = if once { Some(1) } else { seconds };
    let terminal = stdin().is_terminal() && stdout().is_terminal();
    if seconds.is_none() && !terminal {
        let message = "there is no terminal to show it in: --once prints one second, --seconds N \
                       prints N of them";
        return Err(usage(message.into()).into());
    }
    if json && seconds.is_none() {
        return Err(usage("--json prints: it needs --once or --seconds N".into()).into());
    }
    // Before anything is recorded.
    if seconds.is_none() {
        check_foreground().context("top needs the whole terminal; --seconds N prints instead")?;
    }
    let (sender, events) = channel();
    let abandon = signals::watch(sender)?;
    abandon.takes_snapshots();
    let of_functions = Arc::new(AtomicBool::new(by == Subject::Functions));
    let is_asked = Arc::clone(&of_functions);
    let wanted = move |kind: LaneKind| {
        Activity::wants(kind)
            || (Activity::wants_for_functions(kind) && is_asked.load(Ordering::Relaxed))
    };
    let Some(flight) =
        ViewedFlight::begin(recording, Connections::Refused, wanted, &abandon, program_start)?
    else {
        return Ok(ExitCode::SUCCESS);
    };
    flight.missing().iter().for_each(|note| eprint_line!("syscollect: {note}"));
    let mut top = Top {
        flight,
        activity: Activity::default(),
        of_functions,
        names: None,
        asked: Instant::now(),
        asked_of: None,
        cost: OwnCost::default(),
        noted: None,
        events,
    };
    if by == Subject::Functions {
        top.follow_functions()?;
        // Nothing came before.
        top.activity.functions_mut().take_wants_anew();
    }
    top.cost.note(&top.flight.status(), 0, Instant::now());
    let selection = Selection { subject: by, sort, filter, ..Selection::default() };
    let shown = match seconds {
        Some(seconds) => top.print(&Printed { selection, seconds, rows, json }),
        None => top.show(View { selection, ..View::default() }),
    };
    abandon.writing();
    let ended = top.flight.end(StopReason::Interrupt);
    shown.and(ended).map(|()| ExitCode::SUCCESS)
}

/// What is printed.
struct Printed {
    selection: Selection,
    seconds: u32,
    rows: usize,
    json: bool,
}

struct Top {
    flight: ViewedFlight,
    activity: Activity,
    /// Somebody asked for functions: their lanes are wanted.
    of_functions: Arc<AtomicBool>,
    names: Option<LiveNames>,
    /// When somebody was asked for names, and of which second, the last.
    asked: Instant,
    asked_of: Option<u64>,
    cost: OwnCost,
    /// The newest second at which the cost was looked at.
    noted: Option<u64>,
    events: Receiver<StopEvent>,
}

impl Top {
    /// Takes what came; whether a second is over.
    fn look(&mut self) -> bool {
        for teed in self.flight.take() {
            match teed {
                Teed::Chunk(chunk) | Teed::Resumes(chunk) => self.activity.feed(chunk),
                Teed::Complete => {}
                Teed::LeftOut(left_out) => self.activity.left_out(&left_out),
                Teed::NothingBefore(ticks) => self.activity.nothing_before(ticks),
            }
        }
        let has_names = self.find_names();
        let newest = self.activity.history().back().map(|second| second.number);
        if newest == self.noted {
            return has_names;
        }
        self.noted = newest;
        let unseen = self.activity.missed_chunks();
        self.cost.note(&self.flight.status(), unseen, Instant::now());
        true
    }

    /// From now on functions are counted, and named.
    fn follow_functions(&mut self) -> Result<()> {
        if self.names.is_none() {
            self.names = Some(self.flight.names(NameDetail::Function)?);
            self.of_functions.store(true, Ordering::Relaxed);
            self.activity.follow_functions();
        }
        Ok(())
    }

    /// Takes names that were found, and asks for those that the last second lacks; whether there
    /// are new ones.
    fn find_names(&mut self) -> bool {
        let Some(names) = &mut self.names else { return false };
        let functions = self.activity.functions_mut();
        if functions.take_wants_anew() {
            self.flight.ask_stacks_anew();
        }
        let found = names.take();
        if let Some(tables) = &found {
            functions.add_names(tables);
        }
        if !names.is_busy() && self.asked.elapsed() >= ASK_EVERY {
            let newest = self.activity.history().back().map(Arc::clone);
            if let Some(second) = newest
                && let Some(of) = second.functions.as_ref()
                && self.asked_of.replace(second.number) != Some(second.number)
            {
                let places = self.activity.functions_mut().ask(of, MOST_ASKED);
                if !places.is_empty() {
                    names.ask(places);
                    self.asked = Instant::now();
                }
            }
        }
        found.is_some()
    }

    fn recorded(&self) -> Recorded<'_> {
        Recorded { history: self.activity.history(), functions: self.activity.functions() }
    }

    /// Whether a signal asks to end; another one asks for a snapshot.
    fn is_stopped(&self) -> bool {
        while let Ok(event) = self.events.try_recv() {
            match event {
                StopEvent::Signal(Stop::User1) => self.flight.snapshot("SIGUSR1"),
                _ => return true,
            }
        }
        false
    }

    /// Prints seconds as they end.
    fn print(&mut self, printed: &Printed) -> Result<()> {
        let mut next = 0;
        let mut waits_since = None;
        while next < u64::from(printed.seconds) {
            std::thread::sleep(LOOK_EVERY);
            if self.is_stopped() {
                return Ok(());
            }
            self.look();
            if self.noted.is_none_or(|newest| newest < next) {
                continue;
            }
            // What is printed has its names, if they are found soon.
            let waiting = *waits_since.get_or_insert_with(Instant::now);
            let is_named = self.names.as_ref().is_none_or(|names| {
                !names.is_busy() && self.asked_of.is_some_and(|asked| asked >= next)
            });
            if !is_named && waiting.elapsed() < LONGEST_NAMING {
                continue;
            }
            waits_since = None;
            let first = next;
            let recorded = self.recorded();
            let seconds = recorded.history.iter();
            for second in seconds.skip_while(|second| second.number < first) {
                if next == u64::from(printed.seconds) {
                    break;
                }
                next = second.number + 1;
                match printed.json {
                    true => lines::print_json(recorded, second, &self.cost)?,
                    false => {
                        let Printed { selection, rows, .. } = printed;
                        lines::print_text(recorded, second, &self.cost, selection, *rows)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Shows seconds on the whole terminal, until somebody has seen enough.
    fn show(&mut self, mut view: View) -> Result<()> {
        let is_coloured = Terminal::stdout().style().is_coloured();
        let lines = HeldLines::begin();
        let screen = Screen::take()?;
        let terminal = ratatui_core::terminal::Terminal::new(CrosstermBackend::new(stdout()))
            .context("cannot draw on the terminal")?;
        // Its end would write to a terminal that may be gone, and panic where that says so. The
        // cursor is given back with the screen.
        let mut terminal = ManuallyDrop::new(terminal);
        let mut shown_size = terminal.size().context("cannot ask for the terminal's size")?;
        let mut keys = Keys::default();
        let mut is_changed = true;
        loop {
            is_changed |= self.look();
            if let Some(line) = lines.take().pop() {
                view.message = line;
                is_changed = true;
            }
            if screen.take_again()? {
                // As if it had another size: it is cleared, and all is drawn. To clear it would ask
                // where the cursor is, and take keys for the answer.
                let area = Rect::from((Position::ORIGIN, shown_size));
                terminal.resize(area).context("cannot draw on the terminal")?;
                is_changed = true;
            }
            if !screen.is_taken() {
                bail!("a part of the program failed");
            }
            if std::mem::take(&mut is_changed) {
                let recorded = self.recorded();
                let shown = Shown { recorded, cost: &self.cost, is_coloured };
                let drawn = terminal.draw(|frame| {
                    if let Some(cursor) = draw(&shown, &mut view, frame.buffer_mut()) {
                        frame.set_cursor_position(cursor);
                    }
                });
                drawn.context("cannot draw on the terminal")?;
            }
            if self.is_stopped() {
                return Ok(());
            }
            let Typed::Keys(typed) = keys.wait(LOOK_EVERY).context("cannot read keys")? else {
                return Ok(());
            };
            // A terminal that has another size is drawn anew.
            let size = terminal.size().context("cannot ask for the terminal's size")?;
            is_changed = !typed.is_empty() || std::mem::replace(&mut shown_size, size) != size;
            for key in typed {
                match view.key(key, self.recorded()) {
                    Some(Request::Quit) => return Ok(()),
                    Some(Request::Snapshot) => {
                        view.message = "writes a snapshot".into();
                        self.flight.snapshot("top");
                    }
                    Some(Request::Functions) => self.follow_functions()?,
                    Some(Request::Suspend) if screen.suspend() => {}
                    Some(Request::Suspend) => {
                        view.message = "no shell waits that it could be stopped for".into();
                    }
                    None => {}
                }
            }
        }
    }
}
