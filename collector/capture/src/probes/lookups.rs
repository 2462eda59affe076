//! Functions that programs ask for by name and call by address.
//!
//! Vulkan's loader gives programs the functions of the driver itself, which nothing exports. So
//! each answer of the functions that give addresses is looked at: its question is the hit where it
//! is entered, its answer the hit where it returns. A question and its answer that were drained in
//! the wrong order, because the thread changed its CPU in between, are missed.
//!
//! A name that its program had not read into memory yet cannot be read at the hit. It is read when
//! the answer is there, by its address: such names are constants.

use rustc_hash::FxHashMap;
use syscollect_probes::{FunctionPreset, library_presets};
use syscollect_records::ProbeRecord;
use syscollect_untrusted_files::read_memory;

/// Numbers of the probes on such functions have this bit.
pub(super) const OF_LOOKUP: u32 = 1 << 29;
/// Those where they return have this bit, too.
pub(super) const ANSWER: u32 = 1 << 28;

/// Threads that have asked and have no answer yet; more than a machine has CPUs to do so at once.
const OPEN_MAX: usize = 4096;

/// No name that is known is longer.
const NAME_MAX: usize = 64;

/// A function as it is known, with the track of its interface.
pub(super) type KnownFunction = (&'static str, &'static FunctionPreset);

/// An address that a program was given, of a function that may be known.
#[derive(Clone, Debug)]
pub(super) struct FoundFunction {
    /// The process.
    pub(super) pid: u32,
    /// Where the function lies in its memory.
    pub(super) address: u64,
    asked: LookupTarget,
}

/// What was asked for.
#[derive(Clone, Copy, Debug)]
enum LookupTarget {
    For(KnownFunction),
    /// Its name lies at this address of the process.
    At(u64),
}

impl FoundFunction {
    /// What is known of the function.
    pub(super) fn known(&self) -> Option<KnownFunction> {
        let LookupTarget::At(address) = self.asked else {
            let LookupTarget::For(known) = self.asked else { return None };
            return Some(known);
        };
        let bytes = read_memory(self.pid, address, NAME_MAX).ok()?;
        let name = bytes.split(|byte| *byte == 0).next()?;
        known(std::str::from_utf8(name).ok()?)
    }
}

/// Questions that wait for their answers, by thread.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    open: FxHashMap<u32, LookupTarget>,
}

impl Lookups {
    /// A hit of a probe with [`OF_LOOKUP`]; what it tells.
    pub(super) fn hit(&mut self, hit: &ProbeRecord, record: &[u8]) -> Option<FoundFunction> {
        let behind = record.get(ProbeRecord::SIZE..)?;
        let (word, strings) = behind.split_first_chunk()?;
        if hit.probe & ANSWER != 0 {
            let asked = self.open.remove(&hit.tid)?;
            let address = u64::from_le_bytes(*word);
            let answered = hit.unreadable == 0 && address != 0;
            return answered.then_some(FoundFunction { pid: hit.tgid, address, asked });
        }
        // One that was never answered is over when the thread asks again.
        self.open.remove(&hit.tid);
        let asked = match hit.texts {
            0 => LookupTarget::At(u64::from_le_bytes(*word)),
            _ => LookupTarget::For(known(text(strings)?)?),
        };
        if self.open.len() < OPEN_MAX {
            self.open.insert(hit.tid, asked);
        }
        None
    }
}

/// The first text of a record.
fn text(strings: &[u8]) -> Option<&str> {
    let length = usize::from(u16::from_le_bytes(*strings.first_chunk()?));
    std::str::from_utf8(strings.get(4..4 + length)?).ok()
}

/// The function of that name, with the track of its interface.
fn known(name: &str) -> Option<KnownFunction> {
    library_presets().find_map(|preset| Some((preset.track, preset.function(name)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(texts: u8, word: u64, text: &str) -> (ProbeRecord, Vec<u8>) {
        let probe = if text.is_empty() { ANSWER | OF_LOOKUP } else { OF_LOOKUP };
        let hit = ProbeRecord {
            tid: 8,
            tgid: std::process::id(),
            probe,
            arguments: 1,
            texts,
            ..ProbeRecord::default()
        };
        let mut bytes = hit.as_bytes().to_vec();
        bytes.extend(word.to_le_bytes());
        if texts != 0 {
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        (hit, bytes)
    }

    fn resolved(
        lookups: &mut Lookups,
        (hit, bytes): (ProbeRecord, Vec<u8>),
    ) -> Option<(u64, &'static str)> {
        let found = lookups.hit(&hit, &bytes)?;
        Some((found.address, found.known()?.1.name))
    }

    #[test]
    fn an_answer_belongs_to_the_question_that_its_thread_asked() {
        let lookups = &mut Lookups::default();
        assert_eq!(resolved(lookups, record(1, 0x5000, "vkQueuePresentKHR")), None);
        assert_eq!(resolved(lookups, record(0, 0x7000, "")), Some((0x7000, "vkQueuePresentKHR")));
        assert_eq!(resolved(lookups, record(0, 0x7000, "")), None, "that was answered");
    }

    #[test]
    fn nothing_is_found_of_what_is_unknown_or_not_there() {
        let lookups = &mut Lookups::default();
        resolved(lookups, record(1, 0x5000, "vkQueueSubmit"));
        assert_eq!(resolved(lookups, record(1, 0x5000, "vkCmdDraw")), None);
        assert_eq!(
            resolved(lookups, record(0, 0x7000, "")),
            None,
            "of a function that is not known"
        );
        resolved(lookups, record(1, 0x5000, "vkQueueSubmit"));
        assert_eq!(resolved(lookups, record(0, 0, "")), None, "the driver has none");
        resolved(lookups, record(1, 0x5000, "glFlush"));
        assert_eq!(resolved(lookups, record(0, 0x7000, "")), None, "its code is rewritten");
    }

    #[test]
    fn a_name_that_could_not_be_read_at_the_hit_is_read_with_the_answer() {
        let lookups = &mut Lookups::default();
        let name = c"vkWaitForFences";
        assert_eq!(resolved(lookups, record(0, name.as_ptr() as u64, "unreadable")), None);
        assert_eq!(resolved(lookups, record(0, 0x7000, "")), Some((0x7000, "vkWaitForFences")));
        resolved(lookups, record(0, 8, "unreadable"));
        assert_eq!(resolved(lookups, record(0, 0x7000, "")), None, "nothing lies there");
    }

    #[test]
    fn a_record_that_is_cut_tells_nothing() {
        let (hit, bytes) = record(1, 0x5000, "vkQueueSubmit");
        for length in 0..bytes.len() {
            assert!(Lookups::default().hit(&hit, &bytes[..length]).is_none());
        }
    }
}
