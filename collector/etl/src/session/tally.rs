//! What was played of stacks, counted.

/// What is known of stacks, once they were played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackFacts {
    /// Stacks that records tell: whole, in parts, by key, or with the event itself.
    pub records: u64,
    /// Of these, those whose event was found.
    pub matched: u64,
    /// Samples.
    pub samples: u64,
    /// Of these, those whose address lies in an image that the trace names.
    pub samples_in_images: u64,
    /// Switches of which the thread that leaves is the one that came last on that CPU.
    pub linked_switches: u64,
    /// Switches before which another was seen on that CPU.
    pub following_switches: u64,
}
