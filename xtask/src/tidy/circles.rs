//! Circles between the modules of a crate: of two modules that use one another neither can be
//! understood, tested or moved alone.
//!
//! Modules are those below the crate's root, with all that lies in their folders. What they use is
//! read of their text (`crate::name`), tests aside; a name that the root only re-exports counts for
//! the module that has it.

use std::collections::{BTreeMap, BTreeSet};

/// Circles that are there for a reason. No other one is to come; who cuts one takes its row away.
const ALLOWED: [AllowedCircle; 13] = [
    AllowedCircle {
        folder: "bpf/records",
        modules: &["hotspot", "layout", "python", "unwind"],
        why: "the table of all layouts is made of the records' own, by its types",
    },
    AllowedCircle {
        folder: "collector/elf",
        modules: &["elf", "section", "segment", "symbol"],
        why: "the parts of a file are read by way of its headers, which give them out",
    },
    AllowedCircle {
        folder: "collector/model",
        modules: &["lane", "loss"],
        why: "a kind of lane says what its losses are of, and a loss of which lane it is",
    },
    AllowedCircle {
        folder: "collector/model",
        modules: &["resources", "slice", "tables", "unit"],
        why: "rows have ids of other rows, and the tables have all of them",
    },
    AllowedCircle {
        folder: "collector/playback",
        modules: &["code_addresses", "names"],
        why: "places in code get names, which are told by place",
    },
    AllowedCircle {
        folder: "collector/probes",
        modules: &["arch", "argument", "operand"],
        why: "operands of a CPU's assembler become arguments, whose registers are that CPU's",
    },
    AllowedCircle {
        folder: "collector/probes",
        modules: &["preset", "spec", "spec_parse"],
        why: "what is known of probes is written as a user would ask for it",
    },
    AllowedCircle {
        folder: "collector/unwind",
        modules: &["file", "frames", "index", "partial", "run", "table"],
        why: "a file gives pages of rows, which are made by way of its source and layout",
    },
    AllowedCircle {
        folder: "tests",
        modules: &["cuts", "golden"],
        why: "a golden case is also played cut off anywhere",
    },
    AllowedCircle {
        folder: "tests",
        modules: &["reference_capture", "shown"],
        why: "the reference capture knows what each viewer has to show of it",
    },
    AllowedCircle {
        folder: "usdt-client",
        modules: &["arena", "fork", "unread"],
        why: "a child has no arena, and whoever makes one looks after forks and what nobody reads",
    },
    AllowedCircle {
        folder: "usdt-client",
        modules: &["emit", "thread"],
        why: "items go to the thread's ring, and a thread writes items when it begins and ends",
    },
    AllowedCircle {
        folder: "usdt-client/protocol",
        modules: &["item", "pieces"],
        why: "an item may be a piece, which is as long as an item may be",
    },
];

/// A circle that may stay.
struct AllowedCircle {
    /// The crate's.
    folder: &'static str,
    /// In the order of their names.
    modules: &'static [&'static str],
    /// For whoever reads this list.
    #[expect(dead_code, reason = "it is there to be read by people")]
    why: &'static str,
}

/// What a module uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Circles in the crate in `folder` that are not allowed, in words. `files` are its sources, by
/// their names from `src` on.
pub(super) fn of_crate(folder: &str, files: &[(&str, &str)]) -> Vec<String> {
    let circles = circles(&uses(files));
    let allowed = ALLOWED.iter().filter(|allowed| allowed.folder == folder);
    circles
        .into_iter()
        .filter(|circle| !allowed.clone().any(|allowed| circle.iter().eq(allowed.modules)))
        .map(|circle| {
            format!("{folder}: these modules use one another in a circle: {}", circle.join(", "))
        })
        .collect()
}

/// The top-level module that a source is of; `None` for the root, tests and programs of their own.
fn module_of(name: &str) -> Option<&str> {
    let is_test =
        name.ends_with("_tests.rs") || name.ends_with("tests.rs") || name.contains("tests/");
    let first = name.split('/').next()?;
    let module = first.strip_suffix(".rs").unwrap_or(first);
    (!is_test && !["lib", "main", "bin"].contains(&module)).then_some(module)
}

fn uses(files: &[(&str, &str)]) -> Uses {
    let modules: BTreeSet<&str> = files.iter().filter_map(|(name, _)| module_of(name)).collect();
    let roots = files.iter().filter(|(name, _)| ["lib.rs", "main.rs"].contains(name));
    let exported: BTreeMap<String, String> =
        roots.flat_map(|(_, text)| exports(&without_tests(text))).collect();
    let mut uses = Uses::new();
    for (name, text) in files {
        let Some(module) = module_of(name) else { continue };
        let used = uses.entry(module.to_owned()).or_default();
        for name in names_of_root(&without_tests(text)) {
            let of = exported.get(&name).filter(|_| !modules.contains(name.as_str()));
            let of = of.unwrap_or(&name);
            if of != module && modules.contains(of.as_str()) {
                used.insert(of.clone());
            }
        }
    }
    uses
}

