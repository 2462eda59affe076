//! The zones that are open on a thread, as far as they are known.

use syscollect_zone_protocol::ended_depth;

/// Zones that are open, the outermost first, each with its depth: the number
/// of zones that the program had open before it.
///
/// Depths make the list right again after a loss: what lies at the depth of a
/// zone that begins, or deeper, must have ended.
#[derive(Debug)]
pub(crate) struct OpenZones<T> {
    zones: Vec<(u32, T)>,
}

/// Depths from here on are no program's: they would let memory grow with events.
pub(crate) const MAX_DEPTH: u32 = 1 << 16;

/// What an end closes, from the innermost outwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Zones whose own end was lost.
    pub unfinished: usize,
    /// Then the zone that ends, if its beginning is known.
    pub ended: bool,
}

impl<T> Default for OpenZones<T> {
    fn default() -> Self {
        Self { zones: Vec::new() }
    }
}

impl<T> OpenZones<T> {
    /// How many are known.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.zones.len()
    }

    /// The innermost one with its depth.
    pub(crate) fn innermost(&mut self) -> Option<&mut (u32, T)> {
        self.zones.last_mut()
    }

    /// The one at that depth.
    pub(crate) fn at(&self, depth: u32) -> Option<&T> {
        let index = self.zones.binary_search_by_key(&depth, |(depth, _)| *depth).ok()?;
        self.zones.get(index).map(|(_, zone)| zone)
    }

    /// Forgets what lies at that depth or deeper; how many these were.
    pub(crate) fn leave(&mut self, depth: u32) -> usize {
        let kept = self.zones.partition_point(|(of, _)| *of < depth);
        let left = self.zones.len() - kept;
        self.zones.truncate(kept);
        left
    }

    /// A zone begins; how many that were thought open have ended before it.
    pub(crate) fn begin(&mut self, depth: u32, zone: T) -> usize {
        let left = self.leave(depth);
        self.zones.push((depth, zone));
        left
    }

    /// A zone ends and leaves that many open, of which the low six bits are known.
    /// It is the nearest to the innermost that fits.
    pub(crate) fn end(&mut self, left: u8) -> End {
        let Some((innermost, _)) = self.zones.last() else {
            return End { unfinished: 0, ended: false };
        };
        match ended_depth(*innermost, left) {
            Some(depth) => self.end_at(depth),
            None => End { unfinished: 0, ended: false },
        }
    }

    /// The zone at that depth ends.
    pub(crate) fn end_at(&mut self, depth: u32) -> End {
        let ended = self.at(depth).is_some();
        let closed = self.leave(depth);
        End { unfinished: closed - usize::from(ended), ended }
    }

    /// All depths are that much greater than was thought.
    pub(crate) fn deepen(&mut self, by: u32) {
        self.zones.iter_mut().for_each(|(depth, _)| *depth = depth.saturating_add(by));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn opened(depths: &[u32]) -> OpenZones<u32> {
        let mut open = OpenZones::default();
        depths.iter().for_each(|depth| {
            open.begin(*depth, *depth);
        });
        open
    }

    #[test]
    fn an_end_whose_inner_ends_are_lost_closes_them_too() {
        let mut open = opened(&[0, 1, 2, 3]);
        assert_eq!(open.end(1), End { unfinished: 2, ended: true });
        assert_eq!(open.len(), 1);
    }

    #[test]
    fn an_end_whose_beginning_is_lost_closes_nothing() {
        let mut open = opened(&[0, 1]);
        assert_eq!(open.end(2), End { unfinished: 0, ended: false });
        assert_eq!(opened(&[]).end(0), End { unfinished: 0, ended: false });
        // The zone at depth 1 was never seen; what lay in it has ended all the same.
        assert_eq!(opened(&[0, 2, 3]).end(1), End { unfinished: 2, ended: false });
    }

    #[test]
    fn depths_beyond_sixty_four_are_told_by_their_low_bits() {
        let mut open = opened(&(0..200).collect::<Vec<_>>());
        for left in (0..200u32).rev() {
            assert_eq!(open.end((left % 64) as u8), End { unfinished: 0, ended: true });
        }
    }

    #[test]
    fn a_beginning_tells_that_others_have_ended() {
        let mut open = opened(&[0, 1, 2]);
        assert_eq!(open.begin(1, 9), 2);
        assert_eq!(open.innermost(), Some(&mut (1, 9)));
    }

    proptest! {
        /// A program that begins and ends zones, of whose items up to twenty in
        /// a row are lost: once something is said, nothing deeper stays open.
        #[test]
        fn what_is_open_is_never_deeper_than_the_program(
            steps in prop::collection::vec((any::<bool>(), any::<bool>()), 0..300),
        ) {
            let (mut open, mut depth, mut balance, mut silence) =
                (OpenZones::default(), 0u32, 0, 0);
            for (begins, lost) in steps {
                silence = if lost && silence < 20 { silence + 1 } else { 0 };
                if begins {
                    balance += 1 - if silence == 0 { open.begin(depth, ()) as i64 } else { 1 };
                    depth += 1;
                } else if depth > 0 {
                    depth -= 1;
                    if silence == 0 {
                        let End { unfinished, ended } = open.end((depth % 64) as u8);
                        balance -= unfinished as i64 + i64::from(ended);
                    }
                }
                prop_assert_eq!(open.len() as i64, balance);
                let innermost = open.innermost().map(|(depth, ())| *depth);
                prop_assert!(
                    silence > 0
                        || depth == 0
                        || innermost.is_none_or(|innermost| innermost < depth)
                );
            }
        }
    }
}
