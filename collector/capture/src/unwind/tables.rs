//! The tables as the kernel programs read them (`bpf/include/unwind.h`): files by number, their
//! pages, and the rows of those pages that a walk has asked for.
//!
//! Their memory is bounded. Where it is used up, rows that no walk has used lately give way, and
//! files that are not mapped any more. Programs go on reading meanwhile, and take what they have
//! found only if the words that led there are the same afterwards; here a word is changed before
//! what it leads to is ([`Words::store`]).

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use syscollect_records::unwind::UnwindRow;

use super::runs::Runs;
use super::words::{
    FILE_NUMBERS, FileId, PAGE_GENERATIONS, PAGES_OF_FILE_MAX, PageState, WORDS_OF_PAGE, Words,
    word_of,
};
use crate::shares::Pool;

/// Who has room for fewer rows has none.
const ROWS_OF_SMALL_PAGE: u64 = 64;
/// What was not used in this epoch nor the one before is not in use.
const IDLE_EPOCHS: u64 = 2;
/// Room is short where less than so much of it is free: one in this many.
const SHORT: u64 = 4;
/// A file of which so many pages are made is one whose code walks come by at ever new places.
const PAGES_OF_BUSY_FILE: usize = 16;

/// Pages of one file that walks through programs of one user have asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedPages {
    pub(super) file: FileId,
    /// Whose programs: the file may be anybody's.
    pub(super) user: u32,
    pub(super) pages: Vec<u32>,
}

/// A file that has a number.
#[derive(Debug)]
struct KnownFile {
    id: FileId,
    /// Where the words of its pages are.
    pages: Range<u32>,
    user: u32,
    has_interpreter: bool,
    /// The epoch in which it became known.
    since: u64,
}

/// A page that has rows.
#[derive(Clone, Copy, Debug)]
struct MadePage {
    state: PageState,
    first: u32,
    rows: u16,
    /// Whose programs asked for it.
    user: u32,
}

/// What was written into the programs' arrays.
#[derive(Debug)]
pub(super) struct Tables<W> {
    rows: W,
    pages: W,
    files: W,
    /// By number.
    known: BTreeMap<u32, KnownFile>,
    /// Ids of files to come, whose numbers are free; those that were free longest come first.
    free_ids: VecDeque<FileId>,
    page_runs: Runs,
    row_runs: Runs,
    /// By where their words are.
    made: BTreeMap<u32, MadePage>,
    free_files: Pool,
    free_pages: Pool,
    free_rows: Pool,
    epoch: u64,
    next_generation: u16,
    /// Since this epoch began something was added; something was refused.
    has_grown: bool,
    has_refused: bool,
    evicted: u64,
}

impl<W: Words> Tables<W> {
    /// Empty ones.
    pub(super) fn new(rows: W, pages: W, files: W) -> Self {
        let (row_count, page_count) = (count(rows.length()), count(pages.length() / WORDS_OF_PAGE));
        // Number 0 is none.
        let numbers = 1..count(files.length()).clamp(1, FILE_NUMBERS);
        let file_count = u64::from(numbers.end - numbers.start);
        Self {
            rows,
            pages,
            files,
            known: BTreeMap::new(),
            free_ids: numbers.map(|number| FileId::new(number, 1)).collect(),
            page_runs: Runs::new(page_count),
            row_runs: Runs::new(row_count),
            made: BTreeMap::new(),
            free_files: Pool::new(file_count),
            free_pages: Pool::new(page_count.into()),
            free_rows: Pool::new(row_count.into()),
            epoch: 0,
            next_generation: 0,
            has_grown: false,
            has_refused: false,
            evicted: 0,
        }
    }

    /// Gives a file that `user`'s program has mapped a number and so many pages, which nobody has
    /// asked for yet; `None` where there is no room, or such files have their share.
    pub(super) fn add(&mut self, pages: u32, user: u32) -> Option<FileId> {
        self.has_grown = true;
        let added = self.try_add(pages, user);
        self.has_refused |= added.is_none();
        added
    }

    fn try_add(&mut self, pages: u32, user: u32) -> Option<FileId> {
        if pages > PAGES_OF_FILE_MAX || !self.free_files.take(user, 1) {
            return None;
        }
        let has_pages = self.free_pages.take(user, pages.into());
        let first = has_pages.then(|| self.page_runs.take(pages)).flatten();
        let (Some(first), Some(id)) = (first, self.free_ids.front().copied()) else {
            if has_pages {
                self.free_pages.give_back(user, pages.into());
            }
            if let Some(first) = first {
                self.page_runs.give_back(first, pages);
            }
            self.free_files.give_back(user, 1);
            return None;
        };
        self.free_ids.pop_front();
        let pages = first..first + pages;
        for index in pages.clone() {
            self.set(index, PageState::Nothing);
        }
        self.files.store(id.number() as usize, id.word(&pages, false));
        let file = KnownFile { id, pages, user, has_interpreter: false, since: self.epoch };
        self.known.insert(id.number(), file);
        Some(id)
    }

