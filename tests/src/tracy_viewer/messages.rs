//! From raw bytes to messages, and what a viewer asks of them.

use super::gpu::GpuQuery;
use super::history::{History, Moment, Pending, ReceivedMemory, ReceivedSwitch};
use super::{Result, Violation, require};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Query {
    Terminate = 0,
    String = 1,
    ThreadString = 2,
    SourceLocation = 3,
    PlotName = 4,
    FrameName = 5,
    ExternalName = 8,
    Disconnect = 9,
    CallstackFrame = 10,
    Symbol = 11,
}

impl Query {
    pub(super) fn bytes(self, pointer: u64) -> [u8; 13] {
        let mut bytes = [0; 13];
        bytes[0] = self as u8;
        bytes[1..9].copy_from_slice(&pointer.to_le_bytes());
        bytes
    }
}

/// What was asked, and what was not asked yet.
#[derive(Default)]
pub(super) struct Asks {
    known: BTreeSet<(Query, u64)>,
    to_send: Vec<u8>,
    open: BTreeSet<(Query, u64)>,
    /// These are answered in order.
    locations: VecDeque<u64>,
}

impl Asks {
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.to_send)
    }

    pub(super) fn is_answered(&self) -> bool {
        self.open.is_empty() && self.to_send.is_empty()
    }

    /// Asks, unless that was asked before.
    pub(super) fn ask(&mut self, query: Query, pointer: u64) {
        if self.known.insert((query, pointer)) {
            self.open.insert((query, pointer));
            self.to_send.extend(query.bytes(pointer));
            if query == Query::SourceLocation {
                self.locations.push_back(pointer);
            }
        }
    }

    fn text(&mut self, pointer: u64) {
        if pointer != 0 {
            self.ask(Query::String, pointer);
        }
    }

    fn answered(&mut self, query: Query, pointer: u64) -> Result<()> {
        let was_asked = self.open.remove(&(query, pointer));
        require!(was_asked, "{query:?} of {pointer:#x} is answered, and nobody asked");
        Ok(())
    }
}

/// Bytes of a frame.
struct Cursor<'a>(&'a [u8]);

macro_rules! number {
    ($($name:ident)*) => {
        $(fn $name(&mut self) -> Result<$name> {
            let bytes = self.take(size_of::<$name>())?;
            let mut all = [0; size_of::<$name>()];
            all.copy_from_slice(bytes);
            Ok($name::from_le_bytes(all))
        })*
    };
}

impl<'a> Cursor<'a> {
    number! { u8 u16 u32 u64 i8 i64 f32 f64 }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        require!(length <= self.0.len(), "a message is cut by the end of its frame");
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(taken)
    }

    fn text(&mut self, length: usize) -> Result<String> {
        let bytes = self.take(length)?;
        let text = std::str::from_utf8(bytes).map_err(|_| Violation("a text is none".into()))?;
        let is_clean = text.chars().all(|character| !character.is_control() || character == '\n');
        require!(is_clean, "a text has control characters: {text:?}");
        Ok(text.to_owned())
    }

    fn long_text(&mut self) -> Result<String> {
        let length = self.u16()?;
        self.text(length.into())
    }

    fn colour(&mut self) -> Result<u32> {
        let [blue, green, red] = [self.u8()?, self.u8()?, self.u8()?];
        Ok(u32::from_be_bytes([0, red, green, blue]))
    }

    /// A time in the form that the message has; the shorter ones say what is beyond theirs.
    fn difference(&mut self, form: u8) -> Result<i64> {
        const BEYOND_16: i64 = 1 << 16;
        const BEYOND_32: i64 = BEYOND_16 + (1 << 32);
        Ok(match form {
            2 => self.u16()?.into(),
            1 => i64::from(self.u32()?) + BEYOND_16,
            _ => match self.i64()? {
                time if time >= 0 => time + BEYOND_32,
                time => time,
            },
        })
    }
}

