//! Memory.

use super::cursor::Cursor;
use super::{Damage, Strings};
use std::collections::BTreeSet;

/// What is allocated and freed together.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Its name; the viewer's own has none.
    pub name: Option<String>,
    /// All that was allocated, in the order of time.
    pub pieces: Vec<Piece>,
    /// Bytes that were not freed.
    pub usage: u64,
}

/// A piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its address.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// When it was allocated.
    pub allocated: i64,
    /// When it was freed; -1 is never.
    pub freed: i64,
    /// Numbers of the threads that did so; the second is 0 where nobody has.
    pub threads: [u64; 2],
    /// Indices of their call stacks; 0 is none.
    pub callstacks: [u32; 2],
}

pub(super) fn pools(
    cursor: &mut Cursor<'_>,
    strings: &Strings,
    threads: &[u64],
) -> Result<Vec<Pool>, Damage> {
    cursor.section("memory");
    let (count, total) = (cursor.count(56)?, cursor.u64()?);
    let mut names = BTreeSet::new();
    let mut pools = Vec::new();
    for _ in 0..count {
        let name = cursor.u64()?;
        cursor.check(names.insert(name), || format!("two pools have the name {name:#x}"))?;
        pools.push(pool(cursor, name, strings, threads)?);
    }
    let found: usize = pools.iter().map(|pool| pool.pieces.len()).sum();
    cursor
        .check(found as u64 == total, || format!("{total} pieces were told, {found} are there"))?;
    Ok(pools)
}

fn pool(
    cursor: &mut Cursor<'_>,
    id: u64,
    strings: &Strings,
    threads: &[u64],
) -> Result<Pool, Damage> {
    let name = (id != 0).then(|| strings.id(cursor, id)).transpose()?;
    // The viewer prints it into a buffer of 1024 bytes.
    cursor.check(name.as_ref().is_none_or(|name| name.len() < 1_000), || {
        "a name is too long".into()
    })?;
    let (count, active, frees) = (cursor.count(42)?, cursor.u64()?, cursor.u64()?);
    let mut reference = 0;
    let pieces: Vec<Piece> =
        (0..count).map(|_| piece(cursor, &mut reference, threads)).collect::<Result<_, _>>()?;
    let held: Vec<&Piece> = pieces.iter().filter(|piece| piece.freed < 0).collect();
    let reported = (active as usize, frees as usize);
    cursor.check(reported == (held.len(), count - held.len()), || {
        format!("{active} active, {frees} freed of {count}")
    })?;
    let high = pieces.iter().map(|piece| piece.address + piece.size).max().unwrap_or(0);
    let low = pieces.iter().map(|piece| piece.address).min().unwrap_or(u64::MAX);
    let usage = held.iter().map(|piece| piece.size).sum();
    let reported = [cursor.u64()?, cursor.u64()?, cursor.u64()?, cursor.u64()?];
    cursor
        .check(reported == [high, low, usage, id], || format!("{reported:?} are the wrong sums"))?;
    check_addresses(&pieces).map_err(|what| cursor.damage(what))?;
    Ok(Pool { name, pieces, usage })
}

fn piece(cursor: &mut Cursor<'_>, reference: &mut i64, threads: &[u64]) -> Result<Piece, Damage> {
    let (address, size) = (cursor.u64()?, cursor.u64()?);
    cursor
        .check(size < 1 << 47 && address < 1 << 55, || format!("{size} bytes at {address:#x}"))?;
    let callstacks = [cursor.int24()?, cursor.int24()?];
    let before = *reference;
    let allocated = cursor.time(reference)?;
    cursor.check(allocated >= before, || "allocations are out of order".into())?;
    let freed = cursor.i64()?;
    // Freed in the same nanosecond, it would be freed before it is allocated.
    cursor
        .check(freed == -1 || freed > 0, || format!("freed {freed} ns after it was allocated"))?;
    let [alloc_thread, free_thread] = [cursor.u16()?, cursor.u16()?];
    let threads = [thread(cursor, threads, alloc_thread)?, thread(cursor, threads, free_thread)?];
    cursor.check(threads[0] != 0 && (threads[1] != 0) == (freed > 0), || {
        format!("threads {threads:?}")
    })?;
    let freed = if freed < 0 { -1 } else { allocated + freed };
    Ok(Piece { address, size, allocated, freed, threads, callstacks })
}

/// An address is allocated once at a time.
fn check_addresses(pieces: &[Piece]) -> Result<(), String> {
    let mut last: std::collections::BTreeMap<u64, i64> = Default::default();
    for piece in pieces {
        // A free is moved by a nanosecond where it would come too early.
        if let Some(freed) = last.insert(piece.address, piece.freed)
            && (freed < 0 || freed > piece.allocated + 1)
        {
            return Err(format!("address {:#x} is allocated twice", piece.address));
        }
    }
    Ok(())
}

fn thread(cursor: &Cursor<'_>, threads: &[u64], index: u16) -> Result<u64, Damage> {
    let thread = threads.get(usize::from(index)).copied();
    thread.ok_or_else(|| cursor.damage(format!("there is no thread {index}")))
}
