//! The container (blocks of 64 KiB, compressed) and the payload's primitives.

use super::compress::{Compressor, STREAMS};
use super::options::{TracyLayout, TracyOptions};
use std::io::{self, Write};

/// `tr\xfdP`; the compression follows, and the number of streams.
const MAGIC: [u8; 4] = [0x74, 0x72, 0xfd, 0x50];
/// Bytes of payload in every block but the last.
pub(crate) const BLOCK: usize = 64 << 10;

/// A payload on its way into the container.
pub(crate) struct Payload<W> {
    /// What follows is written in this layout.
    pub(crate) layout: TracyLayout,
    out: W,
    compressor: Compressor,
    block: Vec<u8>,
    compressed: Vec<u8>,
}

impl<W: Write> Payload<W> {
    /// Begins the container.
    pub(crate) fn new(mut out: W, options: TracyOptions) -> io::Result<Self> {
        let compressor = Compressor::new(options.compression)?;
        out.write_all(&MAGIC)?;
        out.write_all(&[compressor.number(), STREAMS])?;
        let compressed = vec![0; 4 + compressor.bound()];
        Ok(Self {
            layout: options.layout,
            out,
            compressor,
            block: Vec::with_capacity(BLOCK),
            compressed,
        })
    }

    /// Writes what is left and gives the output back.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        if !self.block.is_empty() {
            self.write_block()?;
        }
        self.out.flush()?;
        Ok(self.out)
    }

    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.block.len() + bytes.len() < BLOCK {
            self.block.extend_from_slice(bytes);
            return Ok(());
        }
        self.split(bytes)
    }

    #[cold]
    fn split(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while self.block.len() + bytes.len() >= BLOCK {
            let (fits, rest) = bytes.split_at(BLOCK - self.block.len());
            self.block.extend_from_slice(fits);
            self.write_block()?;
            bytes = rest;
        }
        self.block.extend_from_slice(bytes);
        Ok(())
    }

    fn write_block(&mut self) -> io::Result<()> {
        let length = self.compressor.block(&self.block, &mut self.compressed[4..])?;
        self.compressed[..4].copy_from_slice(&(length as u32).to_le_bytes());
        self.out.write_all(&self.compressed[..4 + length])?;
        self.block.clear();
        Ok(())
    }

    pub(crate) fn u8(&mut self, value: u8) -> io::Result<()> {
        self.bytes(&[value])
    }

    pub(crate) fn u16(&mut self, value: u16) -> io::Result<()> {
        self.bytes(&value.to_le_bytes())
    }

    #[inline]
    pub(crate) fn u32(&mut self, value: u32) -> io::Result<()> {
        self.bytes(&value.to_le_bytes())
    }

    #[inline]
    pub(crate) fn u64(&mut self, value: u64) -> io::Result<()> {
        self.bytes(&value.to_le_bytes())
    }

    #[inline]
    pub(crate) fn i64(&mut self, value: i64) -> io::Result<()> {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn i16(&mut self, value: i16) -> io::Result<()> {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn f32(&mut self, value: f32) -> io::Result<()> {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn f64(&mut self, value: f64) -> io::Result<()> {
        self.bytes(&value.to_le_bytes())
    }

    /// `Int24`; larger values become the largest.
    #[inline]
    pub(crate) fn int24(&mut self, value: u32) -> io::Result<()> {
        self.bytes(&value.min((1 << 24) - 1).to_le_bytes()[..3])
    }

    /// The count before the items of a section.
    pub(crate) fn count(&mut self, items: usize) -> io::Result<()> {
        self.u64(items as u64)
    }

    /// `StringIdx`.
    pub(crate) fn string_index(&mut self, text: u32) -> io::Result<()> {
        self.int24(text + 1)
    }

    /// `StringIdx` that may be none.
    pub(crate) fn optional_string_index(&mut self, text: Option<u32>) -> io::Result<()> {
        self.int24(text.map_or(0, |text| text + 1))
    }

    /// `StringRef` by index.
    pub(crate) fn string_ref(&mut self, text: Option<u32>) -> io::Result<()> {
        self.u64(text.unwrap_or_default().into())?;
        self.u8(if text.is_some() { 3 } else { 0 })
    }

    /// A text with its length before it.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.count(text.len())?;
        self.bytes(text.as_bytes())
    }
}
