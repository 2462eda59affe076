//! Counters that are polled: CPU usage, memory, power, pressure stalls, and what the recorder
//! itself takes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use syscollect_model::Unit;
use syscollect_records::{CounterRecord, RecordKind, Stamp};
use syscollect_store::CounterDefinition;
use syscollect_untrusted_files::FixedPath;

use crate::host::kilobytes;
use crate::usage::cpu_time;

/// What is polled, and the last readings that rates need.
pub(crate) struct Counters {
    stat: Option<File>,
    memory: Option<File>,
    power: Vec<PowerZone>,
    pressures: Vec<Pressure>,
    recorder: Recorder,
    cpus: u32,
    last_usage: Vec<Option<CpuTimes>>,
    buffer: Vec<u8>,
}

#[derive(Clone, Copy)]
struct CpuTimes {
    busy: u64,
    total: u64,
}

/// A RAPL zone below /sys/class/powercap.
struct PowerZone {
    name: String,
    energy: File,
    /// Microjoules at which the counter starts again.
    range: u64,
    last: Option<(u64, u64)>,
}

/// What the kernel says of a resource in /proc/pressure (5.2, `CONFIG_PSI`): for how long some task
/// waited for it.
struct Pressure {
    counter: u64,
    name: &'static str,
    file: File,
    last: Option<Reading>,
}

/// A total that only grows, and when it was read.
#[derive(Clone, Copy)]
struct Reading {
    total: u64,
    nanoseconds: u64,
}

/// Numbers of the counters: CPU n is n, then memory, then pressure, then the power zones.
const MEMORY: u64 = 1 << 16;
const PRESSURE: u64 = 1 << 17;
const RECORDER_CPU: u64 = 1 << 18;
const RECORDER_MEMORY: u64 = RECORDER_CPU + 1;
const POWER: u64 = 1 << 19;

/// What the recorder itself takes.
struct Recorder {
    cpu_time: fn() -> Duration,
    /// /proc/self/statm, in pages.
    memory: Option<File>,
    last: Option<Reading>,
}

/// Files of /proc/pressure, and what counters of them are called.
const PRESSURES: [(&str, &str); 3] =
    [("cpu", "CPU pressure"), ("memory", "Memory pressure"), ("io", "I/O pressure")];

impl Counters {
    /// Opens what can be read on this machine.
    pub(crate) fn open(root: &Path, cpus: u32) -> Self {
        Self {
            stat: FixedPath::below(root, "proc/stat").open().ok(),
            memory: FixedPath::below(root, "proc/meminfo").open().ok(),
            power: power_zones(root),
            pressures: pressures(root),
            recorder: Recorder {
                cpu_time,
                memory: FixedPath::below(root, "proc/self/statm").open().ok(),
                last: None,
            },
            cpus,
            last_usage: vec![None; cpus as usize],
            buffer: vec![0; 64 << 10],
        }
    }

    /// What the numbers in the records mean.
    pub(crate) fn definitions(&self) -> Vec<CounterDefinition> {
        let cpus = (0..self.cpus)
            .map(|cpu| definition(u64::from(cpu), "CPU usage", Unit::Percent, Some(cpu)));
        let memory = definition(MEMORY, "Memory used", Unit::Bytes, None);
        let power = self
            .power
            .iter()
            .zip(POWER..)
            .map(|(zone, n)| definition(n, &format!("Power {}", zone.name), Unit::Watts, None));
        let pressures = self
            .pressures
            .iter()
            .map(|pressure| definition(pressure.counter, pressure.name, Unit::Percent, None));
        let recorder = [
            definition(RECORDER_CPU, "Recorder CPU", Unit::Percent, None),
            definition(RECORDER_MEMORY, "Recorder memory", Unit::Bytes, None),
        ];
        cpus.chain([memory]).chain(pressures).chain(recorder).chain(power).collect()
    }

