//! The names of functions as their authors wrote them.
//!
//! **Duties.** Undo the mangling of C++ (Itanium), Rust and OCaml, but only of what has its prefix: `t`
//! and `PKc` are names of C functions, though they are also how C++ abbreviates `unsigned short`
//! and `char const*`. Bounded in length, because a short symbol can make a very long name, and in
//! depth.
//!
//! **Non-goals.** Names of Microsoft's compilers, which are in another language's files
//! (symbolize's `windows`).
//!
//! ```
//! assert_eq!(syscollect_demangle::demangle("_ZN3foo3barEi"), "foo::bar(int)");
//! assert_eq!(syscollect_demangle::demangle("t"), "t");
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod ocaml;

use std::fmt::{self, Write};

/// Longer names are of no use, and a short symbol can make a very long one.
const NAME_MAX: usize = 4096;
/// Longer symbols stay as they are: whoever reads them goes down a level with every few bytes.
const SYMBOL_MAX: usize = 16 << 10;
/// What mangled names begin with; some linkers put an underscore before every name.
const CPP: [&str; 2] = ["_Z", "__Z"];
const RUST: [&str; 4] = ["_R", "_ZN", "__R", "__ZN"];

/// The name behind a symbol, with the types of its parameters where the language has
/// them; the symbol itself where it is not mangled.
pub fn demangle(symbol: &str) -> String {
    rust(symbol)
        .or_else(|| cpp(symbol, &cpp_demangle::DemangleOptions::new()))
        .or_else(|| ocaml(symbol))
        .unwrap_or_else(|| symbol.to_owned())
}

/// Whether a symbol has the prefix of a mangled name.
///
/// ```
/// assert!(syscollect_demangle::is_mangled("_ZN3foo3barEi"));
/// assert!(syscollect_demangle::is_mangled("camlStdlib__List__map_481"));
/// assert!(!syscollect_demangle::is_mangled("operator()"));
/// ```
pub fn is_mangled(symbol: &str) -> bool {
    begins(symbol, &CPP) || begins(symbol, &RUST) || ocaml::is_mangled(symbol)
}

/// Whether one of a function's names is as `is_it` says: the symbol, the name behind
/// it, and for C++ that name without parameters and returned type.
pub fn any_name(symbol: &str, is_it: impl Fn(&str) -> bool) -> bool {
    if is_it(symbol) {
        return true;
    }
    if let Some(name) = rust(symbol).or_else(|| ocaml(symbol)) {
        return is_it(&name);
    }
    let plain = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
    let found = |options| cpp(symbol, &options).is_some_and(|name| is_it(&name));
    found(plain) || found(cpp_demangle::DemangleOptions::new())
}

fn rust(symbol: &str) -> Option<String> {
    // Cheaper than to ask: most symbols are not mangled.
    if !begins(symbol, &RUST) {
        return None;
    }
    limited(|name| {
        write!(name, "{:#}", rustc_demangle::try_demangle(symbol).map_err(|_| fmt::Error)?)
    })
}

fn ocaml(symbol: &str) -> Option<String> {
    (symbol.len() <= NAME_MAX).then(|| ocaml::demangle(symbol)).flatten()
}

fn cpp(symbol: &str, options: &cpp_demangle::DemangleOptions) -> Option<String> {
    if !begins(symbol, &CPP) {
        return None;
    }
    let symbol = cpp_demangle::Symbol::new(symbol).ok()?;
    limited(|name| symbol.structured_demangle(name, options))
}

fn begins(symbol: &str, prefixes: &[&str]) -> bool {
    symbol.len() <= SYMBOL_MAX && prefixes.iter().any(|prefix| symbol.starts_with(prefix))
}

/// What is written, unless it is too long.
fn limited(write: impl FnOnce(&mut BoundedName) -> fmt::Result) -> Option<String> {
    let mut name = BoundedName(String::new());
    write(&mut name).ok().map(|()| name.0)
}

struct BoundedName(String);

impl Write for BoundedName {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > NAME_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_source() {
        assert_eq!(demangle("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(
            demangle("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"),
            "core::fmt::Write::write_fmt"
        );
        assert_eq!(demangle("_RNvC6_123foo3bar"), "123foo::bar");
        assert_eq!(demangle("__ZN3foo3barEi"), "foo::bar(int)", "as linkers of Apple write it");
        assert_eq!(demangle("camlStdlib__List__map_481"), "Stdlib.List.map");
        for raw in ["fopen", "_ZN", "_Z", "_R", "", "_ZZZZ"] {
            assert_eq!(demangle(raw), raw);
        }
    }

    #[test]
    fn names_of_c_that_would_be_types_of_cpp_stay_as_they_are() {
        for plain in [
            "t",
            "d",
            "f",
            "i",
            "PKc",
            "St4pairIiiE",
            "1f",
            "ZN3foo3barEi",
            "RNvC6_123foo3bar",
            "_D4core",
        ] {
            assert_eq!(demangle(plain), plain);
            assert!(
                any_name(plain, |name| name == plain) && !any_name(plain, |name| name == "double")
            );
        }
    }

    #[test]
    fn a_function_answers_to_all_its_names() {
        assert!(
            answers("_ZN3foo3barIiEEvT_")
                && answers("void foo::bar<int>(int)")
                && answers("foo::bar<int>")
        );
        assert!(!answers("foo::bar"));
    }

    #[test]
    fn a_function_of_ocaml_answers_to_its_name_and_its_symbol() {
        let symbol = "camlStdlib__List__map_481";
        assert!(any_name(symbol, |name| name == "Stdlib.List.map"));
        assert!(any_name(symbol, |name| name == symbol) && !any_name(symbol, |name| name == "map"));
    }

    fn answers(wanted: &str) -> bool {
        any_name("_ZN3foo3barIiEEvT_", |name| name == wanted)
    }

    #[test]
    fn a_short_symbol_that_means_an_endless_name_stays_raw() {
        // Every pair names the one before twice.
        let nested = (0..40).fold("i".to_owned(), |inner, _| format!("St4pairI{inner}S_E"));
        let doubled: String =
            (0..60).map(|n| format!("St4pairIS{0}_S{0}_E", to_base_36(n))).collect();
        for symbol in [format!("_Z1f{nested}"), format!("_Z1fSt4pairIiiE{doubled}")] {
            assert!(demangle(&symbol).len() <= NAME_MAX.max(symbol.len()));
        }
    }

    fn to_base_36(number: u32) -> String {
        char::from_digit(number % 36, 36)
            .map(|digit| digit.to_ascii_uppercase().to_string())
            .unwrap_or_default()
    }
}
