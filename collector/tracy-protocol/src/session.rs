//! One viewer after the other, as a state machine: bytes of the viewer and events go in, bytes for
//! the viewer come out.

use crate::answers::{Asked, QUERY};
use crate::catalogue::{Catalogue, FrameRow};
use crate::event::{Event, ZoneWords};
use crate::handshake::{Beginning, HELLO, HandshakeError, Host, read_hello, welcome};
use crate::lz4::{Packer, Packing};
use crate::picture::Picture;
use crate::version::{Kind, Query, Version};
use crate::viewer::{Moment, OwnRow, Viewer};
use rustc_hash::FxHashSet;
use std::collections::VecDeque;
use std::mem;

/// How long before the present a viewer's zero is, nanoseconds: what is open then begins there.
const BEFORE: i64 = 1_000_000_000;
/// How often it is said at most what is shown at another time than its own, nanoseconds.
const MOVED_TOLD_EVERY: i64 = 1_000_000_000;
/// Times of a viewer have 48 bits and a sign.
const LONGEST: i64 = (1 << 47) - 1;

/// Bounds of what is kept for one viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of events that wait for it.
    pub waiting: usize,
    /// Bytes that were written for it and not sent.
    pub output: usize,
    /// Bytes that it sent and that were not answered.
    pub input: usize,
    /// Places in code whose names are looked for. A viewer asks nothing more while so many of its
    /// questions are open, 8,192 of them, names of threads among them; so from fifteen parts of
    /// sixteen on who waits longest is answered without a name, one each time that the session is
    /// [pumped](Session::pump).
    pub naming: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { waiting: 32 << 20, output: 4 << 20, input: 128 << 10, naming: 8 << 10 }
    }
}

/// What was done so far, for whoever wants to know how it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that this viewer was told.
    pub told: u64,
    /// Events that it was too slow for.
    pub left_out: u64,
    /// Queries that were answered.
    pub answered: u64,
    /// Queries for what there is not.
    pub refused: u64,
}

/// What became of a viewer's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// They are taken in.
    Taken,
    /// With them the viewer is welcome.
    Welcomed,
    /// Not all find room: what is left has to come again, behind more [output](Session::output).
    Full(usize),
}

/// The profiled side.
///
/// ```
/// use syscollect_tracy_protocol::{Catalogue, Host, Received, Session, Version};
///
/// let mut session = Session::new(Host::default(), 0);
/// session.connect(1_700_000_000);
/// let hello = [&b"TracyPrf"[..], &Version::newest().number.to_le_bytes()].concat();
/// assert_eq!(session.receive(&hello)?, Received::Welcomed);
/// session.pump();
/// assert_eq!(session.output()[0], 1, "it is welcome");
/// # Ok::<(), syscollect_tracy_protocol::HandshakeError>(())
/// ```
#[derive(Debug)]
pub struct Session {
    /// What events refer to.
    pub catalogue: Catalogue,
    host: Host,
    limits: Limits,
    /// The thread that our own messages are of.
    own_thread: u32,
    /// What frames for the next viewer are to cost.
    packing: Packing,
    picture: Picture,
    state: State,
    counts: Counts,
    /// When the last event was that anybody told us of.
    newest: i64,
}

#[derive(Debug)]
enum State {
    Nobody,
    /// It has not said all of who it is.
    Hello {
        bytes: Vec<u8>,
        wall_clock: u64,
    },
    Watched(Box<Watched>),
    /// What is left to send; then it is over.
    Over(Output),
}

/// Bytes for the viewer.
#[derive(Debug, Default)]
struct Output {
    bytes: Vec<u8>,
    sent: usize,
}

