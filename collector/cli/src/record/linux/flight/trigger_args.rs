//! Triggers as they are given: options, and lines of a file.

use crate::usage::usage;
use anyhow::Result;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use syscollect_triggers::{Trigger, read_triggers};

/// The options for triggers.
#[derive(Debug, clap::Args)]
pub(super) struct TriggerArgs {
    /// Take a snapshot when this happens, see below; may be given several times
    #[arg(long = "trigger", value_name = "TRIGGER")]
    triggers: Vec<Trigger>,

    /// Read triggers from this file, one a line; # begins a comment
    #[arg(long = "triggers", value_name = "FILE")]
    file: Option<PathBuf>,
}

impl TriggerArgs {
    /// All of them.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, a line of it is no trigger, or there is no user whom one asks
    /// for.
    pub(super) fn all(self) -> Result<Vec<Trigger>> {
        let mut all = self.triggers;
        if let Some(file) = &self.file {
            all.extend(of_file(file).map_err(|error| usage(format!("{error:#}")))?);
        }
        let known = all.into_iter().map(|trigger| trigger.with_users(number_of_user));
        Ok(known.collect::<Result<_, _>>().map_err(|error| usage(error.to_string()))?)
    }
}

/// The number of the user of that name.
fn number_of_user(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the string ends with a zero byte. The answer is read before anything else asks: this
    // is done before the recorder has threads.
    unsafe { libc::getpwnam(name.as_ptr()).as_ref().map(|user| user.pw_uid) }
}

#[expect(clippy::disallowed_methods, reason = "a list that the user names")]
fn of_file(path: &Path) -> Result<Vec<Trigger>> {
    let read = std::fs::read_to_string(path).map_err(anyhow::Error::from);
    let triggers = read.and_then(|text| Ok(read_triggers(&text)?));
    triggers.map_err(|error| error.context(format!("the triggers in {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_come_from_options_and_a_file_and_an_error_says_where() {
        let folder = tempfile::tempdir().expect("there is room for it");
        let file = folder.path().join("triggers");
        let args = |text: &str| {
            std::fs::write(&file, text).expect("there is room for it");
            let given = "stall: waiting server > 20ms".parse().expect("it is one");
            TriggerArgs { triggers: vec![given], file: Some(file.clone()) }.all()
        };
        let all =
            args("# of the service\n\ncrashed: crash server, pause 1m  # and says why\n").unwrap();
        let names: Vec<_> = all.iter().map(|trigger| trigger.name.as_str()).collect();
        assert_eq!(names, ["stall", "crashed"]);
        let all = args("died: crash server, user root\n").unwrap();
        assert_eq!(all[1].to_string(), "died: crash server, user 0");
        let message = args("crash server, user nobody-has-this-name\n").unwrap_err().to_string();
        assert!(message.contains("there is no user \"nobody-has-this-name\""), "{message}");
        let message = format!("{:#}", args("crash server\nwaiting for godot\n").unwrap_err());
        assert!(message.contains("triggers") && message.contains('2'), "{message}");
    }
}
