//! What a module of code is.

use serde::{Deserialize, Serialize};

/// What a module of code is. Whoever makes a module says it; its path is only shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleKind {
    /// A file that processes map for execution: an executable, a library.
    #[default]
    File,
    /// A file that lies in memory alone (`memfd_create`).
    MemoryFile,
    /// What Linux maps into every process, as the vDSO.
    Vdso,
    /// All code of Linux' kernel that is in no module of its.
    Kernel,
    /// A file that a kernel loaded: a module of Linux', of Windows each driver and the kernel
    /// itself.
    KernelModule,
    /// What a program made while it ran, in memory without a file.
    Generated,
    /// Functions of Python programs: their frames stand between those of the machine code of the
    /// interpreter that runs them.
    Python,
    /// Methods that .NET compiled and reported.
    DotNet,
}

impl ModuleKind {
    /// The path of [`Self::Kernel`].
    pub const KERNEL_PATH: &str = "[kernel.kallsyms]";
    /// The path of the vDSO in mappings.
    pub const VDSO_PATH: &str = "[vdso]";

    /// The path of modules of a kind of which there is one for all files, and so no file's.
    pub const fn path(self) -> Option<&'static str> {
        match self {
            Self::File | Self::MemoryFile | Self::KernelModule => None,
            Self::Vdso => Some(Self::VDSO_PATH),
            Self::Kernel => Some(Self::KERNEL_PATH),
            Self::Generated => Some("[anonymous]"),
            Self::Python => Some("[python]"),
            Self::DotNet => Some("[.NET]"),
        }
    }

    /// What is mapped under that path, where it is not
    /// [generated](crate::Mapping::is_generated): a kernel says by the path alone what it maps.
    pub fn of_mapping(path: &str) -> Self {
        match path {
            _ if path.starts_with("/memfd:") => Self::MemoryFile,
            _ if path.starts_with('[') => Self::Vdso,
            _ => Self::File,
        }
    }

    /// What a [table of symbols](crate::SymbolTable) with that path is of: captures say it by the
    /// path alone.
    pub fn of_symbols(path: &str) -> Self {
        if path == Self::KERNEL_PATH { Self::Kernel } else { Self::of_mapping(path) }
    }

    /// Whether it is kernel code.
    pub const fn is_kernel(self) -> bool {
        matches!(self, Self::Kernel | Self::KernelModule)
    }

    /// Whether it is a file that processes map, which most modules are.
    pub const fn is_file(&self) -> bool {
        matches!(self, Self::File)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_what_a_kernel_mapped() {
        let kinds = ["/bin/a", "[vdso]", "/memfd:runc (deleted)", r"C:\Windows\System32\ntdll.dll"]
            .map(ModuleKind::of_mapping);
        use ModuleKind::{File, MemoryFile, Vdso};
        assert_eq!(kinds, [File, Vdso, MemoryFile, File]);
    }

    /// A recorded program chooses what its files are called.
    #[test]
    fn no_mapping_is_the_kernels_code_or_an_interpreters() {
        use ModuleKind::{DotNet, Generated, Kernel, Python};
        for kind in [Kernel, Python, DotNet, Generated] {
            let mapped = ModuleKind::of_mapping(kind.path().unwrap());
            assert_eq!(mapped, ModuleKind::Vdso, "{kind:?}");
            assert!(!mapped.is_kernel());
        }
        assert_eq!(ModuleKind::of_symbols("[kernel.kallsyms]"), Kernel);
        assert_eq!(ModuleKind::of_symbols("[python]"), ModuleKind::Vdso);
    }
}
