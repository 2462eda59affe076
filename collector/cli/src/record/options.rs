//! The arguments of `record` that every system has, and the finished options that they become.

use super::backend;
use super::files::KeepCapture;
use crate::format::{self, Format};
use crate::stack_choice::StackChoice;
use crate::units::{BufferSize, parse_buffer, parse_duration};
use crate::usage::usage;
use anyhow::Result;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The arguments as they are written.
#[derive(Debug, clap::Args)]
#[command(after_help = backend::options::EXAMPLES)]
pub(crate) struct Args {
    /// Stop after this time: 5 (seconds), 500ms, 10m
    #[arg(short = 'd', long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,

    #[arg(short = 'o', long, value_name = "FILE", help = backend::options::OUTPUT_HELP)]
    output: Option<PathBuf>,

    #[command(flatten)]
    events: EventArgs,

    #[arg(long, value_name = backend::options::BUFFER_VALUE, default_value = "64M",
          value_parser = parse_buffer, help = backend::options::BUFFER_HELP)]
    buffer: BufferSize,

    #[command(flatten)]
    system: backend::options::SystemArgs,

    #[arg(long, help = backend::options::KEEP_CAPTURE_HELP)]
    keep_capture: bool,

    /// Replace the output if it exists
    #[arg(long)]
    force: bool,

    /// Exit with 3 if any event was lost, as far as losses are counted
    #[arg(long)]
    fail_on_loss: bool,

    /// Say how long each part of what follows the recording took
    #[arg(long)]
    timings: bool,

    /// The format, where the file's extension does not tell
    #[arg(long, value_name = "FORMAT", value_parser = format::among(backend::options::FORMATS))]
    format: Option<Format>,

    #[arg(last = true, value_name = "CMD", help = backend::options::COMMAND_HELP)]
    pub(crate) command: Vec<OsString>,
}

/// Which events are recorded, however they are kept.
#[derive(Debug, clap::Args)]
pub(crate) struct EventArgs {
    /// Samples per second on every CPU; 0 takes none
    #[arg(long, value_name = "HZ", default_value_t = 999,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(backend::options::FREQUENCY_MAX)))]
    pub(super) freq: u32,

    /// Which events carry stacks: a list of samples, off-cpu, wakers and probes (hits of probes,
    /// entries of functions and zones; each costs more then), or none
    #[arg(long, value_name = "LIST", default_value = "samples,off-cpu", value_parser = parse_stacks)]
    pub(super) stacks: StackKinds,

    #[arg(long, help = backend::options::GPU_HELP)]
    pub(super) gpu: bool,
}

/// Where the user wants the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// A new file in the current folder, named by date and time.
    Default,
    /// This file.
    File(PathBuf),
    /// Standard output.
    Standard,
}

/// Which events carry stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StackKinds {
    pub(crate) samples: bool,
    pub(crate) off_cpu: bool,
    pub(crate) wakers: bool,
    pub(crate) probes: bool,
}

/// The arguments checked and completed.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) duration: Option<Duration>,
    pub(crate) output: Output,
    /// What the recording is exported to; `None` where it is left raw.
    pub(crate) export: Option<Format>,
    pub(crate) keep: KeepCapture,
    pub(crate) force: bool,
    pub(crate) fail_on_loss: bool,
    pub(crate) timings: bool,
    pub(crate) command: Vec<OsString>,
    pub(crate) frequency: u32,
    pub(crate) stacks: StackKinds,
    pub(crate) buffer_bytes: usize,
    /// What GPU drivers do.
    pub(crate) gpu: bool,
    /// What only this system can be asked for.
    pub(crate) system: backend::options::SystemOptions,
}

impl Args {
    /// Checks what clap cannot.
    ///
    /// # Errors
    ///
    /// A `clap::Error`, which prints the usage and exits with 2.
    pub(crate) fn finish(self) -> Result<Options> {
        let output = match self.output {
            None => Output::Default,
            Some(path) if path.as_os_str() == "-" => Output::Standard,
            Some(path) => Output::File(path),
        };
        let export = self.system.export(&output, self.format).map_err(usage)?;
        let EventArgs { freq, stacks, gpu } = self.events;
        check_drawable(export, stacks, freq).map_err(usage)?;
        self.system.check_buffer(self.buffer).map_err(usage)?;
        if stacks.probes && !backend::options::HAS_PROBES {
            return Err(usage("--stacks probes: there are no probes on this system".into()).into());
        }
        Ok(Options {
            duration: self.duration,
            output,
            export,
            keep: self.system.keep(self.keep_capture),
            force: self.force,
            fail_on_loss: self.fail_on_loss,
            timings: self.timings,
            command: self.command,
            frequency: freq,
            stacks,
            buffer_bytes: self.buffer.bytes.unwrap_or(backend::options::BUFFER_OF_A_SPAN),
            gpu,
            system: self.system.finish(self.buffer.span)?,
        })
    }
}

impl Options {
    /// Whether nothing ends the recording but the user.
    pub(crate) fn is_endless(&self) -> bool {
        self.duration.is_none() && self.command.is_empty() && self.system.is_endless()
    }
}

/// A recording that is drawn when it ends has CPU samples with stacks, which are what is drawn.
fn check_drawable(
    export: Option<Format>,
    stacks: StackKinds,
    frequency: u32,
) -> Result<(), String> {
    let is_drawn = matches!(export, Some(Format::Svg | Format::Folded));
    match (is_drawn, stacks.samples, frequency > 0) {
        (false, ..) | (true, true, true) => Ok(()),
        (true, false, _) => Err(
            "a flame graph of a recording is of CPU samples: add samples to --stacks, or write a \
             .syscap, of which `syscollect flamegraph --stacks` draws the others"
                .into(),
        ),
        (true, true, false) => {
            Err("a flame graph of a recording is of CPU samples: --freq has to be above 0".into())
        }
    }
}

fn parse_stacks(text: &str) -> Result<StackKinds, String> {
    let asked = StackChoice::parse_list(text)?;
    Ok(StackKinds {
        samples: asked.contains(&StackChoice::Samples),
        off_cpu: asked.contains(&StackChoice::OffCpu),
        wakers: asked.contains(&StackChoice::Wakers),
        probes: asked.contains(&StackChoice::Probes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_drawn_of_nothing_is_not_recorded() {
        let (of_samples, none) =
            (StackKinds { samples: true, ..StackKinds::default() }, StackKinds::default());
        let check = |format, stacks, frequency| check_drawable(format, stacks, frequency).is_ok();
        assert!(check(Some(Format::Svg), of_samples, 99));
        assert!(!check(Some(Format::Folded), none, 99) && !check(Some(Format::Svg), of_samples, 0));
        assert!(check(Some(Format::Pftrace), none, 0) && check(None, none, 0));
    }

    #[test]
    fn stacks_are_a_list_or_none() {
        let wakers = StackKinds { off_cpu: true, wakers: true, ..StackKinds::default() };
        for spelling in ["off-cpu,wakers", "offcpu,wakers"] {
            assert_eq!(parse_stacks(spelling), Ok(wakers));
        }
        // As pictures of them are asked for.
        let samples = StackKinds { samples: true, ..StackKinds::default() };
        assert_eq!(parse_stacks("on-cpu"), Ok(samples));
        let probes = StackKinds { samples: true, probes: true, ..StackKinds::default() };
        assert_eq!(parse_stacks("samples,probes"), Ok(probes));
        assert_eq!(parse_stacks("none"), Ok(StackKinds::default()));
        assert!(parse_stacks("all").is_err());
        assert!(parse_stacks("none,samples").unwrap_err().contains("alone"));
    }
}
