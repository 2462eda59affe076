//! Keys of a terminal that gives them one by one.
//!
//! crossterm's own reader spins for ever where a terminal goes away, whatever signal comes; this one
//! waits in one place, and tells that it went away.

use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::io;
use std::time::Duration;

const ESCAPE: u8 = 0x1b;
/// A sequence that is longer is none that is known.
const LONGEST: usize = 16;

/// What came of waiting.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// These keys, or none.
    Keys(Vec<KeyEvent>),
    /// The terminal is gone.
    Gone,
}

/// Reads keys from standard input.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// The beginning of a sequence whose rest has not come.
    begun: Vec<u8>,
}

impl Keys {
    /// Waits so long for keys.
    ///
    /// # Errors
    ///
    /// Standard input cannot be waited for.
    pub(super) fn wait(&mut self, longest: Duration) -> io::Result<Typed> {
        let mut input = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
        let milliseconds = longest.as_millis().min(1000) as i32;
        // SAFETY: the structure outlives the call.
        match unsafe { libc::poll(&raw mut input, 1, milliseconds) } {
            // What began a sequence was a key of its own.
            0 => return Ok(Typed::Keys(self.rest())),
            -1 => {
                let error = io::Error::last_os_error();
                return match error.kind() {
                    // A signal, which is looked at elsewhere.
                    io::ErrorKind::Interrupted => Ok(Typed::Keys(Vec::new())),
                    _ => Err(error),
                };
            }
            _ => {}
        }
        let mut bytes = [0; 256];
        // SAFETY: the buffer is as long as is said, and outlives the call.
        let read =
            unsafe { libc::read(libc::STDIN_FILENO, bytes.as_mut_ptr().cast(), bytes.len()) };
        match usize::try_from(read) {
            Ok(0) => Ok(Typed::Gone),
            Ok(length) => Ok(Typed::Keys(self.take(&bytes[..length]))),
            Err(_) => match io::Error::last_os_error().kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => {
                    Ok(Typed::Keys(Vec::new()))
                }
                _ => Ok(Typed::Gone),
            },
        }
    }

    /// The keys that these bytes are, behind those that came before.
    fn take(&mut self, bytes: &[u8]) -> Vec<KeyEvent> {
        self.begun.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let mut at = 0;
        while at < self.begun.len() {
            match next(&self.begun[at..]) {
                Next::Key(key, length) => {
                    keys.push(key);
                    at += length;
                }
                Next::Nothing(length) => at += length,
                Next::Incomplete if self.begun.len() - at > LONGEST => at += 1,
                Next::Incomplete => break,
            }
        }
        self.begun.drain(..at);
        keys
    }

    /// Nothing follows: an escape that stands alone is the key.
    fn rest(&mut self) -> Vec<KeyEvent> {
        match std::mem::take(&mut self.begun).first() {
            Some(&ESCAPE) => vec![plain(KeyCode::Esc)],
            _ => Vec::new(),
        }
    }
}

enum Next {
    /// A key, and how many bytes it is.
    Key(KeyEvent, usize),
    /// So many bytes that mean nothing here.
    Nothing(usize),
    /// More has to come before it is clear.
    Incomplete,
}

fn plain(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

/// What stands at the beginning of some bytes.
fn next(bytes: &[u8]) -> Next {
    let key = |code, length| Next::Key(plain(code), length);
    match bytes {
        [] | [ESCAPE] => Next::Incomplete,
        [ESCAPE, b'[', rest @ ..] => sequence(rest),
        [ESCAPE, b'O'] => Next::Incomplete,
        [ESCAPE, b'O', last, ..] => match named(*last) {
            Some(code) => key(code, 3),
            None => Next::Nothing(3),
        },
        [ESCAPE, ..] => key(KeyCode::Esc, 1),
        [b'\r' | b'\n', ..] => key(KeyCode::Enter, 1),
        [0x7f | 0x08, ..] => key(KeyCode::Backspace, 1),
        [b'\t', ..] => key(KeyCode::Tab, 1),
        [control @ 1..=26, ..] => {
            let letter = char::from(control - 1 + b'a');
            Next::Key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL), 1)
        }
        [0..0x20, ..] => Next::Nothing(1),
        [first, ..] => {
            let length = match first {
                0..0x80 => 1,
                0xc0..0xe0 => 2,
                0xe0..0xf0 => 3,
                0xf0.. => 4,
                _ => return Next::Nothing(1),
            };
            let Some(bytes) = bytes.get(..length) else { return Next::Incomplete };
            let char = std::str::from_utf8(bytes).ok().and_then(|text| text.chars().next());
            char.map_or(Next::Nothing(1), |char| key(KeyCode::Char(char), length))
        }
    }
}

