//! Call trees as data, a part of the report's JSON.

use serde::{Deserialize, Serialize};
use syscollect_model::ModuleKind;

/// Call trees, where they were asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallTrees {
    /// Of CPU samples.
    pub cpu: CallTree,
    /// Of time off the CPU, nanoseconds. Innermost is what was waited for.
    pub off_cpu: CallTree,
}

/// From where a tree grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TreeOrder {
    /// From each process and its threads' first functions down to what these call.
    #[default]
    Callees,
    /// From the functions that were hit, or what was waited for, up to who called them.
    Callers,
}

/// Stacks added up, as the functions that call each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallTree {
    /// From where it grows.
    pub order: TreeOrder,
    /// What the roots that there are, left out or not, add up to: samples, or nanoseconds.
    pub total: u64,
    /// What is in no node, because the threads were idle.
    pub idle: u64,
    /// What has less is left out.
    pub least: u64,
    /// Nodes with as much as `least` were left out, too: those with the least, or the deepest.
    pub is_cut: bool,
    /// Each node comes before what is below it, and before those beside it that have less.
    pub nodes: Vec<TreeNode>,
}

/// A function, as it was called from those above it (or, of callers, as it calls those).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeNode {
    /// How many nodes it is below; 0 is a root.
    pub depth: usize,
    /// What it is.
    pub kind: NodeKind,
    /// What it is called.
    pub name: String,
    /// Its module's path, if it is a function; empty where the code belongs to no file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// What its module is.
    #[serde(default, skip_serializing_if = "ModuleKind::is_file")]
    pub module_kind: ModuleKind,
    /// It is kernel code.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kernel: bool,
    /// With all that is below it, left out or not.
    pub total: u64,
    /// Without what is below it.
    #[serde(rename = "self")]
    pub own: u64,
}

/// What a node of a call tree stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// A function.
    #[default]
    Function,
    /// All processes of a name.
    Process,
    /// The outer frames that a stack lacks, and why: what is below it is no root.
    Truncated,
    /// What was waited for.
    Wait,
    /// There is no stack.
    Unknown,
}
