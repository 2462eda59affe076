//! Connections of viewers, one viewer at a time. Nothing here waits.

use super::admission::Admission;
use anyhow::{Context, Result};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use syscollect_tracy_protocol::{
    HELLO, HandshakeError, NOT_AVAILABLE, Packing, Received, Session, greet,
};

/// Connections that have not said who they are; the oldest gives way to a new one.
const MOST_WAITING: usize = 16;
/// Connections that are looked at in one step.
const MOST_ACCEPTED: usize = 16;
/// How long one may pause that is still waited for.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// How often viewers that do not fit are told of.
const REFUSAL_EVERY: Duration = Duration::from_secs(1);
/// Bytes that are read at once, and how often in a turn.
const PIECE: usize = 16 << 10;
const MOST_PIECES: usize = 4;
/// Bytes that are sent at once: a step should not take long.
const MOST_SENT: usize = 4 << 20;
/// Turns of reading and answering in a step: answers may be of no bytes.
const MOST_TURNS: usize = 64;

/// How long connections are waited for.
#[derive(Clone, Copy)]
struct Patience {
    /// They may take so long to say who they are.
    hello: Duration,
    /// A viewer may take nothing of what there is for it for so long, and its machine may be out of
    /// reach.
    silence: Duration,
    /// It hears so often that there is nothing to say.
    keep_alive: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let [hello, silence, keep_alive] = [2, 30, 5].map(Duration::from_secs);
        Self { hello, silence, keep_alive }
    }
}

/// Who has connected and not said who it is.
struct Waiting {
    stream: TcpStream,
    from: SocketAddr,
    since: Instant,
    hello: Vec<u8>,
}

/// The viewer.
struct Viewer {
    stream: TcpStream,
    from: SocketAddr,
    /// What it sent and what found no room yet.
    unread: Vec<u8>,
    /// When it last took something, or there was nothing to take.
    last_progress: Instant,
    last_sent: Instant,
}

/// Where viewers connect.
pub(super) struct Server {
    listener: TcpListener,
    address: SocketAddr,
    admission: Admission,
    waiting: VecDeque<Waiting>,
    viewer: Option<Viewer>,
    patience: Patience,
    last_refusal: Option<Instant>,
}

/// What became of a connection.
#[derive(PartialEq, Eq)]
enum Progress {
    GoesOn,
    Ends,
}

