//! The kernel programs' memory of the stacks that they have sent (`bpf/include/stack.h`,
//! `kernel_stack.h`, `known_walk.h`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use aya::Ebpf;
use aya::maps::Map;
use syscollect_records::stack_id;

use crate::bpf_calls::update_map_all;

/// The maps: name, and where an element holds the stack's id, bytes from its beginning. Those that
/// remember what they had of another one come after it.
const MAPS: [(&str, usize); 6] = [
    ("sched_stacks", 8),
    ("sample_stacks", 8),
    ("kernel_paths", 24),
    ("sched_walks", 64),
    ("sched_codes", 8),
    ("sample_codes", 8),
];
/// Elements of one call: a machine of 128 CPUs has 2 MiB of values then.
const AT_ONCE: usize = 256;

/// Lets the programs forget all stacks, so that each is sent again before an event refers to it.
///
/// A program that works on an element meanwhile may leave one that is half forgotten: a hash
/// without its id. The id is therefore that of a lost stack, which is counted, and never that of
/// another one.
pub(super) fn forget(ebpf: &Ebpf) -> io::Result<()> {
    let cpus = aya::util::nr_cpus().map_err(|(_, error)| error)?;
    for (name, id_offset) in MAPS {
        // A kernel without a verified walk has programs without such paths.
        let Some(Map::PerCpuArray(map)) = ebpf.map(name) else { continue };
        let info = map.info().map_err(io::Error::other)?;
        let size = (info.max_entries(), info.value_size() as usize);
        forget_ids((name, map.fd().as_fd()), size, id_offset, cpus)?;
    }
    Ok(())
}

/// The same for a map that has so many elements of so many bytes for each of the CPUs.
pub(crate) fn forget_ids(
    (name, map): (&str, BorrowedFd<'_>),
    (elements, value_size): (u32, usize),
    id_offset: usize,
    cpus: usize,
) -> io::Result<()> {
    let mut element = vec![0; value_size.next_multiple_of(8)];
    let Some(id) = element.get_mut(id_offset..id_offset + 4) else {
        return Err(io::Error::other(format!("elements of the map {name} have another layout")));
    };
    id.copy_from_slice(&stack_id::LOST.to_ne_bytes());
    let value = element.repeat(cpus);
    let keys: Vec<u32> = (0..elements).collect();
    keys.chunks(AT_ONCE).try_for_each(|keys| update_map_all(map, keys, &value))
}
