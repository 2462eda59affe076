//! Names that are nearly what was asked for.

/// Names are compared by so many of their first characters: enough to tell near from far.
const COMPARED_MAX: usize = 64;

/// The names of `candidates` that are most like `wanted`, best first, at most `count`.
///
/// Like are those that differ by few characters, or that contain what was asked for; case
/// and wildcards do not count. None is better than a far one.
///
/// ```
/// use syscollect_probes::nearest;
/// assert_eq!(nearest("function_entry", ["function__entry", "line"], 3), ["function__entry"]);
/// ```
pub fn nearest<N: AsRef<str>>(
    wanted: &str,
    candidates: impl IntoIterator<Item = N>,
    count: usize,
) -> Vec<String> {
    let wanted = comparable(wanted);
    let mut best: Vec<(usize, String)> = Vec::new();
    for candidate in candidates {
        let Some(distance) = distance(&wanted, &comparable(candidate.as_ref())) else { continue };
        let found = (distance, candidate.as_ref());
        let is_better =
            best.len() < count || best.last().is_some_and(|(d, name)| found < (*d, name.as_str()));
        if let (true, Err(at)) =
            (is_better, best.binary_search_by(|(d, name)| (*d, name.as_str()).cmp(&found)))
        {
            best.insert(at, (distance, candidate.as_ref().to_owned()));
            best.truncate(count);
        }
    }
    best.into_iter().map(|(_, name)| name).collect()
}

fn comparable(name: &str) -> String {
    let letters = name.chars().filter(|character| !"*?[]\\".contains(*character));
    letters.take(COMPARED_MAX).flat_map(char::to_lowercase).collect()
}

/// How far two names are apart; `None` if they have too little in common.
fn distance(wanted: &str, candidate: &str) -> Option<usize> {
    let limit = wanted.len().div_ceil(3).max(1);
    if candidate.len() > 2
        && wanted.len() > 2
        && (candidate.contains(wanted) || wanted.contains(candidate))
    {
        return Some(candidate.len().abs_diff(wanted.len()));
    }
    // The difference in length is a part of the distance.
    if candidate.len().abs_diff(wanted.len()) > limit {
        return None;
    }
    Some(strsim::osa_distance(wanted, candidate)).filter(|distance| *distance <= limit)
}

/// The end of a sentence that says that something is not there.
///
/// ```
/// use syscollect_probes::did_you_mean;
/// assert_eq!(did_you_mean(&["line".to_owned()]), "; did you mean line?");
/// assert_eq!(did_you_mean(&[]), "");
/// ```
pub fn did_you_mean(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        [others @ .., last] => format!("; did you mean {} or {last}?", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PYTHON: [&str; 4] =
        ["python:function__entry", "python:function__return", "python:gc__start", "python:line"];

    #[test]
    fn a_misspelt_name_finds_the_right_one_first() {
        assert_eq!(nearest("python:function_entry", PYTHON, 3)[0], "python:function__entry");
        assert_eq!(nearest("Python:Lnie", PYTHON, 1), ["python:line"]);
    }

    #[test]
    fn a_part_of_a_name_finds_the_whole() {
        assert_eq!(nearest("gc__*", PYTHON, 3), ["python:gc__start"]);
        assert_eq!(nearest("fopen", ["_IO_fopen", "fclose", "malloc"], 3), ["_IO_fopen"]);
    }

    #[test]
    fn nothing_alike_is_nothing() {
        assert!(nearest("zzzz", PYTHON, 3).is_empty());
        assert!(nearest("a", Vec::<String>::new(), 3).is_empty());
    }

    #[test]
    fn several_are_told_as_a_choice() {
        let names = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(did_you_mean(&names), "; did you mean a, b or c?");
    }

    proptest! {
        #[test]
        fn never_more_than_asked_for_and_an_equal_name_comes_first(
            names in proptest::collection::vec(".{0,80}", 0..9),
            count in 1usize..4,
        ) {
            for name in &names {
                let found = nearest(name, &names, count);
                prop_assert!(found.len() <= count);
                if let Some(first) = found.first() {
                    prop_assert!(distance(&comparable(name), &comparable(first)) <= Some(0));
                }
            }
        }
    }
}
