//! The files of a recording on Windows, which opens the one that it writes by its name.

use crate::output::DraftFile;
use crate::record::files::{OutputFiles, with_advice_on_existing};
use anyhow::{Context, Result};
use std::path::PathBuf;

pub(in crate::record) use syscollect_windows::system::local_time;

/// How a raw trace is called.
pub(in crate::record) const RAW: &str = "etl";
/// And while it is recorded: by an extension of a trace, so that it can be exported as it is.
pub(in crate::record) const DRAFT: &str = "partial.etl";

impl OutputFiles {
    /// Makes the file that Windows will write, and says where it is: nobody else may have it open.
    ///
    /// # Errors
    ///
    /// When it cannot be made, or an unfinished recording lies there.
    pub(super) fn begin(&self) -> Result<PathBuf> {
        let path = self.draft_path();
        if self.force && path.is_file() {
            std::fs::remove_file(&path)
                .with_context(|| format!("cannot replace {}", path.display()))?;
        }
        let draft = self.capture.draft_named(self.draft_name());
        let path = draft.map_err(|error| with_advice_on_existing(error, &path))?.keep();
        std::path::absolute(&path)
            .with_context(|| format!("cannot tell the full path of {}", path.display()))
    }

    /// The file that Windows has written, removed when it is dropped unfinished.
    ///
    /// # Errors
    ///
    /// When it cannot be opened.
    pub(super) fn recorded(&self) -> Result<DraftFile> {
        self.capture.adopt(self.draft_name())
    }
}

#[cfg(test)]
mod tests {
    use crate::record::files::KeepCapture;
    use crate::record::files::tests::choose;
    use std::fs;

    #[test]
    fn what_windows_has_written_gets_the_name_of_the_raw_trace() {
        let folder = tempfile::tempdir().unwrap();
        let files = choose(folder.path(), &["-o", "./x.etl"]).unwrap();
        fs::write(files.begin().unwrap(), "written").unwrap();
        files.recorded().unwrap().publish(&files.capture).unwrap();
        assert_eq!(fs::read(folder.path().join("x.etl")).unwrap(), b"written");
        assert!(!folder.path().join("x.partial.etl").exists());
    }

    #[test]
    fn what_a_killed_recorder_left_is_kept_unless_force_is_given() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.partial.etl"), "precious").unwrap();
        let files = choose(folder.path(), &["-o", "./x.pftrace"]).unwrap();
        let message = files.begin().unwrap_err().to_string();
        assert!(message.contains("export") && message.contains("--force"), "{message}");
        assert_eq!(fs::read(folder.path().join("x.partial.etl")).unwrap(), b"precious");
        let forced = choose(folder.path(), &["-o", "./x.pftrace", "--force"]).unwrap();
        assert_eq!(fs::read(forced.begin().unwrap()).unwrap(), b"");
    }

    #[test]
    fn a_raw_trace_that_does_not_stay_need_not_have_its_name_free() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.etl"), "older").unwrap();
        let files = choose(folder.path(), &["-o", "./x.pftrace"]).unwrap();
        assert_eq!(files.keep, KeepCapture::Never);
    }
}
