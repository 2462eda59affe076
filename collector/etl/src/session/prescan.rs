//! The first pass: what events refer to and what may be told later than they are.

use super::address_lists::{AddressLists, ListId};
use super::clr_stacks;
use super::code::Code;
use super::facts::EventCounts;
use super::files::{FileChange, Files};
use super::gpu::{Gpu, Topology};
use super::images::{Identities, ImageAction, ImageRecord, Images, KERNEL_HALF, KERNEL_SPACE};
use super::lifetimes::{
    History, LifecycleKind, LifecycleRecords, ProcessRecord, RenameRecord, ThreadRecord,
};
use super::long_waits::{Search, WaitPart};
use super::methods::{self, MethodRecords};
use super::schemas::Schemas;
use super::stack_keys::StackKeys;
use crate::file::group;
use crate::payload::{
    self, Frames, ImageChange, ItemStack, Lifecycle, Payload, item_stacks, width,
};
use crate::{Class, Guid, Record};
use rustc_hash::FxHashMap;
use syscollect_model::Tables;
use syscollect_playback::PdbIdentity;

/// Everything that the first pass finds.
#[derive(Debug, Default)]
pub(super) struct Prescan {
    pub(super) lifecycle: LifecycleRecords,
    pub(super) code: CodeRecords,
    pub(super) stacks: StackRecords,
    pub(super) files: Files,
    pub(super) machine: MachineFacts,
    pub(super) counts: EventCounts,
    pub(super) topology: Topology,
    pub(super) schemas: Schemas,
    /// Raw time of the last record.
    pub(super) last: u64,
    /// There are events that began before their record.
    pub(super) has_intervals: bool,
}

/// What is told of code.
#[derive(Debug, Default)]
pub(super) struct CodeRecords {
    pub(super) images: Vec<ImageRecord>,
    pub(super) identities: Identities,
    pub(super) methods: MethodRecords,
    pub(super) uses: CodeUses,
}

/// What is told of stacks.
#[derive(Debug, Default)]
pub(super) struct StackRecords {
    pub(super) lists: AddressLists,
    pub(super) keys: StackKeys,
    pub(super) waits: Search,
    /// There are stacks that come behind their events.
    pub(super) is_any: bool,
    /// Room for the addresses of one stack.
    addresses: Vec<u64>,
}

/// Where code was observed, so that names can be asked for before anything is played.
/// With each the raw time when that was.
#[derive(Debug, Default)]
pub(super) struct CodeUses {
    /// Stacks by process.
    pub(super) stacks: FxHashMap<(u32, ListId), u64>,
    /// Stacks by process and key.
    pub(super) keys: FxHashMap<(u32, u64), u64>,
    /// Single addresses by thread.
    pub(super) addresses: FxHashMap<(u32, u64), u64>,
}

/// What a trace says of its machine.
#[derive(Debug, Default)]
pub(super) struct MachineFacts {
    pub(super) memory_mib: u32,
    pub(super) cpu_model: String,
    pub(super) build: String,
    pub(super) product: String,
    /// Of the sampling timer, 100 ns; 0 where nothing was said.
    pub(super) sample_interval: u32,
    /// Records whose payload has 64-bit pointers behind a header that says 32.
    pub(super) wide_payloads: u64,
    /// Some of these are the graphics kernel's.
    pub(super) wide_graphics: bool,
    /// Paths as the kernel names devices, and as people do.
    pub(super) volumes: Vec<(String, String)>,
}

impl MachineFacts {
    /// A path as people write it, where the trace says which drive a device is.
    pub(super) fn with_drive(&self, path: &mut String) {
        let replaced = self.volumes.iter().filter_map(|(device, drive)| {
            let rest = path.strip_prefix(device.as_str())?;
            let (rest, drive) = (rest.trim_start_matches('\\'), drive.trim_end_matches('\\'));
            (!device.is_empty() && !drive.is_empty())
                .then(|| (device.len(), format!("{drive}\\{rest}")))
        });
        // Devices are numbered: the longest name that fits is the right one.
        if let Some((_, replaced)) = replaced.max() {
            *path = replaced;
        }
    }
}

impl CodeUses {
    /// Locates all code that was observed.
    pub(super) fn locate(
        &self,
        code: &mut Code,
        keys: &StackKeys,
        history: &History,
        tables: &Tables,
    ) {
        for ((pid, list), at) in &self.stacks {
            code.locate(*list, *pid, *at);
        }
        for ((pid, key), at) in &self.keys {
            keys.all(*key).for_each(|list| code.locate(list, *pid, *at));
        }
        for ((tid, address), at) in &self.addresses {
            let thread = history.thread_at(*tid, *at).map(|thread| tables.thread(thread).process);
            let pid = thread.map_or(0, |process| tables.process(process).pid);
            code.code_address(pid, *at, *address);
        }
    }
}