/// Reads all messages of a frame.
pub(super) fn read_all(raw: &[u8], history: &mut History, asks: &mut Asks) -> Result<()> {
    let mut cursor = Cursor(raw);
    while !cursor.0.is_empty() {
        let number = cursor.u8()?;
        read(number, &mut cursor, history, asks)
            .map_err(|Violation(text)| Violation(format!("message {number}: {text}")))?;
    }
    Ok(())
}

fn read(number: u8, c: &mut Cursor<'_>, history: &mut History, asks: &mut Asks) -> Result<()> {
    match number {
        // Texts for what comes next.
        112 => {
            let length = usize::from(c.u16()?) + 256;
            history.pending.single(c.text(length)?)?;
        }
        113 => {
            let length = usize::from(c.u16()?) + 256;
            history.pending.second(c.text(length)?)?;
        }
        114 => {
            let length = c.u8()?.into();
            history.pending.single(c.text(length)?)?;
        }
        115 => {
            let length = c.u8()?.into();
            history.pending.second(c.text(length)?)?;
        }
        119..=121 | 123 | 125 | 127 | 128 => answers(number, c, history, asks)?,
        63 | 64 | 87 | 96 | 108..=110 => code(number, c, history, asks)?,
        28..=34 | 88 | 90 => lock(number, c, history, asks)?,
        35..=42 | 116 => memory(number, c, history, asks)?,
        50 | 54 | 60 | 61 | 95 => gpu(number, c, history, asks)?,
        58 | 59 | 99 | 111 | 97 => cpus(number, c, history, asks)?,
        _ => threads(number, c, history, asks)?,
    }
    Ok(())
}

fn answers(number: u8, c: &mut Cursor<'_>, history: &mut History, asks: &mut Asks) -> Result<()> {
    let pointer = c.u64()?;
    if number == 123 {
        let length = usize::from(c.u16()?);
        require!(length > 0 && length.is_multiple_of(8), "a call stack of {length} bytes");
        let addresses = (0..length / 8).map(|_| c.u64()).collect::<Result<Vec<_>>>()?;
        for address in &addresses {
            let high = (address >> 62, address >> 60 & 3);
            require!(high.0 == high.1, "{address:#x} is no address to the viewer");
            asks.ask(Query::CallstackFrame, *address);
        }
        return history.pending.stack(addresses);
    }
    let text = c.long_text()?;
    match number {
        119 => {
            asks.answered(Query::String, pointer)?;
            history.seen.texts.insert(pointer, text);
        }
        120 => {
            asks.answered(Query::ThreadString, pointer)?;
            history.seen.threads.entry(pointer as u32).or_default().label = text;
        }
        121 => {
            asks.answered(Query::PlotName, pointer)?;
            history.seen.plot_names.insert(pointer, text);
        }
        125 => {
            asks.answered(Query::FrameName, pointer)?;
            history.seen.frame_names.insert(pointer, text);
        }
        128 => {
            history.seen.threads.entry(pointer as u32).or_default().name = text;
        }
        _ => {
            asks.answered(Query::ExternalName, pointer)?;
            history.seen.threads.entry(pointer as u32).or_default().process = text;
        }
    }
    Ok(())
}

fn code(number: u8, c: &mut Cursor<'_>, history: &mut History, asks: &mut Asks) -> Result<()> {
    match number {
        63 => {
            let (address, size) = (c.u64()?, c.u8()?);
            asks.answered(Query::CallstackFrame, address)?;
            require!(size > 0, "an address of no function");
            history.pending.frame(address, size)?;
        }
        96 => {
            let (line, symbol, _length) = (c.u32()?, c.u64()?, c.u32()?);
            let file = history.pending.take_second()?;
            let name = history.pending.take_single()?;
            let address = history.pending.line()?;
            if symbol != 0 {
                asks.ask(Query::Symbol, symbol);
            }
            let lines = history.seen.frames.entry(address).or_default();
            lines.push((name, file, line));
        }
        64 => {
            let (_line, symbol) = (c.u32()?, c.u64()?);
            history.pending.take_single()?;
            asks.answered(Query::Symbol, symbol)?;
        }
        87 => {
            let [name, function, file] = [c.u64()?, c.u64()?, c.u64()?];
            let (line, colour) = (c.u32()?, c.colour()?);
            let pointer = asks.locations.pop_front();
            let pointer = pointer.ok_or_else(|| Violation("nobody asked for a location".into()))?;
            asks.answered(Query::SourceLocation, pointer)?;
            [name, function, file].into_iter().for_each(|text| asks.text(text));
            history.seen.locations.insert(pointer, (name, function, file, line, colour));
        }
        // The polite no: this viewer asks only for what it was told of.
        _ => return Err(Violation("there is no such thing, and it was told of".into())),
    }
    Ok(())
}

