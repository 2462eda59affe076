//! Names of the methods that Java virtual machines compile, which they are asked for (`--jvm`), and
//! what programs that look like such a machine can do to the recorder that asks.
//!
//! Compared with a program that spends its time in one method whose name is known.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::attacked::{AttackedRecorder, Bounds};
use super::busy_process::{self, BusyProcess, LONG, Running};
use super::context::{Context, DAEMON, NOBODY, ends_with_us, finish, signal, text, until};
use crate::report::Outcome;

/// Debian's `bin`: who has nothing to do with the others.
const ANOTHER: u32 = 2;
/// The method, and a program that does nothing else for as many milliseconds as it is told.
const METHOD: &str = "Busy.recursiveSum(int)";
const PROGRAM: &str = "public class Busy { \
    static long recursiveSum(int n) \
    { return n < 2 ? n : recursiveSum(n - 1) + recursiveSum(n - 2); } public static void \
    main(String[] arguments) { long end = System.currentTimeMillis() + \
    Long.parseLong(arguments[0]), sum = 0; while (System.currentTimeMillis() < end) sum += \
    recursiveSum(20); System.out.println(sum); } }";
/// Samples of a machine, of which several share the CPUs.
const SAMPLES_MIN: u64 = 100;
/// Programs that never answer, side by side.
const CROWD: u32 = 40;
/// What a recorder that waits for all answers may take longer than another: three times two seconds
/// on a busy machine, and what it takes to end who does not answer.
const LONGEST_END: Duration = Duration::from_secs(40);

/// Methods of machines of root's, of a user's, and of one in a container are found by name; of one
/// that ended before it is said why they are not, and of one that takes no commands.
pub(crate) fn names(context: &Context) -> Result<Outcome> {
    if let Some(skipped) = without_java(context)? {
        return Ok(skipped);
    }
    let capture = context.path("jvm.syscap");
    let mut running = vec![java(context, 0, &[], LONG)?, java(context, DAEMON, &[], LONG)?];
    let recorder = context.start(&capture, &["--freq", "999", "--jvm"])?;
    running.extend(contained(context)?);
    let deaf = java(context, DAEMON, &["-Xrs"], LONG)?;
    let ended = java(context, DAEMON, &[], "500")?.0.wait()?;
    ensure!(ended.success(), "a program of Java's ended with {ended}");
    std::thread::sleep(Duration::from_secs(2));
    let machines: Vec<u32> = running.iter().map(|java| machine(java.0.id())).collect();
    let output = context.stop(recorder)?;
    let deaf_pid = deaf.0.id();
    for (what, expected) in [
        ("an ended one", "--jvm: 1 Java virtual machines ended before".to_owned()),
        ("a deaf one", format!("--jvm: the Java virtual machine {deaf_pid} takes no commands")),
    ] {
        ensure!(output.stderr.contains(&expected), "{what} is not told of: {}", output.stderr);
    }
    let mut shares = Vec::new();
    for pid in machines {
        shares.push(in_method(context, &capture, pid)?);
        let request = format!("/tmp/.attach_pid{pid}");
        ensure!(!Path::new(&request).exists(), "{request} is left");
    }
    Ok(Outcome::Passed(format!(
        "in the method are {} of machines of root, of a user{}",
        shares.join(", "),
        if shares.len() > 2 { " and in a container" } else { "; users may have no containers" }
    )))
}

/// How many samples of a machine are in its method.
fn in_method(context: &Context, capture: &Path, pid: u32) -> Result<String> {
    let pid = pid.to_string();
    BusyProcess { process: &pid, function: METHOD, least: SAMPLES_MIN }.share(context, capture)
}

/// One with a `/tmp` and process numbers of its own.
fn contained(context: &Context) -> Result<Option<Running>> {
    let run = r#"exec 3< "$1/Busy.class" && mount -t tmpfs none /tmp && cat <&3 > /tmp/Busy.class && \
        exec java -cp /tmp Busy "$2""#;
    let classes = classes(context);
    let arguments = [text(&classes)?, LONG];
    let Some(mut java) = busy_process::contained(run, &arguments) else { return Ok(None) };
    let java = Running::start(&mut java)?;
    until("a machine in a container to begin", || is_loaded(machine(java.0.id())).then_some(()))?;
    Ok(Some(java))
}

