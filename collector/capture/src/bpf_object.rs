//! Loading objects of kernel programs beside the main one.
//!
//! aya reads the object and fits its calls and maps together; making the maps
//! and loading the programs is done here, because aya has no way to say that a
//! program is for links to many places, nor to share maps between objects, and
//! its loader reads all of the kernel's types each time, whoever has them already
//! (0.14: 33 ms and 20 MB, before the recording can begin).

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use aya::Btf;
use aya_obj::{Map, Object};

use crate::bpf_calls::{self, FunctionTypes, MapCreate, ProgramKind};
use crate::error::CaptureError;
use crate::ring_buffers::Ring;

/// Flags of a map that programs only read.
const RDONLY_PROG: u32 = 1 << 7;

/// An atomic operation on memory, and what it does: the register gets what was there. And what sets
/// a register.
const ATOMIC_64_BITS: u8 = 0xdb;
const EXCHANGE: i32 = 0xe1;
const MOVE_NUMBER: u8 = 0xb7;

/// Maps of other objects, by name: all use the same clock and the same set of
/// recorded processes.
pub(crate) type SharedMaps = HashMap<String, OwnedFd>;

/// How large the maps are made; as the object says by default.
#[derive(Default)]
pub(crate) struct MapSizes<'a> {
    /// Entries of maps by name; the others are as the object says.
    pub(crate) entries: &'a [(&'a str, u32)],
    /// Bytes of the ring buffers that a map of maps holds, a power of two.
    pub(crate) ring_bytes: usize,
}

/// An object whose maps are made. The kernel keeps what its programs use as
/// long as they are attached.
pub(crate) struct KernelObject {
    name: &'static str,
    object: Object,
    maps: SharedMaps,
    /// What it says of its own types, where the verifier is to know its functions by them.
    types: Option<OwnedFd>,
}

impl KernelObject {
    /// Sets the object's constants and makes its maps; those that are shared are taken as they are.
    pub(crate) fn new(
        name: &'static str,
        bytes: &[u8],
        constants: &[(&str, &[u8])],
        shared: &SharedMaps,
        sizes: &MapSizes<'_>,
    ) -> Result<Self, CaptureError> {
        Self::with_types(name, bytes, constants, shared, sizes, None)
    }

    /// The same of an object that shares nothing with others and has no constants.
    pub(crate) fn alone(
        name: &'static str,
        bytes: &[u8],
        kernel: &Btf,
    ) -> Result<Self, CaptureError> {
        let (shared, sizes) = (SharedMaps::new(), MapSizes::default());
        Self::with_types(name, bytes, &[], &shared, &sizes, Some(kernel))
    }

    /// The same of an object that says where the kernel's structures have what it reads, and has
    /// functions that the verifier looks at once: with the kernel's types.
    pub(crate) fn with_types(
        name: &'static str,
        bytes: &[u8],
        constants: &[(&str, &[u8])],
        shared: &SharedMaps,
        sizes: &MapSizes<'_>,
        kernel: Option<&Btf>,
    ) -> Result<Self, CaptureError> {
        let mut object = Object::parse(bytes).map_err(|error| broken(name, &error))?;
        let constants =
            constants.iter().map(|(constant, value)| (*constant, (*value, true))).collect();
        object.patch_map_data(constants).map_err(|error| broken(name, &error))?;
        let mut types = None;
        if let Some(kernel) = kernel {
            if let Some(known) = aya::features().btf() {
                let own =
                    object.fixup_and_sanitize_btf(known).map_err(|error| broken(name, &error))?;
                let loaded = own.map(|own| bpf_calls::load_types(&own.to_bytes())).transpose();
                types = loaded.map_err(|error| {
                    CaptureError::system(format!("loading types of {name}"), error)
                })?;
            }
            object.relocate_btf(kernel).map_err(|error| broken(name, &error))?;
        }
        let mut maps = HashMap::new();
        for (map_name, map) in &object.maps {
            let made = match shared.get(map_name) {
                Some(map) => map.try_clone(),
                None => create(map_name, map, sizes),
            };
            let made = made.map_err(|error| {
                CaptureError::system(format!("cannot make the map {map_name}"), error)
            })?;
            maps.insert(map_name.clone(), made);
        }
        let text: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
        let definitions = object.maps.clone();
        let numbers = definitions
            .iter()
            .filter_map(|(name, map)| Some((name.as_str(), maps.get(name)?.as_raw_fd(), map)));
        object.relocate_maps(numbers, &text).map_err(|error| broken(name, &error))?;
        object.relocate_calls(&text).map_err(|error| broken(name, &error))?;
        Ok(Self { name, object, maps, types })
    }

