//! Shares of users: what one user's programs cause takes nothing from what another's do.

use rustc_hash::FxHashMap;

/// Whose share is taken by what somebody causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Payer {
    /// A user's: the ids that a user has besides pay from one share.
    User(u32),
    /// That of all of which it is not known whose they are, and of what is nobody's.
    Unknown,
}

impl Payer {
    const ROOT: Self = Self::User(0);

    /// The user's number; `None` of what is nobody's.
    pub fn user(self) -> Option<u32> {
        match self {
            Self::User(user) => Some(user),
            Self::Unknown => None,
        }
    }
}

/// Who pays for what a user does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PayerRule(pub(crate) fn(u32) -> u32);

impl Default for PayerRule {
    fn default() -> Self {
        Self(|user| user)
    }
}

impl PayerRule {
    pub(crate) fn of(self, user: Option<u32>) -> Payer {
        user.map_or(Payer::Unknown, |user| Payer::User((self.0)(user)))
    }
}

/// Something for each user. Users are without number: so many are told apart, root among them, and
/// all others are as one.
#[derive(Debug)]
pub(crate) struct PayerTable<T> {
    of_payers: FxHashMap<Payer, T>,
    others: Option<T>,
    most: usize,
}

impl<T> PayerTable<T> {
    pub(crate) fn new(most: usize) -> Self {
        Self { of_payers: FxHashMap::default(), others: None, most }
    }

    /// What is of this user. Where there is no room for one more, those that are `over` make it.
    #[inline]
    pub(crate) fn of(
        &mut self,
        payer: Payer,
        new: impl Fn() -> T,
        over: impl Fn(&T) -> bool,
    ) -> &mut T {
        let is_full = self.of_payers.len() >= self.most;
        if is_full && payer != Payer::ROOT && !self.of_payers.contains_key(&payer) {
            self.of_payers.retain(|_, one| !over(one));
            if self.of_payers.len() >= self.most {
                return self.others.get_or_insert_with(new);
            }
        }
        self.of_payers.entry(payer).or_insert_with(new)
    }

    /// The same where there is something.
    #[inline]
    pub(crate) fn get(&self, payer: Payer) -> Option<&T> {
        let of_payer = self.of_payers.get(&payer);
        // Nobody is among the others who would have room alone.
        of_payer.or_else(|| self.others.as_ref().filter(|_| self.of_payers.len() >= self.most))
    }

    /// Each, with whose it is; those of all others are nobody's.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Payer, &T)> {
        let of_payers = self.of_payers.iter().map(|(payer, one)| (*payer, one));
        of_payers.chain(self.others.iter().map(|others| (Payer::Unknown, others)))
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.of_payers.values_mut().chain(self.others.as_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_without_number_share_what_is_left_and_root_is_none_of_them() {
        let mut table = PayerTable::<u32>::new(2);
        for user in 1001..1100 {
            *table.of(Payer::User(user), || 0, |_| false) += 1;
        }
        let of = |table: &PayerTable<u32>, user| table.get(Payer::User(user)).copied();
        assert_eq!([1001, 1002, 1003].map(|user| of(&table, user)), [Some(1), Some(1), Some(97)]);
        assert_eq!(*table.of(Payer::ROOT, || 5, |_| false), 5);
        // What is over makes room.
        assert_eq!(*table.of(Payer::User(1003), || 7, |one| *one == 1), 7);
        assert_eq!([1001, 1003].map(|user| of(&table, user)), [Some(97), Some(7)]);
        assert_eq!(table.iter().count(), 3);
    }
}
