//! The other end of a Tracy connection: takes all that the client sends and
//! asks for nothing, which is the least that a real server makes it do.

use anyhow::{Context, ensure};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The protocol of the client that this crate is built with.
const PROTOCOL: u32 = 82;

/// A connection that a thread reads from.
pub(crate) struct Connection {
    bytes: Arc<AtomicU64>,
}

impl Connection {
    /// Bytes that were received.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The running client.
pub(crate) fn client() -> tracy_client::Client {
    tracy_client::Client::running().unwrap_or_else(tracy_client::Client::start)
}

/// Connects, and waits until the client has noticed.
pub(crate) fn connect() -> anyhow::Result<Connection> {
    let port = std::env::var("TRACY_PORT").ok().and_then(|port| port.parse().ok()).unwrap_or(8086);
    let mut stream =
        TcpStream::connect(("127.0.0.1", port)).context("the Tracy client does not listen")?;
    stream.write_all(b"TracyPrf")?;
    stream.write_all(&PROTOCOL.to_le_bytes())?;
    let mut status = [0];
    stream.read_exact(&mut status)?;
    ensure!(
        status == [1],
        "the Tracy client speaks another protocol than {PROTOCOL} (status {})",
        status[0]
    );
    let bytes = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&bytes);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            counted.fetch_add(count as u64, Ordering::Relaxed);
        }
    });
    let limit = Instant::now() + Duration::from_secs(5);
    while !tracy_client::Client::is_connected() {
        ensure!(Instant::now() < limit, "the Tracy client does not see its connection");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(Connection { bytes })
}
