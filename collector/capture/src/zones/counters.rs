//! Counters of an application: its threads add to atomics, and the collector
//! reads their values out of its memory now and then.
//!
//! Reading another process's memory can take as long as that process likes
//! (a page of it may lie in a file system of its own). So there is a thread
//! for each program with counters; one that does not come back costs nothing
//! but that program's counters.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use syscollect_model::ClockSource;
use syscollect_untrusted_files::living_other;
use syscollect_zone_protocol::{Event, Item, ItemWords, Value};

use super::find::{ArenaLocation, still_has};
use super::log::CounterEntry;
use crate::clock::ticks_now;
use crate::shares::Pool;

/// Values are read this often.
const INTERVAL: Duration = Duration::from_millis(100);
/// Most counters of a program: as many as one call reads.
const MOST_COUNTERS: usize = 1024;
/// Programs whose counters are read at one time, of which each user has a share.
const MOST_READERS: u64 = 256;
/// Of a CPU all readers together take at most one part in so many.
const PART_OF_A_CPU: u32 = 32;
/// Words that wait for the collector, at most; it comes every 40 ms or sooner.
const MOST_WORDS: usize = 64 << 10;

/// Reader threads of this recorder.
static READERS: AtomicU32 = AtomicU32::new(0);
/// Their shares.
static SEATS: LazyLock<Mutex<Pool>> = LazyLock::new(|| Mutex::new(Pool::new(MOST_READERS)));

/// Counts a reader thread as long as it lives.
struct CountedReader(u32);

impl CountedReader {
    fn take(user: u32) -> Option<Self> {
        let taken = SEATS.lock().unwrap_or_else(PoisonError::into_inner).take(user, 1);
        taken.then(|| {
            READERS.fetch_add(1, Ordering::Relaxed);
            Self(user)
        })
    }
}

impl Drop for CountedReader {
    fn drop(&mut self) {
        READERS.fetch_sub(1, Ordering::Relaxed);
        SEATS.lock().unwrap_or_else(PoisonError::into_inner).give_back(self.0, 1);
    }
}

/// Whose memory is read, and how to know that it still is the same program.
#[derive(Clone)]
pub(super) struct PolledProgram {
    /// Where /proc is found.
    pub(super) root: PathBuf,
    /// The process, and where its arena is.
    pub(super) place: ArenaLocation,
    /// Who made its arena.
    pub(super) user: u32,
    /// The clock of its items.
    pub(super) clock: ClockSource,
}

#[derive(Default)]
struct ReaderState {
    counters: Mutex<Vec<CounterEntry>>,
    items: Mutex<Vec<u64>>,
    stop: AtomicBool,
}

/// A program's counters and the thread that reads them.
pub(super) struct ApplicationCounters {
    shared: Arc<ReaderState>,
    thread: std::thread::Thread,
}

impl ApplicationCounters {
    /// Starts to read; why not, where that is not possible.
    pub(super) fn start(subject: PolledProgram) -> io::Result<Self> {
        let why = "as many programs have counters already as a user may have read";
        let seat = CountedReader::take(subject.user).ok_or_else(|| io::Error::other(why))?;
        let shared = Arc::new(ReaderState::default());
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name("counters".into())
            .stack_size(128 << 10)
            .spawn(move || {
                let _seat = seat;
                read_until_stopped(&subject, &of_thread);
            })?;
        Ok(Self { shared, thread: thread.thread().clone() })
    }

    /// Reads this counter, too. Returns whether there was room for it.
    pub(super) fn add(&self, counter: CounterEntry) -> bool {
        let mut counters = self.shared.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = counters.len() < MOST_COUNTERS;
        if fits {
            counters.push(counter);
        }
        fits
    }

    /// Moves the values that were read to the end of `out`, as items.
    pub(super) fn take(&self, out: &mut Vec<u64>) {
        // Held for a copy only; whoever comes in between comes again.
        if let Ok(mut items) = self.shared.items.try_lock() {
            out.append(&mut items);
        }
    }
}