/// Programs that look like a machine, and do what none does, cost the recorder no more than its
/// limit, are not ended by it, and take nobody else's names.
pub(crate) fn hostile(context: &Context) -> Result<Outcome> {
    if let Some(skipped) = without_java(context)? {
        return Ok(skipped);
    }
    let capture = context.path("hostile-jvm.syscap");
    let honest = java(context, DAEMON, &[], LONG)?;
    let recorder =
        AttackedRecorder::start_attacked(context, &capture, &["--freq", "499", "--jvm"])?;
    let parts = ["silent", "endless", "fifo", "link", "deaf"];
    let fakes = parts.into_iter().zip(1..).map(|(part, at)| Fake::start(context, part, at));
    let fakes: Vec<Fake> = fakes.collect::<Result<_>>()?;
    // It stops who asks it, which are its user's processes by then.
    let stops = Fake::start_as(context, ANOTHER, "stops", 9)?;
    let stopped = java(context, NOBODY, &[], LONG)?;
    // It has begun when its library is loaded.
    std::thread::sleep(Duration::from_secs(2));
    signal(stopped.0.id(), libc::SIGSTOP);
    let crowd = (0..CROWD).map(|at| Fake::start(context, "silent", 100 + at));
    let crowd: Vec<Fake> = crowd.collect::<Result<_>>()?;
    std::thread::sleep(Duration::from_secs(1));
    let stopped_recorder = recorder.stop(context)?;
    let bounds = Bounds { to_stop: LONGEST_END, cpu: 1.0, ..Bounds::USUAL };
    let used = stopped_recorder.within(&bounds)?;
    let stderr = &stopped_recorder.output.stderr;
    let [_, endless, fifo, link, deaf] = &fakes[..] else { unreachable!("there are five") };
    for (who, expected) in [
        (endless.pid(), "answered what no"),
        (deaf.pid(), "takes no commands"),
        (stopped.0.id(), "is stopped"),
    ] {
        let line = stderr.lines().find(|line| line.contains(&who.to_string()));
        ensure!(
            line.is_some_and(|line| line.contains(expected)),
            "of {who} it is not said that it {expected}: {stderr}"
        );
    }
    let left: Vec<_> = fs::read_dir("/proc")?
        .flatten()
        .filter(|process| {
            fs::read(process.path().join("comm")).is_ok_and(|name| name == b"jvm-asker\n")
        })
        .collect();
    ensure!(left.is_empty(), "processes that ask are left: {left:?}");
    let silent = format!("each of {} Java virtual machines", CROWD + 2);
    ensure!(stderr.contains(&silent), "silent ones: {stderr}");
    let occupied = format!("{}, {}", fifo.pid().min(link.pid()), fifo.pid().max(link.pid()));
    ensure!(
        stderr.contains(&format!("each of the Java virtual machines {occupied} cannot be asked")),
        "a FIFO and a link: {stderr}"
    );
    for fake in fakes.into_iter().chain(crowd).chain([stops]) {
        fake.ensure_alive()?;
    }
    let named = in_method(context, &capture, honest.0.id())?;
    Ok(Outcome::Passed(format!("{named} of the honest machine are in its method; {used}")))
}

/// A program of an ordinary user's that looks like a machine.
struct Fake {
    part: &'static str,
    process: Running,
}

impl Fake {
    fn pid(&self) -> u32 {
        self.process.0.id()
    }

    fn start(context: &Context, part: &'static str, number: u32) -> Result<Self> {
        Self::start_as(context, NOBODY, part, number)
    }

    fn start_as(context: &Context, user: u32, part: &'static str, number: u32) -> Result<Self> {
        let folder = context.path(&format!("fake-jvm-{number}"));
        fs::create_dir(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
        let mut fake = Command::new(&context.load);
        fake.args(["as", &user.to_string(), "fake-jvm", part, text(&folder)?, "120"]);
        ends_with_us(&mut fake);
        let mut process = fake.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let printed = process.stdout.take().context("it has no output")?;
        ensure!(BufReader::new(printed).lines().next().is_some(), "the fake {part} ended");
        Ok(Self { part, process: Running(process) })
    }

    fn ensure_alive(mut self) -> Result<()> {
        let ended = self.process.0.try_wait()?;
        ensure!(ended.is_none(), "the fake {} was ended: {ended:?}", self.part);
        Ok(())
    }
}

/// Where the program's class lies, for everybody to read.
fn classes(context: &Context) -> PathBuf {
    context.path_of("java-classes")
}

/// A machine that runs the program.
fn java(context: &Context, user: u32, options: &[&str], milliseconds: &str) -> Result<Running> {
    let mut java = Command::new("java");
    java.args(options).args(["-cp", text(&classes(context))?, "Busy", milliseconds]);
    let java = Running::start(java.uid(user).gid(user))?;
    let pid = java.0.id();
    until("a Java virtual machine to begin", || is_loaded(pid).then_some(()))?;
    Ok(java)
}

fn is_loaded(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains("libjvm.so"))
}

/// The machine that a program runs as, or starts.
fn machine(pid: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let child = children.ok().and_then(|children| children.split(' ').next()?.parse().ok());
    child.filter(|_| !is_loaded(pid)).map_or(pid, machine)
}

/// Why nothing can be tried here; compiles the program where it can.
fn without_java(context: &Context) -> Result<Option<Outcome>> {
    let version = finish(Command::new("java").arg("-version"));
    let has_command = version.is_ok_and(|version| {
        let number = version.stderr.split('"').nth(1).and_then(|text| text.split('.').next());
        number.and_then(|number| number.parse::<u32>().ok()).is_some_and(|number| number >= 17)
    });
    if !has_command {
        return Ok(Some(Outcome::Skipped("there is no Java 17 or newer".to_owned())));
    }
    let folder = context.path("java-classes");
    fs::create_dir(&folder)?;
    let source = folder.join("Busy.java");
    fs::write(&source, PROGRAM)?;
    let compiled = finish(Command::new("javac").arg("-d").arg(&folder).arg(&source));
    if !compiled.is_ok_and(|compiled| compiled.status.success()) {
        return Ok(Some(Outcome::Skipped("there is no compiler of Java".to_owned())));
    }
    let above = folder.parent().context("no folder")?;
    for folder in [above, &folder] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    }
    Ok(None)
}