    /// A map by its name.
    pub(crate) fn map(&self, name: &str) -> Result<BorrowedFd<'_>, CaptureError> {
        self.maps.get(name).map(AsFd::as_fd).ok_or_else(|| CaptureError::Program {
            program: self.name.to_owned(),
            reason: format!("there is no map {name}"),
        })
    }

    /// How many elements a map has by the object, and how large they are.
    pub(crate) fn size_of(&self, name: &str) -> Option<(u32, usize)> {
        let map = self.object.maps.get(name)?;
        Some((map.max_entries(), map.value_size() as usize))
    }

    /// Puts a new ring buffer of a CPU into a map of maps.
    pub(crate) fn add_ring(&self, map: &str, cpu: u32, bytes: usize) -> Result<Ring, CaptureError> {
        let failed =
            |error| CaptureError::system(format!("cannot make a ring buffer of CPU {cpu}"), error);
        let buffer = create_ring(bytes).map_err(failed)?;
        let ring = Ring::map(buffer.as_fd(), bytes).map_err(failed)?;
        bpf_calls::update_map(self.map(map)?, cpu, &buffer.as_raw_fd().to_ne_bytes())
            .map_err(failed)?;
        Ok(ring)
    }

    /// Takes out the exchanges, which kernels before 5.12 refuse wherever they stand: the programs
    /// do without where a constant says so.
    pub(crate) fn without_exchanges(&mut self) {
        let instructions =
            self.object.functions.values_mut().flat_map(|function| &mut function.instructions);
        for instruction in
            instructions.filter(|one| (one.code, one.imm) == (ATOMIC_64_BITS, EXCHANGE))
        {
            let register = instruction.src_reg();
            (instruction.code, instruction.off, instruction.imm) = (MOVE_NUMBER, 0, 1);
            instruction.set_dst_reg(register);
            instruction.set_src_reg(0);
        }
    }

    /// Loads a program of this kind.
    pub(crate) fn load(&self, name: &str, kind: ProgramKind) -> Result<OwnedFd, CaptureError> {
        let program = self.object.programs.get(name);
        let Some(function) =
            program.and_then(|program| self.object.functions.get(&program.function_key()))
        else {
            let reason = format!("{} has no such program", self.name);
            return Err(CaptureError::Program { program: name.to_owned(), reason });
        };
        let instructions = &function.instructions;
        // SAFETY: instructions are 8 bytes of plain numbers each, alive while borrowed.
        let bytes = unsafe {
            std::slice::from_raw_parts(
                instructions.as_ptr().cast::<u8>(),
                size_of_val(instructions.as_slice()),
            )
        };
        let functions = self.types.as_ref().map(|types| FunctionTypes {
            types: types.as_fd(),
            functions: function.func_info.func_info_bytes(),
            count: function.func_info.len(),
            record_bytes: function.func_info_rec_size,
        });
        bpf_calls::load_program(name, bytes, &self.object.license, kind, functions.as_ref())
            .map_err(|(error, log)| refused(name, error, &log))
    }
}

fn create_ring(bytes: usize) -> io::Result<OwnedFd> {
    bpf_calls::create_map(MapCreate {
        map_type: bpf_calls::MAP_TYPE_RINGBUF,
        max_entries: bytes as u32,
        ..Default::default()
    })
}

/// Makes one of the object's own maps.
fn create(name: &str, map: &Map, sizes: &MapSizes<'_>) -> io::Result<OwnedFd> {
    let mut attr = MapCreate {
        map_type: map.map_type(),
        key_size: map.key_size(),
        value_size: map.value_size(),
        max_entries: map.max_entries(),
        map_flags: map.map_flags(),
        inner_map_fd: 0,
    };
    if let Some((_, entries)) = sizes.entries.iter().find(|(sized, _)| *sized == name) {
        attr.max_entries = *entries;
    }
    if attr.map_type == bpf_calls::MAP_TYPE_ARRAY_OF_MAPS {
        // Any ring buffer of the size shows the kernel what the elements are.
        let like = create_ring(sizes.ring_bytes)?;
        attr.inner_map_fd = like.as_raw_fd() as u32;
        return bpf_calls::create_map(attr);
    }
    if map.data().is_empty() {
        return bpf_calls::create_map(attr);
    }
    let constants = MapCreate {
        map_type: bpf_calls::MAP_TYPE_ARRAY,
        key_size: 4,
        value_size: map.data().len() as u32,
        max_entries: 1,
        map_flags: RDONLY_PROG,
        inner_map_fd: 0,
    };
    let made = bpf_calls::create_map(constants)?;
    bpf_calls::update_map(made.as_fd(), 0, map.data())?;
    bpf_calls::freeze_map(made.as_fd())?;
    Ok(made)
}

/// Permission told apart; else the end of the verifier's log.
fn refused(program: &str, error: io::Error, log: &str) -> CaptureError {
    if log.is_empty() {
        return CaptureError::system(format!("loading {program}"), error);
    }
    let lines: Vec<&str> = log.lines().collect();
    let end = lines[lines.len().saturating_sub(8)..].join("\n");
    CaptureError::Program { program: program.to_owned(), reason: format!("{error}: {end}") }
}

fn broken(program: &str, error: &dyn std::error::Error) -> CaptureError {
    CaptureError::Program { program: program.to_owned(), reason: error.to_string() }
}
