//! Which context belongs to which engine of which GPU, and what these are called.

use crate::payload::dxgkrnl::{Change, Dxgkrnl, Engine};
use rustc_hash::FxHashMap;
use syscollect_model::{ProcessId, Tables, Time};

/// Handles of one kind remembered at once; what is more stays unknown.
const MOST_HANDLES: usize = 1 << 14;
/// Engines with names of their own.
const MOST_NODES: usize = 1 << 10;
/// GPUs with numbers of their own; the rest share the next.
const MOST_ADAPTERS: usize = 64;

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Node {
    pub(super) adapter: u64,
    pub(super) number: u32,
}

/// What is known of devices, contexts and engines.
///
/// Much of it is told when a recording begins, or only when it ends: a first
/// pass learns it, and playing follows what changes.
#[derive(Clone, Debug, Default)]
pub(in crate::session) struct Topology {
    /// In order of their first use; a GPU's number is its place.
    adapters: Vec<u64>,
    /// Their GPUs.
    devices: FxHashMap<u64, u64>,
    contexts: FxHashMap<u64, Context>,
    /// Hardware queues and the contexts they belong to.
    hardware_queues: FxHashMap<u64, u64>,
    engines: FxHashMap<Node, Box<str>>,
    /// By context, the process that hands packets over to it first.
    users: FxHashMap<u64, u32>,
}

#[derive(Clone, Copy, Debug)]
struct Context {
    device: u64,
    node: u32,
    /// Where the scheduler said it; otherwise the device knows it.
    adapter: Option<u64>,
}

impl Topology {
    /// The first pass: what is told first counts from the beginning.
    pub(in crate::session) fn learn(&mut self, event: &Dxgkrnl) {
        match *event {
            Dxgkrnl::Device { device, adapter, .. } => {
                insert_new(&mut self.devices, device, adapter);
            }
            Dxgkrnl::Context { context, device, node, .. } => {
                insert_new(&mut self.contexts, context, Context { device, node, adapter: None });
            }
            Dxgkrnl::HardwareQueue { queue, context, .. } => {
                insert_new(&mut self.hardware_queues, queue, context);
            }
            Dxgkrnl::SelectContext { adapter, context, node } if context != 0 => {
                insert_new(
                    &mut self.contexts,
                    context,
                    Context { device: 0, node, adapter: Some(adapter) },
                );
            }
            Dxgkrnl::Node { .. } => self.update(event),
            _ => {}
        }
    }

    /// The first pass: a process hands a packet over.
    pub(super) fn learn_user(&mut self, context: u64, pid: u32) {
        insert_new(&mut self.users, context, pid);
    }

    /// The process whose context it is, where the first pass saw one.
    pub(super) fn user(&self, context: u64, now: Time, tables: &Tables) -> Option<ProcessId> {
        let pid = *self.users.get(&context)?;
        let index = tables
            .processes
            .iter()
            .position(|process| process.pid == pid && process.end.is_none_or(|end| now <= end))?;
        Some(ProcessId(index as u32))
    }

    /// While playing: what is told last counts from now on.
    pub(super) fn update(&mut self, event: &Dxgkrnl) {
        match *event {
            Dxgkrnl::Device { change: Change::Stop, device, .. } => {
                self.devices.remove(&device);
            }
            Dxgkrnl::Context { change: Change::Stop, context, .. } => {
                self.contexts.remove(&context);
                self.users.remove(&context);
            }
            Dxgkrnl::HardwareQueue { change: Change::Stop, queue, .. } => {
                self.hardware_queues.remove(&queue);
                self.users.remove(&queue);
            }
            Dxgkrnl::Device { device, adapter, .. } => insert(&mut self.devices, device, adapter),
            Dxgkrnl::Context { context, device, node, .. } => {
                let adapter = self
                    .contexts
                    .get(&context)
                    .filter(|known| known.device == device)
                    .and_then(|c| c.adapter);
                insert(&mut self.contexts, context, Context { device, node, adapter });
            }
            Dxgkrnl::HardwareQueue { queue, context, .. } => {
                insert(&mut self.hardware_queues, queue, context);
            }
            Dxgkrnl::SelectContext { adapter, context, node } if context != 0 => {
                let device = self.contexts.get(&context).map_or(0, |known| known.device);
                insert(
                    &mut self.contexts,
                    context,
                    Context { device, node, adapter: Some(adapter) },
                );
            }
            Dxgkrnl::Node { adapter, node, engine, ref name }
                if self.engines.len() < MOST_NODES =>
            {
                self.engines.insert(Node { adapter, number: node }, engine_name(engine, name));
            }
            _ => {}
        }
    }

    /// The GPU itself schedules what is in this queue.
    pub(super) fn is_hardware_queue(&self, queue: u64) -> bool {
        self.hardware_queues.contains_key(&queue)
    }

