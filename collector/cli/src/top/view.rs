//! What is looked at, and how keys change that.

use super::rows::{Column, Row, Selection, Subject, rows};
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::VecDeque;
use std::sync::Arc;
use syscollect_activity::{Functions, Interval};

/// The longest text that is looked for.
const LONGEST_FILTER: usize = 64;

/// What was recorded of the last minutes.
#[derive(Clone, Copy)]
pub(super) struct Recorded<'a> {
    pub(super) history: &'a VecDeque<Arc<Interval>>,
    pub(super) functions: &'a Functions,
}

/// What a key asks of whoever shows the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// To end.
    Quit,
    /// To write what is held.
    Snapshot,
    /// To follow functions from now on.
    Functions,
    /// To stop, until whoever started it lets it go on.
    Suspend,
}

/// The state of the view.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) selection: Selection,
    /// The filter is being typed.
    pub(super) is_typing: bool,
    pub(super) shows_help: bool,
    /// The number of the second that is looked at; `None` for the newest.
    pub(super) at: Option<u64>,
    /// The row that is marked.
    pub(super) marked: Option<u32>,
    /// The first row that is shown.
    pub(super) first: usize,
    /// Rows that were shown last.
    pub(super) shown_rows: usize,
    /// The last thing that was said.
    pub(super) message: String,
}