impl Output {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    fn sent(&mut self, bytes: usize) {
        self.sent += bytes.min(self.rest().len());
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}

/// A viewer that was welcomed.
#[derive(Debug)]
struct Watched {
    version: &'static Version,
    viewer: Viewer,
    packer: Packer,
    output: Output,
    input: Vec<u8>,
    waiting: VecDeque<(i64, Event)>,
    waiting_bytes: usize,
    missing: Option<Missing>,
    /// Events that were told later than they were, of which no message told yet.
    moved: u64,
    /// When a message did last.
    moved_told: i64,
    zero: i64,
    ending: Ending,
    /// Places in code of which names are looked for.
    naming: FxHashSet<u64>,
    /// The same in the order in which it asked, and some that were answered.
    naming_order: VecDeque<u64>,
    to_name: Vec<u64>,
}

/// What the viewer knows where it was not told all.
#[derive(Debug)]
struct Missing {
    known: Picture,
    events: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Not,
    /// Nothing more is to be told than what waits.
    Asked,
    /// The viewer was told so: it asks what it still wants, and ends.
    Told,
}

impl Session {
    /// A session in which our own messages are of this thread.
    pub fn new(host: Host, own_thread: u32) -> Self {
        Self::with_limits(host, own_thread, Limits::default())
    }

    /// The same with other bounds.
    pub fn with_limits(host: Host, own_thread: u32, limits: Limits) -> Self {
        Self {
            catalogue: Catalogue::default(),
            host,
            limits,
            own_thread,
            packing: Packing::default(),
            picture: Picture::default(),
            state: State::Nobody,
            counts: Counts::default(),
            newest: 0,
        }
    }

    /// What is said of the machine from the next viewer on.
    pub fn describe(&mut self, host: Host) {
        self.host = host;
    }

    /// What frames are to cost for who connects from now on.
    pub fn pack_as(&mut self, packing: Packing) {
        self.packing = packing;
    }

    /// Somebody connects; who was there before is gone. The wall clock is seconds since 1970.
    pub fn connect(&mut self, wall_clock: u64) {
        self.disconnect();
        self.state = State::Hello { bytes: Vec::new(), wall_clock };
        self.counts = Counts::default();
    }

    /// The connection is gone.
    pub fn disconnect(&mut self) {
        if let State::Watched(watched) = mem::replace(&mut self.state, State::Nobody) {
            watched.waiting.iter().for_each(|(time, event)| self.apply(*time, event, None));
        }
    }

    /// Takes in an event, and tells it a viewer that knows all so far.
    fn apply(&mut self, time: i64, event: &Event, viewer: Option<&mut Viewer>) {
        let at = Moment { time, catalogue: &self.catalogue };
        self.picture.apply(event, at, viewer);
        if let Event::Ended(row) = event {
            self.catalogue.forget(*row);
        }
    }

    /// Whether a viewer was welcomed and is there.
    pub fn is_watched(&self) -> bool {
        matches!(self.state, State::Watched(_))
    }

    /// Whether the connection may be closed once its [output](Self::output) is sent.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over(_))
    }

    /// Whether the viewer is so far behind that events for it will soon be left out.
    pub fn is_behind(&self) -> bool {
        match &self.state {
            State::Watched(watched) => watched.waiting_bytes > self.limits.waiting / 2,
            _ => false,
        }
    }

    /// What was done for this viewer.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The viewer sent these bytes.
    ///
    /// # Errors
    ///
    /// It is no viewer, or of another version. What [output](Self::output) there is tells it so.
    pub fn receive(&mut self, received: &[u8]) -> Result<Received, HandshakeError> {
        match &mut self.state {
            State::Nobody | State::Over(_) => Ok(Received::Taken),
            State::Hello { bytes, .. } => {
                let wanted = (HELLO - bytes.len()).min(received.len());
                bytes.extend_from_slice(&received[..wanted]);
                match read_hello(bytes) {
                    Ok(None) => Ok(Received::Taken),
                    Ok(Some(version)) => {
                        self.welcome(version);
                        match self.receive(&received[wanted..])? {
                            Received::Full(left) => Ok(Received::Full(left)),
                            _ => Ok(Received::Welcomed),
                        }
                    }
                    Err(error) => {
                        let bytes = error.answer().to_vec();
                        self.state = State::Over(Output { bytes, sent: 0 });
                        Err(error)
                    }
                }
            }
            State::Watched(watched) => {
                let room = self.limits.input.saturating_sub(watched.input.len());
                let taken = room.min(received.len());
                watched.input.extend_from_slice(&received[..taken]);
                match received.len() - taken {
                    0 => Ok(Received::Taken),
                    left => Ok(Received::Full(left)),
                }
            }
        }
    }

