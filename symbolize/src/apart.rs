//! An ELF file of somebody who is not trusted, read in a process of its own.
//!
//! What readers of debug information make of a file has no bound that they know of: each level of
//! nested functions takes stack, each byte of a line program becomes a row, a compressed section
//! becomes what its end says. A file of some 100 KB made this program run out of stack, one of
//! 3 MB cost 4 GB. So a file that is neither root's nor the asking user's is read where running out
//! of memory, stack or time ends that reader alone.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use syscollect_model::SymbolFrame;

use crate::image::Image;
use crate::memory::{MEMORY_PATIENCE, NamingMemory, Share};
use crate::os::{Child, ChildLimits, ChildSocket};
use crate::reader::{ElfFunction, ElfReader};
use crate::turn::{NamingPace, NamingTurn};

/// How often it is looked whether there is time left.
const TICK: Duration = Duration::from_millis(20);
/// What a reader may take for each byte of its file, which honest ones stay below,
const MEMORY_PER_BYTE: u64 = 3;
/// and beside it.
const MEMORY_AT_LEAST: u64 = 128 << 20;
/// Answers are no longer.
const ANSWER_MAX: usize = 64 << 20;

/// What a reader may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReaderShare<'a> {
    /// Of this.
    pub(crate) memory: &'a NamingMemory,
    /// CPU time, which is put on this account.
    pub(crate) turn: &'a NamingTurn,
    /// And no more CPU time than this.
    pub(crate) cpu_time: Duration,
}

/// A file that is read in a process of its own, which is there from the first question on.
pub(crate) struct ElfReaderApart<'a> {
    image: &'a Image,
    share: ReaderShare<'a>,
    running: Option<RunningReader>,
}

struct RunningReader {
    child: Child,
    /// CPU time that is on the account.
    accounted: Duration,
    _memory: Share,
}

impl<'a> ElfReaderApart<'a> {
    pub(crate) fn new(image: &'a Image, share: ReaderShare<'a>) -> Self {
        Self { image, share, running: None }
    }

    /// As [`ElfReader::names`], as long as the pace is not beyond `slowest`.
    ///
    /// # Errors
    ///
    /// In words. The next question goes to another process.
    pub(crate) fn names(
        &mut self,
        addresses: &[u64],
        lines: bool,
        slowest: NamingPace,
    ) -> Result<Vec<Option<ElfFunction>>, String> {
        let mut running = match self.running.take() {
            Some(running) => running,
            None => self.start()?,
        };
        let question = Question { addresses: addresses.to_vec(), lines };
        running.child.send(&question.encode()).map_err(|_| gave_up())?;
        let mut head = [0; 8];
        self.receive(&mut running, &mut head, slowest)?;
        let mut answer = vec![0; (u64::from_le_bytes(head) as usize).min(ANSWER_MAX)];
        self.receive(&mut running, &mut answer, slowest)?;
        self.running = Some(running);
        let mut bytes = Bytes(&answer);
        let names = bytes.names().filter(|names| names.len() == addresses.len());
        names.ok_or_else(gave_up)
    }

    fn start(&self) -> Result<RunningReader, String> {
        let ReaderShare { memory, cpu_time, .. } = self.share;
        let wanted = self.image.bytes().saturating_mul(MEMORY_PER_BYTE) + MEMORY_AT_LEAST;
        let bytes = wanted.min(memory.all() / 2);
        let taken = memory.take(bytes, MEMORY_PATIENCE);
        let taken = taken.ok_or_else(|| format!("no memory for a reader with {bytes} bytes"))?;
        let limits = ChildLimits { memory: bytes, cpu_time };
        let child = Child::start(limits, |socket| answer_questions(self.image, socket));
        let child = child.map_err(|error| format!("no process to read it in: {error}"))?;
        Ok(RunningReader { child, accounted: Duration::ZERO, _memory: taken })
    }