/// The text without comments and without items that are for tests.
fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    while let Some(line) = lines.next() {
        if !line.trim_start().starts_with("#[cfg(test)]") {
            kept.push_str(line);
            kept.push('\n');
            continue;
        }
        // Up to the end of the item: its last brace, or a semicolon before any.
        let (mut depth, mut began) = (0, false);
        for line in lines.by_ref() {
            depth += line.matches('{').count() as i64 - line.matches('}').count() as i64;
            began |= line.contains('{');
            if depth <= 0 && (began || line.trim_end().ends_with(';')) {
                break;
            }
        }
    }
    kept
}

/// The names behind `crate::`, of lists each.
fn names_of_root(text: &str) -> BTreeSet<String> {
    text.split("crate::").skip(1).flat_map(first_names).collect()
}

/// The name with which a path begins; of `{a::b, c}` those of all its parts.
fn first_names(path: &str) -> Vec<String> {
    let Some(list) = path.strip_prefix('{') else { return vec![name_in(path)] };
    let (mut depth, mut names, mut part) = (0, Vec::new(), String::new());
    for letter in list.chars() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(name_in(&std::mem::take(&mut part))),
            _ if depth == 0 => part.push(letter),
            _ => {}
        }
    }
    names.push(name_in(&part));
    names
}

fn name_in(path: &str) -> String {
    path.trim_start()
        .chars()
        .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
        .collect()
}

/// What the root re-exports, and of which module.
fn exports(root: &str) -> Vec<(String, String)> {
    let uses =
        root.split("use ").skip(1).filter_map(|rest| rest.split(';').next()?.split_once("::"));
    let names = uses.flat_map(|(module, path)| {
        let words = path.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        words.map(move |word| (word.to_owned(), module.trim().to_owned()))
    });
    names.filter(|(word, _)| !word.is_empty()).collect()
}

/// Modules that reach one another, in groups.
fn circles(uses: &Uses) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        uses.keys().map(|module| (module, reached_from(uses, module))).collect();
    let mut found = Vec::new();
    for (module, others) in &reached {
        let circle: Vec<String> = others
            .iter()
            .filter(|other| reached.get(*other).is_some_and(|back| back.contains(module)))
            .map(|other| (*other).clone())
            .collect();
        // Once: where its first module is looked at.
        if circle.len() > 1 && circle.first() == Some(*module) {
            found.push(circle);
        }
    }
    found
}

fn reached_from<'u>(uses: &'u Uses, module: &String) -> BTreeSet<&'u String> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![module]);
    while let Some(next) = open.pop() {
        for used in uses.get(next).into_iter().flatten() {
            if reached.insert(used) {
                open.push(used);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> usize {
        of_crate("some/crate", files).len()
    }

    #[test]
    fn modules_that_use_one_another_are_found_by_whatever_way() {
        let a = ("a.rs", "use crate::b::B;\n");
        assert_eq!(found(&[a, ("b.rs", "")]), 0);
        assert_eq!(found(&[a, ("b.rs", "fn b() { crate::a::a() }\n")]), 1);
        assert_eq!(found(&[a, ("b/mod.rs", ""), ("b/c.rs", "use crate::{d::D, a};\n")]), 1);
        let third = [a, ("b.rs", "use crate::c::C;\n"), ("c.rs", "use crate::a::A;\n")];
        assert_eq!(found(&third), 1);
        let root = ("lib.rs", "mod a;\nmod b;\npub use a::{A, Other};\n");
        assert_eq!(found(&[root, a, ("b.rs", "use crate::Other;\n")]), 1, "through the root");
    }

    #[test]
    fn tests_and_comments_make_no_circle() {
        let a = ("a.rs", "use crate::b::B;\n");
        let test = "fn b() {}\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n";
        assert_eq!(found(&[a, ("b.rs", test), ("b_tests.rs", "use crate::a::A;\n")]), 0);
        assert_eq!(found(&[a, ("b.rs", "/// As `crate::a` does.\nfn b() {}\n")]), 0);
        let only = "#[cfg(test)]\nuse crate::a::A;\nfn b() {}\n";
        assert_eq!(found(&[a, ("b.rs", only)]), 0);
    }
}
