//! Rows of pages, in the order in which they come.

use crate::UnwindRow;
use crate::rule::Rule;
use syscollect_records::unwind::{PAGE_BYTES, ROWS_MAX};

/// Rows of one call at most, 128 MiB of them; the largest files have half as many.
const ROWS_OF_CALL_MAX: usize = 1 << 24;

/// Takes rules by ascending file offset, and makes the lists of those pages that are wanted.
#[derive(Debug)]
pub(crate) struct PageWriter {
    /// Sorted by number.
    pages: Vec<(u32, Vec<UnwindRow>)>,
    /// The page that is written, by its place in `pages`.
    at: usize,
    /// Holds from the last offset on.
    rule: Rule,
    /// Rows of the pages before.
    rows_before: usize,
}

impl PageWriter {
    pub(crate) fn new(pages: &[u32]) -> Self {
        let mut pages: Vec<_> = pages.iter().map(|page| (*page, Vec::new())).collect();
        pages.sort_unstable_by_key(|(page, _)| *page);
        pages.dedup_by_key(|(page, _)| *page);
        Self { pages, at: 0, rule: Rule::NONE, rows_before: 0 }
    }

    /// Numbers of the pages that are wanted; sorted.
    pub(crate) fn wanted(&self) -> Vec<u32> {
        self.pages.iter().map(|(page, _)| *page).collect()
    }

    /// `rule` holds from `offset` on, which lies in a page that is wanted, and not before an offset
    /// of before.
    pub(crate) fn set(&mut self, offset: u64, rule: Rule) {
        self.go_to(offset / PAGE_BYTES);
        self.push((offset % PAGE_BYTES) as u16, rule);
        self.rule = rule;
    }

    /// Nothing is known from `offset` on, until [`set`](Self::set) is called again.
    pub(crate) fn end(&mut self, offset: u64) {
        // The page of the last byte: the one after it may be none that is wanted.
        self.go_to(offset.saturating_sub(1) / PAGE_BYTES);
        if !offset.is_multiple_of(PAGE_BYTES) {
            self.push((offset % PAGE_BYTES) as u16, Rule::NONE);
        }
        self.rule = Rule::NONE;
    }

    /// The pages, each with at least one row.
    pub(crate) fn finish(mut self) -> Vec<(u32, Vec<UnwindRow>)> {
        self.go_to(u64::MAX);
        self.pages
    }

    /// Goes on to `page`. What holds at the end of a page holds at the beginning of the next.
    fn go_to(&mut self, page: u64) {
        while let Some((number, rows)) = self.pages.get(self.at) {
            let (number, is_new) = (u64::from(*number), rows.is_empty());
            if is_new {
                self.push(0, self.rule);
            }
            if number >= page {
                break;
            }
            self.rows_before += self.pages[self.at].1.len();
            self.at += 1;
        }
    }

    fn push(&mut self, address: u16, rule: Rule) {
        let Some((_, rows)) = self.pages.get_mut(self.at) else { return };
        let room = ROWS_MAX.min(ROWS_OF_CALL_MAX.saturating_sub(self.rows_before));
        if !rows.is_empty() && rows.len() >= room {
            return;
        }
        // What comes later knows better.
        if rows.last().is_some_and(|last| last.address == address) {
            rows.pop();
        }
        // The last row says that there was no room for others.
        let rule = if rows.len() + 1 >= room { Rule::INEXPRESSIBLE } else { rule };
        if rows.last().is_none_or(|last| Rule::of_row(*last) != rule) {
            rows.push(rule.at(address));
        }
    }
}