impl Drop for ApplicationCounters {
    fn drop(&mut self) {
        // Not joined: the thread may wait for the program.
        self.shared.stop.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

fn read_until_stopped(subject: &PolledProgram, shared: &ReaderState) {
    while !shared.stop.load(Ordering::Acquire) {
        let began = Instant::now();
        let counters = shared.counters.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (ticks, values) =
            (ticks_now(subject.clock).0, read_values(subject.place.pid, &counters));
        // Looked at afterwards: then it was this program's memory.
        if !still_has(&subject.root, &subject.place) {
            return;
        }
        let mut items = shared.items.lock().unwrap_or_else(PoisonError::into_inner);
        for (counter, value) in counters.iter().zip(values) {
            if let Some(value) = value.filter(|_| items.len() < MOST_WORDS) {
                items.extend(item(ticks, counter, value).iter().flat_map(|words| words.iter()));
            }
        }
        drop(items);
        // A program may make its counters, and finding out whether it is still there, as slow as it
        // likes.
        let rest = began.elapsed() * PART_OF_A_CPU * READERS.load(Ordering::Relaxed);
        std::thread::park_timeout(INTERVAL.max(rest));
    }
}

/// The words of a plot's item, if the value is one.
fn item(ticks: u64, counter: &CounterEntry, bits: u64) -> Option<ItemWords> {
    let value = Value::decode(counter.value_type as u8, bits)?;
    let event = Event::Plot { plot: counter.number, value };
    Some(Item::Stamped { ticks, event }.encode())
}

/// The values in that process's memory, `None` where it cannot be read.
fn read_values(pid: u32, counters: &[CounterEntry]) -> Vec<Option<u64>> {
    let mut values = vec![None; counters.len()];
    let mut buffer = vec![0u64; counters.len()];
    // The kernel reads by any thread that lives: the first one may have ended.
    let (mut task, process) = (pid, PathBuf::from(format!("/proc/{pid}")));
    let mut done = 0;
    while done < counters.len() {
        let local = libc::iovec {
            iov_base: buffer[done..].as_mut_ptr().cast(),
            iov_len: (counters.len() - done) * 8,
        };
        let remote: Vec<libc::iovec> = counters[done..]
            .iter()
            .map(|counter| libc::iovec {
                iov_base: counter.address as usize as *mut libc::c_void,
                iov_len: 8,
            })
            .collect();
        // SAFETY: `local` is the rest of the buffer; the other addresses are
        // the kernel's to check, in the other process.
        let read = unsafe {
            let count = remote.len() as libc::c_ulong;
            libc::process_vm_readv(
                task as libc::pid_t,
                &raw const local,
                1,
                remote.as_ptr(),
                count,
                0,
            )
        };
        if read < 0 && task == pid && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
        {
            let Some(living) = living_other(&process) else { return values };
            task = living;
            continue;
        }
        // Whole values up to the first that cannot be read: that one is left out.
        let whole = usize::try_from(read).unwrap_or(0) / 8;
        for index in done..done + whole {
            values[index] = Some(buffer[index]);
        }
        done += whole + 1;
    }
    // If that thread has ended meanwhile, its number may have been another process's.
    if task != pid && !process.join(format!("task/{task}")).exists() {
        values.fill(None);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_zone_protocol::ValueType;

    #[test]
    fn a_counter_at_an_address_that_is_not_there_does_not_hide_the_others() {
        let values = [11u64, 22];
        let counters = [
            entry(1, &raw const values[0] as u64),
            entry(2, 8),
            entry(3, &raw const values[1] as u64),
            entry(4, 16),
        ];
        assert_eq!(read_values(std::process::id(), &counters), [Some(11), None, Some(22), None]);
    }

    fn entry(number: u32, address: u64) -> CounterEntry {
        CounterEntry { number, value_type: ValueType::Unsigned, address }
    }

    #[test]
    fn a_value_becomes_a_plot_with_the_number_of_its_counter() {
        let counter = CounterEntry { number: 9, value_type: ValueType::Signed, address: 0 };
        let plot = Event::Plot { plot: 9, value: Value::Signed(7) };
        let words = item(5, &counter, 7).unwrap();
        assert_eq!(Item::decode(&words), Some(Item::Stamped { ticks: 5, event: plot }));
    }
}
