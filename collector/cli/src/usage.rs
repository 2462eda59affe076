//! Mistakes in arguments that clap does not see by itself.

use crate::escape::printable_lines;
use clap::error::ErrorKind;

/// A usage error: exit code 2. Who shows it gives it clap's style, with the way to `--help`.
pub(crate) fn usage(message: String) -> clap::Error {
    clap::Error::raw(ErrorKind::ValueValidation, printable_lines(&message))
}
