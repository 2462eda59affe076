//! Lines, tables and wrapped words of a given width.

use crate::report::data::Table;
use crate::report::text::words::{clipped, shortened, some_of};
use std::fmt::Write as _;

/// Characters that lines and paragraphs have at least, however narrow the terminal.
const LEAST_WIDTH: usize = 40;
/// What a column of names gets at least.
const LEAST_NAME: usize = 12;
/// Blanks before a note.
const NOTE_INDENT: usize = 2;

/// Ends the name in a cell: a remark follows, which is not shortened. No name holds it, because
/// control characters are shown escaped.
pub(super) const REMARK: char = '\u{1f}';

/// Where words are wrapped to: behind so many blanks, in at most so many lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordBlock {
    pub(super) indent: usize,
    pub(super) lines: usize,
}

impl WordBlock {
    /// In as many lines as the words need.
    pub(super) fn of_any_height(indent: usize) -> Self {
        Self { indent, lines: usize::MAX }
    }

    /// Characters that a line has behind its blanks.
    fn room(self, width: usize) -> usize {
        width.saturating_sub(self.indent).max(LEAST_NAME)
    }
}

/// Text that grows line by line, in lines of one width as far as that is possible without cutting
/// figures.
pub(super) struct Printer {
    text: String,
    width: usize,
}

impl Printer {
    /// Nothing yet, in lines of `width` characters.
    pub(super) fn new(width: usize) -> Self {
        Self { text: String::new(), width }
    }

    /// What was printed.
    pub(super) fn finish(self) -> String {
        self.text
    }

    /// Characters of a line.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn empty_line(&mut self) {
        self.text.push('\n');
    }

    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(&clipped(line, self.width.max(LEAST_WIDTH)));
        self.text.push('\n');
    }

    /// Whole sentences, in as many lines as they need.
    pub(super) fn paragraph(&mut self, sentences: &str) {
        let width = self.width.max(LEAST_WIDTH);
        wrap(&mut self.text, width, WordBlock::of_any_height(0), &split(sentences));
    }

    /// Why something is not shown, and what shows it.
    pub(super) fn note(&mut self, hint: &str) {
        self.wrapped(WordBlock::of_any_height(NOTE_INDENT), hint);
    }

    /// A section's title.
    pub(super) fn title(&mut self, title: &str) {
        self.empty_line();
        self.line(title);
    }

    /// The title of a section that shows these rows, with their number where not all are there.
    pub(super) fn title_of_rows<T>(&mut self, title: &str, rows: &Table<T>) {
        self.title(&some_of(title, rows.rows.len(), rows.total));
    }

    /// Lines of right-aligned figures, with a name at the end whose middle is left out where the
    /// line would not fit.
    pub(super) fn table<const N: usize>(
        &mut self,
        heads: [&str; N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) {
        let mut rows: Vec<[String; N]> = rows.into_iter().collect();
        rows.insert(0, heads.map(str::to_owned));
        let widths: [usize; N] = std::array::from_fn(|column| {
            rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        });
        let figures = widths[..N - 1].iter().map(|width| width + 2).sum::<usize>() + 2;
        let room = self.width.saturating_sub(figures).max(LEAST_NAME);
        for row in rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
                // Writing to a String never fails.
                let _ = match column + 1 == N {
                    true => write!(line, "  {}", named_cell(cell, room)),
                    false => write!(line, "  {cell:>width$}"),
                };
            }
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
    }

    /// Text that may be wrapped at each blank.
    pub(super) fn wrapped(&mut self, block: WordBlock, text: &str) {
        self.wrapped_words(block, &split(text));
    }

    /// Words that stay whole, whatever blanks are in them.
    pub(super) fn wrapped_words(&mut self, block: WordBlock, words: &[String]) {
        wrap(&mut self.text, self.width, block, words);
    }

    /// Whether these words take no more lines.
    pub(super) fn has_room(&self, block: WordBlock, words: &[String]) -> bool {
        laid_out(block.room(self.width), block.lines, words).1
    }
}

fn split(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// A name with its remark: the name is shortened, but to no less than half of what there is.
fn named_cell(cell: &str, width: usize) -> String {
    let (name, remark) = cell.split_once(REMARK).unwrap_or((cell, ""));
    let room = width.saturating_sub(remark.chars().count()).max(width / 2).max(LEAST_NAME);
    clipped(&(shortened(name, room) + remark), width)
}

/// Words in lines of at most `width` characters; what the block has no lines for is left out.
fn wrap(text: &mut String, width: usize, block: WordBlock, words: &[String]) {
    let room = block.room(width);
    let (mut written, all) = laid_out(room, block.lines, words);
    if let (false, Some(line)) = (all, written.last_mut()) {
        line.push_str(" …");
    }
    let indent = block.indent;
    for line in written.iter().filter(|line| !line.is_empty()) {
        let _ = writeln!(text, "{:indent$}{}", "", clipped(line, room));
    }
}

/// As many words as there are lines for, and whether these are all.
fn laid_out(room: usize, lines: usize, words: &[String]) -> (Vec<String>, bool) {
    let mut written = vec![String::new()];
    for word in words.iter().map(|word| shortened(word, room)) {
        let full = written.len() >= lines;
        let Some(line) = written.last_mut() else { break };
        if line.is_empty() {
            line.push_str(&word);
        } else if line.chars().count() + 1 + word.chars().count() <= room {
            let _ = write!(line, " {word}");
        } else if !full {
            written.push(word);
        } else {
            return (written, false);
        }
    }
    (written, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_name_with_a_remark_the_name_is_shortened() {
        let cell = format!("a::long::path::to::function{REMARK} (1 unfinished)");
        assert_eq!(named_cell(&cell, 60), "a::long::path::to::function (1 unfinished)");
        assert_eq!(named_cell(&cell, 30), "a::l…::function (1 unfinished)");
        assert_eq!(named_cell(&cell, 20), "a::…function (1 unf…");
        let cell = format!("numbered{REMARK} (marks.rs:30); 960 ms in hrtimer_nanosleep");
        assert_eq!(named_cell(&cell, 30), "numbered (marks.rs:30); 960 m…");
    }

    #[test]
    fn names_are_cut_to_the_width_and_figures_never() {
        let mut out = Printer::new(30);
        let row = ["1,234,567".to_owned(), "a name that is far too long".to_owned()];
        out.table(["count", "name"], [row]);
        assert_eq!(out.finish(), "      count  name\n  1,234,567  a nam…ar too long\n");
    }

    #[test]
    fn long_stacks_take_few_lines() {
        let words: Vec<String> =
            ["aaaa", "bbbb", "cccc", "dddd", "eeee", "ffff", "gggg"].map(str::to_owned).into();
        let mut out = Printer::new(18); // 16 characters of text
        out.wrapped_words(WordBlock { indent: 2, lines: 2 }, &words);
        assert_eq!(out.finish(), "  aaaa bbbb cccc\n  dddd eeee ffff …\n");
    }
}
