//! An ordinary user's processes have command lines that are as long as text as can be, and what is
//! said of all processes is in the capture all the same.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};
use syscollect_merge::Session;
use syscollect_store::CaptureReader;

use super::attacked::{AttackedRecorder, Bounds};
use super::context::{Context, NOBODY, number};

/// Together they have more than a chunk of a capture takes, many times.
const PROCESSES: usize = 300;

/// Processes that wait until they are dropped.
struct Processes(Vec<Child>);

impl Processes {
    fn start(count: usize) -> Result<Self> {
        // All of a command line that is read; in JSON each of these characters takes six bytes.
        let long = "\u{1}".repeat(4096);
        let processes = (0..count).map(|_| {
            let mut command = Command::new("sh");
            command.args(["-c", "read x", &long]).uid(NOBODY).gid(NOBODY).stdin(Stdio::piped());
            command.spawn()
        });
        Ok(Self(processes.collect::<std::io::Result<_>>()?))
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in &mut self.0 {
            // One that has ended is what is wanted.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Those that are there when the recording begins, and as many that begin meanwhile.
pub(crate) fn long_command_lines(context: &Context) -> Result<String> {
    let capture = context.path("commands.syscap");
    let before = Processes::start(PROCESSES)?;
    let honest = Processes(vec![
        Command::new("sh").args(["-c", "read x", "honest"]).stdin(Stdio::piped()).spawn()?,
    ]);
    let options = ["--stacks", "none", "--freq", "0"];
    let recorder = AttackedRecorder::start_attacked(context, &capture, &options)?;
    let meanwhile = Processes::start(PROCESSES)?;
    std::thread::sleep(Duration::from_secs(4));
    let recorder = recorder.stop(context)?;
    let honest_pid = honest.0[0].id();
    drop((before, meanwhile, honest));
    let used = recorder.within(&Bounds::USUAL)?;

    let info = context.info(&capture)?;
    let lost = number(&info, "lost")?;
    ensure!(lost == 0, "{lost} records were lost: {}", info["losses"]);
    let session = Session::open(CaptureReader::open(&capture)?)?;
    let processes = &session.tables().processes;
    let honest = processes.iter().find(|process| process.pid == honest_pid);
    let line = honest.map(|process| process.command_line.join(" ")).unwrap_or_default();
    ensure!(line == "sh -c read x honest", "the honest program's command line is {line:?}");
    let known = processes.iter().filter(|process| process.command_line.len() == 4);
    Ok(format!("{} command lines are there, the honest program's too; {used}", known.count()))
}