    /// Reads everything once and hands a record for each value to `sink`.
    /// `nanoseconds` is the time now, for rates.
    pub(crate) fn poll(
        &mut self,
        ticks: u64,
        nanoseconds: u64,
        sink: &mut dyn FnMut(CounterRecord),
    ) {
        if let Some(text) = read(self.stat.as_ref(), &mut self.buffer) {
            for (cpu, now) in cpu_times(text) {
                let Some(last) = self.last_usage.get_mut(cpu as usize) else { continue };
                if let Some(before) = last.replace(now)
                    && now.total > before.total
                {
                    let busy = now.busy.saturating_sub(before.busy) as f64
                        / (now.total - before.total) as f64;
                    sink(record(ticks, u64::from(cpu), (busy * 100.0).min(100.0)));
                }
            }
        }
        if let Some(text) = read(self.memory.as_ref(), &mut self.buffer) {
            let used = kilobytes(text, "MemTotal").saturating_sub(kilobytes(text, "MemAvailable"));
            sink(record(ticks, MEMORY, (used * 1024) as f64));
        }
        for pressure in &mut self.pressures {
            let text = read(Some(&pressure.file), &mut self.buffer);
            let Some(total) = text.and_then(stalled_for) else { continue };
            let now = Reading { total, nanoseconds };
            let share = pressure.last.replace(now).and_then(|last| last.share_until(now));
            if let Some(percent) = share {
                // Both are read a moment apart.
                sink(record(ticks, pressure.counter, percent.min(100.0)));
            }
        }
        let total = (self.recorder.cpu_time)().as_micros() as u64;
        let now = Reading { total, nanoseconds };
        let used = self.recorder.last.replace(now).and_then(|last| last.share_until(now));
        if let Some(percent) = used {
            sink(record(ticks, RECORDER_CPU, percent));
        }
        let resident = read(self.recorder.memory.as_ref(), &mut self.buffer).and_then(resident);
        if let Some(bytes) = resident {
            sink(record(ticks, RECORDER_MEMORY, bytes as f64));
        }
        for (zone, counter) in self.power.iter_mut().zip(POWER..) {
            let Some(energy) =
                read(Some(&zone.energy), &mut self.buffer).and_then(|t| t.trim().parse().ok())
            else {
                continue;
            };
            if let Some(watts) = zone.watts(energy, nanoseconds) {
                sink(record(ticks, counter, watts));
            }
        }
    }
}

impl Reading {
    /// How much more there is `now`, in percent of the time between; totals are microseconds.
    fn share_until(self, now: Self) -> Option<f64> {
        let elapsed =
            now.nanoseconds.checked_sub(self.nanoseconds).filter(|elapsed| *elapsed > 0)?;
        let more = now.total.saturating_sub(self.total) as f64 * 1e3;
        Some(more / elapsed as f64 * 100.0)
    }
}

impl PowerZone {
    /// Power since the last reading. The counter starts again at `range`.
    fn watts(&mut self, energy: u64, nanoseconds: u64) -> Option<f64> {
        let (last_energy, last_time) = self.last.replace((energy, nanoseconds))?;
        let spent = energy
            .checked_sub(last_energy)
            .unwrap_or_else(|| energy + self.range.saturating_sub(last_energy));
        let elapsed = nanoseconds.checked_sub(last_time).filter(|time| *time > 0)?;
        Some(spent as f64 * 1e3 / elapsed as f64)
    }
}

fn power_zones(root: &Path) -> Vec<PowerZone> {
    let entries =
        FixedPath::below(root, "sys/class/powercap").entries().into_iter().flatten().flatten();
    let mut zones: Vec<PowerZone> = entries
        .filter_map(|entry| {
            let file = |name| FixedPath::below(&entry.path(), name);
            Some(PowerZone {
                name: file("name").read_to_string().ok()?.trim().to_owned(),
                energy: file("energy_uj").open().ok()?,
                range: file("max_energy_range_uj").read_to_string().ok()?.trim().parse().ok()?,
                last: None,
            })
        })
        .collect();
    zones.sort_by(|a, b| a.name.cmp(&b.name));
    zones
}

fn pressures(root: &Path) -> Vec<Pressure> {
    let numbered = PRESSURES.into_iter().zip(PRESSURE..);
    let opened = numbered.filter_map(|((file, name), counter)| {
        let file = FixedPath::below(&root.join("proc/pressure"), file).open().ok()?;
        // Where pressure is not accounted for (`psi=0`), the file is there and cannot be read.
        read(Some(&file), &mut [0; 256]).and_then(stalled_for)?;
        Some(Pressure { counter, name, file, last: None })
    });
    opened.collect()
}

/// Bytes of memory that a process has: the second number of statm, in pages.
fn resident(statm: &str) -> Option<u64> {
    // SAFETY: it takes a number, and answers with one.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    Some(statm.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()? * page)
}

