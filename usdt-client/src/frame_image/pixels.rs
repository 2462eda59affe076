//! Pixels made fewer, and packed four by four.

use texpresso::{Algorithm, Format, Params};

/// Pixels that an image has in the end, at most.
const MOST_PIXELS: usize = 1 << 16;

/// An image, and by how much it is made smaller.
#[derive(Clone, Copy)]
pub(super) struct ScaledImage<'a> {
    /// Four bytes for each pixel, row by row.
    rgba: &'a [u8],
    /// Pixels of a row before.
    stride: usize,
    /// One pixel is made of so many rows and columns.
    factor: usize,
    /// Multiples of four.
    pub(super) width: usize,
    pub(super) height: usize,
}

impl<'a> ScaledImage<'a> {
    /// As large as may be. `rgba` has `width * height` pixels, at least four of each.
    pub(super) fn new(rgba: &'a [u8], width: usize, height: usize) -> Self {
        let scaled = |factor: usize| Self {
            rgba,
            stride: width,
            factor,
            width: ((width / factor) & !3).max(4),
            height: ((height / factor) & !3).max(4),
        };
        // What is long and narrow has few pixels before it is too small for a block.
        let most = width.min(height) / 4;
        let fits = |factor: &usize| {
            let image = scaled(*factor);
            *factor >= most || image.width * image.height <= MOST_PIXELS
        };
        scaled((1..).find(fits).unwrap_or(1).min(most.max(1)))
    }

    /// How many blocks it has.
    pub(super) fn blocks(&self) -> usize {
        self.width * self.height / 16
    }

    /// That of its blocks, packed; they are counted row by row.
    pub(super) fn block(&self, index: usize) -> u64 {
        let (row, column) = (index / (self.width / 4), index % (self.width / 4));
        let mut pixels = [[0, 0, 0, 255]; 16];
        for (place, pixel) in pixels.iter_mut().enumerate() {
            *pixel = self.pixel(column * 4 + place % 4, row * 4 + place / 4);
        }
        // The others take ten times as long, for what nobody sees in a small picture.
        let params = Params { algorithm: Algorithm::RangeFit, ..Params::default() };
        let mut packed = [0; 8];
        Format::Bc1.compress_block_masked(pixels, 0xffff, params, &mut packed);
        u64::from_le_bytes(packed)
    }

    /// The mean of those that become one. None is transparent.
    fn pixel(&self, x: usize, y: usize) -> [u8; 4] {
        let mut sums = [0_u32; 3];
        for row in 0..self.factor {
            let start = ((y * self.factor + row) * self.stride + x * self.factor) * 4;
            let pixels = &self.rgba[start..start + self.factor * 4];
            for pixel in pixels.as_chunks::<4>().0 {
                for (sum, value) in sums.iter_mut().zip(pixel) {
                    *sum += u32::from(*value);
                }
            }
        }
        let count = (self.factor * self.factor) as u32;
        let [red, green, blue] = sums.map(|sum| (sum / count) as u8);
        [red, green, blue, 255]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(block: u64) -> [[u8; 4]; 16] {
        Format::Bc1.decompress_block(&block.to_le_bytes())
    }

    #[test]
    fn small_images_stay_as_they_are_and_large_ones_become_small_enough() {
        let sizes = [(4, 4), (320, 180), (321, 183), (640, 360), (960, 540), (4, 130_000)];
        let expected = [(4, 4), (320, 180), (320, 180), (320, 180), (320, 180), (4, 130_000)];
        for ((width, height), expected) in sizes.into_iter().zip(expected) {
            let image = ScaledImage::new(&[], width, height);
            assert_eq!((image.width, image.height), expected, "of {width} x {height}");
            assert!(image.width * image.factor <= width && image.height * image.factor <= height);
        }
    }

    #[test]
    fn a_block_has_the_colours_of_its_pixels() {
        // Left red, right blue; transparent, which says nothing.
        let rgba: Vec<u8> = (0..8 * 4_usize)
            .flat_map(|pixel| if pixel % 8 < 4 { [255, 0, 0, 0] } else { [0, 0, 255, 7] })
            .collect();
        let image = ScaledImage::new(&rgba, 8, 4);
        assert_eq!(image.blocks(), 2);
        assert_eq!(unpacked(image.block(0)), [[255, 0, 0, 255]; 16]);
        assert_eq!(unpacked(image.block(1)), [[0, 0, 255, 255]; 16]);
    }

    #[test]
    fn pixels_of_a_smaller_image_are_means() {
        // Black and white columns by turns: grey where two become one.
        let (width, height) = (960, 540);
        let rgba: Vec<u8> =
            (0..width * height).flat_map(|at| [if at % 2 == 0 { 0 } else { 240 }; 4]).collect();
        let image = ScaledImage {
            factor: 2,
            width: 480,
            height: 268,
            ..ScaledImage::new(&rgba, width, height)
        };
        assert_eq!(image.pixel(7, 100), [120, 120, 120, 255]);
    }
}
