use super::*;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

const OWN_PID: u32 = 42;
const LIMIT: Duration = Duration::from_millis(400);

/// What a machine has in its `/tmp`.
struct Tmp(tempfile::TempDir);

impl Tmp {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn socket(&self) -> PathBuf {
        self.0.path().join(".java_pid42")
    }

    fn request(&self) -> PathBuf {
        self.0.path().join(".attach_pid42")
    }

    /// This process, as a machine.
    fn machine(&self) -> Machine {
        // SAFETY: no memory is involved.
        let uid = unsafe { libc::geteuid() };
        let (tmp, pid) = (folder(self.0.path()), std::process::id());
        Machine { tmp, folder: None, own_pid: OWN_PID, pid, uid }
    }
}

fn folder(path: &Path) -> File {
    File::open(path).unwrap()
}

/// Answers the next who asks in its own way; what was asked.
fn answer_once(
    listener: UnixListener,
    answer: impl FnOnce(UnixStream) + Send + 'static,
) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = vec![0; COMMAND.len()];
        stream.read_exact(&mut asked).unwrap();
        answer(stream);
        asked
    })
}

/// What comes of a machine that listens already and answers so.
fn asked(answer: impl FnOnce(UnixStream) + Send + 'static) -> Answer {
    let tmp = Tmp::new();
    let machine = answer_once(UnixListener::bind(tmp.socket()).unwrap(), answer);
    let outcome = tmp.machine().ask(|| panic!("it listens, and is sent no signal"), LIMIT);
    assert_eq!(machine.join().unwrap(), b"1\0jcmd\0Compiler.perfmap\0\0\0");
    assert!(!tmp.request().exists());
    outcome
}

fn answer_of(text: &'static [u8]) -> Answer {
    asked(move |mut stream| stream.write_all(text).unwrap())
}

#[test]
fn a_machine_is_asked_for_its_socket_first_and_nothing_is_left_behind() {
    let tmp = Tmp::new();
    let (socket, request) = (tmp.socket(), tmp.request());
    let mut machine = None;
    let answer = tmp.machine().ask(
        || {
            assert!(request.exists(), "by that file it knows what the signal means");
            let listener = UnixListener::bind(&socket).unwrap();
            machine = Some(answer_once(listener, |mut stream| stream.write_all(b"0\n").unwrap()));
            Ok(())
        },
        LIMIT,
    );
    assert_eq!(answer, Answer::Written);
    machine.unwrap().join().unwrap();
    assert!(!request.exists());
}

#[test]
fn answers_are_told_apart() {
    assert_eq!(answer_of(b"0\nwritten to a file\n"), Answer::Written);
    let unknown = b"-1\njava.lang.IllegalArgumentException: Unknown diagnostic command\n";
    assert_eq!(answer_of(unknown), Answer::UnknownCommand);
    assert_eq!(answer_of(b"1\nNo space left\n"), Answer::Failed);
    assert_eq!(answer_of(b"101"), Answer::Failed);
    for nonsense in [&b""[..], b"\n0\n", b"0x0\n", b"\xff\xfe"] {
        assert_eq!(answer_of(nonsense), Answer::Senseless, "{nonsense:?}");
    }
}

#[test]
fn an_answer_without_end_is_cut() {
    let begin = Instant::now();
    let outcome = asked(|mut stream| while stream.write_all(&[b'0'; 4096]).is_ok() {});
    assert_eq!(outcome, Answer::Senseless);
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn who_answers_byte_by_byte_has_no_more_time_than_others() {
    let begin = Instant::now();
    let outcome = asked(|mut stream| {
        while stream.write_all(b"0").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(outcome, Answer::Silent);
    assert!((LIMIT..LIMIT * 20).contains(&begin.elapsed()), "{:?}", begin.elapsed());
}

#[test]
fn who_never_answers_takes_the_limit() {
    let tmp = Tmp::new();
    // Nobody opens a socket.
    assert_eq!(tmp.machine().ask(|| Ok(()), LIMIT), Answer::Silent);
    assert!(!tmp.request().exists());
    // Nobody accepts, and the places of those who wait are taken.
    let _listener = UnixListener::bind(tmp.socket()).unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = connect(&tmp.socket()) {
        waiting.push(stream);
    }
    assert_eq!(tmp.machine().ask(|| Ok(()), LIMIT), Answer::Silent);
    // One of them goes, and nobody reads what is asked then.
    drop(waiting);
    assert_eq!(tmp.machine().ask(|| Ok(()), LIMIT), Answer::Silent);
}

#[test]
fn the_socket_of_an_ended_machine_is_replaced() {
    let tmp = Tmp::new();
    drop(UnixListener::bind(tmp.socket()).unwrap());
    let (socket, mut machine) = (tmp.socket(), None);
    let answer = tmp.machine().ask(
        || {
            std::fs::remove_file(&socket).unwrap();
            let listener = UnixListener::bind(&socket).unwrap();
            machine = Some(answer_once(listener, |mut stream| stream.write_all(b"0\n").unwrap()));
            Ok(())
        },
        LIMIT,
    );
    assert_eq!(answer, Answer::Written);
    machine.unwrap().join().unwrap();
}

#[test]
fn what_is_no_socket_of_the_machine_is_not_connected_to() {
    let tmp = Tmp::new();
    std::fs::write(tmp.socket(), "").unwrap();
    assert_eq!(tmp.machine().ask(no_signal, LIMIT), Answer::Occupied, "a file");
    let other = Tmp::new();
    let listener = UnixListener::bind(other.socket()).unwrap();
    listener.set_nonblocking(true).unwrap();
    std::fs::remove_file(tmp.socket()).unwrap();
    std::os::unix::fs::symlink(other.socket(), tmp.socket()).unwrap();
    assert_eq!(tmp.machine().ask(no_signal, LIMIT), Answer::Occupied, "a link");
    let somebody = Machine { uid: other.machine().uid + 1, ..other.machine() };
    assert_eq!(somebody.ask(no_signal, LIMIT), Answer::Occupied, "another user's");
    assert!(listener.accept().is_err(), "nobody connected");
    let process = Machine { pid: 1, ..other.machine() };
    assert_eq!(process.ask(no_signal, LIMIT), Answer::Occupied, "another process's");
}

fn no_signal() -> Result<(), std::io::Error> {
    panic!("nothing is asked of it")
}

#[test]
fn a_file_that_asks_already_does_as_well_and_stays() {
    let tmp = Tmp::new();
    std::fs::write(tmp.request(), "").unwrap();
    let listener = std::cell::Cell::new(None);
    let answer = tmp.machine().ask(
        || {
            listener.set(Some(UnixListener::bind(tmp.socket()).unwrap()));
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        },
        LIMIT,
    );
    assert_eq!(answer, Answer::Gone);
    assert!(tmp.request().exists(), "it is somebody else's");
}

#[test]
fn where_another_user_took_the_name_the_working_folder_has_the_file() {
    let (tmp, work) = (Tmp::new(), Tmp::new());
    std::os::unix::fs::symlink("/nowhere", tmp.request()).unwrap();
    // To a machine of another user's it is another user's, and so is the socket.
    let uid = tmp.machine().uid + 1;
    let machine = Machine { uid, folder: Some(folder(work.0.path())), ..tmp.machine() };
    let answer = machine.ask(
        || {
            assert!(work.request().exists());
            Ok(())
        },
        LIMIT,
    );
    assert_eq!(answer, Answer::Silent);
    assert!(!work.request().exists());
    let machine = Machine { uid, ..tmp.machine() };
    assert_eq!(machine.ask(|| panic!("nothing asks it"), LIMIT), Answer::Occupied);
}
