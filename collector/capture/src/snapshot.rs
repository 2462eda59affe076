//! The processes and mappings that are there when the recording begins.

#![expect(clippy::disallowed_methods, reason = "what the kernel has below /proc/PID")]

use std::fs;
use std::path::Path;

use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::{BuildId, Mapping, Ticks};
use syscollect_store::{KnownProcess, KnownSleep, KnownThread};
use syscollect_untrusted_files::{Owner, read_text, read_text_patiently, status_at};

use crate::hexadecimal::hexadecimal;

/// Arguments are cut after so many bytes; they are there to recognise a process by.
const LONGEST_COMMAND_LINE: usize = 4096;
/// Longer lists of mappings are cut: the kernel allows a process 65,530.
const MAPS_MAX: usize = 16 << 20;

/// Every process below `root`/proc with its threads, without command lines: only what can be read
/// whatever processes do with their memory. One that ends while it is read is left out, or
/// described as far as it was read.
pub(crate) fn processes(root: &Path) -> Vec<KnownProcess> {
    let mut found: Vec<_> = pids(root).into_iter().filter_map(|pid| process(root, pid)).collect();
    found.sort_by_key(|process| process.pid);
    found
}

/// These processes and all that they have started and that is still there, by what each says is its
/// parent.
pub(crate) fn with_descendants(root: &Path, pids: &[u32]) -> Vec<u32> {
    // Of a recording of the whole machine nobody waits for a list of its processes.
    if pids.is_empty() {
        return Vec::new();
    }
    let mut children: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    let proc = root.join("proc");
    for pid in self::pids(root) {
        if let Some(stat) = Stat::read(&proc.join(pid.to_string())) {
            children.entry(stat.parent_pid).or_default().push(pid);
        }
    }
    let (mut all, mut known) = (pids.to_vec(), FxHashSet::from_iter(pids.iter().copied()));
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        let mut new = children.remove(pid).unwrap_or_default();
        new.sort_unstable();
        all.extend(new.into_iter().filter(|child| known.insert(*child)));
        next += 1;
    }
    all
}

/// The numbers of all processes.
pub(crate) fn pids(root: &Path) -> Vec<u32> {
    numbered_folders(&root.join("proc")).collect()
}

fn numbered_folders(path: &Path) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// One process without its command line; `None` if it has ended.
pub(crate) fn process(root: &Path, pid: u32) -> Option<KnownProcess> {
    let folder = root.join(format!("proc/{pid}"));
    let stat = Stat::read(&folder)?;
    let tasks = folder.join("task");
    let threads = numbered_folders(&tasks).filter_map(|tid| {
        let Stat { name, .. } = Stat::read(&tasks.join(tid.to_string()))?;
        Some(KnownThread { tid, name, asleep: None })
    });
    Some(KnownProcess {
        pid,
        parent_pid: stat.parent_pid,
        kernel: stat.is_kernel(),
        user: user_of(root, pid),
        threads: threads.collect(),
        ..KnownProcess::default()
    })
}

/// The user who started a process: who runs it, whatever rights its program has. `None` if it has
/// ended.
pub(crate) fn user_of(root: &Path, pid: u32) -> Option<u32> {
    real_user(&status_at(&root.join(format!("proc/{pid}/status")))?)
}

pub(crate) fn real_user(status: &str) -> Option<u32> {
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    ids.split_ascii_whitespace().next()?.parse().ok()
}

/// Reads how each thread of the process sleeps, if it does.
pub(crate) fn read_sleeps(root: &Path, process: &mut KnownProcess) {
    let tasks = root.join(format!("proc/{}/task", process.pid));
    for thread in &mut process.threads {
        thread.asleep = sleep(&tasks.join(thread.tid.to_string()));
    }
}

/// How the thread of this folder sleeps; `None` if it does not, or has ended.
fn sleep(thread: &Path) -> Option<KnownSleep> {
    let Stat { state, .. } = Stat::read(thread)?;
    ASLEEP.contains(&state).then(|| {
        let blocked_in = fs::read(thread.join("wchan")).map(|text| wchan(&text));
        KnownSleep { state, blocked_in: blocked_in.unwrap_or_default(), ..KnownSleep::default() }
    })
}

