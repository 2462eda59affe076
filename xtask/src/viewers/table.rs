//! Figures by viewer, for people.

use std::fmt::Write;

use syscollect_tests::reference_capture::Figures;
use syscollect_tests::shown::{Viewer, lacks};

/// A row for each figure of the plan; `-` where a viewer has no place for it, `!` where it differs.
pub(super) fn text(plan: &Figures, shown: &[(Viewer, &Figures)]) -> String {
    let mut rows = vec![vec!["figure".to_owned(), "plan".to_owned()]];
    rows[0].extend(shown.iter().map(|(viewer, _)| viewer.name().to_owned()));
    for (figure, planned) in plan {
        let cells = shown.iter().map(|(viewer, figures)| match figures.get(figure) {
            _ if lacks(*viewer, figure) => "-".to_owned(),
            Some(count) if count == planned => count.to_string(),
            Some(count) => format!("! {count}"),
            None => "! nothing".to_owned(),
        });
        rows.push([figure.clone(), planned.to_string()].into_iter().chain(cells).collect());
    }
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or_default())
        .collect();
    let mut text = String::new();
    for row in &rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Writing to a String never fails.
            let _ = match column {
                0 => write!(text, "{cell:<width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_marked_and_what_a_viewer_lacks_is_not() {
        let plan = figures(&[("runs", 9), ("samples", 20)]);
        let (right, wrong) = (figures(&[("runs", 9), ("samples", 20)]), figures(&[("samples", 7)]));
        let shown = [(Viewer::Tracy, &right), (Viewer::Report, &wrong), (Viewer::Folded, &wrong)];
        let expected = "figure   plan  Tracy     report  folded\n\
                        runs        9      9  ! nothing       -\n\
                        samples    20     20        ! 7     ! 7\n";
        assert_eq!(text(&plan, &shown), expected);
    }

    fn figures(list: &[(&str, u64)]) -> Figures {
        list.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect::<Figures>()
    }
}