    /// The engine of a context or hardware queue.
    pub(super) fn node(&self, context: u64) -> Option<Node> {
        let context = self.hardware_queues.get(&context).unwrap_or(&context);
        let context = self.contexts.get(context)?;
        let adapter = context.adapter.or_else(|| self.devices.get(&context.device).copied())?;
        Some(Node { adapter, number: context.node })
    }

    /// `GPU 0 node 1 (Copy)`.
    pub(super) fn node_name(&mut self, node: Node) -> String {
        let gpu = self.gpu(node.adapter);
        let number = node.number;
        match self.engines.get(&node) {
            Some(engine) => format!("GPU {gpu} node {number} ({engine})"),
            None => format!("GPU {gpu} node {number}"),
        }
    }

    /// A GPU's number.
    pub(super) fn gpu(&mut self, adapter: u64) -> usize {
        let known = self.adapters.iter().position(|known| *known == adapter);
        known.unwrap_or_else(|| {
            if self.adapters.len() < MOST_ADAPTERS {
                self.adapters.push(adapter);
                return self.adapters.len() - 1;
            }
            MOST_ADAPTERS
        })
    }
}

fn engine_name(engine: Engine, name: &str) -> Box<str> {
    match engine {
        Engine::Other(_) if !name.is_empty() => name.into(),
        _ if name.is_empty() || name == engine.name() => engine.name().into(),
        _ => format!("{}, {name}", engine.name()).into(),
    }
}

fn insert<T>(into: &mut FxHashMap<u64, T>, handle: u64, value: T) {
    if into.len() < MOST_HANDLES || into.contains_key(&handle) {
        into.insert(handle, value);
    }
}

fn insert_new<T>(into: &mut FxHashMap<u64, T>, handle: u64, value: T) {
    if into.len() < MOST_HANDLES {
        into.entry(handle).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Node = Node { adapter: 0xa, number: 3 };

    fn device(change: Change) -> Dxgkrnl {
        Dxgkrnl::Device { change, device: 0xd, adapter: 0xa, process: 4 }
    }

    fn context(change: Change) -> Dxgkrnl {
        Dxgkrnl::Context { change, context: 0xc, device: 0xd, node: 3 }
    }

    #[test]
    fn a_context_that_is_told_of_at_the_end_is_known_from_the_beginning() {
        let mut topology = Topology::default();
        topology.learn(&context(Change::Rundown));
        topology.learn(&device(Change::Rundown));
        assert_eq!(topology.node(0xc), Some(NODE));
    }

    #[test]
    fn a_context_that_is_gone_is_unknown() {
        let mut topology = Topology::default();
        topology.update(&device(Change::Start));
        topology.update(&context(Change::Start));
        assert_eq!(topology.node(0xc), Some(NODE));
        topology.update(&context(Change::Stop));
        assert_eq!(topology.node(0xc), None);
    }

    #[test]
    fn a_hardware_queue_is_where_its_context_is() {
        let mut topology = Topology::default();
        topology.update(&Dxgkrnl::SelectContext { adapter: 0xa, context: 0xc, node: 3 });
        topology.update(&Dxgkrnl::HardwareQueue {
            change: Change::Start,
            queue: 0x9,
            context: 0xc,
        });
        assert!(topology.is_hardware_queue(0x9) && !topology.is_hardware_queue(0xc));
        assert_eq!(topology.node(0x9), Some(NODE));
    }

    #[test]
    fn an_engine_is_called_what_it_does() {
        let mut topology = Topology::default();
        topology.learn(&named(0, Engine::ThreeD, "3D"));
        topology.learn(&named(1, Engine::Other(0), "Compute_0"));
        topology.learn(&named(2, Engine::ThreeD, "High Priority"));
        topology.learn(&named(4, Engine::Copy, ""));
        let names = [0, 1, 2, 3, 4].map(|number| topology.node_name(Node { number, ..NODE }));
        assert_eq!(
            names,
            [
                "GPU 0 node 0 (3D)",
                "GPU 0 node 1 (Compute_0)",
                "GPU 0 node 2 (3D, High Priority)",
                "GPU 0 node 3",
                "GPU 0 node 4 (Copy)"
            ]
        );
    }

    fn named(node: u32, engine: Engine, name: &str) -> Dxgkrnl {
        Dxgkrnl::Node { adapter: 0xa, node, engine, name: name.to_owned() }
    }

    #[test]
    fn handles_without_end_are_not_remembered() {
        let mut topology = Topology::default();
        for context in 1..=2 * MOST_HANDLES as u64 {
            topology.update(&Dxgkrnl::SelectContext { adapter: context, context, node: 0 });
            topology.gpu(context);
        }
        assert_eq!(
            (topology.contexts.len(), topology.adapters.len()),
            (MOST_HANDLES, MOST_ADAPTERS)
        );
    }
}
