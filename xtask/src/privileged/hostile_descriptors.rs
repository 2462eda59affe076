//! A service that takes descriptors from anybody, and an ordinary user who sends it files that look
//! as if it shared them with the recorder. Compared with the zones that the service has marked.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syscollect_store::{CaptureReader, Definition};

use super::context::{Context, DAEMON, NOBODY, number, text, until, wait};
use super::hostile_files::Running;
use super::zones::{last_number, load, numbers_in};

/// Descriptors that it is sent: twenty empty files, and twenty arenas that say to be its own.
const SENT: u64 = 40;

/// Recorded twice: the first time it says where its arena is, then it has to be found among all that
/// it was sent. Once it had no zones then.
pub(crate) fn descriptors(context: &Context) -> Result<String> {
    let folder = tempfile::Builder::new().prefix("syscollect-service-").tempdir_in("/tmp")?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    chown(folder.path(), Some(DAEMON), Some(DAEMON))?;
    let (socket, file) = (folder.path().join("socket"), folder.path().join("numbers"));

    let mut service = Command::new(&context.load);
    let (daemon, nobody) = (DAEMON.to_string(), NOBODY.to_string());
    service.args(["as", &daemon, "serve-descriptors", text(&socket)?, text(&file)?, "60"]);
    let mut service = Running::start(&mut service)?;
    let pid = service.pid();
    until("the service to listen", || socket.exists().then_some(()))?;
    let attack = ["as", &nobody, "send-arenas", text(&socket)?, &pid.to_string()];
    let attack = wait(load(context, &attack)?)?;
    ensure!(attack.status.success(), "the hostile program failed:\n{}", attack.stderr);
    let received = number(&serde_json::from_str(&service.line()?)?, "descriptors")?;
    ensure!(received == SENT, "the service has {received} descriptors");

    let mut zones = Vec::new();
    for round in 0..2 {
        let capture = context.path("hostile-descriptors.syscap");
        let recorder = context.start(&capture, &[])?;
        // Its arena has to be found meanwhile.
        std::thread::sleep(Duration::from_millis(500));
        let begun = last_number(&file)?;
        std::thread::sleep(Duration::from_millis(500));
        let ended = last_number(&file)?;
        context.stop(recorder)?;
        let (first, last) =
            numbers_in(&capture, pid).with_context(|| format!("recording {round}"))?;
        ensure!(
            first <= begun && last >= ended,
            "recording {round}: of the service's zones {begun} to {ended} there are {first} to {last}"
        );
        let arenas = arenas_of(&capture, pid)?;
        ensure!(arenas == 1, "recording {round}: the service is said to have {arenas} arenas");
        zones.push(format!("{first} to {last}"));
    }
    Ok(format!(
        "all zones of a service that was sent {SENT} made-up arenas, in two recordings: {}",
        zones.join(", ")
    ))
}

/// Arenas that were recorded as that process's.
fn arenas_of(capture: &Path, pid: u32) -> Result<usize> {
    let mut clients = BTreeSet::new();
    for definition in CaptureReader::open(capture)?.definitions() {
        if let Definition::Clients(list) = definition? {
            let ours = list.into_iter().filter(|client| client.pid == pid);
            clients.extend(ours.map(|client| client.client));
        }
    }
    Ok(clients.len())
}
