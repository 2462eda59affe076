//! Numbers of which differences are known: sets of them that hang together.

/// Numbers, some of which are known to be others plus something.
///
/// ```text
/// relate(a, b, 8); relate(b, c, -8); fix(c, 0)  =>  a = 0, b = 8, c = 0
/// ```
///
/// Sets that hang together are merged as in a union-find structure, each number with its distance
/// from its set's first.
#[derive(Debug)]
pub(super) struct Depths {
    /// Of each number: another of its set, and what it is more than that.
    parents: Vec<(u32, i64)>,
    /// Of each set's first number.
    sets: Vec<DepthSet>,
}

#[derive(Clone, Copy, Debug, Default)]
struct DepthSet {
    /// What the first number is, if that is known.
    value: Option<i64>,
    size: u32,
    /// What is known contradicts itself.
    is_contradictory: bool,
}

impl Depths {
    /// So many numbers of which nothing is known.
    pub(super) fn new(count: usize) -> Self {
        let alone = DepthSet { size: 1, ..DepthSet::default() };
        Self { parents: (0..count as u32).map(|own| (own, 0)).collect(), sets: vec![alone; count] }
    }

    /// The number is that.
    pub(super) fn fix(&mut self, number: usize, value: i64) {
        let (set, distance) = self.find(number);
        self.sets[set].fix(value.wrapping_sub(distance));
    }

    /// `other` is `number` plus `by`.
    pub(super) fn relate(&mut self, number: usize, other: usize, by: i64) {
        let (set, distance) = self.find(number);
        let (other_set, other_distance) = self.find(other);
        // What the other set's first number is more than this one's.
        let apart = distance.wrapping_add(by).wrapping_sub(other_distance);
        if set == other_set {
            self.sets[set].is_contradictory |= apart != 0;
            return;
        }
        let (small, large, apart) = match self.sets[set].size < self.sets[other_set].size {
            true => (set, other_set, apart.wrapping_neg()),
            false => (other_set, set, apart),
        };
        let joined = self.sets[small];
        self.parents[small] = (large as u32, apart);
        let into = &mut self.sets[large];
        into.size += joined.size;
        into.is_contradictory |= joined.is_contradictory;
        if let Some(value) = joined.value {
            into.fix(value.wrapping_sub(apart));
        }
    }

    /// How much more `other` is than `number`, if that is known.
    pub(super) fn difference(&mut self, number: usize, other: usize) -> Option<i64> {
        let (set, distance) = self.find(number);
        let (other_set, other_distance) = self.find(other);
        (set == other_set).then(|| other_distance.wrapping_sub(distance))
    }

    /// A number that stands for the set, the same for all in it.
    pub(super) fn set_of(&mut self, number: usize) -> usize {
        self.find(number).0
    }

    /// What the number is; `None` where nothing says so, or something else, too.
    pub(super) fn value(&mut self, number: usize) -> Option<i64> {
        let (set, distance) = self.find(number);
        let DepthSet { value, is_contradictory, .. } = self.sets[set];
        value.filter(|_| !is_contradictory).map(|value| value.wrapping_add(distance))
    }

    /// The first number of the set, and what this one is more.
    fn find(&mut self, number: usize) -> (usize, i64) {
        let (mut at, mut distance) = (number, 0i64);
        loop {
            let (parent, more) = self.parents[at];
            if parent as usize == at {
                break;
            }
            distance = distance.wrapping_add(more);
            at = parent as usize;
        }
        let first = at;
        // The next time it is found at once.
        let (mut at, mut left) = (number, distance);
        while at != first {
            let (parent, more) = std::mem::replace(&mut self.parents[at], (first as u32, left));
            left = left.wrapping_sub(more);
            at = parent as usize;
        }
        (first, distance)
    }
}

impl DepthSet {
    fn fix(&mut self, value: i64) {
        self.is_contradictory |= self.value.is_some_and(|known| known != value);
        self.value = Some(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_hangs_together_is_known_by_one_of_it() {
        let mut depths = Depths::new(4);
        depths.relate(0, 1, 8);
        depths.relate(1, 2, -8);
        assert_eq!(depths.value(1), None);
        depths.fix(2, 0);
        assert_eq!(
            [0, 1, 2, 3].map(|number| depths.value(number)),
            [Some(0), Some(8), Some(0), None]
        );
        depths.fix(1, 16);
        assert_eq!(depths.value(0), None, "two things are said");
    }

    proptest! {
        /// Whatever is related in whichever order, values that agree are found, and one that does
        /// not is noticed.
        #[test]
        fn values_are_found_by_any_path(
            values in prop::collection::vec(-1000i64..1000, 2..40),
            pairs in prop::collection::vec((0usize..40, 0usize..40), 0..120),
            fixed in 0usize..40,
        ) {
            let count = values.len();
            let mut depths = Depths::new(count);
            depths.fix(fixed % count, values[fixed % count]);
            let mut reached = vec![false; count];
            reached[fixed % count] = true;
            let pairs: Vec<_> = pairs.iter().map(|(a, b)| (a % count, b % count)).collect();
            for (a, b) in &pairs {
                depths.relate(*a, *b, values[*b] - values[*a]);
            }
            for _ in 0..count {
                for (a, b) in &pairs {
                    let either = reached[*a] || reached[*b];
                    (reached[*a], reached[*b]) = (either, either);
                }
            }
            for number in 0..count {
                prop_assert_eq!(depths.value(number), reached[number].then_some(values[number]));
            }
            if let Some((a, b)) = pairs.first() {
                depths.relate(*a, *b, values[*b] - values[*a] + 1);
                prop_assert_eq!(depths.value(*a), None);
            }
        }
    }
}
