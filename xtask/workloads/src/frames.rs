//! Frames that only unwind tables lead through.

/// The assembler's macro `hidden_frame name, next, bytes`: a function of that name that calls the
/// next one, and puts a number into rbp, which a walk by frame pointers takes for the end. rbp is
/// its caller's when it returns. The stack is aligned to 16 bytes at each call: `bytes` are a
/// multiple of 16.
///
/// One assembler may read several of a crate's parts: whoever uses it ends with
/// `.purgem hidden_frame`.
macro_rules! hidden_frame {
    () => {
        r#"
    .macro hidden_frame name, next, bytes
    .globl \name
    .type \name, @function
    \name:
    .cfi_startproc
    push rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbp, 0
    mov rbp, \bytes
    sub rsp, \bytes
    .cfi_adjust_cfa_offset \bytes
    call \next
    add rsp, \bytes
    .cfi_adjust_cfa_offset -\bytes
    pop rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbp
    ret
    .cfi_endproc
    .size \name, . - \name
    .endm
    "#
    };
}

pub(crate) use hidden_frame;
