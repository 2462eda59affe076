//! What goes wrong when recording, with the way out.

use std::path::PathBuf;

/// A Win32 error code, as the tracing functions return it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    /// ERROR_ACCESS_DENIED.
    pub(crate) const ACCESS_DENIED: Self = Self(5);
    /// ERROR_PRIVILEGE_NOT_HELD.
    pub(crate) const PRIVILEGE_NOT_HELD: Self = Self(1314);
    const INVALID_PARAMETER: Self = Self(87);
    const DISK_FULL: Self = Self(112);
    const ALREADY_EXISTS: Self = Self(183);
    const NO_SYSTEM_RESOURCES: Self = Self(1450);
    const WMI_INSTANCE_NOT_FOUND: Self = Self(4201);

    /// What it means here, and what helps.
    fn meaning(self) -> &'static str {
        match self {
            Self::ACCESS_DENIED => {
                ": it needs an elevated administrator; start the terminal with \"Run as \
                 administrator\""
            }
            Self::PRIVILEGE_NOT_HELD => {
                ": this account lacks the right \"Profile system performance\""
            }
            Self::INVALID_PARAMETER => {
                ": this Windows does not know it (Windows 8 or later is needed)"
            }
            Self::DISK_FULL => ": the disk is full",
            Self::ALREADY_EXISTS => ": it runs already, or another session writes the same file",
            Self::NO_SYSTEM_RESOURCES => {
                ": Windows has eight sessions that hear the kernel, and all are in use; `logman \
                 query -ets` lists them, `logman stop NAME -ets` stops one"
            }
            Self::WMI_INSTANCE_NOT_FOUND => ": the session is gone; somebody else has stopped it",
            _ => "",
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Windows error {}{}", self.0, self.meaning())
    }
}

impl std::error::Error for Status {}

/// Why a recording did not begin, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process has not the rights that recording needs.
    #[error(
        "recording needs an elevated administrator: start the terminal with \"Run as \
         administrator\""
    )]
    NotElevated,
    /// The file's name is longer than a session can take.
    #[error("the file name {} has {length} characters, and a trace session takes {}; choose a \
             shorter path with -o",
            path.display(), crate::layouts::NAME_CHARACTERS - 1)]
    LongName {
        /// The file.
        path: PathBuf,
        /// UTF-16 units of its name.
        length: usize,
    },
    /// A call of the tracing API was refused.
    #[error("cannot {action}: {status}")]
    Refused {
        /// What was tried.
        action: String,
        /// What Windows said.
        status: Status,
    },
    /// The file that was recorded cannot be read.
    #[error(transparent)]
    Unreadable(#[from] syscollect_etl::file::FileError),
    /// The file that was recorded cannot be added to.
    #[error("cannot add the PDBs of images to {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
}

impl Error {
    pub(crate) fn refused(action: impl Into<String>) -> impl FnOnce(Status) -> Self {
        let action = action.into();
        move |status| Self::Refused { action, status }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_was_tried_and_the_way_out() {
        let text = Error::refused("start the session syscollect-5")(Status(1450)).to_string();
        assert!(
            text.starts_with("cannot start the session syscollect-5: Windows error 1450: "),
            "{text}"
        );
        assert!(text.contains("logman stop NAME -ets"), "{text}");
    }

    #[test]
    fn a_code_that_nobody_expected_is_told_as_it_is() {
        assert_eq!(Status(9999).to_string(), "Windows error 9999");
    }
}
