//! Plots: a number over time.

use crate::emit::{self, EmitRefusal, Value};
use crate::fallback;
use crate::log::{self, CachedNumber};
use syscollect_zone_protocol::Event;
use syscollect_zone_protocol::log::EntryWords;

/// A plot: a static, as [`plot!`](crate::plot!) makes it.
pub struct Plot {
    name: &'static str,
    unit: &'static str,
    number: CachedNumber,
}

impl Plot {
    /// A plot with that name and unit ("bytes", "ms", or nothing).
    pub const fn new(name: &'static str, unit: &'static str) -> Self {
        Self { name, unit, number: CachedNumber::new() }
    }

    /// Records what the number is now.
    #[inline(always)]
    pub fn set(&'static self, value: impl Into<Value>) {
        if crate::enabled() {
            self.set_enabled(value.into());
        }
    }

    #[cold]
    #[inline(never)]
    fn set_enabled(&'static self, value: Value) {
        record(&self.number, self.name, self.unit, value);
    }
}

/// Records what the number of a plot is now whose name is known only now.
#[inline(always)]
pub fn set_dynamic(name: &str, unit: &str, value: Value) {
    if crate::enabled() {
        record(&CachedNumber::new(), name, unit, value);
    }
}

/// Records a value of the plot of that name and unit; its number is cached.
#[inline(always)]
pub(crate) fn record(cached: &CachedNumber, name: &str, unit: &str, value: Value) {
    match emit::group(24) {
        Ok(mut group) => {
            let arena = group.arena();
            let number = cached.or_define(arena, || {
                log::define(EntryWords::new().plot(value.kind(), name, unit), arena)
            });
            group.event(Event::Plot { plot: number, value: value.into() });
        }
        Err(EmitRefusal::Fallback(_)) => fallback::plot(name, value.as_float()),
        Err(_) => {}
    }
}

/// Records what a number is now: an integer or a float.
///
/// ```
/// use syscollect_usdt_client::plot;
///
/// plot!("queue", 3);
/// plot!("heap", 4096_u64, unit = "bytes");
/// ```
#[macro_export]
macro_rules! plot {
    ($name:expr, $value:expr) => {
        $crate::plot!($name, $value, unit = "")
    };
    ($name:expr, $value:expr, unit = $unit:expr) => {
        if $crate::enabled() {
            static PLOT: $crate::Plot = $crate::Plot::new($name, $unit);
            PLOT.set($value);
        }
    };
}
