//! What the recorder and the keeper say to each other: numbers of 64 bits. Both ends are the same
//! program.

use std::io;

use crate::bpf_calls::UprobePoint;

/// How a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::probes) enum PerfLink {
    /// A link to all points.
    Link,
    /// An event of the uprobe PMU, whose type number this is, for the first point, which the
    /// program is set to.
    Event(u32),
    /// The same, with a link that has the point's cookie.
    LinkedEvent(u32),
}

/// A process that is attached to by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::probes) struct OneProcess {
    pub(in crate::probes) pid: u32,
    /// Under this number it is let go before all else is; 0 if it never is.
    pub(in crate::probes) lease: u64,
}

/// What the keeper is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeeperRequest {
    /// To attach.
    Attach(Request),
    /// To let go what was attached under these leases: at once, or one after the other with pauses,
    /// which nobody waits for.
    LetGo { leases: Vec<u64>, at_once: bool },
}

/// What to attach. The program and the file are sent as descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::probes) struct Request {
    pub(in crate::probes) means: PerfLink,
    /// The program runs when the functions return that begin there.
    pub(in crate::probes) at_return: bool,
    /// In that process only.
    pub(in crate::probes) process: Option<OneProcess>,
    pub(in crate::probes) points: Vec<UprobePoint>,
}

/// Means, type of the PMU, return, process, lease, number of points.
const HEAD: usize = 6;
/// Offset, semaphore, cookie.
const PLACE: usize = 3;
/// In place of means: leases follow.
const LET_GO: u64 = 3;
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
    /// Its head and its points.
    fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        let (means, pmu) = match self.means {
            PerfLink::Link => (0, 0),
            PerfLink::Event(pmu) => (1, pmu),
            PerfLink::LinkedEvent(pmu) => (2, pmu),
        };
        // No process has the number 0.
        let OneProcess { pid, lease } = self.process.unwrap_or(OneProcess { pid: 0, lease: 0 });
        let head = bytes([
            means,
            u64::from(pmu),
            u64::from(self.at_return),
            u64::from(pid),
            lease,
            self.points.len() as u64,
        ]);
        (
            head,
            bytes(
                self.points.iter().flat_map(|point| [point.offset, point.semaphore, point.cookie]),
            ),
        )
    }
}

impl KeeperRequest {
    /// Bytes of a head.
    pub(super) const HEAD_BYTES: usize = HEAD * NUMBER_BYTES;

    /// Its head and the rest.
    pub(super) fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        match self {
            Self::Attach(request) => request.encode(),
            Self::LetGo { leases, at_once } => {
                let head = bytes([LET_GO, u64::from(*at_once), 0, 0, 0, leases.len() as u64]);
                (head, bytes(leases.iter().copied()))
            }
        }
    }

    /// What a head says, still without the rest, and how many bytes that has.
    pub(super) fn decode_head(head: &[u8]) -> (Self, usize) {
        let [means, pmu, at_return, pid, lease, length] = numbers::<HEAD>(head);
        let means = match means {
            LET_GO => {
                let let_go = Self::LetGo { leases: Vec::new(), at_once: pmu != 0 };
                return (let_go, length as usize * NUMBER_BYTES);
            }
            0 => PerfLink::Link,
            1 => PerfLink::Event(pmu as u32),
            _ => PerfLink::LinkedEvent(pmu as u32),
        };
        let process = Some(OneProcess { pid: pid as u32, lease }).filter(|one| one.pid > 0);
        let request = Request { means, at_return: at_return != 0, process, points: Vec::new() };
        (Self::Attach(request), length as usize * PLACE * NUMBER_BYTES)
    }

    /// Adds the rest.
    pub(super) fn decode_rest(&mut self, bytes: &[u8]) {
        match self {
            Self::LetGo { leases, .. } => {
                let each = bytes.chunks_exact(NUMBER_BYTES);
                leases.extend(each.map(|lease| numbers::<1>(lease)[0]));
            }
            Self::Attach(request) => {
                let each = bytes.chunks_exact(PLACE * NUMBER_BYTES);
                request.points.extend(each.map(|point| {
                    let [offset, semaphore, cookie] = numbers::<PLACE>(point);
                    UprobePoint { offset, semaphore, cookie }
                }));
            }
        }
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

    fn received(sent: &KeeperRequest) -> KeeperRequest {
        let (head, rest) = sent.encode();
        let (mut received, bytes) = KeeperRequest::decode_head(&head);
        assert_eq!((head.len(), rest.len()), (KeeperRequest::HEAD_BYTES, bytes));
        received.decode_rest(&rest);
        received
    }

    proptest! {
        #[test]
        fn a_request_arrives_as_it_was_sent(
            means in prop_oneof![
                Just(PerfLink::Link),
                any::<u32>().prop_map(PerfLink::Event),
                any::<u32>().prop_map(PerfLink::LinkedEvent),
            ],
            at_return: bool,
            process in proptest::option::of((1..u32::MAX, any::<u64>())),
            points: Vec<(u64, u64, u64)>,
        ) {
            let points = points.into_iter();
            let points = points
                .map(|(offset, semaphore, cookie)| UprobePoint { offset, semaphore, cookie })
                .collect();
            let process = process.map(|(pid, lease)| OneProcess { pid, lease });
            let sent = KeeperRequest::Attach(Request { means, at_return, process, points });
            prop_assert_eq!(received(&sent), sent);
        }

        #[test]
        fn leases_arrive_as_they_were_sent(leases: Vec<u64>, at_once: bool) {
            let sent = KeeperRequest::LetGo { leases, at_once };
            prop_assert_eq!(received(&sent), sent);
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