/// The letters of threads that sleep: neither runnable nor dead.
const ASLEEP: [char; 6] = ['S', 'D', 'I', 'T', 't', 'P'];

/// The function of the kernel that a thread sleeps in; empty where /proc/PID/wchan does not tell.
fn wchan(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let name = text.trim();
    if name == "0" { String::new() } else { name.to_owned() }
}

/// Reads `bytes` as each of the texts of a process; how many mappings, words and names were
/// understood.
pub(crate) fn read(bytes: &[u8]) -> usize {
    let mappings =
        bytes.split(|byte| *byte == b'\n').filter_map(|line| parse_mapping(0, line)).count();
    mappings + words(bytes).len() + usize::from(Stat::parse(bytes).is_some())
}

/// The arguments of a process. Its user decides how long that takes.
pub(crate) fn command_line(root: &Path, pid: u32) -> Vec<String> {
    let process = root.join(format!("proc/{pid}"));
    // What was read before an error may end anywhere.
    read_text_patiently(&process, "cmdline", LONGEST_COMMAND_LINE)
        .map(|bytes| words(&bytes))
        .unwrap_or_default()
}

/// Arguments as they lie in memory, each with a zero byte at its end.
fn words(bytes: &[u8]) -> Vec<String> {
    let words =
        bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    let mut words: Vec<_> = words.collect();
    if words.last().is_some_and(String::is_empty) {
        words.pop();
    }
    words
}

/// What is read of /proc/PID/stat, or of a thread's.
#[derive(Debug, PartialEq)]
struct Stat {
    name: String,
    /// A letter, as proc_pid_stat(5) has it.
    state: char,
    parent_pid: u32,
    flags: u32,
}

impl Stat {
    fn read(folder: &Path) -> Option<Self> {
        Self::parse(&fs::read(folder.join("stat")).ok()?)
    }

    /// The name stands in brackets and may itself hold brackets and spaces.
    fn parse(stat: &[u8]) -> Option<Self> {
        let open = stat.iter().position(|byte| *byte == b'(')?;
        let close = stat.iter().rposition(|byte| *byte == b')')?;
        let name = String::from_utf8_lossy(stat.get(open + 1..close)?).into_owned();
        let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        Some(Self {
            name,
            state: fields.next()?.chars().next()?,
            parent_pid: fields.next()?.parse().ok()?,
            flags: fields.nth(4)?.parse().ok()?,
        })
    }

    fn is_kernel(&self) -> bool {
        const PF_KTHREAD: u32 = 0x0020_0000;
        self.flags & PF_KTHREAD != 0
    }
}

/// The executable mappings of a process.
pub(crate) fn mappings(root: &Path, pid: u32) -> Vec<Mapping> {
    let process = root.join(format!("proc/{pid}"));
    let owner = Owner::of_process(pid);
    let text = read_text(&process, "maps", owner.as_ref(), MAPS_MAX).unwrap_or_default();
    text.split(|byte| *byte == b'\n').filter_map(|line| parse_mapping(pid, line)).collect()
}

