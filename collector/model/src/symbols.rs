//! Names of addresses, as they are found by a symbolizer and kept in captures.

use crate::BuildId;
use serde::{Deserialize, Serialize};

/// Names of addresses in one module.
///
/// `offset` is what was looked up: the offset in the module's file (kernel: the
/// address), already reduced by one for return addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SymbolTable {
    /// Path of the module as in its mappings; `[kernel.kallsyms]` for all kernel code.
    pub path: String,
    /// Its build id, as in its mappings.
    pub build_id: BuildId,
    /// The names, by ascending offset.
    pub symbols: Vec<Symbol>,
    /// Why nothing, or not everything, could be named; empty if all was well.
    pub note: String,
}

/// The frames at one offset, innermost first: inlined ones, then the function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Symbol {
    /// What was looked up.
    pub offset: u64,
    /// Start of the function, in the same terms; 0 if unknown.
    pub start: u64,
    /// Bytes of the function; 0 if unknown.
    pub size: u64,
    /// Name of the kernel module (`"ext4"`), else empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kernel_module: String,
    /// The frames; never empty, the last one is the function itself.
    pub frames: Vec<SymbolFrame>,
}

/// One function, perhaps inlined, at one place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SymbolFrame {
    /// Demangled name.
    pub function: String,
    /// Source file; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// Source line; 0 if unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub line: u32,
}

fn is_zero(line: &u32) -> bool {
    *line == 0
}
