//! OCaml: `caml`, the module, the function, and a number that the compiler gave it.
//!
//! `camlStdlib__List__map_481`, and from OCaml 5.1 on `camlStdlib__List.map_481`, is
//! `Stdlib.List.map`. Letters that a symbol cannot have are `$` and two digits.

/// Functions that the compiler adds to a module, which have no number.
const ADDED: [&str; 3] = ["entry", "code_begin", "code_end"];
/// A function without a name.
const ANONYMOUS: &str = "fun";

/// Whether it begins as a mangled name does: the C library of OCaml has `caml_alloc`.
pub(crate) fn is_mangled(symbol: &str) -> bool {
    symbol
        .strip_prefix("caml")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// The name behind a symbol; nothing if it is none of OCaml's.
pub(crate) fn demangle(symbol: &str) -> Option<String> {
    let mangled = symbol.strip_prefix("caml").filter(|_| is_mangled(symbol))?;
    let (modules, function) = match mangled.split_once('.') {
        Some((modules, function)) => (modules, function),
        None => split(mangled)?,
    };
    let is_module = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '\'');
    if !modules.chars().all(is_module) {
        return None;
    }
    let modules = modules.replace("__", ".");
    if ADDED.contains(&function) {
        return Some(format!("{modules}.{function}"));
    }
    let numbered = function.strip_suffix("_code").unwrap_or(function);
    let (name, number) = numbered.rsplit_once('_')?;
    if name.is_empty() || number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let written = unescaped(name)?;
    let is_operator = !written.contains(|c: char| c.is_alphanumeric() || matches!(c, '_' | '\''));
    Some(match name {
        // Its number is all that tells it from others.
        ANONYMOUS => format!("{modules}.{numbered}"),
        _ if is_operator => format!("{modules}.({written})"),
        _ => format!("{modules}.{written}"),
    })
}

/// The modules, which begin with a capital, and the function, of before OCaml 5.1.
fn split(mangled: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    loop {
        let at = from + mangled.get(from..)?.find("__")?;
        let rest = &mangled[at + 2..];
        // What dune calls the program's own modules.
        let is_module = rest.starts_with(|c: char| c.is_ascii_uppercase())
            || &mangled[..at] == "Dune" && rest.starts_with("exe__");
        if !is_module {
            return Some((&mangled[..at], rest));
        }
        from = at + 2;
    }
}

/// The name with its letters for `$` and their numbers.
fn unescaped(name: &str) -> Option<String> {
    let mut parts = name.split('$');
    let mut written = parts.next()?.to_owned();
    for part in parts {
        let number =
            part.get(..2).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
        let letter = char::from(u8::from_str_radix(number, 16).ok()?);
        if !letter.is_ascii_graphic() {
            return None;
        }
        written.push(letter);
        written.push_str(&part[2..]);
    }
    Some(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_source() {
        for (symbol, name) in [
            ("camlStdlib__List__map_481", "Stdlib.List.map"),
            ("camlStdlib__List.map_481", "Stdlib.List.map"),
            ("camlFoo__my__own_12", "Foo.my__own"),
            ("camlFoo__f'_7", "Foo.f'"),
            ("camlDune__exe__Main__loop_273", "Dune.exe.Main.loop"),
            ("camlDune__exe__Main.loop_273", "Dune.exe.Main.loop"),
            ("camlStdlib__$40_164", "Stdlib.(@)"),
            ("camlStdlib.$5e$5e_164", "Stdlib.(^^)"),
            ("camlFoo__let$2b_9", "Foo.let+"),
            ("camlFoo__fun_1234", "Foo.fun_1234"),
            ("camlFoo__f_0_2_code", "Foo.f_0"),
            ("camlFoo__entry", "Foo.entry"),
            ("camlFoo.code_begin", "Foo.code_begin"),
        ] {
            assert_eq!(demangle(symbol).as_deref(), Some(name), "{symbol}");
        }
    }

    #[test]
    fn what_only_begins_alike_stays_as_it_is() {
        for symbol in [
            "caml_alloc_small",
            "caml_program",
            "camlFoo",
            "camlFoo__",
            "camlFoo__f",
            "camlFoo__f_",
            "camlFoo___1",
            "camlFoo__f$_1",
            "camlFoo__f$4_1",
            "camlFoo__f$\u{e9}_1",
            "camlFoo__f$0a_1",
            "caml\u{c9}__f_1",
            "camlFo-o__f_1",
            "camlCase",
            "camlToUpper_12",
            "Foo__f_1",
        ] {
            assert_eq!(demangle(symbol), None, "{symbol}");
        }
    }
}