impl Server {
    /// Listens at an address: on this machine to root and who runs this, or to any user.
    pub(super) fn listen(address: SocketAddr, any_user: bool) -> Result<Self> {
        let listener = TcpListener::bind(address).map_err(|error| {
            let advice = advice(&error, address);
            anyhow::Error::new(error).context(format!("cannot listen at {address}{advice}"))
        })?;
        let admission = Admission::to(&listener, any_user)?;
        listener.set_nonblocking(true).context("cannot listen without waiting")?;
        let address = listener.local_addr().context("cannot ask where it listens")?;
        let (waiting, viewer, patience, last_refusal) = Default::default();
        Ok(Self { listener, address, admission, waiting, viewer, patience, last_refusal })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn has_viewer(&self) -> bool {
        self.viewer.is_some()
    }

    /// Whether the viewer takes what there is for it.
    pub(super) fn is_read(&self) -> bool {
        self.viewer.as_ref().is_some_and(|viewer| viewer.last_progress.elapsed() < LONGEST_PAUSE)
    }

    /// Whether a viewer is there, or somebody who may be one.
    pub(super) fn is_asked(&self) -> bool {
        self.viewer.is_some() || !self.waiting.is_empty()
    }

    /// Takes what came and sends what there is, as far as that does not wait. While not everything
    /// that happens is told, a viewer that comes waits.
    pub(super) fn step(&mut self, session: &mut Session, is_complete: bool) {
        self.accept();
        self.hear_hellos(session, is_complete);
        let Some(viewer) = &mut self.viewer else { return };
        match viewer.step(session, self.patience) {
            Ok(Progress::GoesOn) => {}
            ended => {
                let counts = session.counts();
                let why = ended.err().map_or_else(String::new, |error| format!(" ({error})"));
                eprint_line!(
                    "syscollect: the viewer at {} left{why}: it was told {} events, and {} were \
                     left out",
                    viewer.from,
                    counts.told,
                    counts.left_out
                );
                session.disconnect();
                self.viewer = None;
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..MOST_ACCEPTED {
            // Whatever keeps one from connecting is its own concern.
            let Ok((stream, from)) = self.listener.accept() else { return };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if let Some(why) = self.admission.refusal(&stream, from) {
                self.refuse(from, &why);
                continue;
            }
            // What is small is not to wait for more.
            let _ = stream.set_nodelay(true);
            if self.waiting.len() >= MOST_WAITING {
                self.waiting.pop_front();
            }
            let (since, hello) = (Instant::now(), Vec::new());
            self.waiting.push_back(Waiting { stream, from, since, hello });
        }
    }

    /// Hears who waits; the first that is a viewer of our version becomes the viewer.
    fn hear_hellos(&mut self, session: &mut Session, is_complete: bool) {
        for _ in 0..self.waiting.len() {
            let Some(mut waiting) = self.waiting.pop_front() else { return };
            match waiting.hear() {
                Ok(Progress::GoesOn)
                    if waiting.hello.len() < HELLO
                        && waiting.since.elapsed() < self.patience.hello =>
                {
                    self.waiting.push_back(waiting);
                }
                // What is no viewer is known by its first bytes.
                Ok(_) if greet(&waiting.hello) == Err(HandshakeError::NotTracy) => {
                    self.refuse(waiting.from, &HandshakeError::NotTracy.to_string());
                }
                Ok(_) if waiting.hello.len() == HELLO => {
                    // Who asks for what there is not need not wait for it.
                    let is_refused = greet(&waiting.hello).is_err() || self.viewer.is_some();
                    let is_late = waiting.since.elapsed() >= self.patience.hello;
                    match is_complete || is_refused || is_late {
                        true => self.welcome(waiting, session),
                        false => self.waiting.push_back(waiting),
                    }
                }
                _ => {}
            }
        }
    }

    fn welcome(&mut self, waiting: Waiting, session: &mut Session) {
        let Waiting { mut stream, from, hello, .. } = waiting;
        if self.viewer.is_some() {
            // It is closed whether it hears that or not.
            let (answer, why) = match greet(&hello) {
                Ok(()) => (&[NOT_AVAILABLE][..], "there is another viewer".into()),
                Err(error) => (error.answer(), error.to_string()),
            };
            let _ = stream.write(answer);
            return self.refuse(from, &why);
        }
        session.pack_as(match from.ip().is_loopback() {
            true => Packing::Stored,
            false => Packing::Compressed,
        });
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        session.connect(now.map_or(0, |now| now.as_secs()));
        if let Err(error) = session.receive(&hello) {
            let _ = stream.write(session.output());
            session.disconnect();
            return self.refuse(from, &error.to_string());
        }
        // One that is out of reach takes nothing more, and nobody says so.
        gives_up_after(&stream, self.patience.silence);
        eprint_line!("syscollect: a viewer connects from {from}");
        let now = Instant::now();
        let viewer =
            Viewer { stream, from, unread: Vec::new(), last_progress: now, last_sent: now };
        self.viewer = Some(viewer);
    }

    /// Says that somebody could not be served, not too often.
    fn refuse(&mut self, from: SocketAddr, why: &str) {
        if self.last_refusal.is_none_or(|last| last.elapsed() >= REFUSAL_EVERY) {
            self.last_refusal = Some(Instant::now());
            eprint_line!("syscollect: refuses {from}: {why}");
        }
    }
}

/// What helps where it cannot listen.
fn advice(error: &io::Error, address: SocketAddr) -> String {
    let (ip, port) = (address.ip(), address.port().wrapping_add(1));
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            ": a program is there already, as another recorder or one with Tracy's client: take \
             another port, --listen {ip}:{port}, and give it to the viewer: -p {port}"
        ),
        io::ErrorKind::AddrNotAvailable => format!(
            ": {ip} is no address of this machine: take one of its own, or 0.0.0.0 or [::] for all"
        ),
        _ => String::new(),
    }
}

impl Waiting {
    /// Reads the hello, and no byte beyond.
    fn hear(&mut self) -> io::Result<Progress> {
        let mut bytes = [0; HELLO];
        let missing = HELLO - self.hello.len();
        if missing == 0 {
            return Ok(Progress::GoesOn);
        }
        match self.stream.read(&mut bytes[..missing]) {
            Ok(0) => Ok(Progress::Ends),
            Ok(read) => {
                self.hello.extend_from_slice(&bytes[..read]);
                Ok(Progress::GoesOn)
            }
            Err(error) if is_later(&error) => Ok(Progress::GoesOn),
            Err(error) => Err(error),
        }
    }
}

impl Viewer {
    fn step(
        &mut self,
        session: &mut Session,
        Patience { silence, keep_alive, .. }: Patience,
    ) -> io::Result<Progress> {
        let mut sent = 0;
        for _ in 0..MOST_TURNS {
            if self.read(session)? == Progress::Ends {
                return Ok(Progress::Ends);
            }
            session.pump();
            if session.output().is_empty() && self.last_sent.elapsed() >= keep_alive {
                session.keep_alive();
            }
            let now = Instant::now();
            let piece = self.send(session)?;
            sent += piece;
            if piece > 0 {
                self.last_sent = now;
            }
            if piece > 0 || session.output().is_empty() {
                self.last_progress = now;
            }
            if session.output().is_empty() && session.is_over() {
                return Ok(Progress::Ends);
            }
            if self.last_progress.elapsed() >= silence {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if piece == 0 || sent >= MOST_SENT {
                break;
            }
        }
        Ok(Progress::GoesOn)
    }

    /// Takes in what the viewer sent, as far as there is room.
    fn read(&mut self, session: &mut Session) -> io::Result<Progress> {
        for _ in 0..MOST_PIECES {
            let unread = std::mem::take(&mut self.unread);
            if !unread.is_empty() && self.hand_over(&unread, session) == Progress::Ends {
                return Ok(Progress::GoesOn);
            }
            let mut bytes = [0; PIECE];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Ok(Progress::Ends),
                Ok(read) => {
                    if self.hand_over(&bytes[..read], session) == Progress::Ends {
                        return Ok(Progress::GoesOn);
                    }
                }
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(Progress::GoesOn)
    }

    /// Hands bytes over; it ends where there is no room for more.
    fn hand_over(&mut self, bytes: &[u8], session: &mut Session) -> Progress {
        match session.receive(bytes) {
            Ok(Received::Full(left)) => {
                self.unread.extend_from_slice(&bytes[bytes.len() - left..]);
                Progress::Ends
            }
            // It was welcomed before.
            Ok(_) | Err(_) => Progress::GoesOn,
        }
    }

    /// Sends what there is; how much was taken.
    fn send(&mut self, session: &mut Session) -> io::Result<usize> {
        let mut sent = 0;
        while !session.output().is_empty() {
            match self.stream.write(session.output()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    session.sent(written);
                    sent += written;
                }
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }
}

/// Ends a connection of which nothing was acknowledged for so long. Where the kernel cannot do that
/// it does so later.
fn gives_up_after(stream: &TcpStream, silence: Duration) {
    let milliseconds = libc::c_uint::try_from(silence.as_millis()).unwrap_or(libc::c_uint::MAX);
    // SAFETY: the option is a number that is read during the call.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_USER_TIMEOUT,
            (&raw const milliseconds).cast(),
            size_of::<libc::c_uint>() as libc::socklen_t,
        );
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_tracy_protocol::{Event, Host};

    struct Peers {
        server: Server,
        session: Session,
    }

    impl Peers {
        fn new() -> Self {
            let server = Server::listen("127.0.0.1:0".parse().unwrap(), false).unwrap();
            Self { server, session: Session::new(Host::default(), 0) }
        }

        fn connect(&self, hello: &[u8]) -> TcpStream {
            let mut stream = TcpStream::connect(self.server.address()).unwrap();
            stream.write_all(hello).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        }

        /// What it hears until there are so many bytes, or it is closed; `None` where neither comes
        /// in that time.
        fn hear(
            &mut self,
            stream: &mut TcpStream,
            most: usize,
            within: Duration,
        ) -> Option<Vec<u8>> {
            let (begun, mut heard) = (Instant::now(), Vec::new());
            while begun.elapsed() < within {
                self.server.step(&mut self.session, true);
                let mut bytes = [0; 1024];
                match stream.read(&mut bytes) {
                    Ok(0) => return Some(heard),
                    Ok(read) => heard.extend_from_slice(&bytes[..read]),
                    Err(error) if is_later(&error) => {}
                    // Closed with something unread.
                    Err(_) => return Some(heard),
                }
                if heard.len() >= most {
                    return Some(heard);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            None
        }
    }

    const RIGHT: &[u8] = b"TracyPrf\x52\0\0\0";
    const SOON: Duration = Duration::from_secs(5);

    #[test]
    fn who_is_no_viewer_of_ours_hears_so_whether_another_is_there_or_not() {
        let mut peers = Peers::new();
        // It stays while the others come.
        let mut first = None;
        for is_watched in [false, true] {
            let other = &b"TracyPrf\x51\0\0\0"[..];
            for (hello, answer) in [(other, &[2][..]), (b"GET / HTTP/1.1\r\n", &[]), (b"GET", &[])]
            {
                let mut stream = peers.connect(hello);
                let heard = peers.hear(&mut stream, usize::MAX, SOON);
                assert_eq!(heard.as_deref(), Some(answer), "{hello:?}, {is_watched}");
                assert_eq!(peers.server.has_viewer(), is_watched);
            }
            if !is_watched {
                let mut viewer = peers.connect(RIGHT);
                let heard = peers.hear(&mut viewer, 1, SOON).expect("it is welcome");
                assert_eq!(heard[0], 1);
                first = Some(viewer);
            }
        }
        let mut second = peers.connect(RIGHT);
        let heard = peers.hear(&mut second, usize::MAX, SOON);
        assert_eq!(heard.as_deref(), Some(&[NOT_AVAILABLE][..]));
        drop(first);
    }

    #[test]
    fn who_asks_for_another_version_hears_so_while_not_all_is_told_yet() {
        let mut peers = Peers::new();
        let mut stream = peers.connect(b"TracyPrf\x51\0\0\0");
        let begun = Instant::now();
        let mut heard = Vec::new();
        while heard.is_empty() && begun.elapsed() < SOON {
            peers.server.step(&mut peers.session, false);
            let mut bytes = [0; 8];
            if let Ok(read) = stream.read(&mut bytes) {
                heard.extend_from_slice(&bytes[..read]);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(heard, [2]);
        assert!(begun.elapsed() < peers.server.patience.hello / 2);
    }

    #[test]
    fn another_port_helps_only_where_the_port_is_taken() {
        let taken = Server::listen("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let error = Server::listen(taken.address(), false).err().unwrap();
        assert!(format!("{error:#}").contains("another port"), "{error:#}");
        let elsewhere = "192.0.2.1:8086".parse().unwrap();
        let error = format!("{:#}", Server::listen(elsewhere, false).err().unwrap());
        assert!(
            !error.contains("port,") && error.contains("no address of this machine"),
            "{error}"
        );
    }

    #[test]
    fn half_a_hello_and_silence_keeps_no_viewer_out_and_is_closed() {
        let mut peers = Peers::new();
        let mut silent = peers.connect(&RIGHT[..5]);
        assert_eq!(peers.hear(&mut silent, 1, Duration::from_millis(100)), None);
        let mut viewer = peers.connect(RIGHT);
        assert_eq!(peers.hear(&mut viewer, 1, SOON).expect("it is welcome")[0], 1);
        let longest = peers.server.patience.hello + SOON;
        let heard = peers.hear(&mut silent, 1, longest);
        assert_eq!(heard.as_deref(), Some(&[][..]));
        assert!(peers.server.has_viewer());
    }

    /// Nothing happens, and a viewer that has all is asked nothing.
    fn quiet_viewer(patience: Patience) -> (Peers, TcpStream) {
        let mut peers = Peers::new();
        peers.server.patience = patience;
        let mut viewer = peers.connect(RIGHT);
        assert_eq!(peers.hear(&mut viewer, 1, SOON).expect("it is welcome")[0], 1);
        (peers, viewer)
    }

    #[test]
    fn a_viewer_that_says_nothing_stays_and_hears_now_and_then_that_all_is_well() {
        let [silence, keep_alive] = [200, 50].map(Duration::from_millis);
        let patience = Patience { silence, keep_alive, ..Patience::default() };
        let (mut peers, mut viewer) = quiet_viewer(patience);
        let (begun, mut frames) = (Instant::now(), 0);
        while begun.elapsed() < 4 * silence {
            frames += u128::from(peers.hear(&mut viewer, 1, 2 * keep_alive).is_some());
            assert!(peers.server.has_viewer());
        }
        let most = begun.elapsed().as_millis() / keep_alive.as_millis() + 1;
        assert!((4..=most).contains(&frames), "{frames}, {most} at most");
    }

    #[test]
    fn a_viewer_that_takes_nothing_or_is_gone_makes_room_for_the_next() {
        let silence = Duration::from_millis(300);
        let patience = Patience { silence, ..Patience::default() };
        let (mut peers, viewer) = quiet_viewer(patience);
        // It takes nothing of what there is.
        let begun = Instant::now();
        let mut time = 0;
        while peers.server.has_viewer() && begun.elapsed() < 10 * SOON {
            for _ in 0..10_000 {
                time += 1;
                peers.session.tell(time, Event::Load(time as f32 % 100.0));
            }
            peers.server.step(&mut peers.session, true);
        }
        assert!(!peers.server.has_viewer() && begun.elapsed() >= silence);
        drop(viewer);
        let mut next = peers.connect(RIGHT);
        assert_eq!(peers.hear(&mut next, 1, SOON).expect("it is welcome")[0], 1);
        drop(next);
        let begun = Instant::now();
        while peers.server.has_viewer() && begun.elapsed() < SOON {
            peers.server.step(&mut peers.session, true);
        }
        assert!(!peers.server.has_viewer() && begun.elapsed() < silence);
    }
}