    /// The viewer speaks our version.
    fn welcome(&mut self, version: &'static Version) {
        let State::Hello { wall_clock, .. } = self.state else { return };
        self.picture.forget_woken();
        let now = self.newest;
        let zero = (now - BEFORE).max(0);
        let bytes = welcome(&self.host, Beginning { zero, now, wall_clock });
        let mut viewer = Viewer::new(version, OwnRow { thread: self.own_thread, zero });
        viewer.machine(Moment { time: now, catalogue: &self.catalogue });
        self.state = State::Watched(Box::new(Watched {
            version,
            viewer,
            packer: Packer::new(self.packing),
            output: Output { bytes, sent: 0 },
            input: Vec::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            // What is open now is told before the first event.
            missing: Some(Missing { known: Picture::unknown(zero + 1), events: 0 }),
            moved: 0,
            moved_told: i64::MIN,
            zero,
            ending: Ending::Not,
            naming: FxHashSet::default(),
            naming_order: VecDeque::new(),
            to_name: Vec::new(),
        }));
        self.tell_missing();
    }

    /// Something happened. Times never decrease, but for what programs said that came late.
    pub fn tell(&mut self, time: i64, event: Event) {
        self.newest = self.newest.max(time);
        match &mut self.state {
            State::Watched(watched) if watched.ending == Ending::Not => {
                if watched.waiting.is_empty() && watched.has_room(self.limits.output) {
                    return self.write(time, &event);
                }
                watched.waiting_bytes += event.bytes();
                watched.waiting.push_back((time, event));
                if watched.waiting_bytes > self.limits.waiting {
                    self.leave_out();
                }
            }
            _ => self.apply(time, &event, None),
        }
    }

    /// The viewer is too slow: the older half of what waits goes.
    fn leave_out(&mut self) {
        let State::Watched(watched) = &mut self.state else { return };
        let missing = watched
            .missing
            .get_or_insert_with(|| Missing { known: self.picture.clone(), events: 0 });
        let mut left_out = Vec::new();
        while watched.waiting_bytes > self.limits.waiting / 2
            && let Some((time, event)) = watched.waiting.pop_front()
        {
            watched.waiting_bytes -= event.bytes();
            missing.events += 1;
            self.counts.left_out += 1;
            left_out.push((time, event));
        }
        left_out.iter().for_each(|(time, event)| self.apply(*time, event, None));
    }

    /// Tells the difference between what the viewer knows and what is.
    fn tell_missing(&mut self) {
        let State::Watched(watched) = &mut self.state else { return };
        let Some(Missing { known, events }) = watched.missing.take() else { return };
        let time = self.picture.time.max(known.time);
        let at = Moment { time, catalogue: &self.catalogue };
        let of_ended = ZoneWords {
            text: Some("it ended before this: events are missing".into()),
            ..ZoneWords::default()
        };
        known.tell_difference(&self.picture, Some(&of_ended), at, &mut watched.viewer);
        if events > 0 {
            let text = format!("{events} events are missing before this: the viewer was too slow");
            watched.viewer.warn(text, at);
        }
    }

    /// Says now and then how many events were told later than they were.
    fn tell_moved(&mut self) {
        let State::Watched(watched) = &mut self.state else { return };
        watched.moved += watched.viewer.take_moved();
        let time = self.picture.time;
        let is_due = match watched.ending {
            Ending::Not => time.saturating_sub(watched.moved_told) >= MOVED_TOLD_EVERY,
            Ending::Asked => true,
            Ending::Told => false,
        };
        if watched.moved == 0 || !is_due {
            return;
        }
        watched.moved_told = time;
        let events = mem::take(&mut watched.moved);
        let at = Moment { time: time.max(watched.zero + 1), catalogue: &self.catalogue };
        let text = format!(
            "{events} events of programs are shown later than they were: they came after later \
             ones of the same thread, lock, set of frames or pool, or before this viewer"
        );
        watched.viewer.warn(text, at);
    }

