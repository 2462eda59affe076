//! Line tables that the interpreters themselves made of
//! ```python
//! def f(a):
//!     if a:
//!         return g(
//!             a)
//!
//!     return 0
//! ```
//! from line 7 on, with the line of each instruction as they give it (`dis`, `co_lines`,
//! `co_positions`); 0 for none.

/// A table, and the lines of its instructions, which are known by their offsets.
pub(super) struct LineTableCase {
    pub(super) version: u8,
    pub(super) first_line: u32,
    pub(super) table: &'static [u8],
    pub(super) lines: &'static [(u32, u32)],
}

/// From 3.8 to 3.13.
pub(super) const MADE: &[LineTableCase] = &[
    LineTableCase {
        version: 8,
        first_line: 7,
        table: &[0, 1, 4, 1, 2, 1, 2, 255, 4, 3],
        lines: &[(0, 8), (2, 8), (4, 9), (6, 10), (8, 9), (10, 9), (12, 12), (14, 12)],
    },
    LineTableCase {
        version: 9,
        first_line: 7,
        table: &[0, 1, 4, 1, 2, 1, 2, 255, 4, 3],
        lines: &[(0, 8), (2, 8), (4, 9), (6, 10), (8, 9), (10, 9), (12, 12), (14, 12)],
    },
    LineTableCase {
        version: 10,
        first_line: 7,
        table: &[4, 1, 2, 1, 2, 1, 4, 255, 4, 3],
        lines: &[(0, 8), (2, 8), (4, 9), (6, 10), (8, 9), (10, 9), (12, 12), (14, 12)],
    },
    LineTableCase {
        version: 11,
        first_line: 7,
        table: &[
            128, 0, 216, 7, 8, 240, 0, 2, 5, 15, 221, 15, 16, 216, 12, 13, 241, 3, 1, 16, 15, 244,
            0, 1, 16, 15, 240, 0, 1, 9, 15, 240, 6, 0, 12, 13, 136, 49,
        ],
        lines: &[
            (0, 7),
            (2, 8),
            (4, 8),
            (6, 9),
            (8, 9),
            (10, 9),
            (12, 9),
            (14, 9),
            (16, 9),
            (18, 10),
            (20, 9),
            (22, 9),
            (24, 9),
            (26, 9),
            (28, 9),
            (30, 9),
            (32, 9),
            (34, 9),
            (36, 12),
            (38, 12),
        ],
    },
    LineTableCase {
        version: 12,
        first_line: 7,
        table: &[
            128, 0, 217, 7, 8, 220, 15, 16, 216, 12, 13, 243, 3, 1, 16, 15, 240, 0, 1, 9, 15, 240,
            6, 0, 12, 13,
        ],
        lines: &[
            (0, 7),
            (2, 8),
            (4, 8),
            (6, 9),
            (8, 9),
            (10, 9),
            (12, 9),
            (14, 9),
            (16, 10),
            (18, 9),
            (20, 9),
            (22, 9),
            (24, 9),
            (26, 9),
            (28, 12),
        ],
    },
    LineTableCase {
        version: 13,
        first_line: 7,
        table: &[
            128, 0, 222, 7, 8, 220, 15, 16, 216, 12, 13, 243, 3, 1, 16, 15, 240, 0, 1, 9, 15, 240,
            6, 0, 12, 13,
        ],
        lines: &[
            (0, 7),
            (2, 8),
            (4, 8),
            (6, 8),
            (8, 8),
            (10, 8),
            (12, 8),
            (14, 8),
            (16, 9),
            (18, 9),
            (20, 9),
            (22, 9),
            (24, 9),
            (26, 10),
            (28, 9),
            (30, 9),
            (32, 9),
            (34, 9),
            (36, 9),
            (38, 12),
        ],
    },
];
