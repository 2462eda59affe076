//! An ordinary user hits a probe as fast as two threads can, with the longest arguments, and who
//! hits one now and then beside it loses none, on the same CPUs and while the recorder has to wait,
//! too.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, Tables, Time};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::attacked::{AttackedRecorder, Bounds, MIB};
use super::context::{Context, DAEMON, NOBODY, json_lines, number, wait};

const SECONDS: u64 = 6;
/// What the recorder sleeps while both go on: longer than the attack needs for a ring buffer.
const STOPPED: Duration = Duration::from_millis(300);
/// What a user's hits may take each second, as docs/security.md says.
const BYTES_PER_SECOND: u64 = 64 * MIB;
/// What the capture has besides.
const OTHERS: u64 = 16 * MIB;
const BOUNDS: Bounds =
    Bounds { cpu: 1.0, capture: (SECONDS + 1) * BYTES_PER_SECOND + OTHERS, ..Bounds::USUAL };

pub(crate) fn hits(context: &Context) -> Result<String> {
    let capture = context.path("hostile-hits.syscap");
    let folder = tempfile::Builder::new().prefix("syscollect-loads-").tempdir_in("/tmp")?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    let program = folder.path().join("load");
    fs::copy(&context.load, &program)?;

    let usdt = |name: &str| format!("{}:hits:{name}", program.display());
    let (long, short) = (usdt("long"), usdt("short"));
    let options = ["--usdt", &long, "--usdt", &short, "--freq", "0", "--stacks", "none"];
    let recorder = AttackedRecorder::start(context, &capture, &options)?;
    let attack = start(&program, "hits-long", SECONDS, NOBODY)?;
    let honest = start(&program, "hits-short", SECONDS - 1, DAEMON)?;
    std::thread::sleep(Duration::from_secs(2));
    recorder.while_stopped(|| {
        std::thread::sleep(STOPPED);
        Ok(())
    })?;
    let (attack, honest) = (wait(attack)?, wait(honest)?);
    let stopped = recorder.stop(context)?;
    let used = stopped.within(&BOUNDS)?;
    let [attacked, honest] = [attack, honest].map(|program| {
        ensure!(program.status.success(), "a program failed:\n{}", program.stderr);
        number(json_lines(&program.stdout)?.first().context("a program printed nothing")?, "hits")
    });
    let (attacked, honest) = (attacked?, honest?);

    let mut recorded = Hits::default();
    Session::open(CaptureReader::open(&capture)?)?.play(&mut recorded)?;
    let lost = lost_by_the_attack_alone(&context.info(&capture)?)?;
    let figures = format!(
        "{honest} hits beside {attacked} of the attack, of which {} are there and {lost} lost; {used}",
        recorded.long
    );
    ensure!(
        recorded.short == honest,
        "{} are there of {figures}; the recorder:\n{}",
        recorded.short,
        stopped.output.stderr
    );
    ensure!(lost > 0, "the attack loses nothing: {figures}");
    ensure!(
        recorded.long + lost == attacked,
        "not all of the attack's are accounted for: {figures}"
    );
    Ok(figures)
}

/// Only hits may be lost, and only the attack's: how many.
fn lost_by_the_attack_alone(info: &Value) -> Result<u64> {
    let mut hits = 0;
    for loss in info["losses"].as_array().into_iter().flatten() {
        let is_its = loss["lane"] == json!("probes")
            && (&loss["cause"], &loss["user"]) == (&json!("beyond-share"), &json!(NOBODY));
        ensure!(is_its, "{} are lost", info["losses"]);
        hits += number(loss, "count")?;
    }
    Ok(hits)
}

fn start(program: &Path, load: &str, seconds: u64, user: u32) -> Result<Child> {
    let mut command = Command::new(program);
    command.args([load, &seconds.to_string()]).uid(user).gid(user);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command.spawn()?)
}

/// Hits that were recorded.
#[derive(Debug, Default)]
struct Hits {
    long: u64,
    short: u64,
}

impl Exporter for Hits {
    type Error = anyhow::Error;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<()> {
        let Event::Instant(_, slice) = event else { return Ok(()) };
        match tables.strings.get(slice.name) {
            "hits:long" => self.long += 1,
            "hits:short" => self.short += 1,
            _ => {}
        }
        Ok(())
    }
}
