//! A GPU's clock, in the host's ticks.

/// How much a GPU's clock may go wrong while nothing says how much it does: 100 parts in a million.
const UNKNOWN_DRIFT: f64 = 1e-4;
/// How much its rate may change outside of two calibrations: 1 part in a million.
const CHANGE_OF_RATE: f64 = 1e-6;

/// How a GPU counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TickFormat {
    /// Ticks of the host in one of the GPU's, as the GPU's driver tells.
    pub(crate) host_ticks: f64,
    /// Bits behind which the GPU's ticks wrap, 1 to 64.
    pub(crate) bits: u32,
}

/// Two clocks that were read together, or what goes for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockReading {
    /// Ticks of the host.
    pub(crate) host: u64,
    /// Ticks of the GPU as it counts them.
    pub(crate) gpu: u64,
    /// How far both may lie apart, ticks of the host.
    pub(crate) deviation: u64,
}

/// What is known of a piece of work where no two clocks were read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkBounds {
    /// The host had begun to submit it, ticks of the host.
    pub(crate) submitted: u64,
    /// Ticks of the GPU when it began and ended.
    pub(crate) gpu: [u64; 2],
    /// The host knew of its end, ticks of the host.
    pub(crate) told: u64,
}

/// A moment by the host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostMoment {
    /// Ticks of the host.
    pub(crate) ticks: u64,
    /// How wrong that may be, ticks of the host.
    pub(crate) deviation: u64,
}

/// A reading whose ticks of the GPU do not wrap.
#[derive(Clone, Copy, Debug)]
struct ClockPoint {
    host: u64,
    gpu: i128,
    deviation: u64,
}

/// Turns ticks of a GPU into those of the host: between two readings along the line through them,
/// so that drift is followed; before the first and behind the last at the rate between these two,
/// or at the rate that the driver tells where there is one.
#[derive(Clone, Debug)]
pub(crate) struct GpuClock {
    format: TickFormat,
    /// Both clocks grow; at least one.
    points: Vec<ClockPoint>,
    /// Readings that were left out because a clock did not grow.
    refused: u64,
}

impl GpuClock {
    /// By readings in any order; `None` where there are none.
    pub(crate) fn calibrated(format: TickFormat, mut readings: Vec<ClockReading>) -> Option<Self> {
        readings.sort_by_key(|reading| reading.host);
        let (first, others) = readings.split_first()?;
        let point =
            ClockPoint { host: first.host, gpu: i128::from(first.gpu), deviation: first.deviation };
        let mut clock = Self { format, points: vec![point], refused: 0 };
        others.iter().for_each(|reading| clock.add(*reading));
        Some(clock)
    }

    /// By work alone, in any order: the earliest clock by which nothing begins before
    /// it was submitted. How much later it may be is its deviation: nothing was known before it
    /// ended. `None` where there is no work.
    pub(crate) fn fitted(
        format: TickFormat,
        work: impl IntoIterator<Item = WorkBounds, IntoIter: Clone>,
    ) -> Option<Self> {
        let work = work.into_iter();
        let first = work.clone().min_by_key(|work| work.submitted)?;
        let mut fit = ClockFit::new(format, first);
        work.for_each(|work| fit.add(work));
        Some(fit.clock())
    }

    /// Both clocks were read once more; of the readings so many are kept. Whether it makes sense.
    pub(super) fn read(&mut self, reading: ClockReading, most: usize) -> bool {
        let refused = self.refused;
        self.add(reading);
        let beyond = self.points.len().saturating_sub(most);
        self.points.drain(..beyond);
        self.refused == refused
    }

    /// Readings that were left out because a clock did not grow.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Beginning and end of work that was submitted then, as the GPU would count them if its ticks
    /// did not wrap. An end before the beginning comes as one.
    pub(crate) fn unwrapped(&self, [began, ended]: [u64; 2], submitted: u64) -> [i128; 2] {
        let modulus = 1_i128 << self.format.bits;
        // The clocks may be a little wrong, but mostly work begins behind its submission.
        let lowest = self.gpu_at(submitted) - modulus / 8;
        let began = lowest + (i128::from(began) - lowest).rem_euclid(modulus);
        let lasted = (i128::from(ended) - began).rem_euclid(modulus);
        let lasted = if lasted > modulus / 2 { lasted - modulus } else { lasted };
        [began, began + lasted]
    }

    /// The host's ticks at these of the GPU, which do not wrap.
    pub(crate) fn host_at(&self, gpu: i128) -> HostMoment {
        let after = self.points.partition_point(|point| point.gpu <= gpu);
        let (from, rate) = self.line(after);
        let distance = (gpu - from.gpu) as f64 * rate;
        let ticks = offset(from.host, distance);
        let drift = self.drift(after) * distance.abs();
        let deviation = self.deviation(after).saturating_add(drift as u64);
        HostMoment { ticks, deviation }
    }