/// Frequent records that say nothing for the first pass.
const READY_THREAD: u8 = 50;
/// The sampling source that is the timer.
const TIMER: u32 = 0;

impl Prescan {
    /// With the ticks that make a wait a long one.
    pub(super) fn new(longest_wait: u64) -> Self {
        let waits = Search::new(longest_wait);
        Self { stacks: StackRecords { waits, ..StackRecords::default() }, ..Self::default() }
    }

    /// Takes a record; they come in order of time.
    #[inline]
    pub(super) fn record(&mut self, record: &Record<'_>) {
        match record.is_64_bit {
            true => self.of_true_width(record),
            false => self.with_32_bit_header(record),
        }
    }

    /// A record whose header says 32 bits.
    #[cold]
    fn with_32_bit_header(&mut self, record: &Record<'_>) {
        let record = width::of_payload(record);
        self.machine.wide_payloads += u64::from(record.is_64_bit);
        self.machine.wide_graphics |= record.is_64_bit && width::is_of_graphics(&record);
        self.of_true_width(&record);
    }

    #[inline]
    fn of_true_width(&mut self, record: &Record<'_>) {
        self.last = self.last.max(record.timestamp);
        if let Some(task) = record.task {
            self.lifecycle.observed.on(task.pid, task.tid);
        }
        if !record.extended.0.is_empty() {
            self.own_stacks(record);
        }
        self.counts.add(&record.class);
        match record.class {
            Class::Kernel { group: group::THREAD, opcode: READY_THREAD } => {}
            Class::Kernel { .. } | Class::Classic { .. } => {
                self.payload(record, &payload::decode(record));
            }
            Class::Provider { provider, .. } if Gpu::wants(&provider) => {
                self.has_intervals = true;
                self.topology.learn_record(record);
            }
            Class::Provider { provider, id, .. } if clr_stacks::is_stack(&provider, id) => {
                self.stacks.is_any = true;
                let pid = record.task.map_or(0, |task| task.pid);
                self.stack(pid, record.timestamp, clr_stacks::frames(record));
            }
            Class::Provider { provider, id, .. } if methods::is_method(&provider, id) => {
                self.code.methods.learn(record, &provider);
            }
            Class::Provider { provider, .. } if !record.extended.0.is_empty() => {
                self.names(provider, record);
            }
            Class::Provider { .. } | Class::Wpp => {}
        }
    }

    /// The name of a provider that says it with its events.
    #[cold]
    fn names(&mut self, provider: Guid, record: &Record<'_>) {
        if self.counts.provider_names.contains_key(&provider) {
            return;
        }
        let Payload::TraceLogging(reported) = payload::decode(record) else { return };
        if let Some(name) = reported.provider_name().filter(|name| !name.is_empty()) {
            self.counts.provider_names.insert(provider, name.to_string_lossy().into_owned());
        }
    }

    fn payload(&mut self, record: &Record<'_>, payload: &Payload<'_>) {
        let at = record.timestamp;
        match payload {
            Payload::ContextSwitch(switch) => {
                self.stacks.waits.switch(at, switch.old_tid, switch.new_tid);
            }
            Payload::Sample(sample) => {
                self.code.uses.addresses.entry((sample.tid, sample.address)).or_insert(at);
            }
            Payload::Stack(stack) => {
                self.stacks.is_any = true;
                self.lifecycle.observed.on(stack.task.pid, stack.task.tid);
                let list = self.stack(stack.task.pid, at, stack.frames);
                self.stacks.waits.stack(stack.task, stack.event_timestamp, WaitPart::List(list));
            }
            Payload::StackKeyReference(reference) => {
                self.stacks.is_any = true;
                self.lifecycle.observed.on(reference.task.pid, reference.task.tid);
                self.code.uses.keys.entry((reference.task.pid, reference.key)).or_insert(at);
                let part = WaitPart::Key(reference.key, at, reference.is_kernel);
                self.stacks.waits.stack(reference.task, reference.event_timestamp, part);
            }
            Payload::StackKeyDefinition(definition) => {
                let list = self.stacks.list(definition.frames);
                self.stacks.keys.define(definition.key, at, list);
            }
            Payload::Dpc(dpc) => self.routine(at, dpc.routine),
            Payload::Isr(isr) => self.routine(at, isr.routine),
            Payload::DiskIo(io) => self.transfer(io.file),
            Payload::HardFault(fault) => self.transfer(fault.file),
            Payload::FileName(name) => {
                let change = match record.class {
                    Class::Kernel { opcode: 35, .. } => FileChange::Deleted,
                    Class::Kernel { opcode: 36, .. } => FileChange::There,
                    _ => FileChange::Created,
                };
                if self.files.wants(name.file, change) {
                    self.files.name(name.file, at, change, name.path.to_string_lossy());
                }
            }
            payload => self.add_lifecycle(at, payload),
        }
    }

