//! Control groups of the tests' own, in the unified hierarchy or in one of the older ones.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::context::{Context, ends_with_us, text};

/// A control group, which is removed with this.
pub(super) struct ControlGroup {
    folder: PathBuf,
    unified: bool,
}

impl ControlGroup {
    /// One in which that controller has this file, which has one name in the unified hierarchy and
    /// another in the older one; else why there is none.
    pub(super) fn make(name: &str, controller: &str, file: [&str; 2]) -> Result<Self, String> {
        let mut reasons = Vec::new();
        let top = PathBuf::from("/sys/fs/cgroup");
        for (top, unified) in [(top.clone(), true), (top.join(controller), false)] {
            let folder = top.join(format!("{name}-{}", std::process::id()));
            let group = Self { folder, unified };
            let place = group.folder.display();
            match fs::create_dir(&group.folder) {
                Ok(()) if group.file(file).exists() => return Ok(group),
                Ok(()) => reasons.push(format!("{place} has no limits of {controller}")),
                Err(error) => reasons.push(format!("{place}: {error}")),
            }
        }
        Err(reasons.join("; "))
    }

    /// The file of one of these names.
    pub(super) fn file(&self, [unified, separate]: [&str; 2]) -> PathBuf {
        self.folder.join(if self.unified { unified } else { separate })
    }

    /// `syscollect ARGUMENTS` within the group, not yet started.
    pub(super) fn command(&self, context: &Context, arguments: &[&str]) -> Result<Command> {
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", text(&self.folder)?);
        let mut command = Command::new("sh");
        command.args(["-c", &enter, "sh", text(&context.syscollect)?]).args(arguments);
        ends_with_us(&mut command);
        Ok(command)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}
