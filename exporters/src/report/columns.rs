//! Text in columns, and figures that read easily.

use std::fmt::Write as _;
pub(super) use syscollect_model::{bytes, duration, grouped};

/// What a column of names gets at least, however narrow the terminal.
const LEAST_NAME: usize = 12;

/// Ends the name in a cell: a remark follows, which is not shortened. No name holds it, because
/// control characters are shown escaped.
pub(super) const REMARK: char = '\u{1f}';

/// Lines of right-aligned figures, with a name at the end whose middle is left out where the line
/// would not fit into `width` characters.
pub(super) fn table<const N: usize>(
    text: &mut String,
    width: usize,
    heads: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) {
    let mut rows: Vec<[String; N]> = rows.into_iter().collect();
    rows.insert(0, heads.map(str::to_owned));
    let widths: [usize; N] = std::array::from_fn(|column| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    });
    let figures = widths[..N - 1].iter().map(|width| width + 2).sum::<usize>() + 2;
    let room = width.saturating_sub(figures).max(LEAST_NAME);
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            // Writing to a String never fails.
            let _ = match column + 1 == N {
                true => write!(line, "  {}", named_cell(cell, room)),
                false => write!(line, "  {cell:>width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// A name with its remark: the name is shortened, but to no less than half of what there is.
fn named_cell(cell: &str, width: usize) -> String {
    let (name, remark) = cell.split_once(REMARK).unwrap_or((cell, ""));
    let room = width.saturating_sub(remark.chars().count()).max(width / 2).max(LEAST_NAME);
    clipped(&(shortened(name, room) + remark), width)
}

/// The text, its end replaced by an ellipsis where it is longer than `width` characters.
pub(super) fn clipped(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// The text, its middle replaced by an ellipsis where it is longer than `width` characters: what a
/// function is called is at the end of its path, and where it belongs is at both.
pub(super) fn shortened(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let begin = kept / 3;
    let end = text.chars().skip(length - (kept - begin));
    text.chars().take(begin).chain(['…']).chain(end).collect()
}

/// Words in lines of at most `width` characters, indented, at most `lines` of them.
pub(super) fn wrapped(
    text: &mut String,
    width: usize,
    indent: usize,
    lines: usize,
    words: &[String],
) {
    let room = room(width, indent);
    let (mut written, all) = laid_out(room, lines, words);
    if let (false, Some(line)) = (all, written.last_mut()) {
        line.push_str(" …");
    }
    for line in written.iter().filter(|line| !line.is_empty()) {
        let _ = writeln!(text, "{:indent$}{}", "", clipped(line, room));
    }
}

/// Whether these words take no more lines.
pub(super) fn fits(width: usize, indent: usize, lines: usize, words: &[String]) -> bool {
    laid_out(room(width, indent), lines, words).1
}

fn room(width: usize, indent: usize) -> usize {
    width.saturating_sub(indent).max(LEAST_NAME)
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

/// A number of any size in a few characters: as it is, or with an exponent.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        0.001..1e9 if value.fract() == 0.0 => format!("{value}"),
        0.001..1e6 => format!("{value:.3}"),
        _ => format!("{value:.3e}"),
    }
}

/// A share of a whole in percent: `12.3`.
pub(super) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.1}", part as f64 * 100.0 / whole as f64)
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
    fn numbers_of_any_size_are_short() {
        let shown = [0.0, -7.0, 2_400_000.0, 62.5, 1.0 / 3.0, 1e-9, -1.5e300, f64::MAX].map(number);
        assert_eq!(
            shown,
            ["0", "-7", "2400000", "62.500", "0.333", "1.000e-9", "-1.500e300", "1.798e308"]
        );
    }

    #[test]
    fn shares_are_of_something() {
        assert_eq!(percent(1, 8), "12.5");
        assert_eq!(percent(1, 0), "-");
    }

    #[test]
    fn names_are_cut_to_the_width_and_figures_never() {
        let mut text = String::new();
        let row = ["1,234,567".to_owned(), "a name that is far too long".to_owned()];
        table(&mut text, 30, ["count", "name"], [row]);
        assert_eq!(text, "      count  name\n  1,234,567  a nam…ar too long\n");
    }

    #[test]
    fn of_a_long_name_both_ends_are_shown() {
        let name = "<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter (cc)";
        assert_eq!(shortened(name, 30), "<alloc::v…<T>>::from_iter (cc)");
        assert_eq!(shortened("äöü", 3), "äöü");
        assert_eq!([shortened("abcd", 1), shortened("abcd", 0)], ["…", "…"]);
    }

    #[test]
    fn long_stacks_take_few_lines() {
        let words: Vec<String> =
            ["aaaa", "bbbb", "cccc", "dddd", "eeee", "ffff", "gggg"].map(str::to_owned).into();
        let mut text = String::new();
        wrapped(&mut text, 18, 2, 2, &words); // 16 characters of text
        assert_eq!(text, "  aaaa bbbb cccc\n  dddd eeee ffff …\n");
    }
}
