//! What would be gone later: processes and mappings that are there when the
//! recording begins, and the files that are mapped while it goes on.
//!
//! A thread of its own, because reading /proc and opening files takes its
//! time, and the lanes must be drained meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use syscollect_model::{ClockSource, Mapping, Ticks};
use syscollect_store::{Chunk, ChunkHeader, Definition, KnownProcess, Lane, LaneKind};
use syscollect_symbolize::HeldFiles;

use crate::clock::ticks_now;
use crate::outlet::Outlet;
use crate::source::Seen;
use crate::worker::Worker;

/// Rows of one definition, so that no chunk grows beyond what the store takes.
const PROCESSES_AT_ONCE: usize = 256;
const MAPPINGS_AT_ONCE: usize = 4096;
const MAPPINGS_BYTES: usize = 1 << 20;
/// Bytes of a mapping as text without its path, and of one byte of that, at most.
const MAPPING_BYTES: usize = 256;
const LONGEST_CHARACTER: usize = 6;
/// Mappings that are noted of a process that runs when the recording begins, as many as are
/// recorded of one in a second.
const MAPPINGS_MAX: usize = 4096;
/// What was noted of programs waits at most this long for others.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// How long the end of a recording waits for all that was seen to be noted, and then for the thread
/// to end: it may stand in a file of anybody's.
const SOON: Duration = Duration::from_secs(5);
const LONGEST_GOODBYE: Duration = Duration::from_secs(5);

/// The thread that takes notes, while there is something to note.
pub(crate) struct Notes {
    /// `None` once it is to end.
    told: Option<Sender<NotesMessage>>,
    worker: Worker<HeldFiles>,
    orders: Arc<Orders>,
}

/// What the thread and whoever told it to begin share.
#[derive(Default)]
struct Orders {
    /// What waits is left out.
    stopping: AtomicBool,
    /// Read the names of all that lives once more, at the end.
    read_names: AtomicBool,
    /// Mappings of processes that had too many.
    beyond: AtomicU64,
}

/// What the thread is told.
enum NotesMessage {
    /// Something to note.
    Seen(Seen),
    /// Another file began: what is there is noted anew, and the files that were held so far go
    /// there.
    NextFile(Sender<HeldFiles>),
}

impl Notes {
    /// Starts with what is there now.
    pub(crate) fn start(buffer: Arc<Outlet>, clock: ClockSource) -> std::io::Result<Self> {
        let (told, received) = channel();
        let orders = Arc::new(Orders::default());
        let ours = Arc::clone(&orders);
        let worker = Worker::start("notes", move || {
            let held = take_notes(&buffer, &received, clock, &ours);
            if ours.read_names.load(Ordering::Acquire) {
                note_names(&buffer, clock);
            }
            held
        })?;
        Ok(Self { told: Some(told), worker, orders })
    }

    /// A file was mapped or a program begun.
    pub(crate) fn seen(&self, seen: Seen) {
        // The thread ends only when this sender does.
        let _ = self.told.as_ref().map(|told| told.send(NotesMessage::Seen(seen)));
    }

    /// The recording goes on in another file, into whose buffer notes go now. The files that were
    /// held for the one before come through `held`.
    pub(crate) fn next_file(&self, held: Sender<HeldFiles>) {
        let _ = self.told.as_ref().map(|told| told.send(NotesMessage::NextFile(held)));
    }

    /// Waits until everything is noted; the files that are held open, and what to say of what is
    /// not noted. With `read_names` the names of all that lives are noted once more.
    pub(crate) fn finish(&mut self, read_names: bool) -> (HeldFiles, Vec<String>) {
        self.orders.read_names.store(read_names, Ordering::Release);
        self.told = None;
        if let Ok(held) = self.worker.wait(SOON) {
            return (held, self.beyond().into_iter().collect());
        }
        // What waits to be looked at is left out from now on.
        self.orders.stopping.store(true, Ordering::Relaxed);
        let late = "names of functions may be absent: when the recording ended, files of code still waited to be opened";
        let held = self.worker.wait(LONGEST_GOODBYE).unwrap_or_default();
        (held, std::iter::once(late.to_owned()).chain(self.beyond()).collect())
    }

    fn beyond(&self) -> Option<String> {
        let beyond = self.orders.beyond.load(Ordering::Relaxed);
        (beyond > 0).then(|| {
            format!(
                "{beyond} mappings are not noted: their processes ran when the recording began, with more than \
                 {MAPPINGS_MAX} each; code in them has no names"
            )
        })
    }
}

/// Notes who lives now, and under which names.
fn note_names(buffer: &Outlet, clock: ClockSource) {
    let noted = ticks_now(clock);
    let mut processes = crate::snapshot::processes(Path::new("/"));
    let names_read = ticks_now(clock);
    processes
        .iter_mut()
        .for_each(|process| (process.noted, process.names_read) = (noted, names_read));
    for some in processes.chunks(PROCESSES_AT_ONCE) {
        buffer.push(definition_chunk(&Definition::Processes(some.to_vec())));
    }
}

