use super::*;
use proptest::prelude::*;

const BITS: [u32; 4] = [24, 32, 36, 64];

/// A GPU whose clock goes at a rate of its own and is a little faster or slower than told.
#[derive(Clone, Copy, Debug)]
struct Gpu {
    format: TickFormat,
    /// The host's ticks in one of the GPU's, really.
    rate: f64,
    /// Its ticks at tick 0 of the host.
    first: u64,
}

impl Gpu {
    fn unwrapped(&self, host: u64) -> i128 {
        i128::from(self.first) + (host as f64 / self.rate) as i128
    }

    fn ticks(&self, host: u64) -> u64 {
        self.unwrapped(host).rem_euclid(1 << self.format.bits) as u64
    }

    fn reading(&self, host: u64, deviation: u64) -> ClockReading {
        ClockReading { host, gpu: self.ticks(host), deviation }
    }
}

fn gpu() -> impl Strategy<Value = Gpu> {
    let bits = prop::sample::select(&BITS[..]);
    (bits, 1.0..300.0_f64, -50.0..50.0_f64, any::<u32>()).prop_map(|(bits, rate, drift, first)| {
        let format = TickFormat { host_ticks: rate, bits };
        let first = u64::from(first) % (1 << bits.min(32));
        Gpu { format, rate: rate * (1.0 + drift * 1e-6), first }
    })
}

/// Where the host begins.
const START: u64 = 1 << 45;

proptest! {
    #[test]
    fn calibrated_times_lie_within_what_is_said_of_their_error(
        gpu in gpu(),
        gaps in prop::collection::vec(0.01..0.3_f64, 1..20),
        work in prop::collection::vec((0.0..1.2_f64, 0.0..0.05_f64), 1..20),
        deviation in 0..2000_u64,
    ) {
        // Distances are parts of the time in which the GPU's ticks wrap, or of an hour.
        let wrap = (2_f64.powi(gpu.format.bits as i32) * gpu.rate).min(1e13);
        let mut host = START;
        let mut readings = vec![gpu.reading(host, deviation)];
        for gap in &gaps {
            host += (gap * wrap) as u64;
            readings.push(gpu.reading(host, deviation));
        }
        readings.reverse();
        let clock = GpuClock::calibrated(gpu.format, readings).expect("readings");
        prop_assert_eq!(clock.refused(), 0);
        for (at, lasted) in work {
            let submitted = START + (at * (host - START) as f64) as u64;
            let began = submitted + 1000;
            let ended = began + (lasted * wrap) as u64;
            let ticks = [gpu.ticks(began), gpu.ticks(ended)];
            for (unwrapped, real) in
                clock.unwrapped(ticks, submitted).into_iter().zip([began, ended])
            {
                let moment = clock.host_at(unwrapped);
                let error = moment.ticks.abs_diff(real);
                // A tick of the GPU is as good as it gets.
                let allowed = moment.deviation + 4 * gpu.rate as u64 + 16;
                prop_assert!(error <= allowed, "{error} > {allowed}: {moment:?}, really {real}");
            }
        }
    }

    #[test]
    fn without_readings_nothing_begins_before_it_was_submitted_and_the_error_is_said(
        gpu in gpu(),
        work in prop::collection::vec((0.0..0.2_f64, 1000..50_000_u64), 1..30),
    ) {
        let wrap = (2_f64.powi(gpu.format.bits as i32) * gpu.rate).min(1e11);
        let mut host = START;
        let mut all = Vec::new();
        for (gap, latency) in work {
            host += (gap * wrap) as u64;
            let (began, ended) = (host + latency, host + latency + 500);
            let ticks = [gpu.ticks(began), gpu.ticks(ended)];
            all.push((WorkBounds { submitted: host, gpu: ticks, told: ended + 10_000 }, began));
        }
        let clock = GpuClock::fitted(gpu.format, all.iter().map(|(bounds, _)| *bounds));
        let clock = clock.expect("work");
        for (bounds, began) in all {
            let [ticks, _] = clock.unwrapped(bounds.gpu, bounds.submitted);
            let moment = clock.host_at(ticks);
            prop_assert!(moment.ticks + 1 >= bounds.submitted, "{moment:?} {bounds:?}");
            let error = moment.ticks.abs_diff(began);
            let allowed = moment.deviation + 4 * gpu.rate as u64 + 16;
            prop_assert!(error <= allowed, "{error} > {allowed}: {moment:?}, really {began}");
        }
    }

    #[test]
    fn any_readings_and_any_ticks_make_times(
        bits in 1..=64_u32,
        rate in prop_oneof![Just(1e-9_f64), 0.001..1e6_f64, Just(1e19)],
        readings in prop::collection::vec(any::<(u64, u64, u64)>(), 0..8),
        work in prop::collection::vec(any::<[u64; 4]>(), 0..8),
    ) {
        let format = TickFormat { host_ticks: rate, bits };
        let readings: Vec<_> = readings
            .into_iter()
            .map(|(host, gpu, deviation)| ClockReading { host, gpu, deviation })
            .collect();
        let bounds = work.iter().map(|[submitted, began, ended, told]| WorkBounds {
            submitted: *submitted,
            gpu: [*began, *ended],
            told: *told,
        });
        let clocks = [GpuClock::calibrated(format, readings), GpuClock::fitted(format, bounds)];
        for clock in clocks.into_iter().flatten() {
            for [submitted, began, ended, _] in &work {
                for ticks in clock.unwrapped([*began, *ended], *submitted) {
                    clock.host_at(ticks);
                }
            }
        }
    }
}

#[test]
fn a_reading_that_goes_back_is_left_out() {
    let format = TickFormat { host_ticks: 2.0, bits: 64 };
    let reading = |host, gpu| ClockReading { host, gpu, deviation: 0 };
    let readings = vec![reading(100, 50), reading(200, 100), reading(200, 101), reading(300, 90)];
    let clock = GpuClock::calibrated(format, readings).expect("readings");
    assert_eq!(clock.refused(), 2);
    assert_eq!(clock.host_at(75), HostMoment { ticks: 150, deviation: 0 });
}

#[test]
fn an_end_before_the_beginning_stays_one() {
    let format = TickFormat { host_ticks: 1.0, bits: 32 };
    let readings = vec![ClockReading { host: 1000, gpu: u64::from(u32::MAX) - 10, deviation: 5 }];
    let clock = GpuClock::calibrated(format, readings).expect("a reading");
    let [began, ended] = clock.unwrapped([20, 5], 1000);
    assert_eq!((clock.host_at(began).ticks, ended - began), (1031, -15));
}