    /// Waits for so many bytes.
    fn receive(
        &self,
        running: &mut RunningReader,
        bytes: &mut [u8],
        slowest: NamingPace,
    ) -> Result<(), String> {
        let mut filled = 0;
        while filled < bytes.len() {
            let received = running.child.receive(&mut bytes[filled..], TICK);
            running.account(self.share.turn);
            match received {
                Ok(Some(0)) | Err(_) => return Err(gave_up()),
                Ok(Some(count)) => filled += count,
                Ok(None) if self.share.turn.pace() > slowest => {
                    return Err("finding them takes too long".into());
                }
                Ok(None) => {}
            }
        }
        Ok(())
    }
}

impl RunningReader {
    fn account(&mut self, turn: &NamingTurn) {
        let now = self.child.cpu_time().max(self.accounted);
        turn.spend_elsewhere(now - self.accounted);
        self.accounted = now;
    }
}

fn gave_up() -> String {
    "its reader gave up on it, or ran out of memory".into()
}

/// What runs in the process.
fn answer_questions(image: &Image, mut socket: ChildSocket) {
    let reader = ElfReader::new(image);
    while let Some(Question { addresses, lines }) = Question::receive(&mut socket) {
        // Without an answer this ends, and the next question goes to another process.
        let Ok(names) = reader.names(&addresses, lines) else { return };
        let mut answer = vec![0; 8];
        encode_names(&names, &mut answer);
        let length = answer.len() - 8;
        answer[..8].copy_from_slice(&(length as u64).to_le_bytes());
        if length > ANSWER_MAX || socket.write_all(&answer).is_err() {
            return;
        }
    }
}

/// What is asked for.
#[derive(Debug, PartialEq)]
struct Question {
    addresses: Vec<u64>,
    lines: bool,
}

impl Question {
    fn encode(&self) -> Vec<u8> {
        let head = [u64::from(self.lines), self.addresses.len() as u64];
        head.iter().chain(&self.addresses).flat_map(|word| word.to_le_bytes()).collect()
    }

    /// `None` where nobody asks any more.
    fn receive(socket: &mut ChildSocket) -> Option<Self> {
        let mut word = [0; 8];
        socket.read_exact(&mut word).ok()?;
        let lines = word != [0; 8];
        socket.read_exact(&mut word).ok()?;
        let mut bytes = vec![0; u64::from_le_bytes(word) as usize * 8];
        socket.read_exact(&mut bytes).ok()?;
        let words = bytes.as_chunks().0.iter();
        Some(Self { addresses: words.map(|word| u64::from_le_bytes(*word)).collect(), lines })
    }
}

/// Of each: whether it is there, start, size, whether only its range is known, its frames.
fn encode_names(names: &[Option<ElfFunction>], out: &mut Vec<u8>) {
    out.extend((names.len() as u64).to_le_bytes());
    for named in names {
        let Some(ElfFunction { start, size, range_only, frames }) = named else {
            out.extend(0_u64.to_le_bytes());
            continue;
        };
        let numbers = [1, *start, *size, u64::from(*range_only), frames.len() as u64];
        out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        for SymbolFrame { function, file, line } in frames {
            out.extend(u64::from(*line).to_le_bytes());
            for text in [function, file] {
                out.extend((text.len() as u64).to_le_bytes());
                out.extend(text.as_bytes());
            }
        }
    }
}