    /// Something is read or written, which takes time.
    fn transfer(&mut self, file: u64) {
        self.has_intervals = true;
        self.files.reference(file);
    }

    /// A routine of the kernel that takes time.
    fn routine(&mut self, at: u64, address: u64) {
        self.has_intervals = true;
        self.code.uses.addresses.entry((0, address)).or_insert(at);
    }

    #[cold]
    fn add_lifecycle(&mut self, at: u64, payload: &Payload<'_>) {
        match payload {
            Payload::Process(process) => self.lifecycle.processes.push(ProcessRecord {
                at,
                kind: lifecycle_kind(process.lifecycle),
                pid: process.pid,
                parent: process.parent_pid,
                name: process.image_name.to_string_lossy().into_owned(),
                command_line: process.command_line.to_string_lossy(),
            }),
            Payload::Thread(thread) => self.lifecycle.threads.push(ThreadRecord {
                at,
                kind: lifecycle_kind(thread.lifecycle),
                tid: thread.tid,
                pid: thread.pid,
                name: thread.name.to_string_lossy(),
            }),
            Payload::ThreadName(name) => {
                let name = RenameRecord { at, tid: name.tid, name: name.name.to_string_lossy() };
                self.lifecycle.renames.push(name);
            }
            Payload::Image(image) => self.code.images.push(ImageRecord {
                at,
                action: match image.change {
                    ImageChange::Load => ImageAction::Load,
                    ImageChange::Unload => ImageAction::Unload,
                    _ => ImageAction::Rundown,
                },
                pid: image.pid,
                base: image.base,
                size: image.size,
                timestamp: image.timestamp,
                path: image.path.to_string_lossy(),
            }),
            Payload::EventInfo(info) => self.schemas.learn(*info),
            payload => self.machine(payload),
        }
    }

    fn machine(&mut self, payload: &Payload<'_>) {
        let machine = &mut self.machine;
        match payload {
            Payload::ImageDebugId(id) => {
                let pdb = PdbIdentity {
                    name: id.pdb.to_string_lossy().into_owned(),
                    guid: id.guid.0,
                    age: id.age,
                };
                self.code.identities.insert((Images::space_of(id.pid, id.base), id.base), pdb);
            }
            Payload::SampleInterval(interval) if interval.source == TIMER => {
                machine.sample_interval = interval.interval;
            }
            Payload::Machine(reported) => machine.memory_mib = reported.memory_mib,
            Payload::Processor(processor) if machine.cpu_model.is_empty() => {
                machine.cpu_model = processor.name.to_string_lossy().trim().to_owned();
            }
            Payload::Build(build) => {
                (machine.build, machine.product) =
                    (build.lab.to_string_lossy(), build.product.to_string_lossy());
            }
            Payload::VolumeMapping(volume) => {
                machine.volumes.push((
                    volume.kernel_path.to_string_lossy(),
                    volume.drive_path.to_string_lossy(),
                ));
            }
            _ => {}
        }
    }

    #[inline]
    fn stack(&mut self, pid: u32, at: u64, frames: Frames<'_>) -> ListId {
        let list = self.stacks.list(frames);
        let addresses = &self.stacks.addresses;
        let is_kernel = addresses.first().is_some_and(|first| *first >= KERNEL_HALF)
            && addresses.last().is_some_and(|last| *last >= KERNEL_HALF);
        let space = if is_kernel { KERNEL_SPACE } else { pid };
        self.code.uses.stacks.entry((space, list)).or_insert(at);
        list
    }

    #[cold]
    fn own_stacks(&mut self, record: &Record<'_>) {
        let pid = record.task.map_or(0, |task| task.pid);
        for stack in item_stacks(record.extended) {
            self.stacks.is_any = true;
            match stack {
                ItemStack::Frames { frames, .. } => {
                    self.stack(pid, record.timestamp, frames);
                }
                ItemStack::Key { key, .. } => {
                    self.code.uses.keys.entry((pid, key)).or_insert(record.timestamp);
                }
            }
        }
    }
}

impl StackRecords {
    fn list(&mut self, frames: Frames<'_>) -> ListId {
        self.addresses.clear();
        self.addresses.extend(frames);
        self.lists.intern(&self.addresses)
    }
}

fn lifecycle_kind(lifecycle: Lifecycle) -> LifecycleKind {
    match lifecycle {
        Lifecycle::Start => LifecycleKind::Start,
        Lifecycle::End => LifecycleKind::End,
        Lifecycle::Defunct => LifecycleKind::Defunct,
        _ => LifecycleKind::Rundown,
    }
}
