//! The writer thread.

use crate::codec::Encoder;
use crate::{CaptureWriter, Popped, StoreError, TraceBuffer};
use std::io::Write;
use std::time::Duration;
use syscollect_model::LossCause;

/// The writer thread: writes what the buffer holds until it is closed, and meanwhile, where the
/// buffer keeps events, gives them the form that takes less room.
///
/// After the output failed (a full disk), it takes chunks on and counts their
/// records as [`LossCause::DiskFull`], so that the recording ends in its usual
/// way; what is on disk stays readable. A chunk that cannot be written for a
/// reason of its own (its size) is counted the same way, and the rest goes on.
///
/// Before each chunk `longest_wait` is asked how long to wait for it at most.
///
/// # Errors
///
/// The first error of the writer, once the buffer is closed and empty.
pub fn drain_to<W: Write>(
    buffer: &TraceBuffer,
    writer: &mut CaptureWriter<W>,
    longest_wait: &mut dyn FnMut() -> Duration,
) -> Result<(), StoreError> {
    let mut first_error = None;
    let mut output_failed = false;
    let mut encoder = Encoder::new();
    loop {
        buffer.fold();
        buffer.find_owners();
        buffer.encode(&mut encoder);
        let popped = buffer.pop(longest_wait());
        let (header, result) = match &popped {
            Popped::Chunk(chunk) => (chunk.header, (!output_failed).then(|| writer.write(chunk))),
            Popped::Encoded(chunk) => {
                (*chunk.header(), (!output_failed).then(|| writer.write_encoded(chunk)))
            }
            Popped::Empty => continue,
            Popped::Closed => break,
        };
        match result {
            Some(Ok(())) => continue,
            Some(Err(error)) => {
                output_failed |= matches!(error, StoreError::Write { .. });
                first_error = first_error.or(Some(error));
            }
            None => {}
        }
        buffer.lose(&header, LossCause::DiskFull);
    }
    for end in buffer.ends() {
        writer.note_end(end);
    }
    first_error.map_or(Ok(()), Err)
}
