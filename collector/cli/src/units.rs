//! Durations and sizes, written alike in every option of every sub-command: `500ms`, `5s`, `10m`,
//! `64M`.
//!
//! A number without a unit is of seconds, or of bytes.

use std::time::Duration;

/// Units of time in nanoseconds. `m` is a minute: nobody records for months.
const TIME_UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Units of size as powers of two.
const SIZE_UNITS: [(&str, u32); 10] = [
    ("b", 0),
    ("k", 10),
    ("kb", 10),
    ("kib", 10),
    ("m", 20),
    ("mb", 20),
    ("mib", 20),
    ("g", 30),
    ("gb", 30),
    ("gib", 30),
];

/// A moment of a recording, from its beginning: `0`, `2.5`, `500ms`, `1m`.
pub(crate) fn parse_moment(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    moment(number, unit).ok_or_else(|| {
        format!(
            "{text:?} is not a time; write it as 500ms, 5s or 10m (a number alone is of seconds)"
        )
    })
}

fn moment(number: &str, unit: &str) -> Option<Duration> {
    let nanoseconds = match unit {
        "" => 1_000_000_000,
        unit => TIME_UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    let number: f64 = number.parse().ok()?;
    Duration::try_from_secs_f64(number * nanoseconds as f64 / 1e9).ok()
}

/// A duration, more than nothing: `5`, `0.5`, `500ms`, `10m`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    match parse_moment(text)? {
        Duration::ZERO => Err(format!("{text:?} is no time at all; write it as 500ms, 5s or 10m")),
        duration => Ok(duration),
    }
}

/// Bytes, from a number with an optional unit: `65536`, `512K`, `64M`, `2G` (powers of 1024).
pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    let (number, unit) = split(text);
    let number: usize = number
        .parse()
        .map_err(|_| format!("{text:?} is not a size; write it as 512K, 64M or 2G"))?;
    let shift = match unit {
        "" => 0,
        unit => {
            let known = SIZE_UNITS.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name));
            known.ok_or_else(|| format!("{unit:?} is not a unit of size; use K, M or G"))?.1
        }
    };
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("{text} is more than this machine can address"))
}

/// A share of a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Percent {
    pub(crate) millionths: u32,
}

/// A share of a whole: `1%`, `0.5%`, `0`.
pub(crate) fn parse_percent(text: &str) -> Result<Percent, String> {
    let number: Option<f64> = text.strip_suffix('%').unwrap_or(text).trim_end().parse().ok();
    match number {
        Some(percent) if (0.0..=100.0).contains(&percent) => {
            Ok(Percent { millionths: (percent * 10_000.0).round() as u32 })
        }
        _ => Err(format!("{text:?} is no share of a whole; write it as 1% or 0.5%")),
    }
}

/// How much a trace buffer holds: bytes, or what happened in a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BufferSize {
    /// Bytes, if they were given.
    pub(crate) bytes: Option<usize>,
    /// The time, if it was given.
    pub(crate) span: Option<Duration>,
}

/// The size of a trace buffer: `64M`, `30s`, or both, `30s,2G`.
pub(crate) fn parse_buffer(text: &str) -> Result<BufferSize, String> {
    let mut size = BufferSize::default();
    for part in text.split(',') {
        let unit = split(part).1;
        if unit == "m" {
            return Err(format!("{part:?} may be minutes or megabytes; write it as 10min or 10M"));
        }
        let is_of_size =
            unit.is_empty() || SIZE_UNITS.iter().any(|(name, _)| unit.eq_ignore_ascii_case(name));
        let is_of_time = TIME_UNITS.iter().any(|(name, _)| *name == unit);
        if !is_of_size && !is_of_time {
            return Err(format!(
                "{part:?} is neither a size nor a time; write it as 64M, 30s or 30s,2G (K, M or G; \
                 ms, s, min or h)"
            ));
        }
        let is_given = if is_of_time {
            size.span.replace(parse_duration(part)?).is_some()
        } else {
            size.bytes.replace(parse_buffer_bytes(part)?).is_some()
        };
        if is_given {
            return Err(format!(
                "{text:?} has two sizes, or two times; write it as 64M, 30s or 30s,2G"
            ));
        }
    }
    Ok(size)
}

