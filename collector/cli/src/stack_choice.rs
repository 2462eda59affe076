//! How the kinds of stacks are called in options: the same names wherever one is asked for.

use clap::ValueEnum;

/// Stacks of a kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum StackChoice {
    /// CPU samples
    #[value(alias = "on-cpu", alias = "oncpu")]
    Samples,
    /// Threads that blocked; in pictures the microseconds until they ran again, waits for a CPU
    /// included
    #[value(alias = "offcpu")]
    OffCpu,
    /// Who woke others, and how often
    #[value(alias = "waker")]
    Wakers,
    /// Who called functions, and hit probes; how often
    #[value(alias = "probe")]
    Probes,
}

impl StackChoice {
    /// A list of them, or `none` alone.
    ///
    /// # Errors
    ///
    /// What of it is no such name.
    pub(crate) fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        if text == "none" {
            return Ok(Vec::new());
        }
        text.split(',')
            .map(|name| {
                Self::from_str(name, false).map_err(|_| {
                    format!(
                        "{name:?} is none of samples, off-cpu, wakers, probes; or write none alone"
                    )
                })
            })
            .collect()
    }
}
