//! The numbers of each version of the protocol.
//!
//! Every release of Tracy numbers its messages anew, and a viewer accepts its own version only. A
//! further version is a further table; what is written is the same for all, as long as its fields
//! are.

/// A message to the viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Text of the innermost zone.
    ZoneText,
    /// Name of the innermost zone.
    ZoneName,
    /// A message of the thread.
    Message,
    /// The same with a colour.
    MessageColor,
    /// The same as [`Self::MessageColor`] with a call stack.
    MessageColorCallstack,
    /// A line about the program.
    MessageAppInfo,
    /// The call stack before it belongs to what comes next of no thread.
    CallstackSerial,
    /// The call stack before it belongs to what comes next of the thread.
    Callstack,
    /// A sample, in three lengths of its time.
    CallstackSample,
    /// The same.
    CallstackSample32,
    /// The same.
    CallstackSample16,
    /// Where a thread left its CPU, in three lengths of its time.
    CallstackSampleContextSwitch,
    /// The same.
    CallstackSampleContextSwitch32,
    /// The same.
    CallstackSampleContextSwitch16,
    /// A zone begins, in three lengths of its time.
    ZoneBegin,
    /// The same.
    ZoneBegin32,
    /// The same.
    ZoneBegin16,
    /// The same with a call stack.
    ZoneBeginCallstack,
    /// The same.
    ZoneBeginCallstack32,
    /// The same.
    ZoneBeginCallstack16,
    /// A zone ends, in three lengths of its time.
    ZoneEnd,
    /// The same.
    ZoneEnd32,
    /// The same.
    ZoneEnd16,
    /// A thread waits for a lock.
    LockWait,
    /// It has it.
    LockObtain,
    /// Its holder lets go.
    LockRelease,
    /// A thread waits to read.
    LockSharedWait,
    /// It reads.
    LockSharedObtain,
    /// It stops to read.
    LockSharedRelease,
    /// What a lock is called.
    LockName,
    /// Memory is allocated.
    MemAlloc,
    /// The same in a pool.
    MemAllocNamed,
    /// Memory is freed.
    MemFree,
    /// The same in a pool.
    MemFreeNamed,
    /// With a call stack.
    MemAllocCallstack,
    /// With a call stack.
    MemAllocCallstackNamed,
    /// With a call stack.
    MemFreeCallstack,
    /// With a call stack.
    MemFreeCallstackNamed,
    /// A job of a GPU begins, as its program sees it.
    GpuZoneBeginSerial,
    /// It ends, as its program sees it.
    GpuZoneEndSerial,
    /// A value of a plot.
    PlotDataDouble,
    /// A CPU goes from one thread to another.
    ContextSwitch,
    /// A thread is woken.
    ThreadWakeup,
    /// When the GPU did what a query stands for.
    GpuTime,
    /// What a GPU's context is called.
    GpuContextName,
    /// How many functions an address stands for.
    CallstackFrameSize,
    /// Where a function is written.
    SymbolInformation,
    /// Nothing more comes.
    Terminate,
    /// Nothing is to be told.
    KeepAlive,
    /// Of which thread the next ones are.
    ThreadContext,
    /// What took the program down.
    CrashReport,
    /// Colour of the innermost zone.
    ZoneColor,
    /// A frame ends and the next begins.
    FrameMark,
    /// A frame begins.
    FrameMarkStart,
    /// It ends.
    FrameMarkEnd,
    /// A source location.
    SourceLocation,
    /// There is a lock.
    LockAnnounce,
    /// Where the lock was taken.
    LockMark,
    /// There is a context of a GPU.
    GpuNewContext,
    /// A function of an address.
    CallstackFrame,
    /// The load of all CPUs.
    SysTimeReport,
    /// Whose thread it is.
    TidToPid,
    /// How a plot is shown.
    PlotConfig,
    /// The polite no.
    Noop,
    /// There is no such source.
    SourceCodeNotAvailable,
    /// There is no such code.
    SymbolCodeNotAvailable,
    /// Where a CPU is.
    CpuTopology,
    /// A text for what comes next, of 256 bytes or more.
    SingleString,
    /// A second one.
    SecondString,
    /// A text for what comes next, shorter.
    SingleString8,
    /// A second one.
    SecondString8,
    /// The pool of what comes next.
    MemNamePayload,
    /// Which threads are shown together.
    ThreadGroupHint,
    /// A text that was asked for.
    StringData,
    /// A thread's name that was asked for.
    ThreadName,
    /// A plot's name that was asked for.
    PlotName,
    /// The addresses of a call stack.
    CallstackPayload,
    /// A frame set's name that was asked for.
    FrameName,
    /// The name of a thread's process.
    ExternalName,
    /// The name of a thread that only switches.
    ExternalThreadName,
}

