//! Decorated names to what was written.

use msvc_demangler::DemangleFlags;
use std::borrow::Cow;
use syscollect_demangle::demangle;

/// Longer decorated names stay as they are: a demangler goes down a level with every few bytes.
const LENGTH_MAX: usize = 2048;
/// No more than this may come out of a decorated name, bytes.
const EXPANDED_MAX: f64 = 1e6;

/// What was written for a symbol of a PDB or an export table; the name itself if it is not
/// decorated.
pub(crate) fn demangled(name: &str) -> Cow<'_, str> {
    if name.len() > LENGTH_MAX {
        return Cow::Borrowed(name);
    }
    let result = match name.as_bytes() {
        [b'?', ..] if expansion(name) <= EXPANDED_MAX => microsoft(name),
        [b'?', ..] => None,
        _ => Some(demangle(name)),
    };
    result.map_or(Cow::Borrowed(name), Cow::Owned)
}

fn microsoft(name: &str) -> Option<String> {
    // As names of procedures are: scope, name and arguments.
    let flags = DemangleFlags::llvm()
        | DemangleFlags::NO_FUNCTION_RETURNS
        | DemangleFlags::NO_ACCESS_SPECIFIERS
        | DemangleFlags::NO_MEMBER_TYPE
        | DemangleFlags::NO_MS_KEYWORDS
        | DemangleFlags::NO_MS_THISTYPE
        | DemangleFlags::NO_CLASS_TYPE;
    msvc_demangler::demangle(name, flags).ok()
}

/// No less than what a name of Microsoft's grows to.
///
/// Digits stand for types that came before. Where a type is a function (`P6`, `P8` and the
/// like), it may consist of such digits, so each level multiplies. It is most where the digits
/// are spread evenly over the levels.
fn expansion(name: &str) -> f64 {
    let bytes = name.as_bytes();
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    let levels = 1 + bytes
        .windows(2)
        .filter(|pair| pair[0].is_ascii_uppercase() && matches!(pair[1], b'6' | b'8'))
        .count();
    let each = 1.0 + digits as f64 / levels as f64;
    bytes.len() as f64 * each.powf(levels as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decorated_names_of_all_compilers_are_undone_and_others_kept() {
        assert_eq!(
            demangled("?main_loop@app@@YAHPEBDI@Z"),
            "app::main_loop(char const *, unsigned int)"
        );
        assert_eq!(demangled("??1Window@ui@@QEAA@XZ"), "ui::Window::~Window(void)");
        assert_eq!(demangled("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangled("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(demangled("RtlUserThreadStart"), "RtlUserThreadStart");
        assert_eq!(demangled("?not a name"), "?not a name");
    }

    #[test]
    fn a_name_that_would_grow_without_bounds_stays_as_it_is() {
        // Each function takes the one before forty times.
        let levels: String =
            (0..9).map(|level| format!("P6AX{}@Z", level.to_string().repeat(40))).collect();
        let name = format!("?f@@YAXP6AXPAH@Z{levels}@Z");
        assert_eq!(demangled(&name), name);
    }

    #[test]
    fn a_name_as_deep_as_it_may_be_needs_no_more_stack_than_the_threads_that_name_have() {
        let name = format!("?f@@YAX{}H@Z", "PA".repeat(LENGTH_MAX / 2 - 8));
        assert!(name.len() <= LENGTH_MAX);
        let thread = std::thread::Builder::new()
            .stack_size(crate::windows::symbolizer::STACK_BYTES)
            .spawn(move || demangled(&name).len());
        assert!(thread.unwrap().join().unwrap() > 1000);
    }
}
