//! Whose causes a trigger asks for.

use crate::cause::NamePattern;
use crate::threads::Threads;
use crate::trigger::{Trigger, UserCondition};
use rustc_hash::FxHashMap;

/// What a trigger asks of whose a cause is.
#[derive(Debug)]
struct Scope {
    /// A program, or one of its threads.
    program: Option<NamePattern>,
    user: Option<u32>,
}

/// What triggers ask of whose a cause is, of those that ask for something.
#[derive(Debug, Default)]
pub(crate) struct Scopes(FxHashMap<usize, Scope>);

impl Scopes {
    pub(crate) fn new<'t>(triggers: impl Iterator<Item = (usize, &'t Trigger)>) -> Self {
        let scopes = triggers.filter_map(|(index, Trigger { program, user, .. })| {
            let user = user.as_ref().and_then(UserCondition::number);
            (program.is_some() || user.is_some())
                .then(|| (index, Scope { program: program.clone(), user }))
        });
        Self(scopes.collect())
    }

    /// Whether a trigger asks for what that thread of that user does.
    #[inline]
    pub(crate) fn admit(
        &self,
        trigger: usize,
        tid: Option<u32>,
        user: Option<u32>,
        threads: &Threads,
    ) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let Some(Scope { program, user: wanted }) = self.0.get(&trigger) else { return true };
        let is_of_user = wanted.is_none_or(|wanted| {
            user == Some(wanted) || user.is_some() && threads.payer(user).user() == Some(wanted)
        });
        is_of_user
            && match (program, tid) {
                (None, _) => true,
                (program, Some(tid)) => threads.matches(tid, program.as_ref()),
                (Some(_), None) => false,
            }
    }
}
