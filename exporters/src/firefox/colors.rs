//! Colours that the viewer has for markers.

/// The viewer's colours with what they look like.
const COLORS: [(&str, u32); 10] = [
    ("blue", 0x0a_84_ff),
    ("green", 0x30_c6_30),
    ("grey", 0x80_80_80),
    ("ink", 0x36_3b_59),
    ("magenta", 0xff_1a_d9),
    ("orange", 0xff_94_00),
    ("purple", 0x80_00_d7),
    ("red", 0xd7_00_22),
    ("teal", 0x00_c8_d7),
    ("yellow", 0xff_e9_00),
];

/// The colour that comes nearest to 0xRRGGBB.
pub(super) fn nearest(rgb: u32) -> &'static str {
    COLORS.iter().min_by_key(|(_, color)| distance(rgb, *color)).map_or("grey", |(name, _)| name)
}

fn distance(rgb: u32, other: u32) -> u32 {
    let parts = rgb.to_be_bytes().into_iter().zip(other.to_be_bytes()).skip(1);
    parts.map(|(one, other)| u32::from(one.abs_diff(other)).pow(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_colours_are_themselves() {
        let named = [0xff_00_00, 0x00_ff_00, 0x00_00_ff, 0xff_ff_00, 0x88_88_88, 0xff_a5_00, 0]
            .map(nearest);
        assert_eq!(named, ["red", "green", "blue", "yellow", "grey", "orange", "ink"]);
    }
}
