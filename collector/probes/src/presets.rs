//! Functions of unchanged libraries that tell what a program has its GPU do, where drivers tell
//! nothing.
//!
//! **Shape.** A [`LibraryPreset`] is one interface (CUDA, Vulkan, ...): the names of its libraries,
//! and its functions by their exported names, each with the parameters worth showing. All are C
//! interfaces of x86-64 System V: no exception leaves them, and parameters lie where that
//! convention puts them.
//!
//! **What is left out on purpose.** `gl*` functions: the dispatch library rewrites their code while
//! programs run, and a probe in code that changes would break the program. What a handle stands for
//! (the name of a kernel): only the driver knows.

use crate::arch::{PARAMETERS, RETURN_ADDRESS_BYTES, STACK_POINTER};
use crate::argument::{Argument, ArgumentLocation};

mod compute;
mod cuda;
mod display;

/// An interface to GPUs, as the libraries that implement it export it.
///
/// ```
/// use syscollect_probes::library_presets;
/// let cuda = library_presets().find(|preset| preset.is_of("libcuda.so.1")).unwrap();
/// let launch = cuda.function("cuLaunchKernel_ptsz").unwrap();
/// assert_eq!((cuda.track, launch.arguments[0].0), ("CUDA", "grid_x"));
/// assert!(cuda.function("cuLaunchKernelEventually").is_none());
/// ```
#[derive(Debug)]
pub struct LibraryPreset {
    /// What the machine-readable list of it is called: `"gpu_calls_cuda"`.
    pub key: &'static str,
    /// The name of the track of a thread's calls.
    pub track: &'static str,
    /// Names by which programs ask for its libraries; one that ends in a dot goes on with a
    /// version.
    libraries: &'static [&'static str],
    /// Endings of names that change nothing of what a function takes.
    variants: &'static [&'static str],
    /// Functions that return the address of the one that they are asked for, and which of their
    /// parameters names it.
    lookups: &'static [(&'static str, u8)],
    functions: &'static [FunctionPreset],
}

/// A function of such a library.
#[derive(Debug)]
pub struct FunctionPreset {
    /// Its exported name, without the ending of a variant.
    pub name: &'static str,
    /// The parameters that are shown, by name.
    pub arguments: &'static [(&'static str, Parameter)],
    /// The set of frames of which each call begins one; `None` for a function that presents
    /// nothing.
    pub frames: Option<&'static str>,
}

/// Where a parameter lies at the entry of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// The number of an integer or pointer from 0 on, and its bytes.
    Word(u8, u8),
    /// The upper 4 bytes of the word of that number: a second member of a structure passed by
    /// value.
    High(u8),
    /// What the pointer of that number points to: bytes to skip, and its bytes.
    Pointed(u8, u8, u8),
}

/// All presets.
pub fn library_presets() -> impl Iterator<Item = &'static LibraryPreset> {
    [&cuda::DRIVER, &cuda::RUNTIME, &display::VULKAN, &display::EGL, &display::GLX]
        .into_iter()
        .chain([&compute::OPENCL, &compute::HIP, &compute::HSA, &compute::LEVEL_ZERO])
}

impl LibraryPreset {
    /// Whether the library that calls itself so, or lies in a file of that name, belongs to it.
    pub fn is_of(&self, library: &str) -> bool {
        self.libraries.iter().any(|name| match name.strip_suffix('.') {
            Some(_) => library.starts_with(name),
            None => library == *name,
        })
    }

    /// The function of that exported name.
    pub fn function(&self, symbol: &str) -> Option<&'static FunctionPreset> {
        self.function_named(symbol).or_else(|| {
            self.variants
                .iter()
                .find_map(|ending| self.function_named(symbol.strip_suffix(ending)?))
        })
    }

    fn function_named(&self, name: &str) -> Option<&'static FunctionPreset> {
        self.functions.iter().find(|function| function.name == name)
    }

    /// Where the function of that exported name takes a function's name, if it is one that returns
    /// addresses of functions: programs call these by the address, and some of them nothing
    /// exports.
    pub fn lookup(&self, symbol: &str) -> Option<Parameter> {
        let found = self.lookups.iter().find(|(name, _)| *name == symbol);
        found.map(|(_, number)| Parameter::Word(*number, 8))
    }

    /// The names of its libraries for people, the first one first.
    pub fn libraries(&self) -> impl Iterator<Item = String> {
        self.libraries.iter().map(|name| match name.strip_suffix('.') {
            Some(stem) => format!("{stem}.*"),
            None => (*name).to_owned(),
        })
    }

    /// Its functions.
    pub fn functions(&self) -> &'static [FunctionPreset] {
        self.functions
    }
}

impl Parameter {
    /// How it is read at the function's first instruction.
    pub fn argument(self) -> Argument {
        let (size, place) = match self {
            Self::Word(number, size) => (size, word(number)),
            Self::High(number) => (4, high(number)),
            Self::Pointed(number, offset, size) => (size, pointed(number, offset)),
        };
        Argument { size, signed: false, float: false, place }
    }
}

/// The first words are in registers, the others on the stack above the return address.
fn word(number: u8) -> ArgumentLocation {
    match PARAMETERS.get(usize::from(number)) {
        Some(register) => ArgumentLocation::Register { register: *register, shift: 0 },
        None => on_stack(number, 0),
    }
}

fn high(number: u8) -> ArgumentLocation {
    match PARAMETERS.get(usize::from(number)) {
        Some(register) => ArgumentLocation::Register { register: *register, shift: 32 },
        None => on_stack(number, 4),
    }
}

fn on_stack(number: u8, skip: i64) -> ArgumentLocation {
    let behind = i64::from(number) - PARAMETERS.len() as i64;
    let offset = RETURN_ADDRESS_BYTES + 8 * behind + skip;
    ArgumentLocation::Memory { base: Some(STACK_POINTER), index: None, offset }
}

fn pointed(number: u8, offset: u8) -> ArgumentLocation {
    match PARAMETERS.get(usize::from(number)) {
        Some(register) => {
            ArgumentLocation::Memory { base: Some(*register), index: None, offset: offset.into() }
        }
        // It would take two reads.
        None => ArgumentLocation::Unsupported(format!("*({number})")),
    }
}

/// A function with these parameters.
const fn function(
    name: &'static str,
    arguments: &'static [(&'static str, Parameter)],
) -> FunctionPreset {
    FunctionPreset { name, arguments, frames: None }
}

/// A function that shows a picture.
const fn present(name: &'static str, frames: &'static str) -> FunctionPreset {
    FunctionPreset { name, arguments: &[], frames: Some(frames) }
}

/// The 4 bytes of a number.
const fn int(number: u8) -> Parameter {
    Parameter::Word(number, 4)
}

/// The 8 bytes of a size or a handle.
const fn long(number: u8) -> Parameter {
    Parameter::Word(number, 8)
}

#[cfg(test)]
#[path = "presets_tests.rs"]
mod tests;