fn cpus(number: u8, c: &mut Cursor<'_>, history: &mut History, asks: &mut Asks) -> Result<()> {
    match number {
        58 => {
            let time = history.moment(Moment::Cpus(c.i64()?))?;
            let (old, new, cpu) = (c.u32()?, c.u32()?, c.u8()?);
            let (_reason, state, _c_state) = (c.u8()?, c.i8()?, c.u8()?);
            let _priorities = [c.i8()?, c.i8()?];
            if new != 0 {
                asks.ask(Query::ExternalName, new.into());
            }
            history.switch(ReceivedSwitch { time, cpu, old, new, state })?;
        }
        59 => {
            let time = history.moment(Moment::Cpus(c.i64()?))?;
            let (thread, cpu) = (c.u32()?, c.u8()?);
            let _adjusted = [c.i8()?, c.i8()?];
            history.wakeup(time, thread, cpu)?;
        }
        99 => {
            let (thread, pid) = (c.u64()?, c.u64()?);
            history.seen.pids.insert(thread as u32, pid as u32);
        }
        111 => {
            let (package, _die, core, cpu) = (c.u32()?, c.u32()?, c.u32()?, c.u32()?);
            let before = history.seen.topology.insert(cpu, (package, core));
            require!(before.is_none(), "CPU {cpu} is told twice");
        }
        _ => {
            let time = history.moment(Moment::Absolute(c.i64()?))?;
            history.load(time, c.f32()?)?;
        }
    }
    Ok(())
}

fn threads(number: u8, c: &mut Cursor<'_>, history: &mut History, asks: &mut Asks) -> Result<()> {
    let notice = |asks: &mut Asks, thread: u32| asks.ask(Query::ThreadString, thread.into());
    match number {
        0 => history.zone_text()?,
        1 => history.zone_name()?,
        81 => {
            let colour = c.colour()?;
            history.zone_colour(colour)?;
        }
        3 | 5 => {
            let time = history.moment(Moment::Absolute(c.i64()?))?;
            let (colour, metadata) = (c.colour()?, c.u8()?);
            require!(metadata & 15 < 2 && metadata >> 4 < 6, "a message of kind {metadata:#x}");
            history.message(time, colour, metadata, number == 5)?;
        }
        6 => {
            history.moment(Moment::Absolute(c.i64()?))?;
            let note = history.pending.take_single()?;
            history.seen.notes.push(note);
        }
        9 => history.pending.keep_for_serial()?,
        10 => history.stack_of_thread()?,
        12..=17 => {
            let thread = c.u32()?;
            let form = (number - 12) % 3;
            let time = history.moment(Moment::Cpus(c.difference(form)?))?;
            notice(asks, thread);
            history.sample(time, thread, number >= 15)?;
        }
        19..=24 => {
            let form = (number - 19) % 3;
            let time = history.moment(Moment::Thread(c.difference(form)?))?;
            let location = c.u64()?;
            asks.ask(Query::SourceLocation, location);
            history.zone_begin(time, location, number >= 22)?;
        }
        25..=27 => {
            let time = history.moment(Moment::Thread(c.difference(number - 25)?))?;
            history.zone_end(time)?;
        }
        57 => {
            let name = c.u64()?;
            let time = history.moment(Moment::Thread(c.i64()?))?;
            asks.ask(Query::PlotName, name);
            history.plot(time, name, c.f64()?)?;
        }
        106 => {
            let (name, format, step) = (c.u64()?, c.u8()?, c.u8()?);
            let _filled_and_colour = (c.u8()?, c.u32()?);
            require!(format < 4 && step < 2, "a plot of format {format}");
            asks.ask(Query::PlotName, name);
            history.seen.plot_formats.insert(name, format);
        }
        73 => history.terminate()?,
        74 => {}
        75 => {
            let thread = c.u32()?;
            notice(asks, thread);
            history.thread(thread);
        }
        79 => {
            let time = history.moment(Moment::Absolute(c.i64()?))?;
            let text = c.u64()?;
            asks.text(text);
            history.crash(time, text)?;
        }
        83..=85 => {
            let time = history.moment(Moment::Absolute(c.i64()?))?;
            let name = c.u64()?;
            if name != 0 {
                asks.ask(Query::FrameName, name);
            }
            history.frame(number - 83, time, name)?;
        }
        117 => {
            let (thread, group) = (c.u32()?, c.u32()?);
            let is_known = history.seen.threads.contains_key(&thread);
            require!(is_known, "a group of thread {thread}, which nobody knows");
            history.seen.groups.insert(thread, group);
        }
        _ => return Err(Violation("there is no such message".into())),
    }
    Ok(())
}

