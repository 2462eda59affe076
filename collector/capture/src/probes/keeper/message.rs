//! What the recorder and the keeper say to each other: numbers of 64 bits. Both ends are the same
//! program.

use std::io;

use crate::bpf_calls::UprobePoint;

/// How a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::probes) enum Means {
    /// A link to all places.
    Link,
    /// An event of the uprobe PMU, whose type number this is, for the first place, which the
    /// program is set to.
    Event(u32),
    /// The same, with a link that has the place's cookie.
    LinkedEvent(u32),
}

/// What to attach. The program and the file are sent as descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::probes) struct Request {
    pub(in crate::probes) means: Means,
    /// The program runs when the functions return that begin there.
    pub(in crate::probes) at_return: bool,
    /// In that process only.
    pub(in crate::probes) pid: Option<u32>,
    pub(in crate::probes) places: Vec<UprobePoint>,
}

/// Means, type of the PMU, return, process, number of places.
const HEAD: usize = 5;
/// Offset, semaphore, cookie.
const PLACE: usize = 3;
const NUMBER_BYTES: usize = size_of::<u64>();

fn bytes(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    numbers.into_iter().flat_map(u64::to_le_bytes).collect()
}

fn numbers<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut all = bytes
        .chunks_exact(NUMBER_BYTES)
        .map(|number| number.try_into().map_or(0, u64::from_le_bytes));
    std::array::from_fn(|_| all.next().unwrap_or(0))
}

impl Request {
    /// Bytes of its head.
    pub(super) const HEAD_BYTES: usize = HEAD * NUMBER_BYTES;

    /// Its head and its places.
    pub(super) fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        let (means, pmu) = match self.means {
            Means::Link => (0, 0),
            Means::Event(pmu) => (1, pmu),
            Means::LinkedEvent(pmu) => (2, pmu),
        };
        // No process has the number 0.
        let pid = u64::from(self.pid.unwrap_or(0));
        let head = bytes([
            means,
            u64::from(pmu),
            u64::from(self.at_return),
            pid,
            self.places.len() as u64,
        ]);
        (
            head,
            bytes(
                self.places.iter().flat_map(|place| [place.offset, place.semaphore, place.cookie]),
            ),
        )
    }

    /// What a head says, still without its places, and how many bytes those have.
    pub(super) fn decode_head(head: &[u8]) -> (Self, usize) {
        let [means, pmu, at_return, pid, places] = numbers::<HEAD>(head);
        let means = match means {
            0 => Means::Link,
            1 => Means::Event(pmu as u32),
            _ => Means::LinkedEvent(pmu as u32),
        };
        let pid = Some(pid as u32).filter(|pid| *pid > 0);
        let request = Self { means, at_return: at_return != 0, pid, places: Vec::new() };
        (request, places as usize * PLACE * NUMBER_BYTES)
    }

    /// Adds the places.
    pub(super) fn decode_places(&mut self, bytes: &[u8]) {
        self.places = bytes
            .chunks_exact(PLACE * NUMBER_BYTES)
            .map(|place| {
                let [offset, semaphore, cookie] = numbers::<PLACE>(place);
                UprobePoint { offset, semaphore, cookie }
            })
            .collect();
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// 0, or the kernel's error.
    pub(super) errno: i32,
    /// CPU time that the keeper has used so far, nanoseconds.
    pub(super) cpu_ns: u64,
}

impl Reply {
    pub(super) const BYTES: usize = 2 * NUMBER_BYTES;

    pub(super) fn encode(self) -> Vec<u8> {
        bytes([u64::from(self.errno.unsigned_abs()), self.cpu_ns])
    }

    pub(super) fn decode(bytes: &[u8]) -> Self {
        let [errno, cpu_ns] = numbers(bytes);
        Self { errno: errno as i32, cpu_ns }
    }

    pub(super) fn result(self) -> io::Result<()> {
        if self.errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(self.errno)) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_request_arrives_as_it_was_sent(
            means in prop_oneof![
                Just(Means::Link),
                any::<u32>().prop_map(Means::Event),
                any::<u32>().prop_map(Means::LinkedEvent),
            ],
            at_return: bool,
            pid in proptest::option::of(1..u32::MAX),
            places: Vec<(u64, u64, u64)>,
        ) {
            let places = places.into_iter();
            let places = places.map(|(offset, semaphore, cookie)| UprobePoint { offset, semaphore, cookie }).collect();
            let sent = Request { means, at_return, pid, places };
            let (head, places) = sent.encode();
            let (mut received, bytes) = Request::decode_head(&head);
            prop_assert_eq!((head.len(), places.len()), (Request::HEAD_BYTES, bytes));
            received.decode_places(&places);
            prop_assert_eq!(received, sent);
        }
    }

    #[test]
    fn a_reply_arrives_as_it_was_sent() {
        for reply in [Reply { errno: 0, cpu_ns: u64::MAX }, Reply { errno: 524, cpu_ns: 0 }] {
            assert_eq!(Reply::decode(&reply.encode()), reply);
        }
        assert_eq!(Reply { errno: 524, cpu_ns: 0 }.result().unwrap_err().raw_os_error(), Some(524));
    }
}
