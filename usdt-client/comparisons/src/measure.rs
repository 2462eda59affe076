//! Rounds that take turns.

use std::time::Duration;

/// Rounds of each subject.
const ROUNDS: usize = 21;

/// Something that is measured.
pub(crate) struct Subject<'a> {
    /// What is done: "zone".
    pub(crate) what: &'static str,
    /// By which crate.
    pub(crate) by: &'static str,
    /// Who listens.
    pub(crate) state: &'static str,
    /// Turns of a round.
    pub(crate) turns: u64,
    /// Does it so often, and returns how long that took.
    pub(crate) run: Box<dyn Fn(u64) -> Duration + 'a>,
}

/// Nanoseconds per turn.
pub(crate) struct Times {
    pub(crate) least: f64,
    pub(crate) median: f64,
}

/// Measures all; a disturbance of the machine meets all alike.
pub(crate) fn measure<'a, 'b>(subjects: &'a [Subject<'b>]) -> Vec<(&'a Subject<'b>, Times)> {
    let mut rounds = vec![Vec::with_capacity(ROUNDS); subjects.len()];
    for _ in 0..ROUNDS {
        for (subject, times) in subjects.iter().zip(&mut rounds) {
            times.push((subject.run)(subject.turns).as_secs_f64() * 1e9 / subject.turns as f64);
        }
    }
    subjects.iter().zip(rounds.into_iter().map(times)).collect()
}

fn times(mut rounds: Vec<f64>) -> Times {
    rounds.sort_by(f64::total_cmp);
    Times { least: rounds[0], median: rounds[rounds.len() / 2] }
}
