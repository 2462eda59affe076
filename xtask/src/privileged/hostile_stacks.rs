//! An ordinary user blocks below a new stack each time, and a program beside it, which always
//! blocks below the same, keeps its stacks: in a recording that overwrites, which takes neither
//! memory nor disk without end.

use std::fs;
use std::io;
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

use super::attacked::{AttackedRecorder, Bounds};
use super::context::{Context, DAEMON, NOBODY, json_lines, number, wait};

const PROCESSES: u64 = 4;
const SECONDS: u64 = 8;
const BUFFER: u64 = 8 << 20;
/// What a capture of it may take: all of the buffer, uncompressed, definitions with their copies,
/// stacks among them, and what does not depend on it (processes, mappings and names of the
/// machine).
const MOST_BYTES: u64 = 4 * BUFFER;
/// What the attack may cost. It makes as many events as a CPU can, which the recorder takes out
/// with CPU time of its own; its memory holds stacks that wait for their unwind tables (32 MiB),
/// too.
const BOUNDS: Bounds = Bounds { cpu: 1.0, capture: MOST_BYTES, ..Bounds::USUAL };
/// Of the times that an honest program blocked, so many of a hundred have their stack. Without
/// shares it would be those of the last tenths of a second. With them 94 to 99 of a hundred had it
/// in ten of twelve runs, and 77 in two, in which what had come while the recorder was stopped
/// pushed more out of the buffer.
const LEAST_WITH_STACK: u64 = 60;
/// What the recorder sleeps while the lanes are filled, before another honest program begins and
/// while it runs.
const FILLING: Duration = Duration::from_millis(300);

/// With `--overwrite`.
pub(crate) fn stacks(context: &Context) -> Result<String> {
    let capture = context.path("hostile-stacks.syscap");
    let folder = tempfile::Builder::new().prefix("syscollect-loads-").tempdir_in("/tmp")?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    let program = folder.path().join("load");
    fs::copy(&context.load, &program)?;

    let options = ["--overwrite", "--buffer", "8M", "--stacks", "off-cpu", "--freq", "0"];
    let recorder = AttackedRecorder::start(context, &capture, &options)?;
    let seconds = SECONDS.to_string();
    let attack = start(&program, &["new-stacks", &PROCESSES.to_string(), &seconds], NOBODY)?;
    let honest = start(&program, &["same-stack", &seconds], DAEMON)?;
    std::thread::sleep(Duration::from_secs(SECONDS - 2));
    // Its stacks are new when the attack's have all that they may have.
    let late = recorder.while_stopped(|| {
        std::thread::sleep(FILLING);
        let late = start(&program, &["same-stack", "2"], DAEMON)?;
        std::thread::sleep(FILLING);
        Ok(late)
    })?;
    // All still run when the recording ends.
    std::thread::sleep(Duration::from_secs(1) - 2 * FILLING);
    let written = file_bytes(&capture)?;
    let used = recorder.stop(context)?.within(&BOUNDS)?;
    let (attack, honest, late) = (wait(attack)?, wait(honest)?, wait(late)?);
    for output in [&attack, &honest, &late] {
        ensure!(output.status.success(), "a program failed:\n{}", output.stderr);
    }
    let mut blocks = 0;
    for line in json_lines(&attack.stdout)? {
        blocks += number(&line, "blocks")?;
    }
    let [honest, late] = [honest, late].map(|program| {
        let lines = json_lines(&program.stdout)?;
        number(lines.first().context("an honest program printed nothing")?, "pid")
    });

    let bytes = file_bytes(&capture)?;
    let sizes = format!(
        "{blocks} stacks: {:.1} MB of capture ({:.1} MB before it ended); {used}",
        mb(bytes),
        mb(written)
    );
    ensure!(bytes <= MOST_BYTES && written <= MOST_BYTES, "{sizes}");
    let lost = lost_by_the_attack_alone(&context.info(&capture)?)?;
    let mut counts = Vec::new();
    for (name, process) in [("first", honest?), ("late", late?)] {
        let mut recorded = HonestStacks { process: process as u32, ..HonestStacks::default() };
        Session::open(CaptureReader::open(&capture)?)?.play(&mut recorded)?;
        let HonestStacks { blocked, with_stack, wrong, .. } = recorded;
        ensure!(
            blocked >= 100 && with_stack * 100 >= blocked * LEAST_WITH_STACK,
            "of {blocked} times that the {name} honest program blocked, {with_stack} have their stack; \
             {sizes}"
        );
        ensure!(wrong == 0, "{wrong} of its stacks are another program's");
        counts.push(format!("{with_stack} of {blocked}"));
    }
    Ok(format!(
        "{sizes}; of the times that the honest programs blocked, {} and {} have their stack; \
         {lost} stacks of the attack are lost",
        counts[0], counts[1]
    ))
}

/// Only stacks may be lost, and only the attack's: how many.
fn lost_by_the_attack_alone(info: &Value) -> Result<u64> {
    let mut stacks = 0;
    for loss in info["losses"].as_array().into_iter().flatten() {
        if loss["cause"] == json!("overwritten") {
            continue;
        }
        let is_its = loss["lane"] == json!("sched stacks")
            && (&loss["cause"], &loss["user"]) == (&json!("beyond-share"), &json!(NOBODY));
        ensure!(is_its, "{} are lost", info["losses"]);
        stacks += number(loss, "count")?;
    }
    Ok(stacks)
}

fn start(program: &Path, arguments: &[&str], user: u32) -> io::Result<Child> {
    Command::new(program)
        .args(arguments)
        .uid(user)
        .gid(user)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

fn file_bytes(path: &Path) -> Result<u64> {
    let partial = path.with_extension("syscap.partial");
    let shown = if path.exists() { path } else { &partial };
    Ok(fs::metadata(shown).with_context(|| format!("{}", shown.display()))?.len())
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// What is seen of the honest program.
#[derive(Debug, Default)]
struct HonestStacks {
    process: u32,
    /// Times that it blocked.
    blocked: u64,
    /// Of these, those with a stack.
    with_stack: u64,
    /// Of these, stacks that the program never has.
    wrong: u64,
}

impl Exporter for HonestStacks {
    type Error = anyhow::Error;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<()> {
        let Event::Switch(switch) = event else { return Ok(()) };
        let is_ours = switch.previous.is_some_and(|thread| {
            let process = tables.thread(thread).process;
            tables.process(process).pid == self.process
        });
        if switch.off_cpu.preempted || !is_ours {
            return Ok(());
        }
        self.blocked += 1;
        let Some(stack) = switch.off_cpu.stack else { return Ok(()) };
        self.with_stack += 1;
        let functions =
            tables.stack(stack).iter().filter_map(|frame| tables.frame(*frame).function);
        let mut names = functions.into_iter().map(|name| tables.strings.get(name));
        let is_others = names.any(|name| name.contains("block_until") || name.ends_with("::right"));
        self.wrong += u64::from(is_others);
        Ok(())
    }
}
