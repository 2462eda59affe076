//! Reads a process's own arena and tells what is in it, line by line.
// Each test program uses a part; helpers of tests fail as tests do.
#![allow(dead_code, clippy::unwrap_used)]

use std::sync::atomic::Ordering;
use std::sync::{Mutex, Once};
use syscollect_usdt_client::testing::{self, Drain};
use syscollect_zone_protocol::log::EntryKind;
use syscollect_zone_protocol::{
    ItemKind, LockAction, MAX_DEVIATION, TextRole, ValueType, ZONE_END, ZONE_END_DEPTH,
};

/// A recorder that runs on this machine changes nothing in a test: this runs before all else.
#[used]
#[unsafe(link_section = ".init_array.00101")]
static HIDE: extern "C" fn() = hide;

extern "C" fn hide() {
    testing::hide_from_recorders();
}

/// The reader's lock on the arena, so that threads do not take over each other's rings.
static LOCK: Mutex<Option<std::fs::File>> = Mutex::new(None);

/// Turns recording on, once for the process, and makes sure that there is an arena with a reader.
pub(crate) fn record() {
    static RAISED: Once = Once::new();
    RAISED.call_once(testing::raise);
    syscollect_usdt_client::plot!("first event", 1);
    let mut lock = LOCK.lock().unwrap();
    if lock.is_none() {
        *lock = testing::lock_arena();
        assert!(lock.is_some(), "the arena can be locked");
    }
}

/// No collector holds the arena from now on, until the next [`record`].
pub(crate) fn stop_reading() {
    LOCK.lock().unwrap().take();
}

/// What the calling thread has written since the last call.
pub(crate) fn scenario() -> Vec<String> {
    scenario_of(thread_id())
}

/// What that thread has written since the last call.
pub(crate) fn scenario_of(tid: u32) -> Vec<String> {
    let mut drain = Drain::open().expect("an arena");
    let number = ring_of(&drain, tid).expect("the thread has a ring");
    let items = drain.take(number);
    shown(&items, drain.log())
}

/// What all threads have written since the last call, one thread after the other.
pub(crate) fn scenario_of_all() -> Vec<String> {
    let mut drain = Drain::open().expect("an arena");
    let items: Vec<Vec<Vec<u64>>> = (0..drain.rings()).map(|number| drain.take(number)).collect();
    items.iter().flat_map(|items| shown(items, drain.log())).collect()
}

/// The newest ring that the thread has or had.
pub(crate) fn ring_of(drain: &Drain, tid: u32) -> Option<usize> {
    (0..drain.rings()).rev().find(|number| drain.ring(*number).tid.load(Ordering::Relaxed) == tid)
}

pub(crate) fn thread_id() -> u32 {
    // SAFETY: no preconditions.
    unsafe { libc::gettid() as u32 }
}

