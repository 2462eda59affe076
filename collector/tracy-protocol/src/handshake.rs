//! How a connection begins: what the viewer says of itself, and what we say of the machine.

use crate::version::Version;
use crate::wire::cut;
use thiserror::Error;

/// What every viewer begins with.
const GREETING: &[u8; 8] = b"TracyPrf";
/// That, and the number of its version.
pub const HELLO: usize = GREETING.len() + 4;
/// The version of announcements.
const ANNOUNCEMENT: u16 = 3;
/// The answer where it speaks our version.
pub(crate) const WELCOME: u8 = 1;
/// The answer where it does not.
pub(crate) const MISMATCH: u8 = 2;
/// The answer where there is another viewer.
pub const NOT_AVAILABLE: u8 = 3;
/// Room for the program's name, its end included.
const NAME: usize = 64;
/// Room for what is said of the machine, its end included.
const HOST: usize = 1024;
/// Its welcome's flag for one that may be joined while it runs.
const ON_DEMAND: u8 = 1;
/// What is freed and allocated may be unknown.
const LENIENT_MEMORY: u8 = 2;

/// Why a connection came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// It is no viewer.
    #[error("it does not speak Tracy's protocol")]
    NotTracy,
    /// It is of another version.
    #[error(
        "the viewer speaks version {theirs} of Tracy's protocol, and this is {ours}: use Tracy \
         {viewers}"
    )]
    Version {
        /// The viewer's.
        theirs: u32,
        /// Ours.
        ours: u32,
        /// The releases that fit.
        viewers: &'static str,
    },
}

impl HandshakeError {
    /// What is answered; whoever is no viewer gets nothing.
    pub const fn answer(self) -> &'static [u8] {
        match self {
            Self::NotTracy => &[],
            Self::Version { .. } => &[MISMATCH],
        }
    }
}

/// Whether who begins so, as far as it has come, is a viewer that would be welcome.
///
/// ```
/// use syscollect_tracy_protocol::{HandshakeError, greet};
///
/// assert_eq!(greet(b"TracyPrf"), Ok(()));
/// assert_eq!(greet(b"GET /"), Err(HandshakeError::NotTracy));
/// assert_eq!(greet(b"TracyPrf\x01\0\0\0").unwrap_err().answer(), [2]);
/// ```
///
/// # Errors
///
/// It is no viewer, or of another version.
pub fn greet(hello: &[u8]) -> Result<(), HandshakeError> {
    read_hello(hello).map(drop)
}

/// What is said of the machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// What the viewer shows as the program.
    pub program: String,
    /// Lines about the machine.
    pub description: String,
    /// `CpuArchitecture`: 2 is x86-64, 4 AArch64.
    pub architecture: u8,
    /// The maker of the CPU as CPUID spells it.
    pub manufacturer: [u8; 12],
    /// The process that is profiled, where there is one.
    pub pid: u64,
    /// Nanoseconds from one sample of a CPU to the next.
    pub sampling_period: i64,
}

/// Reads how a viewer begins; `None` where bytes are missing that would not change the answer.
///
/// # Errors
///
/// It is no viewer, or of another version.
pub(crate) fn read_hello(bytes: &[u8]) -> Result<Option<&'static Version>, HandshakeError> {
    let greeting = &bytes[..bytes.len().min(GREETING.len())];
    if !GREETING.starts_with(greeting) {
        return Err(HandshakeError::NotTracy);
    }
    let Some(number) = bytes.get(GREETING.len()..HELLO) else { return Ok(None) };
    let theirs = number.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
    let newest = Version::newest();
    Version::find(theirs).map(Some).ok_or(HandshakeError::Version {
        theirs,
        ours: newest.number,
        viewers: newest.viewers,
    })
}

/// When a connection began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    /// The viewer's zero, nanoseconds.
    pub(crate) zero: i64,
    /// The present, nanoseconds.
    pub(crate) now: i64,
    /// The wall clock, seconds since 1970.
    pub(crate) wall_clock: u64,
}

