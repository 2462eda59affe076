//! Lists of code that programs write while they run.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use syscollect_model::{ProgramMemory, SymbolTable, Ticks};
use syscollect_symbolize::{
    ModuleRequest, PerfMapOutcome, PerfMapOwner, PinnedFiles, Symbolizer, refused_lists,
};
use syscollect_untrusted_files::Owner;

const TAKEN: Ticks = Ticks(100);

/// This process as one that makes code, under a number that no process has.
struct Program {
    process: PerfMapOwner,
    map: PathBuf,
}

impl Program {
    fn new(number: u32) -> Self {
        let pid = std::process::id();
        let own_pid = 3_000_000_000 + 16 * pid + number;
        let user = Owner::of_process(pid).unwrap();
        let process = PerfMapOwner { pid, own_pid, began: (1, 0), user, shares_files: true };
        let map = PathBuf::from(format!("/tmp/perf-{own_pid}.map"));
        let _ = fs::remove_file(&map);
        Self { process, map }
    }

    fn pin(&self) -> (PinnedFiles, PerfMapOutcome) {
        let mut pinned = PinnedFiles::new();
        let outcome = pinned.pin_perf_map(&self.process, TAKEN);
        (pinned, outcome)
    }

    fn memory(&self) -> ProgramMemory {
        ProgramMemory { pid: self.process.pid, since: Ticks(50), until: None }
    }

    /// What is said of why it has no map.
    fn refusal(&self) -> String {
        let (pinned, outcome) = self.pin();
        assert_eq!(outcome, PerfMapOutcome::Missing);
        let table = name(pinned, self.memory(), &[0x1000]);
        assert!(table.symbols.is_empty());
        let note = table.note.clone();
        let refused = refused_lists(&[table.clone(), table]);
        let is_missing = note.contains("had no perf map");
        assert_eq!(refused.len(), usize::from(!is_missing), "{refused:?}");
        assert!(refused.iter().all(|line| line.contains(&note)), "{refused:?}");
        note
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.map);
    }
}

fn name(pinned: PinnedFiles, memory: ProgramMemory, addresses: &[u64]) -> SymbolTable {
    let request = ModuleRequest {
        memory: Some(memory),
        offsets: addresses.to_vec(),
        ..ModuleRequest::default()
    };
    Symbolizer::new(pinned).name_modules(&[request]).pop().unwrap()
}

fn functions(table: &SymbolTable) -> Vec<&str> {
    table.symbols.iter().map(|symbol| symbol.frames[0].function.as_str()).collect()
}

#[test]
fn a_map_that_grows_while_it_is_held_and_is_deleted_is_read_whole() {
    let program = Program::new(0);
    let mut map = File::create(&program.map).unwrap();
    map.write_all(b"1000 100 early\n").unwrap();
    let (pinned, outcome) = program.pin();
    assert_eq!(outcome, PerfMapOutcome::Held);
    map.write_all(b"2000 100 late\n3000 100 unfin").unwrap();
    fs::remove_file(&program.map).unwrap();
    let table = name(pinned, program.memory(), &[0x2050, 0x1050, 0x3050, 0x4000]);
    assert_eq!(functions(&table), ["early", "late"]);
    assert_eq!((table.path.as_str(), table.note.as_str()), (SymbolTable::GENERATED, ""));
    let memory = table.memory.unwrap();
    assert_eq!((memory.pid, memory.at), (program.process.pid, TAKEN));
}

#[test]
fn a_map_names_one_program_of_a_process_and_no_other() {
    let program = Program::new(1);
    fs::write(&program.map, "1000 100 code\n").unwrap();
    let before = ProgramMemory { until: Some(TAKEN), ..program.memory() };
    let after = ProgramMemory { since: Ticks(101), ..program.memory() };
    let other = ProgramMemory { pid: 1, ..program.memory() };
    for memory in [before, after, other] {
        let table = name(program.pin().0, memory, &[0x1000]);
        assert_eq!(functions(&table), Vec::<&str>::new(), "{memory:?}");
        assert!(table.note.contains("no perf map"), "{}", table.note);
    }
    let mut pinned = program.pin().0;
    pinned.forget_code_lists(program.process.pid);
    assert!(name(pinned, program.memory(), &[0x1000]).symbols.is_empty());
}

#[test]
fn a_map_of_a_process_that_has_ended_is_found_where_it_shared_files() {
    let mut program = Program::new(2);
    fs::write(&program.map, "1000 100 code\n").unwrap();
    assert_eq!(named(&program), 1);
    program.process.shares_files = false;
    assert_eq!(named(&program), 0);
}

fn named(program: &Program) -> usize {
    let mut pinned = PinnedFiles::new();
    pinned.pin_perf_map_of_ended(&program.process, TAKEN);
    functions(&name(pinned, program.memory(), &[0x1000])).len()
}

#[test]
fn what_is_no_file_of_the_processs_own_is_not_read() {
    let program = Program::new(3);
    assert!(program.refusal().contains("had no perf map"));
    let target = tempfile::NamedTempFile::new().unwrap();
    fs::write(&target, "1000 100 code\n").unwrap();
    symlink(target.path(), &program.map).unwrap();
    assert!(program.refusal().contains("is not read"), "{}", program.refusal());
    fs::remove_file(&program.map).unwrap();
    let path = CString::new(program.map.as_os_str().as_bytes()).unwrap();
    // SAFETY: `path` is a C string that lives through the call.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    assert!(program.refusal().contains("no regular file"), "{}", program.refusal());
    fs::remove_file(&program.map).unwrap();
    fs::create_dir(&program.map).unwrap();
    assert!(program.refusal().contains("no regular file"), "{}", program.refusal());
    fs::remove_dir(&program.map).unwrap();
}

#[test]
fn a_map_of_another_user_or_of_an_older_process_is_not_read() {
    let mut program = Program::new(4);
    fs::write(&program.map, "1000 100 code\n").unwrap();
    let soon = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64 + 60;
    program.process.began = (soon, 0);
    assert!(program.refusal().contains("before the process began"), "{}", program.refusal());
    program.process.began = (1, 0);
    if std::os::unix::fs::chown(&program.map, Some(65_534), None).is_ok() {
        assert!(program.refusal().contains("another user"), "{}", program.refusal());
    }
}
