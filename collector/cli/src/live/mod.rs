//! `syscollect live`: the machine in a Tracy viewer that connects.
//!
//! A flight recorder runs in this process. A thread of its own takes what is recorded a hundred
//! times a second, plays it, and tells a viewer what came; nothing wakes it for an event, and what
//! it is too slow for is left out, counted and shown. What is held is written where somebody asks.

mod admission;
mod announce;
mod backlog;
mod follow;
mod server;
mod socket_owners;

use crate::record::flight::{Connections, NameDetail, ViewedArgs, ViewedFlight};
use crate::signals::{self, Stop, StopEvent};
use announce::Announcer;
use anyhow::{Context, Result};
use follow::{Follower, RecordedLive};
use server::Server;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Instant;
use syscollect_model::StopReason;
use syscollect_tracy_protocol::Version;

const EXAMPLES: &str = "\
Examples:
  sudo syscollect live                          for a viewer on this machine, until Ctrl-C
  sudo syscollect live --freq 0                 no samples: switches, wakeups, zones
  sudo syscollect live --listen 10.0.0.5:8086   for viewers that reach this address
  sudo syscollect live --listen 0.0.0.0:8086 --announce
                                                viewers of the network list this machine

The viewer is Tracy 0.14: `tracy-profiler -a 127.0.0.1`, or its list of clients with --announce.
Tracy's protocol has neither encryption nor passwords: whoever reaches the address sees what the
machine does. To look at another machine, forward a port: ssh -L 8086:127.0.0.1:8086 HOST.";

/// The arguments as they are written.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LiveArgs {
    /// Where viewers connect; anything but this machine's own address opens it to others
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8086")]
    listen: SocketAddr,

    /// Let every user of this machine watch, and not only root and who runs this
    #[arg(long)]
    any_user: bool,

    /// Tell the network every few seconds that viewers may connect
    #[arg(long)]
    announce: bool,

    #[command(flatten)]
    recording: ViewedArgs,
}

/// Records, and tells viewers, until it is stopped.
pub(crate) fn run(args: LiveArgs, program_start: Instant) -> Result<ExitCode> {
    let LiveArgs { listen, any_user, announce, recording } = args;
    // Sockets cannot be made once the recorder has confined itself.
    let server = Server::listen(listen, any_user)?;
    let address = server.address();
    let announcer = announce.then(|| Announcer::new(address.port())).transpose()?;
    let (sender, events) = channel();
    let abandon = signals::watch(sender)?;
    abandon.takes_snapshots();
    // A player learns from all lanes.
    let begun =
        ViewedFlight::begin(recording, Connections::Accepted, |_| true, &abandon, program_start)?;
    let Some(flight) = begun else { return Ok(ExitCode::SUCCESS) };
    flight.missing().iter().for_each(|note| eprint_line!("syscollect: {note}"));
    let viewers = Version::newest().viewers;
    eprint_line!("syscollect: a viewer of Tracy {viewers} may connect to {address}");
    if !address.ip().is_loopback() {
        eprint_line!(
            "syscollect: whoever reaches {address} sees what this machine does: the protocol has \
             neither encryption nor passwords"
        );
    }
    let ask_stacks_anew = Box::new(flight.stacks_asker());
    let recorded = RecordedLive { watched: flight.watched(), ask_stacks_anew };
    let follower = Follower::begin(recorded, server, announcer, flight.names(NameDetail::Lines)?)?;
    while let Ok(event) = events.recv() {
        match event {
            StopEvent::Signal(Stop::User1) => flight.snapshot("SIGUSR1"),
            _ => break,
        }
    }
    follower.end().context("cannot tell viewers of the machine")?;
    abandon.writing();
    flight.end(StopReason::Interrupt).map(|()| ExitCode::SUCCESS)
}
