//! Whatever compressed bytes hold, expanding them ends within the room there is,
//! and gives the same bytes in less room and from fewer bytes as far as these go.
#![no_main]

use libfuzzer_sys::fuzz_target;
use syscollect_etl::file::expand_xpress;

const ROOM: usize = 1 << 16;

fuzz_target!(|bytes: &[u8]| {
    let (mut whole, mut part) = (vec![0xaa; ROOM], vec![0x55; ROOM]);
    let length = expand_xpress(bytes, &mut whole);
    let half = expand_xpress(bytes, &mut part[..length / 2]);
    assert_eq!(half, length / 2, "less room is filled");
    assert_eq!(part[..half], whole[..half]);
    let cut = expand_xpress(&bytes[..bytes.len() / 2], &mut part);
    assert!(cut <= length);
    assert_eq!(part[..cut], whole[..cut]);
});
