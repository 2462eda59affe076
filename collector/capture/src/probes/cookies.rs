//! Cookies where the kernel has none for programs at user probes (before 5.15).
//!
//! Each place gets a program of its own, of a dozen instructions: it leaves the
//! cookie where the real program looks for it, and goes on to that by a tail
//! call. Loading one takes a fraction of what loading the real one would.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::bpf_calls::{self, MAP_TYPE_PROG_ARRAY, MapCreate, PROG_TYPE_KPROBE, ProgramKind};

/// Numbers of the helpers (include/uapi/linux/bpf.h).
const MAP_LOOKUP_ELEM: i32 = 1;
const TAIL_CALL: i32 = 12;
/// The source of a 64-bit load whose immediate is a map's descriptor.
const MAP_BY_DESCRIPTOR: u8 = 1;

/// A real program, and the map in which it looks for its cookie.
#[derive(Debug)]
pub(super) struct Cookies {
    given: OwnedFd,
    /// Holds the real program alone, as tail calls want it.
    target: OwnedFd,
}

impl Cookies {
    /// For this program, which reads its cookie from `given`: one number for each CPU.
    pub(super) fn new(program: BorrowedFd<'_>, given: OwnedFd) -> io::Result<Self> {
        let target = bpf_calls::create_map(MapCreate {
            map_type: MAP_TYPE_PROG_ARRAY,
            key_size: 4,
            value_size: 4,
            max_entries: 1,
            ..MapCreate::default()
        })?;
        bpf_calls::update_map(target.as_fd(), 0, &program.as_raw_fd().to_ne_bytes())?;
        Ok(Self { given, target })
    }

    /// Loads the program that hands this cookie over.
    pub(super) fn program(&self, cookie: u64) -> io::Result<OwnedFd> {
        let instructions = handing_over(cookie, self.given.as_raw_fd(), self.target.as_raw_fd());
        bpf_calls::load_program(
            "cookie",
            &instructions,
            c"GPL",
            ProgramKind::of(PROG_TYPE_KPROBE),
            None,
        )
        .map_err(|(error, _)| error)
    }
}

/// `*lookup(given, 0) = cookie; tail_call(context, target, 0)`, as the kernel takes it.
fn handing_over(cookie: u64, given: i32, target: i32) -> Vec<u8> {
    const EXIT: [u8; 8] = instruction(0x95, 0, 0, 0, 0);
    let [cookie_low, cookie_high] = [cookie as i32, (cookie >> 32) as i32];
    let code = [
        // r6 = context; the key 0 lies on the stack, r2 points to it.
        instruction(0xbf, 6, 1, 0, 0),
        instruction(0x62, 10, 0, -4, 0),
        instruction(0xbf, 2, 10, 0, 0),
        instruction(0x07, 2, 0, 0, -4),
        instruction(0x18, 1, MAP_BY_DESCRIPTOR, 0, given),
        instruction(0, 0, 0, 0, 0),
        instruction(0x85, 0, 0, 0, MAP_LOOKUP_ELEM),
        // Without a place for the cookie the next 8 are jumped over.
        instruction(0x15, 0, 0, 8, 0),
        instruction(0x18, 1, 0, 0, cookie_low),
        instruction(0, 0, 0, 0, cookie_high),
        instruction(0x7b, 0, 1, 0, 0),
        instruction(0xbf, 1, 6, 0, 0),
        instruction(0x18, 2, MAP_BY_DESCRIPTOR, 0, target),
        instruction(0, 0, 0, 0, 0),
        instruction(0xb7, 3, 0, 0, 0),
        instruction(0x85, 0, 0, 0, TAIL_CALL),
        instruction(0xb7, 0, 0, 0, 0),
        EXIT,
    ];
    code.concat()
}

/// Opcode, registers, offset of a jump or of memory, number.
const fn instruction(code: u8, destination: u8, source: u8, offset: i16, number: i32) -> [u8; 8] {
    let ([a, b], [c, d, e, f]) = (offset.to_ne_bytes(), number.to_ne_bytes());
    [code, destination | source << 4, a, b, c, d, e, f]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_holds_its_cookie_and_both_maps_and_its_jump_ends_at_the_end() {
        let code = handing_over(0x0123_4567_89ab_cdef, 7, 9);
        let instructions: Vec<&[u8]> = code.chunks(8).collect();
        assert_eq!(
            (&instructions[8][4..], &instructions[9][4..]),
            (&0x89ab_cdef_u32.to_ne_bytes()[..], &0x0123_4567_u32.to_ne_bytes()[..])
        );
        assert_eq!((instructions[4][4], instructions[12][4]), (7, 9));
        let jump = 7 + 1 + usize::from(instructions[7][2]);
        assert_eq!(
            instructions[jump][0], 0xb7,
            "r0 is set before the end, or the kernel refuses the program"
        );
        assert_eq!((jump + 2) * 8, code.len());
    }
}
