//! Figures, names and numbers of things as the report's texts show them.

pub(super) use syscollect_model::{bytes, duration, grouped};

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

/// The title, with the number of rows where not all are shown.
pub(super) fn some_of(title: &str, shown: usize, total: usize) -> String {
    if shown == total {
        title.to_owned()
    } else {
        format!("{title}: {shown} of {}", grouped(total as u64))
    }
}

pub(super) fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{} {what}s", grouped(number)) }
}

/// Without what could do something to the terminal; backslashes of Windows' paths stay as they are.
pub(in crate::report) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '\'' | '"' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    shown
}

/// `do_wait (interruptible)`.
pub(super) fn blocked_in_label(blocked_in: Option<&str>, state: &str, io_wait: bool) -> String {
    let place = blocked_in.map_or("?".into(), shown);
    let io = if io_wait { ", for I/O" } else { "" };
    format!("{place} ({state}{io})")
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn of_a_long_name_both_ends_are_shown() {
        let name = "<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter (cc)";
        assert_eq!(shortened(name, 30), "<alloc::v…<T>>::from_iter (cc)");
        assert_eq!(shortened("äöü", 3), "äöü");
        assert_eq!([shortened("abcd", 1), shortened("abcd", 0)], ["…", "…"]);
    }
}