fn lock(number: u8, c: &mut Cursor<'_>, history: &mut History, asks: &mut Asks) -> Result<()> {
    match number {
        88 => {
            let lock = c.u32()?;
            history.moment(Moment::Absolute(c.i64()?))?;
            let (location, kind) = (c.u64()?, c.u8()?);
            require!(kind < 2, "a lock of type {kind}");
            asks.ask(Query::SourceLocation, location);
            history.lock_announced(lock, kind == 1)?;
        }
        34 => {
            let lock = c.u32()?;
            history.lock_named(lock)?;
        }
        90 => {
            let (thread, lock, location) = (c.u32()?, c.u32()?, c.u64()?);
            asks.ask(Query::SourceLocation, location);
            history.lock_marked(lock, thread)?;
        }
        30 => {
            let lock = c.u32()?;
            let time = history.moment(Moment::Serial(c.i64()?))?;
            history.lock_event(number, time, lock, None)?;
        }
        33 => {
            let lock = c.u32()?;
            let time = history.moment(Moment::Serial(c.i64()?))?;
            let thread = c.u32()?;
            history.lock_event(number, time, lock, Some(thread))?;
        }
        _ => {
            let (thread, lock) = (c.u32()?, c.u32()?);
            let time = history.moment(Moment::Serial(c.i64()?))?;
            asks.ask(Query::ThreadString, thread.into());
            history.lock_event(number, time, lock, Some(thread))?;
        }
    }
    Ok(())
}

fn memory(number: u8, c: &mut Cursor<'_>, history: &mut History, asks: &mut Asks) -> Result<()> {
    if number == 116 {
        return history.pending.pool(c.u64()?);
    }
    let time = history.moment(Moment::Serial(c.i64()?))?;
    let (thread, address) = (c.u32()?, c.u64()?);
    let allocates = [35, 36, 39, 40].contains(&number);
    let size = if allocates {
        Some(c.take(6)?.iter().rev().fold(0, |size, byte| size << 8 | u64::from(*byte)))
    } else {
        None
    };
    let is_named = number.is_multiple_of(2);
    let pool = history.pending.take_pool();
    require!(pool.is_some() == is_named, "the pool of memory is missing, or too much");
    pool.into_iter().for_each(|pool| asks.text(pool));
    let stack = if number >= 39 { Some(history.pending.take_serial()?) } else { None };
    let pool = pool.unwrap_or(0);
    let Some(size) = size else {
        history.freed(time, pool, address);
        return Ok(());
    };
    asks.ask(Query::ThreadString, thread.into());
    let (allocated, freed) = (time, None);
    history.allocated(ReceivedMemory { pool, address, size, thread, allocated, freed, stack })
}

