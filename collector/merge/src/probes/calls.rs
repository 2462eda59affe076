//! Which functions are open on a thread, told by the stack pointer.
//!
//! On x86-64 the stack grows down. At a function's entry the stack pointer is
//! the address of its return address, and again where it returns. So what was
//! entered below the stack pointer of a return, or of another entry, is over,
//! even if it was left by a longer jump or an exception. Of functions that are
//! entered at the same place the one before is over, too: it jumped to the
//! other in place of a last call, or was left as well.

use crate::open::{End, MAX_DEPTH};

/// Stack pointers further apart than this are on different stacks (a signal
/// handler's, a coroutine's) and tell nothing of each other.
const ONE_STACK: u64 = 8 << 20;

/// Functions that are open, the outermost first.
#[derive(Debug, Default)]
pub struct Calls {
    /// Stack pointer at the entry, and which function.
    open: Vec<(u64, u32)>,
}

impl Calls {
    /// Whether one more can be noted: a hostile capture must not fill memory.
    pub fn has_room(&self) -> bool {
        self.open.len() < MAX_DEPTH as usize
    }

    /// The functions that are open, the outermost first.
    pub fn functions(&self) -> impl Iterator<Item = u32> {
        self.open.iter().map(|(_, function)| *function)
    }

    /// A function is entered; how many were left without a return before.
    pub fn enter(&mut self, stack_pointer: u64, function: u32) -> usize {
        let mut left = self.leave_below(stack_pointer);
        // The same one at the same place: the one before was left by a jump.
        let here = self.open.iter().rev().take_while(|(at, _)| *at == stack_pointer);
        if let Some(above) = here.map(|(_, of)| *of).position(|of| of == function) {
            self.open.truncate(self.open.len() - above - 1);
            left += above + 1;
        }
        self.open.push((stack_pointer, function));
        left
    }

    /// A function ends that was entered at that stack pointer.
    pub fn exit(&mut self, entered: u64, function: u32) -> End {
        match self.open.iter().rposition(|(at, of)| *at == entered && *of == function) {
            Some(index) => {
                let unfinished = self.open.len() - index - 1;
                self.open.truncate(index);
                End { unfinished, ended: true }
            }
            None => End { unfinished: self.leave_below(entered), ended: false },
        }
    }

    /// All that is open is over; how many these were.
    pub fn clear(&mut self) -> usize {
        std::mem::take(&mut self.open).len()
    }

    /// Forgets what was entered below that address on the same stack.
    fn leave_below(&mut self, stack_pointer: u64) -> usize {
        let before = self.open.len();
        while let Some((at, _)) = self.open.last()
            && *at < stack_pointer
            && stack_pointer - *at <= ONE_STACK
        {
            self.open.pop();
        }
        before - self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_longer_jump_leaves_no_function_open() {
        let mut calls = Calls::default();
        assert_eq!([0x9000, 0x8f00, 0x8e00, 0x8d00].map(|sp| calls.enter(sp, 1)), [0; 4]);
        // The second catches what the fourth throws, and calls another.
        assert_eq!(calls.enter(0x8e80, 2), 2);
        assert_eq!(calls.exit(0x8e80, 2), End { unfinished: 0, ended: true });
        assert_eq!(calls.exit(0x8f00, 1), End { unfinished: 0, ended: true });
        assert_eq!(calls.exit(0x9000, 1), End { unfinished: 0, ended: true });
        assert_eq!(
            calls.exit(0x9100, 1),
            End { unfinished: 0, ended: false },
            "it was entered before"
        );
    }

    #[test]
    fn a_function_called_in_the_place_of_another_lies_within_it() {
        let mut calls = Calls::default();
        assert_eq!([calls.enter(0x9000, 1), calls.enter(0x9000, 2)], [0, 0]);
        assert_eq!(calls.exit(0x9000, 2), End { unfinished: 0, ended: true });
        assert_eq!(calls.exit(0x9000, 1), End { unfinished: 0, ended: true });
    }

    #[test]
    fn a_handler_on_a_stack_of_its_own_ends_nothing() {
        let mut calls = Calls::default();
        calls.enter(0x7f00_0000_0000, 1);
        assert_eq!(calls.enter(0x7fff_0000_0000, 2), 0);
        assert_eq!(calls.exit(0x7fff_0000_0000, 2), End { unfinished: 0, ended: true });
        assert_eq!(calls.exit(0x7f00_0000_0000, 1), End { unfinished: 0, ended: true });
    }

    #[test]
    fn a_function_that_is_left_and_called_again_in_a_loop_is_open_once() {
        let mut calls = Calls::default();
        assert_eq!([0, 1, 2].map(|_| calls.enter(0x9000, 1)), [0, 1, 1]);
        assert_eq!(calls.clear(), 1);
    }

    proptest! {
        #[test]
        fn whatever_is_said_begins_and_ends_balance(
            steps in prop::collection::vec((any::<bool>(), 0u64..40, 0u32..4), 0..200),
        ) {
            let (mut calls, mut open) = (Calls::default(), 0);
            for (enters, at, function) in steps {
                let at = 0x9000 + at * 8;
                if enters {
                    open = open + 1 - calls.enter(at, function);
                } else {
                    let End { unfinished, ended } = calls.exit(at, function);
                    open -= unfinished + usize::from(ended);
                }
            }
            prop_assert_eq!(calls.clear(), open);
        }
    }
}
