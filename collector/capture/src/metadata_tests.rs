use super::*;
use syscollect_store::{BufferMode, Popped};

const CLOCK: ClockSource = ClockSource::Monotonic;

fn settings() -> MetadataSettings {
    MetadataSettings {
        clock: CLOCK,
        asked_by: None,
        pids: Vec::new(),
        blocked_stacks: false,
        jvms: None,
    }
}

/// The executable mapping of this test, as the kernel lists it.
fn own_code() -> Mapping {
    let own = std::env::current_exe().unwrap();
    let mut all = crate::snapshot::mappings(Path::new("/"), std::process::id());
    all.retain(|mapping| Path::new(&mapping.path) == own);
    all.swap_remove(0)
}

/// What is recorded when all of this was observed before the end.
fn recorded(observed: Vec<Observed>, orders: &SharedState) -> (RecordedMetadata, Vec<Definition>) {
    let sink = ChunkSink::new(64 << 20, BufferMode::Discard, false);
    let (reported, received) = channel();
    orders.unheard.store(observed.len(), Ordering::Relaxed);
    observed
        .into_iter()
        .for_each(|observed| reported.send(MetadataMessage::Observed(observed)).unwrap());
    drop(reported);
    let mut recorder = MetadataRecorder::new(&sink, settings(), None);
    recorder.follow(&received, orders);
    let recorded = recorder.end(orders);
    (recorded, definitions(&sink))
}

/// All that is in the buffer, whose last use this is.
fn definitions(sink: &ChunkSink) -> Vec<Definition> {
    let buffer = sink.buffer();
    buffer.close();
    let mut definitions = Vec::new();
    while let Popped::Chunk(chunk) = buffer.pop(Duration::ZERO) {
        definitions.push(serde_json::from_slice(&chunk.data).unwrap());
    }
    definitions
}

#[test]
fn what_is_seen_is_noted_before_the_end() {
    let (mapping, pid, orders) = (own_code(), std::process::id(), SharedState::default());
    let observed = vec![Observed::Exec { pid, at: 1 }, Observed::Mapping(mapping.clone(), 0)];
    let (recorded, definitions) = recorded(observed, &orders);
    let file = std::fs::File::open(&mapping.path).unwrap();
    let build_id = syscollect_symbolize::build_id_of(&file).unwrap();
    assert!(recorded.pinned.file(&mapping.path, &build_id).is_some());
    assert_eq!(recorded.left_out, Vec::<String>::new());
    let [Definition::Processes(processes)] = &definitions[..] else { panic!("{definitions:?}") };
    assert_eq!(processes[0].pid, pid);
    assert_eq!(orders.unheard.load(Ordering::Relaxed), 0);
}

#[test]
fn where_code_lies_is_noted_though_its_file_is_not_opened_and_that_is_told() {
    let sink = ChunkSink::new(64 << 20, BufferMode::Discard, false);
    let mut recorder = MetadataRecorder::new(&sink, settings(), None);
    let pid = std::process::id();
    recorder.unread.insert(pid);
    recorder.add(pid, MetadataTask::Processes(vec![pid]));
    // Its mappings are read, and none of their files is opened.
    let turn = recorder.turns.next_of_all().unwrap();
    recorder.take(turn);
    recorder.leave_out();
    let own = own_code();
    assert!(recorder.mappings.iter().any(|mapping| mapping.path == own.path));
    let (count, notes) = (recorder.mappings.len(), recorder.turns.notes(Instant::now(), words));
    assert!(notes[0].contains(&format!(": {count} not noted")), "{notes:?}");
}

#[test]
fn what_a_process_has_mapped_after_it_began_another_program_is_not_from_the_start() {
    let sink = ChunkSink::new(64 << 20, BufferMode::Discard, false);
    let mut recorder = MetadataRecorder::new(&sink, settings(), None);
    let pid = std::process::id();
    recorder.unread.insert(pid);
    recorder.add(pid, MetadataTask::Processes(vec![pid]));
    recorder.add_observed(Observed::Exec { pid, at: 1 });
    let recorded = recorder.end(&SharedState::default());
    assert_eq!(recorded.left_out, Vec::<String>::new());
    let buffer = sink.buffer();
    let Popped::Chunk(chunk) = buffer.pop(Duration::ZERO) else { panic!("nothing is noted") };
    let definition: Definition = serde_json::from_slice(&chunk.data).unwrap();
    assert!(matches!(definition, Definition::Processes(_)), "{definition:?}");
}

