//! Messages as bytes.
//!
//! Times of most messages are differences to the one before of their family. What the viewer
//! remembers for that is remembered here, so a writer serves one connection.

use crate::version::{Kind, Version};

/// The longest text that is told. Two of them and a stack are less than half a frame.
pub(crate) const MOST_TEXT: usize = 32 * 1024;
/// Differences from here on do not fit into the shortest form, and are told less by it.
const BEYOND_16: u64 = 1 << 16;
/// The same of the middle form.
const BEYOND_32: u64 = BEYOND_16 + (1 << 32);

/// The three forms of a message with a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forms {
    pub(crate) short: Kind,
    pub(crate) middle: Kind,
    pub(crate) long: Kind,
}

/// A sample.
pub(crate) const SAMPLE: Forms = Forms {
    short: Kind::CallstackSample16,
    middle: Kind::CallstackSample32,
    long: Kind::CallstackSample,
};

/// A sample of where a thread left its CPU.
pub(crate) const SWITCH_SAMPLE: Forms = Forms {
    short: Kind::CallstackSampleContextSwitch16,
    middle: Kind::CallstackSampleContextSwitch32,
    long: Kind::CallstackSampleContextSwitch,
};

/// A zone begins.
pub(crate) const ZONE_BEGIN: Forms =
    Forms { short: Kind::ZoneBegin16, middle: Kind::ZoneBegin32, long: Kind::ZoneBegin };

/// A zone with a call stack begins.
pub(crate) const ZONE_BEGIN_STACK: Forms = Forms {
    short: Kind::ZoneBeginCallstack16,
    middle: Kind::ZoneBeginCallstack32,
    long: Kind::ZoneBeginCallstack,
};

/// A zone ends.
pub(crate) const ZONE_END: Forms =
    Forms { short: Kind::ZoneEnd16, middle: Kind::ZoneEnd32, long: Kind::ZoneEnd };

/// To what the differences of a message's time are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Family {
    /// Switches, wakeups, samples.
    Cpus,
    /// What threads do themselves, and plots: from the last change of the thread on.
    Thread,
    /// Locks, memory, jobs of GPUs.
    Serial,
    /// The times of GPUs.
    Gpu,
}

/// The longest message with its number, texts apart: a source location.
const MOST_FIELDS: usize = 32;

/// Writes messages of one connection.
#[derive(Debug)]
pub(crate) struct Writer {
    version: &'static Version,
    bytes: Vec<u8>,
    thread: Option<u32>,
    references: [i64; 4],
}

impl Writer {
    pub(crate) fn new(version: &'static Version) -> Self {
        Self { version, bytes: Vec::new(), thread: None, references: [0; 4] }
    }

    /// What was written and not taken.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets so many bytes, which were taken.
    pub(crate) fn taken(&mut self, bytes: usize) {
        self.bytes.drain(..bytes);
    }