/// What follows `ESC [`: parameters, and a last byte that says what it is.
fn sequence(rest: &[u8]) -> Next {
    let Some(end) = rest.iter().position(|byte| (0x40..0x7f).contains(byte)) else {
        return Next::Incomplete;
    };
    let code = match (&rest[..end], rest[end]) {
        (b"1" | b"7", b'~') => Some(KeyCode::Home),
        (b"4" | b"8", b'~') => Some(KeyCode::End),
        (b"5", b'~') => Some(KeyCode::PageUp),
        (b"6", b'~') => Some(KeyCode::PageDown),
        (b"", last) => named(last),
        _ => None,
    };
    let length = end + 3;
    code.map_or(Next::Nothing(length), |code| Next::Key(plain(code), length))
}

fn named(last: u8) -> Option<KeyCode> {
    Some(match last {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'H' => KeyCode::Home,
        b'F' => KeyCode::End,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(keys: &[KeyEvent]) -> Vec<KeyCode> {
        keys.iter().map(|key| key.code).collect()
    }

    #[test]
    fn what_terminals_send_is_keys() {
        use KeyCode::{Backspace, Char, Down, End, Enter, Home, Left, PageDown, PageUp, Right, Up};
        for (sent, expected) in [
            ("qé漢🦀", &[Char('q'), Char('é'), Char('漢'), Char('🦀')][..]),
            ("\u{1b}[A\u{1b}[B\u{1b}OC\u{1b}OD", &[Up, Down, Right, Left]),
            ("\u{1b}[5~\u{1b}[6~\u{1b}[H\u{1b}[4~\u{1b}OF", &[PageUp, PageDown, Home, End, End]),
            ("\r\n\u{7f}", &[Enter, Enter, Backspace]),
            ("\u{1b}[1;5Ax\u{1b}[200~y\u{1b}[<0;3;4Mz", &[Char('x'), Char('y'), Char('z')]),
        ] {
            assert_eq!(codes(&Keys::default().take(sent.as_bytes())), expected, "{sent:?}");
            // The same byte by byte.
            let mut keys = Keys::default();
            let each: Vec<KeyEvent> = sent.bytes().flat_map(|byte| keys.take(&[byte])).collect();
            assert_eq!(codes(&each), expected, "{sent:?}");
        }
        let interrupt = Keys::default().take(&[3]);
        assert_eq!(interrupt, [KeyEvent::new(Char('c'), KeyModifiers::CONTROL)]);
    }

    #[test]
    fn an_escape_that_stands_alone_is_a_key_once_nothing_follows() {
        let mut keys = Keys::default();
        assert_eq!(codes(&keys.take(b"\x1b")), []);
        assert_eq!(codes(&keys.rest()), [KeyCode::Esc]);
        assert_eq!(codes(&keys.rest()), []);
        assert_eq!(codes(&keys.take(b"\x1bq")), [KeyCode::Esc, KeyCode::Char('q')]);
    }

    #[test]
    fn bytes_of_no_meaning_are_passed_over_and_take_no_room() {
        let mut keys = Keys::default();
        let endless: Vec<u8> = b"\x1b[".iter().copied().chain([b'1'; 10_000]).collect();
        keys.take(&endless);
        assert!(keys.begun.len() <= LONGEST);
        keys.rest();
        assert_eq!(
            codes(&keys.take(b"\xff\x80\x00\xc3(a")),
            [KeyCode::Char('('), KeyCode::Char('a')]
        );
    }
}
