//! From bytes to messages: the handshake, then packed frames.

use super::{Result, Violation, require};

const WELCOME: usize = 1170;
const ON_DEMAND: usize = 16;
const MOST_RAW: usize = 256 * 1024;
/// What LZ4 makes of that at most.
const MOST_PACKED: usize = MOST_RAW + MOST_RAW / 255 + 16;
const HISTORY: usize = 64 * 1024;

/// What the other side said of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Welcome {
    /// The zero of times.
    pub zero: i64,
    /// When the viewer joined.
    pub joined: i64,
    /// Seconds since 1970.
    pub wall_clock: u64,
    /// Nanoseconds from sample to sample.
    pub sampling_period: i64,
    /// 2 is x86-64.
    pub architecture: u8,
    /// What is shown as the program.
    pub program: String,
    /// Lines about the machine.
    pub host: String,
}

pub(super) enum Piece {
    Welcome(Welcome),
    Messages(Vec<u8>),
}

/// Bytes that came, up to what is missing of a piece.
#[derive(Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    welcome: Option<Welcome>,
    history: Vec<u8>,
}

impl Frames {
    pub(super) fn welcome(&self) -> Option<&Welcome> {
        self.welcome.as_ref()
    }

    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<Vec<Piece>> {
        self.bytes.extend_from_slice(bytes);
        let (mut at, mut pieces) = (0, Vec::new());
        if self.welcome.is_none() {
            let Some((answer, rest)) = self.bytes.split_first() else { return Ok(pieces) };
            require!(*answer == 1, "the answer is {answer} and not a welcome");
            let Some(rest) = rest.get(..WELCOME + ON_DEMAND) else { return Ok(pieces) };
            let welcome = read_welcome(rest)?;
            at = 1 + WELCOME + ON_DEMAND;
            pieces.push(Piece::Welcome(welcome.clone()));
            self.welcome = Some(welcome);
        }
        while let Some(length) = self.bytes[at..].first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            require!(length <= MOST_PACKED, "a frame of {length} bytes");
            let Some(packed) = self.bytes.get(at + 4..at + 4 + length) else { break };
            let mut raw = vec![0; MOST_RAW];
            let unpacked =
                lz4_flex::block::decompress_into_with_dict(packed, &mut raw, &self.history)
                    .map_err(|error| Violation(format!("a frame does not unpack: {error}")))?;
            raw.truncate(unpacked);
            require!(unpacked > 0, "an empty frame");
            self.history.extend_from_slice(&raw);
            let old = self.history.len().saturating_sub(HISTORY);
            self.history.drain(..old);
            pieces.push(Piece::Messages(raw));
            at += 4 + length;
        }
        self.bytes.drain(..at);
        Ok(pieces)
    }
}

fn read_welcome(bytes: &[u8]) -> Result<Welcome> {
    let u64_at = |at: usize| {
        bytes[at..at + 8].iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
    };
    let i64_at = |at| u64_at(at) as i64;
    let text = |field: &[u8]| {
        let end = field.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(|| Violation("a text of the welcome has no end".into()))?;
        require!(field[end..].iter().all(|byte| *byte == 0), "there is something behind a text");
        String::from_utf8(field[..end].to_vec())
            .map_err(|_| Violation("a text of the welcome is no text".into()))
    };
    require!(f64::from_bits(u64_at(0)) == 1.0, "ticks are no nanoseconds");
    require!(i64_at(16) >= i64_at(8), "its start ends before it begins");
    require!(bytes[64] & 1 == 1, "one cannot join while it runs");
    let welcome = Welcome {
        zero: i64_at(8),
        joined: i64_at(WELCOME + 8),
        wall_clock: u64_at(32),
        sampling_period: i64_at(56),
        architecture: bytes[65],
        program: text(&bytes[82..146])?,
        host: text(&bytes[146..WELCOME])?,
    };
    require!(welcome.joined >= welcome.zero, "the viewer joins before the zero");
    Ok(welcome)
}
