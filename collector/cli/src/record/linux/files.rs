//! The files of a recording on Linux: a capture gets its name when there is something in it.

use crate::format::Format;
use crate::output::DraftFile;
use crate::owner::Owner;
use crate::record::files::{KeepCapture, OutputFiles, is_existing, with_advice_on_existing};
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};
use syscollect_store::EMPTY_CAPTURE_BYTES;

/// The first chunks, clock readings and the session, are written as soon as the recording begins.
const FIRST_CHUNKS: Duration = Duration::from_millis(500);

/// How a raw capture is called.
pub(in crate::record) const RAW: &str = "syscap";
/// And while it is recorded.
pub(in crate::record) const DRAFT: &str = "syscap.partial";

/// A capture of so many bytes is kept beside the exported file without being asked for: a minute of
/// a desktop.
pub(crate) const SMALL_CAPTURE: u64 = 100_000_000;

/// Names of a folder that are looked at: it may be anybody's.
const NAMES_MAX: usize = 1 << 20;

/// 7 of `x-0007.syscap` and of what it is called while it is written, where `stem` is `x`.
fn number_in(name: &OsStr, stem: &OsStr) -> Option<u32> {
    let rest = name.to_str()?.strip_prefix(stem.to_str()?)?.strip_prefix('-')?;
    let digits = rest.strip_suffix(".partial").unwrap_or(rest).strip_suffix(".syscap")?;
    let is_number = digits.len() >= 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

impl OutputFiles {
    /// Whether a capture of so many bytes stays. What lay under its name before would be taken for
    /// this recording's.
    pub(crate) fn keeps(&self, bytes: u64) -> bool {
        match self.keep {
            KeepCapture::Always => true,
            KeepCapture::WhileSmall => bytes <= SMALL_CAPTURE || self.capture.path().exists(),
            KeepCapture::Never => false,
        }
    }

    /// The user behind sudo, if the folder that the files go to is this user's own.
    pub(crate) fn owner_of_folder(&self) -> Option<Owner> {
        self.capture.owner_of_folder()
    }

    /// The highest number of a file that is there already: files of a recording have higher ones
    /// than those of recordings before it, so that their names are in the order of time.
    #[expect(clippy::disallowed_methods, reason = "the folder of the output, which the user names")]
    pub(crate) fn last_number(&self) -> u32 {
        let path = self.capture.path();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let stem = self.capture.stem();
        let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten();
        let names = entries.take(NAMES_MAX).flatten().map(|entry| entry.file_name());
        names.filter_map(|name| number_in(&name, &stem)).max().unwrap_or(0)
    }

    /// The place of one of several files: `x-0007.syscap`; `None` where something lies there.
    pub(crate) fn numbered(&self, number: u32) -> Option<Self> {
        let mut stem = self.capture.stem();
        stem.push(format!("-{number:04}"));
        let [capture, partial] = [".syscap", ".syscap.partial"].map(|end| {
            let mut name = stem.clone();
            name.push(end);
            self.capture.beside_unchecked(name)
        });
        let is_free = capture.is_free() && partial.is_free();
        is_free.then(|| Self {
            capture,
            export: None,
            keep: KeepCapture::Always,
            standard_output: None,
            ..self.clone()
        })
    }

    /// Whether something else than the capture is written.
    pub(crate) fn is_exported(&self) -> bool {
        self.export.is_some() || self.standard_output.is_some_and(|format| format != Format::Syscap)
    }

    /// Creates the capture under the name that it has while it is recorded.
    ///
    /// # Errors
    ///
    /// When it cannot be created, or an unfinished recording lies there.
    pub(crate) fn capture_draft(&self) -> Result<DraftFile> {
        let name = self.draft_name();
        let path = self.draft_path();
        match self.capture.draft_to_appear(name.clone()) {
            Err(error) if is_existing(&error) && self.force => {
                let existing = self.capture.beside_unchecked(name.clone());
                existing.remove().with_context(|| format!("cannot replace {}", path.display()))?;
                self.capture.draft_to_appear(name)
            }
            other => other.map_err(|error| with_advice_on_existing(error, &path)),
        }
    }

    /// The recording has begun: its capture takes its name once it can be opened.
    ///
    /// # Errors
    ///
    /// When something has taken the name meanwhile.
    pub(crate) fn show_capture(&self, draft: &mut DraftFile) -> Result<()> {
        let begun = Instant::now();
        // On a full disk it never grows; then what stopped it is told in the end.
        while is_empty(draft.file()) && begun.elapsed() < FIRST_CHUNKS {
            std::thread::sleep(Duration::from_millis(1));
        }
        draft.appear().map_err(|error| with_advice_on_existing(error, &draft.path()))
    }
}

/// Whether nothing lies in a capture: the disk took none of it.
pub(super) fn is_empty(capture: &File) -> bool {
    capture.metadata().is_ok_and(|data| data.len() <= EMPTY_CAPTURE_BYTES)
}

/// Now, in local time, as `20261231-235959`.
pub(in crate::record) fn local_time() -> String {
    let mut fields = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: a null argument asks for the result only.
    let now = unsafe { libc::time(std::ptr::null_mut()) };
    // SAFETY: both pointers are valid; zero bytes are a valid `tm`, so even a failure leaves one.
    let tm = unsafe {
        libc::localtime_r(&now, fields.as_mut_ptr());
        fields.assume_init()
    };
    format!(
        "{:04}{:02}{:02}-{:02}{:02}{:02}",
        tm.tm_year + 1900,
        tm.tm_mon + 1,
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec
    )
}

#[cfg(test)]
mod tests {
    use super::SMALL_CAPTURE;
    use crate::record::files::tests::choose;
    use std::fs;

    #[test]
    fn an_exported_recording_is_captured_beside_its_output() {
        let folder = tempfile::tempdir().unwrap();
        let files = choose(folder.path(), &["-o", "./x.v2.pftrace"]).unwrap();
        let partial = folder.path().join("x.v2.syscap.partial");
        let mut draft = files.capture_draft().unwrap();
        assert_eq!(draft.path(), partial);
        assert!(
            !partial.exists(),
            "who is killed before the recording begins would leave an empty file"
        );
        files.show_capture(&mut draft).unwrap();
        assert!(partial.exists());
        drop(draft);
        assert!(!partial.exists(), "an unfinished file was left");
        assert!(files.keeps(SMALL_CAPTURE) && !files.keeps(SMALL_CAPTURE + 1));
    }

    #[test]
    fn what_a_killed_recording_left_is_kept_unless_force_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join("x.syscap.partial");
        fs::write(&left, "precious").unwrap();
        let files = choose(folder.path(), &["-o", "./x.pftrace"]).unwrap();
        let message = files.capture_draft().unwrap_err().to_string();
        assert!(
            message.contains("x.syscap.partial exists") && message.contains("export"),
            "{message}"
        );
        assert_eq!(fs::read(&left).unwrap(), b"precious");

        let files = choose(folder.path(), &["-o", "./x.pftrace", "--force"]).unwrap();
        let mut draft = files.capture_draft().unwrap();
        assert!(!left.exists(), "it is to be replaced");
        fs::write(&left, "another recorder's").unwrap();
        let message = files.show_capture(&mut draft).unwrap_err().to_string();
        assert!(message.contains("x.syscap.partial exists"), "{message}");
        fs::remove_file(&left).unwrap();
        files.show_capture(&mut draft).unwrap();
        assert_eq!(fs::read(draft.keep()).unwrap(), b"");
    }

    #[test]
    fn a_kept_capture_must_have_its_name_free_and_another_need_not() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.syscap"), "older").unwrap();
        let files = choose(folder.path(), &["-o", "./x.pftrace", "--no-capture"]).unwrap();
        assert!(!files.keeps(0));
        for arguments in [&["-o", "./x.pftrace", "--keep-capture"][..], &["-o", "./x.pftrace"]] {
            let message = format!("{:#}", choose(folder.path(), arguments).unwrap_err());
            assert!(message.contains("x.syscap exists"), "{message}");
        }
        let forced = choose(folder.path(), &["-o", "./x.pftrace", "--force"]).unwrap();
        assert!(forced.keeps(u64::MAX), "the older one must not be taken for this recording's");
    }
}