    /// Takes a file's number away, and all that it has.
    pub(super) fn remove(&mut self, id: FileId) {
        if self.file(id).is_none() {
            return;
        }
        // Before its pages are others'.
        self.files.store(id.number() as usize, 0);
        let Some(KnownFile { pages, user, .. }) = self.known.remove(&id.number()) else { return };
        for index in pages.clone() {
            self.unmake(index);
        }
        let count = pages.end - pages.start;
        self.page_runs.give_back(pages.start, count);
        self.free_pages.give_back(user, count.into());
        self.free_files.give_back(user, 1);
        self.free_ids.push_back(FileId::new(id.number(), id.next_generation()));
    }

    /// Tells the programs that a file has an interpreter in it; `false` if there is no such file.
    pub(super) fn mark_interpreter(&mut self, id: FileId) -> bool {
        let file = self.known.get_mut(&id.number()).filter(|file| file.id == id);
        let Some(file) = file else { return false };
        file.has_interpreter = true;
        self.files.store(id.number() as usize, id.word(&file.pages, true));
        true
    }

    /// The pages that walks have asked for, by file and user, then those that are expected to be. A
    /// large program has thousands of the latter, and what walks miss would come long after them.
    pub(super) fn wanted(&self) -> Vec<WantedPages> {
        let mut wanted = BTreeMap::<(bool, FileId, u32), Vec<u32>>::new();
        for file in self.known.values() {
            for (page, index) in (0..).zip(file.pages.clone()) {
                let (is_expected, user) = match self.state(index) {
                    PageState::Wanted { user } => (false, user),
                    PageState::Expected { user } => (true, user),
                    _ => continue,
                };
                match self.made.get(&index) {
                    // A walk that came by before the rows were there has marked it afterwards.
                    Some(made) => self.set(index, made.state),
                    None => {
                        wanted.entry((is_expected, file.id, user)).or_default().push(page);
                    }
                }
            }
        }
        let each = wanted.into_iter();
        each.map(|((_, file, user), pages)| WantedPages { file, user, pages }).collect()
    }

    /// Asks for pages that nobody has asked for, as walks do.
    pub(super) fn ask(&self, wanted: &WantedPages) {
        self.mark(wanted, PageState::Wanted { user: wanted.user });
    }

    /// Expects that walks will ask for pages that nobody has asked for.
    pub(super) fn expect(&self, wanted: &WantedPages) {
        self.mark(wanted, PageState::Expected { user: wanted.user });
    }

    fn mark(&self, WantedPages { file, pages, .. }: &WantedPages, state: PageState) {
        for index in pages.iter().filter_map(|page| self.index(*file, *page)) {
            if self.state(index) == PageState::Nothing {
                self.set(index, state);
            }
        }
    }

    /// Pages that nobody has asked for, of files of which many were asked for: large programs and
    /// libraries, of which each process asks for others. None of a user's who has no room for as
    /// much again as it leaves to others: what was asked for goes before.
    pub(super) fn unasked(&self) -> Vec<WantedPages> {
        let half = self.free_rows.total() / 2;
        let files = self.known.values().filter(|file| self.free_rows.room(file.user) > half);
        let busy = files.filter(|file| {
            self.made.range(file.pages.clone()).nth(PAGES_OF_BUSY_FILE - 1).is_some()
        });
        let unasked = busy.map(|file| {
            let pages = (0..).zip(file.pages.clone());
            let pages = pages.filter(|(_, index)| self.state(*index) == PageState::Nothing);
            let pages = pages.map(|(page, _)| page).collect();
            WantedPages { file: file.id, user: file.user, pages }
        });
        unasked.filter(|unasked| !unasked.pages.is_empty()).collect()
    }

    /// Puts a page's rows where walks find them; `user`'s programs have asked for them. Others that
    /// are not in use give way. Where there is no room all the same, that user does not ask again in
    /// this epoch, and `false` is returned.
    pub(super) fn publish(
        &mut self,
        file: FileId,
        page: u32,
        rows: &[UnwindRow],
        user: u32,
    ) -> bool {
        let Some(index) = self.index(file, page) else { return false };
        self.has_grown = true;
        if let Some(made) = self.made.get(&index) {
            self.set(index, made.state);
            return true;
        }
        let room = u16::try_from(rows.len()).ok().and_then(|count| self.make_room(user, count));
        let Some((first, count)) = room else {
            self.refuse(file, page, user);
            return false;
        };
        for (place, row) in (first as usize..).zip(rows) {
            self.rows.store(place, word_of(*row));
        }
        self.next_generation = (self.next_generation + 1) % PAGE_GENERATIONS;
        let state = PageState::Ready { generation: self.next_generation, rows: count, first };
        self.pages.store(index as usize * WORDS_OF_PAGE + 1, self.epoch);
        self.set(index, state);
        self.made.insert(index, MadePage { state, first, rows: count, user });
        true
    }

    /// Whether there is room for a user's rows, or others would give way. If not, tables need not be
    /// made to find that out: a page of code that was compiled takes some hundred.
    pub(super) fn has_room(&self, user: u32) -> bool {
        let has_free = self.free_rows.room(user) >= ROWS_OF_SMALL_PAGE;
        has_free || self.victim(user, ROWS_OF_SMALL_PAGE).is_some()
    }