/// What is left of an answer: of a process that a hostile file may have taken over.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    fn frame(&mut self) -> Option<SymbolFrame> {
        let line = u32::try_from(self.number()?).ok()?;
        Some(SymbolFrame { function: self.text()?, file: self.text()?, line })
    }

    fn named(&mut self) -> Option<Option<ElfFunction>> {
        if self.number()? == 0 {
            return Some(None);
        }
        let (start, size, range_only) = (self.number()?, self.number()?, self.number()? != 0);
        let count = self.number()?;
        let frames = (0..count).map(|_| self.frame()).collect::<Option<_>>()?;
        Some(Some(ElfFunction { start, size, range_only, frames }))
    }

    fn names(&mut self) -> Option<Vec<Option<ElfFunction>>> {
        let count = self.number()?;
        (0..count).map(|_| self.named()).collect()
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use syscollect_untrusted_files::{FileLocation, open};

    use super::*;
    use crate::elf::Layout;
    use crate::image::WantedParts;
    use crate::object_in_tests::{START, object, object_with_compressed};

    /// What a reader of its own and one of this thread say of an object, with lines and without.
    struct ComparedNames {
        apart: [Result<Vec<Option<ElfFunction>>, String>; 2],
        image: Image,
        turn: NamingTurn,
    }

    fn ask(object: &[u8], pace: NamingPace) -> ComparedNames {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.o");
        std::fs::write(&path, object).unwrap();
        let file = open(&FileLocation::Named(&path), None).unwrap();
        let layout = Layout::read(file.reader()).unwrap();
        let memory = NamingMemory::new(96 << 20);
        let wanted = WantedParts { lines: true, supplement: None };
        let image = Image::make(&file, &layout, wanted, &memory).unwrap();
        let turn = NamingTurn::default();
        turn.slow_to(pace);
        let share = ReaderShare { memory: &memory, turn: &turn, cpu_time: Duration::from_secs(20) };
        let mut reader = ElfReaderApart::new(&image, share);
        let apart =
            [true, false].map(|lines| reader.names(&[START + 4, 0], lines, NamingPace::Quick));
        drop(reader);
        ComparedNames { apart, image, turn }
    }

    #[test]
    fn another_process_says_what_this_one_would() {
        let ComparedNames { apart, image, .. } = ask(&object(3), NamingPace::Thorough);
        let here = ElfReader::new(&image);
        let here = [true, false].map(|lines| here.names(&[START + 4, 0], lines));
        assert_eq!(apart, here);
        let named = apart[0].as_ref().unwrap()[0].as_ref().unwrap();
        assert_eq!(named.frames.len(), 4);
    }

    #[test]
    fn a_file_that_takes_all_stack_is_named_from_its_symbols() {
        let ComparedNames { apart, turn, .. } = ask(&object(400_000), NamingPace::Thorough);
        assert_eq!(apart[0], Err(gave_up()));
        let named = apart[1].as_ref().unwrap()[0].as_ref().unwrap();
        assert_eq!(named.frames.len(), 1);
        assert!(turn.spent_elsewhere() > Duration::ZERO);
    }

    #[test]
    fn a_section_that_inflates_to_more_than_it_says_is_not_believed() {
        let mut stream = ZlibEncoder::new(Vec::new(), Compression::fast());
        let zeroes = vec![0; 1 << 20];
        (0..200).for_each(|_| stream.write_all(&zeroes).unwrap());
        let bomb = object_with_compressed(1000, &stream.finish().unwrap());
        let ComparedNames { apart, .. } = ask(&bomb, NamingPace::Thorough);
        assert_eq!(apart[0], Err(gave_up()));
        assert!(apart[1].as_ref().unwrap()[0].is_some());
    }

    #[test]
    fn who_has_no_time_left_does_not_wait_for_the_reader() {
        let ComparedNames { apart, .. } = ask(&object(400_000), NamingPace::Over);
        let late = apart[0].as_ref().unwrap_err();
        assert!([&gave_up(), "finding them takes too long"].contains(&late.as_str()), "{late}");
    }

    #[test]
    fn an_answer_that_is_none_is_refused() {
        let mut answer = Vec::new();
        let frame = SymbolFrame { function: "f".into(), file: "a.c".into(), line: 7 };
        let named = ElfFunction { start: 1, size: 2, range_only: true, frames: vec![frame] };
        let names = [None, Some(named)];
        encode_names(&names, &mut answer);
        assert_eq!(Bytes(&answer).names().as_deref(), Some(&names[..]));
        for end in 0..answer.len() {
            assert_eq!(Bytes(&answer[..end]).names(), None, "{end} bytes of it");
        }
        let endless = [u64::MAX.to_le_bytes(); 3].concat();
        assert_eq!(Bytes(&endless).names(), None);
    }
}
