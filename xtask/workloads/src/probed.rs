//! A function that two others call, each so often, through a third: of all of them only unwind
//! tables know the frames.
//!
//! They are written in assembly, as in `unwound`: a walk by frame pointers leads nowhere. Right
//! behind the return of the function lies another, which nobody calls.

use std::arch::global_asm;
use std::time::Duration;

use anyhow::Result;

use crate::frames::hidden_frame;

global_asm!(
    hidden_frame!(),
    r#"
    .text
    .globl probed_function
    .type probed_function, @function
    probed_function:
    .cfi_startproc
    mov eax, 1
    nop
    ret
    .cfi_endproc
    .size probed_function, . - probed_function

    .type probed_never, @function
    probed_never:
    ud2
    .size probed_never, . - probed_never

    hidden_frame probed_between, probed_function, 32
    hidden_frame probed_caller_often, probed_between, 4096
    hidden_frame probed_caller_rarely, probed_between, 16
    .purgem hidden_frame
    "#
);

unsafe extern "C" {
    fn probed_caller_often();
    fn probed_caller_rarely();
}

/// Calls with a pause between them: tables are made meanwhile.
const SLOW_CALLS: u64 = 100;

/// Two threads call so often, three of ten calls by one way; prints how often each way was gone.
pub(crate) fn run(calls: u64) -> Result<()> {
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for call in 0..calls {
                    // SAFETY: they keep to the C calling convention, and do nothing.
                    unsafe {
                        if is_rare(call) { probed_caller_rarely() } else { probed_caller_often() }
                    }
                    if call < SLOW_CALLS {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                }
            });
        }
    });
    let rare = (0..calls).filter(|call| is_rare(*call)).count() as u64;
    println!(
        "{{\"pid\":{},\"often\":{},\"rarely\":{}}}",
        std::process::id(),
        2 * (calls - rare),
        2 * rare
    );
    Ok(())
}

fn is_rare(call: u64) -> bool {
    call % 10 < 3
}