/// For how long some task was stalled, microseconds: `total=` of the line `some`.
fn stalled_for(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

/// The file from its start, as far as the buffer goes.
fn read<'a>(file: Option<&File>, buffer: &'a mut [u8]) -> Option<&'a str> {
    let length = file?.read_at(buffer, 0).ok()?;
    std::str::from_utf8(&buffer[..length]).ok()
}

/// Busy and total time of each CPU, in the kernel's clock ticks: the `cpuN` lines of /proc/stat.
fn cpu_times(stat: &str) -> impl Iterator<Item = (u32, CpuTimes)> {
    stat.lines().filter_map(|line| {
        let (name, rest) = line.split_once(' ')?;
        let cpu = name.strip_prefix("cpu")?.parse().ok()?;
        // user nice system idle iowait irq softirq steal; guest times are in user already.
        let times: Vec<u64> =
            rest.split_ascii_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
        let total = times.iter().sum();
        let idle = times.get(3)? + times.get(4).copied().unwrap_or(0);
        Some((cpu, CpuTimes { busy: total - idle, total }))
    })
}

fn definition(counter: u64, name: &str, unit: Unit<String>, cpu: Option<u32>) -> CounterDefinition {
    CounterDefinition { counter, name: name.to_owned(), unit, cpu, ..CounterDefinition::default() }
}

fn record(ticks: u64, counter: u64, value: f64) -> CounterRecord {
    let stamp = Stamp::new(ticks, RecordKind::Counter);
    CounterRecord { stamp, counter, value: value.to_bits() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn rates_come_from_two_readings() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            "proc/stat",
            "cpu  1 1 1 1\ncpu0 10 0 10 80 0 0 0 0 0 0\ncpu1 0 0 0 100 0 0 0 0 0 0\n",
        );
        write(root.path(), "proc/meminfo", "MemTotal:  1000 kB\nMemAvailable:  400 kB\n");
        write(root.path(), "sys/class/powercap/intel-rapl:0/name", "package-0\n");
        write(root.path(), "sys/class/powercap/intel-rapl:0/energy_uj", "900\n");
        write(root.path(), "sys/class/powercap/intel-rapl:0/max_energy_range_uj", "1000\n");
        let stalled = |total| format!("some avg10=0.00 total={total}\nfull avg10=0.00 total=7\n");
        write(root.path(), "proc/pressure/io", &stalled(1_000));
        write(root.path(), "proc/pressure/cpu", "");
        write(root.path(), "proc/self/statm", "900 3 1 1 0 1 0");
        let mut counters = Counters::open(root.path(), 2);
        counters.recorder.cpu_time = || Duration::from_millis(7);
        let names: Vec<_> =
            counters.definitions().iter().map(|d| (d.name.clone(), d.cpu)).collect();
        assert_eq!(names.last().unwrap().0, "Power package-0");
        assert_eq!(names[1], ("CPU usage".into(), Some(1)));

        let (taken, page) = ((RECORDER_CPU, 0.0), resident("0 1").unwrap() as f64);
        let memory = (RECORDER_MEMORY, 3.0 * page);
        assert_eq!(polled(&mut counters, 0), [(MEMORY, 614_400.0), memory]);
        write(
            root.path(),
            "proc/stat",
            "cpu0 40 0 10 150 0 0 0 0 0 0\ncpu1 0 0 0 200 0 0 0 0 0 0\n",
        );
        write(root.path(), "sys/class/powercap/intel-rapl:0/energy_uj", "100\n");
        write(root.path(), "proc/pressure/io", &stalled(1_025));
        let second = polled(&mut counters, 100_000);
        let io = PRESSURE + 2;
        let of_machine = [(0, 30.0), (1, 0.0), (MEMORY, 614_400.0), (io, 25.0)];
        let of_recorder = [taken, memory, (POWER, 2.0)];
        assert_eq!(second, [&of_machine[..], &of_recorder].concat());
    }

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Each counter's value at that time.
    fn polled(counters: &mut Counters, time: u64) -> Vec<(u64, f64)> {
        let mut read_values = Vec::new();
        counters.poll(time, time, &mut |r| read_values.push((r.counter, f64::from_bits(r.value))));
        read_values
    }
}
