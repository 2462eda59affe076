//! Whether scopes of a list of symbols lie within each other, as walking them takes for granted.

/// Deeper chains of inlined calls are no compiler's work.
const DEPTH_MAX: usize = 1000;

/// Scopes that are open while symbols are walked in order.
///
/// A PDB's procedures and inlined calls say at which symbol they end. Readers jump
/// there and go down a level for each inlined call, so an end that lies before its
/// beginning, between two symbols, or outside the scope around it makes them go
/// in circles or without end.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    ends: Vec<u32>,
}

/// The scopes are damaged.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotNested;

impl Scopes {
    /// Goes on to the symbol at `index`, which opens a scope if it has an `end`.
    ///
    /// # Errors
    ///
    /// If a scope ended between symbols, or the new one does not fit.
    pub(crate) fn symbol(&mut self, index: u32, end: Option<u32>) -> Result<(), NotNested> {
        while let Some(innermost) =
            self.ends.last().copied().filter(|innermost| *innermost <= index)
        {
            if innermost != index {
                return Err(NotNested);
            }
            self.ends.pop();
        }
        let Some(end) = end else { return Ok(()) };
        let fits = self.ends.last().is_none_or(|around| end < *around);
        if end <= index || !fits || self.ends.len() >= DEPTH_MAX {
            return Err(NotNested);
        }
        self.ends.push(end);
        Ok(())
    }

    /// The symbols are over.
    ///
    /// # Errors
    ///
    /// If a scope was to end behind them.
    pub(crate) fn finish(self) -> Result<(), NotNested> {
        if self.ends.is_empty() { Ok(()) } else { Err(NotNested) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(symbols: &[(u32, Option<u32>)]) -> Result<(), NotNested> {
        let mut scopes = Scopes::default();
        symbols.iter().try_for_each(|(index, end)| scopes.symbol(*index, *end))?;
        scopes.finish()
    }

    #[test]
    fn scopes_within_and_behind_each_other_are_fine() {
        assert_eq!(
            walk(&[
                (4, Some(40)),
                (8, None),
                (12, Some(30)),
                (30, None),
                (40, None),
                (44, Some(48)),
                (48, None)
            ]),
            Ok(())
        );
    }

    #[test]
    fn a_scope_that_ends_where_no_symbol_is_or_outside_of_its_own_is_not() {
        for damaged in [
            &[(4, Some(4)), (8, None)][..],
            &[(4, Some(0)), (8, None)],
            &[(4, Some(6)), (8, None)],
            &[(4, Some(20)), (8, Some(24)), (20, None), (24, None)],
            &[(4, Some(20)), (8, Some(20)), (20, None)],
            &[(4, Some(20)), (8, None)],
        ] {
            assert_eq!(walk(damaged), Err(NotNested), "{damaged:?}");
        }
    }

    #[test]
    fn nobody_inlines_a_thousand_calls_deep() {
        assert_eq!((deep(1000), deep(1001)), (Ok(()), Err(NotNested)));
    }

    fn deep(depth: u32) -> Result<(), NotNested> {
        let down = (0..depth).map(|level| (level, Some(2 * depth - level)));
        let up = (0..depth).map(|level| (depth + 1 + level, None));
        walk(&down.chain(up).collect::<Vec<_>>())
    }
}