/// Forks; the child exits with 0 if `child` returns true.
pub(crate) fn in_child(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child touches no lock of another thread: there is no other that holds one here.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(false);
        // SAFETY: ends the child without the runner's own ending.
        unsafe { libc::_exit(i32::from(!good)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child just made.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// Items as lines, without their ticks; texts in one line each.
pub(crate) fn shown(items: &[Vec<u64>], log: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut text = Vec::new();
    for item in items {
        if item[0] as u8 == ItemKind::Text as u8 {
            let bytes: Vec<u8> = item[1..].iter().flat_map(|word| word.to_le_bytes()).collect();
            text.extend_from_slice(&bytes[..(item[0] >> 16) as u8 as usize]);
            if (item[0] >> 24) as u8 == 0 {
                let role = TextRole::from_number((item[0] >> 8) as u8).expect("a role");
                lines.push(format!(
                    "{role:?} {:?}",
                    String::from_utf8(std::mem::take(&mut text)).unwrap()
                ));
            }
            continue;
        }
        lines.push(line(item, log));
    }
    lines
}

fn line(item: &[u64], log: &[u8]) -> String {
    let (first, second) = (item[0], item.get(1).copied().unwrap_or_default());
    let (low, high) = (second as u32, (second >> 32) as u32);
    if first as u8 >= ZONE_END {
        return format!("end {}", first as u8 & ZONE_END_DEPTH);
    }
    match ItemKind::from_number(first as u8).expect("a kind") {
        ItemKind::ZoneBegin => format!("begin {} at {high}", name(log, low)),
        ItemKind::OpenZone => format!("open {} at {high}", name(log, low)),
        ItemKind::Attached => format!("attached {second}"),
        ItemKind::Lost => format!("lost {second}"),
        ItemKind::Message if low == 0 => format!("message color {high:06x}"),
        ItemKind::Message => format!("message {} color {high:06x}", name(log, low)),
        ItemKind::Plot => format!("plot {} {}", name(log, low), value(u64::from(high), item[2])),
        ItemKind::Frame => format!("frame {} phase {high}", name(log, low)),
        ItemKind::Loop => format!("loop {low}"),
        ItemKind::Tag => format!("tag {} {second}", name(log, (first >> 32) as u32)),
        ItemKind::Value => match (first >> 32) as u32 {
            u32::MAX => format!("value {}", value(first >> 8 & 0xff, second)),
            field if field < 16 => format!("value {field}: {}", value(first >> 8 & 0xff, second)),
            field => format!("value {}: {}", name(log, field), value(first >> 8 & 0xff, second)),
        },
        ItemKind::Color => format!("color {:06x}", first >> 8),
        ItemKind::AsyncBegin => {
            format!("async {} of task {}", name(log, low), u64::from(item[3] != 0))
        }
        ItemKind::AsyncOpen => format!("async open {}", name(log, low)),
        ItemKind::TaskName => format!("task {}", name(log, (first >> 32) as u32)),
        ItemKind::Marker => format!("marker {} phase {high}", name(log, low)),
        ItemKind::MarkerAt => {
            format!("marker {} phase {high} ticks {} thread {}", name(log, low), item[2], item[3])
        }
        ItemKind::Crash => format!("crash {low} address {:#x}", item[2]),
        ItemKind::Lock => {
            let action = LockAction::from_number(high as u8).expect("an action");
            format!("{} {action:?}", name(log, low))
        }
        ItemKind::GpuZoneBegin => {
            let (context, place) = (name(log, low), name(log, item[2] as u32));
            format!("gpu {context} begin {place} {}", in_block(high))
        }
        ItemKind::GpuZoneEnd => format!("gpu {} end {}", name(log, low), in_block(high)),
        ItemKind::GpuTimes => {
            format!("gpu {} times {} {:?}", name(log, low), in_block(high), &item[2..])
        }
        ItemKind::GpuNoTimes => format!("gpu {} no times {}", name(log, low), in_block(high)),
        ItemKind::GpuCalibration => {
            let deviation = high & MAX_DEVIATION;
            format!("gpu {} clock {} is {} within {deviation}", name(log, low), item[2], item[3])
        }
        kind => format!("{kind:?}"),
    }
}

/// The number of a zone of a GPU within those that its thread has.
fn in_block(number: u32) -> u32 {
    number % 1024
}

fn value(kind: u64, bits: u64) -> String {
    match ValueType::from_number(kind as u8).expect("a type") {
        ValueType::Signed => (bits as i64).to_string(),
        ValueType::Float => f64::from_bits(bits).to_string(),
        ValueType::Unsigned | ValueType::String => bits.to_string(),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The name in an entry of the log.
pub(crate) fn name(log: &[u8], number: u32) -> String {
    if number == 0 {
        return "-".into();
    }
    let entry = &log[(number as usize - 1) * 8..];
    let size = word(entry, 0) as usize;
    let text = match EntryKind::from_number(word(entry, 4)).expect("a kind of entry") {
        EntryKind::String => &entry[8..size],
        EntryKind::Counter => text_at(entry, 24),
        EntryKind::GpuContext => text_at(entry, 32),
        _ => text_at(entry, 16),
    };
    String::from_utf8_lossy(text).trim_end_matches('\0').to_owned()
}

fn text_at(entry: &[u8], at: usize) -> &[u8] {
    let length = u16::from_le_bytes([entry[at], entry[at + 1]]) as usize;
    &entry[at + 2..at + 2 + length]
}
