//! Figures that read easily: the one spelling of numbers, durations and sizes in all that is said.

/// `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three digits and a unit: `1.23 s`, `45.6 ms`, `789 us`, `0`.
pub fn duration(nanoseconds: u64) -> String {
    let value = nanoseconds as f64;
    let (value, unit) = match nanoseconds {
        0 => return "0".to_owned(),
        1..1_000 => return format!("{nanoseconds} ns"),
        1_000..999_500 => (value / 1e3, "us"),
        999_500..999_500_000 => (value / 1e6, "ms"),
        _ => (value / 1e9, "s"),
    };
    three_digits(value, unit)
}

/// Three digits and a unit: `12.3 MB`, `512 bytes`; in powers of 1000, as file managers show them.
pub fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["bytes", "kB", "MB", "GB", "TB", "PB"] {
        match unit {
            "bytes" if count == 1 => return "1 byte".to_owned(),
            "bytes" if count < 1000 => return format!("{count} bytes"),
            _ if unit != "bytes" && value < 999.5 => return three_digits(value, unit),
            _ => value /= 1000.0,
        }
    }
    three_digits(value, "EB")
}

fn three_digits(value: f64, unit: &str) -> String {
    let decimals = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let shown = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn durations_have_three_digits() {
        let shown =
            [0, 999, 1_000, 9_994, 9_995, 99_950, 999_499, 999_500, 1_500_000_000, 123_456_000_000]
                .map(duration);
        let expected = [
            "0", "999 ns", "1.00 us", "9.99 us", "10.0 us", "100 us", "999 us", "1.00 ms",
            "1.50 s", "123 s",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn sizes_have_three_digits() {
        let shown = [0, 1, 999, 1_500, 999_499, 999_999, 67_108_864, 2_500_000_000_000, u64::MAX]
            .map(bytes);
        let expected = [
            "0 bytes",
            "1 byte",
            "999 bytes",
            "1.50 kB",
            "999 kB",
            "1.00 MB",
            "67.1 MB",
            "2.50 TB",
            "18.4 EB",
        ];
        assert_eq!(shown, expected);
    }
}