fn take_notes(
    buffer: &Outlet,
    told: &Receiver<NotesMessage>,
    clock: ClockSource,
    orders: &Orders,
) -> HeldFiles {
    let mut held = HeldFiles::new();
    note_all(buffer, clock, &mut held, orders);
    follow(buffer, told, clock, &mut held, orders);
    held
}

/// Notes everything that is there now.
fn note_all(buffer: &Outlet, clock: ClockSource, held: &mut HeldFiles, orders: &Orders) {
    let Orders { stopping, beyond, .. } = orders;
    let root = Path::new("/");
    let mut processes = crate::snapshot::processes(root);
    let names_read = ticks_now(clock);
    processes.iter_mut().for_each(|process| process.names_read = names_read);
    for some in processes.chunks(PROCESSES_AT_ONCE) {
        buffer.push(definition_chunk(&Definition::Processes(some.to_vec())));
    }
    let mut mappings = Vec::new();
    for process in processes.iter().filter(|process| !process.kernel) {
        if stopping.load(Ordering::Relaxed) {
            break;
        }
        let mut of_process = crate::snapshot::mappings(root, process.pid);
        beyond.fetch_add(of_process.len().saturating_sub(MAPPINGS_MAX) as u64, Ordering::Relaxed);
        of_process.truncate(MAPPINGS_MAX);
        for mut mapping in of_process {
            held.hold(&mut mapping);
            mappings.push(mapping);
            if stopping.load(Ordering::Relaxed) {
                break;
            }
        }
        if mappings.len() >= MAPPINGS_AT_ONCE {
            push_mappings(buffer, std::mem::take(&mut mappings));
        }
    }
    push_mappings(buffer, mappings);
}

/// One process may have more of them, with longer names, than a chunk takes.
fn push_mappings(buffer: &Outlet, mappings: Vec<Mapping>) {
    let (mut some, mut bytes) = (Vec::new(), 0);
    for mapping in mappings {
        bytes += MAPPING_BYTES + LONGEST_CHARACTER * mapping.path.len();
        some.push(mapping);
        if bytes >= MAPPINGS_BYTES {
            bytes = 0;
            buffer.push(definition_chunk(&Definition::Mappings(std::mem::take(&mut some))));
        }
    }
    if !some.is_empty() {
        buffer.push(definition_chunk(&Definition::Mappings(some)));
    }
}

/// Notes what is seen as soon as it is; what was noted of programs goes to the
/// file in batches, which compress better than each alone.
fn follow(
    buffer: &Outlet,
    told: &Receiver<NotesMessage>,
    clock: ClockSource,
    held: &mut HeldFiles,
    orders: &Orders,
) {
    let mut begun: Vec<KnownProcess> = Vec::new();
    let mut last_batch = Instant::now();
    loop {
        let next = told.recv_timeout(LONGEST_WAIT);
        let ended = matches!(next, Err(RecvTimeoutError::Disconnected))
            || orders.stopping.load(Ordering::Relaxed);
        match next {
            Ok(NotesMessage::Seen(Seen::Mapping(mut mapping, _))) => held.hold(&mut mapping),
            Ok(NotesMessage::Seen(Seen::Exec { pid })) => {
                // Before it is read: a process that ends meanwhile is not to be
                // noted after its end, when its id may be another's.
                let noted = ticks_now(clock);
                begun.extend(
                    crate::snapshot::process(Path::new("/"), pid)
                        .map(|process| KnownProcess { noted, ..process }),
                );
            }
            Ok(NotesMessage::NextFile(before)) => {
                // Whoever names that file may have given up.
                let _ = before.send(std::mem::replace(held, HeldFiles::new()));
                note_all(buffer, clock, &mut *held, orders);
            }
            Err(_) => {}
        }
        if ended || begun.len() >= PROCESSES_AT_ONCE || last_batch.elapsed() >= LONGEST_WAIT {
            last_batch = Instant::now();
            if !begun.is_empty() {
                buffer.push_of_task(definition_chunk(&Definition::Processes(std::mem::take(
                    &mut begun,
                ))));
            }
        }
        if ended {
            return;
        }
    }
}

/// A definition as the chunk that the writer numbers.
pub(crate) fn definition_chunk(definition: &Definition) -> Chunk {
    // Definitions are plain data with text keys: JSON can hold all of them.
    let data = serde_json::to_vec(definition).unwrap_or_default();
    let header = ChunkHeader {
        lane: Lane { kind: LaneKind::Definition, cpu: 0 },
        sequence: 0,
        first: Ticks(0),
        last: Ticks(0),
        current_tid: u32::MAX,
        stride: 0,
        records_before: 0,
        records: 1,
        length: data.len() as u32,
    };
    Chunk { header, data }
}