    /// Nothing more is to come: the viewer is told what waits, and that this was all.
    pub fn finish(&mut self) {
        match &mut self.state {
            State::Watched(watched) if watched.ending == Ending::Not => {
                watched.ending = Ending::Asked;
            }
            State::Hello { .. } => self.state = State::Over(Output::default()),
            _ => {}
        }
    }

    /// Answers what was asked and tells what waits, as far as there is room for it.
    pub fn pump(&mut self) {
        self.leave_room_for_questions();
        self.answer();
        loop {
            let State::Watched(watched) = &mut self.state else { return };
            if !watched.has_room(self.limits.output) {
                return;
            }
            let Some((time, event)) = watched.waiting.pop_front() else { break };
            watched.waiting_bytes -= event.bytes();
            self.write(time, &event);
        }
        self.tell_moved();
        self.end();
        if let State::Watched(watched) = &mut self.state {
            watched.pack();
        }
    }

    /// Tells the viewer, which has heard all that was before.
    fn write(&mut self, time: i64, event: &Event) {
        let State::Watched(watched) = &mut self.state else { return };
        if time - watched.zero >= LONGEST {
            watched.ending = Ending::Asked;
            watched.waiting.clear();
            watched.waiting_bytes = 0;
            return;
        }
        if watched.missing.is_some() {
            self.tell_missing();
        }
        let State::Watched(watched) = &mut self.state else { return };
        // What came very late may be of before all that the viewer knows.
        let first = watched.zero + 1;
        watched.moved += u64::from(time < first);
        let at = Moment { time: time.max(first), catalogue: &self.catalogue };
        self.picture.apply(event, at, Some(&mut watched.viewer));
        if let Event::Ended(row) = event {
            self.catalogue.forget(*row);
        }
        watched.viewer.cut();
        self.counts.told += 1;
    }

    /// All was told: says so, once, if that is to be the end.
    fn end(&mut self) {
        self.tell_missing();
        let State::Watched(watched) = &mut self.state else { return };
        if watched.ending != Ending::Asked {
            return;
        }
        // The viewer waits for the ends of all zones.
        let at = Moment { time: self.picture.time, catalogue: &self.catalogue };
        let nothing = self.picture.without_open_zones();
        self.picture.tell_difference(&nothing, None, at, &mut watched.viewer);
        watched.viewer.writer.plain(Kind::Terminate);
        watched.ending = Ending::Told;
    }

    /// Answers queries.
    fn answer(&mut self) {
        let mut answered = 0;
        loop {
            let State::Watched(watched) = &mut self.state else { return };
            let has_room = watched.has_room(self.limits.output);
            let next = watched.input.get(answered..).and_then(|rest| rest.first_chunk::<QUERY>());
            let (true, Some(bytes)) = (has_room, next) else {
                watched.input.drain(..answered);
                return;
            };
            let asked = Asked::read(bytes, watched.version);
            answered += QUERY;
            match asked.query {
                Query::Terminate => {
                    let output = mem::take(&mut watched.output);
                    self.disconnect();
                    self.state = State::Over(output);
                    return;
                }
                Query::Disconnect => self.stop_telling(),
                Query::CallstackFrame if self.is_looked_for(asked.pointer) => {}
                _ => self.respond(asked),
            }
        }
    }

    fn respond(&mut self, asked: Asked) {
        let State::Watched(watched) = &mut self.state else { return };
        let is_known = watched.viewer.answer(asked, &self.catalogue);
        let Counts { answered, refused, .. } = &mut self.counts;
        *if is_known { answered } else { refused } += 1;
    }