    fn add(&mut self, reading: ClockReading) {
        let Some(last) = self.points.last().copied() else { return };
        let modulus = 1_i128 << self.format.bits;
        let passed = reading.host.saturating_sub(last.host) as f64 / self.format.host_ticks;
        let expected = last.gpu.saturating_add(passed as i128);
        let lowest = expected - modulus / 2;
        let gpu = lowest + (i128::from(reading.gpu) - lowest).rem_euclid(modulus);
        if reading.host > last.host && gpu > last.gpu {
            let ClockReading { host, deviation, .. } = reading;
            self.points.push(ClockPoint { host, gpu, deviation });
        } else {
            self.refused += 1;
        }
    }

    /// The GPU's ticks, which do not wrap, at these of the host.
    fn gpu_at(&self, host: u64) -> i128 {
        let (from, rate) = self.line(self.points.partition_point(|point| point.host <= host));
        let distance = host as f64 - from.host as f64;
        from.gpu.saturating_add((distance / rate) as i128)
    }

    /// Where the line begins on which a moment lies that comes behind so many points, and the
    /// host's ticks in one of the GPU's there.
    fn line(&self, after: usize) -> (ClockPoint, f64) {
        let last = self.points.len() - 1;
        let [a, b] = match after {
            0 => [0, last],
            _ if after > last => [last, 0],
            _ => [after - 1, after],
        };
        let (from, to) = (self.points[a], self.points[b]);
        if a == b {
            return (from, self.format.host_ticks);
        }
        let rate = (to.host as f64 - from.host as f64) / (to.gpu - from.gpu) as f64;
        (from, rate)
    }

    /// How wrong a moment may be that comes behind so many points, beside drift.
    fn deviation(&self, after: usize) -> u64 {
        let before = self.points.get(after.wrapping_sub(1)).map_or(0, |point| point.deviation);
        before.max(self.points.get(after).map_or(0, |point| point.deviation))
    }

    /// How much the rate may be wrong there.
    fn drift(&self, after: usize) -> f64 {
        let (first, last) = (self.points[0], self.points[self.points.len() - 1]);
        if self.points.len() == 1 {
            UNKNOWN_DRIFT
        } else if after == 0 || after == self.points.len() {
            let deviation = first.deviation as f64 + last.deviation as f64;
            deviation / (last.host - first.host) as f64 + CHANGE_OF_RATE
        } else {
            0.0
        }
    }
}

/// What work alone tells of a GPU's clock, so far.
#[derive(Clone, Debug)]
pub(super) struct ClockFit {
    /// As if the first work had begun when it was submitted.
    guess: GpuClock,
    /// How much later than that it is at least, and at most, ticks of the host.
    earliest: f64,
    latest: f64,
    /// How long after the first work the last was submitted.
    pub(super) passed: u64,
}

impl ClockFit {
    /// Of no work but where the first lies.
    pub(super) fn new(format: TickFormat, first: WorkBounds) -> Self {
        let WorkBounds { submitted: host, gpu: [began, _], .. } = first;
        let point = ClockPoint { host, gpu: began.into(), deviation: 0 };
        let guess = GpuClock { format, points: vec![point], refused: 0 };
        Self { guess, earliest: f64::MIN, latest: f64::MAX, passed: 0 }
    }

    pub(super) fn add(&mut self, WorkBounds { submitted, gpu, told }: WorkBounds) {
        let [began, ended] = self.guess.unwrapped(gpu, submitted);
        let first = self.guess.points[0];
        self.passed = self.passed.max(submitted.saturating_sub(first.host));
        let distance = |host: u64, gpu: i128| {
            let passed = (gpu - first.gpu) as f64 * self.guess.format.host_ticks;
            host as f64 - first.host as f64 - passed
        };
        self.earliest = self.earliest.max(distance(submitted, began));
        self.latest = self.latest.min(distance(told, ended));
    }

    pub(super) fn clock(&self) -> GpuClock {
        let mut clock = self.guess.clone();
        let host = offset(clock.points[0].host, self.earliest);
        // What binds it may be any of them, and the clock drifts from one to the other.
        let deviation = (self.latest - self.earliest).abs() + self.passed as f64 * UNKNOWN_DRIFT;
        clock.points[0] = ClockPoint { host, deviation: deviation as u64, ..clock.points[0] };
        clock
    }
}

/// So many ticks later.
fn offset(host: u64, by: f64) -> u64 {
    let moved = i128::from(host).saturating_add(by.round() as i128);
    moved.clamp(0, i128::from(u64::MAX)) as u64
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