#[test]
fn what_nobody_hears_of_is_counted() {
    let (reported, _received) = channel();
    let worker = Worker::start("nobody", RecordedMetadata::default).unwrap();
    let mut thread = MetadataThread {
        reported: Some(reported),
        worker,
        orders: Arc::default(),
        sleepers: Arc::default(),
        patience: SOON,
    };
    (0..UNHEARD_MAX + 3).for_each(|_| thread.observed(Observed::Exec { pid: 1, at: 1 }));
    let (_, left_out) = thread.finish(false);
    assert!(left_out[0].starts_with("3 files of code and programs"), "{left_out:?}");
}

/// A folder with a /proc of processes that run when the recording begins.
struct FakeProc {
    root: tempfile::TempDir,
}

impl FakeProc {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    /// Adds a process; the folder of what is known of it.
    fn add(&self, pid: u32, uid: u32) -> PathBuf {
        let folder = self.root.path().join(format!("proc/{pid}"));
        let task = folder.join(format!("task/{pid}"));
        std::fs::create_dir_all(&task).unwrap();
        let stat = format!("{pid} (program) S 1 1 1 0 -1 4194560 1 2");
        write(folder.join("stat"), &stat);
        write(task.join("stat"), &stat);
        write(folder.join("status"), &format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n"));
        write(folder.join("maps"), "7f00-8f00 r-xp 00000000 00:00 0 /opt/not-there\n");
        folder
    }

    /// Adds a process that answers when it is asked for its arguments.
    fn add_honest(&self, pid: u32, uid: u32) {
        std::fs::write(self.add(pid, uid).join("cmdline"), format!("honest\0{pid}\0")).unwrap();
    }

    /// Adds a process whose memory never answers.
    fn add_hostile(&self, pid: u32, uid: u32) {
        let path = self.add(pid, uid).join("cmdline");
        let path = std::ffi::CString::new(path.into_os_string().into_encoded_bytes()).unwrap();
        // SAFETY: the path ends with a zero byte.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    }
}

fn write(path: PathBuf, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[test]
fn processes_whose_memory_does_not_answer_hold_up_nobody_else() {
    const HOSTILE: u32 = 1001;
    let proc = FakeProc::new();
    (10_000..10_400).for_each(|pid| proc.add_hostile(pid, HOSTILE));
    (20_000..20_100).for_each(|pid| proc.add_honest(pid, 1002));
    let sink = ChunkSink::new(64 << 20, BufferMode::Discard, false);
    let mut recorder = MetadataRecorder::below(proc.root.path(), &sink, settings(), None);
    let begin = Instant::now();
    recorder.add_all();
    while recorder.described.len() < 500 && begin.elapsed() < Duration::from_secs(10) {
        let turn = recorder.turns.next_of_all();
        turn.into_iter().for_each(|turn| recorder.take(turn));
    }
    let took = begin.elapsed();
    // What is observed now comes after the notes of its own user only.
    recorder.add(20_000, MetadataTask::Exec(20_000));
    while honest(&recorder).is_none() && begin.elapsed() < Duration::from_secs(10) {
        let turn = recorder.turns.next(Instant::now());
        turn.into_iter().for_each(|turn| recorder.take(turn));
    }
    assert!(honest(&recorder).is_some_and(|mapped| mapped >= 100), "{:?}", begin.elapsed());
    // Far less than one second for each of 400 that hang, and the list itself asks no process's
    // memory. The machine that runs this may be busy.
    assert!(took < Duration::from_secs(5), "{took:?}");
    recorder.leave_out();
    let notes = recorder.turns.notes(Instant::now(), words);
    assert!(notes.len() == 1 && notes[0].contains("of user 1001"), "{notes:?}");
    // Of who is known only from then on, threads that run are not those of the process that others
    // sleep in.
    assert!(
        recorder.described.iter().all(|process| process.noted.0 == 0 && process.names_read.0 > 0)
    );
    let hanging = recorder.described.iter().filter(|process| process.pid < 20_000);
    assert!(hanging.clone().all(|process| process.threads.len() == 1));
    assert_eq!(hanging.count(), 400, "they are known all the same");
}

fn honest(recorder: &MetadataRecorder<'_>) -> Option<usize> {
    let honest = recorder.begun.iter().filter(|process| process.pid >= 20_000);
    (honest.count() == 101).then_some(recorder.mappings.len())
}

#[test]
fn who_has_many_processes_keeps_nobody_waiting() {
    const MANY: u32 = 3000;
    let proc = FakeProc::new();
    (10_000..10_000 + MANY).for_each(|pid| proc.add_honest(pid, 1001));
    proc.add_honest(9_999, 1002);
    let sink = ChunkSink::new(64 << 20, BufferMode::Discard, false);
    let mut recorder = MetadataRecorder::below(proc.root.path(), &sink, settings(), None);
    // As where the kernel shows who owns them, which nobody but root can say of files.
    for (uid, pids) in [(1001, (10_000..10_000 + MANY).collect()), (1002, vec![9_999])] {
        recorder.unread.extend(&pids);
        recorder.turns.add(ProcessUser::Of(uid), MetadataTask::Running(pids), Instant::now());
    }
    let mut turns = 0;
    while !recorder.mappings.iter().any(|mapping| mapping.pid == 9_999) && turns < MANY {
        let turn = recorder.turns.next_of_all().unwrap();
        recorder.take(turn);
        turns += 1;
    }
    assert!(turns < MANY / 10, "its code was known after {turns} turns");
}

#[test]
fn where_records_of_mappings_were_lost_what_has_changed_is_listed_as_of_then() {
    let proc = FakeProc::new();
    let folder = proc.add(7, 1001);
    let sink = ChunkSink::new(64 << 20, BufferMode::Discard, false);
    let mut recorder = MetadataRecorder::below(proc.root.path(), &sink, settings(), None);
    recorder.add_all();
    let all = |recorder: &mut MetadataRecorder<'_>| {
        recorder.take_all(&SharedState::default(), SOON, FairQueue::next_of_all);
        std::mem::take(&mut recorder.mappings)
    };
    assert!(all(&mut recorder).iter().all(|mapping| mapping.since.0 == 0));

    recorder.add_observed(Observed::MappingsLost { at: 1 });
    let begin = ticks_now(CLOCK);
    write(folder.join("maps"), "a000-b000 r-xp 00000000 00:00 0 /opt/lost\n");
    assert!(recorder.relisting.is_due(Instant::now()));
    recorder.list_again();
    let listed = all(&mut recorder);
    assert_eq!((listed.len(), listed[0].path.as_str()), (1, "/opt/lost"));
    assert!(listed[0].since >= begin, "it is not known to have been there before");
    recorder.list_again();
    assert!(all(&mut recorder).is_empty(), "nothing has changed");
}

#[test]
fn how_threads_sleep_is_read_of_processes_whose_switches_are_recorded() {
    let (tell, reported) = channel::<()>();
    let sleeper = std::thread::spawn(move || reported.recv());
    let own = std::process::id();
    while sleepers_seen(own, Vec::new()) == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(sleepers_seen(own, vec![own]) > 0);
    assert_eq!(sleepers_seen(own, vec![1]), 0);
    drop(tell);
    let _ = sleeper.join();
}

/// How many threads of the process `own` a recording of these processes says are asleep.
fn sleepers_seen(own: u32, pids: Vec<u32>) -> usize {
    let sink = ChunkSink::new(64 << 20, BufferMode::Discard, false);
    let mut recorder = MetadataRecorder::new(&sink, MetadataSettings { pids, ..settings() }, None);
    recorder.add_all();
    while let Some(turn) = recorder.turns.next_of_all() {
        recorder.take(turn);
        recorder.add_sleepers();
    }
    recorder.push_batches(Duration::ZERO);
    let processes = definitions(&sink).into_iter().flat_map(|definition| match definition {
        Definition::Processes(processes) => processes,
        _ => Vec::new(),
    });
    let own_threads = processes.filter(|process| process.pid == own && process.states_read.0 > 0);
    own_threads.flat_map(|process| process.threads).filter(|one| one.asleep.is_some()).count()
}

#[test]
fn a_snapshot_is_told_who_sleeps_now() {
    let (tell, reported) = channel::<()>();
    let sleeper = std::thread::Builder::new().name("one-who-sleeps".into());
    let sleeper = sleeper.spawn(move || reported.recv()).unwrap();
    let sink = ChunkSink::new(64 << 20, BufferMode::Overwrite, false);
    let mut recorder = MetadataRecorder::new(&sink, settings(), None);
    let before = ticks_now(CLOCK);
    let mut seen = None;
    while seen.is_none() {
        let (answer, answered) = channel();
        recorder.snapshot(&answer, &SharedState::default());
        let snapshot = answered.recv().unwrap();
        assert_eq!(snapshot.unread, 0);
        let processes = snapshot.processes.into_iter().flat_map(|definition| match definition {
            Definition::Processes(processes) => processes,
            other => panic!("{other:?}"),
        });
        let read = processes.filter(|process| process.states_read.0 > 0);
        seen = read
            .flat_map(|process| {
                assert!(process.noted == process.states_read && process.noted > before);
                process.threads
            })
            .find(|thread| thread.name == "one-who-sleeps");
    }
    assert_eq!(seen.and_then(|thread| thread.asleep).map(|sleep| sleep.state), Some('S'));
    drop(tell);
    let _ = sleeper.join();
}
