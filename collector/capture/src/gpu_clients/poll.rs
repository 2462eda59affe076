//! One look at all open GPUs after the other: what is found becomes definitions and records of
//! counters.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use syscollect_model::{Ticks, Unit};
use syscollect_records::{CounterRecord, RecordKind, Stamp};
use syscollect_store::CounterDefinition;

use super::clients::{Clients, GpuPart, Series};
use super::devices::driver_of;
use super::fdinfo::{ClientUsage, Device};
use super::scan::{Answer, Scan};

/// Descriptors of other processes that are looked at in one go: some milliseconds.
const AT_ONCE: usize = 4096;
/// Devices whose drivers say nothing that are remembered.
const MOST_SILENT: usize = 64;
/// Numbers of these counters begin behind those of the machine's.
const FIRST_NUMBER: u64 = 1 << 32;

/// The state between two looks.
pub(super) struct Poll {
    root: PathBuf,
    scan: Scan,
    clients: Clients,
    /// Whether all processes have been looked at once.
    complete: bool,
    /// Open devices whose drivers tell neither memory nor use.
    silent: BTreeSet<String>,
    damaged: usize,
    reads: u64,
}

/// What came of a look.
#[derive(Debug, Default)]
pub(super) struct PolledCounters {
    pub(super) definitions: Vec<CounterDefinition>,
    pub(super) records: Vec<CounterRecord>,
}

impl Poll {
    pub(super) fn new(root: &Path) -> Self {
        let mut scan = Scan::new(root);
        scan.begin();
        let (clients, silent) = (Clients::default(), BTreeSet::new());
        Self { root: root.to_owned(), scan, clients, complete: false, silent, damaged: 0, reads: 0 }
    }

    /// Looks for open GPUs, at some processes at a time. False until all were looked at once.
    pub(super) fn look_for_more(&mut self) -> bool {
        if self.scan.go_on(AT_ONCE) {
            self.complete = true;
            self.scan.begin();
        }
        self.complete
    }

    /// Asks the drivers of all open GPUs. `clock` gives nanoseconds; all values are of these ticks,
    /// which are from before the first question, so that nobody is named who has ended.
    pub(super) fn poll(&mut self, ticks: Ticks, clock: &dyn Fn() -> u64) -> PolledCounters {
        for (pid, device) in self.scan.holders() {
            self.reads += 1;
            let now = clock();
            let answer = self.scan.read(pid, device);
            if is_silent(&answer)
                && self.silent.len() < MOST_SILENT
                && !self.silent.contains(&device.device)
            {
                self.silent.insert(device.device.clone());
            }
            let Answer::Usage(usage) = answer else { continue };
            self.damaged += usage.damaged;
            self.clients.add(pid, now, usage);
        }
        let mut found = PolledCounters::default();
        let PolledCounters { definitions, records } = &mut found;
        self.clients.end_round(
            |number, series| definitions.push(definition(number, series)),
            |number, value| {
                let (stamp, counter) =
                    (Stamp::new(ticks.0, RecordKind::Counter), FIRST_NUMBER + number);
                records.push(CounterRecord { stamp, counter, value: value.to_bits() });
            },
        );
        found
    }

    /// Descriptors that were looked at, and files of drivers that were read.
    pub(super) fn effort(&self) -> (u64, u64) {
        (self.scan.inspected(), self.reads)
    }

    /// What is not in the recording, in words.
    pub(super) fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let (refused, damaged) = (self.scan.refused(), self.damaged);
        if refused > 0 {
            missing.push(format!(
                "what {refused} processes have of GPUs is not shown: this needs cap_sys_ptrace"
            ));
        }
        if !self.complete {
            missing.push(
                "not all processes were asked for their GPU memory: the recording was too short"
                    .to_owned(),
            );
        }
        if self.scan.cut() {
            let cut = "more descriptors of processes are open than are asked for GPU memory; some \
                       are left out";
            missing.push(cut.to_owned());
        }
        if self.clients.left_out() {
            missing.push(
                "processes have more GPU regions and engines than are recorded; some are left out"
                    .to_owned(),
            );
        }
        if damaged > 0 {
            missing.push(format!(
                "{damaged} values that GPU drivers tell of processes could not be read"
            ));
        }
        let silent: BTreeSet<String> =
            self.silent.iter().map(|device| driver_of(&self.root, device)).collect();
        let names = silent.into_iter().collect::<Vec<_>>().join(", ");
        if !names.is_empty() {
            missing.push(format!("drivers that tell neither memory nor use of processes: {names}"));
        }
        missing
    }
}

fn definition(number: u64, series: &Series) -> CounterDefinition {
    let Series { pid, device: Device { driver, slot }, part } = series;
    let device = format!("{driver} {slot}");
    let (what, name, unit) = match part {
        GpuPart::Memory(region) => ("memory", region, Unit::Bytes),
        GpuPart::Engine(engine) => ("engine", engine, Unit::Percent),
    };
    CounterDefinition {
        counter: FIRST_NUMBER + number,
        name: format!("GPU {what} {name} ({})", device.trim_end()),
        unit,
        pid: Some(*pid),
        ..CounterDefinition::default()
    }
}

/// What drivers tell of processes that have a GPU open now.
#[derive(Debug, Default)]
pub(crate) struct OpenGpus {
    pub(crate) usages: Vec<ClientUsage>,
    /// Drivers that tell nothing.
    pub(crate) silent: BTreeSet<String>,
    /// Processes that may not be looked into.
    pub(crate) refused: usize,
}

