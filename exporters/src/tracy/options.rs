//! What can be chosen about a file.

use std::fmt;
use std::str::FromStr;

/// How a Tracy file is written. The default is what every viewer since 0.11 opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TracyOptions {
    /// The viewers that it is for.
    pub layout: TracyLayout,
    /// How it is compressed.
    pub compression: TracyCompression,
}

/// The layout of a Tracy file. A viewer opens its own and those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TracyLayout {
    /// 0.11.0, for every viewer since 0.11.
    #[default]
    V0_11,
    /// 0.13.0: CPUs that woke threads, threads grouped by process, notes on GPU jobs.
    V0_13,
    /// 0.14.0: the severity of messages, and which of them are syscollect's own.
    V0_14,
}

impl TracyLayout {
    /// All layouts, the oldest first.
    pub const ALL: [Self; 3] = [Self::V0_11, Self::V0_13, Self::V0_14];

    /// As the header has it.
    pub(crate) fn version(self) -> [u8; 3] {
        match self {
            Self::V0_11 => [0, 11, 0],
            Self::V0_13 => [0, 13, 0],
            Self::V0_14 => [0, 14, 0],
        }
    }
}

impl fmt::Display for TracyLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, _] = self.version();
        write!(f, "{major}.{minor}")
    }
}

impl FromStr for TracyLayout {
    type Err = TracyOptionError;

    /// From the version of the oldest viewer that is to open the file: `0.11`, `0.13`, `0.14`.
    fn from_str(text: &str) -> Result<Self, TracyOptionError> {
        let found = Self::ALL.into_iter().find(|layout| layout.to_string() == text);
        found.ok_or_else(|| TracyOptionError::Layout { text: text.to_owned() })
    }
}

/// The compression of a Tracy file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TracyCompression {
    /// LZ4: the fastest to open.
    #[default]
    Lz4,
    /// zstd: a third smaller, or more. Of crates that were built with the feature `zstd` only:
    /// it is C, and needs a C compiler.
    #[cfg(feature = "zstd")]
    Zstd,
}

impl FromStr for TracyCompression {
    type Err = TracyOptionError;

    /// From `lz4` or `zstd`.
    fn from_str(text: &str) -> Result<Self, TracyOptionError> {
        match text {
            "lz4" => Ok(Self::Lz4),
            #[cfg(feature = "zstd")]
            "zstd" => Ok(Self::Zstd),
            #[cfg(not(feature = "zstd"))]
            "zstd" => Err(TracyOptionError::WithoutZstd),
            _ => Err(TracyOptionError::Compression { text: text.to_owned() }),
        }
    }
}

/// Why a text is no option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TracyOptionError {
    /// It is no layout.
    #[error(
        "{text:?} is no layout of .tracy files: 0.11 (for every viewer since then), 0.13 and 0.14 are known"
    )]
    Layout {
        /// The text.
        text: String,
    },
    /// It is no compression.
    #[error("{text:?} is no compression of .tracy files: lz4 and zstd are known")]
    Compression {
        /// The text.
        text: String,
    },
    /// zstd was left out.
    #[error(
        "this syscollect was built without zstd, which needs a C compiler: take lz4, or build with the feature `zstd`"
    )]
    WithoutZstd,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_named_by_the_oldest_viewer_that_opens_it() {
        assert_eq!("0.11".parse(), Ok(TracyLayout::V0_11));
        assert_eq!("0.14".parse(), Ok(TracyLayout::default().max(TracyLayout::V0_14)));
        for wrong in ["0.12", "", "0.14.0", "latest"] {
            let message = wrong.parse::<TracyLayout>().unwrap_err().to_string();
            assert!(
                TracyLayout::ALL.iter().all(|layout| message.contains(&layout.to_string())),
                "{message}"
            );
        }
    }

    #[test]
    fn a_compression_that_is_not_known_is_told_the_known_ones() {
        assert_eq!("lz4".parse(), Ok(TracyCompression::Lz4));
        let message = "gzip".parse::<TracyCompression>().unwrap_err().to_string();
        assert!(message.contains("lz4") && message.contains("zstd"), "{message}");
    }

    #[cfg(not(feature = "zstd"))]
    #[test]
    fn without_zstd_it_says_how_to_get_it() {
        let message = "zstd".parse::<TracyCompression>().unwrap_err().to_string();
        assert!(message.contains("feature `zstd`"), "{message}");
    }
}