/// The welcome with its answer before it and what follows where one joins while it runs.
pub(crate) fn welcome(host: &Host, beginning: Beginning) -> Vec<u8> {
    let mut bytes = vec![WELCOME];
    // Ticks are nanoseconds.
    bytes.extend(1f64.to_le_bytes());
    bytes.extend(beginning.zero.to_le_bytes());
    bytes.extend((beginning.zero + 1).to_le_bytes());
    bytes.extend(1u64.to_le_bytes());
    bytes.extend(beginning.wall_clock.to_le_bytes());
    // When the program was built, which has no meaning for a machine: sources are not asked for.
    bytes.extend(0u64.to_le_bytes());
    bytes.extend(host.pid.to_le_bytes());
    bytes.extend(host.sampling_period.to_le_bytes());
    bytes.extend([ON_DEMAND | LENIENT_MEMORY, host.architecture]);
    bytes.extend(host.manufacturer);
    bytes.extend(0u32.to_le_bytes());
    push_padded(&mut bytes, &host.program, NAME);
    push_padded(&mut bytes, &host.description, HOST);
    // The number of the first frame, and when the viewer joined.
    bytes.extend(0u64.to_le_bytes());
    bytes.extend((beginning.now as u64).to_le_bytes());
    bytes
}

/// What is broadcast so that viewers list the machine: where it listens, since how many seconds,
/// and what it is called.
pub fn announcement(port: u16, active_seconds: i32, program: &str) -> Vec<u8> {
    let mut bytes = ANNOUNCEMENT.to_le_bytes().to_vec();
    bytes.extend(port.to_le_bytes());
    bytes.extend(Version::newest().number.to_le_bytes());
    // No process is the one that is profiled.
    bytes.extend(0u64.to_le_bytes());
    bytes.extend(active_seconds.to_le_bytes());
    push_padded(&mut bytes, program, NAME);
    bytes
}

/// A text in a field of a fixed length, which has at least one zero at its end.
fn push_padded(bytes: &mut Vec<u8>, text: &str, room: usize) {
    let end = bytes.len() + room;
    let text = text.replace('\0', " ");
    bytes.extend(cut(&text, room - 1).as_bytes());
    bytes.resize(end, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(version: u32) -> Vec<u8> {
        [&GREETING[..], &version.to_le_bytes()].concat()
    }

    #[test]
    fn a_hello_may_come_in_pieces_and_what_is_none_is_known_by_its_first_byte() {
        let whole = hello(82);
        for length in 0..whole.len() {
            assert!(matches!(read_hello(&whole[..length]), Ok(None)), "{length}");
        }
        assert_eq!(read_hello(&whole).unwrap().unwrap().number, 82);
        assert_eq!(read_hello(b"GET").unwrap_err(), HandshakeError::NotTracy);
        assert_eq!(read_hello(b"TracyPrG").unwrap_err(), HandshakeError::NotTracy);
    }

    #[test]
    fn another_version_is_told_with_those_that_fit() {
        let error = read_hello(&hello(81)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the viewer speaks version 81 of Tracy's protocol, and this is 82: use Tracy 0.14"
        );
    }

    #[test]
    fn an_announcement_has_its_length() {
        let bytes = announcement(8086, -1, "machine");
        assert_eq!((bytes.len(), &bytes[..4]), (84, &[3, 0, 150, 31][..]));
    }

    #[test]
    fn a_welcome_has_its_length_whatever_the_machine_is_called() {
        let beginning = Beginning { zero: 5, now: 9, wall_clock: 3 };
        for program in ["", "server", &"é".repeat(100)] {
            let host = Host { program: program.into(), ..Host::default() };
            assert_eq!(welcome(&host, beginning).len(), 1 + 1170 + 16);
        }
    }
}