    /// The viewer wants no more events, but may still ask.
    fn stop_telling(&mut self) {
        let State::Watched(watched) = &mut self.state else { return };
        if watched.ending != Ending::Not {
            return;
        }
        watched.ending = Ending::Asked;
        let missing = watched
            .missing
            .get_or_insert_with(|| Missing { known: self.picture.clone(), events: 0 });
        // It asked for that, so nothing of it is missing.
        missing.events = 0;
        watched.waiting_bytes = 0;
        for (time, event) in mem::take(&mut watched.waiting) {
            self.apply(time, &event, None);
        }
    }

    /// Whether somebody looks for the names at an address, so that they are told later.
    fn is_looked_for(&mut self, address: u64) -> bool {
        let State::Watched(watched) = &mut self.state else { return false };
        if !self.catalogue.is_unnamed(address) || watched.naming.len() >= self.limits.naming {
            return false;
        }
        if watched.naming.insert(address) {
            watched.naming_order.push_back(address);
            watched.to_name.push(address);
            return true;
        }
        // It asks again before it was answered: that is no viewer of ours.
        false
    }

    /// Addresses whose names the viewer waits for, and which nobody was asked for yet.
    pub fn take_to_name(&mut self) -> Vec<u64> {
        match &mut self.state {
            State::Watched(watched) => mem::take(&mut watched.to_name),
            _ => Vec::new(),
        }
    }

    /// What an address stands for was found; `None` where nothing better was.
    pub fn named(&mut self, address: u64, row: Option<FrameRow>) {
        if let Some(row) = row {
            self.catalogue.frame(address, row);
        }
        self.catalogue.is_named(address);
        self.tell_frame(address);
    }

    /// Answers what waited for a name with what is known.
    fn tell_frame(&mut self, address: u64) {
        let State::Watched(watched) = &mut self.state else { return };
        if watched.naming.remove(&address)
            && let Some(row) = self.catalogue.frames.get(&address)
        {
            watched.viewer.answer_frame(address, row);
            watched.viewer.cut();
            self.counts.answered += 1;
        }
    }

    /// Where nearly all that the viewer may ask waits for names, one is told without.
    fn leave_room_for_questions(&mut self) {
        let State::Watched(watched) = &mut self.state else { return };
        let Watched { naming, naming_order, .. } = &mut **watched;
        while naming_order.front().is_some_and(|address| !naming.contains(address)) {
            naming_order.pop_front();
        }
        if naming.len() >= self.limits.naming - self.limits.naming / 16
            && let Some(longest) = naming_order.pop_front()
        {
            self.tell_frame(longest);
        }
    }

    /// Says that there is nothing to say.
    pub fn keep_alive(&mut self) {
        if let State::Watched(watched) = &mut self.state {
            watched.viewer.writer.plain(Kind::KeepAlive);
            watched.pack();
        }
    }

    /// Bytes for the viewer.
    pub fn output(&self) -> &[u8] {
        match &self.state {
            State::Watched(watched) => watched.output.rest(),
            State::Over(output) => output.rest(),
            State::Nobody | State::Hello { .. } => &[],
        }
    }

    /// So many of these were sent.
    pub fn sent(&mut self, bytes: usize) {
        match &mut self.state {
            State::Watched(watched) => watched.output.sent(bytes),
            State::Over(output) => output.sent(bytes),
            State::Nobody | State::Hello { .. } => {}
        }
    }
}

impl Watched {
    /// Whether more may be written. What was is packed, if that is enough for a frame or all that
    /// is to wait.
    fn has_room(&mut self, most: usize) -> bool {
        let waits = self.output.rest().len() + self.viewer.writer.bytes().len();
        if self.viewer.is_full() || waits >= most {
            self.pack();
        }
        self.output.rest().len() < most
    }

    fn pack(&mut self) {
        let Self { viewer, packer, output, .. } = self;
        viewer.take(|raw| packer.pack(raw, &mut output.bytes));
    }
}
