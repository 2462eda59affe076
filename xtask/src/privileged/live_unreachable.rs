//! A viewer whose machine is suddenly out of reach: nothing tells of it, and the next viewer is
//! welcome all the same.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use syscollect_tests::tracy_viewer::{HELLO, StrictViewer};

use super::context::Context;
use super::live_tracy::{Live, exchange};
use crate::process::output_of;

/// Addresses of a network that only documentation has.
const NEAR: &str = "198.51.100.1";
const FAR: &str = "198.51.100.2";
/// How long the viewer is there before.
const WATCHES: Duration = Duration::from_secs(1);
/// `live` waits for so long for a viewer that acknowledges nothing.
const SILENCE: Duration = Duration::from_secs(30);
/// By how much it may miss that on a busy machine.
const LATE: Duration = Duration::from_secs(6);
/// How often the next viewer tries.
const TRY_EVERY: Duration = Duration::from_millis(500);

/// The machine of a viewer, and the cable to it.
struct FarMachine {
    name: String,
    /// The two ends of the cable.
    near: String,
    far: String,
}

impl FarMachine {
    fn connect() -> Result<Self> {
        let id = std::process::id();
        let name = format!("syscollect-{id}");
        // Names of links have 15 characters.
        let [near, far] = ["n", "f"].map(|end| format!("sysc{end}{id}"));
        ip(&["netns", "add", &name])?;
        // From here on it is taken down, whatever fails.
        let machine = Self { name, near, far };
        let Self { name, near, far } = &machine;
        ip(&["link", "add", near, "type", "veth", "peer", "name", far, "netns", name])?;
        ip(&["address", "add", &format!("{NEAR}/30"), "dev", near])?;
        ip(&["link", "set", near, "up"])?;
        ip(&["-n", name, "address", "add", &format!("{FAR}/30"), "dev", far])?;
        ip(&["-n", name, "link", "set", far, "up"])?;
        Ok(machine)
    }

    /// A connection from there.
    fn viewer_at(&self, port: u16) -> Result<TcpStream> {
        let namespace = File::open(format!("/run/netns/{}", self.name))?;
        // A socket is of the namespace in which its thread makes it.
        let connecting = thread::spawn(move || {
            // SAFETY: takes plain numbers, and moves only this thread.
            let entered = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
            ensure!(entered == 0, "cannot enter the network of the far machine");
            Ok(TcpStream::connect((NEAR, port))?)
        });
        connecting.join().map_err(|_| anyhow!("the viewer's thread broke off"))?
    }

    /// From now on nothing reaches it, and nothing says so.
    fn unplug(&self) -> Result<()> {
        ip(&["-n", &self.name, "link", "set", &self.far, "down"])
    }
}

impl Drop for FarMachine {
    fn drop(&mut self) {
        // With one end the other goes, and what is there no more needs no removal.
        let _ = ip(&["link", "delete", &self.near]);
        let _ = ip(&["netns", "delete", &self.name]);
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    output_of(Command::new("ip").args(arguments)).map(drop)
}

/// The connection ends by the kernel's count of what was not acknowledged, and the viewer that
/// tries meanwhile comes in.
pub(crate) fn unreachable(context: &Context) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let machine = FarMachine::connect()?;
    let live = Live::start_at("0.0.0.0:0", context, folder.path(), &["--freq", "0"])?;
    let port = live.address.rsplit_once(':').context("an address has a port")?.1.parse()?;
    let mut far = machine.viewer_at(port)?;
    far.set_read_timeout(Some(Duration::from_millis(20)))?;
    let mut viewer = StrictViewer::default();
    let begun = Instant::now();
    while begun.elapsed() < WATCHES {
        exchange(&mut far, &mut viewer)?;
    }
    ensure!(!viewer.seen().switches.is_empty(), "the far viewer was told nothing");
    machine.unplug()?;
    let unplugged = Instant::now();
    let mut refused = 0;
    let waited = loop {
        if is_welcome(port)? {
            break unplugged.elapsed();
        }
        refused += 1;
        ensure!(
            unplugged.elapsed() < SILENCE + LATE,
            "{refused} times another viewer was refused, {:?} long",
            unplugged.elapsed()
        );
        thread::sleep(TRY_EVERY);
    };
    ensure!(refused > 0 && waited + LATE > SILENCE, "it was given up after {waited:?}");
    let said = live.end_saying()?;
    // What nobody reads for so long would end a connection, too: that one is told otherwise.
    let left = said.lines().find(|line| line.contains(FAR) && line.contains("left"));
    let left = left.with_context(|| format!("nothing says that it left:\n{said}"))?;
    ensure!(left.contains("os error 110"), "the kernel did not end it: {left}");
    Ok(format!("after {:.1} s the next of {} tries was welcome", waited.as_secs_f64(), refused + 1))
}

/// Whether a viewer on this machine is welcome.
fn is_welcome(port: u16) -> Result<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(&HELLO)?;
    let mut answer = [0];
    stream.read_exact(&mut answer).context("it was not answered")?;
    Ok(answer == [1])
}
