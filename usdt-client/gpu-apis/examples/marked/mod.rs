//! What an example says of itself in one line of JSON, so that it can be compared with what was
//! recorded.

use std::fmt::Display;
use std::time::Duration;
use syscollect_gpu_apis::ClockReading;

/// The exit code of an example that finds no driver.
const NO_DRIVER: i32 = 77;

/// There is no driver, or no device of it: the example ends, and says so.
pub(crate) fn without_driver(error: impl Display) -> ! {
    eprintln!("no driver: {error}");
    std::process::exit(NO_DRIVER)
}

/// What an example did.
pub(crate) struct MarkedGpuWork<'a> {
    /// What it ran on.
    pub(crate) device: &'a str,
    /// What its queue is called.
    pub(crate) queue: &'a str,
    /// Zones by name.
    pub(crate) zones: &'a [MarkedZones],
    /// Zones that found no query, or whose times were never read.
    pub(crate) without_times: u64,
    /// Its clocks at the end.
    pub(crate) clocks: Option<ClockReading>,
    /// How long the program waited for its zones `alone`, from before their submission.
    pub(crate) waited: Duration,
}

/// Zones of one name.
pub(crate) struct MarkedZones {
    pub(crate) name: &'static str,
    pub(crate) count: u64,
}

impl MarkedGpuWork<'_> {
    pub(crate) fn print(&self) {
        let zones: Vec<String> =
            self.zones.iter().map(|zone| format!("\"{}\":{}", zone.name, zone.count)).collect();
        let deviation = match self.clocks {
            Some(reading) => reading.deviation.to_string(),
            None => "null".to_owned(),
        };
        println!(
            "{{\"device\":\"{}\",\"queue\":\"{}\",\"zones\":{{{}}},\"without_times\":{},\
             \"clock_deviation_ns\":{},\"waited_ns\":{}}}",
            self.device.replace(['"', '\\'], " "),
            self.queue,
            zones.join(","),
            self.without_times,
            deviation,
            self.waited.as_nanos(),
        );
    }
}