    /// A message; its fields follow.
    #[inline]
    pub(crate) fn begin(&mut self, kind: Kind) -> Message<'_> {
        let start = self.bytes.len();
        // Of a length that is known room is made without a call.
        self.bytes.extend_from_slice(&[0; MOST_FIELDS]);
        self.bytes.truncate(start + 1 + self.version.length(kind));
        Message { fields: &mut self.bytes[start..], length: 0 }.u8(self.version.code(kind))
    }

    /// A message without fields.
    pub(crate) fn plain(&mut self, kind: Kind) {
        drop(self.begin(kind));
    }

    /// The difference of a time to the one before of its family.
    pub(crate) fn difference(&mut self, family: Family, time: i64) -> i64 {
        let reference = &mut self.references[family as usize];
        let difference = time.wrapping_sub(*reference);
        *reference = time;
        difference
    }

    /// The thread that the next messages are of.
    pub(crate) fn thread(&mut self, thread: u32) {
        if self.thread == Some(thread) {
            return;
        }
        self.thread = Some(thread);
        self.references[Family::Thread as usize] = 0;
        self.begin(Kind::ThreadContext).u32(thread);
    }

    /// A message of this form of the time, which comes first.
    pub(crate) fn timed(&mut self, forms: Forms, family: Family, time: i64) -> Message<'_> {
        match form(self.difference(family, time)) {
            Form::Short(time) => self.begin(forms.short).u16(time),
            Form::Middle(time) => self.begin(forms.middle).u32(time),
            Form::Long(time) => self.begin(forms.long).i64(time),
        }
    }

    /// The same, where the thread comes first.
    pub(crate) fn timed_behind(&mut self, forms: Forms, thread: u32, time: i64) {
        match form(self.difference(Family::Cpus, time)) {
            Form::Short(time) => drop(self.begin(forms.short).u32(thread).u16(time)),
            Form::Middle(time) => drop(self.begin(forms.middle).u32(thread).u32(time)),
            Form::Long(time) => drop(self.begin(forms.long).u32(thread).i64(time)),
        }
    }

    /// A text for what comes next.
    pub(crate) fn single(&mut self, text: &str) {
        self.next_text(text, Kind::SingleString8, Kind::SingleString);
    }

    /// A second text for what comes next.
    pub(crate) fn second(&mut self, text: &str) {
        self.next_text(text, Kind::SecondString8, Kind::SecondString);
    }

    fn next_text(&mut self, text: &str, short: Kind, long: Kind) {
        let text = cut(text, MOST_TEXT);
        match u8::try_from(text.len()) {
            Ok(length) => {
                self.plain(short);
                self.bytes.push(length);
            }
            Err(_) => {
                self.plain(long);
                let more = text.len() - (usize::from(u8::MAX) + 1);
                self.bytes.extend_from_slice(&(more as u16).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// A text that was asked for by this number.
    pub(crate) fn answer(&mut self, kind: Kind, asked: u64, text: &str) {
        self.blob(kind, asked, cut(text, MOST_TEXT).as_bytes());
    }

    /// Addresses of a call stack, for what comes next.
    pub(crate) fn callstack(&mut self, addresses: impl ExactSizeIterator<Item = u64>) {
        self.begin(Kind::CallstackPayload).u64(0);
        let length = addresses.len() * size_of::<u64>();
        self.bytes.extend_from_slice(&(length as u16).to_le_bytes());
        let start = self.bytes.len();
        self.bytes.resize(start + length, 0);
        let words = self.bytes[start..].chunks_exact_mut(size_of::<u64>());
        words.zip(addresses).for_each(|(word, address)| {
            word.copy_from_slice(&address.to_le_bytes());
        });
    }

    fn blob(&mut self, kind: Kind, asked: u64, bytes: &[u8]) {
        self.begin(kind).u64(asked);
        self.bytes.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(bytes);
    }
}

/// How a difference is told.
enum Form {
    Short(u16),
    Middle(u32),
    Long(i64),
}

fn form(difference: i64) -> Form {
    match u64::try_from(difference) {
        Ok(difference) if difference < BEYOND_16 => Form::Short(difference as u16),
        Ok(difference) if difference < BEYOND_32 => Form::Middle((difference - BEYOND_16) as u32),
        Ok(difference) => Form::Long((difference - BEYOND_32) as i64),
        // Back in time: as it is.
        Err(_) => Form::Long(difference),
    }
}

/// A message of which fields are missing.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    fields: &'a mut [u8],
    length: usize,
}

macro_rules! field {
    ($($name:ident)*) => {
        $(#[inline]
        pub(crate) fn $name(self, value: $name) -> Self {
            self.append(&value.to_le_bytes())
        })*
    };
}

impl Message<'_> {
    field! { u8 u16 u32 u64 i8 i32 i64 f32 f64 }

    /// So many of its low bytes.
    pub(crate) fn low_bytes(self, value: u64, count: usize) -> Self {
        self.append(&value.to_le_bytes()[..count])
    }

    #[inline]
    fn append(mut self, bytes: &[u8]) -> Self {
        let end = self.length + bytes.len();
        self.fields[self.length..end].copy_from_slice(bytes);
        self.length = end;
        self
    }
}

impl Drop for Message<'_> {
    fn drop(&mut self) {
        // The table and who writes agree: a test writes each message once.
        debug_assert_eq!(self.length, self.fields.len(), "a message has another length");
    }
}

/// The longest beginning of `text` that has at most `bytes` bytes.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut writer = Writer::new(Version::newest());
        write(&mut writer);
        writer.bytes
    }

    fn zone_end(time: i64) -> Vec<u8> {
        written(|writer| drop(writer.timed(ZONE_END, Family::Thread, time)))
    }

    #[test]
    fn a_time_has_the_shortest_form_and_says_what_is_beyond_the_shorter_one() {
        assert_eq!(zone_end(0), [27, 0, 0]);
        assert_eq!(zone_end(65_535), [27, 255, 255]);
        assert_eq!(zone_end(65_536), [26, 0, 0, 0, 0]);
        assert_eq!(zone_end(65_535 + (1 << 32)), [26, 255, 255, 255, 255]);
        assert_eq!(zone_end(65_536 + (1 << 32)), [25, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(zone_end(-1), [25, 255, 255, 255, 255, 255, 255, 255, 255]);
    }

    #[test]
    fn differences_begin_anew_with_a_thread_and_stay_with_it() {
        let bytes = written(|writer| {
            for thread in [7, 7, 8, 7] {
                writer.thread(thread);
                drop(writer.timed(ZONE_END, Family::Thread, 100));
            }
        });
        let [seven, eight] = [[75, 7, 0, 0, 0, 27, 100, 0], [75, 8, 0, 0, 0, 27, 100, 0]];
        assert_eq!(bytes, [&seven[..], &[27, 0, 0], &eight, &seven].concat());
    }

    #[test]
    fn texts_of_256_bytes_have_the_long_form_and_begin_at_0_in_it() {
        let [short, long] = [255, 256].map(|length| {
            let text = "x".repeat(length);
            written(|writer| writer.single(&text))
        });
        assert_eq!((short.len(), &short[..2]), (257, &[114, 255][..]));
        assert_eq!((long.len(), &long[..3]), (259, &[112, 0, 0][..]));
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!([cut("ab", 5), cut("aé", 2), cut("é", 1)], ["ab", "a", ""]);
    }
}
