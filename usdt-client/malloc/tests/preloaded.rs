//! Real programs with the library before them: what they take and give back is in their rings.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use syscollect_usdt_client::testing::Drain;
use syscollect_zone_protocol::arena::ARENA_NAME;
use syscollect_zone_protocol::{Event, Item};

/// The library, without what recorders that run on this machine would find it by.
fn library(folder: &Path) -> PathBuf {
    let built = std::env::current_exe().unwrap();
    let built = built.with_file_name("libsyscollect_malloc.so");
    let library = folder.join("libsyscollect_malloc.so");
    std::fs::copy(&built, &library).unwrap_or_else(|_| panic!("{} is missing", built.display()));
    let mut objcopy = Command::new("objcopy");
    let _ = objcopy.args(["--remove-section", ".note.stapsdt"]).arg(&library).output();
    library
}

/// Where the semaphore lies in the library; nothing without `readelf`.
fn semaphore(library: &Path) -> Option<u64> {
    let output = Command::new("readelf").arg("-SW").arg(library).output().ok()?;
    let sections = String::from_utf8(output.stdout).unwrap();
    let line = sections.lines().find(|line| line.contains(" .probes "))?;
    let address = line.split_whitespace().skip_while(|word| *word != ".probes").nth(2)?;
    u64::from_str_radix(address, 16).ok()
}

/// A block that a program has taken, or given back.
#[derive(Clone, Copy, Debug)]
enum BlockEvent {
    Taken { address: u64, bytes: u64 },
    GivenBack { address: u64 },
}

/// Runs a program that waits for a line, works, and prints one; what it did in between, by time.
fn blocks(mut command: Command, folder: &Path) -> Option<Vec<BlockEvent>> {
    let library = library(folder);
    let semaphore = semaphore(&library)?;
    command.env("LD_PRELOAD", &library).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    raise(&child, &library, semaphore);
    input.write_all(b"\n").unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "done\n");
    let mut drain = arena_of(&child);
    let mut events = Vec::new();
    for ring in 0..drain.rings() {
        for words in drain.take(ring) {
            let Some(Item::Stamped { ticks, event }) = Item::decode(&words) else { continue };
            match event {
                Event::Alloc { address, bytes, .. } => {
                    events.push((ticks, BlockEvent::Taken { address, bytes }));
                }
                Event::Free { address, .. } => {
                    events.push((ticks, BlockEvent::GivenBack { address }));
                }
                _ => {}
            }
        }
    }
    assert_eq!(drain.lost(), 0, "no ring was full");
    drop(input);
    assert!(child.wait().unwrap().success());
    events.sort_by_key(|(ticks, _)| *ticks);
    Some(events.into_iter().map(|(_, event)| event).collect())
}

/// Behaves as if a recorder had attached, once the program has loaded the library.
fn raise(child: &Child, library: &Path, semaphore: u64) {
    let name = library.file_name().unwrap().to_str().unwrap();
    let base = loop {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
        if let Some(line) = maps.lines().find(|line| line.ends_with(name)) {
            break u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    // Past the linker, which relocates what is mapped.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let path = format!("/proc/{}/mem", child.id());
    let memory = std::fs::File::options().write(true).open(path).unwrap();
    memory.write_all_at(&1_u16.to_le_bytes(), base + semaphore).unwrap();
}

/// The program's arena, as a collector finds it.
fn arena_of(child: &Child) -> Drain {
    let name = format!("/memfd:{ARENA_NAME} (deleted)");
    let mut descriptors = std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
    let arena = descriptors.find_map(|entry| {
        let path = entry.unwrap().path();
        let link = std::fs::read_link(&path).ok()?;
        (link.as_os_str() == name.as_str()).then_some(path)
    });
    let arena = arena.expect("the program has an arena");
    let file = std::fs::File::options().read(true).write(true).open(arena).unwrap();
    Drain::of(file.as_raw_fd()).unwrap()
}

/// How many blocks of each size were taken. None is taken twice without being given back, and all
/// of these sizes are given back.
fn counted(events: &[BlockEvent], sizes: &[u64]) -> HashMap<u64, usize> {
    let (mut counts, mut taken) = (HashMap::new(), HashMap::new());
    for event in events {
        match *event {
            BlockEvent::Taken { address, bytes } => {
                let before = taken.insert(address, bytes);
                assert_eq!(before, None, "{address:#x} was given twice");
                *counts.entry(bytes).or_default() += 1;
            }
            BlockEvent::GivenBack { address } => {
                taken.remove(&address);
            }
        }
    }
    let left: HashSet<u64> = taken.into_values().collect();
    assert!(sizes.iter().all(|size| !left.contains(size)), "{left:?} were not given back");
    counts
}

#[test]
fn a_program_with_threads_and_a_child_tells_each_block() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("blocks");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/blocks.cpp");
    let mut compiler = Command::new(std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned()));
    // Without -fno-builtin a compiler leaves out blocks that nobody looks at.
    compiler.args(["-O1", "-fno-builtin", "-std=c++17"]).arg(source).arg("-o").arg(&program);
    let Ok(output) = compiler.arg("-lpthread").output() else {
        return println!("skipped: there is no compiler");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let Some(events) = blocks(Command::new(program), folder.path()) else { return };
    let sizes = [11111, 22222, 3333, 4352, 5555, 6666, 7777];
    let counts = counted(&events, &sizes);
    for size in sizes {
        assert_eq!(counts.get(&size), Some(&1500), "blocks of {size} bytes");
    }
    // Each is there again, as large as it is, after it was refused more.
    assert_eq!(counts.get(&8888), Some(&6), "blocks that could not grow");
}

#[test]
fn python_tells_each_block() {
    let folder = tempfile::tempdir().unwrap();
    let script = "import sys\nsys.stdin.readline()\n\
        blocks = [bytearray(54320) for _ in range(100)]\ndel blocks\n\
        print('done', flush=True)\nsys.stdin.read()\n";
    let python = "/usr/bin/python3";
    if !Path::new(python).exists() {
        return println!("skipped: {python} is not there");
    }
    let mut command = Command::new(python);
    command.args(["-c", script]);
    let Some(events) = blocks(command, folder.path()) else { return };
    // With its terminating zero.
    assert_eq!(counted(&events, &[54321]).get(&54321), Some(&100));
}