/// How many kinds there are.
const KINDS: usize = Kind::ExternalThreadName as usize + 1;

/// What a viewer asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Query {
    /// It has all that it wants: the connection ends.
    Terminate,
    /// A text.
    String,
    /// The name of a thread.
    ThreadString,
    /// A source location.
    SourceLocation,
    /// The name of a plot.
    PlotName,
    /// The name of a frame set.
    FrameName,
    /// The names of a thread of which only switches are known.
    ExternalName,
    /// No more events are wanted.
    Disconnect,
    /// The functions of an address.
    CallstackFrame,
    /// Where a function is written.
    Symbol,
    /// The machine code of a function.
    SymbolCode,
    /// A source file.
    SourceCode,
    /// Anything else.
    Other,
}

/// A version of the protocol.
#[derive(Debug)]
pub struct Version {
    /// Its number.
    pub number: u32,
    /// The viewers that speak it.
    pub viewers: &'static str,
    /// By [`Kind`]: its number and how many bytes follow it, texts apart.
    messages: [(u8, u8); KINDS],
    /// By number.
    queries: &'static [Query],
}

impl Version {
    /// The version with this number, if we speak it.
    pub fn find(number: u32) -> Option<&'static Self> {
        ALL.into_iter().find(|version| version.number == number)
    }

    /// The newest that we speak.
    pub fn newest() -> &'static Self {
        &V82
    }

    /// The number of a message.
    #[inline]
    pub fn code(&self, kind: Kind) -> u8 {
        self.messages[kind as usize].0
    }

    /// How many bytes follow the number, texts apart.
    #[inline]
    pub fn length(&self, kind: Kind) -> usize {
        usize::from(self.messages[kind as usize].1)
    }

    /// What a query with this number asks.
    pub fn query(&self, number: u8) -> Query {
        self.queries.get(usize::from(number)).copied().unwrap_or(Query::Other)
    }
}

/// All that we speak.
const ALL: [&Version; 1] = [&V82];

