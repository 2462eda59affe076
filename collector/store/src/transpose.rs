//! Records as columns of bytes.
//!
//! Byte `c` of record `r` moves to `c * count + r`, so that bytes which hardly
//! change (high bytes of times and ids, states, flags) become long runs. Blocks
//! of 8 records by 8 bytes are transposed in registers.

/// Bytes of a stamp, which starts every record of fixed size.
const STAMP: usize = 8;
/// Low bits of a stamp that hold the kind of record, not ticks.
const KIND: u64 = 0xFF;

/// Transposes an 8 by 8 matrix of bytes: swaps blocks of 4, then 2, then 1.
#[inline]
fn transpose_8x8(rows: &mut [u64; 8]) {
    const MASKS: [(usize, u32, u64); 3] = [
        (4, 32, 0x0000_0000_FFFF_FFFF),
        (2, 16, 0x0000_FFFF_0000_FFFF),
        (1, 8, 0x00FF_00FF_00FF_00FF),
    ];
    for (distance, shift, mask) in MASKS {
        for low in 0..8 {
            if low & distance == 0 {
                let (a, b) = (rows[low], rows[low + distance]);
                rows[low] = (a & mask) | ((b & mask) << shift);
                rows[low + distance] = ((a >> shift) & mask) | (b & (mask << shift));
            }
        }
    }
}

#[inline]
fn load(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk::<8>().map_or(0, |eight| u64::from_le_bytes(*eight))
}

#[inline]
fn store(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Turns records into columns. `stride` is a multiple of 8 that divides both equal lengths.
pub(crate) fn columns(records: &[u8], stride: usize, out: &mut [u8]) {
    let count = records.len() / stride;
    let blocks = count / 8 * 8;
    for record in (0..blocks).step_by(8) {
        for column in (0..stride).step_by(8) {
            let mut rows: [u64; 8] =
                std::array::from_fn(|row| load(records, (record + row) * stride + column));
            transpose_8x8(&mut rows);
            for (row, value) in rows.into_iter().enumerate() {
                store(out, (column + row) * count + record, value);
            }
        }
    }
    for record in blocks..count {
        for column in 0..stride {
            out[column * count + record] = records[record * stride + column];
        }
    }
}

/// The inverse of [`columns`].
pub(crate) fn records(columns: &[u8], stride: usize, out: &mut [u8]) {
    let count = columns.len() / stride;
    let blocks = count / 8 * 8;
    for record in (0..blocks).step_by(8) {
        for column in (0..stride).step_by(8) {
            let mut rows: [u64; 8] =
                std::array::from_fn(|row| load(columns, (column + row) * count + record));
            transpose_8x8(&mut rows);
            for (row, value) in rows.into_iter().enumerate() {
                store(out, (record + row) * stride + column, value);
            }
        }
    }
    for record in blocks..count {
        for column in 0..stride {
            out[record * stride + column] = columns[column * count + record];
        }
    }
}

/// Replaces the ticks of every stamp by their distance from those before
/// (the first by themselves), modulo 2^56; the kind stays.
pub(crate) fn delta_stamps(records: &mut [u8], stride: usize) {
    let mut before = 0u64;
    for at in (0..records.len()).step_by(stride) {
        let stamp = load(records, at);
        let ticks = stamp & !KIND;
        store(records, at, ticks.wrapping_sub(before) | (stamp & KIND));
        before = ticks;
    }
}

/// The inverse of [`delta_stamps`].
pub(crate) fn undelta_stamps(records: &mut [u8], stride: usize) {
    let mut ticks = 0u64;
    for at in (0..records.len()).step_by(stride) {
        let delta = load(records, at);
        ticks = ticks.wrapping_add(delta & !KIND);
        store(records, at, ticks | (delta & KIND));
    }
}

const _: () = assert!(STAMP == size_of::<u64>());

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_of_one_place_come_side_by_side() {
        let data: Vec<u8> = (0..160).collect();
        let mut out = vec![0; 160];
        columns(&data, 16, &mut out);
        assert_eq!(out[..10], [0, 16, 32, 48, 64, 80, 96, 112, 128, 144]);
        assert_eq!(out[150..], [15, 31, 47, 63, 79, 95, 111, 127, 143, 159]);
    }

    #[test]
    fn distances_keep_the_kind_and_cross_the_end_of_the_range() {
        let stamps = [(u64::MAX << 8) | 3, 0x0000_0000_0000_0204, 0x0000_0000_0000_0105];
        let mut bytes: Vec<u8> = stamps.iter().flat_map(|stamp| stamp.to_le_bytes()).collect();
        let original = bytes.clone();
        delta_stamps(&mut bytes, 8);
        assert_eq!(load(&bytes, 8), 0x0304, "three ticks later");
        assert_eq!(load(&bytes, 16), 0xFFFF_FFFF_FFFF_FF05, "one tick earlier");
        undelta_stamps(&mut bytes, 8);
        assert_eq!(bytes, original);
    }

    proptest! {
        #[test]
        fn both_are_undone_exactly(words in 1usize..8, count in 0usize..70, seed in any::<u64>()) {
            let stride = words * 8;
            let data: Vec<u8> = (0..stride * count)
                .map(|at| (seed.wrapping_mul(at as u64 | 1) >> 40) as u8)
                .collect();
            let (mut work, mut matrix) = (data.clone(), vec![0; data.len()]);
            delta_stamps(&mut work, stride);
            columns(&work, stride, &mut matrix);
            let mut back = vec![0; data.len()];
            records(&matrix, stride, &mut back);
            undelta_stamps(&mut back, stride);
            prop_assert_eq!(back, data);
        }
    }
}