    /// A page for which there is no room: that user does not ask for it again in this epoch.
    pub(super) fn refuse(&mut self, file: FileId, page: u32, user: u32) {
        let Some(index) = self.index(file, page) else { return };
        self.has_refused = true;
        self.set(index, PageState::Refused { user });
    }

    /// Whether it is time to find out what is not in use: more was asked for in this epoch, and
    /// there is little room left, or was none.
    pub(super) fn is_short(&self) -> bool {
        let pools = [&self.free_files, &self.free_pages, &self.free_rows];
        self.has_refused
            || (self.has_grown && pools.iter().any(|pool| pool.room(0) < pool.total() / SHORT))
    }

    /// Begins the next epoch, which the programs are to be told: in it, who was refused may ask
    /// again.
    pub(super) fn begin_epoch(&mut self) -> u64 {
        self.epoch += 1;
        (self.has_grown, self.has_refused) = (false, false);
        for index in self.known.values().flat_map(|file| file.pages.clone()) {
            if let PageState::Refused { .. } = self.state(index) {
                self.set(index, PageState::Nothing);
            }
        }
        self.epoch
    }

    /// Files of which nothing was used lately.
    pub(super) fn idle_files(&self) -> Vec<FileId> {
        self.known
            .values()
            .filter(|file| {
                let made = self.made.range(file.pages.clone()).map(|(index, _)| self.used(*index));
                self.is_idle(made.max().unwrap_or(0).max(file.since))
            })
            .map(|file| file.id)
            .collect()
    }

    /// Whether files have room for more of them, and of their pages.
    pub(super) fn is_short_of_files(&self) -> bool {
        let pools = [&self.free_files, &self.free_pages];
        pools.iter().any(|pool| pool.room(0) < pool.total() / SHORT)
    }

    /// Rows in use.
    pub(super) fn rows(&self) -> u64 {
        self.free_rows.total() - self.free_rows.room(0)
    }

    /// Rows that there is room for.
    pub(super) fn rows_max(&self) -> u64 {
        self.free_rows.total()
    }

    /// How often the rows of a page gave way.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Where a user's rows may lie: others that are not in use give way.
    fn make_room(&mut self, user: u32, rows: u16) -> Option<(u32, u16)> {
        if rows == 0 {
            return Some((0, 0));
        }
        let count = u64::from(rows);
        loop {
            if self.free_rows.take(user, count) {
                match self.row_runs.take(rows.into()) {
                    Some(first) => return Some((first, rows)),
                    // There is room, in pieces.
                    None => self.free_rows.give_back(user, count),
                }
            }
            let victim = self.victim(user, count)?;
            self.unmake(victim);
            self.evicted += 1;
        }
    }

    /// Which page gives way to rows of a user's: one that is not in use, of the user who has more
    /// than an equal share first, and of these the one that was used longest ago. Who has its share
    /// has only its own give way. Who has not, takes what is in use from who has more than that.
    fn victim(&self, user: u32, rows: u64) -> Option<u32> {
        let share = self.free_rows.equal_share(user);
        let is_below = self.free_rows.held(user) + rows <= share;
        let with_rows = self.made.iter().filter(|(_, page)| page.rows > 0);
        let may_go = with_rows.filter_map(|(index, page)| {
            let used = self.used(*index);
            let is_own = self.free_rows.is_same(page.user, user);
            let is_above = self.free_rows.held(page.user) > share;
            let is_idle = self.is_idle(used);
            let may = if is_idle { is_own || is_below } else { !is_own && is_below && is_above };
            may.then_some((!is_idle, !is_above, used, *index))
        });
        may_go.min().map(|(.., index)| index)
    }

    /// A page has no rows any more.
    fn unmake(&mut self, index: u32) {
        // Before its rows are others'.
        self.set(index, PageState::Nothing);
        if let Some(MadePage { first, rows, user, .. }) = self.made.remove(&index) {
            self.row_runs.give_back(first, rows.into());
            self.free_rows.give_back(user, rows.into());
        }
    }

    fn is_idle(&self, used: u64) -> bool {
        used + IDLE_EPOCHS <= self.epoch
    }

    /// The epoch in which a page was used last. Programs that are late write an older one.
    fn used(&self, index: u32) -> u64 {
        self.pages.load(index as usize * WORDS_OF_PAGE + 1).min(self.epoch)
    }

    fn state(&self, index: u32) -> PageState {
        PageState::of_word(self.pages.load(index as usize * WORDS_OF_PAGE))
    }

    fn set(&self, index: u32, state: PageState) {
        self.pages.store(index as usize * WORDS_OF_PAGE, state.word());
    }

    fn file(&self, id: FileId) -> Option<&KnownFile> {
        self.known.get(&id.number()).filter(|file| file.id == id)
    }

    /// Where a page's words are.
    fn index(&self, file: FileId, page: u32) -> Option<u32> {
        let pages = &self.file(file)?.pages;
        pages.start.checked_add(page).filter(|index| pages.contains(index))
    }
}

fn count(words: usize) -> u32 {
    u32::try_from(words).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "tables_tests.rs"]
mod tests;
