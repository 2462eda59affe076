//! What is open inside each other, to a depth.

/// Slices, waits, zones that are open on one track, the innermost last: each ends before the one
/// that it began in. What is deeper than `MOST` is only counted, so that its end is not taken for
/// another's, and memory stays bounded whatever begins and never ends.
#[derive(Debug)]
pub struct Nesting<T, const MOST: usize> {
    open: Vec<T>,
    /// How many more are open inside the innermost of `open`.
    deeper: u64,
}

impl<T, const MOST: usize> Default for Nesting<T, MOST> {
    fn default() -> Self {
        Self { open: Vec::new(), deeper: 0 }
    }
}

impl<T, const MOST: usize> Nesting<T, MOST> {
    /// Whether there is room for another one. Where there is none it is counted, and must not be
    /// [pushed](Self::push).
    pub fn begin(&mut self) -> bool {
        let has_room = self.open.len() < MOST;
        self.deeper += u64::from(!has_room);
        has_room
    }

    /// Adds one that [`begin`](Self::begin) had room for.
    pub fn push(&mut self, item: T) {
        self.open.push(item);
    }

    /// The innermost one; `None` where nothing is open, or where that is too deep to be here.
    pub fn innermost(&mut self) -> Option<&mut T> {
        self.open.last_mut().filter(|_| self.deeper == 0)
    }

    /// Ends the innermost one; `None` as [`innermost`](Self::innermost).
    pub fn end(&mut self) -> Option<T> {
        match self.deeper.checked_sub(1) {
            Some(deeper) => {
                self.deeper = deeper;
                None
            }
            None => self.open.pop(),
        }
    }

    /// Whether nothing is open, however deep.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.deeper == 0
    }

    /// Those that are here, the outermost first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.open.iter()
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.open.iter_mut()
    }

    /// The same, for good: nothing more comes.
    pub fn into_open(self) -> impl Iterator<Item = T> {
        self.open.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// As a list without a bound, of which only the outermost are looked at.
        #[test]
        fn an_end_is_of_what_began_last_however_deep_that_was(
            begins in prop::collection::vec(any::<bool>(), 0..200),
        ) {
            const MOST: usize = 4;
            let (mut nesting, mut all) = (Nesting::<usize, MOST>::default(), Vec::new());
            for (number, begins) in begins.into_iter().enumerate() {
                if begins {
                    if nesting.begin() {
                        nesting.push(number);
                    }
                    all.push(number);
                } else {
                    let is_kept = all.len() <= MOST;
                    prop_assert_eq!(nesting.end(), all.pop().filter(|_| is_kept));
                }
                let innermost = all.last().copied().filter(|_| all.len() <= MOST);
                prop_assert_eq!(nesting.innermost().copied(), innermost);
                prop_assert!(nesting.iter().eq(all.iter().take(MOST)));
                prop_assert_eq!(nesting.is_empty(), all.is_empty());
            }
        }
    }
}