fn gpu(number: u8, c: &mut Cursor<'_>, history: &mut History, asks: &mut Asks) -> Result<()> {
    match number {
        95 => {
            history.moment(Moment::Absolute(c.i64()?))?;
            let (_gpu_time, _thread, period) = (c.i64()?, c.u32()?, c.f32()?);
            let (context, _flags, kind) = (c.u8()?, c.u8()?, c.u8()?);
            require!(period == 1.0 && kind == 7, "a context of period {period} and type {kind}");
            history.gpu_context(context)
        }
        61 => {
            let context = c.u8()?;
            history.gpu_named(context)
        }
        50 => {
            let time = history.moment(Moment::Serial(c.i64()?))?;
            let (thread, query, context, location) = (c.u32()?, c.u16()?, c.u8()?, c.u64()?);
            asks.ask(Query::SourceLocation, location);
            asks.ask(Query::ThreadString, thread.into());
            history.gpu_begin(time, GpuQuery { context, thread, query }, location)
        }
        54 => {
            let time = history.moment(Moment::Serial(c.i64()?))?;
            let (thread, query, context) = (c.u32()?, c.u16()?, c.u8()?);
            history.gpu_end(time, GpuQuery { context, thread, query })
        }
        _ => {
            let time = history.moment(Moment::Gpu(c.i64()?))?;
            let (query, context) = (c.u16()?, c.u8()?);
            history.gpu_time(time, context, query)
        }
    }
}

/// What came for the next message.
impl Pending {
    fn single(&mut self, text: String) -> Result<()> {
        require!(self.single.is_none(), "a text comes before the last was used");
        self.single = Some(text);
        Ok(())
    }

    fn second(&mut self, text: String) -> Result<()> {
        require!(self.second.is_none(), "a second text comes before the last was used");
        self.second = Some(text);
        Ok(())
    }

    pub(super) fn take_single(&mut self) -> Result<String> {
        self.single.take().ok_or_else(|| Violation("its text is missing".into()))
    }

    fn take_second(&mut self) -> Result<String> {
        self.second.take().ok_or_else(|| Violation("its second text is missing".into()))
    }

    fn stack(&mut self, addresses: Vec<u64>) -> Result<()> {
        require!(self.stack.is_none(), "a stack comes before the last was used");
        self.stack = Some(addresses);
        Ok(())
    }

    pub(super) fn take_stack(&mut self) -> Result<Vec<u64>> {
        self.stack.take().ok_or_else(|| Violation("its stack is missing".into()))
    }

    fn keep_for_serial(&mut self) -> Result<()> {
        require!(self.serial.is_none(), "a stack comes before the last was used");
        self.serial = Some(self.take_stack()?);
        Ok(())
    }

    fn take_serial(&mut self) -> Result<Vec<u64>> {
        self.serial.take().ok_or_else(|| Violation("its stack is missing".into()))
    }

    fn pool(&mut self, pool: u64) -> Result<()> {
        require!(self.pool.is_none() && pool != 0, "a pool comes before the last was used");
        self.pool = Some(pool);
        Ok(())
    }

    fn take_pool(&mut self) -> Option<u64> {
        self.pool.take()
    }

    /// An address, of which so many functions follow.
    fn frame(&mut self, address: u64, size: u8) -> Result<()> {
        require!(self.frame.is_none(), "functions of the last address are missing");
        self.take_single()?;
        self.frame = Some((address, size));
        Ok(())
    }

    /// One of its functions; of which address.
    fn line(&mut self) -> Result<u64> {
        let (address, left) = self.frame.ok_or_else(|| Violation("it is of no address".into()))?;
        self.frame = (left > 1).then(|| (address, left - 1));
        Ok(address)
    }
}

/// Texts by what stands for them.
pub(super) type Texts = BTreeMap<u64, String>;
