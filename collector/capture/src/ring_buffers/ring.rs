//! Reading BPF ring buffers: memory that the kernel writes and the collector
//! maps, without a system call.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::Records;

/// Bits of a record's length (include/uapi/linux/bpf.h): it is being written,
/// and it was given up.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER: u64 = 8;
pub(super) const PAGE: usize = 4096;

/// The reader of one ring buffer.
pub(crate) struct Ring {
    /// A page that holds how far was read.
    consumer: Mapping,
    /// A page that holds how far was written, then the data, twice in a row,
    /// so that no record wraps.
    producer: Mapping,
    bytes: u64,
    read: u64,
}

/// Memory that is unmapped when it is dropped.
pub(crate) struct Mapping {
    pub(crate) base: NonNull<u8>,
    length: usize,
}

// SAFETY: plain memory that only this value unmaps; it is accessed by atomics,
// or where the kernel has published data and does not write.
unsafe impl Send for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped; nothing that borrows from it outlives it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

impl Mapping {
    /// Maps so many bytes of a map.
    pub(crate) fn new(
        map: BorrowedFd<'_>,
        offset: usize,
        length: usize,
        access: libc::c_int,
    ) -> io::Result<Self> {
        // SAFETY: a new mapping; the kernel checks offset, length and access.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                access,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                offset as i64,
            )
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast::<libc::c_void>() != libc::MAP_FAILED => {
                Ok(Self { base, length })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn position(&self) -> &AtomicU64 {
        // SAFETY: the page begins with a 64-bit position, aligned, and all
        // access from here is atomic.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().cast()) }
    }
}

impl Ring {
    /// Maps a ring buffer of `bytes` (a power of two, pages).
    pub(crate) fn map(map: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        let consumer = Mapping::new(map, 0, PAGE, libc::PROT_READ | libc::PROT_WRITE)?;
        let producer = Mapping::new(map, PAGE, PAGE + 2 * bytes, libc::PROT_READ)?;
        Ok(Self { consumer, producer, bytes: bytes as u64, read: 0 })
    }
}

impl Records for Ring {
    fn fill(&self) -> f64 {
        self.producer.position().load(Ordering::Acquire).wrapping_sub(self.read) as f64
            / self.bytes as f64
    }

    /// A record that is still being written ends the run.
    fn read(&mut self, mut take: impl FnMut(&[u8]) -> bool) {
        let written = self.producer.position().load(Ordering::Acquire);
        let mut more = true;
        while more && self.read < written {
            let at = self.read & (self.bytes - 1);
            // SAFETY: `at` is below `bytes`, the data is mapped twice, and the
            // kernel aligns headers to 8.
            let data = unsafe { self.producer.base.as_ptr().add(PAGE + at as usize) };
            // SAFETY: a record's length is a u32 that the kernel publishes.
            let length = unsafe { AtomicU32::from_ptr(data.cast()) }.load(Ordering::Acquire);
            if length & BUSY != 0 {
                break;
            }
            let bytes = u64::from(length & !DISCARDED);
            if length & DISCARDED == 0 && bytes <= self.bytes {
                // SAFETY: a record is within one length of the data behind its
                // header, complete as it is not busy, and not overwritten
                // before the position below moves.
                let record = unsafe {
                    std::slice::from_raw_parts(data.add(HEADER as usize), bytes as usize)
                };
                more = take(record);
            }
            self.read += (bytes + HEADER).next_multiple_of(8);
            self.consumer.position().store(self.read, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    const BYTES: usize = 4096;

    /// A ring buffer in a file, laid out as the kernel lays it out in memory.
    struct Fake {
        file: File,
        written: u64,
    }

    impl Fake {
        fn new() -> Self {
            let file = tempfile::tempfile().unwrap();
            file.set_len((2 * PAGE + 2 * BYTES) as u64).unwrap();
            Self { file, written: 0 }
        }

        fn write(&mut self, record: &[u8], flags: u32) {
            let mut bytes = (record.len() as u32 | flags).to_le_bytes().to_vec();
            bytes.extend([0; 4]);
            bytes.extend(record);
            for (index, byte) in bytes.iter().enumerate() {
                let at = (self.written as usize + index) % BYTES;
                for copy in [at, at + BYTES] {
                    self.file.write_at(&[*byte], (2 * PAGE + copy) as u64).unwrap();
                }
            }
            self.written += (bytes.len() as u64).next_multiple_of(8);
            self.file.write_at(&self.written.to_le_bytes(), PAGE as u64).unwrap();
        }

        fn ring(&self) -> Ring {
            Ring::map(self.file.as_fd(), BYTES).unwrap()
        }

        fn consumed(&self) -> u64 {
            let mut position = [0; 8];
            self.file.read_at(&mut position, 0).unwrap();
            u64::from_le_bytes(position)
        }
    }

    fn read(ring: &mut Ring) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        ring.read(|record| {
            records.push(record.to_vec());
            true
        });
        records
    }

    #[test]
    fn records_come_whole_and_in_order_also_where_the_ring_begins_again() {
        let mut fake = Fake::new();
        let mut ring = fake.ring();
        for round in 0..100u8 {
            let record = vec![round; 200 + usize::from(round)];
            fake.write(&record, 0);
            assert_eq!(read(&mut ring), [record]);
            assert_eq!(fake.consumed(), fake.written);
        }
        assert_eq!(ring.fill(), 0.0);
    }

    #[test]
    fn a_record_that_is_being_written_holds_up_those_behind_it() {
        let mut fake = Fake::new();
        let mut ring = fake.ring();
        fake.write(b"first", 0);
        fake.write(b"busy", BUSY);
        fake.write(b"third", 0);
        assert_eq!(read(&mut ring), [b"first"]);
        assert_eq!(read(&mut ring), Vec::<Vec<u8>>::new());
        assert_eq!(fake.consumed(), 16);
    }

    #[test]
    fn a_record_that_was_given_up_is_skipped() {
        let mut fake = Fake::new();
        fake.write(b"given up", DISCARDED);
        fake.write(b"kept", 0);
        assert_eq!(read(&mut fake.ring()), [b"kept"]);
    }

    #[test]
    fn whoever_wants_no_more_finds_the_rest_later() {
        let mut fake = Fake::new();
        let mut ring = fake.ring();
        (0..3u8).for_each(|number| fake.write(&[number], 0));
        let mut taken = Vec::new();
        ring.read(|record| {
            taken.push(record[0]);
            false
        });
        assert_eq!((taken, read(&mut ring)), (vec![0], vec![vec![1], vec![2]]));
    }
}