fn parse_mapping(pid: u32, line: &[u8]) -> Option<Mapping> {
    let line = String::from_utf8_lossy(line);
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let executable = fields.next()?.as_bytes().get(2) == Some(&b'x');
    let file_offset = hexadecimal(fields.next()?)?;
    let path = fields.nth(2).unwrap_or("").trim_start();
    executable.then_some(())?;
    Some(Mapping {
        pid,
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        file_offset,
        path: if path.is_empty() {
            "//anon".to_owned()
        } else {
            // `seq_file` writes line feeds so, and nothing else.
            path.trim_end_matches(" (deleted)").replace("\\012", "\n")
        },
        build_id: BuildId::default(),
        since: Ticks(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_brackets_and_spaces() {
        let stat = Stat::parse(b"42 (tmux: ) (x) S 7 42 42 0 -1 4194560 1 2");
        let name = "tmux: ) (x".to_owned();
        assert_eq!(stat, Some(Stat { name, state: 'S', parent_pid: 7, flags: 4_194_560 }));
        assert_eq!(Stat::parse(b"42 (cut"), None);
    }

    #[test]
    fn executable_mappings_are_read_with_their_paths() {
        let found =
            map("7f00-8f00 r-xp 00001000 fe:00 123                       /opt/a b (deleted)")
                .unwrap();
        assert_eq!(
            (found.start, found.end, found.file_offset, found.path.as_str()),
            (0x7f00, 0x8f00, 0x1000, "/opt/a b")
        );
        assert_eq!(map("7f00-8f00 rw-p 00001000 fe:00 123 /opt/a"), None);
        assert_eq!(map("7f00-8f00 rwxp 00000000 00:00 0").unwrap().path, "//anon");
        assert_eq!(map("garbage"), None);
    }

    fn map(line: &str) -> Option<Mapping> {
        parse_mapping(1, line.as_bytes())
    }

    #[test]
    fn a_process_is_recorded_with_the_children_that_it_has_already() {
        let root = tempfile::tempdir().unwrap();
        let parents = [(1, 0), (20, 1), (21, 20), (22, 21), (30, 1), (31, 30)];
        for (pid, parent) in parents {
            let folder = root.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&folder).unwrap();
            let stat = format!("{pid} (a) S {parent} 1 1 0 -1 4194560 1 2");
            fs::write(folder.join("stat"), stat).unwrap();
        }
        let cases: [(&[u32], &[u32]); 4] =
            [(&[20], &[20, 21, 22]), (&[21, 31, 22], &[21, 22, 31]), (&[99], &[99]), (&[], &[])];
        for (asked, expected) in cases {
            let mut all = with_descendants(root.path(), asked);
            all.sort_unstable();
            assert_eq!(all, expected);
        }
    }

    #[test]
    fn a_line_feed_in_a_path_is_what_the_kernel_writes_for_it() {
        let line = br"7f00-8f00 r-xp 00001000 fe:00 123       /opt/a\012b\x";
        assert_eq!(parse_mapping(1, line).unwrap().path, "/opt/a\nb\\x");
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_has_what_its_others_show() {
        let root = tempfile::tempdir().unwrap();
        let process = root.path().join("proc/70");
        let files = [
            ("stat", "70 (a) Z 1"),
            ("maps", ""),
            ("cmdline", ""),
            ("task/70/stat", "70 (a) Z 1"),
            ("task/72/stat", "72 (a) S 1"),
            ("task/72/maps", "7f00-8f00 r-xp 00000000 fe:00 123 /opt/a\n"),
            ("task/72/cmdline", "/opt/a\0now\0"),
        ];
        for (name, text) in files {
            fs::create_dir_all(process.join(name).parent().unwrap()).unwrap();
            fs::write(process.join(name), text).unwrap();
        }
        let mapped = mappings(root.path(), 70);
        assert_eq!(
            mapped.iter().map(|it| (it.pid, &*it.path)).collect::<Vec<_>>(),
            [(70, "/opt/a")]
        );
        assert_eq!(command_line(root.path(), 70), ["/opt/a", "now"]);
    }

    #[test]
    fn a_thread_that_waits_is_asleep_and_one_that_runs_is_not() {
        let (tell, reported) = std::sync::mpsc::channel::<()>();
        let waits = std::thread::spawn(move || reported.recv());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !another_thread_sleeps() {
            assert!(std::time::Instant::now() < deadline, "the thread waits, and is not asleep");
        }
        drop(tell);
        let _ = waits.join().unwrap();
        // SAFETY: it takes nothing, and cannot fail.
        let tid = unsafe { libc::gettid() };
        assert_eq!(sleep(Path::new(&format!("/proc/self/task/{tid}"))), None, "this one runs");
        assert_eq!([wchan(b"0"), wchan(b"futex_do_wait")], ["", "futex_do_wait"]);
    }

    #[test]
    fn this_test_is_a_process_with_a_main_thread() {
        let me = std::process::id();
        let all = processes(Path::new("/"));
        let found = all.iter().find(|process| process.pid == me).unwrap();
        assert!(found.threads.iter().any(|thread| thread.tid == me));
        assert!(!command_line(Path::new("/"), me).is_empty());
        assert!(mappings(Path::new("/"), me).iter().any(|mapping| mapping.path == "[vdso]"));
    }

    fn another_thread_sleeps() -> bool {
        let root = Path::new("/");
        let mut me = process(root, std::process::id()).unwrap();
        read_sleeps(root, &mut me);
        me.threads.iter().any(|thread| thread.asleep.as_ref().is_some_and(|it| it.state == 'S'))
    }
}