/// Asks the drivers of a machine once, for `doctor`.
pub(crate) fn open_gpus(root: &Path) -> OpenGpus {
    let mut scan = Scan::new(root);
    scan.begin();
    while !scan.go_on(AT_ONCE) {}
    let mut open = OpenGpus { refused: scan.refused(), ..OpenGpus::default() };
    for (pid, device) in scan.holders() {
        match scan.read(pid, device) {
            answer if is_silent(&answer) => {
                open.silent.insert(driver_of(root, &device.device));
            }
            Answer::Usage(usage) => open.usages.push(usage),
            Answer::Gone | Answer::Silence => {}
        }
    }
    open
}

/// Whether a driver has nothing to say of a device that is open.
fn is_silent(answer: &Answer) -> bool {
    match answer {
        Answer::Gone => false,
        Answer::Silence => true,
        Answer::Usage(usage) => usage.memory.is_empty() && usage.engines.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::scan::fake::open;
    use super::*;
    use std::fs;

    const SECOND: u64 = 1_000_000_000;

    fn amdgpu(client: u64, mib: u64, gfx: u64) -> String {
        format!(
            "drm-driver:\tamdgpu\ndrm-client-id:\t{client}\ndrm-pdev:\t0000:0b:00.0\n\
             drm-memory-vram:\t{mib} MiB\ndrm-memory-gtt:\t0 KiB\ndrm-engine-gfx:\t{gfx} ns\n"
        )
    }

    /// Values by the names of their counters, in the order in which they are told.
    fn named(
        found: &PolledCounters,
        known: &mut Vec<CounterDefinition>,
    ) -> Vec<(u32, String, f64)> {
        known.extend(found.definitions.iter().cloned());
        found
            .records
            .iter()
            .map(|record| {
                let definition =
                    known.iter().find(|definition| definition.counter == record.counter).unwrap();
                (definition.pid.unwrap(), definition.name.clone(), f64::from_bits(record.value))
            })
            .collect()
    }

    #[test]
    fn a_game_allocates_renders_and_ends() {
        let root = tempfile::tempdir().unwrap();
        open(root.path(), 70, 3, "/dev/dri/renderD128", Some(&amdgpu(41, 16, 0)));
        // The same client again, and one that only shows.
        open(root.path(), 70, 4, "/dev/dri/renderD128", Some(&amdgpu(41, 16, 0)));
        open(root.path(), 71, 9, "/dev/dri/card1", Some("drm-driver:\tvkms\ndrm-client-id:\t42\n"));
        let (mut poll, mut known) = (Poll::new(root.path()), Vec::new());
        assert!(poll.look_for_more());
        let (vram, gfx) =
            ("GPU memory vram (amdgpu 0000:0b:00.0)", "GPU engine gfx (amdgpu 0000:0b:00.0)");
        let found = poll.poll(Ticks(1000), &|| 0);
        assert_eq!(named(&found, &mut known), [row(vram, 16_777_216.0)]);
        assert_eq!(found.records[0].stamp, Stamp::new(1000, RecordKind::Counter));
        open(root.path(), 70, 3, "/dev/dri/renderD128", Some(&amdgpu(41, 32, SECOND / 4)));
        let found = poll.poll(Ticks(2000), &|| SECOND);
        assert_eq!(named(&found, &mut known), [row(vram, 33_554_432.0), row(gfx, 25.0)]);
        fs::remove_dir_all(root.path().join("proc/70")).unwrap();
        let found = poll.poll(Ticks(3000), &|| SECOND);
        let mut gone = named(&found, &mut known);
        gone.sort_by(|a, b| b.1.cmp(&a.1));
        assert_eq!(gone, [row(vram, 0.0), row(gfx, 0.0)]);
        assert!(poll.poll(Ticks(4000), &|| SECOND).records.is_empty());
        let units: Vec<_> = known.iter().map(|definition| &definition.unit).collect();
        assert_eq!(units, [&Unit::Bytes, &Unit::Percent]);
        assert_eq!(
            poll.missing(),
            ["drivers that tell neither memory nor use of processes: card1"]
        );
    }

    fn row(name: &str, value: f64) -> (u32, String, f64) {
        (70, name.to_owned(), value)
    }

    #[test]
    fn what_could_not_be_read_is_said() {
        let root = tempfile::tempdir().unwrap();
        let text = "drm-driver: x\ndrm-client-id: 1\ndrm-memory-a: many\ndrm-memory-b: 4\n";
        open(root.path(), 70, 3, "/dev/dri/card0", Some(text));
        let mut poll = Poll::new(root.path());
        poll.look_for_more();
        let found = poll.poll(Ticks(1), &|| 0);
        assert_eq!(
            (found.definitions[0].name.as_str(), found.records.len()),
            ("GPU memory b (x)", 1)
        );
        assert_eq!(
            poll.missing(),
            ["1 values that GPU drivers tell of processes could not be read"]
        );
        assert_eq!(poll.effort(), (1, 1));
    }

    #[test]
    fn doctor_sees_what_is_open_now() {
        let root = tempfile::tempdir().unwrap();
        open(root.path(), 70, 3, "/dev/dri/card0", Some(&amdgpu(3, 1, 1)));
        open(root.path(), 71, 3, "/dev/dri/card0", None);
        let OpenGpus { usages, silent, refused } = open_gpus(root.path());
        assert_eq!((usages.len(), usages[0].client.number, refused), (1, 3, 0));
        assert_eq!(silent.into_iter().collect::<Vec<_>>(), ["card0"], "nobody knows its driver");
    }
}