/// Tracy 0.14.
static V82: Version = Version {
    number: 82,
    viewers: "0.14",
    messages: table(&[
        (Kind::ZoneText, 0, 0),
        (Kind::ZoneName, 1, 0),
        (Kind::Message, 2, 9),
        (Kind::MessageColor, 3, 12),
        (Kind::MessageColorCallstack, 5, 12),
        (Kind::MessageAppInfo, 6, 8),
        (Kind::CallstackSerial, 9, 0),
        (Kind::Callstack, 10, 0),
        (Kind::CallstackSample, 12, 12),
        (Kind::CallstackSample32, 13, 8),
        (Kind::CallstackSample16, 14, 6),
        (Kind::CallstackSampleContextSwitch, 15, 12),
        (Kind::CallstackSampleContextSwitch32, 16, 8),
        (Kind::CallstackSampleContextSwitch16, 17, 6),
        (Kind::ZoneBegin, 19, 16),
        (Kind::ZoneBegin32, 20, 12),
        (Kind::ZoneBegin16, 21, 10),
        (Kind::ZoneBeginCallstack, 22, 16),
        (Kind::ZoneBeginCallstack32, 23, 12),
        (Kind::ZoneBeginCallstack16, 24, 10),
        (Kind::ZoneEnd, 25, 8),
        (Kind::ZoneEnd32, 26, 4),
        (Kind::ZoneEnd16, 27, 2),
        (Kind::LockWait, 28, 16),
        (Kind::LockObtain, 29, 16),
        (Kind::LockRelease, 30, 12),
        (Kind::LockSharedWait, 31, 16),
        (Kind::LockSharedObtain, 32, 16),
        (Kind::LockSharedRelease, 33, 16),
        (Kind::LockName, 34, 4),
        (Kind::MemAlloc, 35, 26),
        (Kind::MemAllocNamed, 36, 26),
        (Kind::MemFree, 37, 20),
        (Kind::MemFreeNamed, 38, 20),
        (Kind::MemAllocCallstack, 39, 26),
        (Kind::MemAllocCallstackNamed, 40, 26),
        (Kind::MemFreeCallstack, 41, 20),
        (Kind::MemFreeCallstackNamed, 42, 20),
        (Kind::GpuZoneBeginSerial, 50, 23),
        (Kind::GpuZoneEndSerial, 54, 15),
        (Kind::PlotDataDouble, 57, 24),
        (Kind::ContextSwitch, 58, 22),
        (Kind::ThreadWakeup, 59, 15),
        (Kind::GpuTime, 60, 11),
        (Kind::GpuContextName, 61, 1),
        (Kind::CallstackFrameSize, 63, 9),
        (Kind::SymbolInformation, 64, 12),
        (Kind::Terminate, 73, 0),
        (Kind::KeepAlive, 74, 0),
        (Kind::ThreadContext, 75, 4),
        (Kind::CrashReport, 79, 16),
        (Kind::ZoneColor, 81, 3),
        (Kind::FrameMark, 83, 16),
        (Kind::FrameMarkStart, 84, 16),
        (Kind::FrameMarkEnd, 85, 16),
        (Kind::SourceLocation, 87, 31),
        (Kind::LockAnnounce, 88, 21),
        (Kind::LockMark, 90, 16),
        (Kind::GpuNewContext, 95, 27),
        (Kind::CallstackFrame, 96, 16),
        (Kind::SysTimeReport, 97, 12),
        (Kind::TidToPid, 99, 16),
        (Kind::PlotConfig, 106, 15),
        (Kind::Noop, 108, 0),
        (Kind::SourceCodeNotAvailable, 109, 4),
        (Kind::SymbolCodeNotAvailable, 110, 0),
        (Kind::CpuTopology, 111, 16),
        (Kind::SingleString, 112, 0),
        (Kind::SecondString, 113, 0),
        (Kind::SingleString8, 114, 0),
        (Kind::SecondString8, 115, 0),
        (Kind::MemNamePayload, 116, 8),
        (Kind::ThreadGroupHint, 117, 8),
        (Kind::StringData, 119, 8),
        (Kind::ThreadName, 120, 8),
        (Kind::PlotName, 121, 8),
        (Kind::CallstackPayload, 123, 8),
        (Kind::FrameName, 125, 8),
        (Kind::ExternalName, 127, 8),
        (Kind::ExternalThreadName, 128, 8),
    ]),
    queries: &[
        Query::Terminate,
        Query::String,
        Query::ThreadString,
        Query::SourceLocation,
        Query::PlotName,
        Query::FrameName,
        Query::Other,
        Query::Other,
        Query::ExternalName,
        Query::Disconnect,
        Query::CallstackFrame,
        Query::Symbol,
        Query::SymbolCode,
        Query::SourceCode,
    ],
};

/// The rows by kind. A kind that is missing does not compile.
const fn table(rows: &[(Kind, u8, u8); KINDS]) -> [(u8, u8); KINDS] {
    let mut by_kind = [(u8::MAX, 0); KINDS];
    let mut row = 0;
    while row < KINDS {
        let (kind, code, length) = rows[row];
        assert!(by_kind[kind as usize].0 == u8::MAX, "a kind is in the table twice");
        by_kind[kind as usize] = (code, length);
        row += 1;
    }
    by_kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_of_one_message_each_and_those_with_texts_are_the_last() {
        let version = Version::newest();
        let mut codes: Vec<u8> = version.messages.iter().map(|(code, _)| *code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), KINDS);
        let first_text = version.code(Kind::StringData);
        for kind in [Kind::ThreadName, Kind::CallstackPayload, Kind::ExternalThreadName] {
            assert!(version.code(kind) > first_text);
            assert_eq!(version.length(kind), 8);
        }
    }

    #[test]
    fn a_query_that_nobody_knows_is_none_of_ours() {
        let version = Version::newest();
        assert_eq!(version.query(13), Query::SourceCode);
        assert_eq!([14, 200].map(|number| version.query(number)), [Query::Other; 2]);
        assert!(Version::find(81).is_none());
    }
}