impl View {
    /// The second that is looked at, and how many there are that are newer.
    pub(super) fn second<'h>(
        &mut self,
        history: &'h VecDeque<Arc<Interval>>,
    ) -> Option<(&'h Interval, usize)> {
        let newest = history.len().checked_sub(1)?;
        let Some(at) = self.at else { return Some((&history[newest], 0)) };
        let index = history.partition_point(|second| second.number < at).min(newest);
        // What is looked at may be forgotten: then it is the oldest that is kept.
        self.at = Some(history[index].number);
        Some((&history[index], newest - index))
    }

    /// What is shown of that second; what is marked and which row is first are right after this.
    pub(super) fn rows(
        &mut self,
        recorded: Recorded<'_>,
        second: &Interval,
        visible: usize,
    ) -> Vec<Row> {
        let rows = rows(recorded, second, &self.selection);
        self.shown_rows = visible;
        let last_first = rows.len().saturating_sub(visible);
        self.first = self.first.min(last_first);
        if visible > 0
            && let Some(place) = self.place(&rows)
        {
            self.first = self.first.clamp((place + 1).saturating_sub(visible), place);
        }
        rows
    }

    fn place(&self, rows: &[Row]) -> Option<usize> {
        self.marked?;
        rows.iter().position(|row| row.id == self.marked)
    }

    /// A key.
    pub(super) fn key(&mut self, key: KeyEvent, recorded: Recorded<'_>) -> Option<Request> {
        let history = recorded.history;
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if has_control => return Some(Request::Quit),
            KeyCode::Char('z') if has_control => return Some(Request::Suspend),
            _ => {}
        }
        if self.is_typing {
            self.type_filter(key.code, has_control);
            return None;
        }
        if std::mem::take(&mut self.shows_help) {
            return (key.code == KeyCode::Char('q')).then_some(Request::Quit);
        }
        if has_control {
            return None;
        }
        self.message.clear();
        match key.code {
            KeyCode::Char('q') => return Some(Request::Quit),
            KeyCode::Char('s') => return Some(Request::Snapshot),
            KeyCode::Char('h' | '?') => self.shows_help = true,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char(' ') => self.at = if self.at.is_some() { None } else { newest(history) },
            KeyCode::Char('p') => self.show(Subject::Processes),
            KeyCode::Char('t') => self.show(Subject::Threads),
            KeyCode::Char('z') => self.show(Subject::Zones),
            KeyCode::Char('f') => {
                self.show_functions();
                return Some(Request::Functions);
            }
            KeyCode::Char('<' | ',') => self.sort_beside(-1),
            KeyCode::Char('>' | '.') => self.sort_beside(1),
            KeyCode::Char('r') => self.selection.is_reversed = !self.selection.is_reversed,
            KeyCode::Left => self.look_back(history, 1),
            KeyCode::Right => self.look_forward(history, 1),
            KeyCode::Char('[') => self.look_back(history, 10),
            KeyCode::Char(']') => self.look_forward(history, 10),
            KeyCode::Esc => self.back(),
            KeyCode::Enter => self.enter(),
            code => self.mark(code, recorded),
        }
        None
    }

    fn type_filter(&mut self, code: KeyCode, has_control: bool) {
        let filter = &mut self.selection.filter;
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                filter.clear();
            }
            KeyCode::Backspace => drop(filter.pop()),
            KeyCode::Char('u') if has_control => filter.clear(),
            KeyCode::Char(typed) if !has_control && filter.len() < LONGEST_FILTER => {
                filter.push(typed);
            }
            _ => {}
        }
    }

    fn show(&mut self, subject: Subject) {
        self.selection.subject = subject;
        (self.selection.of_process, self.selection.of_function) = (None, None);
        (self.marked, self.first) = (None, 0);
    }

    /// All functions, or those of the process that is marked, or whose threads are shown.
    fn show_functions(&mut self) {
        let of = match self.selection.subject {
            Subject::Processes => self.marked,
            _ => self.selection.of_process,
        };
        self.show(Subject::Functions);
        self.selection.of_process = of;
        self.selection.filter.clear();
    }

    /// Sorts by a column beside the present one.
    fn sort_beside(&mut self, steps: isize) {
        // A tree has its own order.
        if self.selection.subject == Subject::Calls {
            return;
        }
        let columns = Column::of(self.selection.subject);
        let sort = self.selection.sort.or_usual(self.selection.subject);
        let place = columns.iter().position(|column| *column == sort).unwrap_or(0);
        let count = columns.len() as isize;
        self.selection.sort = columns[(place as isize + steps).rem_euclid(count) as usize];
        self.selection.is_reversed = false;
    }

    fn look_back(&mut self, history: &VecDeque<Arc<Interval>>, seconds: u64) {
        let Some(oldest) = history.front().map(|second| second.number) else { return };
        let at = self.at.or(newest(history)).unwrap_or(0);
        self.at = Some(at.saturating_sub(seconds).max(oldest));
    }

    /// Behind the newest it is the newest of each second again.
    fn look_forward(&mut self, history: &VecDeque<Arc<Interval>>, seconds: u64) {
        let Some(at) = self.at else { return };
        let at = at.saturating_add(seconds);
        self.at = newest(history).filter(|newest| at <= *newest).map(|_| at);
    }

    /// Out of a process, or to all rows.
    fn back(&mut self) {
        if let Some(function) = self.selection.of_function.take() {
            self.selection.subject = Subject::Functions;
            (self.marked, self.first) = (Some(function), 0);
        } else if let Some(pid) = self.selection.of_process.take() {
            self.selection.subject = Subject::Processes;
            (self.marked, self.first) = (Some(pid), 0);
        } else if self.selection.filter.is_empty() {
            (self.marked, self.first) = (None, 0);
        } else {
            self.selection.filter.clear();
        }
    }

    /// Into the process, or the function, that is marked.
    fn enter(&mut self) {
        if self.selection.subject == Subject::Functions
            && let Some(function) = self.marked.take()
        {
            self.selection.of_function = Some(function);
            self.selection.subject = Subject::Calls;
            self.first = 0;
        }
        if self.selection.subject == Subject::Processes
            && let Some(pid) = self.marked.take()
        {
            self.selection.of_process = Some(pid);
            self.selection.subject = Subject::Threads;
            self.selection.filter.clear();
            self.first = 0;
        }
    }

    fn mark(&mut self, code: KeyCode, recorded: Recorded<'_>) {
        let Some((second, _)) = self.second(recorded.history) else { return };
        let mut rows = rows(recorded, second, &self.selection);
        // The sum of the others cannot be marked.
        rows.retain(|row| row.id.is_some());
        let last = rows.len().saturating_sub(1);
        let page = self.shown_rows.max(1);
        let place = self.place(&rows);
        let place = match (code, place) {
            (KeyCode::Up, None) => last,
            (KeyCode::Down | KeyCode::PageDown | KeyCode::PageUp, None) => 0,
            (KeyCode::Up, Some(place)) => place.saturating_sub(1),
            (KeyCode::Down, Some(place)) => (place + 1).min(last),
            (KeyCode::PageUp, Some(place)) => place.saturating_sub(page),
            (KeyCode::PageDown, Some(place)) => (place + page).min(last),
            (KeyCode::Home, _) => 0,
            (KeyCode::End, _) => last,
            _ => return,
        };
        self.marked = rows.get(place).and_then(|row| row.id).or(self.marked);
    }
}

fn newest(history: &VecDeque<Arc<Interval>>) -> Option<u64> {
    history.back().map(|second| second.number)
}