fn parse_buffer_bytes(text: &str) -> Result<usize, String> {
    let bytes = parse_size(text)?;
    // A number without a unit is more often meant in megabytes than in bytes.
    if bytes < 4096 {
        Err(format!("{text} is less than 4 KiB; is a unit missing, as in 64M?"))
    } else {
        Ok(bytes)
    }
}

/// A number and its unit, which may be empty.
fn split(text: &str) -> (&str, &str) {
    // What is no digit in `1e400` or `inf` makes neither a number nor a unit.
    let number = text.trim_end_matches(|c: char| !c.is_ascii_digit() && c != '.');
    (number, &text[number.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_take_units_and_a_number_alone_is_of_seconds() {
        let all = [
            ("5", 5_000),
            ("5s", 5_000),
            ("0.5", 500),
            ("500ms", 500),
            ("1.5s", 1_500),
            ("10m", 600_000),
            ("2min", 120_000),
            ("1h", 3_600_000),
            ("250000us", 250),
            ("250000µs", 250),
        ];
        for (text, milliseconds) in all {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        assert_eq!(parse_duration("40ns"), Ok(Duration::from_nanos(40)));
    }

    #[test]
    fn what_is_no_time_is_told_how_times_are_written() {
        for wrong in
            ["", "s", "-1", "soon", "inf", "NaN", "1e400", "5 s", "5S", "5d", "1m30s", "\u{1b}[2J"]
        {
            let message = parse_duration(wrong).unwrap_err();
            assert!(
                message.contains("500ms, 5s or 10m") && !message.contains('\u{1b}'),
                "{wrong}: {message}"
            );
        }
    }

    #[test]
    fn a_duration_is_never_none_and_a_moment_may_be_the_first() {
        for none in ["0", "0s", "0.0ms"] {
            assert!(parse_duration(none).is_err(), "{none}");
            assert_eq!(parse_moment(none), Ok(Duration::ZERO), "{none}");
        }
    }

    #[test]
    fn sizes_take_binary_units() {
        assert_eq!(parse_size("65536"), Ok(65536));
        assert_eq!(parse_size("512k"), Ok(512 << 10));
        assert_eq!(parse_size("64M"), Ok(64 << 20));
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        assert!(parse_size("64X").unwrap_err().contains("K, M or G"));
        assert!(parse_size("much").unwrap_err().contains("not a size"));
        assert!(parse_size("99999999999G").unwrap_err().contains("address"));
        assert!(parse_buffer("64").unwrap_err().contains("64M"));
    }

    #[test]
    fn shares_are_of_a_whole() {
        let shares = ["1%", "0.5%", "2", "0", "100%"].map(parse_percent);
        let millionths = shares.map(|share| share.unwrap().millionths);
        assert_eq!(millionths, [10_000, 5_000, 20_000, 0, 1_000_000]);
        for wrong in ["", "%", "101%", "-1%", "NaN", "one", "inf"] {
            assert!(parse_percent(wrong).unwrap_err().contains("1%"), "{wrong}");
        }
    }

    #[test]
    fn a_buffer_has_a_size_or_a_time_or_both() {
        assert_eq!(parse_buffer("64M"), buffer(Some(64 << 20), None));
        assert_eq!(parse_buffer("30s"), buffer(None, Some(30)));
        assert_eq!(parse_buffer("2min,1g"), buffer(Some(1 << 30), Some(120)));
        assert!(parse_buffer("10m").unwrap_err().contains("10min or 10M"));
        for wrong in ["30x", "soon"] {
            let message = parse_buffer(wrong).unwrap_err();
            assert!(message.contains("K, M or G; ms, s, min or h"), "{message}");
        }
        for wrong in ["", "30s,", "30s,5s", "1M,1M", "0s", "30s,64"] {
            assert!(parse_buffer(wrong).is_err(), "{wrong}");
        }
    }

    fn buffer(bytes: Option<usize>, seconds: Option<u64>) -> Result<BufferSize, String> {
        Ok(BufferSize { bytes, span: seconds.map(Duration::from_secs) })
    }
}
